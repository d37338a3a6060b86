"""A CUDA device in host memory: CPU tensors are on it, and NumPy does what the kernels would do.

It stands behind the seams that perm_gpu has: the driver's calls, the facts of a device, a
toolchain's compiler and the loader.
"""

import contextlib
import functools
import importlib
import pickle
import sys
import threading
import time
import types
import weakref

import numpy as np
import torch

from fake_kernels import KERNELS, Code, Launched, Parameters, execute
from perm_gpu import driver, fast_module, interop, module, planner, registry, toolchains
from perm_gpu.toolchains import Cubin, Kernel, KernelCache
from perm_gpu.toolchains.cuda import Cuda
from perm_gpu.toolchains.numba import Numba
from perm_gpu.toolchains.nvcc import Nvcc
from perm_gpu.toolchains.nvrtc import Nvrtc

INDEX = -1  # what torch calls the CPU's index
CONTEXT = 0xC0DE
POISON = 0xA5
GUARD = 64  # bytes of poison on both sides of an output; also its alignment
LARGE = 1 << 20  # elements or bytes from which memory is not poisoned, to save time
PRIVATE_NAMES = (
    (torch._C._dynamo.guards, "_empty_strided_cuda"),
    (torch._C, "_cuda_getCurrentRawStream"),
    (torch._C, "_cuda_getDevice"),
    (torch._C._dynamo.guards, "TensorGuards"),
)
"""Private names of torch that calls and guards are bound from, where they are there."""


class DriverError(Exception):
    """What the launch raises, as CuPy's CUDADriverError does."""

    def __init__(self, status):
        super().__init__(f"CUDA error {status}")
        self.status = status


