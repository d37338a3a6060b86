"""Which x a call refuses, and that each message says what was given and what is needed."""

import re

import pytest
import torch

from perm_gpu import (
    FeaturePermutation,
    InputError,
    InputTypeError,
    ModelNew,
    PermGpuError,
    permute_features,
)
from perm_gpu.checks import DTYPES, check_input

PACKED = [
    dtype
    for name in (
        *("quint8", "qint8", "qint32", "quint4x2", "bits8", "bits16"),
        *("uint1", "uint4", "int4", "float4_e2m1fn_x2"),
    )
    if (dtype := getattr(torch, name, None)) is not None  # torch 2.6 lacks some
]
pytestmark = [
    pytest.mark.filterwarnings("ignore:B?Complex"),  # torch's words on what it makes here
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor"),
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta"),
]


@pytest.mark.parametrize(
    ("error", "builtin"), [(InputError, ValueError), (InputTypeError, TypeError)]
)
def test_errors_are_also_the_builtin_that_callers_expect(error, builtin):
    assert set(error.__bases__) == {PermGpuError, builtin}


@pytest.mark.parametrize("dtype", PACKED, ids=str)
def test_packed_and_quantised_dtypes_are_refused_by_name(dtype):
    x = torch.empty(4, 6, dtype=dtype, device="meta")
    for call in (lambda: check_input(x, 6), lambda: permute_features(x, range(6))):
        with pytest.raises(InputTypeError, match=f"x has dtype {dtype}.* dequantised"):
            call()


def test_quantised_values_are_refused_and_what_the_message_advises_works():
    x = torch.quantize_per_tensor(torch.rand(4, 6), 0.5, 1, torch.quint8)
    with pytest.raises(InputTypeError, match=r"torch\.quint8.*dequantised.*integer representation"):
        FeaturePermutation(range(6))(x)
    for y in (x.dequantize(), x.int_repr()):
        check_input(y, 6)


def test_every_dtype_of_whole_bytes_is_accepted():
    """A float8 that a later torch brings is to be added, or refused on purpose."""
    every = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    others = {str(dtype) for dtype in every - DTYPES}
    assert {d for d in others if not re.search(r"\.(u?int[1-7]|q.*|bits.*|float4.*)$", d)} == set()
    for dtype in DTYPES:
        assert dtype.itemsize in (1, 2, 4, 8, 16)
        check_input(torch.empty(4, 6, dtype=dtype, device="meta"), 6)


@pytest.mark.parametrize(
    ("make", "layout"),
    [
        (torch.Tensor.to_sparse, "sparse_coo"),
        (torch.Tensor.to_sparse_csr, "sparse_csr"),
    ],
)
def test_layouts_are_refused_by_name(make, layout):
    for call in (FeaturePermutation(range(6)), lambda x: check_input(x, 6)):
        with pytest.raises(InputTypeError, match=rf"torch\.{layout}, torch\.strided.*to_dense"):
            call(make(torch.eye(6)))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
@pytest.mark.parametrize(
    "call",
    [
        lambda x: check_input(x, 6),
        FeaturePermutation(range(6)),
        lambda x: FeaturePermutation(range(6))(x, out=torch.zeros(3, 6)),
        lambda x: ModelNew()(x),
    ],
    ids=["check", "module", "out", "model"],
)
def test_nested_tensors_are_refused(layout, call):
    x = torch.nested.nested_tensor([torch.ones(2, 6), torch.ones(1, 6)], layout=layout)
    with pytest.raises(InputTypeError, match="x is nested, a plain tensor is needed"):
        call(x)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((), "x has 0 dimensions, at least 1 is needed"),
        ((5,), r"shape \(5,\), has 5 features, and the permutation has 6"),
        ((6, 7), r"shape \(6, 7\), has 7 features, .* 6: pass x of shape \(\.\.\., 6\)"),
        ((2, 6, 0), r"shape \(2, 6, 0\), has 0 features, and the permutation has 6"),
    ],
)
def test_shapes_of_x_are_refused_with_both_numbers(shape, message):
    x = torch.zeros(shape)
    permute = FeaturePermutation(range(6))
    for call in (permute, permute.inverse, lambda x: permute(x, out=torch.zeros(shape))):
        with pytest.raises(InputError, match=message):
            call(x)
    with pytest.raises(InputError, match=message):
        permute(x.requires_grad_())
