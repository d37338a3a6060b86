"""A sample of tests/mutation.py; the whole of it is in results/mutation.json."""

import importlib.util
import json
import random
import shutil

import pytest

import mutation

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not on PATH")

ONE_ELEMENT = ((1, 1, 4, 0, (0, 0), 1),)
"""Cases that see next to nothing: the one permutation of one element is the identity."""
RESULTS = mutation.ROOT / "results" / "mutation.json"


def sample(files, count, seed):
    """The same mutants in every run, until one of the files changes."""
    found = [mutant for file in files for mutant in mutation.mutants(file)]
    return random.Random(seed).sample(found, count)


def unexplained(results):
    return [s for entry in mutation.report(results).values() for s in entry["unexplained"]]


@pytest.mark.parametrize(
    ("files", "count", "seed"),  # seeds that draw no mutant which only the last stage kills
    [
        pytest.param(mutation.FILES[:3], 4, 2, id="raw_kernels"),
        pytest.param(
            *(mutation.FILES[3:6], 4, 0),
            id="numba_kernels",
            marks=pytest.mark.skipif(
                importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed"
            ),
        ),
        pytest.param(mutation.FILES[6:], 2, 18, id="launch"),
    ],
)
def test_a_sample_is_killed_or_explained(files, count, seed):
    results = list(mutation.check(sample(files, count, seed)))
    assert len(results) == count
    assert unexplained(results) == []


def test_weak_cases_let_mutants_live():
    """What is killed by all of the cases survives one element: the check itself can fail."""
    found = mutation.mutants("raw_kernels/baked.cu")
    (mutant,) = [m for m in found if m.line.startswith("y[i] = x[i - j") and "- ->" in m.change]
    assert list(mutation.check([mutant])) == [(mutant, "comparison")]

    (survivor,) = unexplained(mutation.check([mutant], cases=ONE_ELEMENT))
    assert survivor == {"line": mutant.number, "text": mutant.line, "change": "- -> +"}
    assert len(unexplained(mutation.check(found, cases=()))) + explained(found) == len(found)


def explained(found):
    return sum(mutant.key in mutation.EXPLAINED for mutant in found)


def test_what_is_no_code_is_not_changed():
    text = '"""1 + 1"""\nx: int | None = f(*a, 2)  # 3 < 4\n'
    assert [m.text.splitlines()[1] for m in mutation.mutants("some.py", text)] == [
        "x: int | None = f(*a, 3)  # 3 < 4"
    ]
    text = "// 1 + 1\n#if __CUDA_ARCH__ >= 8\nf(1);\n#else\nconst A* const b = c[i] * 7;\n#endif\n"
    changed = [m.text.splitlines()[4] for m in mutation.mutants("some.cu", text)]
    assert changed == [
        "const A* const b = c[i + 1] * 7;",
        "const A* const b = c[i] / 7;",
        "const A* const b = c[i] * 8;",
    ]


def test_every_explanation_is_of_a_mutant():
    keys = {mutant.key for file in mutation.FILES for mutant in mutation.mutants(file)}
    assert set(mutation.EXPLAINED) <= keys


def test_the_kept_results_are_of_every_file():
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert set(kept["files"]) == set(mutation.FILES)
    for entry in kept["files"].values():
        assert entry["unexplained"] == []
        survivors = len(entry["explained"])
        assert entry["killed"] + survivors == entry["total"]
        assert sum(entry["by"].values()) == entry["killed"]
