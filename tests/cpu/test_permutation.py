"""`Permutation` against slow definitions, on families that have structure and on random ones."""

import copy
import gc
import hashlib
import math
import pickle
import struct
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from perm_gpu import permutation as permutation_module
from perm_gpu.errors import InputError, InputTypeError
from perm_gpu.permutation import CHUNK, Permutation, offset_dtype
from processes import run


def block_permutation(blocks, size):
    """Blocks of `size` features move whole."""
    return [size * block + i for block in blocks for i in range(size)]


def repeated_permutation(local, copies):
    """Each of `copies` blocks is permuted by `local`."""
    return [len(local) * k + j for k in range(copies) for j in local]


def permutations(longest=24):
    return st.integers(0, longest).flatmap(lambda features: st.permutations(range(features)))


structured = st.one_of(
    permutations(),
    st.builds(block_permutation, permutations(8), st.integers(1, 6)),
    st.builds(repeated_permutation, permutations(8), st.integers(1, 8)),
    st.builds(
        lambda blocks, size, copies: repeated_permutation(block_permutation(blocks, size), copies),
        permutations(5),
        st.integers(1, 4),
        st.integers(1, 4),
    ),
    # One swap away from the identity: what a check of a sample only would miss.
    st.builds(
        lambda features, a, b: [
            {a % features: b % features, b % features: a % features}.get(j, j)
            for j in range(features)
        ],
        st.integers(1, 40),
        st.integers(0, 39),
        st.integers(0, 39),
    ),
)


def divisors(features):
    return [size for size in range(1, features + 1) if features % size == 0]


def granule_by_definition(perm):
    """The largest g that the sentence in the docstring allows, tried one by one."""
    return max(
        (
            g
            for g in divisors(len(perm))
            if all(
                perm[k] % g == 0 and perm[k + i] == perm[k] + i
                for k in range(0, len(perm), g)
                for i in range(g)
            )
        ),
        default=1,
    )


