"""Chains of operators run depth first.

Breadth first (a framework without fusion) finishes a whole layer before the next, so every intermediate goes through
memory. Depth first (document 003, SOL) takes a few output rows through all layers while they lie in cache. Both use the
same kernels on the same values in the same order, hence give the same bits; only the traffic differs.

Windows are reduced down the rows, then across the columns: ``KH + KW`` reads for each output instead of ``KH * KW``.
"""

import numpy as np

from engine.kernels.jit import inner, kernel
from engine.lab.operators.conv import LINEAR, PackedConv, bordered_by, conv_pixels
from engine.lab.ranges import output, over_range, require, whole

_ZERO, _LOWEST = np.float32(0), np.float32(-np.inf)
STRIP = 2048
"""Elements of a line of maxima: it and three stretches of input lie in a first-level cache together."""


@inner
def _value(values, i, affine):
    """One value as it is read: where ``affine`` holds a gain and a shift, normalised."""
    if affine is None:
        return values[i]
    gain, shift = affine
    return np.float32(values[i] * gain[i]) + shift[i]


@inner
def _highest(line, flat, start, row, count, lowest, affine):
    """``line`` = largest of ``count`` stretches of ``flat`` from ``start`` on, ``row`` apart: no less than ``lowest``.

    The usual windows read every stretch and write the line in one pass; one of two stretches reads the last one twice.
    """
    size, second, three = line.size, start + min(1, count - 1) * row, start + min(2, count - 1) * row
    a, b, c = flat[start : start + size], flat[second : second + size], flat[three : three + size]
    for i in range(np.uintp(size)):
        value = _value(a, i, affine)
        best = value if value > lowest else lowest
        value = _value(b, i, affine)
        best = value if value > best else best
        value = _value(c, i, affine)
        line[i] = value if value > best else best
    for k in range(3, count):
        values = flat[start + k * row : start + k * row + size]
        for i in range(np.uintp(size)):
            value = _value(values, i, affine)
            line[i] = value if value > line[i] else line[i]


