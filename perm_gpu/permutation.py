"""The permutation as the host knows it: checked once, immutable, with its inverse and structure.

y[..., j] = x[..., perm[j]] for 0 <= j < N. NumPy only: no torch, no GPU.
"""

from __future__ import annotations

import hashlib
import math
import operator
import weakref
from collections.abc import Iterator
from functools import cached_property
from reprlib import repr as shortened
from typing import Any, final

import numpy as np
import numpy.typing as npt

from perm_gpu.errors import InputError, InputTypeError
from perm_gpu.permutation_input import checked_array

CHUNK = 1 << 16  # entries compared at a time: a search that fails early stops early


@final
class Permutation:
    """A permutation of N features. Immutable; equal and hashed by content; pickles and copies.

    `perm` holds each of 0 .. N-1 once: a list, a tuple, a range, a torch tensor on any device, what
    `numpy.asarray` reads, or a Permutation; any integer dtype, any strides, N = 0 too. It is
    copied, so later changes to it are not seen.

    Checked in this order: a sequence at all (PermutationTypeError), one dimension
    (InvalidPermutationError), integers (PermutationTypeError), then from left to right the first
    entry that is out of range (PermutationRangeError) or repeated (InvalidPermutationError).
    Lists and tuples are read entry by entry, so there the first entry of a wrong kind is named.
    """

    array: npt.NDArray[np.int64]
    """The permutation, (N,), C-contiguous, read-only; y[j] = x[array[j]]."""
    _origin: weakref.ref[Permutation] | None = None  # strong would be a cycle, freed late

    def __init__(self, perm: Any) -> None:
        self._hold(perm.array if isinstance(perm, Permutation) else checked_array(perm))

    @classmethod
    def _trusted(cls, array: npt.NDArray[np.int64]) -> Permutation:
        """A Permutation of an array that is ours and known to be valid."""
        permutation = cls.__new__(cls)
        permutation._hold(array)
        return permutation

    def _hold(self, array: npt.NDArray[np.int64]) -> None:
        array.flags.writeable = False
        self.__dict__["array"] = array.view()  # of a read-only owner: it stays read-only

    @property
    def features(self) -> int:
        """N, the number of features."""
        return self.array.size

    @property
    def inverse(self) -> Permutation:
        """The permutation q with q[perm[j]] = j; made once; `inverse.inverse` is this object."""
        origin = self._origin() if self._origin is not None else None
        if origin is not None:
            return origin
        if "_inverse" not in self.__dict__:
            array = np.empty_like(self.array)
            array[self.array] = np.arange(self.features, dtype=np.int64)
            inverse = Permutation._trusted(array)
            inverse.__dict__["_origin"] = weakref.ref(self)
            self.__dict__.setdefault("_inverse", inverse)  # one winner among threads
        kept: Permutation = self.__dict__["_inverse"]
        return kept

    @cached_property
    def digest(self) -> bytes:
        """16 bytes of content hash: BLAKE2b of the entries as little-endian int64."""
        return hashlib.blake2b(self.array.astype("<i8", copy=False).data, digest_size=16).digest()

    @cached_property
    def granule(self) -> int:
        """Features that move together: the largest g dividing N such that each block of g features
        stays whole and starts at a multiple of g (perm[g*k] % g == 0, perm[g*k+i] = perm[g*k]+i).

        N for the identity, 1 for N = 0 (so that N // granule is always defined).
        """
        # Breaks are where an entry does not follow the one before it. No block holds one, so g
        # divides every break and N. That is enough: all runs are then multiples of g long, and
        # so is what lies below the first entry of a run, which is whole runs too.
        granule = max(self.features, 1)
        for start in range(1, self.features, CHUNK):
            if granule == 1:
                break
            steps = np.diff(self.array[start - 1 : start + CHUNK])
            breaks = np.flatnonzero(steps != 1) + start
            granule = math.gcd(granule, int(np.gcd.reduce(breaks)))
        return granule

    @cached_property
    def period(self) -> int:
        """The smallest T dividing N such that each block of T features is permuted within itself
        and in the same way: perm[j] = T*(j//T) + local[j % T]. N if there is none, 1 for N = 0."""
        # The displacement perm[j] - j repeats with T. Its periods that divide N are the multiples
        # of the smallest, so taking one prime at a time out of N ends there.
        period = max(self.features, 1)
        for prime in _primes_of(period):
            while period % prime == 0 and self._repeats(period // prime, period):
                period //= prime
        return period

    def _repeats(self, shift: int, length: int) -> bool:
        """Whether perm[j+shift] = perm[j] + shift wherever 0 <= j < length - shift."""
        ahead, behind = self.array[shift:length], self.array[: length - shift]
        return all(
            np.array_equal(ahead[start : start + CHUNK], behind[start : start + CHUNK] + shift)
            for start in range(0, length - shift, CHUNK)
        )

    @property
    def is_identity(self) -> bool:
        """Whether perm[j] = j for every j; true for N = 0."""
        return self.granule == max(self.features, 1)

    def expand(self, words: int) -> Permutation:
        """The permutation of N*words words that moves each feature as `words` consecutive ones:
        expanded[words*j + i] = words*perm[j] + i. `words` below 1 is an InputError."""
        words = _at_least(1, "words", words)
        expanded = np.repeat(self.array * words, words)
        expanded.reshape(-1, words)[...] += np.arange(words)
        return Permutation._trusted(expanded)

    def offsets(self, rows: int = 1) -> npt.NDArray[np.unsignedinteger[Any]]:
        """The offset table of `rows` stacked dense rows, in elements: (rows*N,), entry r*N + j is
        r*N + perm[j]. Its dtype is `offset_dtype(rows*N)`. `rows` below 1 is an InputError."""
        rows = _at_least(1, "rows", rows)
        dtype = offset_dtype(rows * self.features)
        row_starts = (np.arange(rows, dtype=np.int64) * self.features).astype(dtype)
        table: npt.NDArray[np.unsignedinteger[Any]] = row_starts[:, None] + self.array.astype(dtype)
        return table.reshape(-1)

    def __len__(self) -> int:
        return self.features

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Permutation):
            return NotImplemented
        return self is other or np.array_equal(self.array, other.array)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Permutation({shortened(self.array[:7].tolist())}, features={self.features})"

    def __setattr__(self, name: str, *value: object) -> None:
        raise AttributeError(f"Permutation is immutable: {name!r} can be neither set nor deleted")

    __delattr__ = __setattr__

    def __deepcopy__(self, memo: object = None) -> Permutation:
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> tuple[type[Permutation], tuple[npt.NDArray[Any]]]:
        # The narrow table keeps a pickle small; loading checks it again.
        return Permutation, (self.offsets(),)


def offset_dtype(count: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The narrowest dtype of the offsets 0 .. count-1: uint16 up to 65,536 offsets, uint32 up to
    2^32, else uint64. A negative count is an InputError."""
    count = _at_least(0, "count", count)
    if count <= 1 << 16:
        return np.dtype(np.uint16)
    return np.dtype(np.uint32) if count <= 1 << 32 else np.dtype(np.uint64)


def _at_least(least: int, name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise InputTypeError(f"{name} is {shortened(value)}, but must be an integer")
    number = operator.index(value)
    if number < least:
        raise InputError(f"{name} is {number}, but must be at least {least}")
    return number


def _primes_of(number: int) -> Iterator[int]:
    """The distinct prime factors of `number`, ascending."""
    for divisor in range(2, math.isqrt(number) + 1):
        if number % divisor == 0:
            yield divisor
        while number % divisor == 0:
            number //= divisor
    if number > 1:
        yield number
