"""A mean or quantile with its confidence interval, from independent replications or consecutive batches.

Estimates of what a simulation would give without end.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

QUANTILES = (0.50, 0.95, 0.99)


@dataclass(frozen=True)
class Estimate:
    """A value and the interval that holds the true one at the confidence level of its report."""

    value: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Half the interval's width over the value. [-]"""
        half = 0.5 * (self.high - self.low)
        return half / abs(self.value) if self.value else (0.0 if half == 0 else math.inf)

    def holds(self, truth: float) -> bool:
        """Whether ``truth`` lies in the interval. In the estimate's own unit, as [s]."""
        return self.low <= truth <= self.high


@dataclass(frozen=True)
class Tail:
    """Mean and quantiles of a time. [s]"""

    mean: Estimate
    p50: Estimate
    p95: Estimate
    p99: Estimate

    @classmethod
    def of(cls, groups: Sequence[NDArray[np.float64]], level: float) -> "Tail | None":
        """From one sample per replication (or consecutive batch). None where there are no data.

        The mean's interval is Student's t over the groups. A quantile is that of the pooled sample; its interval
        comes from how unevenly the groups lie above that value: their shares are means, so t applies to them, and the
        pooled sample turns the share's interval into one of time (infinite where the sample ends before it).
        [s]
        """
        groups = [g for g in groups if g.size]
        if not groups:
            return None
        pooled = np.concatenate(groups)
        count = np.array([g.size for g in groups])
        value = float(pooled.mean())
        half = _half(np.array([g.sum() for g in groups]) - value * count, pooled.size, level)
        figures = [Estimate(value, value - half, value + half)]
        pooled.sort()
        for q in QUANTILES:
            centre = _at(pooled, _rank(q, pooled.size))
            within = np.array([np.count_nonzero(g <= centre) for g in groups])
            half = _half(within - within.sum() / pooled.size * count, pooled.size, level)
            low, high = (_at(pooled, _rank(q + side, pooled.size)) for side in (-half, half))
            figures.append(Estimate(centre, low, high))
        return cls(*figures)


def _half(excess: NDArray[np.float64], n: int, level: float) -> float:
    """Half width of the interval of a sum / n, from each group's excess over its expected part of the sum."""
    groups = excess.size
    if groups < 2:
        return math.inf
    return student_t(level, groups - 1) * math.sqrt(groups / (groups - 1) * float(excess @ excess)) / n


def _rank(share: float, n: int) -> int:
    """Index of the least value a share of the sorted sample does not exceed; -1 and n where there is none."""
    if share <= 0.0:
        return -1
    return n if share >= 1.0 else max(0, math.ceil(share * n) - 1)


def _at(ordered: NDArray[np.float64], rank: int) -> float:
    """Value at a rank of a sorted sample of times; 0 below its least and infinity above its greatest. [s]"""
    if 0 <= rank < ordered.size:
        return float(ordered[rank])
    return 0.0 if rank < 0 else math.inf


def student_t(level: float, dof: int) -> float:
    """Two-sided quantile of Student's t: |T| stays below it with probability ``level``. [-]

    Inverts the finite series for whole degrees of freedom (Abramowitz and Stegun 26.7.3, 26.7.4) by bisection.
    """

    def inside(t: float) -> float:
        theta = math.atan(t / math.sqrt(dof))
        cos2 = math.cos(theta) ** 2
        term, total = 1.0, 0.0
        if dof % 2:
            term = math.cos(theta)
            for k in range(1, (dof - 1) // 2 + 1):
                total += term
                term *= cos2 * (2 * k) / (2 * k + 1)
            return 2.0 / math.pi * (theta + math.sin(theta) * total)
        for k in range(1, dof // 2 + 1):
            total += term
            term *= cos2 * (2 * k - 1) / (2 * k)
        return math.sin(theta) * total

    lo, hi = 0.0, 1.0
    while inside(hi) < level:
        hi *= 2.0
    for _ in range(200):
        mid = 0.5 * (lo + hi)
        if mid in (lo, hi):
            break
        lo, hi = (mid, hi) if inside(mid) < level else (lo, mid)
    return hi
