"""From a tensor to the plan that serves it: problem, variant, toolchain, kernel, tables."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

import torch

from perm_gpu import driver, interop
from perm_gpu.errors import CaptureError, ToolchainError
from perm_gpu.launch import Path, Plan, Slow, collapsed_stride, dense_strides
from perm_gpu.permutation import Permutation
from perm_gpu.problem import Launch, Problem, alignment
from perm_gpu.registry import select
from perm_gpu.toolchains import KernelCache, Toolchain, candidates
from perm_gpu.variant import Variant

KERNELS = KernelCache()
"""Kernels of all permutations: one cubin serves every permutation of a specialisation."""
LARGEST_BITS = 48
"""Bits of a number of elements that no device holds."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What runs a problem."""

    problem: Problem
    """The problem in words: what the variant sees."""
    words: int
    """Words to an element: several where it is wider or less aligned than one may be."""
    toolchain: Toolchain
    variant: Variant
    launch: Launch


def choose(problem: Problem, toolchain: Toolchain, variant: str) -> Choice:
    """What runs a problem with a toolchain; `variant` is a name or "auto".

    Raises:
        UnsupportedProblemError: The named variant cannot run it.
    """
    width = min(toolchain.widest_element, problem.x_alignment, problem.y_alignment)
    words = max(1, problem.element_bytes // width)
    if words > 1:
        problem = replace(
            problem,
            features=problem.features * words,
            element_bytes=width,
            row_stride=problem.row_stride * words,
        )
    chosen = select(problem, variant, toolchain.rejects)
    return Choice(problem, words, toolchain, chosen, chosen.geometry(problem))


def span(choice: Choice, variant: str) -> tuple[int, int]:
    """Numbers of elements, from .. below, for which the choice stays as it is.

    Selection is looked at where the number of bits changes, so a boundary inside of one order of
    magnitude would be passed over; a plan is right for any number of elements all the same.
    """
    features = choice.problem.features

    def same(bits: int) -> bool:
        first, last = -(-(1 << bits - 1) // features), ((1 << bits) - 1) // features
        for rows in (first, last) if first <= last else ():
            other = choose(replace(choice.problem, rows=rows), choice.toolchain, variant)
            if (other.variant, other.launch) != (choice.variant, choice.launch):
                return False
        return True

    low = high = choice.problem.elements.bit_length()
    while low > 1 and same(low - 1):
        low -= 1
    while high < LARGEST_BITS and same(high + 1):
        high += 1
    return 1 << low - 1, 1 << high


class Launcher:
    """One permutation on every device: plans are made when first needed, then only run.

    Args:
        permutation: Of N features.
        toolchain: "auto" or a name of `toolchains.NAMES`.
        variant: "auto" or a name of `registry.VARIANTS`.
    """

    def __init__(self, permutation: Permutation, toolchain: str, variant: str) -> None:
        self._permutation = permutation
        self._toolchain, self._variant = toolchain, variant
        self._found: dict[tuple[int, int, bool, int, int, int], tuple[Plan, Choice]] = {}
        self._plans: dict[tuple[object, ...], Plan] = {}
        self._failed: dict[tuple[int, ...], ToolchainError] = {}
        self._shared: set[tuple[int, int]] = set()
        self._lock = threading.RLock()

    def run(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """y[..., j] = x[..., perm[j]] on torch's current stream.

        Args:
            x: (..., N) CUDA tensor, not empty, any strides; what does not collapse to one row
                stride is made dense first, by one copy.
            y: (..., N) dense, of x's shape, dtype and device, not overlapping x.

        Raises:
            ToolchainError: No toolchain can build the kernel.
            UnsupportedProblemError: The named variant cannot run it.
            CaptureError: A CUDA graph is being captured, and the kernel is not built yet.
        """
        index = x.get_device()
        if driver.bound().device() != index:
            with torch.cuda.device(index):
                self.run(x, y)
            return
        row_stride = collapsed_stride(x)
        if row_stride is None:
            x = x.contiguous()
            row_stride = x.shape[-1]
        plan, choice = self._find(x, y.data_ptr(), row_stride)
        words = choice.words
        plan.run(x.data_ptr(), y.data_ptr(), x.numel() * words, row_stride * words)

    def fast_path(self, x: torch.Tensor, slow: Slow) -> Path | None:
        """The shortest way for dense tensors like x with any number of rows, if there is one.

        Args:
            x: (..., N) CUDA tensor that `run` has just served.
            slow: Takes every other input.
        """
        if x.dim() < 2 or x.numel() == 0 or x.stride() != dense_strides(x.shape):
            return None
        check = driver.guard(x)
        if check is None or driver.bound().device() != x.get_device():
            return None
        try:
            plan, choice = self._find(x, 0, x.shape[-1])
        except ToolchainError:  # torch has served x
            return None
        if choice.words > 1:
            return None
        low, high = span(choice, self._variant)
        return plan.fast_path(x, check, low, high, slow)

    def _find(self, x: torch.Tensor, y_address: int, row_stride: int) -> tuple[Plan, Choice]:
        elements, element_bytes = x.numel(), x.element_size()
        dense = row_stride == x.shape[-1]
        x_alignment = alignment(x.data_ptr(), 0 if dense else row_stride * element_bytes)
        y_alignment = alignment(y_address)
        # Selection knows the number of elements by its order of magnitude only, so this is bounded.
        size = elements.bit_length()
        key = (x.get_device(), element_bytes, dense, x_alignment, y_alignment, size)
        found = self._found.get(key)
        if found is None:
            problem = Problem(
                rows=elements // x.shape[-1],
                features=x.shape[-1],
                element_bytes=element_bytes,
                row_stride=row_stride,
                x_alignment=x_alignment,
                y_alignment=y_alignment,
                shared_limit=driver.facts(x.get_device()).shared_limit,
            )
            with self._lock:
                if key in self._failed:  # building takes long also where it fails
                    raise self._failed[key]
                try:
                    found = self._found[key] = self._new(problem, x)
                except ToolchainError as error:
                    self._failed[key] = error
                    raise
        return found

    def _new(self, problem: Problem, x: torch.Tensor) -> tuple[Plan, Choice]:
        facts = driver.facts(x.get_device())
        reasons = []
        for toolchain in candidates(self._toolchain):
            try:
                choice = choose(problem, toolchain, self._variant)
                return self._plan(choice, facts, x), choice
            except ToolchainError as error:
                reasons.append(f"{toolchain.name}: {error}")
        raise ToolchainError(
            f"no toolchain builds kernels for sm_{facts.arch} here: "
            f"{'; '.join(reasons) or 'none is installed'}; pip install 'perm-gpu[cuda12]' or "
            "'perm-gpu[cuda13]', whichever is the CUDA version that torch was built with"
        )

    def _plan(self, choice: Choice, facts: driver.DeviceFacts, x: torch.Tensor) -> Plan:
        variant, launch = choice.variant, choice.launch
        key = (facts.index, choice.toolchain.name, variant.name, choice.words, launch)
        if plan := self._plans.get(key):
            return plan
        if torch.cuda.is_current_stream_capturing():
            raise CaptureError(
                f"the kernel for {choice.problem} is not built yet, and nothing may be compiled or "
                "uploaded while a CUDA graph is captured: call warmup(x) before the capture"
            )
        if (facts.index, x.element_size()) not in self._shared:
            interop.require_shared(x)
            self._shared.add((facts.index, x.element_size()))
        device = (facts.index, facts.arch, facts.shared_limit)
        kernel = KERNELS.get(choice.toolchain, variant.name, launch, device)
        permutation = self._permutation
        if choice.words > 1:
            permutation = permutation.expand(choice.words)
        plan = self._plans[key] = Plan(kernel, launch, facts, variant.tables(permutation, launch))
        return plan
