"""`FeaturePermutation` as a function and as a module: on the CPU and on a fake device."""

import copy
import io
import pickle

import numpy as np
import pytest
import torch
from torch import func, nn
from torch.nn.modules import module as nn_module

from bits import assert_permuted, bits_of, random_bits
from cases import LAYOUTS, shuffled
from perm_gpu import FeaturePermutation, permute_features
from perm_gpu.checks import DTYPES

PERM = shuffled(36)
INVERSE = np.argsort(PERM)
by_dtype = pytest.mark.parametrize("dtype", sorted(DTYPES, key=str), ids=str)
pytestmark = pytest.mark.filterwarnings("ignore:B?Complex")  # torch's words on complex32


# Results.


@by_dtype
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_dtype_and_layout_to_the_bit(dtype, layout):
    x = LAYOUTS[layout](lambda *shape: random_bits(*shape, dtype=dtype), 10, 36)
    out = torch.empty(*x.shape[:-1], 72, dtype=dtype)[..., ::2]

    assert_permuted(FeaturePermutation(PERM)(x), x, PERM)
    assert_permuted(permute_features(x, PERM), x, PERM)
    assert permute_features(x, PERM, out=out) is out
    assert_permuted(out.contiguous(), x, PERM)


@by_dtype
def test_every_dtype_is_launched(device, dtype):
    base, permute = random_bits(10, 40, dtype=dtype), FeaturePermutation(PERM)
    for x in (base[:, :36], base[:, :36].contiguous(), base[:9, 4:].contiguous()):
        assert_permuted(permute(x), x, PERM)
    assert len(device.launched) == 3


@pytest.mark.parametrize("shape", [(0,), (5, 0), (0, 36), (3, 0, 36), (2, 3, 1, 36), (7, 1), (36,)])
@pytest.mark.parametrize("make", [np.arange, shuffled], ids=["identity", "random"])
def test_leading_axes_and_empty_tensors(where, shape, make):
    perm = make(shape[-1]) if shape[-1] else np.arange(0)
    x, out, permute = random_bits(*shape), torch.ones(shape), FeaturePermutation(perm)
    assert_permuted(permute(x), x, perm)
    assert permute(x, out=out) is out
    assert_permuted(out, x, perm)


@pytest.mark.parametrize("step", [1, 2], ids=["dense", "strided"])
def test_out_is_written_where_it_lies_and_nothing_around_it(where, step):
    x, base, expected = random_bits(10, 36), torch.zeros(20, 36), torch.zeros(20, 36)
    out = base[::step][:10]
    expected[::step][:10] = x[:, PERM]

    assert FeaturePermutation(PERM)(x, out=out) is out
    assert bits_of(base) == bits_of(expected)


@pytest.mark.parametrize("view", [lambda z: z.conj(), lambda z: z.conj().imag], ids=["conj", "neg"])
def test_conjugate_and_negative_views_are_resolved(where, view):
    x = view(torch.randn(10, 36, dtype=torch.complex64))
    assert x.is_conj() or x.is_neg()
    permute, out = FeaturePermutation(PERM), torch.empty(10, 36, dtype=x.dtype)
    for y in (permute(x), permute(x, out=out)):
        assert not y.is_conj()
        assert not y.is_neg()
        assert_permuted(y, x.resolve_conj().resolve_neg(), PERM)


def test_inverse_undoes_and_its_inverse_is_the_module(where):
    permute = FeaturePermutation(PERM, toolchain="nvrtc" if where else "auto", variant="gather")
    x = random_bits(10, 36)

    assert bits_of(permute.inverse(permute(x))) == bits_of(x)
    assert permute.inverse is permute.inverse
    assert permute.inverse.inverse is permute
    assert (permute.inverse.toolchain, permute.inverse.variant) == (permute.toolchain, "gather")
    assert list(permute.modules()) == [permute]  # or .to() and print() would not end


def test_warmup_prepares_forward_and_backward_and_changes_nothing(where):
    permute, x = FeaturePermutation(PERM), random_bits(10, 36).requires_grad_()
    before = bits_of(x)
    permute.warmup()
    permute.warmup(x, random_bits(10, 40)[:, :36])
    compiled = list(where.compiled) if where else None

    permute(x).backward(w := random_bits(10, 36, seed=1))
    assert_permuted(x.grad, w, INVERSE)
    assert bits_of(x) == before
    assert not where or where.compiled == compiled != []


# The module as a module.

