"""How few bits: the error of every format on a tensor drawn from a named distribution with a fixed seed."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.lab.numerics.metrics import max_abs, sqnr_db
from engine.numerics.formats import FORMATS, Format, Integer, NumericsError, SharedExponent

TENSORS: dict[str, str] = {
    "normal": "Gaussian weights",
    "outliers": "Weights with outlier channels",
    "heavy": "Heavy-tailed weights",
    "relu": "Activations after a ReLU",
    "uniform": "Uniform values",
}
_SHAPE = (256, 512)


@dataclass(frozen=True)
class FormatLoss:
    """A format on a tensor: stored bits of a value, scales included, and the error it leaves."""

    format: str
    family: str
    bits: float
    sqnr_db: float
    largest: float  # absolute error


@dataclass(frozen=True)
class Stored:
    """A tensor before and after a format."""

    before: np.ndarray
    after: np.ndarray
    point: FormatLoss


@lru_cache(maxsize=16)
def tensor(name: str) -> np.ndarray:
    """Float32 values of a named distribution; read-only. NumericsError for an unknown tensor."""
    if name not in TENSORS:
        raise NumericsError(f"tensor is {name[:40]!r}; allowed: {', '.join(TENSORS)}")
    rng = np.random.default_rng(0)
    if name == "heavy":
        x = rng.standard_t(3, _SHAPE)
    elif name == "uniform":
        x = rng.uniform(-1, 1, _SHAPE)
    else:
        x = rng.standard_normal(_SHAPE)
    if name == "relu":
        x = np.maximum(x, 0)
    if name == "outliers":
        x[rng.choice(_SHAPE[0], _SHAPE[0] // 32, replace=False)] *= 16
    result = x.astype(np.float32)
    result.setflags(write=False)
    return result


def _candidates() -> dict[str, tuple[str, Format]]:
    """Formats by label: integers of 2 to 10 bits in three granularities, and everything with a name."""
    candidates: dict[str, tuple[str, Format]] = {}
    for bits in range(2, 11):
        candidates[f"int{bits}"] = ("Integer, one scale", Integer(bits))
        candidates[f"int{bits} by row"] = ("Integer, one scale per row", Integer(bits, granularity="row"))
    for mantissa in range(1, 9):
        candidates[f"block of 128, {mantissa} bit"] = ("Shared exponent", SharedExponent(128, mantissa))
    floats = ("ms-fp8", "ms-fp9", "bf16", "fp16")
    return (
        candidates
        | {name: ("Floating point", FORMATS[name]) for name in floats}
        | {"binary": ("Binary", FORMATS["binary"])}
    )


@lru_cache(maxsize=32)
def in_format(name: str, label: str) -> Stored:
    """A tensor in one format. NumericsError for an unknown format."""
    candidates = _candidates()
    if label not in candidates:
        raise NumericsError(f"format is {label[:40]!r}; allowed: {', '.join(candidates)}")
    (family, format), x = candidates[label], tensor(name)
    after, bits = format.apply(x), format.storage_bits(x.shape) / x.size
    return Stored(x, after, FormatLoss(label, family, bits, sqnr_db(x, after), max_abs(x, after)))


@lru_cache(maxsize=16)
def points(name: str) -> tuple[FormatLoss, ...]:
    """Every candidate format on a tensor, fewest bits first."""
    losses = (in_format(name, label).point for label in _candidates())
    return tuple(sorted(losses, key=lambda p: (p.bits, p.format)))
