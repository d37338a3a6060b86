"""The variants: what each refuses, where another is faster, its geometry and its tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perm_gpu.permutation import Permutation, offset_dtype
from perm_gpu.problem import WIDEST, Launch, Problem, alignment

MULTIPROCESSOR_THREADS = 2048
"""Threads of a multiprocessor of sm_80, sm_90 and sm_100, which leave 32 registers to each."""


@dataclass(frozen=True, slots=True)
class Tables:
    """What a kernel gets behind (x, y, elements, row_stride)."""

    offsets: npt.NDArray[np.unsignedinteger] | None
    """Goes to device memory, its address is the next argument; None where there is no table."""
    scalars: tuple[int, ...]
    """64-bit arguments after that."""


class Variant(ABC):
    """One algorithm. Its name is its file stem, entry point, registry name and test id."""

    name: str

    def rejects(self, problem: Problem) -> str | None:
        """Why this variant cannot run `problem`, with both numbers; None where it can."""
        return None

    def yields(self, problem: Problem) -> str | None:
        """Why a later variant is faster at `problem`; None where this one is. Never a limit."""
        return None

    @abstractmethod
    def geometry(self, problem: Problem) -> Launch:
        """The launch of `problem`, which this variant does not reject."""

    @abstractmethod
    def tables(self, permutation: Permutation, launch: Launch) -> Tables:
        """What the kernel reads besides x; depends on nothing but the two arguments."""


def index_bytes(problem: Problem) -> int:
    """Bytes of an index into y: 32-bit division is some ten times cheaper than 64-bit division.

    2^31 and not 2^32, so that the last block may count past the end.
    """
    return 4 if problem.elements < 1 << 31 else 8


class Gather(Variant):
    """Straight from global memory: any row stride, any alignment, any size."""

    name = "gather"
    threads = 256

    def geometry(self, problem: Problem) -> Launch:
        """Several elements a thread once that still leaves every multiprocessor busy."""
        items = 1 if problem.elements < 1 << 19 else 4
        return Launch(
            threads=self.threads,
            block_elements=self.threads * items,
            specialisation=(
                ("element_bytes", problem.element_bytes),
                ("offset_bytes", offset_dtype(problem.features).itemsize),
                ("index_bytes", index_bytes(problem)),
                ("threads", self.threads),
                ("items", items),
            ),
        )

    def tables(self, permutation: Permutation, launch: Launch) -> Tables:
        """The permutation itself, and its length."""
        return Tables(permutation.offsets(), (permutation.features,))


class Baked(Variant):
    """The permutation in the kernel's parameters: one memory latency, for launch-bound sizes."""

    name = "baked"
    threads = 192
    """Two blocks at (10, 36): fewer fetch less code, one leaves latencies in a row."""
    features_limit = 128
    """8-bit entries reach to 256, but there the selects of the Numba kernel cost twice a gather."""

    def rejects(self, problem: Problem) -> str | None:
        """Rows longer than `features_limit`."""
        if 0 < problem.features <= self.features_limit:
            return None
        return (
            f"it has {problem.features} features, kernel parameters are used for "
            f"1 .. {self.features_limit}"
        )

    def yields(self, problem: Problem) -> str | None:
        """Larger problems are bound by bandwidth, where one element a thread is too little."""
        limit = 1 << 17
        if problem.elements < limit:
            return None
        return f"{problem.elements} elements are not launch-bound, fewer than {limit} are"

    def geometry(self, problem: Problem) -> Launch:
        """One element a thread."""
        return Launch(
            threads=self.threads,
            block_elements=self.threads,
            specialisation=(
                ("element_bytes", problem.element_bytes),
                ("index_bytes", index_bytes(problem)),
                ("threads", self.threads),
                ("features", problem.features),
                ("dense", int(problem.dense)),
            ),
        )

    def tables(self, permutation: Permutation, launch: Launch) -> Tables:
        """Eight entries to a word, the first in the lowest byte."""
        entries = np.zeros(-(-permutation.features // 8) * 8, np.uint8)
        entries[: permutation.features] = permutation.array
        return Tables(None, tuple(entries.view("<u8").tolist()))


class Tile(Variant):
    """Whole rows staged in shared memory: reads and writes coalesce whatever the permutation."""

    name = "tile"
    small_bytes = 4096
    """Tile of short rows: 128 threads with two 16-byte words each, 16 blocks a multiprocessor."""
    aligned_bytes = 57_344
    """A tile grows up to here to make every tile of y 16-byte aligned."""

    def rejects(self, problem: Problem) -> str | None:
        """Rows that do not fit in shared memory."""
        if problem.row_bytes <= problem.shared_limit:
            return None
        return (
            f"a row needs {problem.row_bytes} B of shared memory, "
            f"a block has {problem.shared_limit} B"
        )

    def yields(self, problem: Problem) -> str | None:
        """Small problems: few tiles leave multiprocessors idle, and barriers are latency."""
        limit = 1 << 19 if problem.features < 1024 else 1 << 18
        if problem.elements >= limit:
            return None
        return f"{problem.elements} elements make too few tiles, {limit} are needed"

    def rows(self, problem: Problem) -> int:
        """Rows of a tile: about `small_bytes` of them, in multiples that keep tiles aligned."""
        row = max(1, problem.row_bytes)
        for width in (16, 8, 4, 2, 1):
            unit = width // alignment(row, width)
            if unit * row <= min(self.aligned_bytes, problem.shared_limit):
                return max(self.small_bytes // (unit * row), 1) * unit
        return 1

    def geometry(self, problem: Problem) -> Launch:
        """About two 16-byte words a thread, between 128 and 1024 threads."""
        rows = self.rows(problem)
        tile_bytes = rows * problem.row_bytes
        words = tile_bytes // WIDEST
        threads = min(max(1 << max(words // 2, 1).bit_length() - 1, 128), 1024)
        # 1 KB of shared memory of every block is the system's, and a multiprocessor has as much
        # more than one block may ask for.
        fit = (problem.shared_limit + 1024) // (tile_bytes + 1024)
        blocks = max(1, min(MULTIPROCESSOR_THREADS // threads, fit))
        if problem.dense:
            load = alignment(problem.x_alignment, tile_bytes)
        else:
            load = alignment(problem.x_alignment, problem.row_bytes)
            blocks = max(1, blocks // 2)  # dividing out the row takes more than 32 registers
        # Eight elements to a word of y: sixteen offsets and bytes do not fit in 32 registers.
        store = min(alignment(problem.y_alignment, tile_bytes), 8 * problem.element_bytes)
        return Launch(
            threads=threads,
            block_elements=rows * problem.features,
            specialisation=(
                ("element_bytes", problem.element_bytes),
                ("offset_bytes", offset_dtype(rows * problem.features).itemsize),
                ("threads", threads),
                ("blocks", blocks),
                ("load_bytes", load),
                ("store_bytes", store),
                ("loads", -(-tile_bytes // (load * threads))),
                ("stores", -(-tile_bytes // (store * threads))),
                ("dense", int(problem.dense)),
            ),
            shared_bytes=tile_bytes,
            blocks_per_multiprocessor=blocks,
        )

    def tables(self, permutation: Permutation, launch: Launch) -> Tables:
        """Where in the tile each element of y comes from, and the tile's and a row's length."""
        features = permutation.features
        offsets = permutation.offsets(launch.block_elements // features)
        return Tables(offsets, (launch.block_elements, features))