class FakeDevice:
    """In place after `install` or `install_platform`; the monkeypatch takes it all back.

    Args:
        monkeypatch: pytest's.
        arch: Compute capability as major * 10 + minor.
        shared_limit: Opt-in shared memory of a block, in bytes.
    """

    def __init__(self, monkeypatch, arch=90, shared_limit=232_448):
        self.monkeypatch = monkeypatch
        self.facts = driver.DeviceFacts(torch.device("cpu"), INDEX, arch, shared_limit, CONTEXT)
        self.launched = []
        """Every launch."""
        self.compiled = []
        """(toolchain, variant) of every compilation."""
        self.shared_checks = []
        """Element size of every comparison of the DLPack view."""
        self.current_device = INDEX
        self.current_stream = 0
        self.capturing = False
        self.needs_context = False
        """Whether a thread that has not set a context gets status 201."""
        self.contexts = threading.local()
        self.before_launch = lambda: None
        """Runs inside each launch, before the parameters are read."""
        self.broken = {}
        """Toolchain to the error that its compiler raises."""
        self.missing = {}
        """Toolchain to the reason why it is not installed."""
        self.executes = True
        """Whether launches are looked at; else they are only counted."""
        self.count = 0
        self.whole = 1 << 22
        """Of launches of more elements only the first and the last block are executed."""
        self._codes = {}
        self._outputs = weakref.WeakValueDictionary()
        self._install_compilers()
        self._install_device()

    # The driver's calls.

    def allocate(self, shape, strides, dtype):
        """Poisoned memory with poison around it."""
        size = int(np.prod(shape)) * dtype.itemsize
        if size > LARGE or not self.executes:
            y = torch.empty_strided(shape, strides, dtype=dtype)
        else:
            storage = torch.full((size + 2 * GUARD,), POISON, dtype=torch.uint8)
            y = storage[GUARD : GUARD + size].view(dtype).as_strided(tuple(shape), tuple(strides))
        self._outputs[y.data_ptr()] = y
        return y

    def stream(self, index):
        assert index == INDEX
        return self.current_stream

    def device(self):
        return self.current_device

    def set_context(self, context):
        assert context == CONTEXT
        self.contexts.value = context

    def launch(self, function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):
        """cuLaunchKernel: refuses what the driver refuses, then executes."""
        self.count += 1
        if not self.executes:
            return
        integers = (function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra)
        assert all(type(number) is int for number in integers), integers
        assert self.current_device == INDEX, "another device is the current one"
        self.before_launch()
        if self.needs_context and getattr(self.contexts, "value", 0) != CONTEXT:
            raise DriverError(driver.INVALID_CONTEXT)
        time.sleep(0)  # the driver is called without the GIL: other threads come in between
        if not (
            1 <= gx < 1 << 31
            and gy == gz == by == bz == 1
            and 1 <= bx <= 1024
            and 0 <= shared <= self.facts.shared_limit
            and extra == 0
        ):
            raise DriverError(1)
        code = self._codes[function]
        p = Parameters(parameters, code)
        thread = threading.get_ident()
        launched = Launched(code, gx, bx, shared, stream, p[0], p[1], p[2], p[3], thread)
        self.launched.append(launched)
        if (y := self._outputs.get(launched.y)) is not None:
            element_bytes = code.specialisation["element_bytes"]
            assert launched.elements * element_bytes == y.numel() * y.element_size()
        self.execute(launched, p, parameters)

    def execute(self, launched, values, parameters):
        """Does what the kernel does."""
        execute(launched, values, self.whole)

    # Putting it in place.

    def _install_compilers(self):
        def compile_(toolchain, variant, launch, arch):
            assert arch == self.facts.arch
            self.compiled.append((toolchain.name, variant))
            if error := self.broken.get(toolchain.name):
                raise error
            s = dict(launch.specialisation)
            slots = numba_slots(variant, s) if isinstance(toolchain, Numba) else None
            return Cubin(pickle.dumps(Code(toolchain.name, variant, s, slots)), variant, slots, "")

        patch = self.monkeypatch.setattr
        for toolchain in (Nvrtc, Nvcc, Numba):
            patch(toolchain, "compile", compile_)
        for toolchain in (Cuda, Nvcc, Numba):
            patch(toolchain, "missing", lambda toolchain: self.missing.get(toolchain.name))
        patch(toolchains, "load", self._load)
        patch(planner, "KERNELS", KernelCache())
        known = {name: v for name, v in registry.VARIANTS.items() if name in KERNELS}
        patch(registry, "VARIANTS", known)

    def _load(self, cubin, shared_limit):
        assert shared_limit == self.facts.shared_limit
        handle = 1000 + len(self._codes)
        self._codes[handle] = pickle.loads(cubin.code)
        return Kernel(handle, cubin.slots, None)

    def _install_device(self):
        patch, empty_like = self.monkeypatch.setattr, torch.empty_like

        @contextlib.contextmanager
        def current(index):
            before, self.current_device = self.current_device, index
            yield
            self.current_device = before

        def poisoned(x, **options):
            y = empty_like(x, **options)
            if driver.is_plain(y) and y.dim() and 0 < y.numel() < LARGE:
                y.view(torch.uint8).fill_(POISON)
            return y

        patch(driver, "facts", lambda index: self.facts)
        patch(driver, "serves", lambda x: x.device.type == "cpu")
        patch(interop, "require_shared", lambda x: self.shared_checks.append(x.element_size()))
        patch(module, "_module", functools.lru_cache(module._module.__wrapped__))
        patch(module, "_warned", set())
        patch(torch, "empty_like", poisoned)
        patch(torch.cuda, "device", current)
        patch(torch.cuda, "is_current_stream_capturing", lambda: self.capturing)

    def install(self):
        """The driver's calls as one value."""
        value = driver.Driver(
            allocate=self.allocate,
            stream=self.stream,
            device=self.device,
            launch=self.launch,
            set_context=self.set_context,
            error=DriverError,
        )
        self.monkeypatch.setattr(driver, "_bound", value)
        return self

    def install_platform(self, removed=None):
        """What the driver's calls are bound from: CuPy, and torch's public and private names.

        Args:
            removed: One of `PRIVATE_NAMES`, which this torch then lacks.
        """
        patch, empty_strided = self.monkeypatch.setattr, torch.empty_strided

        def on_device(shape, strides, *, dtype, device):
            assert device == "cuda"
            return empty_strided(shape, strides, dtype=dtype)

        def current_stream(index):
            return types.SimpleNamespace(cuda_stream=self.stream(index))

        patch(driver, "_bound", None)
        patch(torch, "empty_strided", on_device)
        patch(torch.cuda, "current_device", self.device)
        patch(torch.cuda, "device_count", lambda: 2)
        patch(torch.cuda, "current_stream", current_stream)
        private = (self.allocate, self.stream, self.device)
        for (owner, name), call in zip(PRIVATE_NAMES, private, strict=False):
            patch(owner, name, call, raising=False)
        if removed is not None:
            self.monkeypatch.delattr(*removed)
        cupy, cuda, calls = (types.ModuleType(name) for name in ("cupy", "cupy.cuda", "driver"))
        cupy.cuda, cuda.driver = cuda, calls
        calls.launchKernel, calls.ctxSetCurrent = self.launch, self.set_context
        calls.CUDADriverError = DriverError
        self.monkeypatch.setitem(sys.modules, "cupy", cupy)
        self.monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
        return self

    def slow_calls(self):
        """A list that grows with every call that a fast path of a new module hands on."""
        entered = []

        def count(owner, name):
            original = getattr(owner, name)

            def counted(self, x):
                entered.append(name)
                return original(self, x)

            self.monkeypatch.setattr(owner, name, counted)

        count(fast_module.FastModule, "_general")
        count(module.FeaturePermutation, "_serve")
        return entered


def numba_slots(variant, specialisation):
    """The slots of a Numba kernel, from the kernel itself."""
    build = importlib.import_module(f"perm_gpu.numba_kernels.{variant}").build
    return build(**specialisation)[2]
