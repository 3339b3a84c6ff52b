"""8-bit convolution: uint8 pixels times int8 weights, exact int32 sums, requantised to uint8, channels last.

Implicit GEMM on the integer micro-kernel: a block of output pixels is unfolded straight into the kernel's row layout, a
whole contiguous kernel row at a time, and multiplied by every panel of output channels while it lies in cache.
[OP] = 2 * pixels * OC * (C / groups) * taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.kernels.jit import kernel
from engine.lab.ir.microkernel import EDGE, GROUP, INT_KIND, MR, NC, tile
from engine.lab.operators.conv import PackedConv, conv_shape, corner_offsets, pad_spatial, per_axis, tap_offsets
from engine.lab.operators.gemm import Packed, gemm_u8, pack_s8, padded
from engine.lab.threads.ranges import fresh, over_range, require, whole

_BLOCK_BYTES = 256 * 1024
"""Unfolded pixels of one block: with a panel of weights they stay in a second-level cache. [B]"""
_WORD = GROUP[INT_KIND]
_KIND = np.uint8 if INT_KIND == "u8s8" else np.int16
_tall, _edge = tile(MR), tile(EDGE)


@dataclass(frozen=True, eq=False)
class PackedConvS8:
    """Weights of an 8-bit convolution, one packed matrix ``[taps * C / groups, OC / groups]`` a group."""

    groups: tuple[Packed, ...]
    channels_in: int
    channels_out: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


def pack_conv_s8(
    weights: np.ndarray,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> PackedConvS8:
    """Pack ONNX-ordered int8 weights ``[OC, C / groups, *kernel]`` for :func:`conv_u8`."""
    require(
        isinstance(weights, np.ndarray) and 3 <= weights.ndim <= 5,
        "weights must be [OC, C/groups, *kernel] with 1 to 3 spatial axes",
    )
    require(weights.dtype == np.int8, f"weights has type {weights.dtype}; allowed: int8")
    require(min(weights.shape) >= 1, f"weights has shape {weights.shape}; allowed: every axis 1 or more")
    outs, per_group, rank = weights.shape[0], weights.shape[1], weights.ndim - 2
    require(groups >= 1 and outs % groups == 0, f"groups is {groups}; allowed: divisors of {outs} output channels")
    flat = np.moveaxis(weights, 1, -1).reshape(groups, outs // groups, -1)
    packed = tuple(pack_s8(np.ascontiguousarray(matrix.T)) for matrix in flat)
    return PackedConvS8(
        packed,
        per_group * groups,
        outs,
        tuple(weights.shape[2:]),
        per_axis("stride", stride, rank, 1),
        per_axis("padding", padding, rank, 0),
        per_axis("dilation", dilation, rank, 1),
    )


@kernel
def u8_pixels(
    lo, hi, x, pixels, base, taps, run, words, k, init, scale, zero, low, high, block, rows, columns, c, first
):
    """Jobs ``[lo, hi)`` of (block of pixels, panel) of one group; its columns start at ``first`` of each pixel."""
    count, channels, across = pixels.size, c.shape[1], (columns + NC - 1) // NC
    scratch = np.zeros((min(block, count), rows.size), rows.dtype)
    flat, lda = scratch.reshape(-1), rows.size
    done = -1
    for job in range(lo, hi):
        begin, panel = job // across * block, job % across
        end = min(count, begin + block)
        if begin != done:
            for row in range(begin, end):
                for t in range(taps.size):
                    at, to = pixels[row] + base + taps[t], (row - begin) * lda + t * run
                    source, target = x[at : at + run], flat[to : to + run]
                    for i in range(run):
                        target[i] = source[i]
            done = begin
        row, place = begin, begin * channels + first + panel * NC
        while row + MR <= end:
            _tall(
                flat,
                (row - begin) * lda,
                lda,
                words,
                panel * k * NC,
                lda,
                init,
                panel * NC,
                scale,
                zero,
                low,
                high,
                c,
                place,
                channels,
                MR,
                columns - panel * NC,
                False,
            )
            row, place = row + MR, place + MR * channels
        while row < end:
            _edge(
                flat,
                (row - begin) * lda,
                lda,
                words,
                panel * k * NC,
                lda,
                init,
                panel * NC,
                scale,
                zero,
                low,
                high,
                c,
                place,
                channels,
                end - row,
                columns - panel * NC,
                False,
            )
            row, place = row + EDGE, place + EDGE * channels


@lru_cache(maxsize=64)
def _geometry(
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> tuple[tuple[int, ...], np.ndarray, np.ndarray, int, np.ndarray, int]:
    """Output extents, where output pixels and kernel rows read, values of a kernel row, an unfolded row, block rows."""
    none = np.zeros(0, np.float32)
    bare = PackedConv(none, none, np.zeros((0, 6), np.int64), shape[-1], 0, kernel, stride, padding, dilation, groups)
    spatial = conv_shape(shape[1:-1], bare)
    edged = tuple(n + 2 * p for n, p in zip(shape[1:-1], padding, strict=True))
    pixels = corner_offsets(shape[0], edged, shape[-1], spatial, stride)
    taps, run = tap_offsets(edged, shape[-1], bare)
    depth = taps.size * run
    wide = depth if _WORD == 4 and depth > _WORD else -(-depth // _WORD) * _WORD  # as the tile takes its last word
    rows = np.empty(wide, _KIND)
    return spatial, pixels, taps, run, rows, max(MR, _BLOCK_BYTES // rows.nbytes // MR * MR)


def conv_u8(
    x: np.ndarray,
    packed: PackedConvS8,
    scale: np.ndarray,
    *,
    zero: int = 0,
    bias: np.ndarray | None = None,
    zero_out: int = 0,
    relu: bool = False,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """Convolution of uint8 ``x`` ``[N, *spatial, C]`` requantised to uint8, as ONNX QLinearConv with int8 weights.

    ``clamp(rint(s * scale) + zero_out, relu ? zero_out : 0, 255)`` with the exact sum ``s`` of ``(x - zero) * weight``
    plus ``bias`` int32 ``[OC]``; ``scale`` float32 ``[OC]`` is input scale x weight scale / output scale. The border is
    the input's zero point. Ties go to even; the float32 product is rounded once from the float32 nearest to s.
    """
    rank = len(packed.kernel)
    whole("x", x, np.uint8, rank + 2)
    require(x.shape[-1] == packed.channels_in, f"x has {x.shape[-1]} channels; allowed: {packed.channels_in}")
    for name, value in (("zero", zero), ("zero_out", zero_out)):
        require(0 <= value <= 255, f"{name} is {value}; allowed: 0 to 255")
    outs = packed.channels_out
    whole("scale", scale, np.float32, 1)
    require(scale.size == outs, f"scale has {scale.size} values; allowed: {outs}")
    added = np.zeros(outs, np.int32) if bias is None else whole("bias", bias, np.int32, 1)
    require(added.size == outs, f"bias has {added.size} values; allowed: {outs}")
    spatial, pixels, taps, run, rows, block = _geometry(
        x.shape, packed.kernel, packed.stride, packed.padding, packed.dilation, len(packed.groups)
    )
    shape = (x.shape[0], *spatial, outs)
    out = fresh(shape, np.uint8) if out is None else whole("out", out, np.uint8, rank + 2)
    require(out.shape == shape, f"out is {out.shape}; allowed: {shape}")
    if out.size == 0:
        return out
    alone = taps.size == 1 and run == x.shape[-1] and not any(packed.padding)
    if alone and pixels.size * run == x.size:  # every pixel once, whole: a product
        flat = (x.reshape(-1, run), packed.groups[0], scale, zero, bias, zero_out, relu, out.reshape(-1, outs), threads)
        gemm_u8(*flat)
        return out
    edged = pad_spatial(x, packed.padding, zero)
    columns = outs // len(packed.groups)
    jobs = -(-pixels.size // block) * -(-columns // NC)
    taken = x.shape[-1] // len(packed.groups)
    for g, matrix in enumerate(packed.groups):
        part = slice(g * columns, (g + 1) * columns)
        init = padded("bias", added[part], columns, np.int32) - np.int32(zero) * matrix.sums
        scales = padded("scale", scale[part], columns, np.float32)
        over_range(
            u8_pixels,
            jobs,
            edged.reshape(-1),
            pixels,
            g * taken,
            taps,
            run,
            matrix.words,
            -(-matrix.k // _WORD),
            init,
            scales,
            np.int32(zero_out),
            np.float32(zero_out if relu else 0),
            np.float32(255),
            block,
            rows,
            columns,
            out.reshape(-1, outs),
            part.start,
            threads=threads,
        )
    return out
