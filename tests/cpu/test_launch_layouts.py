"""Strides, alignments and outputs of a launch: the whole way, on a fake device."""

import numpy as np
import pytest
import torch

from bits import assert_permuted, bits_of, random_bits
from cases import DTYPE_OF
from fake_kernels import EXECUTED
from perm_gpu import FeaturePermutation, permute_features
from perm_gpu.launch import _upload
from perm_gpu.model import PERM, reference_permutation


@pytest.mark.parametrize("variant", EXECUTED)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16], ids=str)
@pytest.mark.parametrize("offset", [1, 2, 3, 4, 8])
def test_offset_views_are_aligned_or_served_otherwise(device, variant, offset, dtype):
    """A view into the storage passes the guard: what it is loaded by must divide its address."""
    permute = FeaturePermutation(PERM, variant=variant)
    aligned = random_bits(64, 36, dtype=dtype)
    permute(aligned)
    shifted = random_bits(64 * 36 + offset, dtype=dtype, seed=1)[offset:].view(64, 36)

    for x in (shifted, aligned, shifted):
        assert_permuted(permute(x), x, PERM)

    fields = [launch.code.specialisation for launch in device.launched]
    widths = [field.get("load_bytes", dtype.itemsize) for field in fields]
    assert all(launch.x % width == 0 for launch, width in zip(device.launched, widths, strict=True))
    assert widths[0] == widths[2]


@pytest.mark.parametrize("element_bytes", [2, 4, 8, 16])
def test_addresses_that_no_element_may_have_are_moved_as_smaller_words(device, element_bytes):
    dtype = DTYPE_OF[element_bytes]
    data = random_bits(6 * 5 * element_bytes + 1, dtype=torch.uint8)
    x = torch.frombuffer(data.numpy(), dtype=dtype, count=30, offset=1).view(6, 5)
    assert x.data_ptr() % 2
    perm = [3, 1, 0, 4, 2]

    for _ in range(2):
        y = FeaturePermutation(perm)(x)
        # Not by torch, which reads x as if it were aligned.
        rows = data.numpy()[1:].reshape(6, 5, element_bytes)
        assert bits_of(y) == rows[:, perm].tobytes()
    assert device.launched[-1].code.specialisation["element_bytes"] == 1


@pytest.mark.parametrize("variant", EXECUTED)
def test_layouts(device, variant):
    perm = torch.randperm(6, generator=torch.Generator().manual_seed(0))
    permute = FeaturePermutation(perm, variant=variant)
    base = random_bits(4, 5, 6, 7)
    single = random_bits(10, 100)
    for x in (
        random_bits(6),
        random_bits(1, 6),
        random_bits(2, 3, 4, 6),
        random_bits(0, 6),
        random_bits(3, 0, 6),
        base[..., :6],  # one row stride
        base[:, 1:3, :, :6],  # none
        base[::2, ..., 1:],
        base.transpose(2, 3),
        base.permute(3, 1, 0, 2),
        random_bits(6, 9).t(),
        random_bits(6).expand(5, 6),
        random_bits(5, 1, 6).expand(5, 3, 6),
        random_bits(3, 1).expand(3, 6),
        random_bits(40, 6)[::3],
        random_bits(40, 6)[39:],
        single[3:4, :6],  # one row, whose stride is never taken
        random_bits(40, 6)[3::50],
        random_bits(6).expand(4, 6)[:1],
        single[:, None, 7:13],
        random_bits(2, 6).as_strided((3, 6), (2, 1)),  # rows overlap
    ):
        before = len(device.launched)
        y = permute(x)
        again = permute(x)

        assert_permuted(y, x, perm)
        assert_permuted(again, x, perm)
        assert len(device.launched) - before == (2 if x.numel() else 0)


@pytest.mark.parametrize("features", [1, 36])
def test_one_row_with_a_stride_of_its_own_makes_no_plan_for_others(device, features):
    """Of one row any stride is dense; with more rows it is not."""
    permute = FeaturePermutation(reference_permutation(features))
    base = random_bits(9, 100)
    for x in (base[:1, :features], base[:5, :features], base[4:, :features].clone()) * 2:
        assert_permuted(permute(x), x, permute.permutation.array)


@pytest.mark.parametrize("features", [1, 2, 3])
def test_columns_as_rows(device, features):
    """Elements of a row that are not neighbours; of one there is nothing to be apart."""
    x = random_bits(6, features).t().contiguous().t()
    perm = range(features)[::-1]
    permute = FeaturePermutation(perm)
    for _ in range(2):
        assert_permuted(permute(x), x, perm)


def test_numbers_of_rows_that_are_neighbours(device):
    permute = FeaturePermutation([0])
    for rows in (8, 9, 10, 9, 8, 11, 10):
        x = random_bits(rows, 1, seed=rows)
        assert_permuted(permute(x), x, [0])


@pytest.mark.parametrize("entries", [1, 7, 8, 9, 4096])
def test_tables_are_padded_to_whole_words_and_no_further(entries):
    table = _upload(np.arange(entries, dtype="<u2"), torch.device("cpu"))
    words = -(-2 * entries // 16)
    assert table.dtype is torch.uint8
    assert table.numel() == 16 * words
    assert table.numpy().view("<u2").tolist() == [*range(entries), *[0] * (8 * words - entries)]


def test_row_strides_cost_no_copy(device):
    base = random_bits(8, 50)
    for x in (base[:, 7:43], base.view(2, 4, 50)[..., 7:43], base[0, 7:43].expand(8, 36)):
        assert_permuted(FeaturePermutation(PERM)(x), x, PERM)
        assert device.launched[-1].x == x.data_ptr()
        assert device.launched[-1].row_stride == x.stride(-2)


def test_the_stride_of_an_axis_of_one_is_never_taken(device):
    x = random_bits(8, 50).as_strided((8, 1, 36), (50, 3, 1))
    assert_permuted(FeaturePermutation(PERM)(x), x, PERM)
    assert (device.launched[-1].x, device.launched[-1].row_stride) == (x.data_ptr(), 50)


def test_out_is_written_in_place(device):
    x, permute = random_bits(10, 36), FeaturePermutation(PERM)
    out = torch.zeros(10, 36)

    assert permute(x, out=out) is out
    assert permute_features(x, PERM, out=out) is out

    assert [launch.y for launch in device.launched] == [out.data_ptr()] * 2
    assert_permuted(out, x, PERM)


def test_unaligned_out(device):
    """y's alignment counts as well as x's."""
    x = random_bits(300, 64, dtype=torch.uint8)
    permute = FeaturePermutation(range(63, -1, -1), variant="tile")
    for offset in (0, 1, 2, 4, 8, 0):
        out = torch.zeros(300 * 64 + 16, dtype=torch.uint8)[offset : offset + 300 * 64]
        permute(x, out=out.view(300, 64))
        assert_permuted(out.view(300, 64), x, range(63, -1, -1))
    assert {launch.code.specialisation["store_bytes"] for launch in device.launched} == {8, 4, 2, 1}
