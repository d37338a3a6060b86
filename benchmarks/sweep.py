"""Bandwidth past L2: our kernels as a fraction of copy, for each element size and width.

python -m benchmarks.sweep [--payload BYTES] [--rounds N] [--json FILE]

One payload is read and one written at each point, by every subject in turn. Copy is the fastest of
three ways in the same run on the same buffers; fractions are copy's median time over the subject's.
"""

import argparse
import random
import statistics
import sys
from pathlib import Path

import numpy as np
import torch

from benchmarks import record
from benchmarks.peers.copy import Copies
from perm_gpu import FeaturePermutation, PermGpuError, toolchains

WIDTHS = (36, 128, 1024, 4096, 14_336, 28_672, 56_320)
DTYPES = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
SEED = 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--payload", type=int, default=512 << 20, help="bytes read at a point")
    parser.add_argument("--rounds", type=int, default=9, help="timings of every subject")
    parser.add_argument("--elements", type=int, nargs="*", default=list(DTYPES), help="bytes each")
    parser.add_argument("--widths", type=int, nargs="*", default=list(WIDTHS), help="features")
    parser.add_argument("--json", type=Path, help="write everything there")
    options = parser.parse_args()

    # Random bits below the exponents of infinity and NaN, which torch.equal cannot compare.
    generator = torch.Generator("cuda").manual_seed(SEED)
    words = torch.randint(0, 1 << 62, (options.payload // 8,), device="cuda", generator=generator)
    words &= 0x3FFF_FFFF_3FFF_FFFF
    points = []
    for element_bytes in options.elements:
        for features in options.widths:
            point = measure(words, element_bytes, features, options.rounds)
            points.append(point)
            print(line(point), flush=True)
    if options.json:
        record.write(options.json, "benchmarks.sweep", {"points": points})
    sys.exit(any(point["wrong"] for point in points))


def measure(words, element_bytes, features, rounds):
    """All subjects at one element size and width."""
    rows = words.nbytes // (features * element_bytes) // 16 * 16
    flat = words.view(DTYPES[element_bytes])
    x = flat[: rows * features].view(rows, features)
    y = torch.empty_like(x)
    perm = np.random.default_rng(SEED).permutation(features)
    on_device = torch.from_numpy(perm).to(x.device)

    copies = Copies().ways(x, y)
    subjects = {"index_select": lambda: torch.index_select(x, 1, on_device, out=y)}
    modules, absent = {}, {}
    for name in toolchains.NAMES:
        try:
            modules[name] = FeaturePermutation(perm, toolchain=name)
            modules[name](x, out=y)
            subjects[name] = lambda module=modules[name]: module(x, out=y)
        except PermGpuError as error:
            absent[name] = str(error)
    wrong = [name for name, call in subjects.items() if not right(call, x, y, on_device)]

    calls = list((copies | subjects).items())
    samples = {name: [] for name, _ in calls}
    order = random.Random(SEED)
    for _ in range(rounds):
        # What ran before has left its lines in L2, so nobody always follows the same one.
        order.shuffle(calls)
        for name, call in calls:
            samples[name].append(milliseconds(call))
    medians = {name: statistics.median(times) for name, times in samples.items()}
    copy = min(medians[name] for name in copies)
    return {
        "element_bytes": element_bytes,
        "features": features,
        "payload_bytes": words.nbytes,
        "rows": rows,
        "copy_bytes_per_second": 2 * x.nbytes / (copy / 1e3),
        "milliseconds": medians,
        "fraction_of_copy": {name: copy / medians[name] for name in subjects},
        "absent": absent,
        "wrong": wrong,
    }


def right(call, x, y, on_device):
    """Whether a call writes the permutation, to the bit, in some rows and the last."""
    y.view(torch.uint8).fill_(0xA5)
    call()
    chosen = torch.arange(0, len(x), max(1, len(x) // 64), device=x.device)
    chosen = torch.cat([chosen, torch.tensor([len(x) - 1], device=x.device)])
    return torch.equal(y[chosen], x[chosen][:, on_device])


def milliseconds(call, launches=3):
    """GPU time of one launch, from events around a few."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()
    start.record()
    for _ in range(launches):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / launches


def line(point):
    """One row of the table."""
    fractions = "  ".join(f"{k} {v:.3f}" for k, v in point["fraction_of_copy"].items())
    copy = point["copy_bytes_per_second"] / 1e12
    wrong = f"  WRONG: {', '.join(point['wrong'])}" if point["wrong"] else ""
    size = f"{point['element_bytes']:2} B x {point['features']:6}"
    return f"{size}  copy {copy:.2f} TB/s  of copy: {fractions}{wrong}"


if __name__ == "__main__":
    main()
