"""Operators that neither multiply matrices nor reduce: sum and product of two tensors, clipping, hard swish, a copy.

Each is one pass over flat float32 arrays, so its cost is the traffic; all of them are exact or rounded once a step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from engine.kernels.jit import kernel
from engine.lab.threads.ranges import over_range, require

GRAIN = 16384  # elements of a chunk: below it a second thread costs more than it brings
_THREE, _SIX, _ZERO = np.float32(3), np.float32(6), np.float32(0)

Combination = Literal["add", "mul", "clip6", "hard_swish", "copy"]


@kernel
def add_range(lo, hi, x, y, out):
    """``x + y``."""
    a, b, to = x[lo:hi], y[lo:hi], out[lo:hi]  # slices: an index that may be negative is never vectorised
    for i in range(to.size):
        to[i] = a[i] + b[i]


@kernel
def mul_range(lo, hi, x, y, out):
    """``x * y``."""
    a, b, to = x[lo:hi], y[lo:hi], out[lo:hi]
    for i in range(to.size):
        to[i] = a[i] * b[i]


@kernel
def clip6_range(lo, hi, x, y, out):
    """``min(max(x, 0), 6)``; NaN becomes 0 as in a ReLU."""
    a, to = x[lo:hi], out[lo:hi]
    for i in range(to.size):
        v = a[i] if a[i] > _ZERO else _ZERO
        to[i] = v if v < _SIX else _SIX


@kernel
def hard_swish_range(lo, hi, x, y, out):
    """``x * min(max(x + 3, 0), 6) / 6``."""
    a, to = x[lo:hi], out[lo:hi]
    for i in range(to.size):
        v = np.float32(a[i] + _THREE)
        v = v if v > _ZERO else _ZERO
        to[i] = a[i] * (v if v < _SIX else _SIX) / _SIX


@kernel
def copy_range(lo, hi, x, y, out):
    """``x``."""
    a, to = x[lo:hi], out[lo:hi]
    for i in range(to.size):
        to[i] = a[i]


_RANGE: dict[str, Callable[..., None]] = {
    "add": add_range,
    "mul": mul_range,
    "clip6": clip6_range,
    "hard_swish": hard_swish_range,
    "copy": copy_range,
}


def combine(
    name: Combination,
    x: np.ndarray,
    y: np.ndarray | None = None,
    *,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """``name`` of every element of ``x`` (and ``y`` for a sum or a product): float32, C-contiguous, of one shape."""
    require(name in _RANGE, f"name is {name!r}; allowed: {', '.join(_RANGE)}")
    second = x if y is None else y
    require((y is not None) == (name in ("add", "mul")), f"y is {'missing' if y is None else 'given'} for {name}")
    result = np.empty_like(x) if out is None else out
    for label, array in (("x", x), ("y", second), ("out", result)):
        fits = isinstance(array, np.ndarray) and array.dtype == np.float32 and array.flags.c_contiguous
        require(fits and array.shape == x.shape, f"{label} must be C-contiguous float32 of the shape of x")
    flat = (x.reshape(-1), second.reshape(-1), result.reshape(-1))
    over_range(_RANGE[name], x.size, *flat, threads=threads, grain=GRAIN, step=64)
    return result
