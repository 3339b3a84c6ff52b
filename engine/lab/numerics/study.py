"""How few bits: the error of every format on a tensor, and the mixed-precision plan of a network. Reproducible.

Tensors are drawn from named distributions with a fixed seed; the network has layers of unlike distributions, as
trained ones do, so that one precision for all of them is never the best plan. All results are measurements on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.lab.numerics.metrics import cosine, max_abs, sqnr_db
from engine.lab.numerics.mixed import DenseNetwork, MixedPlan, search
from engine.numerics.formats import FORMATS, Format, Integer, NumericsError, SharedExponent, by_name

TENSORS: dict[str, str] = {
    "normal": "Gaussian weights",
    "outliers": "Weights with outlier channels",
    "heavy": "Heavy-tailed weights",
    "relu": "Activations after a ReLU",
    "uniform": "Uniform values",
}
LADDERS: dict[str, tuple[str, ...]] = {
    "int4, int8, fp32": ("int4-row-asymmetric", "int8-row", "fp32"),
    "int8, fp16, fp32": ("int8", "fp16", "fp32"),
    "ms-fp8, ms-fp9, fp16": ("ms-fp8", "ms-fp9", "fp16"),
    "bfp 2 bit, bfp 4 bit, fp32": ("bfp-1s2m", "bfp-1s4m", "fp32"),
}
_SHAPE = (256, 512)
_SAMPLES = 512
_WIDTHS = ((256, "normal"), (256, "outliers"), (192, "heavy"), (192, "normal"), (128, "outliers"), (16, "normal"))
_INPUTS = 128


@dataclass(frozen=True)
class FormatLoss:
    """A format on a tensor: stored bits of a value, scales included, and the error it leaves."""

    format: str
    family: str
    bits: float
    sqnr_db: float
    cosine: float
    largest: float  # absolute error


@dataclass(frozen=True)
class Stored:
    """A tensor before and after a format."""

    before: np.ndarray
    after: np.ndarray
    point: FormatLoss


@lru_cache(maxsize=16)
def tensor(name: str, shape: tuple[int, int] = _SHAPE, seed: int = 0) -> np.ndarray:
    """Float32 values of a named distribution; read-only. NumericsError for an unknown tensor."""
    if name not in TENSORS:
        raise NumericsError(f"tensor is {name[:40]!r}; allowed: {', '.join(TENSORS)}")
    rng = np.random.default_rng(seed)
    if name == "heavy":
        x = rng.standard_t(3, shape)
    elif name == "uniform":
        x = rng.uniform(-1, 1, shape)
    else:
        x = rng.standard_normal(shape)
    if name == "relu":
        x = np.maximum(x, 0)
    if name == "outliers":
        x[rng.choice(shape[0], max(1, shape[0] // 32), replace=False)] *= 16
    result = x.astype(np.float32)
    result.setflags(write=False)
    return result


def _candidates() -> dict[str, tuple[str, Format]]:
    """Formats by label: integers of 2 to 10 bits in three granularities, and everything with a name."""
    candidates: dict[str, tuple[str, Format]] = {}
    for bits in range(2, 11):
        candidates[f"int{bits}"] = ("Integer, one scale", Integer(bits))
        candidates[f"int{bits} by row"] = ("Integer, a scale a row", Integer(bits, granularity="row"))
    for mantissa in range(1, 9):
        candidates[f"block of 128, {mantissa} bit"] = ("Shared exponent", SharedExponent(128, mantissa))
    floats = ("ms-fp8", "ms-fp9", "bf16", "fp16")
    return (
        candidates
        | {name: ("Floating point", FORMATS[name]) for name in floats}
        | {"binary": ("Binary", FORMATS["binary"])}
    )


def _point(label: str, family: str, format: Format, x: np.ndarray) -> FormatLoss:
    after = format.apply(x)
    bits = format.storage_bits(x.shape) / x.size
    return FormatLoss(label, family, bits, sqnr_db(x, after), cosine(x, after), max_abs(x, after))


@lru_cache(maxsize=16)
def points(name: str) -> tuple[FormatLoss, ...]:
    """Every candidate format on a tensor, fewest bits first."""
    x = tensor(name)
    result = [_point(label, family, format, x) for label, (family, format) in _candidates().items()]
    return tuple(sorted(result, key=lambda p: (p.bits, p.format)))


@lru_cache(maxsize=32)
def stored(name: str, label: str) -> Stored:
    """A tensor in one format. NumericsError for an unknown format."""
    known = _candidates()
    if label not in known:
        raise NumericsError(f"format is {label[:40]!r}; allowed: {', '.join(known)}")
    family, format = known[label]
    x = tensor(name)
    return Stored(x, format.apply(x), _point(label, family, format, x))


@lru_cache(maxsize=1)
def network() -> DenseNetwork:
    """Six fully connected layers with unlike weights."""
    layers, width = [], _INPUTS
    for at, (outputs, kind) in enumerate(_WIDTHS):
        weight = tensor(kind, (outputs, width), 100 + at) / np.float32(np.sqrt(width))
        layers.append((f"fc{at + 1} ({kind})", weight, np.zeros(outputs, np.float32)))
        width = outputs
    return DenseNetwork(tuple(layers))


@lru_cache(maxsize=64)
def plan(ladder: str, bound: float) -> MixedPlan:
    """Precision of every layer so that at most ``bound`` of the answers change, on tuning and on held-out inputs.

    An operator's time is taken as the bytes of its weights: what a product of few rows costs up to the bandwidth.
    [B] NumericsError for an unknown ladder, or a bound that is not between 0 and 1.
    """
    if ladder not in LADDERS:
        raise NumericsError(f"ladder is {ladder[:40]!r}; allowed: {', '.join(LADDERS)}")
    if not 0 < bound < 1:
        raise NumericsError(f"bound is {bound}; allowed: above 0, below 1")
    rungs, net = LADDERS[ladder], network()
    rng = np.random.default_rng(1)
    inputs = {split: rng.standard_normal((_SAMPLES, _INPUTS)).astype(np.float32) for split in ("tuning", "held_out")}
    reference = {name: rungs[-1] for name, _, _ in net.layers}
    answers = {split: net.run(x, reference).argmax(axis=1) for split, x in inputs.items()}

    def loss(chosen: Mapping[str, str], split: str) -> float:
        return float((net.run(inputs[split], chosen).argmax(axis=1) != answers[split]).mean())

    times = {name: {rung: by_name(rung).storage_bits(w.shape) / 8 for rung in rungs} for name, w, _ in net.layers}

    def alone(name: str, rung: str) -> float:
        return net.own_error(inputs["tuning"], name, rung)

    return search(times, loss, alone, ladder=rungs, bound=bound, share=1.0)
