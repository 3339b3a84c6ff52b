"""Attention with a key/value cache: one token (decode) or many (prefill), causal, grouped heads.

::

    attention(q, keys, values, length)   # q float32 [T, H, D]; caches [Hkv, S, D], first ``length`` rows valid
                                         # -> float32 [T, H, D]

Query i stands at position ``length - T + i`` and sees itself and what precedes it. Caches are float32. A few tokens
stream the cache, row by row: the bound is one read of it. Many tokens (prefill) lay keys and values out once and
multiply blocks of queries by them, with the tile of every product. A query's sums have one order whatever the block
or thread it falls in.
"""

import math

import numpy as np

from engine.kernels.jit import inner, kernel
from engine.lab.ir.lanes import prefetch
from engine.lab.ir.microkernel import MR, NC
from engine.lab.operators.gemm import panel_rows
from engine.lab.operators.pointwise import exp32
from engine.lab.operators.softmax import row_max, row_sum
from engine.lab.ranges import fresh, over_range, require, whole

PREFILL = 16
"""Fewest tokens worth laying the cache out for. [tokens]"""
_LINE, _AHEAD = 16, 1536  # values of a cache line, and how far ahead of a row that is read lines are asked for
_QUERIES = 8 * MR
"""Queries of a prefill block: their scores and a head's keys share a second-level cache."""
_ZERO, _ONE = np.float32(0), np.float32(1)
_NO_CLAMP = (np.int32(0), np.float32(-np.inf), _ZERO)


@inner
def _softmax(row):
    """``row`` to the exponentials of its distance to its maximum; returns one over their sum."""
    top = row_max(row)
    for s in range(row.size):
        row[s] = exp32(np.float32(row[s] - top))
    return np.float32(_ONE / row_sum(row))


@inner(fastmath={"reassoc", "nsz", "contract"})
def _stream_jobs(lo, hi, q, keys, values, length, out):
    heads, tokens, kv_heads = q.shape[0], q.shape[1], keys.shape[0]
    scores = np.empty(length, np.float32)
    for job in range(lo, hi):
        head, i = job // tokens, job % tokens
        kv, visible, query = head // (heads // kv_heads), length - tokens + i + 1, q[head, i]
        start, depth = kv * keys.shape[1] * query.size, query.size
        for s in range(visible):
            for d in range(0, depth, _LINE):
                prefetch(keys, start + s * depth + _AHEAD + d)
            row, total = keys[kv, s], _ZERO
            for d in range(query.size):
                total += row[d] * query[d]
            scores[s] = total
        share, to = _softmax(scores[:visible]), out[i, head]
        for d in range(to.size):
            to[d] = _ZERO
        for s in range(visible):
            for d in range(0, depth, _LINE):
                prefetch(values, start + s * depth + _AHEAD + d)
            row, weight = values[kv, s], scores[s] * share
            for d in range(to.size):
                to[d] += weight * row[d]


@kernel
def stream(lo, hi, q, keys, values, length, out):
    """Jobs ``[lo, hi)`` of (head, token); ``q`` ``[H, T, D]``, scaled."""
    _stream_jobs(lo, hi, q, keys, values, length, out)


@kernel
def lay_out(lo, hi, keys, values, length, columns, panels):
    """Jobs ``[lo, hi)`` of (head, block of rows): keys turned to ``[D, columns]``, values in panels of as many.

    Columns and panels are zero before: what is beyond the last row and the last value stays so.
    """
    depth = keys.shape[2]
    blocks, across = (length + NC - 1) // NC, (depth + NC - 1) // NC
    for job in range(lo, hi):
        kv, first, at = job // blocks, job % blocks * NC, job * depth * NC
        for s in range(min(NC, length - first)):
            row = keys[kv, first + s]
            for d in range(depth):
                columns[at + d * NC + s] = row[d]
            for part in range(across):
                row = values[kv, first + s, part * NC : min(depth, (part + 1) * NC)]
                to = ((kv * across + part) * length + first + s) * NC
                for d in range(row.size):
                    panels[to + d] = row[d]


@kernel
def prefill(lo, hi, q, columns, panels, length, kv_heads, depth, tokens, out):
    """Jobs ``[lo, hi)`` of (head, block of queries); ``q`` ``[heads, tokens, depth]``, ``out`` ``[T, H, D]``."""
    heads = out.shape[1]
    parts = (tokens + _QUERIES - 1) // _QUERIES
    blocks, across = (length + NC - 1) // NC, (depth + NC - 1) // NC
    scores, sums = np.empty((_QUERIES, blocks * NC), np.float32), np.empty((_QUERIES, depth), np.float32)
    shares, zero, clamp = np.empty(_QUERIES, np.float32), np.zeros(max(blocks, across) * NC, np.float32), _NO_CLAMP
    for job in range(lo, hi):
        head, first = job // parts, job % parts * _QUERIES
        count = min(_QUERIES, tokens - first)
        kv = head // (heads // kv_heads)
        before = length - tokens + first
        past = before + count
        for block in range((past + NC - 1) // NC):
            keys = (columns, (kv * blocks + block) * depth * NC, depth)
            panel_rows(q[head, first : first + count], 0, count, keys, 0, (zero, zero, block * NC), clamp, scores)
        for i in range(count):
            visible = before + i + 1
            shares[i] = _softmax(scores[i, :visible])
            for s in range(visible, past):
                scores[i, s] = _ZERO
        for part in range(across):
            values = (panels, (kv * across + part) * length * NC, past)
            panel_rows(scores, 0, count, values, 0, (zero, zero, part * NC), clamp, sums)
        for i in range(count):
            to = out[first + i, head]
            for d in range(depth):
                to[d] = sums[i, d] * shares[i]


def attention(
    q: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    length: int,
    threads: int | None = None,
) -> np.ndarray:
    """Causal attention of ``q`` [T, H, D] on the first ``length`` rows of the caches [Hkv, S, D] -> [T, H, D].

    ``H`` must be a multiple of ``Hkv``; the last T rows of the cache belong to the queries themselves, whose products
    are scaled by ``1 / sqrt(D)``. Relative error of the order of ``(D + length) 2**-24``.
    """
    whole("q", q, np.float32, 3)
    whole("keys", keys, np.float32, 3)
    whole("values", values, np.float32, 3)
    tokens, heads, depth = q.shape
    require(keys.shape == values.shape, f"values have shape {values.shape}; allowed: {keys.shape}, as keys")
    kv_heads = keys.shape[0]
    require(
        keys.shape[2] == depth and (heads % kv_heads == 0 if kv_heads else heads == 0),
        f"keys have shape {keys.shape}; allowed: [divisor of {heads} heads, capacity, {depth}]",
    )
    require(tokens <= length <= keys.shape[1], f"length is {length}; allowed: {tokens} to {keys.shape[1]}")
    out = np.empty(q.shape, np.float32)
    if out.size == 0:
        return out
    queries = fresh((heads, tokens, depth))
    np.multiply(q.transpose(1, 0, 2), np.float32(1 / math.sqrt(depth)), out=queries)
    if tokens < PREFILL:
        over_range(stream, heads * tokens, queries, keys, values, length, out, threads=threads)
        return out
    blocks, across = -(-length // NC), -(-depth // NC)
    columns, panels = (fresh((kv_heads * n * NC,), zero=True) for n in (blocks * depth, across * length))
    over_range(lay_out, kv_heads * blocks, keys, values, length, columns, panels, threads=threads)
    arguments = (queries, columns, panels, length, kv_heads, depth, tokens, out)
    over_range(prefill, heads * -(-tokens // _QUERIES), *arguments, threads=threads)
    return out
