"""The KernelBench problem: its reference, its inputs, and `ModelNew` on the CPU and fake device."""

import copy
import pickle

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import func, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from bits import assert_permuted, bits_of, random_bits
from cases import LAYOUTS
from perm_gpu import (
    PERM,
    InputError,
    InputTypeError,
    Model,
    ModelNew,
    ToolchainError,
    get_init_inputs,
    get_inputs,
)
from perm_gpu.model import WIDTHS_KEPT, FeaturePermutation, jitter_int, reference_permutation


@pytest.fixture
def global_seed():
    """Torch's generator from a known state, and back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


# The problem.


def test_the_permutation_is_the_one_of_seed_10():
    generator = torch.Generator()
    generator.manual_seed(10)
    assert PERM.tolist() == torch.randperm(36, generator=generator).tolist()
    assert PERM.dtype is torch.int64
    assert PERM.tolist() != list(range(36))


def test_drawing_it_leaves_the_global_generator_alone(global_seed):
    state = torch.get_rng_state()
    reference_permutation(36), ModelNew()(torch.ones(2, 5)), Model(7)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("features", [1, 5, 36, 257])
def test_reference_and_answer_are_equal_to_the_bit(where, features):
    x = random_bits(10, features)
    perm = reference_permutation(features)
    assert_permuted(Model(features)(x), x, perm)
    assert_permuted(ModelNew()(x), x, perm)


def test_get_inputs_gives_every_batch_and_no_other(global_seed, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    shapes = set()
    for _ in range(200):  # a batch stays away with probability 4 * 0.75^200
        (x,) = get_inputs()
        assert (x.dtype, x.device.type, x.is_contiguous()) == (torch.float32, "cpu", True)
        assert not x.requires_grad
        shapes.add(tuple(x.shape))
    assert shapes == {(8, 36), (9, 36), (10, 36), (11, 36)}
    first, second = get_inputs()[0], get_inputs()[0]
    assert not torch.equal(first[:8], second[:8])


@pytest.mark.parametrize(
    ("value", "low", "high"), [(1, 0, 1), (10, 8, 11), (20, 17, 23), (100, 85, 114)]
)
def test_jitter_reaches_both_bounds_and_nothing_beyond(global_seed, value, low, high):
    """100 * 1.15 is 114.99... in floating point."""
    drawn = {jitter_int(value) for _ in range(1500)}
    assert drawn == set(range(low, high + 1))
    assert all(type(number) is int for number in drawn)


def test_the_models_take_no_arguments():
    assert get_init_inputs() == []
    x = get_inputs()[0].cpu()
    assert bits_of(ModelNew(*get_init_inputs())(x)) == bits_of(Model(*get_init_inputs())(x))


# ModelNew.


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    leading=st.lists(st.integers(0, 5), max_size=3),
    features=st.integers(0, 300),
    layout=st.sampled_from(["dense", "strided", "reversed axes"]),
)
def test_any_width_and_any_leading_axes(where, leading, features, layout):
    x = random_bits(*leading, features, seed=features)
    if layout == "strided":
        x = random_bits(*leading, 2 * features + 3, seed=features)[..., 3::2]
    elif layout == "reversed axes":
        x = random_bits(features, *leading).permute(*reversed(range(len(leading) + 1)))
    model, perm = ModelNew(), reference_permutation(x.shape[-1])
    for _ in range(2):
        assert_permuted(model(x), x, perm)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(where, layout):
    x = LAYOUTS[layout](random_bits, 10, 36)
    model = ModelNew()
    for _ in range(3):
        assert_permuted(model(x), x, PERM)


def test_gradient_is_the_inverse(where):
    x, w = torch.randn(10, 36), random_bits(10, 36)
    model = ModelNew()
    model(x), model(x)  # a fast path is there, and must not take what requires grad
    x.requires_grad_()
    y = model(x)
    y.backward(w)
    assert_permuted(x.grad, w, PERM.argsort())
    with torch.no_grad():
        assert not model(x).requires_grad


def test_state_holds_no_plan_and_copies_work(where):
    """CUDA objects and kernels belong to the process that made them."""
    model, x = ModelNew(toolchain="nvrtc" if where else "auto"), random_bits(10, 36)
    fresh = pickle.dumps(model)
    model(x), model(x), model(x[0])

    assert pickle.dumps(model) == fresh
    assert model.state_dict() == {}
    for other in (pickle.loads(fresh), copy.deepcopy(model), copy.copy(model)):
        assert other.toolchain == model.toolchain
        assert_permuted(other(x), x, PERM)
        assert_permuted(other(x[:, :5]), x[:, :5], reference_permutation(5))


def test_it_follows_to_and_the_input(where):
    """There is nothing to move, and nothing that a move can break."""
    model, x = ModelNew(), random_bits(10, 36)
    model(x)
    assert list(model.parameters()) == list(model.buffers()) == []
    for moved in (model.to("meta"), model.half(), model.to(torch.float64), model.eval()):
        assert moved is model
        assert_permuted(model(x), x, PERM)
    y = nn.Sequential(model)(x.to("meta"))
    assert (y.device.type, y.shape, y.dtype) == ("meta", x.shape, x.dtype)


def test_widths_are_bounded(where, monkeypatch):
    made, init = [], FeaturePermutation.__init__

    def counted(self, *args, **kwargs):
        made.append(self)
        init(self, *args, **kwargs)

    monkeypatch.setattr(FeaturePermutation, "__init__", counted)
    model = ModelNew()
    widths = [*range(1, WIDTHS_KEPT + 20)]
    for features in (*widths, widths[-1], 1):
        x = random_bits(3, features)
        assert_permuted(model(x), x, reference_permutation(features))
    assert len(made) == len(widths) + 1  # the last was kept, the first was not
    assert len(model._widths) == WIDTHS_KEPT


def test_toolchain_is_passed_on_or_refused(device):
    with pytest.raises(ToolchainError, match=r"no toolchain 'gcc'; there are: auto, nvrtc, nvcc"):
        ModelNew(toolchain="gcc")
    ModelNew(toolchain="nvcc")(random_bits(10, 36))
    assert [launch.code.toolchain for launch in device.launched] == ["nvcc"]
    device.missing["nvcc"] = "pip install it"
    with pytest.raises(ToolchainError, match="'nvcc' cannot be used: pip install it"):
        ModelNew(toolchain="nvcc")


def test_hooks_run_and_may_change_the_result(where):
    model, x = ModelNew(), torch.randn(10, 36)
    model(x), model(x)
    handles = [
        model.register_forward_pre_hook(lambda _, args: (args[0] + 1,)),
        model.register_forward_hook(lambda _, args, y: y * 2),
    ]
    for _ in range(2):
        assert torch.equal(model(x), (x + 1)[:, PERM] * 2)
    for handle in handles:
        handle.remove()
    assert_permuted(model(x), x, PERM)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # Dynamo's own reading of it
def test_compiled_with_what_is_around_it(where):
    torch.compiler.reset()
    net = nn.Sequential(nn.Linear(4, 36), ModelNew(), nn.ReLU())
    compiled = torch.compile(net, backend="eager")
    for rows in (8, 10, 11):
        x = torch.randn(rows, 4)
        assert bits_of(compiled(x)) == bits_of(net[0](x)[:, PERM].relu())


def in_mode(mode):
    def call(model, x):
        with mode():
            return model(x)

    return call


def faked(model, x):
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert model(mode.from_tensor(x)).shape == x.shape
    return model(x)


FIRST = {
    "vmap": lambda model, x: func.vmap(model)(x),
    "jvp, value": lambda model, x: func.jvp(model, (x,), (x,))[0].clone(),
    "jvp, tangent": lambda model, x: func.jvp(model, (x,), (x,))[1].clone(),
    "inference": in_mode(torch.inference_mode),
    "meta by default": in_mode(lambda: torch.device("meta")),
    "fake tensors": faked,
}


@pytest.mark.parametrize("first", FIRST.values(), ids=FIRST)
def test_a_width_is_drawn_the_same_wherever_it_is_first_seen(where, first):
    model, perm, x, w = ModelNew(), reference_permutation(7), torch.randn(5, 7), torch.randn(5, 7)
    assert_permuted(first(model, x), x, perm)
    func.vmap(model)(x.requires_grad_()).backward(w)
    assert_permuted(x.grad, w, perm.argsort())


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("calls", [0, 2], ids=["cold", "warm"])
def test_traced_with_any_number_of_rows(where, calls):
    """Sizes are tensors while torch.jit traces."""
    model, x = ModelNew(), random_bits(7, 36)
    for _ in range(calls):
        model(x)
    traced = torch.jit.trace(nn.Sequential(model), torch.randn(5, 36))
    assert_permuted(traced(x), x, PERM)
    assert [(type(width), width) for width in model._widths] == [(int, 36)]


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ([1.0], InputTypeError, r"x is a builtins\.list, .*torch\.as_tensor"),
        (torch.tensor(1.0), InputError, "x has 0 dimensions, at least 1 is needed"),
        (torch.eye(36).to_sparse(), InputTypeError, r"torch\.sparse_coo"),
        (torch.empty(3, 36, dtype=torch.bits8, device="meta"), InputTypeError, r"torch\.bits8"),
    ],
)
def test_what_cannot_be_permuted_is_refused(where, x, error, message):
    model = ModelNew()
    for _ in range(2):
        with pytest.raises(error, match=message):
            model(x)
