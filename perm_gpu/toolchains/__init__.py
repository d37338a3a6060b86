"""Kernel and specialisation in, loaded function handle out: by NVRTC, by nvcc or by Numba.

Compiling needs neither a GPU nor a driver; loading needs both. Nothing here imports cupy or numba
before a kernel is built.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perm_gpu.errors import ToolchainError
from perm_gpu.problem import Launch

KERNELS_KEPT = 512
"""Loaded kernels kept for reuse; a plan that uses one keeps it whatever happens here."""
MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
"""CUfunction_attribute: dynamic shared memory beyond 48 KB must be asked for."""


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code for one architecture."""

    code: bytes
    entry: str
    """Name of the one kernel in it."""
    slots: tuple[int, ...] | None
    """Argument that each parameter takes; None where that is the order they come in."""
    log: str
    """What ptxas says of registers, stack and spills."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel loaded on one device."""

    function: int
    """CUfunction, for cuLaunchKernel."""
    slots: tuple[int, ...] | None
    module: Any
    """Keeps the function loaded."""


class Toolchain(ABC):
    """One way from a kernel's source to a cubin."""

    name: str
    widest_element = 16
    """Bytes of the widest element its kernels move; wider ones are moved as several."""

    @abstractmethod
    def missing(self) -> str | None:
        """What is not installed, and the package to install; None where nothing is."""

    @abstractmethod
    def rejects(self, variant: str) -> str | None:
        """Why it has no kernel for a variant; None where it has one."""

    @abstractmethod
    def compile(self, variant: str, launch: Launch, arch: int) -> Cubin:
        """Compiles one specialisation; no GPU and no driver needed.

        Args:
            variant: Name of the variant.
            launch: Its geometry, which holds the specialisation.
            arch: Compute capability as major * 10 + minor, 90 for sm_90.

        Raises:
            ToolchainError: The compiler refused it; the message holds its log.
        """


def raw_kernels_folder() -> Path:
    """The .cu files: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    candidates = (package / "raw_kernels", package.parent / "raw_kernels")
    for folder in candidates:
        if folder.is_dir():
            return folder
    raise ToolchainError(
        f"the CUDA C++ kernels are in neither {candidates[0]} nor {candidates[1]}: install perm_gpu"
        " from a wheel, or use a whole checkout"
    )


def load(cubin: Cubin, shared_limit: int) -> Kernel:
    """Loads a cubin on the current device; its kernel may use `shared_limit` bytes a block."""
    from cupy.cuda import driver
    from cupy.cuda.function import Module

    module = Module()
    module.load(cubin.code)
    function = module.get_function(cubin.entry).ptr
    driver.funcSetAttribute(function, MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_limit)
    return Kernel(function, cubin.slots, module)


def toolchains() -> dict[str, Toolchain]:
    """Every toolchain; "auto" takes the first that works."""
    from perm_gpu.toolchains.numba import Numba
    from perm_gpu.toolchains.nvcc import Nvcc
    from perm_gpu.toolchains.nvrtc import Nvrtc

    return {toolchain.name: toolchain for toolchain in (Nvrtc(), Nvcc(), Numba())}


NAMES = ("nvrtc", "nvcc", "numba")


def candidates(name: str) -> list[Toolchain]:
    """The toolchains to try, in order: the named one, or for "auto" all that are installed.

    Raises:
        ToolchainError: There is no toolchain of that name, or the named one is not installed.
    """
    every = toolchains()
    if name == "auto":
        return [toolchain for toolchain in every.values() if toolchain.missing() is None]
    if name not in every:
        raise ToolchainError(f"there is no toolchain {name!r}; there are: auto, {', '.join(every)}")
    if reason := every[name].missing():
        raise ToolchainError(f"toolchain {name!r} cannot be used: {reason}")
    return [every[name]]


class KernelCache:
    """Loaded kernels by (toolchain, variant, specialisation, device): each is built once."""

    def __init__(self, kept: int = KERNELS_KEPT) -> None:
        self._kept = kept
        self._kernels: OrderedDict[tuple[object, ...], Kernel] = OrderedDict()
        self._lock = threading.RLock()

    def get(
        self, toolchain: Toolchain, variant: str, launch: Launch, device: tuple[int, int, int]
    ) -> Kernel:
        """The kernel, built on the first call. `device` is (index, arch, shared memory limit)."""
        index, arch, shared_limit = device
        key = (toolchain.name, variant, launch.specialisation, index)
        with self._lock:
            kernel = self._kernels.get(key)
            if kernel is None:
                kernel = load(toolchain.compile(variant, launch, arch), shared_limit)
                self._kernels[key] = kernel
                if len(self._kernels) > self._kept:
                    self._kernels.popitem(last=False)
            else:
                self._kernels.move_to_end(key)
            return kernel
