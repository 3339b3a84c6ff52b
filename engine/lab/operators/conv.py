"""Convolution of images over channels-last float32: implicit GEMM, strided.

Channels-last makes a whole kernel row one contiguous run of ``KW * C`` values, so nothing is unfolded: a tile reads
its pixels where they lie. Padding is one copy into a zeroed border. [FLOP] = 2 * pixels * OC * C * taps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.kernels.jit import inner, kernel
from engine.lab.ir.conv import BLOCK_VECTORS, tile, tile_rows
from engine.lab.ir.lanes import lanes
from engine.lab.ranges import fresh, over_range, require, whole

RELU, LINEAR = np.float32(0), np.float32(-np.inf)
WEIGHT_SEGMENT_BYTES = 384 * 1024
"""Packed weights one pass over the pixels may hold: under half of a 1 MiB L2. [B]"""


@dataclass(frozen=True)
class PackedConv:
    """Weights of a convolution in tile order, with the geometry they were packed for."""

    data: np.ndarray
    bias: np.ndarray
    blocks: np.ndarray
    """``[blocks, 5]``: vectors, first output channel, channels, first weight, first bias."""
    channels_in: int
    channels_out: int
    kernel: tuple[int, int]
    stride: int
    padding: int

    def extents(self, high: int, wide: int) -> tuple[int, int]:
        """Rows and columns of the result for an image with its border. [pixels]"""
        rows, columns = (max(0, (n - k) // self.stride + 1) for n, k in zip((high, wide), self.kernel, strict=True))
        return rows, columns


def pack_conv(weights: np.ndarray, bias: np.ndarray | None = None, *, stride: int = 1, padding: int = 0) -> PackedConv:
    """Pack ONNX-ordered weights ``[OC, C, KH, KW]`` (float32) for :func:`conv`."""
    require(isinstance(weights, np.ndarray) and weights.ndim == 4, "weights must be [OC, C, KH, KW]")
    require(weights.dtype == np.float32, f"weights has type {weights.dtype}; allowed: float32")
    require(min(weights.shape) >= 1, f"weights has shape {weights.shape}; allowed: every axis 1 or more")
    require(stride >= 1 and padding >= 0, f"stride, padding are {stride}, {padding}; allowed: 1 or more, 0 or more")
    channels_out, channels_in, *shape = weights.shape
    added = np.zeros(channels_out, np.float32) if bias is None else whole("bias", bias, np.float32, 1)
    require(added.size == channels_out, f"bias has {added.size} values; allowed: {channels_out}")
    blocks, pieces, shifts, at_weight, at_bias, first = [], [], [], 0, 0, 0
    while first < channels_out:
        vectors = next((v for v in BLOCK_VECTORS if v * lanes() <= channels_out - first), 1)
        columns = vectors * lanes()
        take = min(columns, channels_out - first)
        piece = np.zeros((int(np.prod(shape)) * channels_in, columns), np.float32)
        piece[:, :take] = np.moveaxis(weights[first : first + take], 1, -1).reshape(take, -1).T
        shift = np.zeros(columns, np.float32)
        shift[:take] = added[first : first + take]
        blocks.append((vectors, first, take, at_weight, at_bias))
        pieces.append(piece.reshape(-1))
        shifts.append(shift)
        at_weight, at_bias, first = at_weight + piece.size, at_bias + columns, first + take
    data = fresh((at_weight,))
    np.concatenate(pieces, out=data)
    biases, table = np.concatenate(shifts), np.array(blocks, np.int64)
    return PackedConv(data, biases, table, channels_in, channels_out, (shape[0], shape[1]), stride, padding)


def bordered_by(x: np.ndarray, padding: int) -> np.ndarray:
    """``x`` ``[N, H, W, C]`` with a border of zeros; ``x`` itself where there is none."""
    return np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0))) if padding else x


def _offsets(images: int, high: int, wide: int, channels: int, rows: int, columns: int, stride: int) -> np.ndarray:
    """Flat offset of every ``stride``-th pixel of images ``[high, wide, channels]``, row by row. [elements]"""
    image, row, column = np.ogrid[:images, :rows, :columns]
    return (((image * high + row * stride) * wide + column * stride) * channels).reshape(-1)


@lru_cache(maxsize=64)
def layout(
    images: int, high: int, wide: int, channels: int, channels_out: int, window: int, stride: int, out: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offset of the first value under each output pixel, where that pixel is written, and of each row of the kernel.

    Kept for the shapes last seen; [elements].
    """
    pixels = _offsets(images, high, wide, channels, *out, stride)
    slots = _offsets(images, *out, channels_out, *out, 1)
    return pixels, slots, np.arange(window, dtype=np.int64) * (wide * channels)


