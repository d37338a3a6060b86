"""Problems and compute capabilities that are compiled for, and what selection makes of them."""

import itertools
import re

from perm_gpu.planner import choose
from perm_gpu.problem import Problem, alignment

SHARED_LIMITS = {
    75: 65_536,
    80: 166_912,
    86: 101_376,
    89: 101_376,
    90: 232_448,
    100: 232_448,
    120: 101_376,
}
"""Opt-in shared memory of a block by compute capability."""

FEATURES = (
    *(1, 7, 31, 36, 37, 128, 129, 257, 1000, 1001, 2047, 2048, 4095, 4096),
    *(8191, 14_336, 28_673, 32_768, 56_320, 58_112, 65_537, 116_224, 232_448, 300_000),
)
ROWS = (1, 4096, 1 << 27)
GAPS = (0, 1, 16)
WIDTHS = (1, 2, 4, 8, 16)
"""Bytes, of elements and of what addresses are multiples of."""


def problems(shared_limit):
    """Every kind of problem: sizes, row strides and alignments."""
    for features, width, rows, gap, x_alignment, y_alignment in itertools.product(
        FEATURES, WIDTHS, ROWS, GAPS, WIDTHS, WIDTHS
    ):
        if min(x_alignment, y_alignment) < width:
            continue  # moved as narrower elements, which are here too
        yield Problem(
            rows=min(rows, (1 << 38) // features),
            features=features,
            element_bytes=width,
            row_stride=features + gap,
            x_alignment=alignment(x_alignment, (features + gap) * width if gap else 0),
            y_alignment=y_alignment,
            shared_limit=shared_limit,
        )


def choices(toolchain, arch):
    """One choice of selection for each way that the compiler is asked to use registers."""
    found = {}
    for problem in problems(SHARED_LIMITS[arch]):
        choice = choose(problem, toolchain, "auto")
        found.setdefault(register_use(choice), choice)
    return list(found.values())


def register_use(choice):
    """What the registers of a kernel depend on; how often a loop runs that is not unrolled and
    the constants of divisions are left out."""
    fields = dict(choice.launch.specialisation)
    if "features" in fields:
        fields["features"] = None
    for count in ("loads", "stores"):
        if count in fields:
            fields[count] = min(fields[count], 8)
    if "blocks" in fields:
        fields["threads"] *= fields.pop("blocks")
    return choice.variant.name, tuple(fields.items())


def spilled_bytes(log):
    """Bytes that a kernel stores to and loads from local memory for want of registers."""
    found = re.findall(r"(\d+) bytes spill (?:stores|loads)", log)
    assert len(found) >= 2, log
    return sum(map(int, found))
