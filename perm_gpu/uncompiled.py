"""Calls that TorchDynamo leaves alone. Import this where it traces and nowhere else: the decorator
loads all of TorchDynamo, which takes as long as torch itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


@torch.compiler.disable  # type: ignore[untyped-decorator,unused-ignore]
def call(function: Callable[[Any], Any], x: Any) -> Any:
    """function(x), outside of any graph."""
    return function(x)
