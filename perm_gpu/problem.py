"""What a variant sees, `Problem`, and what it asks for, `Launch`: pure data, no GPU."""

from __future__ import annotations

from dataclasses import dataclass

WIDEST = 16
"""Bytes of the widest memory access of one thread, and so the alignment worth knowing about."""


def alignment(*amounts: int) -> int:
    """The largest power of two that divides every amount, `WIDEST` at most.

    Args:
        amounts: Addresses, strides or sizes in bytes; 0 is divided by everything.
    """
    bits = WIDEST
    for amount in amounts:
        bits |= amount
    return bits & -bits


@dataclass(frozen=True, slots=True)
class Problem:
    """One permutation of the last axis, as every variant sees it."""

    rows: int
    """Product of all axes but the last."""
    features: int
    """Length of the permuted axis, in elements."""
    element_bytes: int
    """Bytes per element: 1, 2, 4, 8 or 16."""
    row_stride: int
    """Distance between rows of x, in elements; 0 where one row is repeated."""
    x_alignment: int = WIDEST
    """Largest power of two that divides the address of every row piece of x, in bytes.

    Of the address of x alone where x is dense; of its row stride as well where it is not."""
    y_alignment: int = WIDEST
    """Largest power of two that divides the address of y, in bytes."""
    shared_limit: int = 232_448
    """Opt-in shared memory of one block, in bytes: 227 KB on sm_90 and sm_100."""

    @property
    def elements(self) -> int:
        """Elements of y."""
        return self.rows * self.features

    @property
    def row_bytes(self) -> int:
        """Bytes of one dense row."""
        return self.features * self.element_bytes

    @property
    def dense(self) -> bool:
        """Whether the rows of x follow each other without a gap."""
        return self.row_stride == self.features or self.rows <= 1


@dataclass(frozen=True, slots=True)
class Launch:
    """What a variant asks for: the geometry, and what its kernel is specialised to."""

    threads: int
    """Threads of a block, which is one-dimensional."""
    block_elements: int
    """Elements of y that one block writes."""
    specialisation: tuple[tuple[str, int], ...]
    """Name and value of every PERM_ macro of the .cu file, in lower case."""
    shared_bytes: int = 0
    """Dynamic shared memory of a block."""
    blocks_per_multiprocessor: int = 1
    """Blocks that the compiler must leave registers for on one multiprocessor."""

    def blocks(self, elements: int) -> int:
        """Length of the one-dimensional grid for `elements` elements of y."""
        return -(-elements // self.block_elements)