def _sweep(vectors: int):
    rows = tile_rows(vectors)
    columns = vectors * lanes()
    full, single = tile(rows, vectors), tile(1, vectors)

    def sweep(lo, hi, source, per_pass, weights, floor, target, first, take):
        """Pixels ``[lo, hi)`` times a block of packed columns, the first ``take`` kept; tuples as those of the tile."""
        taps, run = source[3:]
        data, at_weight, bias, at_bias = weights
        out, slots = target
        ragged = take < columns  # through a spill of whole vectors, all taps in one pass
        if ragged:
            to, places, column, per_pass = np.empty(rows * columns, np.float32), np.arange(rows) * columns, 0, taps.size
        else:
            to, places, column = out, slots, first
        tap = 0
        while tap < taps.size:
            end = min(tap + per_pass, taps.size)
            fresh, last = tap == 0, end == taps.size
            bottom = floor if last else LINEAR
            factors = (data, at_weight + tap * run * columns, bias, at_bias)
            p = lo
            while p < hi:
                if p + rows > hi and fresh and last and hi - lo >= rows:
                    p = hi - rows  # overlaps its neighbour, equally; only where nothing is added to what is there
                q = 0 if ragged else p
                count = rows if p + rows <= hi else 1
                if count == rows:
                    full(source, p, (tap, end), factors, fresh, bottom, (to, places, column), q)
                else:
                    single(source, p, (tap, end), factors, fresh, bottom, (to, places, column), q)
                if ragged:
                    for r in range(count):
                        place = slots[p + r] + first
                        out[place : place + take] = to[r * columns : r * columns + take]
                p += count
            tap = end

    sweep.__qualname__ = f"sweep_{vectors}"  # no two bodies have one name
    return inner(sweep)


sweep_wide, _sweep_two, _sweep_lone = (_sweep(vectors) for vectors in BLOCK_VECTORS)


@kernel
def conv_pixels(lo, hi, source, weights, blocks, segment, floor, target):
    """Output pixels ``[lo, hi)`` of a convolution, every block of output channels.

    ``out[slots[p] + first + c] = max(floor, bias + sum of x[pixels[p] + tap + k] * data)`` with source
    ``(x, pixels, taps, run)``, weights ``(data, bias)`` and target ``(out, slots)``; as many taps at a time as
    ``segment`` vectors hold. The order of additions of an element is that of the taps whatever the tile.
    """
    x, pixels, taps, run = source
    data, bias = weights
    for b in range(blocks.shape[0]):
        vectors, first, take = blocks[b, 0], blocks[b, 1], blocks[b, 2]
        factors, per_pass = (data, blocks[b, 3], bias, blocks[b, 4]), max(1, segment // (vectors * run))
        inputs = (x, pixels, 0, taps, run)
        if vectors == 4:
            sweep_wide(lo, hi, inputs, per_pass, factors, floor, target, first, take)
        elif vectors == 2:
            _sweep_two(lo, hi, inputs, per_pass, factors, floor, target, first, take)
        else:
            _sweep_lone(lo, hi, inputs, per_pass, factors, floor, target, first, take)


def conv(
    x: np.ndarray,
    packed: PackedConv,
    *,
    relu: bool = False,
    bordered: bool = False,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """``x`` ``[N, H, W, C]`` convolved (cross-correlated, as ONNX Conv) with ``packed``, plus bias, optional ReLU.

    Parameters
    ----------
    bordered : ``x`` already carries the zero border that ``packed.padding`` asks for, so it is not copied.
    """
    whole("x", x, np.float32, 4)
    require(x.shape[3] == packed.channels_in, f"x has {x.shape[3]} channels; the weights take {packed.channels_in}")
    padded = x if bordered else bordered_by(x, packed.padding)
    extents = packed.extents(*padded.shape[1:3])
    shape = (x.shape[0], *extents, packed.channels_out)
    if out is None:
        out = fresh(shape)
    require(whole("out", out, np.float32, 4).shape == shape, f"out is {out.shape}; allowed: {shape}")
    if out.size == 0:
        return out
    pixels, slots, taps = layout(*padded.shape, packed.channels_out, packed.kernel[0], packed.stride, extents)
    run = packed.kernel[1] * packed.channels_in
    arguments = (
        (padded.reshape(-1), pixels, taps, run),
        (packed.data, packed.bias),
        packed.blocks,
        WEIGHT_SEGMENT_BYTES // (4 * lanes()),
        RELU if relu else LINEAR,
        (out.reshape(-1), slots),
    )
    over_range(conv_pixels, pixels.size, *arguments, threads=threads, grain=4 * tile_rows(BLOCK_VECTORS[0]))
    return out
