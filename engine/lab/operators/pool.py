"""Max, average, global and adaptive pooling of any window over channels-last arrays.

A window is reduced in two passes, down the rows and then across the columns, so a large window costs
``KH + KW`` reads per output instead of ``KH * KW`` and a global pool reads its input once: seed 000 found average
pooling of full images the slowest operator of a vision network until every window size was served well. Average
windows may differ per output (adaptive pooling), so a window is a pair of bounds. [-]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from engine.kernels.jit import inner, kernel
from engine.lab.threads.ranges import over_range, require, whole

STRIP = 2048
"""Elements of a line of maxima: it and three stretches of input lie in a first-level cache together."""


@inner
def raise_line(line, values):
    """``line = max(line, values)``, flat and as long as both are; a NaN never wins."""
    for i in range(line.size):
        line[i] = values[i] if values[i] > line[i] else line[i]


@inner
def highest(line, flat, start, row, count, lowest):
    """``line`` = largest of ``count`` stretches of ``flat`` from ``start`` on, ``row`` apart: no less than ``lowest``.

    The usual windows read every stretch and write the line in one pass.
    """
    size = line.size
    if count == 2:
        one, two = flat[start : start + size], flat[start + row : start + row + size]
        for i in range(size):
            best = one[i] if one[i] > lowest else lowest
            line[i] = two[i] if two[i] > best else best
    elif count == 3:
        one, two = flat[start : start + size], flat[start + row : start + row + size]
        three = flat[start + 2 * row : start + 2 * row + size]
        for i in range(size):
            best = one[i] if one[i] > lowest else lowest
            best = two[i] if two[i] > best else best
            line[i] = three[i] if three[i] > best else best
    else:
        line[:] = lowest
        for k in range(count):
            raise_line(line, flat[start + k * row : start + k * row + size])


@inner
def across(line, left, right, base, channels, lowest, out):
    """Windows ``[left, right)`` of pixels to their maxima, flat: no less than ``lowest``; ``line`` begins at ``base``.

    Offsets are unsigned: an index that may be negative costs a test for every element.
    """
    span = np.uintp(channels)
    for ow in range(left.size):
        to, one = np.uintp(ow) * span, np.uintp(left[ow] - base) * span
        two, three, count = one + span, one + span + span, right[ow] - left[ow]
        if count == 3:
            for c in range(span):
                value = line[one + c]
                best = value if value > lowest else lowest
                value = line[two + c]
                best = value if value > best else best
                value = line[three + c]
                out[to + c] = value if value > best else best
        elif count == 2:
            for c in range(span):
                value = line[one + c]
                best = value if value > lowest else lowest
                value = line[two + c]
                out[to + c] = value if value > best else best
        else:
            for c in range(span):
                out[to + c] = lowest
            for _ in range(count):
                for c in range(span):
                    value, best = line[one + c], out[to + c]
                    out[to + c] = value if value > best else best
                one += span


@kernel
def max_rows(lo, hi, x, top, bottom, left, right, lowest, out):
    """Output rows ``[lo, hi)`` (over all images) of a max pool; window bounds are clipped to the image.

    A few columns at a time, so that the line under them stays in the first-level cache.
    """
    height, high, row_in = top.size, x.shape[1], x.shape[2] * x.shape[3]
    channels, columns = x.shape[3], left.size
    flat, to = x.reshape(-1), out.reshape(-1)
    block = max(1, min(columns, STRIP * columns // max(1, row_in)))
    widest = 0
    for first in range(0, columns, block):
        widest = max(widest, right[min(first + block, columns) - 1] - left[first])
    line = np.empty(widest * channels, x.dtype)
    for r in range(lo, hi):
        n, oh = r // height, r % height
        above = (n * high + top[oh]) * row_in
        for first in range(0, columns, block):
            past = min(first + block, columns)
            base = left[first]
            part = line[: (right[past - 1] - base) * channels]
            highest(part, flat, above + base * channels, row_in, bottom[oh] - top[oh], lowest)
            at = (r * columns + first) * channels
            mine = to[at : at + (past - first) * channels]
            across(part, left[first:past], right[first:past], base, channels, lowest, mine)


@kernel
def average_rows(lo, hi, x, top, bottom, left, right, count_down, count_across, out):
    """Output rows ``[lo, hi)`` (over all images) of an average pool; divisor = down * across counts."""
    height, wide, channels = top.size, x.shape[2], x.shape[3]
    line = np.empty((wide, channels), np.float32)
    for r in range(lo, hi):
        n, oh = r // height, r % height
        line[:, :] = np.float32(0)
        for h in range(top[oh], bottom[oh]):
            for w in range(wide):
                for c in range(channels):
                    line[w, c] += x[n, h, w, c]
        for ow in range(left.size):
            share = np.float32(1) / np.float32(max(count_down[oh] * count_across[ow], 1))
            for c in range(channels):
                out[n, oh, ow, c] = np.float32(0)
            for w in range(left[ow], right[ow]):
                for c in range(channels):
                    out[n, oh, ow, c] += line[w, c]
            for c in range(channels):
                out[n, oh, ow, c] *= share


def _pair(name: str, value: int | Sequence[int], least: int) -> tuple[int, int]:
    pair = (value, value) if isinstance(value, int) else tuple(int(v) for v in value)
    require(len(pair) == 2 and min(pair) >= least, f"{name} is {value}; allowed: one or two numbers, {least} or more")
    return pair[0], pair[1]


@lru_cache(maxsize=256)
def window_bounds(size: int, window: int, stride: int, padding: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First and past-the-end input of each output along one axis, clipped, and the unclipped count. [pixels]

    Kept, so not to be written to: working it out takes as long as pooling a small image.
    """
    count = max(0, (size + 2 * padding - window) // stride + 1)
    first = np.arange(count, dtype=np.int64) * stride - padding
    last = np.minimum(first + window, size + padding)
    return np.clip(first, 0, size), np.clip(last, 0, size), last - first


def _geometry(x: np.ndarray, window, stride, padding):  # type of the three: one or two numbers
    high = _pair("window", window, 1)
    step = _pair("stride", window if stride is None else stride, 1)
    edge = _pair("padding", padding, 0)
    require(
        all(2 * p <= k for p, k in zip(edge, high, strict=True)),
        f"padding is {padding}; allowed: up to half of {window}",
    )
    return [window_bounds(x.shape[1 + a], high[a], step[a], edge[a]) for a in (0, 1)]


def _result(x: np.ndarray, height: int, width: int, out: np.ndarray | None) -> np.ndarray:
    shape = (x.shape[0], height, width, x.shape[3])
    if out is None:
        return np.empty(shape, x.dtype)
    require(whole("out", out, x.dtype, 4).shape == shape, f"out is {out.shape}; allowed: {shape}")
    return out


def max_pool(
    x: np.ndarray,
    window: int | Sequence[int],
    *,
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """Maximum over each window of ``x`` ``[N, H, W, C]`` (float32, int8 or uint8); padding never wins."""
    require(
        isinstance(x, np.ndarray) and x.dtype in (np.float32, np.int8, np.uint8), "x must be float32, int8 or uint8"
    )
    whole("x", x, x.dtype, 4)
    (top, bottom, _), (left, right, _) = _geometry(x, window, stride, padding)
    lowest = np.float32(-np.inf) if x.dtype == np.float32 else x.dtype.type(np.iinfo(x.dtype).min)
    result = _result(x, top.size, left.size, out)
    over_range(max_rows, x.shape[0] * top.size, x, top, bottom, left, right, lowest, result, threads=threads)
    return result


def average_pool(
    x: np.ndarray,
    window: int | Sequence[int],
    *,
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    count_padding: bool = False,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """Mean over each window of ``x`` ``[N, H, W, C]`` float32; ``count_padding`` counts padded zeros in the divisor."""
    whole("x", x, np.float32, 4)
    (top, bottom, tall), (left, right, broad) = _geometry(x, window, stride, padding)
    if not count_padding:
        tall, broad = bottom - top, right - left
    result = _result(x, top.size, left.size, out)
    over_range(average_rows, x.shape[0] * top.size, x, top, bottom, left, right, tall, broad, result, threads=threads)
    return result


def adaptive_average_pool(
    x: np.ndarray, size: int | Sequence[int], *, out: np.ndarray | None = None, threads: int | None = None
) -> np.ndarray:
    """Mean of ``x`` ``[N, H, W, C]`` over ``size`` windows per axis: window ``i`` spans
    ``[floor(i * n / s), ceil((i + 1) * n / s))``."""
    whole("x", x, np.float32, 4)
    wanted = _pair("size", size, 1)
    require(min(x.shape[1:3]) >= 1, f"x is {x.shape}; allowed: at least one row and one column")
    bounds = []
    for axis in (0, 1):
        n, i = x.shape[1 + axis], np.arange(wanted[axis], dtype=np.int64)
        bounds.append((i * n // wanted[axis], -((-(i + 1) * n) // wanted[axis])))
    (top, bottom), (left, right) = bounds
    result = _result(x, top.size, left.size, out)
    over_range(
        average_rows,
        x.shape[0] * top.size,
        x,
        top,
        bottom,
        left,
        right,
        bottom - top,
        right - left,
        result,
        threads=threads,
    )
    return result


def global_average_pool(x: np.ndarray, *, threads: int | None = None) -> np.ndarray:
    """Mean of each channel over the image, ``[N, C]``."""
    pooled = adaptive_average_pool(x, 1, threads=threads)
    return pooled.reshape(x.shape[0], x.shape[3])
