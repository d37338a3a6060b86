"""Reading what a user passes as a permutation, and saying exactly what is wrong with it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from reprlib import repr as shortened
from typing import Any

import numpy as np
import numpy.typing as npt

from perm_gpu.errors import InvalidPermutationError, PermutationRangeError, PermutationTypeError


def checked_array(perm: Any) -> npt.NDArray[np.int64]:
    """A fresh C-contiguous (N,) int64 copy of `perm`, which holds each of 0 .. N-1 once.

    Errors and their order are those of `Permutation`. One scatter over N bytes finds duplicates,
    so that a good permutation is checked without sorting; a bad one pays for the exact position.
    """
    entries, array = _read(perm)
    features = array.size
    if not features:
        return array
    if array.min() >= 0 and array.max() < features:
        seen = np.zeros(features, np.bool_)
        seen[array] = True
        if seen.all():
            return array
    raise _first_fault(entries, array)


def _first_fault(entries: Any, array: npt.NDArray[np.int64]) -> Exception:
    """The error for the leftmost entry of `array` that is out of range or repeats an earlier one.

    `entries` holds the values as they were passed: past int64 they differ from those of `array`.
    """
    features = array.size
    outside = np.flatnonzero((array < 0) | (array >= features))
    if outside.size:
        array = array[: outside[0]]  # only a duplicate further left comes first
    repeated = np.ones(array.size, np.bool_)
    repeated[np.unique(array, return_index=True)[1]] = False
    expected = f"but perm must hold each of 0 .. {features - 1} once"
    if repeated.any():
        position = int(repeated.argmax())
        value = int(array[position])
        first = int((array == value).argmax())
        return InvalidPermutationError(
            f"perm[{position}] = {value}, {expected}: perm[{first}] = {value} too"
        )
    position = int(outside[0])
    value = int(entries[position])
    hint = f"entries start at 0, so the last of {features} is {features - 1}"
    if value < 0:
        hint = "negative indices do not count from the end"
    return PermutationRangeError(f"perm[{position}] = {shortened(value)}, {expected}: {hint}")


def _read(perm: Any) -> tuple[Any, npt.NDArray[np.int64]]:
    """The entries of `perm` as passed, and a fresh int64 copy: same signs, same order."""
    if isinstance(perm, range):
        # Equal ranges hold equal entries; only these two are permutations.
        features = len(perm)
        if perm == range(features):
            return perm, np.arange(features, dtype=np.int64)
        if perm == range(features)[::-1]:
            return perm, np.arange(features, dtype=np.int64)[::-1].copy()
        perm = list(perm)
    if isinstance(perm, (list, tuple)):
        return _read_sequence(perm)
    values = _values(perm)
    if values.ndim == 0 and values.dtype.kind not in "iu":
        raise PermutationTypeError(
            f"perm is {shortened(perm)}, but perm must be a sequence of integers: "
            "a list, a range, a one-dimensional array or tensor"
        )
    if values.ndim != 1:
        raise InvalidPermutationError(
            f"perm has shape {values.shape}, but perm must have one dimension of N entries"
        )
    if values.dtype.kind == "O":
        return _read_sequence(values.tolist())
    if values.size and values.dtype.kind not in "iu":
        raise _not_an_integer(0, values[:1].tolist()[0], values.dtype.name)
    # uint64 entries past int64 become negative: out of range either way.
    return values, values.astype(np.int64)


def _values(perm: Any) -> npt.NDArray[Any]:
    """`perm` as an array of any dtype and rank; a torch tensor is known by its methods."""
    kind = type(perm).__name__
    is_tensor = hasattr(perm, "detach") and hasattr(perm, "cpu")
    if is_tensor:
        if perm.device.type == "meta":
            raise PermutationTypeError(
                f"perm is a {kind} on device meta, which holds no values, "
                "but perm must hold integers that the host can read"
            )
        perm = perm.detach().cpu()  # not in the try: a CUDA failure here is no fault of perm's
    try:
        return np.asarray(perm.numpy() if is_tensor else perm)
    except (TypeError, RuntimeError) as error:
        described = f"{kind} of {perm.dtype}" if hasattr(perm, "dtype") else kind
        raise PermutationTypeError(
            f"perm is a {described}, which cannot be read as an array of integers: {error}"
        ) from error


def _read_sequence(entries: Sequence[Any]) -> tuple[Sequence[Any], npt.NDArray[np.int64]]:
    """As `_read`, for a list or tuple, whose entries may be of several types."""
    if not set(map(type, entries)) <= {int}:
        entries = [_integer(position, entry) for position, entry in enumerate(entries)]
    try:
        return entries, np.array(entries, np.int64)
    except OverflowError:
        features = len(entries)
        return entries, np.array([min(max(entry, -1), features) for entry in entries], np.int64)


def _integer(position: int, entry: Any) -> int:
    """`entry` as an int, unless it is a sequence, a boolean or no integer."""
    if isinstance(entry, (list, tuple, range)) or getattr(entry, "ndim", 0) > 0:
        raise InvalidPermutationError(
            f"perm[{position}] = {shortened(entry)} is a {type(entry).__name__}, "
            "but perm must have one dimension of N entries"
        )
    dtype = str(getattr(entry, "dtype", type(entry).__name__))
    if dtype.endswith("bool"):  # bool, numpy.bool and torch.bool have __index__ or may have
        raise _not_an_integer(position, entry, dtype)
    try:
        return operator.index(entry)
    except TypeError:
        raise _not_an_integer(position, entry, dtype) from None


def _not_an_integer(position: int, entry: Any, dtype: str) -> PermutationTypeError:
    return PermutationTypeError(
        f"perm[{position}] = {shortened(entry)} is {dtype}, but perm must hold integers: "
        "convert it first, with .long() in torch or .astype('int64') in NumPy"
    )
