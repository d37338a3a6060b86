"""The tables of the README and of docs/testing.md, from the registry and from results/.

python -m benchmarks.tables

A table stands between <!-- name --> and <!-- /name -->, and nothing there is written by hand.
"""

import importlib.util
import json
from pathlib import Path

from perm_gpu.registry import VARIANTS

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
CLOCKS = {
    "host, isolated": "host, us",
    "KernelBench cuda_event": "KernelBench, us",
    "GPU, graph replay": "GPU, us",
}
SUBJECTS = {
    "reference": "reference, `x[:, perm.to(x.device)]`",
    "x[:, perm]": "`x[:, perm]`",
    "index_select": "`torch.index_select`",
    "torch.compile": "`torch.compile` of it",
    "shared output": "one output buffer for every call (wrong for other batches)",
    "clone": "`x.clone()`",
    "copy kernel": "a copy kernel",
    "ModelNew, nvrtc": "**`ModelNew`**, nvrtc",
    "ModelNew, nvcc": "**`ModelNew`**, nvcc",
    "ModelNew, numba": "**`ModelNew`**, numba",
}


def main():
    for path in TABLES:
        path.write_text(filled(path), encoding="utf-8")


def filled(path):
    """The text of a document with its tables as they should be now."""
    text = path.read_text(encoding="utf-8")
    for name, table in TABLES[path].items():
        before, start, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        if not (start and end):
            raise ValueError(f"{path.name} has no <!-- {name} --> ... <!-- /{name} -->")
        text = f"{before}{start}{table()}\n{end}{after}"
    return text


def result(name):
    """One file of results/."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def rows(header, body, align="---:"):
    """A table in Markdown; all columns but the first are numbers, to the right."""
    lines = [header, ["---", *[align] * (len(header) - 1)], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def variants():
    """The kernels: what each does, and who builds it."""
    body = []
    for name, variant in VARIANTS.items():
        numba = importlib.util.find_spec(f"perm_gpu.numba_kernels.{name}") is not None
        what = type(variant).__doc__.splitlines()[0].rstrip(".")
        body.append([f"`{name}`", what, "CUDA C++, Numba" if numba else "CUDA C++"])
    return rows(["variant", "what it does", "written in"], body, align="---")


def speed():
    """Both regimes, and where the numbers are from."""
    launch_bound, sweep = result("launch_bound"), result("sweep")
    return "\n\n".join(
        [
            f"(10, 36) float32, medians. {source(launch_bound)}",
            launch_bound_table(launch_bound["microseconds"]),
            "Past L2: fraction of copy speed that nvrtc / numba / `torch.index_select` reach, by "
            f"element size and N, for {sweep['points'][0]['payload_bytes'] >> 20} MiB read and a "
            f"random permutation. {source(sweep)}",
            sweep_table(sweep["points"]),
        ]
    )


def mutation():
    """Mutants that were killed, by file."""
    kept = result("mutation")
    body = [
        [f"`{file}`", str(entry["killed"]), str(entry["total"]), str(len(entry["explained"]))]
        for file, entry in kept["files"].items()
    ]
    explained = sum(len(entry["explained"]) for entry in kept["files"].values())
    body.append(["all", str(kept["killed"]), str(kept["total"]), str(explained)])
    return rows(["file", "killed", "mutants", "survivors, all explained"], body)


def source(record):
    """Which device, versions and command a result is from."""
    device, versions = record["specs"]["device"], record["specs"]["versions"]
    return (
        f"{device['name']}, driver {device['driver']}, torch {versions['torch']}, "
        f"{record['date']}: `{record['command']}`."
    )


def launch_bound_table(times):
    """One line a subject, in microseconds and as a part of index_select's."""
    body = []
    for name, title in SUBJECTS.items():
        cells = []
        for clock in CLOCKS:
            if name in times[clock]:
                value = times[clock][name]["value"]
                ratio = value / times[clock]["index_select"]["value"]
                cells.append(f"{value:.2f} ({ratio:.2f})")
            else:
                cells.append("n/a")
        if set(cells) != {"n/a"}:
            body.append([title, *cells])
    header = [f"{title} (/ index_select)" for title in CLOCKS.values()]
    return rows(["what", *header], body)


def sweep_table(points):
    """One line an element size, one column a width."""
    fractions = {(p["element_bytes"], p["features"]): p["fraction_of_copy"] for p in points}
    sizes, widths = (sorted({key[axis] for key in fractions}) for axis in (0, 1))

    def cell(point):
        return " / ".join(f"{point[name]:.2f}" for name in ("nvrtc", "numba", "index_select"))

    body = [[f"{size} B", *(cell(fractions[size, width]) for width in widths)] for size in sizes]
    return rows(["element", *(f"N = {width:,}" for width in widths)], body)


TABLES = {
    ROOT / "README.md": {"variants": variants, "speed": speed},
    ROOT / "docs" / "testing.md": {"mutation": mutation},
}
"""Document to what makes each of its tables."""


if __name__ == "__main__":
    main()
