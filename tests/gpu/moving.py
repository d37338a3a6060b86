"""Random bits, poisoned memory, and the comparison that every GPU test ends with."""

import contextlib
import warnings

import numpy as np
import torch

POISON = 0xA5
CANARY = 256
"""Bytes of poison before and behind an output."""


def random_bits(*shape, dtype, seed=0):
    """Any bits there are, NaN payloads too; booleans are 0 or 1."""
    generator = torch.Generator("cuda").manual_seed(seed)
    bytes_ = (*shape[:-1], shape[-1] * dtype.itemsize)
    x = torch.randint(0, 256, bytes_, dtype=torch.uint8, device="cuda", generator=generator)
    return (x & 1 if dtype is torch.bool else x).view(dtype)


def as_bytes(x):
    """(..., N) -> (..., N, bytes of an element), the same bits."""
    x = x.resolve_conj().resolve_neg().contiguous()
    return x.view(torch.uint8).view(*x.shape, x.element_size())


def poison(like):
    """Leaves poison in the memory that the next tensor of this size is given."""
    size = like.numel() * like.element_size()
    torch.full((max(size, 1),), POISON, dtype=torch.uint8, device="cuda")


def guarded(x, offset=0):
    """A dense output for x in poison, `offset` elements past an aligned address, and its buffer."""
    size = x.numel() * x.element_size()
    start = CANARY + offset * x.element_size()
    length = start + size + CANARY
    buffer = torch.full((-(-length // 16) * 16,), POISON, dtype=torch.uint8, device="cuda")
    out = buffer[start : start + size].view(x.dtype).view(x.shape)
    return out, buffer


@contextlib.contextmanager
def never_waits():
    """Whatever waits for the GPU raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this mode does not see everything
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def assert_moved(x, y, perm):
    """y is fresh or given memory, dense, and x[..., perm] to the bit."""
    assert type(y) is torch.Tensor
    assert (y.dtype, y.device, y.shape) == (x.dtype, x.device, x.shape)
    assert y.is_contiguous()
    index = torch.as_tensor(np.array(perm), device=x.device)  # a copy: it may be read-only
    assert torch.equal(as_bytes(y), as_bytes(x).index_select(x.dim() - 1, index))


def assert_untouched(buffer, out):
    """The poison around an output is still there."""
    start = out.data_ptr() - buffer.data_ptr()
    size = out.numel() * out.element_size()
    assert bool((buffer[:start] == POISON).all())
    assert bool((buffer[start + size :] == POISON).all())
