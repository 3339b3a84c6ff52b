"""The k best designs of a sweep by one figure, kept while designs stream by; the same whatever their order.

Exact: of the estimates it is given.
"""

from __future__ import annotations

import numpy as np


def best_of(values: np.ndarray, k: int) -> np.ndarray:
    """Places of the k least values, ascending; ties of the last one stay in."""
    if len(values) <= k:
        return np.arange(len(values))
    return np.flatnonzero(values <= np.partition(values, k - 1)[k - 1])


class Top:
    """The k designs with the least first objective (signed), of equal ones those with the lowest numbers."""

    def __init__(self, k: int, objectives: int) -> None:
        self.k = k
        self.number = np.zeros(0, dtype=np.int64)
        self.values = np.zeros((objectives, 0))

    @property
    def limit(self) -> float:
        """What a design must not exceed to be among them. In the figure's unit, as [s]."""
        return float(self.values[0, -1]) if len(self.number) == self.k > 0 else np.inf

    def take(self, number: np.ndarray, values: np.ndarray) -> None:
        """Adds candidates."""
        if not len(number):
            return
        number, values = np.concatenate([self.number, number]), np.concatenate([self.values, values], axis=1)
        order = np.lexsort((number, values[0]))[: self.k]
        self.number, self.values = number[order], np.ascontiguousarray(values[:, order])
