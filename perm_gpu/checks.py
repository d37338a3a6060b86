"""What a call accepts: dtypes, shapes, and where the result may go."""

from __future__ import annotations

import numpy as np
import torch

from perm_gpu.driver import is_plain
from perm_gpu.errors import InputError, InputTypeError

DTYPES = frozenset(
    getattr(torch, name)
    for name in (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "bfloat16", "float32", "float64"),
        *("complex32", "bcomplex32", "complex64", "complex128"),
        *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    )
    if hasattr(torch, name)  # float8_e8m0fnu came with torch 2.7, bcomplex32 with 2.14
)
"""Dtypes with one element in each 1, 2, 4, 8 or 16 bytes. Packed and quantised ones are not."""


def check_input(x: torch.Tensor, features: int) -> None:
    """Refuses an x that a permutation of `features` features does not apply to."""
    if not isinstance(x, torch.Tensor):
        raise InputTypeError(
            f"x is a {type(x).__qualname__}, and with out= a torch tensor is needed: leave out= "
            "away, or pass torch.as_tensor(x)"
        )
    if x.dtype not in DTYPES:
        raise InputTypeError(
            f"x has dtype {x.dtype}, whose elements are packed or quantised and cannot be moved by "
            "their bytes alone: permute the dequantised tensor, or its integer representation"
        )
    if x.is_nested:
        raise InputTypeError("x is nested, a plain tensor is needed: permute its parts one by one")
    if x.layout is not torch.strided:
        raise InputTypeError(f"x has layout {x.layout}, torch.strided is needed: call x.to_dense()")
    if x.dim() == 0:
        raise InputError("x has 0 dimensions, at least 1 is needed: the last is permuted")
    if x.shape[-1] != features:
        raise InputError(
            f"the last axis of x, of shape {tuple(x.shape)}, has {x.shape[-1]} features, and the "
            f"permutation has {features}: pass x of shape (..., {features})"
        )


def check_output(x: torch.Tensor, out: torch.Tensor) -> None:
    """Refuses an `out` that cannot take the result for x."""
    if not isinstance(out, torch.Tensor):
        raise InputTypeError(f"out is a {type(out).__qualname__}, a torch tensor is needed")
    if out.layout is not torch.strided or out.is_nested:
        kind = "is nested" if out.layout is torch.strided else f"has layout {out.layout}"
        raise InputTypeError(f"out {kind}, torch.strided is needed")
    if out.dtype is not x.dtype:
        raise InputTypeError(f"out has dtype {out.dtype} and x has {x.dtype}: they must be equal")
    if out.device != x.device:
        raise InputError(f"out is on {out.device} and x on {x.device}: they must be the same")
    if out.shape != x.shape:
        raise InputError(
            f"out has shape {tuple(out.shape)} and x has {tuple(x.shape)}: they must be equal"
        )
    if out.is_conj() or out.is_neg():
        raise InputError("out is a conjugate or negative view: pass memory that is neither")
    if torch.is_grad_enabled() and (x.requires_grad or out.requires_grad):
        raise InputError(
            "out= cannot be differentiated, and x or out requires grad: leave out= away, or call "
            "under torch.no_grad()"
        )
    if not (is_plain(x) and is_plain(out)):
        return  # no address to compare, and the result is made before it is copied to out
    if _overlaps_itself(out):
        raise InputError(
            f"out has shape {tuple(out.shape)} and strides {out.stride()}, by which elements may "
            "share memory: pass memory of its own for each"
        )
    if _overlap(x, out):
        raise InputError(
            f"out at {out.data_ptr():#x} shares memory with x at {x.data_ptr():#x}: a permutation "
            "cannot be done in place; pass other memory, or no out="
        )


def _overlaps_itself(out: torch.Tensor) -> bool:
    """Whether two elements may share memory; True too for rare strides that interlock."""
    end = 0  # of the axes so far: how far their last element is from their first
    for stride, length in sorted(zip(out.stride(), out.shape, strict=True)):
        if length > 1 and stride <= end:
            return out.numel() > 0
        end += (length - 1) * stride
    return False


def _overlap(x: torch.Tensor, out: torch.Tensor) -> bool:
    """Whether any byte belongs to both; also True where that would take long to find out."""
    if x.numel() == 0 or x.device.type == "meta":
        return False
    first, second = _extent(x), _extent(out)
    if first[1] <= second[0] or second[1] <= first[0]:
        return False
    try:
        # NumPy's stubs know two values of max_work, NumPy any.
        return np.shares_memory(_Memory(x).array(), _Memory(out).array(), 10_000)  # type: ignore
    except np.exceptions.TooHardError:
        return True


def _extent(x: torch.Tensor) -> tuple[int, int]:
    """Address of the first byte of x, and the one after its last."""
    last = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    return x.data_ptr(), x.data_ptr() + (last + 1) * x.element_size()


class _Memory:
    """The addresses of a tensor as NumPy sees them, on any device: nothing is ever read."""

    def __init__(self, x: torch.Tensor) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (x.data_ptr(), True),
            "typestr": f"|V{x.element_size()}",
            "shape": tuple(x.shape),
            "strides": tuple(s * x.element_size() for s in x.stride()),
        }

    def array(self) -> np.ndarray[tuple[int, ...], np.dtype[np.void]]:
        return np.asarray(self)
