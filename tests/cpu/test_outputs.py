"""Which `out` a call refuses: by its kind, by its shape, and by the memory that it shares."""

import re

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from perm_gpu import FeaturePermutation, InputError, InputTypeError, permute_features
from perm_gpu.checks import check_output

X = torch.zeros(4, 6)
BASE = torch.zeros(8, 12)
pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
]


def nested(layout):
    return torch.nested.nested_tensor([torch.zeros(2, 6), torch.zeros(1, 6)], layout=layout)


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        ([[0.0] * 6] * 4, InputTypeError, "out is a list, a torch tensor is"),
        (X.numpy(), InputTypeError, "out is a ndarray, a torch tensor is"),
        (X.double(), InputTypeError, r"out has dtype torch\.float64 and x has torch\.float32"),
        (X.to(torch.int32), InputTypeError, r"torch\.int32 and x has torch\.float32"),
        (X.to("meta"), InputError, "out is on meta and x on cpu"),
        (torch.zeros(4, 7), InputError, r"out has shape \(4, 7\) and x has \(4, 6\)"),
        (torch.zeros(6), InputError, r"out has shape \(6,\) and x has \(4, 6\)"),
        (torch.zeros(1, 4, 6), InputError, r"out has shape \(1, 4, 6\) and x has \(4, 6\)"),
        (torch.zeros(4, 6, dtype=torch.cfloat).conj().imag, InputError, "negative view"),
        (torch.zeros(4, 6, requires_grad=True), InputError, r"requires grad.*torch\.no_grad"),
    ],
)
def test_outputs_are_refused_with_what_was_given(out, error, message):
    for call in (check_output, lambda x, out: FeaturePermutation(range(6))(x, out=out)):
        with pytest.raises(error, match=message):
            call(X, out)


def test_conjugate_output_is_refused():
    x = torch.zeros(4, 6, dtype=torch.cfloat)
    with pytest.raises(InputError, match="out is a conjugate or negative view"):
        check_output(x, torch.zeros_like(x).conj())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: X.to_sparse(), r"layout torch\.sparse_coo, torch\.strided is needed"),
        (lambda: X.to_sparse_csr(), r"layout torch\.sparse_csr, torch\.strided is needed"),
        (lambda: nested(torch.jagged), r"layout torch\.jagged, torch\.strided is needed"),
        (lambda: nested(torch.strided), "is nested, torch.strided is needed"),
    ],
    ids=["coo", "csr", "jagged", "nested"],
)
def test_layouts_are_refused_by_name(make, message):
    for call in (check_output, FeaturePermutation(range(6))):
        with pytest.raises(InputTypeError, match=message):
            call(X, out=make())


@pytest.mark.parametrize("x", [[1.0] * 6, X.numpy(), None], ids=lambda x: type(x).__name__)
def test_with_out_x_is_a_tensor(x):
    out, message = X.clone(), rf"x is a {type(x).__name__}, .*out= a torch tensor is needed"
    permute = FeaturePermutation(range(6))
    for call in (permute, lambda x, out: permute_features(x, range(6), out=out)):
        with pytest.raises(InputTypeError, match=message):
            call(x, out=out)


def test_out_and_grad_go_together_only_without_grad_mode():
    x, out = X.clone().requires_grad_(), torch.ones(4, 6)
    permute = FeaturePermutation(range(6))
    with pytest.raises(InputError, match="out= cannot be differentiated"):
        permute(x, out=out)
    assert bool((out == 1).all())
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert permute(x, out=out) is out
    assert bool((out == 0).all())


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((4, 6), (0, 1)),  # expanded rows
        ((4, 6), (1, 0)),
        ((3, 3), (2, 1)),
        ((3, 3), (1, 2)),
        ((2, 3, 3), (2, 6, 1)),
        ((2, 2, 3), (5, 5, 1)),
    ],
)
def test_an_output_that_overlaps_itself_is_refused_and_left_alone(shape, strides):
    x, base = torch.ones(shape), torch.zeros(48)
    out = base.as_strided(shape, strides)
    message = re.escape(f"out has shape {shape} and strides {strides}, by which elements may share")
    for call in (check_output, FeaturePermutation(range(shape[-1]))):
        with pytest.raises(InputError, match=message):
            call(x, out=out)
    assert not base.any()


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((4, 6), (12, 2)),  # every second column
        ((4, 6), (1, 4)),  # transposed
        ((4, 6), (7, 1)),  # padded rows
        ((4, 6), (6, 1)),
        ((1, 6), (0, 1)),  # axes of length 1 have any stride
        ((6, 1), (1, 0)),
        ((2, 3, 4), (4, 8, 1)),
        ((0, 6), (0, 0)),
    ],
)
def test_outputs_that_are_not_dense_are_written(shape, strides):
    x = torch.rand(shape)
    out = torch.zeros(48).as_strided(shape, strides)
    permute = FeaturePermutation(range(shape[-1])[::-1])
    assert permute(x, out=out) is out
    assert torch.equal(out, x.flip(-1))


