"""Gradients are the inverse permutation, at every order, and none is lost."""

import numpy as np
import pytest
import torch
from torch import func, nn

from bits import assert_permuted, random_bits
from cases import LAYOUTS, shuffled
from perm_gpu import FeaturePermutation, permute_features

PERM = shuffled(36)
INVERSE = np.argsort(PERM)
DIFFERENTIABLE = (torch.bfloat16, torch.float16, torch.float64, torch.complex32, torch.complex64)
pytestmark = pytest.mark.filterwarnings("ignore:B?Complex")  # torch's words on complex32


@pytest.mark.parametrize("dtype", DIFFERENTIABLE, ids=str)
def test_gradient_is_the_inverse_and_double_backward_the_permutation(where, dtype):
    x, w, v = (random_bits(5, 36, dtype=dtype, seed=seed) for seed in range(3))
    y = FeaturePermutation(PERM)(x.requires_grad_())
    (g,) = torch.autograd.grad(y, x, w.requires_grad_(), create_graph=True)
    (gg,) = torch.autograd.grad(g, w, v)

    assert_permuted(y, x, PERM)
    assert_permuted(g, w, INVERSE)
    assert_permuted(gg, v, PERM)


def test_jacobian_is_the_permutation_matrix(where):
    permute, x = FeaturePermutation(PERM), torch.randn(36, dtype=torch.float64)
    matrix = torch.autograd.functional.jacobian(permute, x)
    assert torch.equal(matrix, torch.eye(36, dtype=torch.float64)[PERM])
    assert torch.autograd.gradgradcheck(permute, x.requires_grad_())


@pytest.mark.parametrize("layout", ["dense", "row-strided", "3-d, transposed", "1-d"])
def test_no_silent_detach(where, layout):
    """Also after a fast path was made by a tensor that requires none, and for a Parameter."""
    permute, x = FeaturePermutation(PERM), LAYOUTS[layout](torch.randn, 10, 36)
    assert not permute(x).requires_grad
    assert not permute(x).requires_grad
    leaf = x.detach().requires_grad_()
    for source in (leaf, leaf * 2, nn.Parameter(x)):
        assert permute(source).requires_grad
        assert permute_features(source, PERM).requires_grad
        with torch.no_grad():
            assert not permute(source).requires_grad
    assert not permute(nn.Parameter(x, requires_grad=False)).requires_grad


def test_a_module_made_in_inference_mode_is_differentiable(where):
    """Its buffer is saved for the backward of what transforms see."""
    with torch.inference_mode():
        permute = FeaturePermutation(PERM)
    x, w = torch.randn(5, 36, requires_grad=True), torch.randn(5, 36)
    for call in (permute, func.vmap(permute)):
        x.grad = None
        call(x).backward(w)
        assert_permuted(x.grad, w, INVERSE)
