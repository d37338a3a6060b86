"""Every variant, fastest first, and the choice among them. A new kernel is one line here."""

from __future__ import annotations

from collections.abc import Callable

from perm_gpu.errors import UnsupportedProblemError
from perm_gpu.problem import Problem
from perm_gpu.variant import Baked, Gather, Tile, Variant

VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in (
        Baked(),
        Tile(),
        Gather(),
    )
}


def select(
    problem: Problem, variant: str = "auto", toolchain: Callable[[str], str | None] | None = None
) -> Variant:
    """The variant that runs `problem`.

    Args:
        problem: What is to be run.
        variant: A name of `VARIANTS`, or "auto": the first that neither rejects the problem nor
            yields to a later one, else the first that does not reject it.
        toolchain: Why a toolchain has no kernel for a variant (`Toolchain.rejects`), if that
            matters.

    Raises:
        UnsupportedProblemError: The named variant rejects the problem, or there is no such one.
    """
    reasons = {
        v.name: v.rejects(problem) or (toolchain and toolchain(v.name)) for v in VARIANTS.values()
    }
    able = [v for v in VARIANTS.values() if reasons[v.name] is None]
    if variant == "auto" and able:
        return next((v for v in able if v.yields(problem) is None), able[0])
    check_name(variant)
    if variant == "auto" or reasons[variant] is not None:
        raise UnsupportedProblemError(
            f"variant {variant!r} cannot run {problem}: "
            f"{reasons.get(variant) or '; '.join(f'{k}: {v}' for k, v in reasons.items())}; "
            f"variants that can: {', '.join(v.name for v in able) or 'none'}"
        )
    return VARIANTS[variant]


def check_name(variant: str) -> None:
    """Refuses a name that is neither "auto" nor one of `VARIANTS`."""
    if variant != "auto" and variant not in VARIANTS:
        raise UnsupportedProblemError(
            f"there is no variant {variant!r}; there are: auto, {', '.join(VARIANTS)}"
        )
