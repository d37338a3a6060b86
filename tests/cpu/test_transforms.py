"""What compilers, tracers, transforms, modes and tensor subclasses see: one `index_select`."""

import numpy as np
import pytest
import torch
from torch import func, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from bits import assert_permuted, random_bits
from cases import shuffled
from perm_gpu import FeaturePermutation, permute_features

PERM = shuffled(36)
INVERSE = np.argsort(PERM)
pytestmark = pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")


def launches(where):
    """How many there were; none on the CPU."""
    return len(where.launched) if where else 0


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bool, torch.uint16, torch.float8_e5m2, torch.complex128],
    ids=str,
)
def test_compiled_it_is_one_graph(warm, dtype):
    torch.compiler.reset()
    graphs, (permute, _) = [], warm
    compiled = torch.compile(permute, fullgraph=True, backend=lambda g, _: graphs.append(g) or g)
    into = torch.compile(lambda x, y: permute(x, out=y), fullgraph=True, backend="eager")
    x, out = random_bits(5, 36, dtype=dtype), torch.empty(5, 36, dtype=dtype)
    for _ in range(2):
        assert_permuted(compiled(x), x, PERM)
        assert_permuted(into(x, out), x, PERM)
        assert_permuted(out, x, PERM)
    assert len(graphs) == 1
    if dtype is torch.float32:
        compiled(leaf := torch.ones(5, 36, requires_grad=True)).backward(x)
        assert_permuted(leaf.grad, x, INVERSE)


def test_traced_with_any_number_of_rows(where, warm):
    before, x = launches(where), random_bits(7, 36, seed=1)
    for net in (warm[0], nn.Sequential(warm[0]), FeaturePermutation(PERM)):
        traced = torch.jit.trace(net, torch.randn(5, 36), check_trace=False)
        assert_permuted(traced(x), x, PERM)
    assert launches(where) == before
    assert_permuted(net(x), x, PERM)


def test_made_into_a_graph_of_one_operator(where, warm):
    """And not into a constant: a launch would be none of its operators."""
    before, x = launches(where), random_bits(5, 36, seed=1)
    for module in (warm[0], FeaturePermutation(PERM)):
        traced = make_fx(module)(warm[1])
        called = [node.target for node in traced.graph.nodes if node.op == "call_function"]
        assert called == [torch.ops.aten.index_select.default]
        assert_permuted(traced(x), x, PERM)
    assert launches(where) == before


def dual(permute, x, t):
    with forward_ad.dual_level():
        return tuple(forward_ad.unpack_dual(permute(forward_ad.make_dual(x, t))))


def test_functional_transforms(warm):
    permute, _ = warm
    x, t = torch.randn(5, 36), torch.randn(5, 36)
    assert_permuted(func.vmap(permute)(x), x, PERM)
    assert_permuted(func.vmap(permute, in_dims=1)(x.t()), x, PERM)
    assert_permuted(func.vmap(lambda x: permute(x, out=torch.empty_like(x)))(x), x, PERM)
    assert_permuted(func.grad(lambda x: (permute(x) * t).sum())(x), t, INVERSE)
    assert_permuted(func.vmap(func.grad(lambda x, t: permute(x) @ t))(x, t), t, INVERSE)
    for y, tangent in (func.jvp(permute, (x,), (t,)), dual(permute, x, t)):
        assert_permuted(y.clone(), x, PERM)
        assert_permuted(tangent.clone(), t, PERM)
    for jacobian in (func.jacrev, func.jacfwd):
        assert torch.equal(jacobian(permute)(x[0]), torch.eye(36)[PERM])


def test_fake_tensors_stay_fake(where, warm):
    permute, x = warm
    before = launches(where)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        y = permute(mode.from_tensor(x.expand(2, 5, 36)[:, ::2]))
    assert isinstance(y, FakeTensor)
    assert (y.shape, y.stride()) == ((2, 3, 36), (108, 36, 1))
    assert launches(where) == before


class Seen(TorchDispatchMode):
    """Every operator that is called."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.seen.append(operator)
        return operator(*args, **(kwargs or {}))


class Hidden(Seen):
    """Compilers do not look at such modes, and their guards neither."""

    @classmethod
    def ignore_compile_internals(cls):
        return True


@pytest.mark.parametrize("kind", [Seen, Hidden])
def test_modes_see_an_operator_that_they_know(warm, kind):
    """And not a launch, of which they would know nothing."""
    permute, x = warm
    for module in (permute, FeaturePermutation(PERM)):
        with kind() as mode:
            y = module(x)
        assert mode.seen == [torch.ops.aten.index_select.default]
        assert_permuted(y, x, PERM)


class Labelled(torch.Tensor):
    pass


def test_tensor_subclasses_come_back_as_what_they_were(warm):
    permute, x = warm
    for call in (permute, lambda x: permute_features(x, PERM)):
        y = call(x.as_subclass(Labelled))
        assert type(y) is Labelled
        assert_permuted(y.as_subclass(torch.Tensor), x, PERM)


@pytest.mark.parametrize("x_kind", [torch.Tensor, Labelled])
@pytest.mark.parametrize("out_kind", [torch.Tensor, Labelled])
def test_out_comes_back_whatever_x_is(warm, x_kind, out_kind):
    permute, x = warm
    out = torch.empty(5, 36).as_subclass(out_kind)
    assert permute(x.as_subclass(x_kind), out=out) is out
    assert_permuted(out.as_subclass(torch.Tensor), x, PERM)
