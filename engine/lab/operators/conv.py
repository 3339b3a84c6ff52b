"""Convolution of any rank over channels-last float32: implicit GEMM, strided, 1-D to 3-D.

Channels-last makes a whole kernel row one contiguous run of ``KW * C`` values, so nothing is unfolded: a tile reads
its pixels where they lie. Padding is one copy into a zeroed border. [FLOP] = 2 * pixels * OC * C * taps.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]


def per_axis(name: str, value: int | Sequence[int], rank: int, least: int) -> tuple[int, ...]:
    """``value`` once for each of ``rank`` axes, each at least ``least``."""
    values = (value,) * rank if isinstance(value, int) else tuple(int(v) for v in value)
    require(len(values) == rank, f"{name} has {len(values)} entries; allowed: {rank}, one per spatial axis")
    require(min(values) >= least, f"{name} is {values}; allowed: {least} or more")
    return values


def pack_conv(
    weights: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
) -> PackedConv:
    """Pack ONNX-ordered weights ``[OC, C, *kernel]`` (float32) for :func:`conv`."""
    require(
        isinstance(weights, np.ndarray) and 3 <= weights.ndim <= 5,
        "weights must be [OC, C, *kernel] with 1 to 3 spatial axes",
    )
    require(weights.dtype == np.float32, f"weights has type {weights.dtype}; allowed: float32")
    rank, channels_out, channels_in = weights.ndim - 2, weights.shape[0], weights.shape[1]
    require(min(weights.shape) >= 1, f"weights has shape {weights.shape}; allowed: every axis 1 or more")
    added = np.zeros(channels_out, np.float32) if bias is None else whole("bias", bias, np.float32, 1)
    require(added.size == channels_out, f"bias has {added.size} values; allowed: {channels_out}")
    shape = tuple(weights.shape[2:])
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
    return PackedConv(
        data,
        np.concatenate(shifts),
        np.array(blocks, np.int64),
        channels_in,
        channels_out,
        shape,
        per_axis("stride", stride, rank, 1),
        per_axis("padding", padding, rank, 0),
    )


def conv_shape(spatial: Sequence[int], packed: PackedConv) -> tuple[int, ...]:
    """Spatial output shape. [-]"""
    return tuple(
        max(0, (n + 2 * p - k) // s + 1)
        for n, k, s, p in zip(spatial, packed.kernel, packed.stride, packed.padding, strict=True)
    )


def pad_spatial(x: np.ndarray, padding: Sequence[int]) -> np.ndarray:
    """``x`` ``[N, *spatial, C]`` with a border of zeros; ``x`` itself where there is none."""
    if not any(padding):
        return x
    spatial = tuple(n + 2 * p for n, p in zip(x.shape[1:-1], padding, strict=True))
    out = fresh((x.shape[0], *spatial, x.shape[-1]), x.dtype, zero=True)
    middle = tuple(slice(p, p + n) for n, p in zip(x.shape[1:-1], padding, strict=True))
    out[(slice(None), *middle)] = x
    return out


def corner_offsets(
    batch: int, padded: Sequence[int], channels: int, out: Sequence[int], stride: Sequence[int]
) -> np.ndarray:
    """Flat offset of the first input value under each output pixel, in output order. [elements]"""
    offsets = np.arange(batch, dtype=np.int64) * (int(np.prod(padded)) * channels)
    step = int(np.prod(padded)) * channels
    for size, count, jump in zip(padded, out, stride, strict=True):
        step //= max(1, size)
        offsets = (offsets[:, None] + np.arange(count, dtype=np.int64) * (jump * step)).reshape(-1)
    return offsets


def tap_offsets(padded: Sequence[int], channels: int, packed: PackedConv) -> tuple[np.ndarray, int]:
    """Displacement of each run of kernel taps, one row of the kernel, and how many values it multiplies. [elements]"""
    offsets, step = np.zeros(1, np.int64), int(np.prod(padded)) * channels
    for count, size in zip(packed.kernel[:-1], padded, strict=False):
        step //= max(1, size)
        offsets = (offsets[:, None] + np.arange(count, dtype=np.int64) * step).reshape(-1)
    return offsets, packed.kernel[-1] * channels


def _sweep(vectors: int):
    rows = tile_rows(vectors)
    columns = vectors * lanes()
    full, single = tile(rows, vectors), tile(1, vectors)

    @inner
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

    return sweep


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


@lru_cache(maxsize=64)
def _geometry(
    batch: int,
    padded: tuple[int, ...],
    channels: int,
    out: tuple[int, ...],
    stride: tuple[int, ...],
    columns: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Input offset under each output pixel and where that pixel is written, kept for the shapes last seen."""
    pixels = corner_offsets(batch, padded, channels, out, stride)
    return pixels, corner_offsets(batch, out, columns, out, (1,) * len(out))


def conv(
    x: np.ndarray,
    packed: PackedConv,
    *,
    relu: bool = False,
    bordered: bool = False,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """``x`` ``[N, *spatial, C]`` convolved (cross-correlated, as ONNX Conv) with ``packed``, plus bias, optional ReLU.

    Parameters
    ----------
    bordered : ``x`` already carries the zero border that ``packed.padding`` asks for, so it is not copied.
    """
    rank = len(packed.kernel)
    whole("x", x, np.float32, rank + 2)
    require(x.shape[-1] == packed.channels_in, f"x has {x.shape[-1]} channels; the weights take {packed.channels_in}")
    trim = packed.padding if bordered else (0,) * rank
    inside = tuple(n - 2 * p for n, p in zip(x.shape[1:-1], trim, strict=True))
    require(min(inside) >= 0, f"x is {x.shape}; a bordered input holds its padding {packed.padding} on both sides")
    spatial = conv_shape(inside, packed)
    shape = (x.shape[0], *spatial, packed.channels_out)
    if out is None:
        out = fresh(shape)
    require(whole("out", out, np.float32, rank + 2).shape == shape, f"out is {out.shape}; allowed: {shape}")
    if x.shape[0] == 0 or min(spatial) == 0:
        return out
    padded = x if bordered else pad_spatial(x, packed.padding)
    edged = padded.shape[1:-1]
    pixels, slots = _geometry(x.shape[0], edged, x.shape[-1], spatial, packed.stride, packed.channels_out)
    taps, run = tap_offsets(edged, x.shape[-1], packed)
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
