"""Medians with intervals that assume nothing about the distribution."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Median:
    """A median and its interval, in the unit of the samples."""

    value: float
    low: float
    high: float
    samples: int

    def overlaps(self, other: Median) -> bool:
        """Whether the intervals meet, so that the two cannot be told apart."""
        return self.low <= other.high and other.low <= self.high


def median(samples: Sequence[float]) -> Median:
    """The median with its interval at the level of 95 %, from the order statistics.

    The number of samples below the median is binomial with p = 1/2, so the k-th smallest and the
    k-th largest sample enclose the median with probability 1 - 2 P(X < k). k is the largest for
    which that is at least the level; with fewer than six samples the interval is the whole range.

    Raises:
        ValueError: There is no sample.
    """
    if not samples:
        raise ValueError("the median of 0 samples was asked for, at least 1 is needed")
    ordered = sorted(samples)
    k = rank(len(ordered))
    return Median(statistics.median(ordered), ordered[k - 1], ordered[-k], len(ordered))


def rank(count: int) -> int:
    """The k of `median`'s interval for `count` samples, 1 at least."""
    # Exact integers for small counts, else the normal approximation, which is then exact enough.
    if count > 1000:
        return max(1, math.floor((count - 1.959964 * math.sqrt(count)) / 2))
    below, k, limit = 0, 0, (1 - LEVEL) / 2
    while k < count // 2:
        below += math.comb(count, k)
        if below > limit * 2**count:
            break
        k += 1
    return max(1, k)
