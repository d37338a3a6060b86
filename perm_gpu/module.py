"""`FeaturePermutation` and `permute_features`: one permutation of the last axis of any tensor."""

from __future__ import annotations

import functools
import sys
import threading
import warnings
import weakref
from collections import OrderedDict
from typing import Any

import torch

from perm_gpu import driver, interop, registry, toolchains
from perm_gpu.checks import check_input, check_output
from perm_gpu.errors import ToolchainError
from perm_gpu.fast_module import FastModule
from perm_gpu.launch import Path, Slow
from perm_gpu.permutation import Permutation
from perm_gpu.planner import Launcher

MODULES_KEPT = 128
"""Permutations that `permute_features` keeps the plans of."""


class FeaturePermutation(FastModule):
    """y[..., j] = x[..., perm[j]] for a fixed permutation of N features.

    The result is a fresh dense tensor of x's shape, dtype and device, equal to x[..., perm] to the
    bit; its gradient is the inverse permutation of the incoming one. Any leading axes, strides and
    alignment; bool, (u)int8-64, float16/32/64, bfloat16, float8, complex32/64/128. What does not
    collapse to one distance between rows costs one dense copy. CUDA tensors are served by our
    kernels on torch's current stream, all others by `torch.index_select`. Arrays of other libraries
    (CuPy, Numba device arrays, JAX, NumPy) come back as what they were.

    A CUDA graph that captured a call reads this module's tables: keep the module while it lives.

    Args:
        perm: (N,) integers, each of 0 .. N-1 once: list, range, NumPy array, tensor on any device.
        toolchain: Compiler of the kernels: "nvrtc", "nvcc", "numba", or "auto", the first that
            works. With "auto", a CUDA tensor that none can serve goes to `torch.index_select`,
            with one warning.
        variant: Kernel: a name of `perm_gpu.registry.VARIANTS`, or "auto", the fastest.

    Raises:
        InvalidPermutationError, PermutationTypeError, PermutationRangeError: perm is none.
        ToolchainError: The named toolchain is not there.
        UnsupportedProblemError: There is no such variant.
    """

    _launcher: Launcher
    perm: torch.Tensor
    """(N,) int64, follows the module; what traced calls and `torch.index_select` use."""

    def __init__(self, perm: Any, *, toolchain: str = "auto", variant: str = "auto") -> None:
        super().__init__()
        self.permutation = Permutation(perm)
        self.features = self.permutation.features
        registry.check_name(variant)
        if toolchain != "auto":
            toolchains.candidates(toolchain)
        self.toolchain, self.variant = toolchain, variant
        # Not in the state_dict: the permutation is the module's, as a layer's sizes are.
        self.register_buffer("perm", self._index(torch.device("cpu")), persistent=False)
        self._prepare()

    def extra_repr(self) -> str:
        """What print(module) shows."""
        return f"features={self.features}, toolchain={self.toolchain!r}, variant={self.variant!r}"

    @property
    def inverse(self) -> FeaturePermutation:
        """The module of the inverse permutation; its own inverse is this one."""
        inverse: FeaturePermutation | None = self.__dict__.get("_inverse")
        if inverse is None:
            inverse = FeaturePermutation(
                self.permutation.inverse, toolchain=self.toolchain, variant=self.variant
            ).to(self.perm.device)
            # Not through Module.__setattr__, which would make each a submodule of the other.
            inverse.__dict__["_inverse"] = self
            self.__dict__["_inverse"] = inverse
        return inverse

    def warmup(self, *examples: torch.Tensor) -> None:
        """Builds what calls with tensors like these need, their backward included.

        For CUDA graphs: nothing is compiled or uploaded while one is captured.

        Args:
            examples: (..., N) tensors of the dtypes, layouts, devices and sizes to come.
        """
        for x in examples:
            with torch.no_grad():
                self.inverse(self(x))

    def forward(self, x: Any, *, out: torch.Tensor | None = None) -> Any:
        """y[..., j] = x[..., perm[j]].

        Args:
            x: (..., N) tensor, or an array of another library that speaks DLPack.
            out: Where to write y: of x's shape, dtype and device, sharing no memory with it. Memory
                that is not dense costs one copy more.

        Returns:
            y (..., N), dense; `out` where that is given.

        Raises:
            InputError: A shape, device or layout that does not fit.
            InputTypeError: A dtype or a kind of array that cannot be moved.
        """
        if torch.compiler.is_compiling():
            return self._traced(x) if out is None else out.copy_(self._traced(x))
        if out is None:
            return self._fast(x)
        check_input(x, self.features)
        check_output(x, out)
        if not (driver.is_plain(x) and driver.is_plain(out)):
            out.copy_(self._traced(x))
        elif out.is_contiguous():
            self._move(x, out)
        else:
            out.copy_(self._move(x))
        return out

    def _serve(self, x: torch.Tensor) -> torch.Tensor:
        if not driver.is_plain(x):
            return self._traced(x)
        check_input(x, self.features)
        if x.requires_grad and torch.is_grad_enabled():
            return _Permute.apply(x, self)  # type: ignore[no-any-return,no-untyped-call]
        return self._move(x)

    def _path(self, x: torch.Tensor) -> Path | None:
        return self.fast_path(x, self._general)

    def fast_path(self, x: torch.Tensor, slow: Slow) -> Path | None:
        """For other modules: see `Launcher.fast_path`."""
        return self._launcher.fast_path(x, slow)

    def _index(self, device: torch.device) -> torch.Tensor:
        """(N,) int64; never an inference tensor, which autograd would refuse to save."""
        with torch.inference_mode(False):
            return torch.from_numpy(self.permutation.array.copy()).to(device)

    def _apply(self, fn: Any, recurse: bool = True) -> FeaturePermutation:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        # Made again, because to_empty() moves to memory that nobody has filled.
        self.perm = self._index(self.perm.device)
        self.__dict__.pop("_inverse", None)  # it is where this module was
        return self

    def _traced(self, x: torch.Tensor) -> torch.Tensor:
        """What transforms, modes, subclasses and compilers see: one operator that they all know."""
        check_input(x, self.features)
        return torch.index_select(x, -1, self.perm.to(x.device))

    def _move(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """The permutation of plain memory, without autograd; `out` is dense."""
        if x.is_conj() or x.is_neg():
            x = x.detach().resolve_conj().resolve_neg()
        if driver.serves(x):
            y = torch.empty_like(x, memory_format=torch.contiguous_format) if out is None else out
            try:
                if x.numel():
                    self._launcher.run(x, y)
                return y
            except ToolchainError as error:
                if self.toolchain != "auto":
                    raise
                _warn_once(x.get_device(), error)
        index = self.perm.to(x.device)
        if out is None:
            return torch.index_select(interop.bits(x), -1, index).view(x.dtype)
        torch.index_select(interop.bits(x), -1, index, out=interop.bits(out))
        return out

    def _prepare(self) -> None:
        super()._prepare()
        self.__dict__["_launcher"] = Launcher(self.permutation, self.toolchain, self.variant)
        self.__dict__.pop("_inverse", None)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_launcher")
        state.pop("_inverse", None)
        return state


class _Permute(torch.autograd.Function):
    """The permutation, differentiable: backward is the forward of the inverse."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, module: FeaturePermutation) -> torch.Tensor:
        ctx.module = module
        return module._move(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return ctx.module.inverse(gradients[0]), None


_warned: set[int] = set()
"""Devices without a working toolchain that were warned of."""


def _warn_once(device: int, reason: ToolchainError) -> None:
    if device not in _warned:
        _warned.add(device)
        warnings.warn(
            f"tensors on cuda:{device} are permuted by torch.index_select, which is slower: "
            f"{reason}",
            RuntimeWarning,
            stacklevel=_callers_level(),
        )


def _callers_level() -> int:
    """Stack level of the code that called a module, seen from our caller."""
    level, frame = 1, sys._getframe(1)
    ours = ("perm_gpu.", "torch.")
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(ours):
        level, frame = level + 1, frame.f_back
    return level


@functools.lru_cache(MODULES_KEPT)
def _module(permutation: Permutation, toolchain: str, variant: str) -> FeaturePermutation:
    """The module behind `permute_features`, made on the first call."""
    return FeaturePermutation(permutation, toolchain=toolchain, variant=variant)


class _Read:
    """The permutations in CUDA tensors. Reading one waits for the GPU, so it is done once."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[weakref.ref[torch.Tensor], int, Permutation]] = (
            OrderedDict()
        )
        self._lock = threading.Lock()

    def __call__(self, perm: Any) -> Permutation:
        """The permutation that perm holds now; what is no CUDA tensor is read every time."""
        # Tensors of the inference mode do not count their versions.
        if not (isinstance(perm, torch.Tensor) and perm.is_cuda) or perm.is_inference():
            return Permutation(perm)
        key, version = id(perm), perm._version
        with self._lock:
            found = self._known.get(key)
            if found is not None and found[0]() is perm and found[1] == version:
                self._known.move_to_end(key)
                return found[2]
        permutation = Permutation(perm)
        with self._lock:
            self._known[key] = weakref.ref(perm), version, permutation
            self._known.move_to_end(key)
            if len(self._known) > MODULES_KEPT:
                self._known.popitem(last=False)
        return permutation


_read = _Read()


def permute_features(
    x: Any,
    perm: Any,
    *,
    toolchain: str = "auto",
    variant: str = "auto",
    out: torch.Tensor | None = None,
) -> Any:
    """y[..., j] = x[..., perm[j]], as `FeaturePermutation(perm)(x)` gives it.

    Plans are kept: those of a perm on the host by its content, those of a CUDA tensor by its
    identity and version, so that it is read (and waited for) only once. In CUDA graphs use a
    `FeaturePermutation` that you keep.

    Args:
        x: (..., N) tensor, or an array of another library that speaks DLPack.
        perm: (N,) integers, each of 0 .. N-1 once.
        toolchain: See `FeaturePermutation`.
        variant: See `FeaturePermutation`.
        out: See `FeaturePermutation.forward`.

    Raises:
        PermGpuError: See `FeaturePermutation` and its `forward`.
    """
    module = _module(_read(perm), toolchain, variant)
    return module(x) if out is None else module(x, out=out)
