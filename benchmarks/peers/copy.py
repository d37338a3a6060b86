"""Copies of device memory, the roof that permutations are measured against."""

from pathlib import Path

import cupy
import torch

SOURCE = Path(__file__).with_suffix(".cu")


class Copies:
    """Three ways to copy x to y; the fastest of them in the same run is what we call copy."""

    def __init__(self):
        module = cupy.RawModule(code=SOURCE.read_text(encoding="utf-8"))
        self._vector_copy = module.get_function("vector_copy")
        self._word_copy = module.get_function("word_copy")

    def ways(self, x, y):
        """Name and call of each way, for dense tensors of one size, a multiple of 16 bytes."""
        return {
            "y.copy_(x)": lambda: y.copy_(x),
            "cudaMemcpyAsync": lambda: self._memcpy(x, y),
            "vector_copy": lambda: self.vector_copy(x, y),
        }

    def vector_copy(self, x, y):
        """16 bytes a word."""
        self._launch(self._vector_copy, x, y, 16, 1024)

    def word_copy(self, x, y):
        """4 bytes a word, one word a thread: the plainest kernel there is."""
        self._launch(self._word_copy, x, y, 4, 256)

    @staticmethod
    def _launch(kernel, x, y, width, words_of_a_block):
        words = x.nbytes // width
        if words * width != x.nbytes:
            raise ValueError(f"x has {x.nbytes} B, a multiple of {width} B is needed")
        # RawKernel checks no types: three 64-bit arguments, as the .cu file has them.
        arguments = x.data_ptr(), y.data_ptr(), words
        kernel((-(-words // words_of_a_block),), (256,), arguments, stream=_Stream())

    @staticmethod
    def _memcpy(x, y):
        device_to_device = 3
        cupy.cuda.runtime.memcpyAsync(
            y.data_ptr(), x.data_ptr(), x.nbytes, device_to_device, _Stream().ptr
        )


class _Stream:
    """torch's current stream, as CuPy takes one."""

    def __init__(self):
        self.ptr = torch.cuda.current_stream().cuda_stream
