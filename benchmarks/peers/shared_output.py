"""The design of a published KernelBench run: one output buffer, allocated once, for 10 rows only.

It is wrong for any other batch, and a later call overwrites what an earlier one returned. It saves
the allocation, so it shows what that is worth.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ROWS = 10

CPP = "void permute(torch::Tensor x, torch::Tensor y);"

CUDA = """
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__constant__ int source_column[{features}] = {{{perm}}};

__global__ void permute_rows(const float* __restrict__ x, float* __restrict__ y) {{
    const int column = threadIdx.x;
    const int start = blockIdx.x * {features};
    if (column < {features}) y[start + column] = x[start + source_column[column]];
}}

void permute(torch::Tensor x, torch::Tensor y) {{
    permute_rows<<<{rows}, 128, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(),
                                                                       y.data_ptr<float>());
}}
"""


class SharedOutput(nn.Module):
    """y = x[:, perm] for float32 x (10, features), into the same y every time.

    Building it takes nvcc, a C++ compiler and about a minute.
    """

    def __init__(self, perm):
        super().__init__()
        features = len(perm)
        source = CUDA.format(features=features, rows=ROWS, perm=", ".join(map(str, perm.tolist())))
        extension = load_inline(
            name="perm_gpu_shared_output",
            cpp_sources=CPP,
            cuda_sources=source,
            functions=["permute"],
            extra_cuda_cflags=["-O3"],
        )
        self._permute = extension.permute
        self._y = torch.empty(ROWS, features, device="cuda")

    def forward(self, x):
        """(10, features) -> the one (10, features) output there is."""
        self._permute(x, self._y)
        return self._y
