"""Every kernel built for one architecture, as far as that goes without a GPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from perm_gpu import toolchains
from perm_gpu.errors import ToolchainError, UnsupportedProblemError
from perm_gpu.planner import choose
from perm_gpu.problem import Problem
from perm_gpu.registry import VARIANTS

ARCH = 90
ELEMENT_BYTES = (1, 2, 4, 8, 16)
SHAPES = ((10, 36), (4096, 4096))
"""Rows and features of the problems that are built for: launch-bound and bandwidth-bound."""


@dataclass(frozen=True, slots=True)
class Built:
    """One kernel, or why there is none."""

    toolchain: str
    variant: str
    element_bytes: int
    features: int
    cubin_bytes: int = 0
    registers: int = 0
    spilled_bytes: int = 0
    error: str = ""


def problems() -> list[tuple[str, Problem]]:
    """Variant and problem of every kernel to build."""
    return [
        (name, problem)
        for name, variant in VARIANTS.items()
        for element_bytes in ELEMENT_BYTES
        for rows, features in SHAPES
        for problem in (Problem(rows, features, element_bytes, row_stride=features),)
        if variant.rejects(problem) is None
    ]


def build(name: str, done: Callable[[], None] | None = None) -> list[Built]:
    """Builds with one toolchain; no GPU and no driver needed."""
    toolchain = toolchains.toolchains()[name]
    built = []
    for variant, problem in problems():
        try:
            choice = choose(problem, toolchain, variant)
            cubin = toolchain.compile(variant, choice.launch, ARCH)
        except UnsupportedProblemError:  # this toolchain has no such kernel
            continue
        except ToolchainError as error:
            what = (name, variant, problem.element_bytes, problem.features)
            built.append(Built(*what, error=str(error)))
        else:
            built.append(
                Built(
                    name,
                    variant,
                    problem.element_bytes,
                    problem.features,
                    len(cubin.code),
                    most(r"Used (\d+) registers", cubin.log),
                    most(r"(\d+) bytes spill", cubin.log),
                )
            )
        if done is not None:
            done()
    return built


def most(pattern: str, log: str) -> int:
    """The largest number that a pattern finds in the compiler's report, 0 if none."""
    return max((int(number) for number in re.findall(pattern, log)), default=0)
