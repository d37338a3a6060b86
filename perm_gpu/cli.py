"""The command `perm-gpu`."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from perm_gpu.evaluate import report
from perm_gpu.evaluate.evaluation import evaluate as run_evaluation

app = typer.Typer(add_completion=False, help="A fixed permutation of the last axis on NVIDIA GPUs.")


@app.callback()
def main() -> None:
    """Lets `evaluate` be named also while it is the only command."""


@app.command()
def evaluate(
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each subject on each clock.")] = 5,
    trials: Annotated[int, typer.Option(min=1, help="Trials of each turn.")] = 200,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write everything there.")
    ] = None,
) -> None:
    """Evaluate ModelNew: correctness to the bit, then three clocks beside PyTorch.

    Without a GPU: the CPU path for real, every kernel compiled for sm_90, and what was not run.
    Exits with 0 only if everything that ran was right.
    """
    errors = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=errors, disable=not errors.is_terminal
    ) as progress:

        def started(what: str, steps: int) -> Callable[[], None]:
            task = progress.add_task(what, total=steps)
            return lambda: progress.advance(task)

        result = run_evaluation(rounds, trials, started)
    # Wide enough for every column where the output is no terminal, which rich takes for 80 wide.
    out = Console() if sys.stdout.isatty() else Console(width=140)
    report.show(result, out)
    if json_file is not None:
        record = {
            "command": f"perm-gpu {' '.join(sys.argv[1:])}",
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            **result.record(),
        }
        json_file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    raise typer.Exit(1 if result.faults else 0)
