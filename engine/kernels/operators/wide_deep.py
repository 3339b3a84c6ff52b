"""The front of Wide & Deep: hash categorical ids, gather embeddings beside numeric inputs, sum the wide part.

The hash is splitmix64's finaliser over ``id + (field + 1) * golden``, reduced to a bucket by the high half
of a product.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import inner, kernel
from engine.kernels.operators.lanes import prefetch
from engine.kernels.operators.ranges import over_range, require, whole

__all__ = ["hash_ids", "wide_deep_inputs"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)
_AHEAD = 2
"""Samples whose rows are hashed and requested before they are copied. [samples]"""
LINE_FLOATS = 16


@inner
def bucket_of(value, field, buckets):
    """Bucket of a 64-bit id in a field: wrapping unsigned arithmetic."""
    z = np.uint64(value) + (np.uint64(field) + np.uint64(1)) * _GOLDEN
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    z = z ^ (z >> _S31)
    return np.int64(((z >> _S32) * np.uint64(buckets)) >> _S32)


@kernel
def hash_range(lo, hi, ids, buckets, out):
    """Buckets of samples ``[lo, hi)``."""
    for b in range(lo, hi):
        for f in range(ids.shape[1]):
            out[b, f] = bucket_of(ids[b, f], f, buckets)


@kernel
def gather_range(lo, hi, ids, numeric, tables, wide, deep_out, wide_out):
    """Deep inputs and wide logits of samples ``[lo, hi)``; rows are requested ``_AHEAD`` samples before their copy."""
    fields, buckets, width = tables.shape
    rows = np.empty((_AHEAD + 1, fields), np.int64)
    flat = tables.reshape(-1)
    for step in range(lo, hi + _AHEAD):
        if step < hi:
            for f in range(fields):
                row = bucket_of(ids[step, f], f, buckets)
                rows[step % (_AHEAD + 1), f] = row
                for c in range(0, width, LINE_FLOATS):
                    prefetch(flat, (f * buckets + row) * width + c)
        b = step - _AHEAD
        if b >= lo:
            to = deep_out[b]
            total = np.float32(0)
            for f in range(fields):
                row = rows[b % (_AHEAD + 1), f]
                source = tables[f, row]
                for c in range(width):
                    to[f * width + c] = source[c]
                total += wide[f, row]
            for c in range(numeric.shape[1]):
                to[fields * width + c] = numeric[b, c]
            wide_out[b] = total


def hash_ids(ids: np.ndarray, buckets: int, *, threads: int | None = None) -> np.ndarray:
    """Bucket in ``[0, buckets)`` of every id: ``ids`` int64 or uint64 ``[batch, fields]``, result int64."""
    require(isinstance(ids, np.ndarray) and ids.dtype in (np.int64, np.uint64), "ids must be int64 or uint64")
    whole("ids", ids, ids.dtype, 2)
    require(1 <= buckets < 2**32, f"buckets is {buckets}; allowed: 1 to 2^32 - 1")
    out = np.empty(ids.shape, np.int64)
    over_range(hash_range, ids.shape[0], ids.view(np.uint64), buckets, out, threads=threads, grain=64)
    return out


def wide_deep_inputs(
    ids: np.ndarray,
    numeric: np.ndarray,
    tables: np.ndarray,
    wide: np.ndarray,
    *,
    threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Input of the first deep layer ``[batch, fields * width + numerics]`` and the wide logit ``[batch]``.

    Parameters
    ----------
    ids : int64 or uint64 ``[batch, fields]`` raw ids; numeric : float32 ``[batch, numerics]``.
    tables : float32 ``[fields, buckets, width]``; wide : float32 ``[fields, buckets]``, one weight per bucket.
    """
    require(isinstance(ids, np.ndarray) and ids.dtype in (np.int64, np.uint64), "ids must be int64 or uint64")
    whole("ids", ids, ids.dtype, 2)
    whole("tables", tables, np.float32, 3)
    fields, buckets, width = tables.shape
    require(ids.shape[1] == fields, f"ids has {ids.shape[1]} fields; the tables have {fields}")
    require(1 <= buckets < 2**32, f"tables has {buckets} buckets; allowed: 1 to 2^32 - 1")
    require(
        whole("wide", wide, np.float32, 2).shape == (fields, buckets),
        f"wide is {wide.shape}; allowed: {(fields, buckets)}",
    )
    require(whole("numeric", numeric, np.float32, 2).shape[0] == ids.shape[0], f"numeric needs {ids.shape[0]} rows")
    deep = np.empty((ids.shape[0], fields * width + numeric.shape[1]), np.float32)
    logit = np.empty(ids.shape[0], np.float32)
    over_range(
        gather_range, ids.shape[0], ids.view(np.uint64), numeric, tables, wide, deep, logit, threads=threads, grain=32
    )
    return deep, logit
