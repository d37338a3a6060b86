"""Whether a module gives the reference's answer, to the bit, for every batch and width."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from perm_gpu.model import Model

BATCHES = (0, 1, 8, 9, 10, 11, 64, 1000)
WIDTHS = (1, 36, 37, 72, 73, 108, 216)
SEED = 20_260_501


@dataclass(frozen=True, slots=True)
class Case:
    """One batch and width of one module."""

    rows: int
    features: int
    faults: tuple[str, ...]
    """What was wrong; empty where nothing was."""


def random_bits(rows: int, features: int, generator: torch.Generator) -> torch.Tensor:
    """float32 (rows, features) with any bits: NaNs with payloads, infinities, denormals, -0."""
    words = torch.randint(-(2**31), 2**31, (rows, features), generator=generator)
    return words.to(torch.int32).view(torch.float32)


def check(
    module: Callable[[torch.Tensor], torch.Tensor],
    device: torch.device,
    batches: Iterable[int] = BATCHES,
    widths: Iterable[int] = WIDTHS,
    done: Callable[[], None] | None = None,
) -> list[Case]:
    """Every batch at every width, all outputs of a width alive until its last call is over.

    Args:
        module: x (rows, features) float32 -> y.
        device: Where x is made.
        batches: Numbers of rows, 0 too.
        widths: Numbers of features.
        done: Called after each case, for a progress bar.
    """
    generator = torch.Generator().manual_seed(SEED)
    cases = []
    for features in widths:
        reference = Model(features)
        alive: list[tuple[int, torch.Tensor, torch.Tensor, list[str]]] = []
        for rows in batches:
            x = random_bits(rows, features, generator).to(device)
            before = x.clone()
            try:
                y = module(x)
            except Exception as error:  # whatever the module raises is its fault, and is reported
                alive.append((rows, x, x, [f"raised {type(error).__name__}: {error}"]))
            else:
                expected = reference(x)
                faults = differences(y, expected, x)
                if not same_bits(x, before):
                    faults.append("x was changed")
                alive.append((rows, y, expected, faults))
            if done is not None:
                done()
        for rows, y, expected, faults in alive:
            if not faults and not same_bits(y, expected):
                faults.append("a later call changed this output")
            cases.append(Case(rows, features, tuple(faults)))
    return cases


def differences(y: object, expected: torch.Tensor, x: torch.Tensor) -> list[str]:
    """What tells y from the expected output, which is fresh, dense and of x's dtype."""
    if type(y) is not torch.Tensor:
        return [f"the type is {type(y).__name__}, a torch.Tensor is expected"]
    faults = []
    for what in ("dtype", "device", "shape"):
        is_, should = getattr(y, what), getattr(expected, what)
        if is_ != should:
            faults.append(f"the {what} is {is_}, {should} is expected")
    if not faults and y.stride() != expected.stride():
        faults.append(f"the strides are {y.stride()}, {expected.stride()} are expected")
    if y.numel() and y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
        faults.append("the output shares memory with x")
    if not faults and not same_bits(y, expected):
        wrong = int((bits(y) != bits(expected)).sum())
        faults.append(f"{wrong} of {y.numel()} elements are wrong")
    return faults


def bits(x: torch.Tensor) -> torch.Tensor:
    """float32 as int32: NaN equals itself, and 0 does not equal -0."""
    return x.view(torch.int32)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two float32 tensors of one shape hold the same bits."""
    return torch.equal(bits(a), bits(b))
