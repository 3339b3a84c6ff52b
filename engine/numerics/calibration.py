"""Ranges for integer formats from sample values: all of them, a percentile, or the least information lost.

Exact for the samples given; an estimate for others.
"""

from __future__ import annotations

import numpy as np

from engine.numerics.formats import NumericsError

__all__ = ["entropy", "percentile"]

HISTOGRAM_BINS = 2048
"""Magnitude bins of the entropy calibration, TensorRT's published choice. [-]"""


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


def _divergence(inside: np.ndarray, clipped: float, levels: int) -> float:
    """Divergence [nat] of a clipped histogram, its last bin carrying the ``clipped`` mass, from ``levels`` equal steps.

    Each step's unclipped mass is spread evenly over the bins in it that hold samples, as quantised values would be;
    infinite where the steps leave no mass under a bin that has some.
    """
    step = np.minimum(np.arange(inside.size) * levels // inside.size, levels - 1)
    filled = inside > 0
    mass, members = np.bincount(step, inside, levels), np.bincount(step, filled, levels)
    spread = np.where(filled, mass[step] / np.maximum(members[step], 1), 0)
    reference = inside.copy()
    reference[-1] += clipped
    holds = reference > 0
    if (spread[holds] == 0).any():
        return np.inf
    p, q = reference[holds] / reference.sum(), spread[holds] / spread.sum()
    return float((p * np.log(p / q)).sum())


def entropy(x: np.ndarray, bits: int = 8, bins: int = HISTOGRAM_BINS) -> tuple[float, float]:
    """Symmetric range whose clipped and quantised magnitudes lose the least information (TensorRT's calibration).

    For every threshold the reference distribution carries the clipped tail in its last bin while the quantised one is
    built from the unclipped part, so both clipping and coarse steps cost divergence. In the unit of the values;
    information in [nat]. NumericsError for too few bins.
    """
    magnitude = np.abs(_samples(x))
    top = float(magnitude.max())
    if top == 0:
        return -1.0, 1.0
    levels = 2 ** (bits - 1)
    if bins < 2 * levels:
        raise NumericsError(f"bins is {bins}; allowed: {2 * levels} or more for {bits} bits")
    counts = np.histogram(magnitude, bins=bins, range=(0, top))[0].astype(np.float64)
    tail = counts.sum() - np.cumsum(counts)
    lost = [_divergence(counts[:used], tail[used - 1], levels) for used in range(levels, bins + 1)]
    chosen = levels + int(np.argmin(lost))
    edge = top * chosen / bins
    return -edge, edge