def period_by_definition(perm):
    """The smallest T, likewise."""
    return min(
        (
            period
            for period in divisors(len(perm))
            if all(perm[j] == period * (j // period) + perm[j % period] for j in range(len(perm)))
        ),
        default=1,
    )


@given(structured)
def test_structure_is_that_of_the_definitions(perm):
    permutation = Permutation(perm)

    assert permutation.granule == granule_by_definition(perm)
    assert permutation.period == period_by_definition(perm)
    assert permutation.is_identity == (perm == list(range(len(perm))))


@pytest.mark.parametrize(
    ("perm", "granule", "period"),
    [
        ([], 1, 1),
        ([0], 1, 1),
        ([0, 1, 2, 3, 4, 5], 6, 1),  # identity
        ([5, 4, 3, 2, 1, 0], 1, 6),  # reverse
        ([1, 0, 3, 2, 5, 4], 1, 2),  # swapped pairs
        ([4, 5, 2, 3, 0, 1], 2, 6),  # pairs move whole
        ([2, 3, 0, 1, 6, 7, 4, 5], 2, 4),  # both
        ([3, 4, 5, 0, 1, 2], 3, 6),  # rotation by half
        ([2, 3, 4, 5, 0, 1], 2, 6),  # rotation: runs of 4 and 2
        ([1, 2, 3, 0], 1, 4),  # a run of 3 that starts at no multiple of 3
        ([0, 1, 3, 4, 5, 2], 1, 6),  # runs that start at no multiple of their length
        ([1, 0, 2, 3], 1, 4),  # the first period, but not the second, is swapped
    ],
)
def test_structure_by_example(perm, granule, period):
    permutation = Permutation(perm)

    assert (permutation.granule, permutation.period) == (granule, period)


@pytest.mark.parametrize("features", [CHUNK - 1, CHUNK, CHUNK + 1, CHUNK + 2, 3 * CHUNK])
@pytest.mark.parametrize("end", ["first", "last", "middle"])
def test_structure_is_seen_across_chunks(features, end):
    """One swapped pair at either end or across the border of two chunks breaks the identity."""
    position = {"first": 0, "last": features - 2, "middle": min(CHUNK, features - 1) - 1}[end]
    swapped = np.arange(features)
    swapped[[position, position + 1]] = position + 1, position

    assert Permutation(range(features)).is_identity
    assert Permutation(range(features)).period == 1
    assert not Permutation(swapped).is_identity
    assert Permutation(swapped).granule == math.gcd(features, position, position + 1)
    assert Permutation(swapped).period == features


def test_structure_of_long_blocks():
    """Granules and periods longer than a chunk, and many of them."""
    size = CHUNK + 8
    long_blocks = np.arange(6 * size).reshape(6, size)[[4, 0, 5, 2, 1, 3]].reshape(-1)
    rotated = (np.arange(6 * size).reshape(6, size) // size * size) + np.roll(np.arange(size), 3)

    assert Permutation(long_blocks).granule == size
    assert Permutation(rotated.reshape(-1)).period == size


@given(structured)
def test_inverse(perm):
    permutation = Permutation(perm)
    inverse = permutation.inverse

    assert [perm[j] for j in inverse.array] == list(range(len(perm)))
    assert [inverse.array[j] for j in perm] == list(range(len(perm)))
    assert inverse == Permutation(inverse.array)
    assert permutation.inverse is inverse
    assert inverse.inverse is permutation


def test_inverse_outlives_its_origin_and_makes_no_cycle():
    permutation = Permutation([2, 0, 1])
    inverse = permutation.inverse
    gone = weakref.ref(permutation)
    gc.disable()
    try:
        del permutation
        assert gone() is None
    finally:
        gc.enable()

    assert inverse.inverse == Permutation([2, 0, 1])
    assert inverse.inverse.inverse is inverse


def test_threads_get_one_inverse():
    permutation = Permutation(np.random.default_rng(0).permutation(100_000))
    barrier = threading.Barrier(8)
    found = []

    def ask():
        barrier.wait()
        found.append(permutation.inverse)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 8
    assert {id(inverse) for inverse in found} == {id(permutation.inverse)}


@given(structured)
def test_digest_is_of_the_little_endian_entries(perm):
    content = struct.pack(f"<{len(perm)}q", *perm)

    assert Permutation(perm).digest == hashlib.blake2b(content, digest_size=16).digest()


@given(permutations(6), permutations(6))
def test_equality_hash_and_digest_follow_content(one, other):
    first, second = Permutation(one), Permutation(other)

    assert (first == second) == (one == other)
    assert (first.digest == second.digest) == (one == other)
    assert hash(first) == hash(Permutation(np.array(one, np.int16)))
    assert first != one


@given(structured, st.integers(1, 5))
def test_expand(perm, words):
    expanded = Permutation(perm).expand(words)

    assert expanded.array.tolist() == [words * entry + i for entry in perm for i in range(words)]
    assert expanded == Permutation(expanded.array.copy())
    assert expanded.granule % words == 0 or not perm


@given(structured, st.integers(1, 5))
def test_offsets(perm, rows):
    table = Permutation(perm).offsets(rows)

    assert table.dtype == offset_dtype(rows * len(perm))
    assert table.tolist() == [r * len(perm) + entry for r in range(rows) for entry in perm]


@pytest.mark.parametrize(("rows", "dtype"), [(16, "uint16"), (17, "uint32")])
def test_offsets_at_the_limit_of_16_bits(rows, dtype):
    reverse = np.arange(4096)[::-1]
    table = Permutation(reverse).offsets(rows)

    assert table.dtype == dtype
    assert table.max() == rows * 4096 - 1
    assert np.array_equal(np.sort(table), np.arange(rows * 4096))
    assert np.array_equal(table[-4096:], (rows - 1) * 4096 + reverse)


@pytest.mark.parametrize(
    ("count", "dtype"),
    [
        (0, "uint16"),
        (1, "uint16"),
        (2**16, "uint16"),
        (2**16 + 1, "uint32"),
        (2**32, "uint32"),
        (2**32 + 1, "uint64"),
    ],
)
def test_offset_dtype(count, dtype):
    assert offset_dtype(count) == np.dtype(dtype)


@pytest.mark.parametrize(
    ("call", "error", "parts"),
    [
        (lambda: Permutation([0]).expand(0), InputError, ["words is 0", "at least 1"]),
        (lambda: Permutation([0]).expand(1.0), InputTypeError, ["words is 1.0", "integer"]),
        (lambda: Permutation([0]).expand(True), InputTypeError, ["words is True", "integer"]),
        (lambda: Permutation([0]).offsets(0), InputError, ["rows is 0", "at least 1"]),
        (lambda: Permutation([0]).offsets("2"), InputTypeError, ["rows is '2'", "integer"]),
        (lambda: offset_dtype(-1), InputError, ["count is -1", "at least 0"]),
    ],
)
def test_bad_arguments_are_refused(call, error, parts):
    with pytest.raises(error) as raised:
        call()

    assert all(part in str(raised.value) for part in parts)


def test_pickles_and_copies():
    permutation = Permutation(np.random.default_rng(1).permutation(1000))
    cached = permutation.inverse, permutation.digest, permutation.granule, permutation.period

    content = pickle.dumps(permutation)
    loaded = pickle.loads(content)

    assert len(content) < 3 * 1000  # two bytes an entry, and nothing that was cached
    assert loaded == permutation
    assert (loaded.inverse, loaded.digest, loaded.granule, loaded.period) == cached
    assert not loaded.array.flags.writeable
    assert pickle.loads(pickle.dumps(Permutation([]))) == Permutation([])
    assert copy.deepcopy({"p": permutation})["p"] == permutation
    assert copy.copy(permutation) == permutation


@pytest.mark.parametrize(
    "make",
    [
        lambda: Permutation([1, 0, 2]),
        lambda: Permutation(np.array([1, 0, 2])),
        lambda: Permutation(torch.tensor([1, 0, 2])),
        lambda: Permutation(range(3)),
        lambda: Permutation(range(2, -1, -1)),
        lambda: Permutation(Permutation([1, 0, 2])),
        lambda: Permutation([1, 0, 2]).inverse,
        lambda: Permutation([1, 0, 2]).expand(2),
        lambda: pickle.loads(pickle.dumps(Permutation([1, 0, 2]))),
    ],
)
def test_is_immutable(make):
    permutation = make()

    with pytest.raises(ValueError, match="read-only"):
        permutation.array[0] = 0
    with pytest.raises(ValueError, match="WRITEABLE"):
        permutation.array.flags.writeable = True
    for name in ("array", "features", "inverse", "digest", "granule", "new"):
        with pytest.raises(AttributeError):
            setattr(permutation, name, None)
        with pytest.raises(AttributeError):
            delattr(permutation, name)


@given(structured)
def test_what_it_says_of_itself(perm):
    permutation = Permutation(perm)

    assert len(permutation) == permutation.features == len(perm)
    assert permutation.array.tolist() == perm
    assert permutation.array.dtype == np.int64
    assert permutation.array.flags.c_contiguous
    assert f"features={len(perm)}" in repr(permutation)
    assert len(repr(permutation)) < 80


def test_long_permutations_are_fast():
    """2^24 entries: a second or two each, against minutes of any Python loop over them."""
    features = 1 << 24
    random = np.random.default_rng(2).permutation(features)
    start = time.perf_counter()

    permutation = Permutation(random)
    assert permutation.granule == 1
    assert permutation.period == features
    assert len(permutation.digest) == 16
    inverse = permutation.inverse.array
    identity = Permutation(range(features))
    assert (identity.granule, identity.period) == (features, 1)

    assert time.perf_counter() - start < 20
    assert np.array_equal(inverse[random[:1000]], np.arange(1000))


def test_needs_neither_torch_nor_a_gpu_library(tmp_path):
    """The module under an empty package, for the real one may import torch."""
    program = (
        "import sys, types; before = set(sys.modules); "
        "package = sys.modules['perm_gpu'] = types.ModuleType('perm_gpu'); "
        f"package.__path__ = [{str(Path(permutation_module.__file__).parent)!r}]; "
        "from perm_gpu.permutation import Permutation; "
        "print(Permutation([1, 2, 0]).inverse, {'numpy', 'torch', 'cupy', 'numba', 'cuda'} "
        "& {name.split('.')[0] for name in sys.modules.keys() - before})"
    )

    assert run(sys.executable, "-c", program, cwd=tmp_path).strip() == (
        "Permutation([2, 0, 1], features=3) {'numpy'}"
    )
