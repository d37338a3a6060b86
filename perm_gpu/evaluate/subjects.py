"""What is timed beside ModelNew: the reference, and what PyTorch offers with perm on the device."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from perm_gpu import toolchains
from perm_gpu.errors import PermGpuError
from perm_gpu.model import PERM, Model, ModelNew

OURS = "ModelNew, "
"""What the names of our own subjects begin with."""


class Indexed(nn.Module):
    """x[:, perm], with the permutation on the device."""

    perm: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("perm", PERM.clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, features) -> (rows, features)."""
        return x[:, self.perm]


class IndexSelect(Indexed):
    """torch.index_select, with the permutation on the device."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, features) -> (rows, features)."""
        return torch.index_select(x, 1, self.perm)


class Clone(nn.Module):
    """A copy: the least that a module with a fresh output can do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, features) -> (rows, features)."""
        return x.clone()


def modules(device: torch.device) -> tuple[dict[str, Callable[..., torch.Tensor]], dict[str, str]]:
    """The modules by name, and by name why others cannot be timed here."""
    found: dict[str, Callable[..., torch.Tensor]] = {
        "reference": Model(),
        "x[:, perm]": Indexed().to(device),
        "index_select": IndexSelect().to(device),
        "clone": Clone(),
    }
    absent = {}
    x = torch.randn(10, len(PERM), device=device)
    if device.type == "cuda":
        try:
            compiled = torch.compile(IndexSelect().to(device))
            compiled(x)
            found["torch.compile"] = compiled
        except (
            Exception
        ) as error:  # Inductor needs Triton and a C++ compiler, and says so its own way
            absent["torch.compile"] = first_line(error)
    for name in toolchains.NAMES if device.type == "cuda" else ("auto",):
        try:
            module = ModelNew(toolchain=name)
            module(x)
            found[OURS + name] = module
        except PermGpuError as error:
            absent[OURS + name] = first_line(error)
    return found, absent


def first_line(error: Exception) -> str:
    """The first line of an error, which names it."""
    return f"{type(error).__name__}: {error}".splitlines()[0]
