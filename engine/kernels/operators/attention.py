"""Attention with a key/value cache: one token (decode) or many (prefill), causal, grouped heads.

::

    attention(q, keys, values, length)   # q float32 [T, H, D]; caches float32 [Hkv, S, D], first ``length`` rows valid
                                         # -> float32 [T, H, D]

Query i stands at position ``length - T + i`` and sees itself and what precedes it. Per head: scores by the streaming
dot tile (up to four queries share each key), softmax with the maximum subtracted, then a weighted sum of value rows in
order of position. Every (head, query) is computed alone, so the result does not depend on the number of threads.
The bound of a decode step is one read of the valid cache.
"""

from __future__ import annotations

import math

import numpy as np

from engine.kernels.jit import kernel
from engine.kernels.operators.dot_ir import ROWS, SPAN, dot_tile
from engine.kernels.operators.gemm import aligned, output
from engine.kernels.operators.pointwise import exp32
from engine.kernels.operators.ranges import over_range, require, whole

__all__ = ["append", "attention"]

_SPAN = SPAN["f32"]
_QUERIES = 4
_scores = dot_tile(_QUERIES)


@kernel
def _softmax_rows(scores, queries, first_visible, length):
    """Rows of ``scores`` [_QUERIES, S] to probabilities; row i sees the first ``first_visible + i`` positions."""
    for i in range(queries):
        visible = min(length, first_visible + i)
        top = scores[i, 0]
        for s in range(1, visible):
            top = max(top, scores[i, s])
        total = np.float32(0)
        row = scores[i, :visible]
        for s in range(row.size):  # apart from the sum, which must keep its order: this loop runs in vectors
            row[s] = exp32(row[s] - top)
        for s in range(visible):
            total += scores[i, s]
        scale = np.float32(1) / total
        for s in range(visible):
            scores[i, s] *= scale


@kernel
def _range(lo, hi, q, keys, values, length, out, padded_q):
    """Jobs ``lo:hi`` of (head, block of queries)."""
    tokens, heads, depth = q.shape
    group = heads // keys.shape[0]
    capacity = keys.shape[1]
    blocks = (tokens + _QUERIES - 1) // _QUERIES
    deep = padded_q.shape[2]
    by_position = np.empty((length + ROWS, _QUERIES), np.float32)
    scores = np.empty((_QUERIES, length), np.float32)
    zero = np.zeros(_QUERIES, np.float32)
    total = np.empty((_QUERIES, depth), np.float32)
    for job in range(lo, hi):
        head = job // blocks
        first = job % blocks * _QUERIES
        queries = min(_QUERIES, tokens - first)
        kv = head // group
        before = length - tokens + first
        seen = before + queries
        start = kv * capacity * depth
        x = (head * blocks * _QUERIES + first) * deep
        for s in range(0, seen, ROWS):
            at = start + s * depth
            _scores(
                keys, at, depth, seen - s, padded_q, x, deep, depth, zero, 0, by_position, s * _QUERIES, _QUERIES,
                _QUERIES,
            )  # fmt: skip
        for s in range(seen):
            for i in range(queries):
                scores[i, s] = by_position[s, i]
        _softmax_rows(scores, queries, before + 1, seen)
        total[:] = 0
        for i in range(queries):
            for s in range(before + i + 1, seen):
                scores[i, s] = 0
        for s in range(seen):
            for i in range(queries):
                weight = scores[i, s]
                for d in range(depth):
                    total[i, d] += weight * values[kv, s, d]
        for i in range(queries):
            for d in range(depth):
                out[first + i, head, d] = total[i, d]


def append(cache: np.ndarray, rows: np.ndarray, length: int) -> int:
    """Write ``rows`` float32 [T, Hkv, D] into ``cache`` [Hkv, S, D] behind its ``length`` rows; the new length."""
    whole("cache", cache, np.float32, 3)
    whole("rows", rows, np.float32, 3)
    heads, capacity, depth = cache.shape
    require(rows.shape[1:] == (heads, depth), f"rows have shape {rows.shape[1:]}; allowed: {(heads, depth)}")
    require(0 <= length <= capacity - len(rows), f"length is {length}; allowed: 0 to {capacity - len(rows)}")
    cache[:, length : length + len(rows)] = rows.transpose(1, 0, 2)
    return length + len(rows)


def attention(
    q: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    length: int,
    scale: float | None = None,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """Causal attention of ``q`` [T, H, D] on the first ``length`` rows of the caches [Hkv, S, D] -> [T, H, D].

    ``H`` must be a multiple of ``Hkv``; ``scale`` defaults to ``1 / sqrt(D)``; the last T rows of the cache belong to
    the queries themselves. Float32 throughout; relative error of the order of ``(D + length) 2**-24``.
    """
    whole("q", q, np.float32, 3)
    whole("keys", keys, np.float32, 3)
    whole("values", values, np.float32, 3)
    tokens, heads, depth = q.shape
    require(keys.shape == values.shape, f"values have shape {values.shape}; allowed: {keys.shape}, as keys")
    shared = keys.shape[0]
    require(
        keys.shape[2] == depth and (heads % shared == 0 if shared else heads == 0),
        f"keys have shape {keys.shape}; allowed: [divisor of {heads} heads, capacity, {depth}]",
    )
    require(tokens <= length <= keys.shape[1], f"length is {length}; allowed: {tokens} to {keys.shape[1]}")
    out = output(out, q.shape, np.float32)
    if out.size:
        blocks = -(-tokens // _QUERIES)
        deep = -(-depth // _SPAN) * _SPAN
        padded = aligned(heads * blocks * _QUERIES * deep, np.float32).reshape(heads, blocks * _QUERIES, deep)
        padded[:, :tokens, :depth] = q.transpose(1, 0, 2) * np.float32(1 / math.sqrt(depth) if scale is None else scale)
        over_range(_range, heads * blocks, q, keys, values, length, out, padded, threads=threads)
    return out
