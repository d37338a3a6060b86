"""`FastModule`: an nn.Module whose call costs little more than the launch it makes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from perm_gpu import driver, interop
from perm_gpu.launch import Path

PATHS_KEPT = 64
"""Fast paths of one module: one for each trailing shape, dtype, device and mode in use."""

try:
    from torch.nn.modules.module import (
        _global_backward_hooks,
        _global_backward_pre_hooks,
        _global_forward_hooks,
        _global_forward_pre_hooks,
    )

    OWN_CALL = True
except ImportError:  # private names: without them nn.Module's own call serves
    OWN_CALL = False

is_compiling = torch.compiler.is_dynamo_compiling
"""Cheaper than `is_compiling`, which is also true where x is a fake tensor, no fast path's."""


class FastModule(nn.Module):
    """Keeps the fast path of the last input, and those of other kinds of input behind it.

    `nn.Module.__call__` costs 1.7 us, a sixth of `torch.index_select`. The `__call__` here looks at
    the same hooks and states, hands over to it where one is in use, and costs 0.5 us.
    """

    _paths: dict[tuple[object, ...], Path]
    _fast: Any

    def _serve(self, x: torch.Tensor) -> torch.Tensor:
        """The result for any tensor."""
        raise NotImplementedError

    def _path(self, x: torch.Tensor) -> Path | None:
        """The fast path for CUDA tensors like x, which `_serve` has just served."""
        raise NotImplementedError

    def __call__(self, x: Any, out: torch.Tensor | None = None) -> Any:
        """`forward`, with all hooks that are set."""
        if is_compiling():
            return self._hooked(x, out)
        # nn.Module has a __getattr__, which makes each attribute of self a slow one.
        state = self.__dict__
        if (
            out is not None
            or state["_forward_hooks"]
            or state["_forward_pre_hooks"]
            or state["_backward_hooks"]
            or state["_backward_pre_hooks"]
            or _global_forward_hooks
            or _global_forward_pre_hooks
            or _global_backward_hooks
            or _global_backward_pre_hooks
            or "_compiled_call_impl" in state
        ):
            return self._hooked(x, out)
        return state["_fast"](x)

    def _hooked(self, x: Any, out: torch.Tensor | None) -> Any:
        return super().__call__(x) if out is None else super().__call__(x, out=out)

    def _general(self, x: Any) -> Any:
        """Whatever the present fast path does not take."""
        if not isinstance(x, torch.Tensor):
            tensor, back = interop.from_foreign(x)
            return back(self._general(tensor))
        # No fast path takes what requires grad, so training need not look for one.
        if not driver.serves(x) or x.requires_grad or not driver.is_plain(x):
            return self._serve(x)
        key = (
            x.shape[1:],
            x.numel().bit_length(),  # a path ends where another variant is faster
            x.dtype,
            x.device,
            # Guards know the dispatch keys of the mode they were made in.
            torch.is_inference_mode_enabled(),
            torch.is_autocast_enabled(),
            x.is_inference(),
        )
        path = self._paths.get(key)
        if path is not None:
            self.__dict__["_fast"] = path
            return path(x, self._serve)
        y = self._serve(x)
        if type(x) is torch.Tensor:
            path = self._path(x)
            if path is not None:
                if len(self._paths) >= PATHS_KEPT:
                    self._paths.clear()
                self._paths[key] = self.__dict__["_fast"] = path
        return y

    def _prepare(self) -> None:
        """Everything that belongs to this process and not to the module's state."""
        self.__dict__["_paths"] = {}
        self.__dict__["_fast"] = self._general

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        del state["_paths"], state["_fast"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._prepare()


if not OWN_CALL:
    FastModule.__call__ = nn.Module.__call__  # type: ignore[method-assign]
