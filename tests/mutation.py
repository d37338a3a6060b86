"""Do the tests see a wrong kernel? python tests/mutation.py [NAME ...] [--sample N] [--seed S]

Each arithmetic operator, comparison, index and integer of the kernels and of perm_gpu/launch.py is
changed, one at a time, and what is there to find faults must find it:

- raw_kernels/*.cu: g++, the fibers in both orders, and the sanitizers, at every case of `CASES`;
- perm_gpu/numba_kernels/*.py: Numba's simulator, at every problem of tests/simulate.py;
- perm_gpu/launch.py: tests/cpu/test_launch*.py.

NAME is a file, such as tile.cu. The exit code is 1 if a mutant survives that `EXPLAINED` lacks.
"""

import argparse
import concurrent.futures
import dataclasses
import datetime
import functools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from mutants import Mutant, mutants  # noqa: E402
from mutation_survivors import EXPLAINED  # noqa: E402

FILES = (
    *(f"raw_kernels/{name}.cu" for name in ("gather", "baked", "tile")),
    *(f"perm_gpu/numba_kernels/{name}.py" for name in ("gather", "baked", "tile")),
    "perm_gpu/launch.py",
)

CASES = (  # rows, features, width, gap, offsets of x and y in bytes, items of a thread of gather
    (10, 36, 4, 0, (0, 0), 1),  # two blocks of baked, the last one not full
    (230, 37, 1, 0, (0, 0), 1),  # three tiles, tail vectors
    (70, 40, 4, 8, (0, 0), 1),  # three tiles of strided rows
    (7, 37, 4, 2, (4, 8), 1),  # narrow words
    (5, 128, 8, -128, (8, 0), 1),  # one row, repeated
    (20, 96, 2, 0, (0, 0), 3),  # 12 words of baked; several elements to a thread of gather
    (3, 100, 16, 0, (0, 0), 1),
    (9, 33, 2, 0, (2, 6), 1),
    (33, 100, 1, 4, (4, 1), 1),
    (500, 1, 4, 3, (0, 0), 1),
    (2, 5000, 4, 0, (0, 0), 1),  # one row to a tile
    (2, 5001, 2, 7, (0, 0), 1),  # 20 loads to a thread
    (2, 14_000, 16, 0, (0, 0), 1),  # 14 loads to a thread, 1024 threads
    (3, 36, 1, (3 << 29) - 36, (0, 0), 1),  # rows 1.5 GB apart
)
THREADED = 6
"""Of `CASES`, the first ones also run under ThreadSanitizer: races do not depend on widths."""
SIMULATED = (  # rows, features, row stride, bytes that x and y are off an aligned address
    (230, 37, 37, 0, 0),  # several dense tiles, less than a word is left of the last one
    (2, 5000, 5000, 0, 0),  # two batches of loads
    (60, 40, 44, 0, 0),  # several tiles of strided rows
)
"""More problems for Numba's simulator; those of tests/simulate.py come first."""
SIMULATION_S, TESTS_S = 60, 180
"""Time limits of one mutant."""

RUN_FIBERS = """
import ctypes, sys
import numpy as np
data = open(sys.argv[1], "rb").read()
head = np.frombuffer(data, np.int64, 10).tolist()
blocks, threads, shared, rows, row_bytes, stride, x_offset, y_offset, table_bytes, count = head
scalars = np.frombuffer(data, np.int64, count, 80).tolist()
body = np.frombuffer(data, np.uint8, offset=80 + 8 * count)
x = np.empty(x_offset + (rows - 1) * stride + row_bytes, np.uint8)
for r in range(rows):
    x[x_offset + r * stride :][:row_bytes] = body[r * row_bytes :][:row_bytes]
table = body[rows * row_bytes :].copy()
results = []
for order in (0, 1):
    y = np.full(y_offset + rows * row_bytes, 0xA5, np.uint8)
    values = [x.ctypes.data + x_offset, y.ctypes.data + y_offset, *scalars[:2]]
    values += [table.ctypes.data] * (table_bytes > 0) + scalars[2:]
    values = np.array(values, np.int64)
    parameters = np.array([values.ctypes.data + 8 * k for k in range(len(values))], np.int64)
    launch = ctypes.CDLL(library).launch
    if launch(0, blocks, threads, ctypes.c_size_t(shared), ctypes.c_void_p(parameters.ctypes.data),
              order):
        sys.exit("divergent barrier")
    results.append(y[y_offset:].tobytes())
if results[0] != results[1]:
    sys.exit("the order of the threads matters")
open(sys.argv[1] + ".y", "wb").write(results[0])
"""
"""`host_kernels.run_alone` for a library of fibers: a program, in a process of its own."""