HOOKS = {
    "forward_hook": nn_module.register_module_forward_hook,
    "forward_pre_hook": nn_module.register_module_forward_pre_hook,
    "full_backward_hook": nn_module.register_module_full_backward_hook,
    "full_backward_pre_hook": nn_module.register_module_full_backward_pre_hook,
}


@pytest.mark.parametrize("scope", ["module", "global"])
@pytest.mark.parametrize("name", HOOKS)
def test_hooks_run_until_removed(warm, name, scope):
    """The class has a __call__ of its own, and by then a fast path."""
    permute, _ = warm
    ran = []

    def hook(module, *_):
        if module is permute:  # global ones see the inverse too
            ran.append(name)

    register = HOOKS[name] if scope == "global" else getattr(permute, f"register_{name}")
    handle = register(hook)
    try:
        for calls in (1, 2):
            x = torch.randn(5, 36, requires_grad="backward" in name)
            y = permute(x)
            if "backward" in name:
                y.backward(torch.ones(5, 36))
            assert len(ran) == calls
    finally:
        handle.remove()
    permute(torch.ones(5, 36, requires_grad=True)).sum().backward()
    assert len(ran) == 2


def saved(module):
    torch.save(module, file := io.BytesIO())
    return torch.load(io.BytesIO(file.getvalue()), weights_only=False)


@pytest.mark.parametrize(
    "duplicate",
    [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy, copy.copy, saved],
    ids=["pickle", "deepcopy", "copy", "torch.save"],
)
def test_copies_work_and_share_no_plan(where, duplicate):
    permute, x = FeaturePermutation(PERM, variant="gather"), random_bits(5, 36)
    fresh = len(pickle.dumps(permute))
    permute(x), permute(x), permute.inverse(x)
    other = duplicate(permute)

    assert len(pickle.dumps(permute)) == fresh  # nothing of the device is in it
    assert (other.permutation, other.variant) == (permute.permutation, "gather")
    assert other.inverse.inverse is other is not permute
    assert_permuted(other(x), x, PERM)
    assert_permuted(other.inverse(x), x, INVERSE)


def test_state_dict_is_empty_and_the_module_follows_to(warm):
    permute, x = warm
    assert permute.state_dict() == {}
    assert list(permute.parameters()) == []
    for moved in (permute.half(), permute.double(), permute.to(torch.bfloat16)):
        assert moved.perm.dtype is torch.int64
        assert_permuted(moved(x), x, PERM)
    y = permute(x.to("meta"))
    assert (y.shape, y.device.type) == (x.shape, "meta")
    assert permute.to("meta").perm.is_meta
    assert permute.inverse.perm.is_meta


def back_from_meta(module):
    return module.to("meta").to_empty(device="cpu")


def with_an_inverse_made_there(module):
    return module.to("meta").inverse.inverse.to_empty(device="cpu")


@pytest.mark.parametrize(
    "move",
    [
        lambda module: module.to_empty(device="cpu"),
        back_from_meta,
        with_an_inverse_made_there,
    ],
)
def test_to_empty_leaves_nothing_empty(device, move):
    """The fake device poisons what `empty_like` gives."""
    permute, x, w = FeaturePermutation(PERM), random_bits(5, 36), torch.randn(5, 36)
    permute(x), permute(x)
    move(permute)
    assert permute.perm.tolist() == PERM.tolist()
    assert_permuted(permute(x), x, PERM)
    assert_permuted(func.vmap(permute)(x), x, PERM)
    func.vmap(permute.inverse)(x.requires_grad_()).backward(w)
    assert_permuted(x.grad, w, PERM)


def test_in_a_sequential(warm):
    net, x, w = nn.Sequential(nn.Linear(8, 36), warm[0]), torch.randn(5, 8), random_bits(5, 36)
    for _ in range(2):
        net.zero_grad()
        y = net(x)
        y.backward(w)
        assert bits_of(y) == bits_of(net[0](x)[:, PERM])
        assert bits_of(net[0].bias.grad) == bits_of(w[:, INVERSE].sum(0))
    assert "features=36, toolchain='auto', variant='auto'" in repr(net)


def test_moved_in_inference_mode_it_can_be_differentiated_later():
    permute = FeaturePermutation(PERM)
    with torch.inference_mode():
        permute.to("meta")
        permute.to_empty(device="cpu")
        inverse = permute.inverse
    for module in (permute, inverse):
        assert not module.perm.is_inference()
