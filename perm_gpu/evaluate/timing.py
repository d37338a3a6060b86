"""Three clocks for one call on a GPU, and subjects that take turns on them.

What hides behind one clock shows on another: KernelBench's events do not see host time below the
length of its flush, host time does not see the GPU, and graph replay sees nothing else. All times
are microseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

Call = Callable[[], Any]
Clock = Callable[[Call, int], list[float]]
"""`clock(call, trials)`: one time a trial, in microseconds."""
FLUSH_WORDS = 32 * 1024 * 1024
"""int64 words that KernelBench writes before each trial: 256 MiB, more than any L2."""
WARMUPS = 3
"""KernelBench's default number of calls before the trials."""


def event() -> torch.cuda.Event:
    """An event that knows when it happened."""
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def warm_up(call: Call, calls: int = WARMUPS) -> None:
    """Calls that build, load and allocate, each waited for."""
    for _ in range(calls):
        call()
        torch.cuda.synchronize()


def kernelbench_event(call: Call, trials: int) -> list[float]:
    """KernelBench's `cuda_event` protocol, step by step, in microseconds.

    Warm-up calls, an empty cache; then for each trial, the first of which is thrown away: wait,
    write 256 MiB, event, call, event, wait. There is no wait between the write and the first event,
    so host time that ends before the write does is not seen.
    """
    warm_up(call)
    torch.cuda.empty_cache()
    times = []
    for _ in range(trials + 1):
        torch.cuda.synchronize()
        start, end = event(), event()
        flush = torch.empty(FLUSH_WORDS, dtype=torch.int64, device="cuda")
        flush.fill_(42)
        del flush
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3)
    return times[1:]


def host_isolated(call: Call, trials: int) -> list[float]:
    """Host time of one call with the GPU idle before it, in microseconds."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else _nothing
    times = []
    for _ in range(trials):
        wait()
        start = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - start) / 1e3)
    wait()
    return times


def host_burst(call: Call, trials: int) -> list[float]:
    """Host time of a call in a row of `trials`, in microseconds: one mean."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else _nothing
    wait()
    start = time.perf_counter_ns()
    for _ in range(trials):
        call()
    mean = (time.perf_counter_ns() - start) / 1e3 / trials
    wait()
    return [mean]


def captured(call: Call, launches: int = 200) -> Call:
    """A CUDA graph of `launches` calls; calling it replays them all.

    Raises:
        RuntimeError: The call cannot be captured, for example because it waits for the GPU.
    """
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        warm_up(call)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            call()
    return graph.replay


def graph_replay(launches: int = 200) -> Clock:
    """A clock for what `captured` returns: GPU time of one of its launches, in microseconds."""

    def clock(replay: Call, trials: int) -> list[float]:
        times = []
        for _ in range(trials):
            start, end = event(), event()
            start.record()
            replay()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e3 / launches)
        return times

    return clock


def interleaved(
    subjects: Mapping[str, Call],
    clock: Clock,
    rounds: int,
    trials: int,
    done: Callable[[], None] | None = None,
) -> dict[str, list[float]]:
    """Samples of every subject, which take turns, each round from another one on.

    Args:
        subjects: Name and call.
        clock: What times `trials` calls of one subject.
        rounds: Turns of each subject.
        trials: Trials of each turn.
        done: Called after each turn, for a progress bar.
    """
    samples: dict[str, list[float]] = {name: [] for name in subjects}
    names = list(subjects)
    for turn in range(rounds):
        for name in rotated(names, turn):
            samples[name] += clock(subjects[name], trials)
            if done is not None:
                done()
    return samples


def rotated(names: Sequence[str], places: int) -> list[str]:
    """The names from another one on, so that none always follows the same neighbour."""
    places %= max(1, len(names))
    return [*names[places:], *names[:places]]


def _nothing() -> None:
    """The CPU is never waited for."""