# ---- who kills it -----------------------------------------------------------------------------


def with_items(launch, items):
    """The launch with several elements to a thread, as `gather` has only at large problems."""
    fields = dict(launch.specialisation)
    if "items" not in fields:
        return launch
    return dataclasses.replace(
        launch,
        specialisation=tuple((fields | {"items": items}).items()),
        block_elements=launch.threads * items,
    )


@functools.lru_cache(512)
def assembly(variant, launch, text):
    """What g++ makes of a kernel, without line numbers."""
    import host_kernels

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.cu"
        source.write_text(text, encoding="utf-8")
        flags = [flag for flag in host_kernels.FLAGS if flag != "-g"]
        names = (f"-DPERM_KERNEL={variant}", f'-DPERM_SOURCE="{source}"')
        words = [*flags, *host_kernels.cuda.macros(launch), *names, "-S", "-o", "-"]
        words.append(str(host_kernels.HOST / "kernel.cpp"))
        return subprocess.run(words, capture_output=True, check=True).stdout


def kill_raw(mutant, cases):
    """What kills a mutant of a .cu file, or None."""
    import host_kernels
    from perm_gpu.problem import Problem, alignment
    from perm_gpu.registry import VARIANTS

    variant = Path(mutant.file).stem
    original = (ROOT / mutant.file).read_text(encoding="utf-8")
    ready = []
    for rows, features, width, gap, offsets, items in cases:
        stride = features + gap
        x_alignment = alignment(offsets[0], stride * width if gap else 0)
        problem = Problem(rows, features, width, stride, x_alignment, alignment(offsets[1]))
        if VARIANTS[variant].rejects(problem):
            continue
        launch = VARIANTS[variant].geometry(problem)
        ready.append((problem, with_items(launch, items), offsets))

    with tempfile.TemporaryDirectory() as folder:
        try:
            if mutant.text != original and all(
                assembly(variant, launch, mutant.text) == assembly(variant, launch, original)
                for _, launch, _ in ready
            ):
                return None  # there is nothing to see
        except subprocess.CalledProcessError:
            return "compiler"
        path = Path(folder) / "case"
        for sanitizer in host_kernels.SANITIZERS:
            for problem, launch, offsets in ready[: THREADED if sanitizer == "thread" else None]:
                runner = "fibers" if sanitizer == "none" else "threads"
                try:
                    program = host_kernels.build(variant, launch, runner, sanitizer, mutant.text)
                except AssertionError:
                    return "compiler"
                if sanitizer == "none":
                    script = f"#!{sys.executable}\nlibrary = {str(program)!r}\n{RUN_FIBERS}"
                    program = Path(folder) / "fibers"
                    program.write_text(script, encoding="utf-8")
                    program.chmod(0o700)
                done = host_kernels.run_alone(program, variant, problem, launch, path, offsets)
                if done != (0, "", True):
                    if done[0] is None:
                        return "time limit"
                    return "comparison" if sanitizer == "none" or not done[1] else "sanitizer"
    return None


