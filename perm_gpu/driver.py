"""The calls that a launch is made of, bound on first use: the cheapest that work on this torch.

They are one value, so that tests put a fake driver in its place. Private calls of torch are tried
before they are trusted, and each has a public one behind it.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from perm_gpu.errors import ToolchainError

INVALID_CONTEXT = 201
"""CUDA_ERROR_INVALID_CONTEXT: the thread has no current context."""
SHARED_OPTIN = 97
"""cudaDevAttrMaxSharedMemoryPerBlockOptin."""


@dataclass(frozen=True, slots=True)
class Driver:
    """The five calls of a launch."""

    allocate: Callable[[Sequence[int], Sequence[int], torch.dtype], torch.Tensor]
    """(shape, strides, dtype): an uninitialised tensor on the current CUDA device."""
    stream: Callable[[int], int]
    """(device index): handle of torch's current stream there."""
    device: Callable[[], int]
    """Index of the current device."""
    launch: Callable[..., None]
    """cuLaunchKernel: function, grid x 3, block x 3, shared bytes, stream, parameters, extra."""
    set_context: Callable[[int], None]
    """cuCtxSetCurrent."""
    error: type[Exception]
    """What `launch` raises; its `status` is the driver's error code."""
    devices: int = 2
    """Devices that this process sees; with one of them nobody asks which is current."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What plans depend on."""

    device: torch.device
    index: int
    arch: int
    """Compute capability as major * 10 + minor."""
    shared_limit: int
    """Opt-in shared memory of one block, in bytes."""
    context: int
    """CUcontext, the device's primary one."""


_bound: Driver | None = None


def bound() -> Driver:
    """The driver's calls; a CUDA device is there.

    Raises:
        ToolchainError: CuPy, which holds the binding to cuLaunchKernel, is not installed.
    """
    global _bound
    if _bound is None:
        _bound = _bind()
    return _bound


def _bind() -> Driver:
    try:
        from cupy.cuda import driver
    except ImportError as error:
        raise ToolchainError(
            "launching a kernel needs CuPy, which is not installed: "
            "pip install 'perm-gpu[cuda12]' or 'perm-gpu[cuda13]', as torch's CUDA is"
        ) from error
    return Driver(
        allocate=_working(_private_allocate, _allocate, lambda f: f((1, 2), (2, 1), torch.uint8)),
        stream=_working(_private_stream, _stream, lambda f: f(torch.cuda.current_device())),
        device=_working(_private_device, torch.cuda.current_device, lambda f: f()),
        launch=driver.launchKernel,
        set_context=driver.ctxSetCurrent,
        error=driver.CUDADriverError,
        devices=torch.cuda.device_count(),
    )


def _working(
    private: Callable[[], Callable[..., Any]],
    public: Callable[..., Any],
    call: Callable[[Callable[..., Any]], Any],
) -> Callable[..., Any]:
    """The private function if it is there and answers as the public one does, else that."""
    try:
        function = private()
        answer, expected = call(function), call(public)
    except Exception:  # a CPU build has the name and raises what it likes
        return public
    if isinstance(expected, torch.Tensor):
        facts = [(t.shape, t.stride(), t.dtype, t.device) for t in (answer, expected)]
        return function if facts[0] == facts[1] else public
    return function if type(answer) is type(expected) and answer == expected else public


def _private_allocate() -> Callable[..., Any]:
    # Inductor's allocation: 1.2-2.3 us against 1.9-3.4 us of torch.empty_like.
    guards: Any = importlib.import_module("torch._C._dynamo.guards")
    allocate: Callable[..., Any] = guards._empty_strided_cuda
    return allocate


def _private_stream() -> Callable[..., Any]:
    return torch._C._cuda_getCurrentRawStream


def _private_device() -> Callable[..., Any]:
    return torch._C._cuda_getDevice


def _allocate(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(shape, strides, dtype=dtype, device="cuda")


def _stream(index: int) -> int:
    return torch.cuda.current_stream(index).cuda_stream


@functools.cache
def facts(index: int) -> DeviceFacts:
    """What plans depend on, of one CUDA device."""
    from cupy.cuda import driver, runtime

    major, minor = torch.cuda.get_device_capability(index)
    with torch.cuda.device(index):
        context = driver.ctxGetCurrent()
        if context == 0:  # this thread has made no CUDA call yet
            runtime.free(0)
            context = driver.ctxGetCurrent()
    limit = runtime.deviceGetAttribute(SHARED_OPTIN, index)
    return DeviceFacts(torch.device("cuda", index), index, major * 10 + minor, limit, context)


def serves(x: torch.Tensor) -> bool:
    """Whether x is on a device that our kernels run on: CUDA, and not ROCm under its name."""
    return x.is_cuda and torch.version.hip is None


Guard = Callable[[torch.Tensor], bool]
"""Whether a tensor is like the one it was made for."""


def guard(x: torch.Tensor) -> Guard | None:
    """A check for plain dense tensors like x, with any number of rows; None if x is none.

    It refuses another dtype, device, trailing shape, layout or tensor type, tensors that require
    grad, conjugate and negative views, and whatever a transform or a mode has wrapped.
    """
    for make in (_tensor_guards, _manual_guard):
        check = make(x)
        if check is not None and check(x):
            return check
    return None


def _tensor_guards(x: torch.Tensor) -> Guard | None:
    # TorchDynamo's guard, in C++: 0.2-0.35 us against 0.6 us of the same checks in Python.
    try:
        guards_module: Any = importlib.import_module("torch._C._dynamo.guards")
        sizes, strides = [None, *x.shape[1:]], list(x.stride())
        guards = guards_module.TensorGuards(
            x, dynamic_dims_sizes=[sizes], dynamic_dims_strides=[strides]
        )
        if guards.check(x.new_empty(1).expand(x.shape)):  # same shape, strides of 0
            return None
        check: Guard = guards.check
        return check
    except Exception:  # another signature, or gone: the checks in Python serve
        return None


def _manual_guard(x: torch.Tensor) -> Guard:
    dtype, device, tail, dims = x.dtype, x.device, x.shape[1:], x.dim()

    def check(other: torch.Tensor) -> bool:
        return (
            is_plain(other)
            and type(other) is torch.Tensor
            and other.dtype is dtype
            and other.device == device
            and other.dim() == dims
            and other.shape[1:] == tail
            and not other.requires_grad
            and not other.is_conj()
            and not other.is_neg()
            and other.is_contiguous()
        )

    return check


def is_plain(x: torch.Tensor) -> bool:
    """Whether x is memory and nothing else: no subclass, transform, trace, tangent or mode."""
    return (
        type(x) in (torch.Tensor, torch.nn.Parameter)
        and x.layout is torch.strided
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._get_tracing_state() is None
        and not in_dual_level()
    )


def in_dual_level() -> bool:
    """Whether forward-mode differentiation is on, so that tensors may carry tangents."""
    from torch.autograd import forward_ad

    return forward_ad._current_level >= 0
