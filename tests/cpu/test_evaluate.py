"""The evaluation: it accepts what is right, rejects what is wrong, and says what it left out."""

import itertools
import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from perm_gpu import Model, ModelNew, ToolchainError, toolchains
from perm_gpu.cli import app
from perm_gpu.evaluate import build, correctness, evaluation, specs, statistics, timing
from perm_gpu.model import reference_permutation

CPU = torch.device("cpu")

# ---- correctness ------------------------------------------------------------------------------


def right(x):
    return x[:, reference_permutation(x.shape[-1])]


class SharedOutput:
    """A buffer that every call of one shape writes to."""

    def __init__(self):
        self.buffers = {}

    def __call__(self, x):
        y = self.buffers.setdefault(x.shape[-1], torch.empty(2000, x.shape[-1]))[: len(x)]
        return y.copy_(right(x))


def first_ten_rows(x):
    y = torch.zeros_like(x)
    y[:10] = right(x[:10])
    return y


def changes_its_input(x):
    y = right(x)
    x.zero_()
    return y


def rounds(x):
    """Right but for what addition does to the bits of NaNs and of -0."""
    return right(x) + 0.0


def one_element_off(x):
    y = right(x)
    if y.numel():
        y.view(torch.int32)[-1, -1] ^= 1
    return y


def raises(x):
    raise RuntimeError("out of luck")


