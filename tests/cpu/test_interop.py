"""Arrays of other libraries in and out, and the proof that memory is shared."""

import sys
import types

import numpy as np
import pytest
import torch

from bits import assert_permuted, bits_of, random_bits
from cases import DTYPE_OF, shuffled
from perm_gpu import FeaturePermutation, InputError, InputTypeError, permute_features
from perm_gpu.checks import DTYPES
from perm_gpu.interop import bits, from_foreign, require_shared

PERM = shuffled(36)
pytestmark = pytest.mark.filterwarnings("ignore:B?Complex")  # torch's word on complex32


class Library:
    """An array library whose arrays are tensors inside, and speak DLPack."""

    class Array:
        """One array; `named` ones say which namespace they belong to."""

        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, **options):
            return self.tensor.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    class Named(Array):
        def __array_namespace__(self, **_):
            return Library

    @staticmethod
    def from_dlpack(tensor):
        return Library.Named(tensor)


@pytest.mark.parametrize("kind", [Library.Named, Library.Array])
def test_other_libraries_by_their_namespace_or_their_package(monkeypatch, kind):
    """CuPy's arrays name no namespace: their type's package is looked up."""
    monkeypatch.setattr(Library.Array, "__module__", "arrays.core")
    monkeypatch.setitem(sys.modules, "arrays", Library)
    x = random_bits(12, 36)
    y = FeaturePermutation(PERM)(kind(x))
    assert type(y) is Library.Named
    assert_permuted(y.tensor, x, PERM)


@pytest.mark.parametrize("wrap", [lambda x: x.numpy(), Library.Named], ids=["NumPy", "other"])
def test_from_foreign_shares_memory_both_ways(wrap):
    x = random_bits(12, 40)[:, 1:37]
    tensor, back = from_foreign(wrap(x))
    assert (tensor.data_ptr(), tensor.shape, tensor.stride()) == (x.data_ptr(), x.shape, x.stride())
    returned = back(tensor)
    assert type(returned) is type(wrap(x))
    pointer = returned.ctypes.data if wrap is not Library.Named else returned.tensor.data_ptr()
    assert pointer == x.data_ptr()


class Silent:
    """Has a namespace, and no DLPack."""

    def __array_namespace__(self):
        return np


class Mute:
    """Has DLPack, and a namespace that cannot take an array back."""

    __dlpack__ = Library.Array.__dlpack__

    def __array_namespace__(self):
        return types.SimpleNamespace()


@pytest.mark.parametrize(
    ("x", "name"),
    [
        ([1.0, 2.0], "builtins.list"),
        (None, "builtins.NoneType"),
        ("ab", "builtins.str"),
        (1.5, "builtins.float"),
        (Silent(), f"{Silent.__module__}.Silent"),
        (Mute(), f"{Mute.__module__}.Mute"),
        (Library.Array(torch.ones(2)), f"{Library.__module__}.Library.Array"),
    ],
)
def test_what_is_no_array_is_refused_by_the_name_of_its_type(x, name):
    calls = (from_foreign, FeaturePermutation([1, 0]), lambda x: permute_features(x, [1, 0]))
    for call in calls:
        with pytest.raises(InputTypeError, match=f"x is a {name}, .*torch.as_tensor"):
            call(x)


# The proof.


class View:
    """What cupy.from_dlpack would give, with what is given in place of its own."""

    def __init__(self, tensor, pointer=0, shape=None, strides=None):
        self.itemsize = tensor.element_size()
        self.shape = tuple(tensor.shape) if shape is None else shape
        self.strides = tuple(s * self.itemsize for s in strides or tensor.stride())
        self.data = types.SimpleNamespace(ptr=tensor.data_ptr() + pointer)


@pytest.fixture
def viewed(monkeypatch):
    """Sets what the view differs in; `viewed.seen` is the tensors that were exported."""

    def differ(**differences):
        def from_dlpack(tensor):
            differ.seen.append(tensor)
            return View(tensor, **differences)

        module = types.ModuleType("cupy")
        module.from_dlpack = from_dlpack
        monkeypatch.setitem(sys.modules, "cupy", module)

    differ.seen = []
    return differ


@pytest.mark.parametrize("dtype", sorted(DTYPES, key=str), ids=str)
def test_equal_views_pass_for_every_dtype(viewed, dtype):
    """They are exported as integers, because exporters do not know bfloat16 or float8."""
    viewed()
    for x in (random_bits(4, 6, dtype=dtype), random_bits(4, 9, dtype=dtype)[::2, 1:7]):
        require_shared(x)
        require_shared(x[0])
    assert {tensor.dtype for tensor in viewed.seen} == {DTYPE_OF[dtype.itemsize]}


@pytest.mark.parametrize(
    ("differences", "named"),
    [
        ({"pointer": 64}, lambda x: (x.data_ptr() + 64, x.data_ptr())),
        ({"shape": (6, 4)}, lambda x: (r"\(6, 4\)", r"\(4, 6\)")),
        ({"strides": (6, 1)}, lambda x: (r"\(6, 1\)", r"\(8, 1\)")),
    ],
    ids=["pointer", "shape", "strides"],
)
def test_views_that_differ_are_refused_with_both(viewed, differences, named):
    x = random_bits(4, 8)[:, :6]
    viewed(**differences)
    first, second = named(x)
    with pytest.raises(InputError, match=f"DLPack view.*{first}.*, the tensor .*{second}"):
        require_shared(x)


@pytest.mark.parametrize(
    ("shape", "strides"), [((1, 6), (999, 1)), ((4, 1), (1, 77)), ((1, 1), (0, -5))]
)
def test_strides_of_axes_of_length_1_do_not_matter(viewed, shape, strides):
    """They are never taken, and DLPack leaves them open."""
    x = random_bits(*shape)
    viewed(strides=strides)
    require_shared(x)
    viewed(strides=strides, pointer=4)
    with pytest.raises(InputError, match="pointer"):
        require_shared(x)


@pytest.mark.parametrize("dtype", sorted(DTYPES, key=str), ids=str)
def test_bits_are_the_same_memory_without_autograd(dtype):
    x = random_bits(4, 9, dtype=dtype)[:, 1:7]
    if dtype.is_complex or (dtype.is_floating_point and dtype.itemsize > 1):
        x.requires_grad_()
    y = bits(x)
    assert (y.data_ptr(), y.shape, y.stride()) == (x.data_ptr(), x.shape, x.stride())
    assert (y.dtype, y.requires_grad) == (DTYPE_OF[dtype.itemsize], False)
    y[0, 0] = 1 if dtype is not torch.bool else 0
    assert bits_of(x.detach().contiguous()) == bits_of(y.contiguous())
