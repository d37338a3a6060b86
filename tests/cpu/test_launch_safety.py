"""Launches where something interferes: threads, re-entrancy, errors, captures, other torches."""

import sys
import threading
from pathlib import Path

import pytest
import torch

from bits import assert_permuted, random_bits
from fake_driver import CONTEXT, DriverError
from perm_gpu import CaptureError, FeaturePermutation, ModelNew, driver, fast_module
from perm_gpu.model import PERM, reference_permutation
from processes import run

ROOT = str(Path(__file__).resolve().parents[2])


@pytest.fixture
def impatient_threads():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def in_threads(count, work):
    """Runs work(number) in threads; what one raises is raised here."""
    errors = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("dense", [True, False], ids=["fast path", "strided"])
@pytest.mark.usefixtures("impatient_threads")
def test_four_threads_share_a_module(device, dense):
    permute = FeaturePermutation(PERM)
    barrier = threading.Barrier(4)

    def work(number):
        base = random_bits(8 + number, 40, seed=number)
        x = base[:, :36].contiguous() if dense else base[:, :36]
        barrier.wait()
        for _ in range(300):
            assert_permuted(permute(x), x, PERM)

    in_threads(4, work)

    assert len(device.launched) == 1200
    assert len({launch.thread for launch in device.launched}) == 4
    assert len(set(device.compiled)) == len(device.compiled)  # each kernel is built once


@pytest.mark.usefixtures("impatient_threads")
def test_threads_meet_in_the_first_call(device):
    """Nothing is made beforehand: widths, plans and paths are made by all of them at once."""
    model = ModelNew()
    barrier = threading.Barrier(4)

    def work(number):
        barrier.wait()
        for features in range(1, 40):
            x = random_bits(4 + number, features, seed=number)
            assert_permuted(model(x), x, reference_permutation(features))

    in_threads(4, work)


@pytest.mark.parametrize("dense", [True, False], ids=["fast path", "strided"])
def test_a_launch_may_be_interrupted_by_another(device, dense):
    """A finalizer or a signal handler runs while the driver is called, and calls the module."""
    permute = FeaturePermutation(PERM)
    outer, inner = (
        random_bits(10, 40, seed=seed)[:, :36].clone(memory_format=torch.preserve_format)
        for seed in (1, 2)
    )
    if not dense:
        outer, inner = (random_bits(10, 40, seed=seed)[:, :36] for seed in (1, 2))
    permute(outer), permute(inner)
    depth = 0

    def interrupt():
        nonlocal depth
        if depth < 3:
            depth += 1
            assert_permuted(permute(inner), inner, PERM)

    device.before_launch = interrupt
    for _ in range(3):
        depth = 0
        assert_permuted(permute(outer), outer, PERM)
        assert depth == 3


@pytest.mark.parametrize("dense", [True, False], ids=["fast path", "strided"])
def test_a_thread_without_a_context_gets_one(device, dense):
    permute = FeaturePermutation(PERM)
    x = random_bits(10, 40)[:, :36]
    x = x.contiguous() if dense else x
    permute(x), permute(x)
    device.needs_context = True

    def work(_):
        assert not hasattr(device.contexts, "value")
        for _ in range(2):
            assert_permuted(permute(x), x, PERM)
        assert device.contexts.value == CONTEXT

    in_threads(1, work)
    assert len(device.launched) == 4


@pytest.mark.parametrize("dense", [True, False], ids=["fast path", "strided"])
@pytest.mark.parametrize("error", [DriverError(719), DriverError(201), KeyboardInterrupt()])
def test_other_errors_go_on_and_the_next_call_works(device, dense, error):
    """Also status 201 when the context does not help."""
    permute = FeaturePermutation(PERM)
    x = random_bits(10, 40)[:, :36]
    x = x.contiguous() if dense else x
    permute(x), permute(x)

    def fail():
        raise error

    device.before_launch = fail
    for _ in range(3):
        with pytest.raises(type(error)) as raised:
            permute(x)
        assert raised.value is error

    device.before_launch = lambda: None
    for _ in range(2):
        assert_permuted(permute(x), x, PERM)


def test_a_capture_that_comes_first_is_an_error_that_names_warmup(device):
    permute = FeaturePermutation(PERM)
    x = random_bits(10, 36)
    device.capturing = True

    with pytest.raises(CaptureError, match=r"captured: call warmup\(x\) before"):
        permute(x)

    assert device.compiled == device.launched == []
    device.capturing = False
    assert_permuted(permute(x), x, PERM)  # the failed attempt left nothing behind