@inner
def _across(line, window, stride, channels, out):
    """Windows of so many pixels of a flat line to their maxima.

    Offsets are unsigned: an index that may be negative costs a test for every element.
    """
    span = np.uintp(channels)
    second, three = np.uintp(min(1, window - 1)) * span, np.uintp(min(2, window - 1)) * span
    for ow in range(out.size // channels):
        to, first = np.uintp(ow) * span, np.uintp(ow * stride) * span
        for c in range(span):
            best, value = line[first + c], line[first + second + c]
            best = value if value > best else best
            value = line[first + three + c]
            out[to + c] = value if value > best else best
        for k in range(3, window):
            at = first + np.uintp(k) * span
            for c in range(span):
                value, best = line[at + c], out[to + c]
                out[to + c] = value if value > best else best


@kernel
def conv_pool_rows(lo, hi, source, weights, image, pooling, channels, tile_rows, out):
    """Pooled rows ``[lo, hi)`` over all images, ``tile_rows`` at a time: convolve what they need, pool it.

    ``image`` is height and width of a convolved image, ``pooling`` window and stride, pooled rows and columns.
    """
    x, pixels, taps, run = source
    height, wide = image
    window, stride, rows, columns = pooling
    deepest = (tile_rows - 1) * stride + window
    hidden = np.empty((deepest * wide, channels), np.float32)
    flat, row = hidden.reshape(-1), wide * channels
    top = np.empty(row, np.float32)
    r = lo
    while r < hi:
        line, count = r % rows, min(tile_rows, hi - r, rows - r % rows)
        start = (r // rows * height + line * stride) * wide
        depth = ((count - 1) * stride + window) * wide
        part = (x, pixels[start : start + depth], taps, run)
        conv_pixels(0, depth, part, weights, LINEAR, hidden)
        for i in range(count):
            _highest(top, flat, i * stride * row, row, window, _ZERO, None)
            at = (r + i) * columns * channels
            _across(top, window, stride, channels, out[at : at + columns * channels])
        r += count


def conv_relu_pool_depth_first(
    x: np.ndarray,
    packed: PackedConv,
    window: int,
    stride: int,
    *,
    tile_rows: int = 4,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """Convolution, then ReLU, then max pool, by tiles of ``tile_rows`` pooled rows.

    The convolution's output never reaches memory.

    Rows shared by two tiles (when ``window > stride``) are convolved twice.
    """
    whole("x", x, np.float32, 4)
    require(x.shape[3] == packed.channels_in, f"x has {x.shape[3]} channels; the weights take {packed.channels_in}")
    require(min(window, stride, tile_rows) >= 1, "window, stride and tile_rows must be 1 or more")
    padded = bordered_by(x, packed.padding)
    high, wide = packed.extents(*padded.shape[1:3])
    rows, columns = (max(0, (n - window) // stride + 1) for n in (high, wide))
    out = output(out, (x.shape[0], rows, columns, packed.channels_out), np.float32)
    if out.size == 0:
        return out
    arguments = (
        *packed.arguments(padded),
        (high, wide),
        (window, stride, rows, columns),
        packed.channels_out,
        tile_rows,
        out.reshape(-1),
    )
    over_range(conv_pool_rows, x.shape[0] * rows, *arguments, threads=threads)
    return out


@kernel
def pool_rows(lo, hi, x, affine, window, stride, lowest, block, out):
    """Pooled rows ``[lo, hi)`` over all images, ``block`` pooled columns at a time: the input under them is normalised
    and at once reduced to a line that stays in the first-level cache, no value of it less than ``lowest``. ``affine``
    is None, or a gain and a shift that are repeated over as many pixels as a block needs.
    """
    high, wide, channels = x.shape[1], x.shape[2], x.shape[3]
    rows, columns = out.shape[1], out.shape[2]
    row, row_out = wide * channels, columns * channels
    line = np.empty(((block - 1) * stride + window) * channels, np.float32)
    flat, to = x.reshape(-1), out.reshape(-1)
    for r in range(lo, hi):
        first = (r // rows * high + r % rows * stride) * row
        for column in range(0, columns, block):
            count = min(block, columns - column)
            size = ((count - 1) * stride + window) * channels
            part = line[:size]
            start = first + column * stride * channels
            _highest(part, flat, start, row, window, lowest, affine)
            at = r * row_out + column * channels
            _across(part, window, stride, channels, to[at : at + count * channels])


def max_pool(
    x: np.ndarray,
    window: int,
    stride: int,
    *,
    relu: bool = False,
    affine: tuple[np.ndarray, np.ndarray] | None = None,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """Maximum over each window of ``x`` ``[N, H, W, C]`` float32, whole windows only, a few rows at a time.

    With ``relu`` of ``max(x, 0)``; with ``affine`` of the ReLU of a batch norm of that gain and shift, a value a
    channel each. Depth first in either case: one read of ``x``, one write of the result.
    """
    channels = whole("x", x, np.float32, 4).shape[3]
    for name, values in zip(("gain", "shift"), affine or ()):
        require(whole(name, values, np.float32, 1).size == channels, f"{name} needs {channels} values, one per channel")
    require(min(window, stride) >= 1, "window and stride must be 1 or more")
    rows, columns = (max(0, (n - window) // stride + 1) for n in x.shape[1:3])
    out = output(out, (x.shape[0], rows, columns, channels), np.float32)
    if out.size:
        block = max(1, min(columns, STRIP // (stride * channels)))
        pixels, lowest = (block - 1) * stride + window, _ZERO if relu or affine else _LOWEST
        tiles = affine and tuple(np.tile(values, pixels) for values in affine)
        over_range(pool_rows, x.shape[0] * rows, x, tiles, window, stride, lowest, block, out, threads=threads)
    return out
