"""What is tested, as data: shapes with the reason each is here, permutations and layouts."""

import numpy as np
import torch

ELEMENT_BYTES = (1, 2, 4, 8, 16)
DTYPE_OF = {
    1: torch.uint8,
    2: torch.int16,
    4: torch.int32,
    8: torch.int64,
    16: torch.complex128,
}
"""A dtype of each width."""

SHAPES = (  # (rows, features)
    (1, 1),  # the smallest there is
    (1, 36),  # one row
    (10, 36),  # the KernelBench problem
    (11, 36),  # its largest batch: 396 elements, three blocks of 192
    (3, 31),  # under one warp, odd: no vector width divides it
    (5, 257),  # one past what 8-bit entries reach
    (7, 128),  # the widest that is baked
    (4096, 64),  # launch-bound no longer, short rows
    (1000, 37),  # tiles of odd rows, the last one not full
    (133, 1000),  # one block more than an H100 has multiprocessors
    (9, 4095),  # rows that no vector width divides
    (6, 4096),  # rows that all do
    (2, 12_287),  # 4-byte rows one element below 48 KiB, where shared memory must be asked for
    (2, 12_288),  # at 48 KiB
    (2, 12_289),  # one element above
    (3, 14_337),  # a tile of one unaligned row
    (2, 58_112),  # 4-byte rows of 227 KB, the limit of a block
    (2, 58_113),  # one element above
    (2, 70_001),  # more than 2^16 offsets in a row
    (70_000, 32),  # more rows than a grid's y axis holds
    (16_777_300, 1),  # more than 2^24 rows of one element
)
FOUR_SHAPES = ((10, 36), (129, 128), (33, 1000), (5, 4096))
"""Shapes that every family and layout is tried at: baked, its limit, short tiles, long tiles."""


def shuffled(features):
    return np.random.default_rng(features).permutation(features)


def blocks_of(length):
    """Blocks of `length` elements in random order, where the length divides the features."""

    def family(features):
        length_ = np.gcd(length, features)
        blocks = shuffled(features // length_)
        return (blocks[:, None] * length_ + np.arange(length_)).ravel()

    return family


def channel_shuffle(features):
    groups = 4 if features % 4 == 0 else 1
    return np.arange(features).reshape(groups, -1).T.ravel()


def halves_to_interleaved(features):
    """RoPE's two layouts; an odd last element stays."""
    half = features // 2
    pairs = np.arange(2 * half).reshape(2, half).T.ravel()
    return np.concatenate([pairs, np.arange(2 * half, features)])


def bit_reversal(features):
    """Of the largest power of two that fits; the rest stays."""
    bits = features.bit_length() - 1
    reversed_ = [int(f"{j:0{bits}b}"[::-1], 2) if bits else 0 for j in range(1 << bits)]
    return np.concatenate([reversed_, np.arange(1 << bits, features)]).astype(np.int64)


def transposition(features):
    perm = np.arange(features)
    perm[[0, -1]] = perm[[-1, 0]]
    return perm


def block_local(features):
    """The same permutation in every block of 4, or of what divides the features."""
    length = int(np.gcd(4, features))
    local = shuffled(length)
    return (np.arange(0, features, length)[:, None] + local).ravel()


FAMILIES = {
    "identity": np.arange,
    "reverse": lambda features: np.arange(features)[::-1].copy(),
    "shift": lambda features: np.roll(np.arange(features), 1),
    "random": shuffled,
    "blocks of 2": blocks_of(2),
    "blocks of 4": blocks_of(4),
    "blocks of 8": blocks_of(8),
    "channel shuffle": channel_shuffle,
    "halves to interleaved": halves_to_interleaved,
    "bit reversal": bit_reversal,
    "transposition": transposition,
    "block-local": block_local,
}


LAYOUTS = {
    "dense": lambda make, r, n: make(r, n),
    "offset by one element": lambda make, r, n: make(1, r * n + 1)[0, 1:].view(r, n),
    "row-strided": lambda make, r, n: make(r, n + 4)[:, :n],
    "row-strided, odd": lambda make, r, n: make(r, n + 3)[:, 1 : n + 1],
    "every second row": lambda make, r, n: make(2 * r, n)[::2],
    "transposed": lambda make, r, n: make(n, r).t(),
    "3-d": lambda make, r, n: make(2 * r, n).view(2, r, n),
    "3-d, transposed": lambda make, r, n: make(2 * r, n).view(2, r, n).transpose(0, 1),
    "3-d, row-strided": lambda make, r, n: make(2 * r, n + 8).view(2, r, n + 8)[..., :n],
    "expanded": lambda make, r, n: make(1, n).expand(r, n),
    "1-d": lambda make, r, n: make(1, n)[0],
}
"""Views of a maker's (rows, columns) tensors whose last axis has n features."""
