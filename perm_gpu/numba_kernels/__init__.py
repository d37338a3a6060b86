"""The kernels of raw_kernels/ in Numba, one file each.

A file defines `build(**specialisation)`, which returns the kernel as a plain function, its Numba
signature and its slots: which argument of the launch (0 is x, 1 is y, ...) each parameter takes.
A parameter that needs two views of x, words and elements, takes slot 0 twice.
"""

from numba import types

UNSIGNED = {1: types.uint8, 2: types.uint16, 4: types.uint32, 8: types.uint64}
"""The unsigned type of a width in bytes. 16-byte elements reach Numba as two 8-byte ones."""


def pointer(width: int):
    """A pointer to unsigned integers of `width` bytes."""
    return types.CPointer(UNSIGNED[width])
