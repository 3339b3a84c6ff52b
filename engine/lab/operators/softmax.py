"""Softmax and log-sum-exp over the last axis, float32: three passes over a row that stays in cache."""

import numpy as np

from engine.kernels.jit import inner, kernel
from engine.lab.operators.pointwise import exp_below32
from engine.lab.ranges import output, over_range, real

_SIGN, _MAGNITUDE = np.int32(31), np.int32(0x7FFFFFFF)
_LOWEST = np.int32(-0x7F800001)  # the ordered key of -infinity


@inner
def row_max(row):
    """Largest value of a float32 row (NaN if it holds a positive-signed one), -infinity when empty.

    The bit patterns, with the magnitude of negatives flipped, are ordered as integers: an integer maximum vectorises.
    """
    bits = row.view(np.int32)
    best = _LOWEST
    for i in range(bits.size):
        best = max(best, np.int32(bits[i] ^ ((bits[i] >> _SIGN) & _MAGNITUDE)))
    return np.int32(best ^ ((best >> _SIGN) & _MAGNITUDE)).view(np.float32)


@inner(fastmath={"reassoc", "nsz"})
def row_sum(row):
    """Sum of a float32 row in the order the target's vectors give: fixed for a row length, whatever the range."""
    total = np.float32(0)
    for i in range(row.size):
        total += row[i]
    return total


@inner(fastmath={"reassoc", "nsz"})
def _exponentials(row, top, to):
    """``exp(row - top)``, of the row's largest, into ``to`` and its sum, added in the order of :func:`row_sum`."""
    total = np.float32(0)
    for c in range(row.size):
        value = exp_below32(np.float32(row[c] - top))
        to[c] = value
        total += value
    return total


@kernel
def softmax_rows(lo, hi, x, out):
    """Rows ``[lo, hi)``: ``exp(x - max) / sum``."""
    for r in range(lo, hi):
        row, to = x[r], out[r]
        share = np.float32(np.float32(1) / _exponentials(row, row_max(row), to))
        for c in range(row.size):
            to[c] *= share


def softmax(x: np.ndarray, *, out: np.ndarray | None = None, threads: int | None = None) -> np.ndarray:
    """Softmax of ``x`` along the last axis. Relative error under 1e-6 + 1e-7 |x|.

    A masked entry is -infinity and becomes 0; a row of nothing but -infinity is NaN, as in every library.
    """
    result = output(out, real(x).shape, np.float32)
    if x.size:
        rows, columns = x.size // x.shape[-1], x.shape[-1]
        flat, to = x.reshape(rows, columns), result.reshape(rows, columns)
        over_range(softmax_rows, rows, flat, to, threads=threads, grain=1 + 8192 // columns)
    return result
