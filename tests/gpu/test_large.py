"""Problems past 2^31 elements and bytes."""

import pytest
import torch

from cases import shuffled
from perm_gpu import FeaturePermutation
from perm_gpu.registry import VARIANTS

pytestmark = [pytest.mark.gpu, pytest.mark.axis("large")]

ROWS, FEATURES = 65_537, 32_768
"""2^31 + 2^15 elements: a row offset of 32 bits would have wrapped before the last row."""


@pytest.fixture(scope="module")
def x():
    """uint8 (65537, 32768), every row different."""
    generator = torch.Generator("cuda").manual_seed(0)
    return torch.randint(
        0, 256, (ROWS, FEATURES), dtype=torch.uint8, device="cuda", generator=generator
    )


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "baked"])
@pytest.mark.parametrize("toolchain", ["nvrtc", "numba"])
def test_every_row(x, variant, toolchain):
    perm = shuffled(FEATURES)
    y = torch.full_like(x, 0xA5)
    FeaturePermutation(perm, toolchain=toolchain, variant=variant)(x, out=y)

    index = torch.from_numpy(perm).to("cuda")
    for start in (0, ROWS // 2, ROWS - 8):  # the first, the middle and the last rows one by one
        rows = slice(start, start + 8)
        assert torch.equal(y[rows], x[rows][:, index])
    for part, source in zip(y.split(4096), x.split(4096), strict=True):
        assert torch.equal(part, source.index_select(1, index))


def test_baked_rows_past_32_bits(x):
    narrow = x.view(-1, 128)
    perm = shuffled(128)
    y = FeaturePermutation(perm, variant="baked")(narrow)

    index = torch.from_numpy(perm).to("cuda")
    for start in range(0, len(narrow), 1 << 21):
        rows = slice(start, start + (1 << 21))
        assert torch.equal(y[rows], narrow[rows].index_select(1, index))


def test_strided_rows_past_32_bits(x):
    view = x[:, :100]
    perm = shuffled(100)
    index = torch.from_numpy(perm).to("cuda")
    for variant in VARIANTS:
        y = FeaturePermutation(perm, variant=variant)(view)
        assert torch.equal(y, view.index_select(1, index))
