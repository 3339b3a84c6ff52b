"""Chains of operators run depth first, and their breadth-first twins.

Breadth first (a framework without fusion) finishes a whole layer before the next, so every intermediate goes through
memory. Depth first (seed 003, SOL) takes a few output rows through all layers while they lie in cache. Both use the
same kernels on the same values in the same order, hence give the same bits; only the traffic differs.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import inner, kernel
from engine.kernels.operators.activation import activate
from engine.kernels.operators.conv import (
    LINEAR,
    WEIGHT_SEGMENT_BYTES,
    PackedConv,
    conv,
    conv_pixels,
    conv_shape,
    corner_offsets,
    pad_spatial,
    tap_offsets,
)
from engine.kernels.operators.lanes import lanes
from engine.kernels.operators.norm import batch_norm
from engine.kernels.operators.pool import max_pool
from engine.kernels.operators.ranges import over_range, require, whole

__all__ = [
    "affine_relu_pool_breadth_first",
    "affine_relu_pool_depth_first",
    "conv_relu_pool_breadth_first",
    "conv_relu_pool_depth_first",
]

_ZERO = np.float32(0)


def conv_relu_pool_breadth_first(
    x: np.ndarray, packed: PackedConv, window: int, stride: int, *, threads: int | None = None
) -> np.ndarray:
    """Convolution with bias, then ReLU, then max pool: three whole passes over memory."""
    hidden = conv(x, packed, threads=threads)
    hidden = activate(hidden, "relu", threads=threads)
    return max_pool(hidden, window, stride=stride, threads=threads)


@inner
def _pool_line(source, first_row, rows, wide, channels, window, stride, columns, out, at):
    """One output row of a ReLU and max pool over ``rows`` rows of ``source`` (flat, ``wide * channels`` a row)."""
    for ow in range(columns):
        target = out[at + ow * channels : at + (ow + 1) * channels]
        for c in range(channels):
            target[c] = _ZERO
        for i in range(rows):
            for k in range(window):
                start = ((first_row + i) * wide + ow * stride + k) * channels
                line = source[start : start + channels]
                for c in range(channels):
                    target[c] = line[c] if line[c] > target[c] else target[c]


@kernel
def conv_pool_rows(
    lo,
    hi,
    x,
    pixels,
    taps,
    run,
    group_in,
    weights,
    bias,
    blocks,
    segment,
    height,
    wide,
    window,
    stride,
    pooled,
    columns,
    channels,
    tile_rows,
    out,
):
    """Pooled rows ``[lo, hi)`` over all images, ``tile_rows`` at a time: convolve what they need, pool it."""
    deepest = (tile_rows - 1) * stride + window
    hidden = np.empty(deepest * wide * channels, np.float32)
    slots = np.arange(deepest * wide) * channels
    r = lo
    while r < hi:
        image, line = r // pooled, r % pooled
        count = min(tile_rows, hi - r, pooled - line)
        start = (image * height + line * stride) * wide
        depth = ((count - 1) * stride + window) * wide
        conv_pixels(
            0,
            depth,
            x,
            pixels[start : start + depth],
            taps,
            run,
            group_in,
            weights,
            bias,
            blocks,
            segment,
            LINEAR,
            hidden,
            slots,
        )
        for i in range(count):
            _pool_line(
                hidden, i * stride, window, wide, channels, window, stride, columns, out, (r + i) * columns * channels
            )
        r += count


def conv_relu_pool_depth_first(
    x: np.ndarray,
    packed: PackedConv,
    window: int,
    stride: int,
    *,
    tile_rows: int = 4,
    threads: int | None = None,
) -> np.ndarray:
    """The same chain by tiles of ``tile_rows`` pooled rows: the convolution's output never reaches memory.

    Rows shared by two tiles (when ``window > stride``) are convolved twice.
    """
    whole("x", x, np.float32, 4)
    require(len(packed.kernel) == 2, "packed must be a 2-D convolution")
    require(x.shape[3] == packed.channels_in, f"x has {x.shape[3]} channels; the weights take {packed.channels_in}")
    require(min(window, stride, tile_rows) >= 1, "window, stride and tile_rows must be 1 or more")
    high, wide = conv_shape(x.shape[1:3], packed)
    rows, columns = (max(0, (n - window) // stride + 1) for n in (high, wide))
    out = np.empty((x.shape[0], rows, columns, packed.channels_out), np.float32)
    if out.size == 0:
        return out
    padded = pad_spatial(x, packed.padding)
    pixels = corner_offsets(x.shape[0], padded.shape[1:3], x.shape[3], (high, wide), packed.stride)
    taps, run = tap_offsets(padded.shape[1:3], x.shape[3], packed)
    over_range(
        conv_pool_rows, x.shape[0] * rows, padded.reshape(-1), pixels, taps, run, packed.channels_in // packed.groups,
        packed.data, packed.bias, packed.blocks, WEIGHT_SEGMENT_BYTES // (4 * lanes()), high, wide, window, stride,
        rows, columns, packed.channels_out, tile_rows, out.reshape(-1), threads=threads,
    )  # fmt: skip
    return out


def affine_relu_pool_breadth_first(
    x: np.ndarray, gain: np.ndarray, shift: np.ndarray, window: int, stride: int, *, threads: int | None = None
) -> np.ndarray:
    """Batch norm, ReLU and max pool as three passes over memory."""
    hidden = batch_norm(x, gain, shift, threads=threads)
    hidden = activate(hidden, "relu", threads=threads)
    return max_pool(hidden, window, stride=stride, threads=threads)


@kernel
def affine_pool_rows(lo, hi, x, gain, shift, window, stride, out):
    """Pooled rows ``[lo, hi)`` over all images: normalise the rows under one output row, pool them, forget them."""
    wide, channels = x.shape[2], x.shape[3]
    pooled, columns = out.shape[1], out.shape[2]
    hidden = np.empty(window * wide * channels, np.float32)
    flat = out.reshape(-1)
    for r in range(lo, hi):
        image, line = r // pooled, r % pooled
        for i in range(window):
            for w in range(wide):
                source = x[image, line * stride + i, w]
                to = hidden[(i * wide + w) * channels : (i * wide + w + 1) * channels]
                for c in range(channels):
                    to[c] = np.float32(source[c] * gain[c]) + shift[c]
        _pool_line(hidden, 0, window, wide, channels, window, stride, columns, flat, r * columns * channels)


def affine_relu_pool_depth_first(
    x: np.ndarray, gain: np.ndarray, shift: np.ndarray, window: int, stride: int, *, threads: int | None = None
) -> np.ndarray:
    """The same chain a few rows at a time: one read of ``x``, one write of the result."""
    whole("x", x, np.float32, 4)
    for name, values in (("gain", gain), ("shift", shift)):
        require(
            whole(name, values, np.float32, 1).size == x.shape[3], f"{name} needs {x.shape[3]} values, one per channel"
        )
    require(min(window, stride) >= 1, "window and stride must be 1 or more")
    rows, columns = (max(0, (n - window) // stride + 1) for n in x.shape[1:3])
    out = np.empty((x.shape[0], rows, columns, x.shape[3]), np.float32)
    if out.size:
        over_range(affine_pool_rows, x.shape[0] * rows, x, gain, shift, window, stride, out, threads=threads)
    return out
