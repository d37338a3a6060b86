"""The launch-bound problem, (10, 36) float32, on three clocks, against what each goal names.

python -m benchmarks.launch_bound [--rounds N] [--trials N] [--json FILE]

Subjects take turns in one process. Building the shared-output design takes nvcc and a minute.
"""

import argparse
import random
import statistics
import sys
import tracemalloc
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks import record
from benchmarks.peers.copy import Copies
from benchmarks.peers.shared_output import SharedOutput
from perm_gpu import PERM
from perm_gpu.evaluate import subjects, timing
from perm_gpu.evaluate.statistics import median
from perm_gpu.model import B, N

BATCHES = 8, 9, 10, 11
SEED = 0
KERNELBENCH, ISOLATED, BURST = "KernelBench cuda_event", "host, isolated", "host, burst"
JITTER, GRAPH = "host, isolated, B from 8..11", "GPU, graph replay"
COPY_KERNEL, SHARED = "copy kernel", "shared output"
MANY = 100_000
"""Different batches that must leave nothing behind."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--json", type=Path, help="write everything there")
    options = parser.parse_args()

    inputs = [torch.randn(rows, N, device="cuda") for rows in BATCHES]
    x = inputs[BATCHES.index(B)]
    modules, absent = subjects.modules(x.device)
    modules[SHARED] = SharedOutput(PERM)
    ours = [name for name in modules if name.startswith(subjects.OURS)]
    for name, module in modules.items():
        expected = x if name == "clone" else x[:, PERM.to(x.device)]
        if not torch.equal(module(x), expected):
            sys.exit(f"{name} is wrong")

    times = measure(modules, ours, x, inputs, options.rounds, options.trials)
    medians = {
        clock: {name: statistics.median(samples) for name, samples in of_clock.items()}
        for clock, of_clock in times.items()
    }
    left = {name: left_behind(modules[name]) for name in ours}
    goals = [goal for name in ours for goal in judged(name, medians)]
    show(medians, left, goals)
    if options.json:
        found = {
            clock: {name: asdict(median(samples)) for name, samples in of_clock.items()}
            for clock, of_clock in times.items()
        }
        results = {
            "absent": absent,
            "microseconds": found,
            f"bytes left by {MANY} batches": left,
            "goals": goals,
        }
        record.write(options.json, "benchmarks.launch_bound", results)
    sys.exit(not all(goal["met"] for goal in goals))


def measure(modules, ours, x, inputs, rounds, trials):
    """Samples by clock and subject, in microseconds."""
    calls = {name: lambda module=module: module(x) for name, module in modules.items()}
    for call in calls.values():
        timing.warm_up(call)
    clocks = {
        KERNELBENCH: timing.kernelbench_event,
        ISOLATED: timing.host_isolated,
        BURST: timing.host_burst,
    }
    times = {
        clock: timing.interleaved(calls, function, rounds, trials)
        for clock, function in clocks.items()
    }

    # The same draw is made for the fixed batch, so that the two calls differ by nothing else.
    draw = random.Random(SEED).randrange
    jitter = {
        f"{name}{suffix}": lambda module=modules[name], xs=xs: module(xs[draw(len(xs))])
        for name in ours
        for suffix, xs in (("", inputs), (f", B = {B}", [x] * len(inputs)))
    }
    times[JITTER] = timing.interleaved(jitter, timing.host_isolated, rounds, trials)

    copies, y = Copies(), torch.empty_like(x)
    kernels = {name: calls[name] for name in ("index_select", "clone", SHARED, *ours)}
    kernels[COPY_KERNEL] = lambda: copies.word_copy(x, y)
    graphs = {name: timing.captured(call, 400) for name, call in kernels.items()}
    times[GRAPH] = timing.interleaved(graphs, timing.graph_replay(400), rounds, trials // 5)
    return times


def left_behind(module):
    """Bytes that many different batches leave allocated, on the host and on the device."""
    everything = torch.randn(MANY, N, device="cuda")
    for rows in range(1, 200):
        module(everything[:rows])
    torch.cuda.synchronize()
    device = torch.cuda.memory_allocated()
    tracemalloc.start()
    for rows in range(1, MANY + 1):
        module(everything[:rows])
    host, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"host": host, "device": torch.cuda.memory_allocated() - device}


def judged(name, medians):
    """Every goal of one of our modules: a ratio of medians of one run, and its limit."""
    event, host, graph = medians[KERNELBENCH], medians[ISOLATED], medians[GRAPH]
    varied = medians[JITTER]
    ratios = [
        ("host time / index_select", host[name] / host["index_select"], 0.55),
        (f"host time, B drawn / B = {B}", varied[name] / varied[f"{name}, B = {B}"], 1.05),
        ("KernelBench / clone", event[name] / event["clone"], 1.04),
        ("KernelBench / shared output", event[name] / event[SHARED], 0.95),
        ("KernelBench / reference", event[name] / event["reference"], 1 / 14),
        ("GPU time / copy kernel", graph[name] / graph[COPY_KERNEL], 1.15),
    ]
    if name == f"{subjects.OURS}numba":
        cuda = f"{subjects.OURS}nvrtc"
        ratios = [
            ("host time / nvrtc", host[name] / host[cuda], 1.05),
            ("GPU time / nvrtc", graph[name] / graph[cuda], 1.10),
        ]
    return [
        {"subject": name, "goal": what, "measured": ratio, "limit": limit, "met": ratio <= limit}
        for what, ratio, limit in ratios
    ]


def show(medians, left, goals):
    """The tables, goals last."""
    for clock, of_clock in medians.items():
        print(f"{clock}, us")
        for name, time in sorted(of_clock.items(), key=lambda item: item[1]):
            print(f"    {name:28} {time:8.3f}")
    for name, amount in left.items():
        print(f"{MANY} batches left, in bytes, {amount}: {name}")
    for goal in goals:
        state = "met   " if goal["met"] else "MISSED"
        measured, limit = f"{goal['measured']:.4f}", f"{goal['limit']:.4f}"
        print(f"{state} {measured} <= {limit}  {goal['subject']}: {goal['goal']}")


if __name__ == "__main__":
    main()
