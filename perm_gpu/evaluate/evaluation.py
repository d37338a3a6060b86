"""The evaluation of ModelNew from beginning to end: what runs depends on what is there."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from perm_gpu import toolchains
from perm_gpu.evaluate import build, correctness, subjects, timing
from perm_gpu.evaluate.specs import specs
from perm_gpu.evaluate.statistics import Median, median
from perm_gpu.model import B, ModelNew, N, jitter_int

CLOCKS = {
    "KernelBench cuda_event": timing.kernelbench_event,
    "host, isolated": timing.host_isolated,
    "host, burst": timing.host_burst,
}
GRAPH = "GPU, graph replay"
JITTER = "host, isolated, B from 8..11"
CPU_ROUNDS, CPU_TRIALS = 3, 50
SEED = 0

Started = Callable[[str, int], Callable[[], None]]
"""`started(what, steps)` announces work; what it returns is called after each step."""


@dataclass(slots=True)
class Evaluation:
    """Everything that was found; times in microseconds."""

    device: str
    specs: dict[str, dict[str, Any]]
    correct: dict[str, list[correctness.Case]] = field(default_factory=dict)
    times: dict[str, dict[str, Median]] = field(default_factory=dict)
    """By clock and subject."""
    built: list[build.Built] = field(default_factory=list)
    not_run: dict[str, str] = field(default_factory=dict)
    """What was left out, and why."""

    @property
    def faults(self) -> list[str]:
        """Everything that was wrong; an evaluation without any is a success."""
        wrong = [
            f"{name}, B = {case.rows}, N = {case.features}: {'; '.join(case.faults)}"
            for name, cases in self.correct.items()
            for case in cases
            if case.faults
        ]
        failed = [
            f"{b.toolchain} {b.variant}, {b.element_bytes} B: {b.error}"
            for b in self.built
            if b.error
        ]
        return wrong + failed

    def record(self) -> dict[str, Any]:
        """Everything as JSON has it."""
        return asdict(self) | {"faults": self.faults}


def evaluate(rounds: int, trials: int, started: Started) -> Evaluation:
    """Runs everything that this machine can.

    Args:
        rounds: Turns that each subject gets on each clock.
        trials: Trials of each turn.
        started: Progress.
    """
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if on_gpu else "cpu")
    result = Evaluation(str(device), specs())
    for name, module in under_test(result, device).items():
        steps = len(correctness.BATCHES) * len(correctness.WIDTHS)
        done = started(f"correctness of {name}", steps)
        result.correct[name] = correctness.check(module, device, done=done)
    if on_gpu:
        time_on_gpu(result, rounds, trials, started)
    else:
        time_on_cpu(result, started)
        build_all(result, started)
        result.not_run |= {
            "kernels": "there is no CUDA device: they were compiled, not run",
            "KernelBench cuda_event, GPU time": "there is no CUDA device",
        }
    return result


def under_test(result: Evaluation, device: torch.device) -> dict[str, ModelNew]:
    """ModelNew by every toolchain that can be used; on the CPU there is one for all."""
    if device.type == "cpu":
        return {"ModelNew": ModelNew()}
    found = {}
    for name, toolchain in toolchains.toolchains().items():
        if reason := toolchain.missing():
            result.not_run[f"ModelNew, {name}"] = reason
        else:
            found[subjects.OURS + name] = ModelNew(toolchain=name)
    if not found:
        found["ModelNew"] = ModelNew()
    return found


def time_on_gpu(result: Evaluation, rounds: int, trials: int, started: Started) -> None:
    """All clocks, all subjects, and our own with another B each call."""
    device = torch.device("cuda")
    modules, absent = subjects.modules(device)
    result.not_run |= absent
    x = torch.randn(B, N, device=device)
    calls = {name: lambda module=module: module(x) for name, module in modules.items()}
    for call in calls.values():
        timing.warm_up(call)
    for clock, measure in CLOCKS.items():
        done = started(clock, rounds * len(calls))
        samples = timing.interleaved(calls, measure, rounds, trials, done)
        result.times[clock] = {name: median(times) for name, times in samples.items()}

    graphs = {}
    for name, call in calls.items():
        try:
            graphs[name] = timing.captured(call)
        except (
            RuntimeError
        ) as error:  # the reference copies from the host, which cannot be captured
            result.not_run[f"{name}, {GRAPH}"] = subjects.first_line(error)
            torch.cuda.synchronize()
    done = started(GRAPH, rounds * len(graphs))
    samples = timing.interleaved(graphs, timing.graph_replay(), rounds, 20, done)
    result.times[GRAPH] = {name: median(times) for name, times in samples.items()}

    inputs = [torch.randn(jitter_int(B), N, device=device) for _ in range(64)]
    draw = random.Random(SEED)
    jittered = {
        name: lambda module=module: module(inputs[int(draw.random() * len(inputs))])
        for name, module in modules.items()
        if name.startswith(subjects.OURS)
    }
    fixed = {
        f"{name}, B = {B}": lambda module=modules[name]: module((x, int(draw.random() * 64))[0])
        for name in jittered
    }
    done = started(JITTER, rounds * 2 * len(jittered))
    samples = timing.interleaved(jittered | fixed, timing.host_isolated, rounds, trials, done)
    result.times[JITTER] = {name: median(times) for name, times in samples.items()}


def time_on_cpu(result: Evaluation, started: Started) -> None:
    """Host time of the CPU path, which is torch's own."""
    modules, absent = subjects.modules(torch.device("cpu"))
    result.not_run |= absent
    x = torch.randn(B, N)
    calls = {name: lambda module=module: module(x) for name, module in modules.items()}
    done = started("host time on the CPU", CPU_ROUNDS * len(calls))
    samples = timing.interleaved(calls, timing.host_isolated, CPU_ROUNDS, CPU_TRIALS, done)
    result.times["host, isolated, on the CPU"] = {
        name: median(times) for name, times in samples.items()
    }


def build_all(result: Evaluation, started: Started) -> None:
    """Every kernel with every toolchain that is installed."""
    for name, toolchain in toolchains.toolchains().items():
        if reason := toolchain.missing():
            result.not_run[f"kernels by {name}"] = reason
            continue
        done = started(f"compiling with {name}", len(build.problems()))
        result.built += build.build(name, done)
