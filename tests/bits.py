"""Tensors of random bits, and their permutation by NumPy: what every result is compared with."""

import numpy as np
import torch

from cases import DTYPE_OF


def random_bits(*shape, dtype=torch.float32, seed=0):
    """A dense tensor of random bytes, NaNs of every kind among them."""
    count = int(np.prod(shape)) * dtype.itemsize
    data = np.random.default_rng(seed).integers(0, 256, count, np.uint8)
    if dtype is torch.bool:
        data &= 1
    x = torch.from_numpy(data).view(dtype) if count else torch.empty(0, dtype=dtype)
    return x.view(shape)


def permuted_bits(x, perm):
    """x[..., perm] as bytes, by NumPy."""
    words = x.detach().view(DTYPE_OF[x.element_size()]).numpy()
    return np.ascontiguousarray(words[..., np.asarray(perm)]).tobytes()


def bits_of(y):
    """The bytes of a dense tensor."""
    assert y.is_contiguous()
    return y.detach().view(DTYPE_OF[y.element_size()]).numpy().tobytes()


def assert_permuted(y, x, perm):
    """y is x[..., perm] to the bit: x's shape and dtype, dense, in memory of its own."""
    assert (y.shape, y.dtype, y.device) == (x.shape, x.dtype, x.device)
    assert y.numel() == 0 or y.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    assert bits_of(y) == permuted_bits(x, perm)