def kill_simulated(found):
    """What kills each mutant of Numba kernels, or None; one process imports the simulator once."""
    work = [(Path(mutant.file).stem, mutant.text) for mutant in found]
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    done = subprocess.run(
        [sys.executable, "-c", "import mutation; mutation.simulate_all()"],
        input=json.dumps(work),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def simulate_all():
    """Forks a process for each mutant, which ends by itself when its time is over."""
    import simulate
    from perm_gpu.registry import VARIANTS

    simulate.PROBLEMS += SIMULATED
    gather = VARIANTS["gather"]
    geometry, reasons = gather.geometry, []
    for variant, text in json.load(sys.stdin):
        if child := os.fork():
            status = os.waitpid(child, 0)[1]
            killed = "time limit" if os.WIFSIGNALED(status) else "comparison"
            reasons.append(killed if status else None)
            continue
        signal.alarm(SIMULATION_S)
        code = 1
        try:
            for number, (problem, offsets) in enumerate(simulate.problems()):
                if VARIANTS[variant].rejects(problem):
                    continue
                items = (1, 3)[number % 2]
                gather.geometry = lambda problem, items=items: with_items(geometry(problem), items)
                y, expected = simulate.simulate(
                    simulate.built(variant, text), variant, problem, offsets
                )
                if y != expected:
                    break
            else:
                code = 0
        finally:
            os._exit(code)
    print(json.dumps(reasons))


COPIED = ("perm_gpu", "tests", "raw_kernels", "benchmarks", "results", "docs")


def snapshot(folder):
    """A copy of what the tests need: whoever edits a file meanwhile disturbs nothing."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


def kill_launch(mutant, base):
    """What kills a mutant of launch.py, or None."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "copy"
        shutil.copytree(base, folder)
        (folder / mutant.file).write_text(mutant.text, encoding="utf-8")
        tests = sorted((folder / "tests" / "cpu").glob("test_launch*.py"))
        options = ("-q", "-x", "-p", "no:cacheprovider", "--hypothesis-seed=0")
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return "test" if process.wait(TESTS_S) else None
        except subprocess.TimeoutExpired:
            return "time limit"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def check(found, jobs=1, cases=CASES):
    """(mutant, what kills it or None) for every one; `cases` is for the raw kernels."""
    by_kind = {"raw": [], "numba": [], "launch": []}
    for mutant in found:
        kind = "launch" if mutant.file == FILES[-1] else "raw"
        by_kind["numba" if "numba" in mutant.file else kind].append(mutant)
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ThreadPoolExecutor(jobs) as pool,
    ):
        base = snapshot(Path(folder)) if by_kind["launch"] else None
        raw = by_kind["raw"]
        yield from zip(raw, pool.map(lambda m: kill_raw(m, cases), raw), strict=True)
        if by_kind["numba"]:
            yield from zip(by_kind["numba"], kill_simulated(by_kind["numba"]), strict=True)
        launch = by_kind["launch"]
        yield from zip(launch, pool.map(lambda m: kill_launch(m, base), launch), strict=True)


# ---- the report -------------------------------------------------------------------------------


def report(results):
    """For each file: killed, total, killed by what, and the survivors with their explanations."""
    files = {}
    for mutant, killer in results:
        entry = files.setdefault(
            mutant.file, {"killed": 0, "total": 0, "by": {}, "explained": [], "unexplained": []}
        )
        entry["total"] += 1
        if killer is not None:
            entry["killed"] += 1
            entry["by"][killer] = entry["by"].get(killer, 0) + 1
            continue
        survivor = {"line": mutant.number, "text": mutant.line, "change": mutant.change}
        if mutant.key in EXPLAINED:
            entry["explained"].append(survivor | {"why": EXPLAINED[mutant.key]})
        else:
            entry["unexplained"].append(survivor)
    return files


def original(file):
    """The file as it is, which must survive: else every kill says nothing."""
    return Mutant(file, 0, "", "nothing", (ROOT / file).read_text(encoding="utf-8"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="files, such as tile.cu; else all")
    parser.add_argument("--sample", type=int, help="how many mutants, chosen by --seed; else all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="entries of files that are not run are kept")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    options = parser.parse_args()
    files = [f for f in FILES if not options.names or Path(f).name in options.names]
    if len(files) < len(options.names):
        parser.error(f"the files are {', '.join(Path(f).name for f in FILES)}")

    for mutant, killer in check([original(file) for file in files]):
        if killer is not None:
            sys.exit(f"{mutant.file} itself is killed: {killer}")
    found = [mutant for file in files for mutant in mutants(file)]
    if options.sample is not None:
        found = random.Random(options.seed).sample(found, min(options.sample, len(found)))
    results = []
    for mutant, killer in check(found, options.jobs):
        print(f"{mutant.file}:{mutant.number}: {mutant.change}: {killer or 'SURVIVES'}", flush=True)
        results.append((mutant, killer))

    ran = report(results)
    for file, entry in ran.items():
        print(f"{file}: {entry['killed']} / {entry['total']} killed, by {entry['by']}")
        for kind in ("explained", "unexplained"):
            for s in entry[kind]:
                why = s.get("why", "UNEXPLAINED")
                print(f"  {s['line']}: {s['text']}\n    {s['change']}: {why}")
    if options.json:
        words = ["python tests/mutation.py", *options.names, "--json", options.json.name]
        date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        about = {"command": " ".join(words), "date": date}
        kept = json.loads(options.json.read_text()) if options.json.exists() else {}
        entries = kept.get("files", {}) | {file: about | entry for file, entry in ran.items()}
        entries = {file: entries[file] for file in FILES if file in entries}
        sums = {key: sum(entry[key] for entry in entries.values()) for key in ("killed", "total")}
        text = json.dumps(sums | {"files": entries}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    sys.exit(any(entry["unexplained"] for entry in ran.values()))


if __name__ == "__main__":
    main()