@pytest.mark.parametrize(
    ("x", "out"),
    [
        (BASE, BASE),
        (BASE, BASE.detach()),
        (BASE[:4], BASE[3:7]),  # one row
        (BASE[:, :6], BASE[:, 5:11]),  # one column of each row
        (BASE.view(-1)[:48], BASE.view(-1)[47:95]),  # one element
        (BASE[0].expand(4, 12), BASE[:4]),
        (BASE[:, ::2], BASE[:, 2:8]),
        (BASE.view(torch.int32)[:4], BASE[3:7].view(torch.int32)),
    ],
)
def test_shared_memory_is_refused_with_both_addresses(x, out):
    message = f"out at {out.data_ptr():#x} shares memory with x at {x.data_ptr():#x}"
    with pytest.raises(InputError, match=message):
        check_output(x, out)


@pytest.mark.parametrize(
    ("x", "out"),
    [
        (BASE[:4], BASE[4:]),
        (BASE[::2], BASE[1::2]),  # interleaved rows
        (BASE[:, :6], BASE[:, 6:]),  # interleaved halves of rows
        (BASE[:, ::2], BASE[:, 1::2]),
        (BASE[:0], BASE[:0]),
        (X.to("meta"), X.to("meta")),
    ],
)
def test_memory_side_by_side_is_accepted(x, out):
    check_output(x, out)
    check_output(out, x)


def addresses(x):
    numbers = torch.arange(BASE.numel())
    return numbers.as_strided(x.shape, x.stride(), x.storage_offset()).flatten().tolist()


SHAPES = st.lists(st.integers(1, 3), min_size=1, max_size=3)
OFFSETS = st.integers(0, 14)


@given(st.data())
def test_overlap_is_that_of_the_bytes(data):
    """Against the sets of addresses, for any view and any output of nested axes."""
    shape = data.draw(SHAPES)
    strides, end = [0] * len(shape), 0
    for axis in data.draw(st.permutations(range(len(shape)))):
        strides[axis] = end + data.draw(st.integers(1, 2))
        end += (shape[axis] - 1) * strides[axis]
    out = BASE.as_strided(shape, strides, data.draw(OFFSETS))
    any_strides = data.draw(st.lists(st.integers(0, 9), min_size=len(shape), max_size=len(shape)))
    x = BASE.as_strided(shape, any_strides, data.draw(OFFSETS))

    if set(addresses(x)) & set(addresses(out)):
        with pytest.raises(InputError, match="shares memory"):
            check_output(x, out)
    else:
        check_output(x, out)


@given(st.data())
def test_no_output_that_overlaps_itself_is_accepted(data):
    shape = data.draw(SHAPES)
    strides = data.draw(st.lists(st.integers(0, 9), min_size=len(shape), max_size=len(shape)))
    out = BASE.as_strided(shape, strides)
    assume(len(set(addresses(out))) < out.numel())
    with pytest.raises(InputError, match="elements may share memory"):
        check_output(torch.zeros(shape), out)


def test_what_would_take_long_to_find_out_is_refused():
    """They share none; to see that, one has to look at most of their addresses."""
    base, shape = torch.empty(100_000, dtype=torch.uint8), (11, 18, 3)
    x = base.as_strided(shape, (4255, 1218, 2464), 13_515)
    out = base.as_strided(shape, (23, 1530, 26_252))
    with pytest.raises(InputError, match="shares memory"):
        check_output(x, out)
