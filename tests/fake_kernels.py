"""What each kernel does with its parameters, in NumPy, and what it relies on.

Parameters are read as the hardware reads them: through the addresses of the arguments.
"""

import ctypes
from dataclasses import dataclass

import numpy as np

from perm_gpu.registry import VARIANTS


@dataclass(frozen=True)
class Code:
    """What a fake cubin holds."""

    toolchain: str
    variant: str
    specialisation: dict
    slots: tuple | None


@dataclass(frozen=True)
class Launched:
    """One launch, as the driver saw it."""

    code: Code
    grid: int
    threads: int
    shared: int
    stream: int
    x: int
    y: int
    elements: int
    row_stride: int
    thread: int


def memory(address, dtype, count):
    """`count` entries of memory at an address."""
    dtype = np.dtype(dtype)
    if count == 0:
        return np.empty(0, dtype)
    return np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(address), dtype)


class Parameters:
    """Arguments by their number, copied out of a parameter block."""

    def __init__(self, address, code):
        count = 4 + KERNELS[code.variant][1](code.specialisation)
        slots = code.slots or range(count)
        addresses = memory(address, "u8", len(slots)).tolist()
        self.values = {}
        for slot, at in zip(slots, addresses, strict=True):
            value = int(memory(at, "u8", 1)[0])
            assert self.values.setdefault(slot, value) == value, f"argument {slot} has two values"
        assert sorted(self.values) == list(range(count))
        if code.slots is None:  # the last ones may be the members of one struct
            members = memory(addresses[4], "u8", count - 4).tolist()
            assert members == [self.values[slot] for slot in range(4, count)]

    def __getitem__(self, slot):
        return self.values[slot]


def gather(parameters, s):
    """Of a launch: elements of a block, N, and the function from indices of y to (row, feature)."""
    features = parameters[5]
    perm = memory(parameters[4], f"u{s['offset_bytes']}", features).astype(np.int64)

    def source(i):
        row, j = np.divmod(i, features)
        return row, perm[j]

    return s["threads"] * s["items"], features, source


def baked(parameters, s):
    """See `gather`."""
    words = np.array([parameters[4 + k] for k in range(-(-s["features"] // 8))], "<u8")
    perm = words.view(np.uint8).astype(np.int64)

    def source(i):
        row, j = np.divmod(i, s["features"])
        return row, perm[j]

    return s["threads"], s["features"], source


def tile(parameters, s):
    """See `gather`."""
    tile_elements, features = parameters[5], parameters[6]
    offsets = memory(parameters[4], f"u{s['offset_bytes']}", tile_elements).astype(np.int64)

    def source(i):
        tile_index, at = np.divmod(i, tile_elements)
        row, j = np.divmod(offsets[at], features)
        return tile_index * (tile_elements // features) + row, j

    return tile_elements, features, source


KERNELS = {
    "gather": (gather, lambda s: 2),
    "baked": (baked, lambda s: -(-s["features"] // 8)),
    "tile": (tile, lambda s: 3),
}
"""What a kernel does, and how many arguments it has behind the first four."""
EXECUTED = [name for name in VARIANTS if name in KERNELS]
"""Variants that the fake device can execute."""


def check(launched, block_elements, features):
    """Asserts what a kernel relies on."""
    s, elements = launched.code.specialisation, launched.elements
    element_bytes = s["element_bytes"]
    assert elements > 0, "an empty launch"
    assert elements % features == 0
    assert launched.grid == -(-elements // block_elements)
    assert launched.threads == s["threads"]
    assert elements + block_elements <= 1 << 8 * s.get("index_bytes", 8)
    assert launched.x % element_bytes == launched.y % element_bytes == 0
    if "load_bytes" in s:
        piece = block_elements if s["dense"] else features
        gap = 0 if s["dense"] else launched.row_stride
        check_moves(launched, "load", launched.x, block_elements, (piece, gap))
        check_moves(launched, "store", launched.y, block_elements, (block_elements,))


def check_moves(launched, name, address, block_elements, pieces):
    """Asserts that words are aligned, and that the threads move all of a block in shared memory."""
    s = launched.code.specialisation
    width, block_bytes = s[f"{name}_bytes"], block_elements * s["element_bytes"]
    for number in (address, *(piece * s["element_bytes"] for piece in pieces)):
        assert number % width == 0, (name, width, number)
    assert s[f"{name}s"] * width * launched.threads >= block_bytes
    assert launched.shared >= block_bytes


def execute(launched, parameters, whole):
    """Does what the kernel does; of more than `whole` elements only the first and last block."""
    s, elements = launched.code.specialisation, launched.elements
    block_elements, features, source = KERNELS[launched.code.variant][0](parameters, s)
    check(launched, block_elements, features)
    if elements <= whole:
        i = np.arange(elements)
    else:
        first = np.arange(min(block_elements, elements))
        i = np.concatenate([first, np.arange(elements - len(first), elements)])
    row, j = source(i)
    # A kernel for dense x does not look at the row stride.
    at = row * (features if s.get("dense") else launched.row_stride) + j
    bits = np.dtype(f"V{s['element_bytes']}")
    memory(launched.y, bits, elements)[i] = memory(launched.x, bits, int(at.max()) + 1)[at]
