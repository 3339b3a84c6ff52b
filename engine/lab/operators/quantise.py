"""Affine quantise of float32 to int8 or uint8, per tensor or per channel of the last axis.

``q = saturate(round_half_even(x / scale) + zero)``: ONNX QuantizeLinear, bit for bit.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import inner, kernel
from engine.lab.ranges import over_range, require, whole

GRAIN = 16384
"""Fewest elements worth a thread of their own. [elements]"""
STEP = 256
"""Chunks of one scale start at multiples of this, whole vectors of any target. [elements]"""
_NUMBER = (int, float, np.number)
_LIMITS = {
    np.dtype(kind): tuple(map(np.float32, (np.iinfo(kind).min, np.iinfo(kind).max))) for kind in (np.int8, np.uint8)
}
"""Least and largest code of a type."""


@inner
def _code(value, scale, zero, low, high):
    """The code as a float; a NaN becomes the zero point."""
    steps = np.float32(np.rint(np.float32(value / scale)))
    code = np.float32((np.float32(0) if np.isnan(steps) else steps) + zero)
    code = low if code < low else code
    return high if code > high else code


@kernel
def quantise_all(lo, hi, x, scale, zero, low, high, out):
    """Elements ``[lo, hi)`` of a flat ``x``, all of one scale."""
    part, to = x[lo:hi], out[lo:hi]
    for i in range(part.size):
        to[i] = np.int32(_code(part[i], scale, zero, low, high))


@kernel
def quantise_range(lo, hi, x, scale, zero, low, high, out):
    """Rows ``[lo, hi)`` of ``x`` ``[rows, channels]``, each channel with its own scale."""
    for r in range(lo, hi):
        row, to = x[r], out[r]
        for c in range(row.size):
            to[c] = np.int32(_code(row[c], scale[c], zero[c], low, high))


def _channels(name: str, value: float | np.ndarray, columns: int) -> np.ndarray:
    values = np.asarray(value, np.float32).reshape(-1)
    require(values.size in (1, columns), f"{name} has {values.size} values; allowed: 1 or {columns}, one per channel")
    return np.ascontiguousarray(np.broadcast_to(values, (columns,)))


def _rows_and_columns(x: np.ndarray, per_channel: bool) -> tuple[int, int]:
    """Rows and columns the kernel walks: channels last, or long rows of one scale."""
    if per_channel:
        return (x.size // x.shape[-1] if x.shape[-1] else 0), x.shape[-1]
    columns = next((c for c in (4096, 256, 16) if x.size % c == 0), 1)
    return x.size // columns, columns


def _affine(scale: float | np.ndarray, zero: int | np.ndarray, dtype: np.dtype) -> bool:
    """Whether channels have scales or zero points of their own; refuses what no code has."""
    low, high = _LIMITS[dtype]
    if isinstance(scale, _NUMBER) and isinstance(zero, _NUMBER):  # the usual case, without a detour over arrays
        sound, fits, several = bool(0 < scale < np.inf), bool(low <= zero <= high), False
    else:
        steps, zeros = np.asarray(scale), np.asarray(zero)
        sound = bool((steps > 0).all() and np.isfinite(steps).all())
        fits = bool((zeros >= low).all() and (zeros <= high).all())
        several = steps.size != 1 or zeros.size != 1
    require(sound, "scale must be finite and above 0")
    if not fits:
        require(False, f"zero must fit {dtype}")
    return several


def _one(value: float | np.ndarray) -> np.float32:
    return np.float32(value if isinstance(value, _NUMBER) else np.asarray(value).reshape(-1)[0])


def quantise(
    x: np.ndarray,
    scale: float | np.ndarray,
    zero: int | np.ndarray = 0,
    *,
    dtype: type = np.int8,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """Codes of float32 ``x``; ``scale`` and ``zero`` are one number or one per channel of the last axis."""
    require(isinstance(x, np.ndarray) and x.ndim >= 1, "x must have at least one axis")
    whole("x", x, np.float32, x.ndim)
    kind = np.dtype(dtype)
    if kind not in _LIMITS:
        require(False, f"dtype is {kind}; allowed: int8, uint8")
    per_channel = _affine(scale, zero, kind)
    result = np.empty(x.shape, kind) if out is None else whole("out", out, kind, x.ndim)
    if result.shape != x.shape:
        require(False, f"out is {result.shape}; allowed: {x.shape}")
    low, high = _LIMITS[kind]
    if not per_channel:
        over_range(
            quantise_all,
            x.size,
            x.reshape(-1),
            _one(scale),
            _one(zero),
            low,
            high,
            result.reshape(-1),
            threads=threads,
            grain=GRAIN,
            step=STEP,
        )
        return result
    rows, columns = _rows_and_columns(x, per_channel)
    steps, zeros = _channels("scale", scale, columns), _channels("zero", zero, columns)
    over_range(
        quantise_range,
        rows,
        x.reshape(rows, columns),
        steps,
        zeros,
        low,
        high,
        result.reshape(rows, columns),
        threads=threads,
        grain=1 + GRAIN // max(1, columns),
    )
    return result