def test_a_capture_after_warmup_compiles_nothing(device):
    """Forward for every layout that was shown, and backward, whose gradients are dense."""
    permute = FeaturePermutation(PERM)
    dense, strided = random_bits(10, 36), random_bits(10, 40)[:, :36]
    permute.warmup(dense, strided)
    device.compiled.clear()
    device.capturing = True

    for x in (dense, strided, dense):
        assert_permuted(permute(x), x, PERM)
    assert_permuted(permute.inverse(dense), dense, permute.permutation.inverse.array)
    x = torch.ones(10, 36, requires_grad=True)
    permute(x).backward(torch.ones(10, 36))

    assert device.compiled == []
    with pytest.raises(CaptureError):
        permute(random_bits(1 << 14, 36))  # of another size than warmup was shown


# Every private name of torch that is used, gone in turn.


def test_results_without_private_names(any_torch):
    model, permute = ModelNew(), FeaturePermutation(PERM)
    for rows in (10, 8, 0, 1, 11, 1000):
        x = random_bits(rows, 36, seed=rows)
        for _ in range(3):
            assert_permuted(model(x), x, PERM)
            assert_permuted(permute(x.view(1, rows, 36)), x.view(1, rows, 36), PERM)
    base = random_bits(10, 40)
    for x in (base[:, 1:37], base[:1, :36], base.view(-1)[1:361].view(10, 36)):
        assert_permuted(permute(x), x, PERM)
    assert any_torch.count == len(any_torch.launched) > 0


def test_streams_and_devices_without_private_names(any_torch):
    permute = FeaturePermutation(PERM)
    x = random_bits(10, 36)
    for stream, current in ((5, -1), (6, -1), (7, 2), (8, -1)):
        any_torch.current_stream, any_torch.current_device = stream, current
        assert_permuted(permute(x), x, PERM)
        assert any_torch.launched[-1].stream == stream


def test_steady_state_without_private_names(any_torch):
    slow = any_torch.slow_calls()
    model = ModelNew()
    model(random_bits(10, 36))
    slow.clear()
    for rows in (8, 9, 10, 11):
        x = random_bits(rows, 36)
        assert_permuted(model(x), x, PERM)
    assert slow == []


def test_private_names_that_answer_wrongly_are_not_used(any_torch, monkeypatch):
    """They exist on a CPU build, and raise; a later torch may give them another meaning."""
    guards = torch._C._dynamo.guards
    lie = torch.zeros(1)  # equals a stream of 0
    for wrong in (lambda *_: lie, lambda *_: 1 / 0):
        for owner, name in (
            (guards, "_empty_strided_cuda"),
            (torch._C, "_cuda_getCurrentRawStream"),
            (torch._C, "_cuda_getDevice"),
        ):
            monkeypatch.setattr(owner, name, wrong, raising=False)
        monkeypatch.setattr(driver, "_bound", None)
        calls = driver.bound()
        assert calls.allocate is driver._allocate
        assert calls.stream is driver._stream
        assert calls.device is torch.cuda.current_device


def test_private_names_are_used_where_they_work(any_torch, request):
    if "None" not in request.node.name:
        return
    calls = driver.bound()
    assert calls.allocate == any_torch.allocate
    assert (calls.stream, calls.device) == (any_torch.stream, any_torch.device)
    assert driver.bound() is calls


def test_results_without_the_hook_dictionaries(tmp_path):
    """`fast_module` then uses nn.Module's own call, for which hooks and results stay right."""
    script = """
import sys, types, torch
sys.modules["torch.nn.modules.module"] = types.ModuleType("torch.nn.modules.module")
import perm_gpu
from perm_gpu import fast_module
assert not fast_module.OWN_CALL
assert perm_gpu.ModelNew.__call__ is torch.nn.Module.__call__
x = torch.arange(72.0).view(2, 36)
module = perm_gpu.FeaturePermutation(perm_gpu.PERM)
for permute in (perm_gpu.ModelNew(), module):
    assert torch.equal(permute(x), x[:, perm_gpu.PERM])
out = torch.empty(2, 36)
assert module(x, out=out) is out and torch.equal(out, x[:, perm_gpu.PERM])
module.register_forward_hook(lambda module, inputs, y: y + 1)
assert torch.equal(module(x), x[:, perm_gpu.PERM] + 1)
print("right")
"""
    assert run(sys.executable, "-c", script, cwd=tmp_path, PYTHONPATH=ROOT) == "right\n"
    assert fast_module.OWN_CALL
