"""How much a lower precision changed an answer: signal ratios on tensors, and the metrics services are held to.

Measurements of the samples given.
"""

import numpy as np

from engine.numerics.formats import NumericsError


def _pair(exact: np.ndarray, approximate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.asarray(exact, np.float64), np.asarray(approximate, np.float64)
    if a.shape != b.shape or a.size == 0:
        raise NumericsError(f"arrays have shapes {a.shape} and {b.shape}; allowed: equal and not empty")
    return a, b


def sqnr_db(exact: np.ndarray, approximate: np.ndarray) -> float:
    """Signal to quantisation-noise ratio, ``10 log10(sum x^2 / sum (x - y)^2)``; infinite when equal. [dB]"""
    a, b = _pair(exact, approximate)
    signal, noise = float((a * a).sum()), float(((a - b) ** 2).sum())
    if noise == 0:
        return float("inf")
    return float(10 * np.log10(signal / noise)) if signal > 0 else float("-inf")


def max_abs(exact: np.ndarray, approximate: np.ndarray) -> float:
    """Largest absolute difference. In the unit of the values; [-] for a network's."""
    a, b = _pair(exact, approximate)
    return float(np.abs(a - b).max())


def log_loss(labels: np.ndarray, probability: np.ndarray) -> float:
    """Mean cross entropy of 0/1 ``labels`` under ``probability`` (clipped to float64's open unit interval). [nat]

    NumericsError for labels other than 0 and 1.
    """
    y, p = _pair(labels, probability)
    if not np.isin(y, (0, 1)).all():
        raise NumericsError("labels hold other values than 0 and 1")
    p = np.clip(p, np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).epsneg)
    return float(-(y * np.log(p) + (1 - y) * np.log1p(-p)).mean())


def normalised_entropy(labels: np.ndarray, probability: np.ndarray) -> float:
    """Log loss over the entropy of the labels' base rate: below 1 beats always predicting that rate. [-]

    Seed 000 tolerates a degradation of 0.02 to 0.05 % for recommendation models. NumericsError for labels that are
    all alike.
    """
    rate = float(np.mean(labels))
    if not 0 < rate < 1:
        raise NumericsError("labels are all alike; the base rate has no entropy")
    base = -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))
    return log_loss(labels, probability) / float(base)


def auc(labels: np.ndarray, score: np.ndarray) -> float:
    """Chance that a positive outranks a negative, ties counting half (Mann-Whitney). [-]

    NumericsError for labels that are all alike.
    """
    y, s = _pair(labels, score)
    positive = y == 1
    count, negatives = int(positive.sum()), int((~positive).sum())
    if count == 0 or negatives == 0:
        raise NumericsError("labels are all alike; ranking needs both classes")
    _, inverse, sizes = np.unique(s, return_inverse=True, return_counts=True)
    rank = (np.cumsum(sizes) - (sizes - 1) / 2)[inverse.reshape(-1)]
    return float((rank[positive.reshape(-1)].sum() - count * (count + 1) / 2) / (count * negatives))
