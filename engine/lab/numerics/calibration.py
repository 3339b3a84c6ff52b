"""Ranges for integer formats from sample values: all of them, or a percentile.

Exact for the samples given; an estimate for others.
"""

from __future__ import annotations

import numpy as np

from engine.numerics.formats import NumericsError


def _samples(x: np.ndarray) -> np.ndarray:
    values = np.asarray(x, np.float64).reshape(-1)
    if values.size == 0 or not np.isfinite(values).all():
        raise NumericsError("samples must be finite and at least one")
    return values


def percentile(x: np.ndarray, share: float = 99.99) -> tuple[float, float]:
    """Range that holds ``share`` [%] of the samples, the rest split evenly between both ends and clipped.

    NumericsError for a share that is not above 50 and at most 100 %.
    """
    if not 50 < share <= 100:
        raise NumericsError(f"share is {share}; allowed: above 50, at most 100 [%]")
    tail = (100 - share) / 2
    low, high = np.percentile(_samples(x), [tail, 100 - tail])
    return float(low), float(high)