@pytest.mark.parametrize(
    ("module", "fault"),
    [
        (SharedOutput(), "a later call changed this output"),
        (first_ten_rows, "elements are wrong"),
        (changes_its_input, "x was changed"),
        (rounds, "elements are wrong"),
        (one_element_off, "1 of 36 elements are wrong"),
        (raises, "raised RuntimeError: out of luck"),
        (lambda x: x, "shares memory with x"),
        (lambda x: right(x).double(), "the dtype is torch.float64"),
        (lambda x: right(x).t(), "the shape is"),
        (lambda x: right(x).t().contiguous().t(), "the strides are"),
        (lambda x: right(x).numpy(), "the type is ndarray"),
        (lambda x: x[:, torch.arange(x.shape[-1]).flip(0)], "elements are wrong"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_wrong_module_is_rejected(module, fault):
    cases = correctness.check(module, CPU)
    assert any(fault in text for case in cases for text in case.faults)


@pytest.mark.parametrize("module", [right, ModelNew(), Model(37)], ids=["torch", "ours", "37"])
def test_a_right_module_is_accepted(module):
    widths = (37,) if isinstance(module, Model) else correctness.WIDTHS
    done = []
    cases = correctness.check(module, CPU, widths=widths, done=lambda: done.append(1))
    assert len(cases) == len(done) == len(correctness.BATCHES) * len(widths)
    assert not any(case.faults for case in cases)


def test_inputs_have_every_kind_of_float():
    x = correctness.random_bits(1000, 216, torch.Generator().manual_seed(0))
    words = x.view(torch.int32)
    assert x.isnan().any()
    assert (x.isnan() & (words & 0x7FFFFF != 0x400000)).any()  # with a payload
    assert (x.abs() < torch.finfo(torch.float32).tiny).any()
    assert (x < 0).any()


# ---- statistics and clocks --------------------------------------------------------------------


@given(st.integers(6, 1000))
def test_interval_has_its_level_and_is_the_narrowest(count):
    def outside(k):
        """Probability that the median is not between the k-th smallest and the k-th largest."""
        return sum(math.comb(count, i) for i in range(k)) / 2 ** (count - 1)

    k = statistics.rank(count)
    assert outside(k) <= 0.05
    assert k == count // 2 or outside(k + 1) > 0.05


def test_interval_of_many_samples_goes_on_where_the_exact_one_ends():
    ranks = [statistics.rank(count) for count in range(990, 1012)]
    assert all(0 <= after - before <= 1 for before, after in itertools.pairwise(ranks))


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([3.0], (3.0, 3.0, 3.0, 1)),
        ([4.0, 1.0, 3.0, 2.0], (2.5, 1.0, 4.0, 4)),
        ([*range(100, 0, -1)], (50.5, 40, 61, 100)),
    ],
)
def test_median(samples, expected):
    found = statistics.median(samples)
    assert (found.value, found.low, found.high, found.samples) == expected


def test_median_of_nothing():
    with pytest.raises(ValueError, match="0 samples"):
        statistics.median([])


def test_subjects_take_turns():
    order = []

    def clock(call, trials):
        order.append(call)
        return [float(trials)] * trials

    samples = timing.interleaved({"a": "A", "b": "B", "c": "C"}, clock, rounds=4, trials=2)
    assert "".join(order) == "ABCBCACABABC"
    assert samples == {name: [2.0] * 8 for name in "abc"}


def test_host_clocks_time_each_call():
    calls = []
    times = timing.host_isolated(lambda: calls.append(sum(range(10_000))), 7)
    assert len(calls) == len(times) == 7
    assert min(times) > 1
    (mean,) = timing.host_burst(lambda: calls.append(sum(range(10_000))), 5)
    assert len(calls) == 12
    assert mean > 1


# ---- the command ------------------------------------------------------------------------------


@pytest.fixture
def few_builds(monkeypatch):
    """What `make evaluate` builds, for one element size only."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(build, "ELEMENT_BYTES", (4,))


@pytest.mark.usefixtures("few_builds")
def test_command_writes_everything_and_exits_with_0(tmp_path):
    file = tmp_path / "evaluation.json"
    done = CliRunner().invoke(app, ["evaluate", "--json", str(file)])
    assert done.exit_code == 0, done.output
    record = json.loads(file.read_text())

    assert record["faults"] == []
    cases = record["correct"]["ModelNew"]
    assert {(case["rows"], case["features"]) for case in cases} == {
        (rows, features) for rows in correctness.BATCHES for features in correctness.WIDTHS
    }
    assert "no CUDA device" in record["not_run"]["kernels"]
    assert "not run: kernels" in done.output
    installed = [n for n, t in toolchains.toolchains().items() if t.missing() is None]
    assert {built["toolchain"] for built in record["built"]} == set(installed)
    assert all(built["cubin_bytes"] and not built["spilled_bytes"] for built in record["built"])
    assert record["specs"]["versions"]["torch"] == torch.__version__
    (times,) = record["times"].values()
    assert {"reference", "index_select", "clone"} <= set(times)
    assert f"all of {len(cases)} cases" in done.output.splitlines()[-1]


@pytest.mark.usefixtures("few_builds")
def test_a_wrong_answer_is_named_and_exits_with_1(monkeypatch):
    monkeypatch.setattr(evaluation, "under_test", lambda *_: {"ModelNew": first_ten_rows})
    monkeypatch.setattr(evaluation, "build_all", lambda *_: None)
    done = CliRunner().invoke(app, ["evaluate"])
    assert done.exit_code == 1
    assert "WRONG: ModelNew, B = 11, N = 36: " in done.output
    assert "cases are wrong" in done.output.splitlines()[-1]


@pytest.mark.usefixtures("few_builds")
def test_a_kernel_that_does_not_build_is_named_and_exits_with_1(monkeypatch):
    toolchain = next(iter(toolchains.toolchains().values()))
    if reason := toolchain.missing():
        pytest.skip(reason)

    def compile_(self, variant, launch, arch):
        raise ToolchainError("no room left")

    monkeypatch.setattr(type(toolchain), "compile", compile_)
    done = CliRunner().invoke(app, ["evaluate"])
    assert done.exit_code == 1
    assert f"WRONG: {toolchain.name} gather, 4 B: no room left" in done.output


def test_options_are_checked():
    assert CliRunner().invoke(app, ["evaluate", "--rounds", "0"]).exit_code == 2


def test_specs_say_what_is_not_known(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(specs.shutil, "which", lambda name: None)
    found = specs.specs()
    assert found["device"] == {}
    assert found["versions"]["nvcc"] == "n/a"
    assert found["machine"]["cores"] >= 1
    assert set(found["toolchains"]) == set(toolchains.NAMES)
