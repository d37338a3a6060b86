"""Every kernel, by every toolchain, for every architecture: it compiles, and nothing spills."""

import itertools
import random
import re
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from perm_gpu import ToolchainError, toolchains
from perm_gpu.evaluate.build import ELEMENT_BYTES
from perm_gpu.planner import choose
from perm_gpu.problem import Problem
from perm_gpu.registry import VARIANTS
from perm_gpu.toolchains import cuda, nvrtc
from problems import SHARED_LIMITS, choices, spilled_bytes

EM_CUDA = 190
SAMPLE = {"nvrtc": 120, "nvcc": 4, "numba": 12}
"""Choices that are compiled, out of those that differ in their registers."""
ARCHS = list(SHARED_LIMITS)


@pytest.fixture(params=toolchains.NAMES)
def toolchain(request):
    found = toolchains.toolchains()[request.param]
    if reason := found.missing():
        pytest.skip(reason)
    return found


def machine(code):
    """The machine that an ELF file is for."""
    assert code[:4] == b"\x7fELF"
    return struct.unpack_from("<H", code, 18)[0]


def in_parallel(function, items):
    """The compilers are called without the GIL."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(function, items))


def cases(toolchain, arch):
    """(variant, element bytes) for one architecture; every pair of the three over all of them.

    nvcc, which takes a second for what is the same compiler as NVRTC's, is given no more than that.
    """
    for (v, variant), (w, width) in itertools.product(
        enumerate(VARIANTS), enumerate(ELEMENT_BYTES)
    ):
        turn = (ARCHS.index(arch) + w - v) % len(VARIANTS)
        if width <= toolchain.widest_element and (toolchain.name != "nvcc" or turn == 0):
            yield variant, width


@pytest.mark.parametrize("arch", ARCHS)
def test_every_kernel_compiles_without_spills(toolchain, arch):
    def build(case):
        variant, element_bytes = case
        features = 36 if variant == "baked" else 4096
        limit = SHARED_LIMITS[arch]
        problem = Problem(4096, features, element_bytes, features, shared_limit=limit)
        choice = choose(problem, toolchain, variant)
        return choice, toolchain.compile(variant, choice.launch, arch)

    for choice, cubin in in_parallel(build, cases(toolchain, arch)):
        assert machine(cubin.code) == EM_CUDA
        assert cubin.entry.encode() in cubin.code
        assert spilled_bytes(cubin.log) == 0, (choice, cubin.log)


def test_no_choice_of_selection_spills(toolchain):
    found = choices(toolchain, 90)
    assert {choice.variant.name for choice in found} == set(VARIANTS)

    def spills(choice):
        return spilled_bytes(toolchain.compile(choice.variant.name, choice.launch, 90).log)

    sample = random.Random(0).sample(found, SAMPLE[toolchain.name])
    spilled = in_parallel(spills, sample)
    assert not [choice for choice, amount in zip(sample, spilled, strict=True) if amount]


def launch_of(variant, element_bytes=4, features=36):
    problem = Problem(4096, features, element_bytes, features)
    return VARIANTS[variant].geometry(problem)


@pytest.mark.parametrize("variant", VARIANTS)
def test_source_is_one_kernel_that_needs_no_other_file(variant):
    text = cuda.source(variant)
    code = re.sub(r"//.*", "", text)
    assert re.findall(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)", code) == [
        variant
    ]
    assert code.count('extern "C"') == 1
    assert "#include" not in code
    assert not re.search(r"\btemplate\b", code)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_macro_of_a_source_is_given_and_used(variant):
    used = set(re.findall(r"\bPERM_\w+", re.sub(r"//.*", "", cuda.source(variant))))
    launch = launch_of(variant)
    options = cuda.macros(launch)
    given = dict(re.fullmatch(r"-D(\w+)=(.+)", option).groups() for option in options)

    assert used <= given.keys()
    for name, value in launch.specialisation:
        macro = f"PERM_{name.upper()}"
        assert given[macro] == str(value)
        type_ = macro.removesuffix("_BYTES")
        assert {macro, type_} & used
        if type_ != macro:
            assert given[type_] == cuda.UNSIGNED[value]


def test_what_the_compiler_says_is_in_the_error(toolchain, monkeypatch):
    right = launch_of("gather")
    wrong = replace(right, specialisation=(("element_bytes", 4), ("unknown", 1)))
    with pytest.raises(ToolchainError) as raised:
        toolchain.compile("gather", wrong, 90)

    expected = "unknown" if toolchain.name == "numba" else "PERM_OFFSET"
    for part in ("gather", "sm_90", expected):
        assert part in str(raised.value)
    assert toolchain.compile("gather", right, 90).code


def test_newest_architecture_whose_code_runs():
    known = [75, 80, 86, 90, 100, 120]
    assert [nvrtc.supported(known, arch) for arch in (75, 80, 87, 89, 90, 103, 121)] == [
        *(75, 80, 86, 86, 90, 100, 120)
    ]
    with pytest.raises(ToolchainError, match=r"sm_75 \.\. sm_120 .* on sm_70"):
        nvrtc.supported(known, 70)


def test_a_cubin_is_whole():
    """The section header table is the last thing in the file, as NVRTC writes it."""
    pytest.importorskip("cupy")
    code = toolchains.toolchains()["nvrtc"].compile("gather", launch_of("gather"), 90).code
    (start,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    assert len(code) >= start + size * count
