"""Toolchains and variants that are not there, do not work or cannot: who serves, who is told."""

import importlib.util
import warnings

import numpy as np
import pytest
import torch

from bits import assert_permuted, random_bits
from cases import LAYOUTS, shuffled
from perm_gpu import PERM as MODEL_PERM
from perm_gpu import FeaturePermutation, ModelNew, permute_features
from perm_gpu.errors import ToolchainError, UnsupportedProblemError
from perm_gpu.toolchains import NAMES

PERM = shuffled(36)


@pytest.mark.parametrize("name", NAMES)
def test_missing_toolchain_names_what_to_install(monkeypatch, name):
    find = importlib.util.find_spec
    absent = {"cupy", "numba_cuda"}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n, *a: None if n in absent else find(n, *a)
    )
    for call in (FeaturePermutation, lambda perm, **k: permute_features(torch.ones(36), perm, **k)):
        with pytest.raises(ToolchainError, match=f"'{name}' cannot .*pip install 'perm-gpu.cuda12"):
            call(PERM, toolchain=name)


def test_unknown_names_are_answered_with_those_that_exist(device):
    with pytest.raises(ToolchainError, match="no toolchain 'gcc'; there are: auto, nvrtc, nvcc, n"):
        FeaturePermutation(PERM, toolchain="gcc")
    with pytest.raises(UnsupportedProblemError, match=r"no variant 'best'; .*: auto, baked, tile"):
        FeaturePermutation(PERM, variant="best")


def test_variant_that_cannot_says_both_numbers(device):
    permute = FeaturePermutation(range(129), variant="baked")
    for _ in range(2):
        with pytest.raises(UnsupportedProblemError, match=r"'baked'.* 129 .*\b128\b.*tile, gather"):
            permute(torch.ones(5, 129))
    assert device.launched == []


@pytest.fixture
def without(device):
    """Takes every toolchain away: says how many compilations that costs for one kind of input."""

    def fail(how):
        failure = {"missing": "not there", "broken": ToolchainError("no compiler")}[how]
        getattr(device, how).update(dict.fromkeys(NAMES, failure))
        return len(NAMES) if how == "broken" else 0

    return fail


@pytest.mark.parametrize("how", ["missing", "broken"])
@pytest.mark.parametrize("layout", ["dense", "3-d", "row-strided", "1-d"])
@pytest.mark.parametrize(
    ("make", "perm"), [(lambda: FeaturePermutation(PERM), PERM), (ModelNew, MODEL_PERM)]
)
def test_without_any_toolchain_torch_serves_and_warns_once(
    device, without, how, layout, make, perm
):
    compilations, module = without(how), make()
    x = LAYOUTS[layout](random_bits, 10, 36)
    with pytest.warns(RuntimeWarning, match=r"index_select.*pip install 'perm-gpu") as warned:
        assert_permuted(module(x), x, perm)
    assert [warning.filename for warning in warned] == [__file__]

    for _ in range(2):  # a warning would raise
        assert_permuted(module(x), x, perm)
    assert len(device.compiled) == compilations
    assert_permuted(make()(x), x, perm)
    if make is not ModelNew:
        assert_permuted(module.inverse(x), x, np.argsort(perm))
        assert_permuted(module(x, out=torch.empty(x.shape)), x, perm)
    assert device.launched == []


CALLS = {
    "functional": lambda module, x: permute_features(x, PERM),
    "inverse": lambda module, x: module.inverse(x),
    "warmup": lambda module, x: module.warmup(x),
    "NumPy": lambda module, x: module(x.numpy()),
    "out": lambda module, x: module(x, out=torch.empty(x.shape)),
    "grad": lambda module, x: module(x.requires_grad_()),
    "hook": lambda module, x: (module.register_forward_hook(lambda *_: None), module(x)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_the_warning_points_at_the_caller(without, call, warm):
    permute = FeaturePermutation(PERM)
    if warm:  # by another kind of input
        permute(random_bits(10, 36, dtype=torch.int64))
        permute.inverse(random_bits(10, 36, dtype=torch.int64))
    without("broken")
    with pytest.warns(RuntimeWarning) as warned:
        call(permute, random_bits(10, 36))
    assert [warning.filename for warning in warned] == [__file__]


@pytest.mark.parametrize("how", ["missing", "broken"])
def test_auto_takes_the_next_toolchain(device, how):
    failure = {"missing": "not there", "broken": ToolchainError("no compiler")}[how]
    getattr(device, how)["nvrtc"] = failure
    permute, x = FeaturePermutation(PERM), random_bits(5, 36)
    permute(x), permute(x)
    assert_permuted(permute(x), x, PERM)
    assert [launch.code.toolchain for launch in device.launched] == ["nvcc"] * 3
    assert [name for name, _ in device.compiled] == ["nvrtc", "nvcc"][how == "missing" :]


def test_named_toolchain_that_fails_raises_and_is_not_tried_again(device):
    device.broken["nvcc"] = ToolchainError("line 3: what")
    permute = FeaturePermutation(PERM, toolchain="nvcc")
    for _ in range(3):
        with pytest.raises(ToolchainError, match="nvcc: line 3: what"):
            permute(random_bits(10, 36))
    assert device.compiled == [("nvcc", "baked")]
    assert device.launched == []


def test_cpu_tensors_never_warn(monkeypatch):
    for module in ("cuda.Cuda", "nvcc.Nvcc", "numba.Numba"):
        monkeypatch.setattr(f"perm_gpu.toolchains.{module}.missing", lambda self: "not there")
    x = random_bits(10, 36)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert_permuted(FeaturePermutation(PERM)(x), x, PERM)
        assert_permuted(permute_features(x, PERM), x, PERM)
    assert warned == []
