"""The ends of Wide & Deep: hash ids, gather embeddings beside numeric inputs, sum the wide part; then the last product,
the sum of both parts and the sigmoid.

The hash is splitmix64's finaliser over ``id + (field + 1) * golden``, reduced to a bucket by the high half
of a product.
"""

import numpy as np

from engine.kernels.events.rng import mix
from engine.kernels.jit import inner, kernel
from engine.lab.ir.lanes import LINE, prefetch
from engine.lab.ranges import over_range, require, whole

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_S32 = np.uint64(32)
_AHEAD = 2
"""Samples whose rows are hashed and requested before they are copied. [samples]"""
NO_GAIN = np.empty(0, np.float32)


@inner
def bucket_of(value, field, buckets):
    """Bucket of a 64-bit id in a field: wrapping unsigned arithmetic."""
    z = mix(np.uint64(value) + (np.uint64(field) + np.uint64(1)) * _GOLDEN)
    return np.int64(((z >> _S32) * np.uint64(buckets)) >> _S32)


@kernel
def hash_range(lo, hi, ids, buckets, out):
    """Buckets of samples ``[lo, hi)``."""
    for b in range(lo, hi):
        for f in range(ids.shape[1]):
            out[b, f] = bucket_of(ids[b, f], f, buckets)


@inner
def _request(ids, buckets, tables, rows):
    """Rows of a sample's ids in each field's table into ``rows``, asked for in advance."""
    width, flat, line = tables.shape[2], tables.reshape(-1), LINE // tables.itemsize
    for f in range(ids.size):
        rows[f] = bucket_of(ids[f], f, buckets)
        for c in range(0, width, line):
            prefetch(flat, (f * buckets + rows[f]) * width + c)


@kernel
def gather_range(lo, hi, ids, numeric, gain, shift, tables, wide, deep_out, wide_out):
    """Deep inputs and wide logits of samples ``[lo, hi)``; rows are requested ``_AHEAD`` samples before their copy.

    Where ``gain`` is not empty, tables hold the first product's 8-bit inputs, a lookup copies bytes, and numbers become
    ``rint(number * gain[c] - shift)``, clipped to 0..255; columns of ``deep_out`` beyond them are left.
    """
    fields, buckets, width = tables.shape
    rows = np.empty((_AHEAD + 1, fields), np.int64)
    for step in range(lo, hi + _AHEAD):
        if step < hi:
            _request(ids[step], buckets, tables, rows[step % (_AHEAD + 1)])
        b = step - _AHEAD
        if b >= lo:
            to = deep_out[b]
            total = np.float32(0)
            for f in range(fields):
                row = rows[b % (_AHEAD + 1), f]
                source, part = tables[f, row], to[f * width : (f + 1) * width]
                for c in range(width):
                    part[c] = source[c]
                total += wide[f, row]
            numbers = to[fields * width :]
            if gain.size > 0:
                for c in range(numeric.shape[1]):
                    code = np.rint(numeric[b, c] * gain[c] - shift)
                    numbers[c] = np.int32(min(max(code, np.float32(0)), np.float32(255)))
            else:
                for c in range(numeric.shape[1]):
                    numbers[c] = numeric[b, c]
            wide_out[b] = total


@inner(fastmath={"reassoc", "nsz", "contract"})
def _dot(row, weight):
    """Sum of products in the order the target's vectors give, fixed for a length; of codes exact."""
    total = row[0] * weight[0]
    for c in range(1, row.size):
        total += row[c] * weight[c]
    return total


@kernel
def head_range(lo, hi, hidden, weight, scale, bias, numeric, wide_numeric, wide_sum, out):
    """Chance of a click of samples ``[lo, hi)``: last product, of float32 or of codes, wide part and sigmoid."""
    for b in range(lo, hi):
        deep, wide = _dot(hidden[b], weight), _dot(numeric[b], wide_numeric)
        logit = np.float32(deep) * scale + bias + wide_sum[b] + wide
        out[b] = np.float32(1) / (np.float32(1) + np.exp(-logit))


def hash_ids(ids: np.ndarray, buckets: int, *, threads: int | None = None) -> np.ndarray:
    """Bucket in ``[0, buckets)`` of every id: ``ids`` int64 or uint64 ``[batch, fields]``, result int64."""
    require(isinstance(ids, np.ndarray) and ids.dtype in (np.int64, np.uint64), "ids must be int64 or uint64")
    whole("ids", ids, ids.dtype, 2)
    require(1 <= buckets < 2**32, f"buckets is {buckets}; allowed: 1 to 2^32 - 1")
    out = np.empty(ids.shape, np.int64)
    over_range(hash_range, ids.shape[0], ids.view(np.uint64), buckets, out, threads=threads, grain=64)
    return out
