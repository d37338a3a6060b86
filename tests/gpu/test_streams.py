"""Streams, CUDA graphs and threads."""

import threading

import pytest
import torch

from cases import shuffled
from gpu.moving import assert_moved, never_waits, random_bits
from perm_gpu import CaptureError, FeaturePermutation, Model, ModelNew, driver

pytestmark = [pytest.mark.gpu, pytest.mark.axis("streams and threads")]

PERM = shuffled(36)


def busy():
    """Work that keeps the current stream from starting what follows."""
    torch.cuda._sleep(200_000)


def test_current_stream_is_used_every_time(toolchain):
    module = FeaturePermutation(PERM, toolchain=toolchain)
    streams = [torch.cuda.Stream() for _ in range(3)]
    x = [torch.zeros(10, 36, device="cuda") for _ in streams]
    module(x[0])
    torch.cuda.synchronize()
    results = []
    for repeat in range(1000):
        turn = repeat % len(streams)
        with torch.cuda.stream(streams[turn]):
            if repeat % 50 == 0:
                busy()
            x[turn].fill_(repeat)
            results.append(module(x[turn])[:, 0].clone())
    torch.cuda.synchronize()
    for repeat, first_column in enumerate(results):
        assert bool((first_column == repeat).all()), repeat


@pytest.mark.parametrize("make", [lambda: FeaturePermutation(PERM), ModelNew], ids=["ours", "new"])
def test_capture_and_replay_with_new_content(make):
    module, x = make(), random_bits(10, 36, dtype=torch.float32)
    perm = module(torch.arange(36.0, device="cuda").repeat(10, 1))[0].long().tolist()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = module(x)
    for seed in range(5):
        x.copy_(random_bits(10, 36, dtype=torch.float32, seed=seed))
        y.fill_(-1)
        graph.replay()
        torch.cuda.synchronize()
        assert_moved(x, y, perm)


def test_capture_before_the_first_call_names_warmup():
    x = random_bits(4096, 1000, dtype=torch.float32)
    perm = shuffled(1000)
    module = FeaturePermutation(perm)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add(0)  # torch warns of empty graphs
        with pytest.raises(CaptureError, match="warmup"):
            module(x)
    torch.cuda.synchronize()

    module.warmup(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y, again = module(x), module(x[:3000])
    graph.replay()
    torch.cuda.synchronize()
    assert_moved(x, y, perm)
    assert_moved(x[:3000], again, perm)


def test_four_threads_share_a_module(toolchain):
    module, failures = FeaturePermutation(PERM, toolchain=toolchain), []

    def work(seed):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                x = random_bits(10 + seed % 2, 36, dtype=torch.float32, seed=seed)
                for _ in range(500):
                    y = module(x)
                torch.cuda.current_stream().synchronize()
                assert_moved(x, y, PERM)
        except Exception as error:  # a thread's own would be lost
            failures.append(error)

    run_threads(*(lambda seed=seed: work(seed) for seed in range(4)))
    assert not failures


def test_thread_without_a_context():
    module = FeaturePermutation(PERM)
    x = random_bits(10, 36, dtype=torch.float32)
    module(x), module(x)
    path, results = module._fast, []
    y = torch.empty_like(x)
    torch.cuda.synchronize()
    # The thread's first CUDA calls are ours: the fast path, and the one with out=.
    run_threads(lambda: results.append(path(x)))
    run_threads(lambda: results.append(module(x, out=y)))
    torch.cuda.synchronize()
    for result in results:
        assert_moved(x, result, PERM)
    assert len(results) == 2


def test_status_201_is_what_a_thread_without_a_context_gets():
    """If this fails, the retry in launch.py may no longer be needed."""
    module = FeaturePermutation(PERM)
    module(random_bits(10, 36, dtype=torch.float32))
    (plan,) = module._launcher._plans.values()
    calls, block, seen = driver.bound(), plan.block(), []  # of a problem with 0 elements

    def launch():
        try:
            calls.launch(plan.kernel.function, 1, 1, 1, 32, 1, 1, 0, 0, block[1], 0)
        except calls.error as error:
            seen.append(error.status)

    run_threads(launch)
    assert seen == [driver.INVALID_CONTEXT]


def test_backward_in_another_thread_on_another_stream():
    module = FeaturePermutation(PERM)
    x = torch.randn(10, 36, device="cuda", requires_grad=True)
    weight = torch.randn(10, 36, device="cuda")
    torch.cuda.synchronize()
    forward, backward = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(forward):
        y = (module(x) * weight).sum()
    backward.wait_stream(forward)

    def run():
        with torch.cuda.stream(backward):
            y.backward()

    run_threads(run)
    torch.cuda.synchronize()
    assert_moved(weight, x.grad, module.inverse.permutation.array)


def test_steady_state_takes_the_fast_path_and_never_waits(monkeypatch):
    module, slow = ModelNew(), []
    inputs = [torch.randn(rows, 36, device="cuda") for rows in (8, 9, 10, 11)]
    for x in inputs * 2:
        module(x)
    monkeypatch.setattr(ModelNew, "_serve", lambda self, x: slow.append(x))
    torch.cuda.synchronize()
    with never_waits():
        for turn in range(1000):
            module(inputs[turn % 4])
    assert not slow


def test_many_batches_leave_nothing():
    module = ModelNew()
    everything = torch.randn(10_000, 36, device="cuda")
    for rows in range(1, 300):
        module(everything[:rows])
    launcher = module._permutation(everything)._launcher
    plans = len(launcher._plans), len(module._paths)
    memory = torch.cuda.memory_allocated()
    for rows in range(1, 10_000):
        y = module(everything[:rows])
    assert torch.equal(y, Model()(everything[:9999]))
    del y
    # The order of magnitude of the batch may ask for another variant, once.
    assert len(launcher._plans) <= plans[0] + 2
    assert len(module._paths) <= plans[1] + 2
    assert torch.cuda.memory_allocated() <= memory + 4096


def test_launch_on_every_kind_of_mode():
    module = FeaturePermutation(PERM)
    x = random_bits(10, 36, dtype=torch.float32)
    for mode in (torch.inference_mode, torch.no_grad, lambda: torch.autocast("cuda")):
        with mode():
            made_here = random_bits(10, 36, dtype=torch.float32)
            for _ in range(3):
                assert_moved(x, module(x), PERM)
                assert_moved(made_here, module(made_here), PERM)
        assert_moved(x, module(x), PERM)


def run_threads(*targets):
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
