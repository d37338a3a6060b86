"""The evaluation as tables."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from perm_gpu.evaluate.build import ARCH
from perm_gpu.evaluate.evaluation import Evaluation
from perm_gpu.evaluate.statistics import Median

AGAINST = ("index_select", "clone", "reference")
"""Subjects that ratios are given to, where they were timed."""


def show(result: Evaluation, console: Console) -> None:
    """Prints everything, the verdict last."""
    for topic, values in result.specs.items():
        if values:
            table = Table("what", "value", title=topic, title_justify="left")
            for name, value in values.items():
                table.add_row(name, str(value))
            console.print(table)
    show_correctness(result, console)
    for clock, times in result.times.items():
        show_times(clock, times, console)
    if result.built:
        show_built(result, console)
    for what, reason in result.not_run.items():
        console.print(f"not run: {what}: {reason}", markup=False, highlight=False)
    for fault in result.faults:
        console.print(f"WRONG: {fault}", markup=False, highlight=False)
    console.print(verdict(result), markup=False, highlight=False)


def show_correctness(result: Evaluation, console: Console) -> None:
    """How many cases were right, by what was tested."""
    title = "correctness, to the bit, against the reference"
    table = Table("what", "cases", "right", title=title, title_justify="left")
    for name, cases in result.correct.items():
        right = sum(not case.faults for case in cases)
        table.add_row(name, str(len(cases)), str(right))
    console.print(table)


def show_times(clock: str, times: dict[str, Median], console: Console) -> None:
    """Medians of one clock with their intervals, and ratios to what users know."""
    against = [name for name in AGAINST if name in times]
    columns = ("what", "median, us", "95 % interval, us", *(f"/ {name}" for name in against))
    table = Table(*columns, title=clock, title_justify="left")
    for name, time in times.items():
        ratios = (f"{time.value / times[other].value:.3f}" for other in against)
        table.add_row(name, f"{time.value:.3f}", f"{time.low:.3f} .. {time.high:.3f}", *ratios)
    console.print(table)


def show_built(result: Evaluation, console: Console) -> None:
    """The kernels that were compiled."""
    columns = (
        "toolchain",
        "variant",
        "element, B",
        "features",
        "cubin, B",
        "registers",
        "spills, B",
    )
    title = f"kernels compiled for sm_{ARCH}"
    table = Table(*columns, title=title, title_justify="left")
    for built in result.built:
        found = (built.cubin_bytes, built.registers, built.spilled_bytes)
        numbers = map(str, (built.element_bytes, built.features, *found))
        table.add_row(built.toolchain, built.variant, *numbers)
    console.print(table)


def verdict(result: Evaluation) -> str:
    """One line: what was right, out of how much."""
    cases = sum(len(cases) for cases in result.correct.values())
    ran = f"{cases} cases and {len(result.built)} builds" if result.built else f"{cases} cases"
    if result.faults:
        return f"evaluation on {result.device}: {len(result.faults)} of {ran} are wrong"
    left_out = f", {len(result.not_run)} things were not run" if result.not_run else ""
    return f"evaluation on {result.device}: all of {ran} are right{left_out}"
