"""What `Permutation` accepts, and that it refuses the rest by naming the first fault."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

import perm_gpu.errors as errors
from perm_gpu.errors import (
    InvalidPermutationError,
    PermGpuError,
    PermutationRangeError,
    PermutationTypeError,
)
from perm_gpu.permutation import Permutation

INTEGER_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


class Convertible:
    """An object of another library: all it offers is `__array__`."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        if isinstance(self.values, Exception):
            raise self.values
        return np.asarray(self.values, dtype)


def strided(perm):
    """A non-contiguous tensor that holds `perm`."""
    return torch.tensor([[entry, -9] for entry in perm])[:, 0]


@pytest.mark.parametrize(
    "wrap",
    [
        list,
        tuple,
        np.array,
        torch.tensor,
        Permutation,
        Convertible,
        strided,
        lambda perm: np.array([perm, perm]).T[:, 1],  # strided
        lambda perm: np.array(perm[::-1])[::-1],  # negative stride
        lambda perm: np.array(perm, ">i4"),  # the other byte order
        lambda perm: np.array(perm, object),
        lambda perm: list(np.array(perm)),
        lambda perm: list(torch.tensor(perm)),
        lambda perm: memoryview(np.array(perm)),
        lambda perm: torch.nn.Parameter(torch.tensor(perm), requires_grad=False),
    ],
)
def test_accepts_what_holds_integers(wrap):
    assert Permutation(wrap([3, 1, 0, 2])).array.tolist() == [3, 1, 0, 2]


@pytest.mark.parametrize("dtype", INTEGER_DTYPES)
def test_accepts_any_integer_dtype(dtype):
    perm = [3, 1, 0, 2]

    assert Permutation(np.array(perm, dtype)).array.tolist() == perm
    assert Permutation(torch.tensor(perm).to(getattr(torch, dtype))).array.tolist() == perm


@pytest.mark.parametrize(
    "perm", [range(0), range(1), range(5), range(4, -1, -1), range(0, 2**70, 2**70)]
)
def test_accepts_ranges(perm):
    assert Permutation(perm).array.tolist() == list(perm)


@pytest.mark.parametrize(
    "perm",
    [[], (), range(0), np.array([]), np.array([], np.uint8), torch.tensor([]), Permutation([])],
    ids=repr,
)
def test_accepts_the_empty_one(perm):
    permutation = Permutation(perm)

    assert len(permutation) == 0
    assert permutation.array.dtype == np.int64
    assert permutation == permutation.inverse == permutation.expand(3)
    assert permutation.offsets(7).shape == (0,)


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_keeps_no_memory_of_the_caller(make):
    entries = make([1, 0, 2])
    permutation = Permutation(entries)
    entries[:] = 7

    assert permutation.array.tolist() == [1, 0, 2]


