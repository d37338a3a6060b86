"""The only place that launches: parameter blocks, torch's current stream, the fast path.

Nothing that belongs to one call is kept: the stream, the pointers and the output are read or made
each time, and a parameter block is one call's alone while it is in use.
"""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from operator import mul
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.autograd import forward_ad

from perm_gpu import driver
from perm_gpu.problem import WIDEST, Launch
from perm_gpu.toolchains import Kernel
from perm_gpu.variant import Tables

Block = tuple["array[int]", int]
"""Parameter block: the arguments with their addresses behind them, and where these begin."""
Size = tuple[tuple[int, ...], int, list[Block]]
"""Shape of y, length of the grid, and free parameter blocks, for one number of elements."""
Slow = Callable[[torch.Tensor], torch.Tensor]
"""Serves any x."""
Path = Callable[..., torch.Tensor]
"""`path(x, slow)` serves the x it was made for, and hands any other to `slow`, which may be left
out."""

SIZES_KEPT = 64
"""Numbers of rows that a fast path remembers the shape, the grid and the blocks of."""

_retired: list[torch.Tensor] = []
"""Tables of plans that are gone; a kernel on some stream may still be reading them."""


class Plan:
    """A kernel and the arguments that never change: all that a launch on one device needs."""

    def __init__(
        self, kernel: Kernel, launch: Launch, facts: driver.DeviceFacts, tables: Tables
    ) -> None:
        self.kernel, self.launch, self.facts = kernel, launch, facts
        self._constants = tables.scalars
        if tables.offsets is not None:
            table = _upload(tables.offsets, facts.device)
            self._constants = (table.data_ptr(), *tables.scalars)
            weakref.finalize(self, _retired.append, table).atexit = False
        self._blocks: list[Block] = []

    def block(self) -> Block:
        """A new parameter block. Arguments 0 .. 3 are x, y, elements and row_stride."""
        arguments = 0, 0, 0, 0, *self._constants
        slots = self.kernel.slots or range(len(arguments))
        values = array("Q", (*arguments, *slots))
        address = values.buffer_info()[0]
        for place, slot in enumerate(slots, len(arguments)):
            values[place] = address + 8 * slot
        return values, address + 8 * len(arguments)

    def run(self, x_address: int, y_address: int, elements: int, row_stride: int) -> None:
        """Launches on torch's current stream; the plan's device is the current one."""
        calls, launch = driver.bound(), self.launch
        # A free list and not one block: a launch releases the GIL, and a finalizer may call again.
        try:
            block = self._blocks.pop()
        except IndexError:
            block = self.block()
        arguments, parameters = block
        arguments[0], arguments[1] = x_address, y_address
        arguments[2], arguments[3] = elements, row_stride
        grid = (launch.blocks(elements), 1, 1, launch.threads, 1, 1, launch.shared_bytes)
        call = (self.kernel.function, *grid, calls.stream(self.facts.index), parameters, 0)
        try:
            calls.launch(*call)
        except calls.error as error:
            _relaunch(calls, self.facts.context, error, call)
        self._blocks.append(block)

    def fast_path(
        self,
        x: torch.Tensor,
        check: driver.Guard,
        low: int,
        high: int,
        slow: Slow,
    ) -> Path:
        """The shortest way for dense tensors like x: one function, all it needs in its cells.

        Args:
            x: (..., N) of 2 dimensions or more, with `dense_strides`.
            check: Accepts what differs from x in the number of rows only.
            low: Least number of elements that this plan is for.
            high: One more than the largest.
            slow: Takes whatever this path does not.
        """
        calls, launch, facts = driver.bound(), self.launch, self.facts
        allocate, stream, current_device = calls.allocate, calls.stream, calls.device
        launch_kernel, launch_error, relaunch = calls.launch, calls.error, _relaunch
        function, threads, shared = self.kernel.function, launch.threads, launch.shared_bytes
        index, context = facts.index, facts.context
        several = calls.devices > 1  # else the only one is the current one
        tail, strides, dtype = tuple(x.shape[1:]), x.stride(), x.dtype
        unaligned = dict(launch.specialisation).get("load_bytes", x.element_size()) - 1
        row_stride, new_block = x.shape[-1], self.block
        modes = torch._C._len_torch_dispatch_stack
        sizes: dict[int, Size] = {}

        def size(elements: int) -> Size:
            """What depends on nothing but the number of rows; the latest few are remembered."""
            blocks: list[Block] = []
            found = (elements // strides[0], *tail), launch.blocks(elements), blocks
            if len(sizes) >= SIZES_KEPT:
                sizes.clear()
            sizes[elements] = found
            return found

        def fast(x: torch.Tensor, slow: Slow = slow) -> torch.Tensor:
            # Some modes hide from the guards: those that trace what compilers do.
            if not check(x) or forward_ad._current_level >= 0 or modes():
                return slow(x)
            if several and current_device() != index:
                return slow(x)
            elements = x.numel()
            x_address = x.data_ptr()
            if x_address & unaligned:
                return slow(x)
            try:
                shape, grid, blocks = sizes[elements]
            except KeyError:
                if not low <= elements < high:
                    return slow(x)
                shape, grid, blocks = size(elements)
            y = allocate(shape, strides, dtype)
            try:
                block = blocks.pop()
            except IndexError:
                block = new_block()
                block[0][2], block[0][3] = elements, row_stride
            arguments, parameters = block
            arguments[0] = x_address
            arguments[1] = y.data_ptr()
            on = stream(index)
            try:
                launch_kernel(function, grid, 1, 1, threads, 1, 1, shared, on, parameters, 0)
            except launch_error as error:
                call = function, grid, 1, 1, threads, 1, 1, shared, on, parameters, 0
                relaunch(calls, context, error, call)
            blocks.append(block)
            return y

        return fast


def _relaunch(calls: driver.Driver, context: int, error: Exception, call: tuple[int, ...]) -> None:
    """Launches again where the thread had no CUDA context; any other error goes on.

    A thread that has made no CUDA call of its own has none, also after an allocation of torch's.
    """
    if getattr(error, "status", None) != driver.INVALID_CONTEXT:
        raise error
    calls.set_context(context)
    calls.launch(*call)


def _upload(offsets: npt.NDArray[Any], device: torch.device) -> torch.Tensor:
    """The table on a device, padded to whole 16-byte words, which kernels may read it by."""
    while _retired:
        retired = _retired.pop()
        if retired.is_cuda:
            torch.cuda.synchronize(retired.device)
    table = np.zeros(-(-offsets.nbytes // WIDEST) * WIDEST, np.uint8)
    table[: offsets.nbytes] = offsets.view(np.uint8)
    return torch.from_numpy(table).to(device)


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a row-major tensor without gaps, also along axes of length 1."""
    strides = accumulate(reversed(shape[1:]), mul, initial=1)
    return tuple(reversed(tuple(strides)))


def collapsed_stride(x: torch.Tensor) -> int | None:
    """The one distance between rows of x (..., N) in elements, or None where there is not one."""
    features = x.shape[-1]
    if x.is_contiguous():
        return features
    if features > 1 and x.stride(-1) != 1:
        return None
    axes = [(n, s) for n, s in zip(x.shape[:-1], x.stride()[:-1], strict=True) if n > 1]
    for (_, outer), (inner_length, inner) in pairwise(axes):
        if outer != inner * inner_length:
            return None
    return axes[-1][1] if axes else features
