"""NumPy arrays in and out: those that torch can share, and those that it cannot."""

import re

import numpy as np
import pytest
import torch

from bits import random_bits
from cases import shuffled
from perm_gpu import FeaturePermutation, InputError, InputTypeError, ModelNew, permute_features
from perm_gpu.model import reference_permutation

PERM = shuffled(36)
NUMPY_DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
MODEL_PERM = reference_permutation(36).numpy()
CALLS = (FeaturePermutation(PERM), ModelNew(), lambda array: permute_features(array, PERM))


@pytest.mark.parametrize("dtype", [*NUMPY_DTYPES.split(), "complex64", "complex128"])
@pytest.mark.parametrize(
    "view",
    [
        lambda a: a,
        lambda a: a[0],
        lambda a: a[::3],
        lambda a: np.asfortranarray(a),
        lambda a: a.reshape(3, 4, 36).transpose(1, 0, 2),
        lambda a: a[:0],
        lambda a: np.broadcast_to(a[0], a.shape),  # read-only
    ],
    ids=["dense", "1-d", "strided", "Fortran", "3-d", "empty", "read-only"],
)
def test_numpy_arrays_come_back_as_numpy_arrays(dtype, view):
    array = view(random_bits(12, 36, dtype=getattr(torch, dtype)).numpy())
    before = array.tobytes()
    calls = (FeaturePermutation(PERM), lambda a: permute_features(a, PERM))
    for call in calls:
        y = call(array)
        assert type(y) is np.ndarray
        assert (y.shape, y.dtype) == (array.shape, array.dtype)
        assert y.tobytes() == array[..., PERM].tobytes()
        assert not np.shares_memory(y, array)
    assert array.tobytes() == before


def test_the_model_takes_arrays_too():
    array = random_bits(12, 5).numpy()
    y = ModelNew()(array)
    assert type(y) is np.ndarray
    assert y.tobytes() == array[:, reference_permutation(5).numpy()].tobytes()


def test_arrays_are_launched_and_come_back(device):
    """A device that numbers memory as the host does: what goes in and out is the array's own."""
    array = random_bits(12, 36).numpy()
    permute = FeaturePermutation(PERM)
    for _ in range(3):
        y = permute(array)
        assert y.tobytes() == array[:, PERM].tobytes()
        assert device.launched[-1].x == array.ctypes.data
        assert device.launched[-1].y == y.ctypes.data
    assert len(device.launched) == 3


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::-1],
        lambda a: a[:, ::-1],
        lambda a: a[::-2, ::-1],
        lambda a: a[3, ::-1],
        lambda a: a[:1][::-1],
        lambda a: a[:0, ::-1],
        lambda a: a.reshape(3, 4, 36)[:, ::-1],
    ],
    ids=["rows", "columns", "both", "1-d", "one row", "empty", "3-d"],
)
def test_negative_strides_are_copied(where, view):
    """Torch ends the process over them."""
    array = view(random_bits(12, 36).numpy())
    assert min(array.strides) < 0
    for call, perm in ((FeaturePermutation(PERM), PERM), (ModelNew(), MODEL_PERM)):
        for _ in range(2):
            y = call(array)
            assert type(y) is np.ndarray
            assert y.tobytes() == array[..., perm].tobytes()


@pytest.mark.parametrize("dtype", [">f4", "<U3", "|S3", "object", "datetime64[s]", "i4,f8"])
@pytest.mark.parametrize("step", [1, -1])
def test_dtypes_that_cannot_be_shared_are_refused_by_name(dtype, step):
    array = np.zeros((2, 36), dtype)[::step]
    message = re.escape(f"x is a numpy.ndarray of {array.dtype}, which cannot be shared through")
    for call in CALLS:
        with pytest.raises(InputTypeError, match=message):
            call(array)


@pytest.mark.parametrize("mask", [np.ma.nomask, True], ids=["empty", "full"])
def test_masks_are_not_dropped(mask):
    for call in CALLS:
        with pytest.raises(InputTypeError, match=r"masked array, .* permute x\.data and x\.mask"):
            call(np.ma.masked_array(np.zeros((2, 36)), mask))


def test_arrays_are_checked_as_tensors_are():
    with pytest.raises(
        InputError, match=r"\(12, 35\), has 35 features, and the permutation has 36"
    ):
        FeaturePermutation(PERM)(np.zeros((12, 35)))
