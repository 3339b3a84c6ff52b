"""Attention with a key/value cache: one token (decode) or many (prefill), causal, grouped heads.

::

    attention(q, keys, values, length)   # q float32 [T, H, D]; caches [Hkv, S, D], first ``length`` rows valid
                                         # -> float32 [T, H, D]

Query i stands at position ``length - T + i`` and sees itself and what precedes it. Caches are float32, or uint16
patterns of ``bf16`` or ``fp16``. A few tokens stream the cache, row by row: the bound is one read of it. Many tokens
(prefill) lay keys and values out once and multiply blocks of queries by them, with the tile of the convolution. A
query's sums have one order whatever the block or thread it falls in.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from engine.kernels.jit import inner, kernel
from engine.lab.ir.attention import CACHED, store_value, weighted_rows, widen
from engine.lab.ir.conv import tile_rows
from engine.lab.ir.dot import AHEAD, ROWS, SPAN, STORED, dot_tile
from engine.lab.ir.lanes import lanes, prefetch
from engine.lab.ir.microkernel import VL
from engine.lab.operators.conv import LINEAR, sweep_block
from engine.lab.operators.gemm import output
from engine.lab.operators.pointwise import exp32
from engine.lab.operators.softmax import row_max, row_sum
from engine.lab.ranges import fresh, over_range, require, whole

CacheFormat = Literal["f32", "bf16", "fp16"]
PREFILL = 16
"""Fewest tokens worth laying the cache out for. [tokens]"""
_SPAN, _LANES = SPAN["f32"], lanes()
_WIDE = 4 * _LANES
_QUERIES = 8 * tile_rows(4)
"""Queries of a prefill block: their scores and a head's keys share a second-level cache."""
_ZERO, _ONE = np.float32(0), np.float32(1)
_dot, _wide, _thin = dot_tile(1), weighted_rows(4), weighted_rows(1)