REFUSED = [
    # Not a sequence.
    (None, PermutationTypeError, ["perm is None", "sequence of integers"]),
    ("abc", PermutationTypeError, ["perm is 'abc'", "sequence of integers"]),
    (b"\0\1", PermutationTypeError, ["sequence of integers"]),
    (0.5, PermutationTypeError, ["perm is 0.5", "sequence of integers"]),
    (True, PermutationTypeError, ["perm is True", "sequence of integers"]),
    ({0: 1}, PermutationTypeError, ["perm is {0: 1}", "sequence of integers"]),
    ({0, 1}, PermutationTypeError, ["perm is {0, 1}", "sequence of integers"]),
    ((j for j in (0,)), PermutationTypeError, ["generator", "sequence of integers"]),
    (Convertible(TypeError("ask get()")), PermutationTypeError, ["Convertible", "ask get()"]),
    # Rank.
    (3, InvalidPermutationError, ["shape ()", "one dimension"]),
    (np.array(3), InvalidPermutationError, ["shape ()", "one dimension"]),
    (torch.tensor(0), InvalidPermutationError, ["shape ()", "one dimension"]),
    (np.zeros((2, 3)), InvalidPermutationError, ["shape (2, 3)", "one dimension"]),
    (torch.zeros((0, 3)), InvalidPermutationError, ["shape (0, 3)", "one dimension"]),
    ([[0, 1], [1, 0]], InvalidPermutationError, ["perm[0] = [0, 1]", "list", "one dimension"]),
    ([0, (1,)], InvalidPermutationError, ["perm[1] = (1,)", "tuple", "one dimension"]),
    ([0, range(1)], InvalidPermutationError, ["perm[1] = range(0, 1)", "one dimension"]),
    ([torch.tensor([0])], InvalidPermutationError, ["perm[0] = tensor([0])", "one dimension"]),
    ([[]], InvalidPermutationError, ["perm[0] = []", "one dimension"]),
    # Not integers.
    ([0, 1.0, 2], PermutationTypeError, ["perm[1] = 1.0 is float", "integers"]),
    ([0, float("nan")], PermutationTypeError, ["perm[1] = nan is float", "integers"]),
    ([0, True], PermutationTypeError, ["perm[1] = True is bool", "integers"]),
    ([0, None], PermutationTypeError, ["perm[1] = None is NoneType", "integers"]),
    ([0, "1"], PermutationTypeError, ["perm[1] = '1' is str", "integers"]),
    ([0, np.True_], PermutationTypeError, ["perm[1] = ", "True", "is bool", "integers"]),
    (list(torch.tensor([True])), PermutationTypeError, ["perm[0] = ", "is torch.bool"]),
    (list(torch.tensor([0.0])), PermutationTypeError, ["perm[0] = ", "is torch.float32"]),
    (np.array([0.0, 1.0]), PermutationTypeError, ["perm[0] = 0.0 is float64", "integers"]),
    (np.array([True, False]), PermutationTypeError, ["perm[0] = True is bool", "integers"]),
    (np.array([0j]), PermutationTypeError, ["perm[0] = 0j is complex128", "integers"]),
    (np.array(["0"]), PermutationTypeError, ["perm[0] = '0' is str", "integers"]),
    (np.zeros(1, "M8[s]"), PermutationTypeError, ["perm[0] = ", "is datetime64", "integers"]),
    (np.array([0, None]), PermutationTypeError, ["perm[1] = None is NoneType", "integers"]),
    (torch.tensor([0.0]), PermutationTypeError, ["perm[0] = 0.0 is float32", "integers"]),
    (torch.tensor([True]), PermutationTypeError, ["perm[0] = True is bool", "integers"]),
    (torch.ones(1).bfloat16(), PermutationTypeError, ["Tensor of torch.bfloat16", "integers"]),
    (torch.ones(1).requires_grad_(), PermutationTypeError, ["perm[0] = 1.0", "float32"]),
    (torch.empty(3, device="meta"), PermutationTypeError, ["device meta", "no values"]),
    (torch.tensor([0]).to_sparse(), PermutationTypeError, ["Tensor of torch.int64", "Sparse"]),
    # Out of range.
    ([0, 1, 2, 7, 3], PermutationRangeError, ["perm[3] = 7", "0 .. 4 once", "last of 5 is 4"]),
    ([1, 2, 3], PermutationRangeError, ["perm[2] = 3", "0 .. 2 once", "start at 0"]),
    ([0, -1], PermutationRangeError, ["perm[1] = -1", "0 .. 1 once", "negative"]),
    ([1], PermutationRangeError, ["perm[0] = 1", "0 .. 0 once"]),
    ([0, 2**63], PermutationRangeError, [f"perm[1] = {2**63}", "0 .. 1 once"]),
    ([0, 2**70], PermutationRangeError, [f"perm[1] = {2**70}", "0 .. 1 once"]),
    ([0, -(2**70)], PermutationRangeError, [f"perm[1] = {-(2**70)}", "negative"]),
    ([np.uint64(2**63)], PermutationRangeError, [f"perm[0] = {2**63}", "0 .. 0 once"]),
    (np.array([0, 2**63], "u8"), PermutationRangeError, [f"perm[1] = {2**63}", "0 .. 1 once"]),
    (np.array([2**64 - 1], "u8"), PermutationRangeError, [f"perm[0] = {2**64 - 1}", "start at 0"]),
    (np.array([1, -1], "i1"), PermutationRangeError, ["perm[1] = -1", "negative"]),
    (np.array([0, 2**70], object), PermutationRangeError, [f"perm[1] = {2**70}", "0 .. 1 once"]),
    (torch.tensor([0, 3, 1]), PermutationRangeError, ["perm[1] = 3", "0 .. 2 once"]),
    (range(1, 4), PermutationRangeError, ["perm[2] = 3", "0 .. 2 once"]),
    (range(0, 8, 2), PermutationRangeError, ["perm[2] = 4", "0 .. 3 once"]),
    (range(-1, 2), PermutationRangeError, ["perm[0] = -1", "negative"]),
    (range(0, 2**70, 2**69), PermutationRangeError, [f"perm[1] = {2**69}", "0 .. 1 once"]),
    # Duplicates, and which of two faults is named.
    ([0, 2, 1, 2], InvalidPermutationError, ["perm[3] = 2", "0 .. 3 once", "perm[1] = 2 too"]),
    ([1, 1, 1], InvalidPermutationError, ["perm[1] = 1", "0 .. 2 once", "perm[0] = 1 too"]),
    ([2, 1, 1, 2], InvalidPermutationError, ["perm[2] = 1", "perm[1] = 1 too"]),
    ([0, 0, 9], InvalidPermutationError, ["perm[1] = 0", "perm[0] = 0 too"]),
    ([0, 9, 0], PermutationRangeError, ["perm[1] = 9"]),
    ([0, 0, 2**70], InvalidPermutationError, ["perm[1] = 0", "perm[0] = 0 too"]),
    ([0, -1, 9], PermutationRangeError, ["perm[1] = -1", "negative"]),
    ([9, 9, True], PermutationTypeError, ["perm[2] = True"]),
]


