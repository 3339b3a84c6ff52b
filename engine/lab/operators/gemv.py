"""Products with one narrow side: a token against streamed weights, or many rows against at most 16 columns.

::

    gemv(w, x, bias=None, stored="f32")   # w [N, K] as stored, x float32 [K] or [B, K] -> float32 [N] or [B, N]
    small_f32(a, b_t, bias=None)          # a float32 [M, K], b_t float32 [N, K], N <= 16 -> float32 [M, N]

Weights are read once in their stored format (``f32``, or uint16 patterns of ``bf16`` / ``fp16``): the bound is the
memory stream. Sums run over a fixed lane order that depends on K and the number of vectors only, hence not on threads.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import kernel
from engine.lab.ir.dot import PAIR_ROWS, ROWS, SPAN, STORED, dot_tile
from engine.lab.ir.microkernel import aligned
from engine.lab.operators.gemm import output
from engine.lab.ranges import over_range, require, whole

SMALL_N = 16
_GRAIN_BYTES = 64 * 1024  # rows of one chunk: below this a second thread costs more than it brings

_GROUP = max(ROWS, PAIR_ROWS)
_NO_START = np.zeros(SMALL_N, np.float32)

_REAL = np.dtype(np.float32)

_one, _two, _four = (dot_tile(vectors) for vectors in (1, 2, 4))


@kernel
def _range(lo, hi, w, x, init, out):
    """Groups ``lo:hi`` of rows of ``w`` times every vector of ``x``; the type of ``w`` tells the stored format."""
    rows, k = w.shape
    count, ldx = out.shape[1], x.shape[1]
    last = min(rows, hi * _GROUP)
    if count == 2:
        for row in range(lo * _GROUP, last, PAIR_ROWS):
            _two(w, row * k, k, last - row, x, 0, ldx, k, init, 0, out, row * 2, 2, 2)
        return
    for row in range(lo * _GROUP, last, ROWS):
        if count == 1:
            _one(w, row * k, k, last - row, x, 0, ldx, k, init, 0, out, row, 1, 1)
        else:
            for v in range(0, count, 4):
                at = row * count + v
                _four(w, row * k, k, last - row, x, v * ldx, ldx, k, init, v, out, at, count, count - v)


def _padded_vectors(x: np.ndarray, stored: str) -> np.ndarray:
    """``x`` [V, K] zero padded to whole tiles of four vectors and whole steps of K."""
    count, k = x.shape
    span = SPAN[stored]
    if k % span == 0 and (count <= 2 or count % 4 == 0):
        return x
    shape = (-(-count // 4) * 4 if count > 2 else count, -(-k // span) * span)
    full = aligned(shape[0] * shape[1], x.dtype.type).reshape(shape)
    full[:count, :k] = x
    return full


def _run(
    stored: str, w: np.ndarray, x: np.ndarray, init: np.ndarray | None, out: np.ndarray, threads: int | None
) -> np.ndarray:
    if out.size:
        rows, k = w.shape
        start = _NO_START
        groups = -(-rows // _GROUP)
        if init is not None or x.shape[0] > SMALL_N:
            start = np.zeros(-(-x.shape[0] // 4) * 4, start.dtype)
            start[: x.shape[0]] = 0 if init is None else init
        x = _padded_vectors(x, stored)
        if threads == 1:
            _range(0, groups, w, x, start, out)
            return out
        grain = 1 + _GRAIN_BYTES // (1 + _GROUP * k * w.itemsize)
        over_range(_range, groups, w, x, start, out, threads=threads, grain=grain)
    return out


def gemv(
    w: np.ndarray,
    x: np.ndarray,
    bias: np.ndarray | None = None,
    stored: str = "f32",
    threads: int | None = None,
) -> np.ndarray:
    """``w @ x + bias`` with ``w`` [N, K] streamed as stored and summed in float32.

    ``x`` float32 [K], or [B, K] for a few tokens; ``bias`` float32 [N]; returns float32 [N] or [B, N].
    Error of an element at most ``(K + 2) 2**-24 |w| |x|`` to first order; widening of the weights is exact.
    """
    require(stored in ("f32", "bf16", "fp16"), f"stored is {stored!r}; allowed: 'f32', 'bf16', 'fp16'")
    whole("w", w, np.float32 if stored == "f32" else np.uint16, 2)
    whole("x", x, np.float32, 1 if isinstance(x, np.ndarray) and x.ndim == 1 else 2)
    tokens = x.reshape(1, -1) if x.ndim == 1 else x
    require(tokens.shape[1] == w.shape[1], f"x has {tokens.shape[1]} values a row; allowed: {w.shape[1]}, as w")
    out = np.empty((w.shape[0], tokens.shape[0]), np.float32)
    _run(stored, w.view(STORED[stored]), tokens, None, out, threads)
    if bias is not None:
        whole("bias", bias, np.float32, 1)
        require(bias.shape == (w.shape[0],), f"bias has shape {bias.shape}; allowed: {(w.shape[0],)}")
        out += bias[:, None]
    return out[:, 0] if x.ndim == 1 else np.ascontiguousarray(out.T)


def _small_checks(a: np.ndarray, b_t: np.ndarray, bias: np.ndarray | None, kind: type) -> None:
    n, k = b_t.shape
    if n > SMALL_N:
        require(False, f"b_t has {n} rows; allowed: at most {SMALL_N}")
    if k != a.shape[1]:
        require(False, f"b_t has {k} columns; allowed: {a.shape[1]}, as a")
    if bias is not None and whole("bias", bias, kind, 1).shape != (n,):
        require(False, f"bias has shape {bias.shape}; allowed: {(n,)}")


def small_f32(
    a: np.ndarray,
    b_t: np.ndarray,
    bias: np.ndarray | None = None,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """``a @ b_t.T + bias`` for at most 16 columns: float32 [M, K] x float32 [N, K] -> float32 [M, N]."""
    whole("a", a, _REAL, 2)
    whole("b_t", b_t, _REAL, 2)
    _small_checks(a, b_t, bias, np.float32)
    return _run("f32", a, b_t, bias, output(out, (a.shape[0], b_t.shape[0]), _REAL), threads)
