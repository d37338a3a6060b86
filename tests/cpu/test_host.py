"""The .cu files themselves, compiled by g++ and run on the CPU, plain and under sanitizers."""

import shutil

import pytest
import torch

from bits import assert_permuted, random_bits
from cases import DTYPE_OF, LAYOUTS, shuffled
from host_kernels import SANITIZERS, HostDevice, build, run_alone
from perm_gpu import FeaturePermutation
from perm_gpu.problem import Problem, alignment
from perm_gpu.registry import VARIANTS
from perm_gpu.toolchains import cuda

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not on PATH")

SHAPES = ((1, 1), (10, 36), (7, 37), (33, 100), (3, 128), (2, 5000))
"""One element, baked, odd rows, several blocks, the widest baked row, long rows."""


def problem_of(rows, features, width, gap=0, offsets=(0, 0)):
    stride = features + gap
    alignments = alignment(offsets[0], stride * width if gap else 0), alignment(offsets[1])
    return Problem(rows, features, width, stride, *alignments)


# ---- the whole way on torch tensors -----------------------------------------------------------


@pytest.fixture(params=["forward", "reverse"])
def device(monkeypatch, request):
    found = HostDevice(monkeypatch).install()
    found.reverse = request.param == "reverse"
    return found


def modules(perm, rows, dtype):
    """Every variant that does not reject the problem."""
    problem = Problem(rows, len(perm), dtype.itemsize, len(perm))
    for name, variant in VARIANTS.items():
        if variant.rejects(problem) is None:
            yield FeaturePermutation(perm, toolchain="nvrtc", variant=name)


@pytest.mark.parametrize("dtype", DTYPE_OF.values(), ids=str)
def test_every_kernel_moves_the_right_bits(device, dtype):
    for rows, features in SHAPES:
        x = random_bits(rows, features, dtype=dtype)
        perm = shuffled(features)
        for module in modules(perm, rows, dtype):
            assert_permuted(module(x), x, perm)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(device, layout):
    for features, dtype in ((36, torch.int32), (37, torch.uint8), (100, torch.int16)):
        x = LAYOUTS[layout](lambda r, n, d=dtype: random_bits(r, n, dtype=d), 9, features)
        perm = shuffled(features)
        for module in modules(perm, 9, dtype):
            assert_permuted(module(x), x, perm)
            out = random_bits(x.numel() + 1, dtype=dtype)[1:].view(x.shape)
            module(x, out=out)
            assert_permuted(out.clone(), x, perm)


# ---- sanitizers -------------------------------------------------------------------------------

CASES = (  # rows, features, width, gap, offsets of x and y in bytes
    (10, 36, 4, 0, (0, 0)),
    (7, 37, 4, 2, (4, 8)),
    (9, 33, 2, 0, (2, 6)),
    (33, 100, 1, 4, (4, 1)),
    (3, 100, 16, 0, (0, 0)),
    (5, 128, 8, -128, (8, 0)),
)


@pytest.mark.parametrize("sanitizer", [name for name in SANITIZERS if name != "none"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_sanitizers_find_nothing(variant, sanitizer, tmp_path):
    for number, (*shape, offsets) in enumerate(CASES):
        problem = problem_of(*shape, offsets)
        launch = VARIANTS[variant].geometry(problem)
        program = build(variant, launch, "threads", sanitizer)
        case = tmp_path / f"case{number}"
        assert run_alone(program, variant, problem, launch, case, offsets) == (0, "", True)


# ---- planted faults ---------------------------------------------------------------------------

ODD, STRIDED = problem_of(7, 37, 4), problem_of(7, 40, 4, gap=8)
FULL = problem_of(24, 37, 4)
"""One tile, full."""
FAR = problem_of(3, 36, 1, gap=(3 << 29) - 36)
"""Rows 1.5 GB apart: nothing between them is ever touched."""
FAULTS = {
    # name: (variant, problem, right, wrong, sanitizer, what it says)
    "reads past the end of x": (
        *("gather", ODD, "if (i < elements) {", "if (i < elements + 1) {"),
        *("address and undefined", "heap-buffer-overflow"),
    ),
    "over-reads in the tail vector": (
        *("tile", ODD, "= here / load_elements;\n#pragma", "= here / load_elements + 1;\n#pragma"),
        *("address and undefined", "heap-buffer-overflow"),
    ),
    "misaligned vector": (
        *("tile", ODD, "(const PERM_LOAD*)source + i", "(const PERM_LOAD*)(source + 1) + i"),
        *("address and undefined", "misaligned address"),
    ),
    "past the end of shared memory": (
        *("tile", FULL, "shared + i, (const", "shared + i + 1, (const"),
        *("address and undefined", "use-after-poison"),
    ),
    "missing barrier": (
        *("tile", ODD, "    __syncthreads();\n", ""),
        *("thread", "data race"),
    ),
    "divergent barrier": (
        *("tile", ODD, "    __syncthreads();\n", "    if (t < 64) __syncthreads();\n"),
        *("fibers", "divergent barrier: 64 of 128 threads wait"),
    ),
    "wrong offset": (
        *("tile", ODD, "staged[from.offset[e]]", "staged[from.offset[e] ^ 1]"),
        *("address and undefined", ""),
    ),
    "off by one row": (
        *("tile", STRIDED, "x + first / features", "x + (first / features + 1)"),
        *("address and undefined", "heap-buffer-overflow"),
    ),
    "32-bit overflow of a row offset": (
        *("gather", FAR, "(long long)row * row_stride", "(int)row * (int)row_stride"),
        *("address and undefined", "signed integer overflow"),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault, tmp_path, monkeypatch):
    variant, problem, right, wrong, sanitizer, message = FAULTS[fault]
    launch = VARIANTS[variant].geometry(problem)
    source = cuda.source(variant)
    assert source.count(right) == 1
    faulty = source.replace(right, wrong)

    if sanitizer == "fibers":
        HostDevice(monkeypatch).install().text = faulty
        x = random_bits(problem.rows, problem.features)
        module = FeaturePermutation(shuffled(problem.features), variant=variant)
        with pytest.raises(RuntimeError, match=message):
            module(x)
        return

    def run(text):
        program = build(variant, launch, "threads", sanitizer, text)
        return run_alone(program, variant, problem, launch, tmp_path / "case")

    assert run(source) == (0, "", True)
    code, printed, is_right = run(faulty)
    assert message in printed
    assert bool(code) == bool(message)
    assert not (is_right and code == 0)


def test_a_missing_barrier_changes_the_result_in_one_order(monkeypatch):
    """Without ThreadSanitizer too: half of the threads read what others have not written yet."""
    device = HostDevice(monkeypatch).install()
    device.text = cuda.source("tile").replace("    __syncthreads();\n", "")
    x, perm = random_bits(100, 37), shuffled(37)
    module = FeaturePermutation(perm, toolchain="nvrtc", variant="tile")
    with pytest.raises(AssertionError):
        assert_permuted(module(x), x, perm)
