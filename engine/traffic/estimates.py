"""A mean or quantile with its confidence interval, from independent replications or consecutive batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Estimate", "Tail", "student_t"]

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
        """Whether ``truth`` lies in the interval."""
        return self.low <= truth <= self.high


@dataclass(frozen=True)
class Tail:
    """Mean and quantiles of a time. [s]"""

    mean: Estimate
    p50: Estimate
    p95: Estimate
    p99: Estimate

    @classmethod
    def of(cls, groups: Sequence[NDArray[np.float64]], level: float) -> Tail | None:
        """From one sample per replication (or batch); the samples are reordered. None where there are no data.

        The value is that of the pooled sample, which is less biased than the mean of the groups' values; the
        interval is Student's t over the groups around it.
        """
        groups = [g for g in groups if g.size]
        if not groups:
            return None
        pooled = np.concatenate(groups) if len(groups) > 1 else groups[0]
        values = np.array([_summary(g) for g in groups])
        centre = _summary(pooled)
        if len(groups) > 1:
            half = student_t(level, len(groups) - 1) * values.std(axis=0, ddof=1) / math.sqrt(len(groups))
        else:
            half = np.full(len(centre), math.inf)
        return cls(*(Estimate(float(c), float(c - h), float(c + h)) for c, h in zip(centre, half)))


def _summary(sample: NDArray[np.float64]) -> NDArray[np.float64]:
    ranks = [max(0, math.ceil(q * sample.size) - 1) for q in QUANTILES]
    mean = sample.mean()
    sample.partition(ranks)
    return np.array([mean, *sample[ranks]])


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
