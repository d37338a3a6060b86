"""The KernelBench problem that this project began with: its reference, its inputs, our answer."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import nn

from perm_gpu import toolchains
from perm_gpu.fast_module import FastModule
from perm_gpu.launch import Path
from perm_gpu.module import FeaturePermutation

B = 10
N = 36
SEED = 10
WIDTHS_KEPT = 64
"""Widths that one `ModelNew` keeps the permutation of."""


def reference_permutation(features: int) -> torch.Tensor:
    """torch.randperm(features), (features,) int64, with a CPU generator seeded 10."""
    generator = torch.Generator("cpu").manual_seed(SEED)
    return torch.randperm(features, generator=generator, device="cpu")


PERM = reference_permutation(N)


class Model(nn.Module):
    """The reference: y = x[:, PERM], with PERM copied from the host on every call.

    Args:
        features: Width of x; 36 in the problem itself.
    """

    def __init__(self, features: int = N) -> None:
        super().__init__()
        self._permutation = PERM if features == N else reference_permutation(features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, features) -> (rows, features)."""
        return x[:, self._permutation.to(device=x.device)]


class ModelNew(FastModule):
    """The reference's answer for x (..., N), for any N and any batch, without its cost.

    The permutation is `reference_permutation(N)`, with N taken from each input.

    Args:
        toolchain: See `FeaturePermutation`.

    Raises:
        ToolchainError: The named toolchain is not there.
    """

    _widths: OrderedDict[int, FeaturePermutation]

    def __init__(self, *, toolchain: str = "auto") -> None:
        super().__init__()
        if toolchain != "auto":
            toolchains.candidates(toolchain)
        self.toolchain = toolchain
        self._prepare()

    def forward(self, x: Any) -> Any:
        """(..., N) -> (..., N), fresh and dense."""
        if torch.compiler.is_compiling():
            # The permutation is drawn from a generator, which TorchDynamo does not trace.
            from perm_gpu import uncompiled

            return uncompiled.call(self._fast, x)
        return self._fast(x)

    def _serve(self, x: torch.Tensor) -> torch.Tensor:
        return self._permutation(x)._serve(x)

    def _path(self, x: torch.Tensor) -> Path | None:
        return self._permutation(x).fast_path(x, self._general)

    def _permutation(self, x: torch.Tensor) -> FeaturePermutation:
        features = int(x.shape[-1]) if x.dim() and not x.is_nested else 0  # both are refused later
        permutation = self._widths.get(features)
        if permutation is None:
            # A thread of its own is in no transform, mode or inference, which would draw a
            # permutation of their own kind.
            with ThreadPoolExecutor(1) as pool:
                permutation = pool.submit(self._drawn, features).result()
            permutation = self._widths.setdefault(features, permutation)
            if len(self._widths) > WIDTHS_KEPT:
                self._widths.popitem(last=False)
        return permutation

    def _drawn(self, features: int) -> FeaturePermutation:
        return FeaturePermutation(reference_permutation(features), toolchain=self.toolchain)

    def _prepare(self) -> None:
        super()._prepare()
        self.__dict__["_widths"] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        del state["_widths"]
        return state


def jitter_int(value: int) -> int:
    """A random integer within 15 % of `value`: 8 .. 11 for 10, from torch's global generator."""
    low, high = int(0.85 * value), int(1.15 * value) + 1
    return int(torch.randint(low, high, ()))


def get_inputs() -> list[torch.Tensor]:
    """One float32 tensor (8 .. 11, 36), on CUDA where that is available."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return [torch.randn(jitter_int(B), N, device=device)]


def get_init_inputs() -> list[Any]:
    """The reference takes none."""
    return []
