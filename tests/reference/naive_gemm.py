"""Slow twins of the matrix products: plain numpy, the definition and nothing else."""

import numpy as np

__all__ = [
    "attention",
    "binary_counts",
    "real",
    "real_bound",
    "requantised",
    "s32",
    "widened",
]

UNIT = 2.0**-24  # rounding unit of float32


def s32(a, b, zero_a=0, bias=None):
    """Integer product by definition, int64 inside."""
    total = (a.astype(np.int64) - zero_a) @ b.astype(np.int64)
    return total + (0 if bias is None else bias.astype(np.int64))


def requantised(sums, scale, zero_out, relu):
    """Scale in float32, round half to even, shift, clamp to a byte."""
    value = np.rint(sums.astype(np.int32).astype(np.float32) * scale).astype(np.float64) + zero_out
    return np.clip(value, zero_out if relu else 0, 255).astype(np.uint8)


def real(a, b, bias=None, relu=False):
    """Float64 product of float32 operands."""
    total = a.astype(np.float64) @ b.astype(np.float64) + (0 if bias is None else bias.astype(np.float64))
    return np.maximum(total, 0) if relu else total


def real_bound(a, b, bias=None):
    """Largest error of any order of float32 additions, element by element."""
    size = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    size = size + (0 if bias is None else np.abs(bias.astype(np.float64)))
    return 1.01 * (a.shape[1] + 2) * UNIT * size + 1e-37


def widened(bits, format):
    """Float32 values of stored patterns."""
    if format == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return bits.view(np.float16).astype(np.float32)


def binary_counts(x, w):
    """Differing bits of rows of packed bits."""
    a, b = np.unpackbits(x, axis=1), np.unpackbits(w, axis=1)
    return (a[:, None, :] != b[None, :, :]).sum(2)


def attention(q, keys, values, length):
    """Causal softmax attention in float64."""
    tokens, heads, depth = q.shape
    out = np.zeros(q.shape)
    for h in range(heads):
        kv = h // (heads // keys.shape[0])
        for i in range(tokens):
            seen = length - tokens + i + 1
            score = keys[kv, :seen].astype(np.float64) @ q[i, h].astype(np.float64) / np.sqrt(depth)
            weight = np.exp(score - score.max())
            out[i, h] = weight / weight.sum() @ values[kv, :seen].astype(np.float64)
    return out
