"""`permute_features`: modules are kept by content, and bounded."""

import gc
import weakref

import numpy as np
import pytest
import torch

from bits import assert_permuted, random_bits
from cases import shuffled
from perm_gpu import FeaturePermutation, errors, permute_features
from perm_gpu.module import MODULES_KEPT

PERM = shuffled(36)
INVERSE = np.argsort(PERM)


@pytest.fixture
def made(monkeypatch):
    """References to all modules that were made."""
    references, init = [], FeaturePermutation.__init__

    def counted(self, *args, **kwargs):
        init(self, *args, **kwargs)
        references.append(weakref.ref(self))

    monkeypatch.setattr(FeaturePermutation, "__init__", counted)
    return references


def test_modules_are_kept_by_content(device, made):
    x, changed = random_bits(10, 36), PERM.copy()
    for perm in (PERM, PERM.tolist(), torch.from_numpy(PERM), PERM.astype("u1"), changed):
        assert_permuted(permute_features(x, perm), x, PERM)
    assert len(made) == len(device.compiled) == 1

    changed[:] = INVERSE  # the same object, of other content
    assert_permuted(permute_features(x, changed), x, INVERSE)
    permute_features(x, PERM, variant="gather")
    permute_features(x, PERM, toolchain="nvcc")
    assert len(made) == 4


def test_modules_are_bounded(made):
    x, perms = torch.arange(200), [np.roll(np.arange(200), k) for k in range(MODULES_KEPT + 40)]
    for perm in (*perms, perms[-1]):  # the latest are those that stay
        assert_permuted(permute_features(x, perm), x, perm)
    gc.collect()
    assert len(made) == len(perms)
    assert sum(reference() is not None for reference in made) <= MODULES_KEPT


@pytest.mark.parametrize(
    ("perm", "error", "message"),
    [
        ([0, 2, 2], errors.InvalidPermutationError, r"perm\[2\] = 2.*perm\[1\] = 2"),
        ([0, 3, 1], errors.PermutationRangeError, r"perm\[1\] = 3.* 0 \.\. 2"),
        ([0, 1, -1], errors.PermutationRangeError, r"perm\[2\] = -1"),
        ([0, 1.0, 2], errors.PermutationTypeError, r"perm\[1\] = 1\.0"),
        ([0, 1], errors.InputError, r"3 features.* has 2"),
    ],
)
def test_bad_permutations_are_named(perm, error, message):
    for _ in range(2):  # an error is not kept as an answer
        with pytest.raises(error, match=message):
            permute_features(torch.ones(4, 3), perm)
