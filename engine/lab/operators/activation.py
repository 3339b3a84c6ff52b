"""Element-wise activations: ReLU, sigmoid, tanh, SiLU, GELU in three forms, over float32 arrays of any shape.

The third GELU is DFX's (seed 004): a 2048-entry table of the tanh form on [-8, 8] with linear interpolation, the
identity above and zero below. Loops run over a slice from zero: with no negative index to wrap they vectorise.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from engine.kernels.jit import inner, kernel
from engine.lab.ir.lanes import fetch
from engine.lab.operators.pointwise import exp32, gelu_erf32, gelu_tanh32, sigmoid32, tanh32
from engine.lab.threads.ranges import KernelError, over_range, require

GRAIN = 16384
"""Fewest elements worth a thread of their own. [elements]"""
STEP = 256
"""Chunks start at multiples of this, more than any unrolled vector loop takes at once. [elements]"""
TABLE_ENTRIES, TABLE_LIMIT = 2048, 8.0
"""Samples and half-range of DFX's GELU table (seed 004, special function unit)."""
_ZERO = np.float32(0)


def gelu_table(entries: int = TABLE_ENTRIES, limit: float = TABLE_LIMIT) -> np.ndarray:
    """Tanh-form GELU at ``entries`` equally spaced points of ``[-limit, limit]``, float32."""
    require(entries >= 2, f"entries is {entries}; allowed: 2 or more")
    require(limit > 0, f"limit is {limit}; allowed: above 0")
    x = np.linspace(-limit, limit, entries)
    return (0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))).astype(np.float32)


GELU_TABLE = gelu_table()
_PAIRS = np.stack([GELU_TABLE, np.append(np.diff(GELU_TABLE), np.float32(0))], axis=1).reshape(-1).view(np.int64)


@kernel
def relu_range(lo, hi, x, out):
    """``max(x, 0)``; NaN becomes 0 as in the fused convolution."""
    part, to = x[lo:hi], out[lo:hi]
    for i in range(part.size):
        to[i] = part[i] if part[i] > _ZERO else _ZERO


@kernel
def sigmoid_range(lo, hi, x, out):
    """Logistic function."""
    part, to = x[lo:hi], out[lo:hi]
    for i in range(part.size):
        to[i] = sigmoid32(part[i])


@kernel
def tanh_range(lo, hi, x, out):
    """Hyperbolic tangent."""
    part, to = x[lo:hi], out[lo:hi]
    for i in range(part.size):
        to[i] = tanh32(part[i])


@kernel
def silu_range(lo, hi, x, out):
    """``x * sigmoid(x)``."""
    part, to = x[lo:hi], out[lo:hi]
    for i in range(part.size):
        to[i] = part[i] * sigmoid32(part[i])


@kernel
def exp_range(lo, hi, x, out):
    """Exponential."""
    part, to = x[lo:hi], out[lo:hi]
    for i in range(part.size):
        to[i] = exp32(part[i])


@kernel
def gelu_erf_range(lo, hi, x, out):
    """GELU by the error function."""
    part, to = x[lo:hi], out[lo:hi]
    for i in range(part.size):
        to[i] = gelu_erf32(part[i])


@kernel
def gelu_tanh_range(lo, hi, x, out):
    """GELU by the hyperbolic tangent."""
    part, to = x[lo:hi], out[lo:hi]
    for i in range(part.size):
        to[i] = gelu_tanh32(part[i])


@inner
def _position(value, limit, pitch):
    """Where in the table a value lies, in samples from its start; a NaN at the start."""
    clipped = value if value > -limit else -limit
    clipped = clipped if clipped < limit else limit
    return np.float32(np.float32(clipped + limit) * pitch)


@kernel
def gelu_table_range(lo, hi, x, pairs, limit, out):
    """GELU by table and linear interpolation, identity above ``limit``, zero below ``-limit``.

    ``pairs`` holds a sample and the step to the next one in each 8 bytes. They are fetched one by one between two
    vector loops: the gather instructions of current cores take longer than as many loads.
    """
    pitch, most = np.float32(pairs.size - 1) / np.float32(np.float32(2) * limit), np.int32(pairs.size - 2)
    places, table = np.empty(STEP, np.int32), np.empty(STEP, np.int64)
    for first in range(lo, hi, STEP):
        part, to = x[first : min(hi, first + STEP)], out[first : min(hi, first + STEP)]
        at, got = places[: part.size], table[: part.size]
        for i in range(at.size):
            at[i] = min(np.int32(_position(part[i], limit, pitch)), most)
        for i in range(at.size):
            got[i] = fetch(pairs, at[i])
        for i in range(at.size):
            value, pair = part[i], got[i]
            fraction = np.float32(_position(value, limit, pitch) - np.float32(at[i]))
            sample, rise = np.int32(pair).view(np.float32), np.int32(pair >> np.int64(32)).view(np.float32)
            between = np.float32(sample + fraction * rise)
            to[i] = (_ZERO if value < -limit else between) if value <= limit else value  # a NaN stays one


_RANGE = {
    "relu": relu_range,
    "sigmoid": sigmoid_range,
    "tanh": tanh_range,
    "silu": silu_range,
    "exp": exp_range,
    "gelu": gelu_erf_range,
    "gelu_tanh": gelu_tanh_range,
}
Activation = Literal["relu", "sigmoid", "tanh", "silu", "exp", "gelu", "gelu_tanh", "gelu_table"]


def activate(
    x: np.ndarray, name: Activation, *, out: np.ndarray | None = None, threads: int | None = None
) -> np.ndarray:
    """``name`` of every element of ``x`` (float32, C-contiguous, any shape); ``out`` may be ``x``."""
    require(
        isinstance(x, np.ndarray) and x.dtype == np.float32 and x.flags.c_contiguous, "x must be C-contiguous float32"
    )
    if name not in _RANGE and name != "gelu_table":
        raise KernelError(f"name is {name!r}; allowed: {', '.join(_RANGE)}, gelu_table")
    result = np.empty_like(x) if out is None else out
    fits = result.shape == x.shape and result.dtype == np.float32 and result.flags.c_contiguous
    if not fits:
        require(False, f"out must be C-contiguous float32 of shape {x.shape}")
    flat, to = x.reshape(-1), result.reshape(-1)
    if name == "gelu_table":
        over_range(
            gelu_table_range,
            x.size,
            flat,
            _PAIRS,
            np.float32(TABLE_LIMIT),
            to,
            threads=threads,
            grain=GRAIN,
            step=STEP,
        )
    else:
        over_range(_RANGE[name], x.size, flat, to, threads=threads, grain=GRAIN, step=STEP)
    return result
