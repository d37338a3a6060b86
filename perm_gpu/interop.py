"""DLPack in and out: arrays of other libraries, and the proof that memory is shared."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from perm_gpu.errors import InputError, InputTypeError

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
"""A dtype of each width that every torch operator and every exporter knows."""


def bits(x: torch.Tensor) -> torch.Tensor:
    """x as integers (complex128 for 16 bytes) of its width: the same memory, no autograd."""
    return x.detach().view(BITS[x.element_size()])


def require_shared(x: torch.Tensor) -> None:
    """Checks that the DLPack view of a CUDA tensor is the memory that a launch would use.

    A launch passes the pointer itself, because making the view costs 15 us a call; so its pointer,
    shape and strides are compared once for each device and element size.

    Raises:
        InputError: They differ.
    """
    import cupy

    view = cupy.from_dlpack(bits(x))
    strides = [s // view.itemsize for s in view.strides]
    shared = view.data.ptr, view.shape, steps(view.shape, strides)
    launched = x.data_ptr(), tuple(x.shape), steps(x.shape, x.stride())
    if shared != launched:
        raise InputError(
            f"the DLPack view of x has (pointer, shape, strides) {shared}, the tensor {launched}: "
            "pass a plain strided tensor"
        )


def steps(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The strides that are ever taken: DLPack leaves those of axes of length 1 open."""
    return tuple(stride for length, stride in zip(shape, strides, strict=True) if length > 1)


def from_foreign(array: Any) -> tuple[torch.Tensor, Callable[[torch.Tensor], Any]]:
    """A tensor on the memory of an array of another library, and the way back to its kind.

    Args:
        array: Anything that speaks DLPack and names its array namespace (CuPy, JAX, NumPy, ...), or
            a Numba device array. What is read-only or has negative strides is copied.

    Raises:
        InputTypeError: It is neither, or has a dtype that DLPack does not know.
    """
    # Numba's arrays have the interface, and newer ones DLPack too, but no from_dlpack. Only who has
    # imported numba.cuda can hold one.
    numba_cuda = sys.modules.get("numba.cuda")
    if numba_cuda is not None and isinstance(array, numba_cuda.devicearray.DeviceNDArray):
        return torch.as_tensor(array, device="cuda"), numba_cuda.as_cuda_array
    if hasattr(array, "__array_namespace__"):
        library = array.__array_namespace__()
    else:  # CuPy names none
        library = sys.modules.get(type(array).__module__.partition(".")[0])
    if isinstance(array, np.ma.MaskedArray):
        raise InputTypeError(
            "x is a masked array, whose mask would be lost: permute x.data and x.mask"
        )
    if hasattr(array, "__dlpack__") and hasattr(library, "from_dlpack"):
        backwards = any(stride < 0 for stride in getattr(array, "strides", None) or ())
        writeable = getattr(getattr(array, "flags", None), "writeable", True)
        if backwards or not writeable:
            # torch ends the process over strides below 0, and until 2.9 takes nothing read-only.
            array = array.copy()
        try:
            return torch.utils.dlpack.from_dlpack(array), library.from_dlpack
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise InputTypeError(
                f"x is a {type(array).__module__}.{type(array).__qualname__} of "
                f"{getattr(array, 'dtype', 'no dtype')}, which cannot be shared through DLPack: "
                f"{error}"
            ) from error
    raise InputTypeError(
        f"x is a {type(array).__module__}.{type(array).__qualname__}, which is neither a torch "
        "tensor nor an array with DLPack or the CUDA array interface: convert it first, for "
        "example with torch.as_tensor(x)"
    )
