"""What reaches the driver, and what comes back: the whole way, on a fake device."""

import gc
import random
import sys
import tracemalloc

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bits import assert_permuted, random_bits
from cases import DTYPE_OF
from fake_driver import INDEX
from fake_kernels import EXECUTED, memory
from perm_gpu import FeaturePermutation, ModelNew
from perm_gpu.model import PERM
from perm_gpu.planner import choose
from perm_gpu.problem import Problem
from perm_gpu.registry import VARIANTS
from perm_gpu.toolchains import NAMES, toolchains


@pytest.fixture(params=NAMES)
def toolchain(request):
    if reason := toolchains()[request.param].missing():
        pytest.skip(reason)
    return request.param


def random_perm(features, seed=0):
    return torch.randperm(features, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("variant", EXECUTED)
@pytest.mark.parametrize("dtype", DTYPE_OF.values(), ids=str)
def test_every_variant_by_every_toolchain(toolchain, device, variant, dtype):
    perm = random_perm(36)
    permute = FeaturePermutation(perm, toolchain=toolchain, variant=variant)

    for rows in (1, 10, 11, 1000, 10):  # the second call on is the fast path
        x = random_bits(rows, 36, dtype=dtype, seed=rows)
        assert_permuted(permute(x), x, perm)

    assert {(launch.code.toolchain, launch.code.variant) for launch in device.launched} == {
        (toolchain, variant)
    }
    assert len(device.launched) == 5


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    variant=st.sampled_from(["auto", *EXECUTED]),
    element_bytes=st.sampled_from([*DTYPE_OF]),
    rows=st.one_of(st.integers(0, 20), st.integers(0, 3000)),
    features=st.one_of(st.integers(1, 40), st.integers(1, 128), st.integers(1, 3000)),
    gap=st.sampled_from([0, 0, 1, 2, 7, 8, 16]),
    offset=st.integers(0, 17),
    seed=st.integers(0, 9),
)
def test_any_problem(device, variant, element_bytes, rows, features, gap, offset, seed):
    rows = min(rows, 300_000 // features)
    if variant != "auto":
        problem = Problem(rows, features, element_bytes, features + gap)
        if VARIANTS[variant].rejects(problem):
            variant = "auto"
    perm = random_perm(features, seed)
    permute = FeaturePermutation(perm, variant=variant, toolchain="nvrtc")
    buffer = random_bits(
        offset + (rows + 1) * (features + gap), dtype=DTYPE_OF[element_bytes], seed=seed
    )

    x = buffer[offset : offset + rows * (features + gap)].view(rows, features + gap)[:, :features]
    for _ in range(2):
        assert_permuted(permute(x), x, perm)

    out = torch.zeros(rows, features + gap, dtype=x.dtype)[:, :features]
    permute(x, out=out)
    assert_permuted(out.contiguous(), x, perm)


def test_parameters_of_a_launch(device):
    x = random_bits(10, 36)
    model = ModelNew()
    model(x)
    y = model(x)

    launch = device.launched[-1]
    assert (launch.x, launch.y, launch.elements, launch.row_stride) == (
        x.data_ptr(),
        y.data_ptr(),
        360,
        36,
    )
    (choice,) = {choice for _, choice in model._widths[36]._launcher._found.values()}
    assert (launch.grid, launch.threads, launch.shared) == (
        choice.launch.blocks(360),
        choice.launch.threads,
        choice.launch.shared_bytes,
    )
    assert launch.code.specialisation == dict(choice.launch.specialisation)


def test_the_stream_is_read_for_each_call(device):
    x = random_bits(10, 36)
    permute = FeaturePermutation(PERM)
    for stream in (0, 7, 9, 0, 1 << 40):
        device.current_stream = stream
        permute(x)

    assert [launch.stream for launch in device.launched] == [0, 7, 9, 0, 1 << 40]


def test_each_call_has_an_output_of_its_own(device):
    permute = FeaturePermutation(range(36))  # also the identity
    xs = [random_bits(rows, 36, seed=rows) for rows in (8, 9, 10, 10, 10, 11)]
    ys = [permute(x) for x in xs]

    assert len({y.data_ptr() for y in ys} | {x.data_ptr() for x in xs}) == 12
    for x, y in zip(xs, ys, strict=True):
        assert_permuted(y, x, range(36))


def test_no_slow_call_in_steady_state(device):
    slow = device.slow_calls()
    model = ModelNew()
    model(random_bits(10, 36))
    assert slow
    slow.clear()

    batches = random.Random(0)
    for seed in range(200):
        x = random_bits(batches.randint(8, 11), 36, seed=seed)
        assert_permuted(model(x), x, PERM)

    assert slow == []
    assert len(device.launched) == 201


def test_plans_do_not_grow_with_batches(device):
    """100,000 different batches, in any order."""
    device.executes = False
    x = random_bits(100_000, 4, dtype=torch.uint8)
    model = ModelNew()
    batches = list(range(1, 100_001))
    random.Random(0).shuffle(batches)

    def run(batches):
        for batch in batches:
            assert model(x[:batch]).shape == (batch, 4)

    run(batches[:2000])
    gc.collect()
    objects = sys.getallocatedblocks()
    run(batches[2000:90_000])
    gc.collect()
    objects = sys.getallocatedblocks() - objects
    tracemalloc.start()  # which makes everything slower
    try:
        before = tracemalloc.get_traced_memory()[0]
        run(batches[90_000:])
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    assert objects < 8000  # bounded by what is remembered; one for each batch would be 88,000
    assert device.count == 100_000
    assert grown < 400_000  # remembered ones that were replaced; 40 B for each batch
    permute = model._widths[4]
    assert len(model._paths) <= 20  # by the number of bits
    assert len(permute._launcher._found) <= 2 * 20  # aligned or not, by the number of bits
    assert len(permute._launcher._plans) <= 2 * len(EXECUTED)


@pytest.mark.parametrize("shape", [(0, 36), (3, 0, 36), (0,), (5, 0)])
def test_empty_tensors_launch_nothing(device, shape):
    permute = FeaturePermutation(range(shape[-1]))
    permute(torch.ones(2, shape[-1]))
    device.launched.clear()

    y = permute(torch.ones(shape))

    assert y.shape == shape
    assert device.launched == []


@pytest.mark.parametrize("variant", EXECUTED)
@pytest.mark.parametrize("features", [36, 128])
def test_grids_of_huge_problems_are_legal(device, variant, features):
    """2^25 rows of 128 are beyond 2^31 elements, and beyond what 32 bits count."""
    rows = (1 << 25) + 1
    device.whole = 0
    x = random_bits(features, dtype=torch.uint8).expand(rows, features)
    perm = random_perm(features)

    y = FeaturePermutation(perm, variant=variant)(x)

    (launch,) = device.launched
    assert launch.elements == rows * features
    assert launch.grid < 1 << 31
    for row in (0, rows - 1):
        assert_permuted(y[row].clone(), x[row].clone(), perm)


@pytest.mark.parametrize("variant", VARIANTS)
def test_grids_of_all_of_the_memory_are_legal(variant):
    """128 GiB of single bytes."""
    for features in (1, 36, 128):
        problem = Problem((1 << 37) // features, features, 1, features)
        launch = choose(problem, toolchains()["nvrtc"], variant).launch
        assert 0 < launch.blocks(problem.elements) < 1 << 31


def test_another_current_device(device):
    """The launch goes to x's device, and the current one is as it was."""
    permute = FeaturePermutation(PERM)
    x = random_bits(10, 36)
    for current in (3, INDEX, 3, 3):
        device.current_device = current
        y = permute(x)
        assert device.current_device == current
        assert_permuted(y, x, PERM)
    assert len(device.launched) == 4


def test_tables_of_plans_that_are_gone_outlive_their_kernels(device):
    """A kernel that was launched last may still be reading when the module goes."""
    permute = FeaturePermutation(random_perm(200), variant="gather")
    permute(random_bits(3, 200))
    (plan,) = permute._launcher._plans.values()
    table = plan._constants[0]
    expected = permute.permutation.offsets()
    del permute, plan
    gc.collect()

    assert memory(table, "u2", 200).tolist() == expected.tolist()
