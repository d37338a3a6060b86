"""Runs the Numba kernels in Numba's simulator: python simulate.py VARIANT.

The simulator has to be chosen before Numba is imported, by NUMBA_ENABLE_CUDASIM=1. It does not see
a negative index; an index past the end of an array raises, so every array is as long as allowed.
"""

import sys
import types as python_types

import numpy as np
from numba import cuda, types

from perm_gpu import Permutation
from perm_gpu.problem import Problem, alignment
from perm_gpu.registry import VARIANTS
from perm_gpu.toolchains import raw_kernels_folder

PROBLEMS = (  # rows, features, row stride, bytes that x and y are off an aligned address
    (10, 36, 36, 0, 0),
    (7, 36, 40, 0, 0),  # strided, wide words
    (7, 37, 39, 0, 0),  # strided, narrow words, blocks that are not full
    (3, 33, 0, 0, 0),  # one row, repeated
    (40, 31, 31, 0, 0),
    (2, 128, 128, 8, 4),
    (5, 100, 101, 16, 8),
    (1, 1, 1, 0, 0),
)
FAULTS = {
    "gather": ("perm[types.int64(j)]", "perm[types.int64(j) - (j > 0)]"),
    "baked": ("- j + source", "- j + source - (source > 0)"),
    "tile": ("staged[source])", "staged[source ^ (source > 0)])"),
}
"""Planted in each kernel: the comparison must reject them."""


def simulate(build, variant, problem, offsets):
    """y of one problem, as bytes, from a kernel in the simulator; the right bytes; their inputs."""
    generator = np.random.default_rng(problem.features)
    permutation = Permutation(generator.permutation(problem.features))
    launch = VARIANTS[variant].geometry(problem)
    tables = VARIANTS[variant].tables(permutation, launch)
    function, signature, slots = build(**dict(launch.specialisation))

    width = problem.element_bytes
    extent = ((problem.rows - 1) * problem.row_stride + problem.features) * width
    x, y = at_offset(extent, offsets[0]), at_offset(problem.elements * width, offsets[1])
    x[:] = generator.integers(0, 256, extent)
    values = [x, y, problem.elements, problem.row_stride]
    if tables.offsets is not None:
        values.append(tables.offsets.view(np.uint8))
    values += tables.scalars

    arguments, left = [], list(slots)
    for kind in signature.args:
        if isinstance(kind, types.UniTuple):
            arguments.append(tuple(np.uint64(values[left.pop(0)]) for _ in range(kind.count)))
        elif isinstance(kind, types.CPointer):
            memory = values[left.pop(0)]
            size = kind.dtype.bitwidth // 8
            arguments.append(memory[: len(memory) // size * size].view(f"u{size}"))
        else:
            arguments.append(np.int64(values[left.pop(0)]))
    assert not left

    grid = launch.blocks(problem.elements)
    cuda.jit(function)[grid, launch.threads, 0, launch.shared_bytes](*arguments)
    strides = problem.row_stride * width, width
    rows = np.lib.stride_tricks.as_strided(
        x.view(f"V{width}"), (problem.rows, problem.features), strides
    )
    return y.tobytes(), rows[:, permutation.array].tobytes()


def at_offset(size, offset):
    """`size` poisoned bytes, `offset` bytes past an address that 16 divides."""
    buffer = np.full(size + 48, 0xA5, np.uint8)
    start = -buffer.ctypes.data % 16 + offset
    return buffer[start : start + size]


def problems():
    """(problem, byte offsets of x and y); widths take turns, because the simulator is slow."""
    for turn, (rows, features, row_stride, *offsets) in enumerate(PROBLEMS):
        for width in (1, 2, 4, 8)[turn % 2 :: 2]:
            if any(offset % width for offset in offsets):
                continue
            dense = row_stride == features or rows == 1
            gap = 0 if dense else row_stride * width
            alignments = alignment(offsets[0], gap), alignment(offsets[1])
            yield Problem(rows, features, width, row_stride, *alignments), offsets


def built(variant, text):
    """`build` of a kernel's source."""
    module = python_types.ModuleType(variant)
    exec(compile(text, f"{variant}.py", "exec"), module.__dict__)
    return module.build


def main(variant):
    file = raw_kernels_folder().parent / "perm_gpu" / "numba_kernels" / f"{variant}.py"
    text = file.read_text(encoding="utf-8")
    ran = 0
    for problem, offsets in problems():
        y, expected = simulate(built(variant, text), variant, problem, offsets)
        assert y == expected, (variant, problem)
        ran += 1

    right, wrong = FAULTS[variant]
    assert text.count(right) == 1
    problem = Problem(10, 36, 4, 36)
    y, expected = simulate(built(variant, text.replace(right, wrong)), variant, problem, (0, 0))
    assert y != expected
    print(f"{variant}: {ran} problems are right, and a planted fault was seen")


if __name__ == "__main__":
    main(sys.argv[1])
