"""The registry and its variants: names, limits, selection, geometry, tables."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perm_gpu import Permutation, UnsupportedProblemError
from perm_gpu.planner import choose, span
from perm_gpu.problem import WIDEST, Problem, alignment
from perm_gpu.registry import VARIANTS, check_name, select
from perm_gpu.toolchains import raw_kernels_folder, toolchains
from problems import SHARED_LIMITS, WIDTHS


@st.composite
def any_problem(draw):
    features = draw(st.one_of(st.integers(1, 200), st.integers(1, 1 << 20)))
    rows = draw(st.one_of(st.integers(1, 2000), st.integers(1, (1 << 38) // features)))
    width = draw(st.sampled_from(WIDTHS))
    gap = draw(st.sampled_from([-features, 0, 0, 0, 1, 4, 1000]))
    x_alignment = draw(st.sampled_from(WIDTHS))
    return Problem(
        rows,
        features,
        width,
        features + gap,
        alignment(x_alignment, (features + gap) * width if gap else 0),
        draw(st.sampled_from(WIDTHS)),
        draw(st.sampled_from([*SHARED_LIMITS.values()])),
    )


def test_a_name_is_the_file_the_entry_and_the_key():
    assert {path.stem for path in raw_kernels_folder().glob("*.cu")} == set(VARIANTS)
    numba_kernels = raw_kernels_folder().parent / "perm_gpu" / "numba_kernels"
    stems = {path.stem for path in numba_kernels.glob("*.py")} - {"__init__"}
    assert stems <= set(VARIANTS)
    assert all(name == variant.name for name, variant in VARIANTS.items())


@given(any_problem(), st.sampled_from(["nvrtc", "numba"]))
def test_any_problem_has_a_variant_that_does_not_reject_it(problem, toolchain):
    choice = choose(problem, toolchains()[toolchain], "auto")
    assert choice.variant.rejects(choice.problem) is None
    assert choice.problem.row_bytes == problem.row_bytes
    assert choice.words * choice.problem.element_bytes == problem.element_bytes


@given(any_problem(), st.sampled_from([*VARIANTS]))
def test_a_named_variant_runs_the_problem_or_says_why_not(problem, name):
    reason = VARIANTS[name].rejects(problem)
    if reason is None:
        assert select(problem, name) is VARIANTS[name]
    else:
        with pytest.raises(UnsupportedProblemError) as raised:
            select(problem, name)
        assert reason in str(raised.value)
        assert "gather" in str(raised.value).split("variants that can: ")[1]


@given(any_problem(), st.sampled_from(["auto", *VARIANTS]), st.sampled_from(["nvrtc", "numba"]))
def test_geometry_is_legal(problem, name, toolchain):
    try:
        choice = choose(problem, toolchains()[toolchain], name)
    except UnsupportedProblemError:
        return
    launch, problem = choice.launch, choice.problem
    fields = dict(launch.specialisation)
    assert 1 <= launch.blocks(problem.elements) < 1 << 31
    assert launch.blocks(problem.elements) * launch.block_elements >= problem.elements
    assert 32 <= launch.threads <= 1024
    assert launch.threads == fields["threads"]
    assert launch.shared_bytes <= problem.shared_limit
    assert launch.blocks_per_multiprocessor * launch.threads <= 2048
    if "index_bytes" in fields:
        assert problem.elements + launch.block_elements <= 1 << 8 * fields["index_bytes"]
    if choice.variant.name == "tile":
        check_tile(problem, launch, fields)


def check_tile(problem, launch, fields):
    """Words divide what they are used for, and all threads together move the whole tile."""
    tile_bytes = launch.block_elements * problem.element_bytes
    assert launch.block_elements % problem.features == 0
    assert launch.shared_bytes >= tile_bytes
    for move, address, piece in (
        ("load", problem.x_alignment, tile_bytes if problem.dense else problem.row_bytes),
        ("store", problem.y_alignment, tile_bytes),
    ):
        width = fields[f"{move}_bytes"]
        assert problem.element_bytes <= width <= WIDEST
        assert address % width == piece % width == 0
        moved = fields[f"{move}s"] * launch.threads * width
        assert moved >= tile_bytes
        assert moved - launch.threads * width < tile_bytes


@given(any_problem(), st.sampled_from(["auto", *VARIANTS]))
def test_a_plan_is_the_same_all_over_its_span(problem, name):
    toolchain = toolchains()["nvrtc"]
    problem = replace(problem, row_stride=problem.features)  # only dense tensors have a fast path
    try:
        choice = choose(problem, toolchain, name)
    except UnsupportedProblemError:
        return
    low, high = span(choice, name)
    assert low <= choice.problem.elements < high
    for bits in range(low.bit_length(), high.bit_length()):
        rows = (1 << bits) // choice.problem.features
        if low <= rows * choice.problem.features < high and rows:
            other = choose(replace(choice.problem, rows=rows), toolchain, name)
            assert (other.variant, other.launch) == (choice.variant, choice.launch)


@given(st.integers(1, 300), st.integers(1, 3000), st.sampled_from(WIDTHS), st.integers(0, 99))
def test_tables_are_the_permutation(features, rows, width, seed):
    permutation = Permutation(np.random.default_rng(seed).permutation(features))
    problem = Problem(rows, features, width, features)
    for name, variant in VARIANTS.items():
        if variant.rejects(problem):
            continue
        launch = variant.geometry(problem)
        tables = variant.tables(permutation, launch)
        if name == "baked":
            assert tables.offsets is None
            entries = np.array(tables.scalars, "<u8").view(np.uint8)[:features]
            assert entries.tolist() == permutation.array.tolist()
            continue
        table = tables.offsets.astype(np.int64)
        assert tables.offsets.itemsize == dict(launch.specialisation)["offset_bytes"]
        row, feature = np.divmod(table, features)
        assert tables.scalars[-1] == features
        assert (feature.reshape(-1, features) == permutation.array).all()
        assert (row.reshape(-1, features) == np.arange(len(table) // features)[:, None]).all()
        if name == "tile":
            assert tables.scalars[0] == len(table) == launch.block_elements


@given(st.lists(st.integers(0, 1 << 50), max_size=4))
def test_alignment_divides_everything(amounts):
    found = alignment(*amounts)
    assert found in WIDTHS
    assert all(amount % found == 0 for amount in amounts)
    assert found == WIDEST or any(amount % (2 * found) for amount in amounts)


def test_the_kernelbench_problem_is_baked_and_large_ones_are_tiled():
    chosen = [
        select(Problem(rows, features, width, features)).name
        for rows, features, width in (
            (10, 36, 4),
            (1 << 20, 36, 4),
            (8192, 4096, 2),
            (9, 70_000, 4),
        )
    ]
    assert chosen == ["baked", "tile", "tile", "gather"]


@pytest.mark.parametrize(
    ("problem", "name", "numbers"),
    [
        (Problem(10, 129, 4, 129), "baked", ("129", "128")),
        (Problem(10, 58_113, 4, 58_113), "tile", ("232452", "232448")),
        (Problem(10, 16_385, 4, 16_385, shared_limit=65_536), "tile", ("65540", "65536")),
    ],
)
def test_a_limit_names_both_numbers(problem, name, numbers):
    assert all(number in VARIANTS[name].rejects(problem) for number in numbers)


def test_unknown_names():
    with pytest.raises(UnsupportedProblemError, match="'tiles'; there are: auto, baked, tile"):
        check_name("tiles")
    with pytest.raises(UnsupportedProblemError, match="'tiles'"):
        select(Problem(1, 1, 1, 1), "tiles")
