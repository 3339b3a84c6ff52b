"""Rotary position embedding over float32 heads: each pair (i, i + D/2) of a head turned by its position's angle."""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import kernel
from engine.lab.threads.ranges import over_range, require, whole


def rotary_angles(positions: np.ndarray, depth: int, base: float = 10_000.0) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines float32 ``[tokens, depth / 2]`` of ``position * base ** (-2 i / depth)``. [rad]"""
    require(depth >= 2 and depth % 2 == 0, f"depth is {depth}; allowed: an even number, 2 or more")
    angles = np.asarray(positions, np.float64)[:, None] * base ** (-np.arange(0, depth, 2) / depth)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


@kernel
def rotary_tokens(lo, hi, x, cosine, sine, out):
    """Tokens ``[lo, hi)``, every head."""
    half = x.shape[2] // 2
    for t in range(lo, hi):
        c, s = cosine[t], sine[t]
        for h in range(x.shape[1]):
            left, right, to_left, to_right = x[t, h, :half], x[t, h, half:], out[t, h, :half], out[t, h, half:]
            for i in range(half):
                a, b = left[i], right[i]
                to_left[i] = np.float32(a * c[i]) - np.float32(b * s[i])
                to_right[i] = np.float32(b * c[i]) + np.float32(a * s[i])


def rotary(
    x: np.ndarray, cosine: np.ndarray, sine: np.ndarray, *, out: np.ndarray | None = None, threads: int | None = None
) -> np.ndarray:
    """``x`` ``[tokens, heads, D]`` turned by ``cosine`` and ``sine`` ``[tokens, D / 2]``; ``out`` may be ``x``."""
    whole("x", x, np.float32, 3)
    tokens, heads, depth = x.shape
    require(depth % 2 == 0, f"x has heads of {depth} values; allowed: an even number")
    for name, table in (("cosine", cosine), ("sine", sine)):
        shape = (tokens, depth // 2)
        require(whole(name, table, np.float32, 2).shape == shape, f"{name} is {table.shape}; allowed: {shape}")
    result = np.empty_like(x) if out is None else whole("out", out, np.float32, 3)
    require(result.shape == x.shape, f"out is {result.shape}; allowed: {x.shape}")
    over_range(
        rotary_tokens, tokens, x, cosine, sine, result, threads=threads, grain=1 + 16384 // max(1, heads * depth)
    )
    return result
