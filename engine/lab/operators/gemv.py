"""A few tokens against streamed weights: ``gemv(w, x, stored="f32")``, w [N, K] as stored, x float32 [K] or [B, K].

Weights are read once a token in their stored format (``f32``, or uint16 patterns of ``bf16``): the bound is the memory
stream. Sums run over the lanes of a vector in an order that depends on K only, hence not on threads.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import inner, kernel
from engine.lab.ranges import over_range, require, whole

_GRAIN_BYTES = 64 * 1024  # rows of one chunk: below this a second thread costs more than it brings
_STORED = {"f32": np.float32, "bf16": np.uint16}


@inner(fastmath={"reassoc", "nsz", "contract"})
def _f32_dots(lo, hi, w, x, out):
    """Four rows at a time: so many streams keep memory busy. Past the last row, that row again."""
    for n in range(lo, hi, 4):
        two, three, four = min(n + 1, hi - 1), min(n + 2, hi - 1), min(n + 3, hi - 1)
        a, b, c, d = w[n], w[two], w[three], w[four]
        for v in range(x.shape[0]):
            token = x[v]
            p = q = r = s = np.float32(0)
            for i in range(token.size):
                p += a[i] * token[i]
                q += b[i] * token[i]
                r += c[i] * token[i]
                s += d[i] * token[i]
            out[v, n], out[v, two], out[v, three], out[v, four] = p, q, r, s


@inner(fastmath={"reassoc", "nsz", "contract"})
def _bf16_dots(lo, hi, w, x, out):
    for n in range(lo, hi):
        row = w[n]
        for v in range(x.shape[0]):
            token, total = x[v], np.float32(0)
            for i in range(token.size):
                total += np.int32(np.int32(row[i]) << np.int32(16)).view(np.float32) * token[i]
            out[v, n] = total


@kernel
def f32_rows(lo, hi, w, x, out):
    """Rows ``[lo, hi)`` of float32 weights times every token."""
    _f32_dots(lo, hi, w, x, out)


@kernel
def bf16_rows(lo, hi, w, x, out):
    """Rows ``[lo, hi)`` of bf16 patterns times every token."""
    _bf16_dots(lo, hi, w, x, out)


def gemv(w: np.ndarray, x: np.ndarray, stored: str = "f32", threads: int | None = None) -> np.ndarray:
    """``w @ x`` with ``w`` [N, K] streamed as stored and summed in float32: [N], or [B, N] of a few tokens.

    Error of an element at most ``(K + 2) 2**-24 |w| |x|`` to first order; widening of the weights is exact.
    """
    require(stored in _STORED, f"stored is {stored!r}; allowed: {', '.join(_STORED)}")
    whole("w", w, _STORED[stored], 2)
    whole("x", x, np.float32, 1 if isinstance(x, np.ndarray) and x.ndim == 1 else 2)
    tokens = x.reshape(1, -1) if x.ndim == 1 else x
    require(tokens.shape[1] == w.shape[1], f"x has {tokens.shape[1]} values a row; allowed: {w.shape[1]}, as w")
    out = np.empty((len(tokens), len(w)), np.float32)
    grain = 1 + _GRAIN_BYTES // (1 + w.shape[1] * w.itemsize)
    over_range(f32_rows if stored == "f32" else bf16_rows, len(w), w, tokens, out, threads=threads, grain=grain)
    return out[0] if x.ndim == 1 else out
