"""Every variant, by every toolchain: shapes, dtypes, permutations and layouts, to the bit."""

import pytest
import torch

from cases import DTYPE_OF, ELEMENT_BYTES, FAMILIES, FOUR_SHAPES, LAYOUTS, SHAPES, shuffled
from gpu.moving import assert_moved, assert_untouched, guarded, poison, random_bits
from perm_gpu import toolchains
from perm_gpu.checks import DTYPES
from perm_gpu.registry import VARIANTS

pytestmark = pytest.mark.gpu


def pairs():
    """Every shape and width by NVRTC; by the others in turn, so that each meets each once."""
    for s, shape in enumerate(SHAPES):
        for e, element_bytes in enumerate(ELEMENT_BYTES):
            for t, toolchain in enumerate(toolchains.NAMES):
                if t == 0 or (s + e + t) % len(ELEMENT_BYTES) in (0, 2):
                    yield toolchain, element_bytes, shape


@pytest.mark.axis("variants")
@pytest.mark.parametrize(("toolchain", "element_bytes", "shape"), list(pairs()), ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_shape(made, variant, toolchain, element_bytes, shape):
    x = random_bits(*shape, dtype=DTYPE_OF[element_bytes])
    perm = shuffled(shape[1])
    module = made(perm, x, toolchain, variant)

    poison(x)
    assert_moved(x, module(x), perm)

    out, buffer = guarded(x)
    assert module(x, out=out) is out
    assert_moved(x, out, perm)
    assert_untouched(buffer, out)


@pytest.mark.axis("dtypes")
@pytest.mark.parametrize("dtype", sorted(DTYPES, key=str), ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.filterwarnings("ignore:B?Complex")
def test_every_dtype(made, toolchain, variant, dtype):
    x = random_bits(129, 36, dtype=dtype)
    perm = shuffled(36)
    module = made(perm, x, toolchain, variant)

    poison(x)
    assert_moved(x, module(x), perm)


def in_turn(number):
    """A toolchain and a dtype; both take turns."""
    element_bytes = ELEMENT_BYTES[number % len(ELEMENT_BYTES)]
    return toolchains.NAMES[number % len(toolchains.NAMES)], DTYPE_OF[element_bytes]


@pytest.mark.axis("families")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", FOUR_SHAPES, ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_family(made, variant, shape, family):
    toolchain, dtype = in_turn(list(FAMILIES).index(family) + shape[1])
    x = random_bits(*shape, dtype=dtype)
    perm = FAMILIES[family](shape[1])
    module = made(perm, x, toolchain, variant)

    poison(x)
    y = module(x)
    assert_moved(x, y, perm)
    assert y.data_ptr() != x.data_ptr()
    assert_moved(y, module.inverse(y), module.inverse.permutation.array)
    assert torch.equal(module.inverse(y).view(torch.uint8), x.view(torch.uint8))


@pytest.mark.axis("layouts")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", FOUR_SHAPES, ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_layout(made, variant, shape, layout):
    toolchain, dtype = in_turn(list(LAYOUTS).index(layout) + shape[1])
    rows, features = shape
    x = LAYOUTS[layout](lambda r, n: random_bits(r, n, dtype=dtype), rows, features)
    perm = shuffled(features)
    module = made(perm, x, toolchain, variant)

    poison(x)
    assert_moved(x, module(x), perm)

    for offset in (0, 1):
        out, buffer = guarded(x, offset)
        module(x, out=out)
        assert_moved(x, out, perm)
        assert_untouched(buffer, out)


@pytest.mark.axis("layouts")
@pytest.mark.parametrize("element_bytes", ELEMENT_BYTES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_row_strided_input_is_not_copied(made, variant, element_bytes):
    x = random_bits(4096, 72, dtype=DTYPE_OF[element_bytes])[:, :64]
    module = made(shuffled(64), x, toolchains.NAMES[0], variant)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]

    y = module(x)

    peak = torch.cuda.memory_stats()["requested_bytes.all.peak"]
    assert peak - before == y.numel() * y.element_size()


@pytest.mark.axis("layouts")
def test_output_that_is_not_dense():
    from perm_gpu import FeaturePermutation

    x = random_bits(10, 36, dtype=torch.float32)
    out = torch.zeros(10, 40, device="cuda")[:, 2:38]
    perm = shuffled(36)
    FeaturePermutation(perm)(x, out=out)
    assert_moved(x, out.contiguous(), perm)


@pytest.mark.axis("layouts")
@pytest.mark.parametrize("shape", [(0, 36), (3, 0, 36), (10, 0), (0, 0)], ids=str)
def test_empty_tensors_launch_nothing(monkeypatch, shape):
    from perm_gpu import FeaturePermutation, launch

    monkeypatch.setattr(launch.Plan, "run", None)
    x = torch.empty(shape, device="cuda")
    y = FeaturePermutation(range(shape[-1]))(x)
    assert y.shape == x.shape
    assert y.device == x.device