@inner
def ask_ahead(array, start):
    """Ask for what a kernel that reads on from ``start`` of a flat array will not have asked for in time."""
    line = 64 // array.itemsize
    for i in range(AHEAD // 64):
        prefetch(array, start + i * line)


@inner
def _softmax(row):
    """``row`` to the exponentials of its distance to its maximum; returns one over their sum."""
    top = row_max(row)
    for s in range(row.size):
        row[s] = exp32(np.float32(row[s] - top))
    return np.float32(_ONE / row_sum(row))


@inner
def attend_head(q, q_off, keys, values, start, visible, depth, zero, scores, out, to):
    """One query on one head: rows ``start + s * depth`` of the flat caches for ``s < visible``, into ``out[to:]``.

    ``q`` is scaled and readable, as zeros, to a whole vector; ``scores`` holds ``visible + ROWS`` values.
    """
    for s in range(0, visible, ROWS):
        at = start + s * depth
        _dot(keys, at, depth, visible - s, q, q_off, depth, depth, zero, 0, scores, s, 1, 1)
    ask_ahead(values, start)
    share = _softmax(scores[:visible])
    d = 0
    while d < depth:
        if d + 4 * VL <= depth:
            _wide(scores, 0, values, start + d, depth, visible, out, to + d)
            d += 4 * VL
        elif d + VL <= depth:
            _thin(scores, 0, values, start + d, depth, visible, out, to + d)
            d += VL
        else:
            total = _ZERO
            for s in range(visible):
                total += np.float32(scores[s] * widen(values[start + s * depth + d]))
            out[to + d] = total
            d += 1
    for d in range(depth):
        out[to + d] *= share


@kernel
def stream(lo, hi, q, deep, keys, values, length, shared, depth, tokens, out):
    """Jobs ``[lo, hi)`` of (head, token); flat arrays, ``q`` ``[heads, tokens, deep]``."""
    heads = out.size // (tokens * depth)
    capacity = keys.size // (shared * depth)
    scores, zero = np.empty(length + ROWS, np.float32), np.zeros(1, np.float32)
    for job in range(lo, hi):
        head, i = job // tokens, job % tokens
        start = head // (heads // shared) * capacity * depth
        to = (i * heads + head) * depth
        attend_head(
            q, (head * tokens + i) * deep, keys, values, start, length - tokens + i + 1, depth, zero, scores, out, to
        )


@kernel
def lay_out(lo, hi, keys, values, length, turned, panels):
    """Jobs ``[lo, hi)`` of (head, block of rows): keys turned to ``[D, columns]``, values in panels of as many."""
    depth = keys.shape[2]
    blocks = (length + _WIDE - 1) // _WIDE
    across = (depth + _WIDE - 1) // _WIDE
    for job in range(lo, hi):
        kv, block = job // blocks, job % blocks
        first = block * _WIDE
        count = min(_WIDE, length - first)
        at = job * depth * _WIDE
        for s in range(_WIDE):
            if s < count:
                row = keys[kv, first + s]
                for d in range(depth):
                    turned[at + d * _WIDE + s] = widen(row[d])
            else:
                for d in range(depth):
                    turned[at + d * _WIDE + s] = _ZERO
        for part in range(across):
            width = min(_WIDE, depth - part * _WIDE)
            for s in range(count):
                row = values[kv, first + s, part * _WIDE : part * _WIDE + width]
                to = ((kv * across + part) * length + first + s) * _WIDE
                for d in range(width):
                    panels[to + d] = widen(row[d])


@kernel
def prefill(lo, hi, q, turned, panels, length, shared, depth, tokens, out):
    """Jobs ``[lo, hi)`` of (head, block of queries); ``q`` flat ``[heads, tokens, depth]``, ``out`` ``[T, H, D]``."""
    heads = out.shape[1]
    parts = (tokens + _QUERIES - 1) // _QUERIES
    blocks, across = (length + _WIDE - 1) // _WIDE, (depth + _WIDE - 1) // _WIDE
    pitch = blocks * _WIDE
    scores, sums = np.empty(_QUERIES * pitch, np.float32), np.empty(_QUERIES * depth, np.float32)
    shares, zero, taps = np.empty(_QUERIES, np.float32), np.zeros(_WIDE, np.float32), np.zeros(1, np.int64)
    rows, places, finals = np.arange(_QUERIES) * depth, np.arange(_QUERIES) * pitch, np.arange(_QUERIES) * depth
    for job in range(lo, hi):
        head, first = job // parts, job % parts * _QUERIES
        count = min(_QUERIES, tokens - first)
        kv = head // (heads // shared)
        before = length - tokens + first
        seen = before + count
        for block in range((seen + _WIDE - 1) // _WIDE):
            sweep_block(
                4,
                0,
                count,
                q,
                rows,
                (head * tokens + first) * depth,
                taps,
                depth,
                1,
                turned,
                (kv * blocks + block) * depth * _WIDE,
                zero,
                0,
                LINEAR,
                scores,
                places,
                block * _WIDE,
                _WIDE,
            )
        for i in range(count):
            visible = before + i + 1
            shares[i] = _softmax(scores[i * pitch : i * pitch + visible])
            for s in range(visible, seen):
                scores[i * pitch + s] = _ZERO
        for part in range(across):
            width = min(_WIDE, depth - part * _WIDE)
            sweep_block(
                4,
                0,
                count,
                scores,
                places,
                0,
                taps,
                seen,
                1,
                panels,
                (kv * across + part) * length * _WIDE,
                zero,
                0,
                LINEAR,
                sums,
                finals,
                part * _WIDE,
                width,
            )
        for i in range(count):
            to = out[first + i, head]
            for d in range(depth):
                to[d] = sums[i * depth + d] * shares[i]


@kernel
def append_rows(rows, cache, length, stored):
    """``rows`` [T, H, D] behind ``length`` rows of ``cache`` [H, S, D], in the format numbered ``stored``."""
    heads, capacity, depth = cache.shape
    flat = cache.reshape(-1)
    for h in range(heads):
        for t in range(rows.shape[0]):
            at = (h * capacity + length + t) * depth
            for d in range(depth):
                store_value(flat, at + d, rows[t, h, d], stored)


def _cached(stored: str) -> type:
    require(stored in CACHED, f"stored is {stored!r}; allowed: {', '.join(CACHED)}")
    return np.float32 if stored == "f32" else np.uint16


def append(cache: np.ndarray, rows: np.ndarray, length: int, stored: CacheFormat = "f32") -> int:
    """Write ``rows`` float32 [T, Hkv, D] into ``cache`` [Hkv, S, D] behind its ``length`` rows; the new length."""
    whole("cache", cache, _cached(stored), 3)
    whole("rows", rows, np.float32, 3)
    heads, capacity, depth = cache.shape
    require(rows.shape[1:] == (heads, depth), f"rows have shape {rows.shape[1:]}; allowed: {(heads, depth)}")
    require(0 <= length <= capacity - len(rows), f"length is {length}; allowed: 0 to {capacity - len(rows)}")
    append_rows(rows, cache.view(STORED[stored]), length, CACHED.index(stored))
    return length + len(rows)


def attention(
    q: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    length: int,
    scale: float | None = None,
    out: np.ndarray | None = None,
    threads: int | None = None,
    stored: CacheFormat = "f32",
) -> np.ndarray:
    """Causal attention of ``q`` [T, H, D] on the first ``length`` rows of the caches [Hkv, S, D] -> [T, H, D].

    ``H`` must be a multiple of ``Hkv``; ``scale`` defaults to ``1 / sqrt(D)``; the last T rows of the cache belong to
    the queries themselves. Caches as ``stored``; float32 arithmetic, relative error of the order of
    ``(D + length) 2**-24``.
    """
    whole("q", q, np.float32, 3)
    whole("keys", keys, _cached(stored), 3)
    whole("values", values, _cached(stored), 3)
    tokens, heads, depth = q.shape
    require(keys.shape == values.shape, f"values have shape {values.shape}; allowed: {keys.shape}, as keys")
    shared = keys.shape[0]
    require(
        keys.shape[2] == depth and (heads % shared == 0 if shared else heads == 0),
        f"keys have shape {keys.shape}; allowed: [divisor of {heads} heads, capacity, {depth}]",
    )
    require(tokens <= length <= keys.shape[1], f"length is {length}; allowed: {tokens} to {keys.shape[1]}")
    out = output(out, q.shape, np.float32)
    if out.size == 0:
        return out
    keys, values = keys.view(STORED[stored]), values.view(STORED[stored])
    rate = np.float32(1 / math.sqrt(depth) if scale is None else scale)
    if tokens < PREFILL:
        deep = -(-depth // _SPAN) * _SPAN
        turned = fresh((heads, tokens, deep), zero=True)
        np.multiply(q.transpose(1, 0, 2), rate, out=turned[..., :depth])
        over_range(
            stream,
            heads * tokens,
            turned.reshape(-1),
            deep,
            keys.reshape(-1),
            values.reshape(-1),
            length,
            shared,
            depth,
            tokens,
            out.reshape(-1),
            threads=threads,
        )
        return out
    blocks, across = -(-length // _WIDE), -(-depth // _WIDE)
    turned = fresh((heads, tokens, depth))
    np.multiply(q.transpose(1, 0, 2), rate, out=turned)
    laid, panels = fresh((shared * blocks * depth * _WIDE,)), fresh((shared * across * length * _WIDE,), zero=True)
    over_range(lay_out, shared * blocks, keys, values, length, laid, panels, threads=threads)
    over_range(
        prefill,
        heads * -(-tokens // _QUERIES),
        turned.reshape(-1),
        laid,
        panels,
        length,
        shared,
        depth,
        tokens,
        out,
        threads=threads,
    )
    return out
