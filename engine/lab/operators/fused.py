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
_NONE = np.empty(0, np.float32)
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
        first, second = flat[start : start + size], flat[start + row : start + row + size]
        for i in range(size):
            best = first[i] if first[i] > lowest else lowest
            line[i] = second[i] if second[i] > best else best
    elif count == 3:
        first, second = flat[start : start + size], flat[start + row : start + row + size]
        three = flat[start + 2 * row : start + 2 * row + size]
        for i in range(size):
            best = first[i] if first[i] > lowest else lowest
            best = second[i] if second[i] > best else best
            line[i] = three[i] if three[i] > best else best
    else:
        line[:] = lowest
        for k in range(count):
            raise_line(line, flat[start + k * row : start + k * row + size])


@inner
def across(line, window, stride, channels, lowest, out):
    """Windows of so many pixels to their maxima, flat: no less than ``lowest``.

    Offsets are unsigned: an index that may be negative costs a test for every element.
    """
    span = np.uintp(channels)
    for ow in range(out.size // channels):
        to, first = np.uintp(ow) * span, np.uintp(ow * stride) * span
        second, three = first + span, first + span + span
        if window == 3:
            for c in range(span):
                value = line[first + c]
                best = value if value > lowest else lowest
                value = line[second + c]
                best = value if value > best else best
                value = line[three + c]
                out[to + c] = value if value > best else best
        elif window == 2:
            for c in range(span):
                value = line[first + c]
                best = value if value > lowest else lowest
                value = line[second + c]
                out[to + c] = value if value > best else best
        else:
            for c in range(span):
                out[to + c] = lowest
            for _ in range(window):
                for c in range(span):
                    value, best = line[first + c], out[to + c]
                    out[to + c] = value if value > best else best
                first += span


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
            highest(top, flat, i * stride * row, row, window, _ZERO)
            at = (r + i) * columns * channels
            across(top, window, stride, channels, _ZERO, out[at : at + columns * channels])
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
    """Convolution with bias, then ReLU, then max pool, by tiles of ``tile_rows`` pooled rows.

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


@inner
def _affine_highest(line, flat, start, row, count, gain, shift):
    """As ``highest`` from zero on, of values normalised as they are read."""
    size = line.size
    if count == 2:
        first, second = flat[start : start + size], flat[start + row : start + row + size]
        for i in range(size):
            v = np.float32(first[i] * gain[i]) + shift[i]
            best = v if v > _ZERO else _ZERO
            v = np.float32(second[i] * gain[i]) + shift[i]
            line[i] = v if v > best else best
    elif count == 3:
        first, second = flat[start : start + size], flat[start + row : start + row + size]
        three = flat[start + 2 * row : start + 2 * row + size]
        for i in range(size):
            v = np.float32(first[i] * gain[i]) + shift[i]
            best = v if v > _ZERO else _ZERO
            v = np.float32(second[i] * gain[i]) + shift[i]
            best = v if v > best else best
            v = np.float32(three[i] * gain[i]) + shift[i]
            line[i] = v if v > best else best
    else:
        line[:] = _ZERO
        for k in range(count):
            values = flat[start + k * row : start + k * row + size]
            for i in range(size):
                v = np.float32(values[i] * gain[i]) + shift[i]
                line[i] = v if v > line[i] else line[i]


@kernel
def affine_pool_rows(lo, hi, x, gain, shift, window, stride, lowest, block, out):
    """Pooled rows ``[lo, hi)`` over all images, ``block`` pooled columns at a time: the input under them is normalised
    (not where ``gain`` is empty) and at once reduced to a line that stays in the first-level cache, no value of it less
    than ``lowest``. ``gain`` and ``shift`` are repeated over as many pixels as a block needs.
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
            if gain.size == 0:
                highest(part, flat, start, row, window, lowest)
            else:
                _affine_highest(part, flat, start, row, window, gain, shift)
            at = r * row_out + column * channels
            across(part, window, stride, channels, lowest, to[at : at + count * channels])


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
    gain, shift = affine or (_NONE, _NONE)
    for name, values in (("gain", gain), ("shift", shift)) if affine else ():
        require(whole(name, values, np.float32, 1).size == channels, f"{name} needs {channels} values, one per channel")
    require(min(window, stride) >= 1, "window and stride must be 1 or more")
    rows, columns = (max(0, (n - window) // stride + 1) for n in x.shape[1:3])
    out = output(out, (x.shape[0], rows, columns, channels), np.float32)
    if out.size:
        block = max(1, min(columns, STRIP // (stride * channels)))
        pixels, lowest = (block - 1) * stride + window, _ZERO if relu or affine else _LOWEST
        arguments = (x, np.tile(gain, pixels), np.tile(shift, pixels), window, stride, lowest, block, out)
        over_range(affine_pool_rows, x.shape[0] * rows, *arguments, threads=threads)
    return out