@pytest.mark.parametrize(("perm", "error", "parts"), REFUSED, ids=lambda value: None)
def test_refuses_and_says_why(perm, error, parts):
    with pytest.raises(PermGpuError) as raised:
        Permutation(perm)

    assert type(raised.value) is error
    assert [part for part in parts if part not in str(raised.value)] == []


@given(st.lists(st.integers(-2, 8), max_size=7), st.sampled_from([list, np.array, torch.tensor]))
def test_names_the_first_fault(entries, wrap):
    """Against a loop from left to right, on lists of which few are permutations."""
    seen = {}
    for position, entry in enumerate(entries):
        if not 0 <= entry < len(entries):
            expected = PermutationRangeError, f"perm[{position}] = {entry},"
            break
        if entry in seen:
            expected = InvalidPermutationError, f"perm[{seen[entry]}] = {entry} too"
            break
        seen[entry] = position
    else:
        assert Permutation(wrap(entries)).array.tolist() == entries
        return

    with pytest.raises(expected[0]) as raised:
        Permutation(wrap(entries))

    assert str(raised.value).startswith(f"perm[{position}] = {entry},")
    assert expected[1] in str(raised.value)


def test_a_failing_device_is_not_taken_for_a_bad_permutation():
    """An error of the copy to the host passes through: it says nothing about the values."""

    class OnBrokenDevice:
        device = torch.device("cuda")

        def detach(self):
            return self

        def cpu(self):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory access") as raised:
        Permutation(OnBrokenDevice())

    assert not isinstance(raised.value, PermGpuError)


@pytest.mark.gpu
@pytest.mark.axis("permutation input")
def test_accepts_a_tensor_on_the_gpu():
    perm = torch.randperm(1000, device="cuda", dtype=torch.int32)

    assert Permutation(perm).array.tolist() == perm.tolist()


def test_refuses_a_fake_tensor():
    """As torch.compile traces with: it has a device, but no values."""
    with FakeTensorMode():
        perm = torch.arange(3)

    with pytest.raises(PermutationTypeError, match=r"FakeTensor of torch\.int64.*numpy"):
        Permutation(perm)


@pytest.mark.parametrize("fault", ["duplicate", "range"])
def test_faults_of_long_permutations_are_found_fast(fault):
    features = 1 << 22
    perm = np.random.default_rng(0).permutation(features)
    perm[-1] = perm[5] if fault == "duplicate" else features
    start = time.perf_counter()

    with pytest.raises(PermGpuError) as raised:
        Permutation(perm)

    assert time.perf_counter() - start < 20
    assert str(raised.value).startswith(f"perm[{features - 1}] = {perm[-1]},")


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        ("InvalidPermutationError", ValueError),
        ("PermutationTypeError", TypeError),
        ("PermutationRangeError", IndexError),
        ("InputError", ValueError),
        ("InputTypeError", TypeError),
        ("UnsupportedProblemError", ValueError),
        ("ToolchainError", RuntimeError),
        ("CaptureError", RuntimeError),
    ],
)
def test_errors_are_of_both_kinds(error, builtin):
    kind = getattr(errors, error)

    assert issubclass(kind, PermGpuError)
    assert issubclass(kind, builtin)
