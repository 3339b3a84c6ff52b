"""8-bit convolution: uint8 pixels times int8 weights, exact int32 sums, requantised to uint8, channels last.

Implicit GEMM on the integer micro-kernel: a block of output pixels is unfolded straight into the kernel's row layout, a
whole contiguous kernel row at a time, and multiplied by every panel of output channels while it lies in cache.
[OP] = 2 * pixels * OC * (C / groups) * taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.kernels.jit import kernel
from engine.kernels.operators.conv import PackedConv, conv_shape, corner_offsets, pad_spatial, per_axis, tap_offsets
from engine.kernels.operators.gemm import Packed, pack_s8, padded
from engine.kernels.operators.microkernel import CHUNK, GROUP, INT_KIND, MR, NC, tile
from engine.kernels.operators.ranges import fresh, over_range, require, whole

__all__ = ["PackedConvS8", "conv_u8", "pack_conv_s8"]

_BLOCK_BYTES = 256 * 1024
"""Unfolded pixels of one block: with a panel of weights they stay in a second-level cache. [B]"""
_SPAN = CHUNK * GROUP[INT_KIND]
_WORD = GROUP[INT_KIND]
_LIKE = np.empty(0, np.uint8 if _WORD == 4 else np.int16)
_tile_u8 = tile(INT_KIND, "u8")


@dataclass(frozen=True, eq=False)
class PackedConvS8:
    """Weights of an 8-bit convolution, one packed matrix ``[taps * C / groups, OC / groups]`` a group."""

    groups: tuple[Packed, ...]
    geometry: PackedConv
    """The geometry alone: it holds no weights."""


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
    none = np.zeros(0, np.float32)
    geometry = PackedConv(
        none, none, np.zeros((0, 6), np.int64), per_group * groups, outs, tuple(weights.shape[2:]),
        per_axis("stride", stride, rank, 1), per_axis("padding", padding, rank, 0),
        per_axis("dilation", dilation, rank, 1), groups,
    )  # fmt: skip
    return PackedConvS8(packed, geometry)


@kernel
def u8_pixels(lo, hi, x, pixels, base, taps, run, words, init, scale, zero, low, high, block, like, columns, c, first):
    """Jobs ``[lo, hi)`` of (block of pixels, panel) of one group; its columns start at ``first`` of each pixel."""
    count, depth = pixels.size, taps.size * run
    channels = c.shape[1]
    flat = c.reshape(-1)
    steps, chunks = (depth + _WORD - 1) // _WORD, (depth + _SPAN - 1) // _SPAN
    across = (columns + NC - 1) // NC
    scratch = np.zeros((min(block, count) + MR - 1) // MR * MR * chunks * _SPAN, like.dtype)
    done = -1
    for job in range(lo, hi):
        begin, panel = job // across * block, job % across
        end = min(count, begin + block)
        if begin != done:
            for row in range(begin, end):
                place = (row - begin) // MR * chunks * MR * _SPAN + (row - begin) % MR * _SPAN
                k = 0
                for t in range(taps.size):
                    at, left = pixels[row] + base + taps[t], run
                    while left > 0:
                        here = k % _SPAN
                        take = min(left, _SPAN - here)
                        to = place + k // _SPAN * MR * _SPAN + here
                        source, target = x[at : at + take], scratch[to : to + take]
                        for i in range(target.size):
                            target[i] = source[i]
                        at, left, k = at + take, left - take, k + take
            done = begin
        for row in range(begin, end, MR):
            _tile_u8(
                scratch, (row - begin) // MR * chunks * MR * CHUNK, words, panel * steps * NC, steps, init, panel * NC,
                scale, zero, low, high, flat, row * channels + first + panel * NC, channels, end - row,
                columns - panel * NC,
            )  # fmt: skip


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
    geometry = packed.geometry
    rank = len(geometry.kernel)
    whole("x", x, np.uint8, rank + 2)
    require(x.shape[-1] == geometry.channels_in, f"x has {x.shape[-1]} channels; allowed: {geometry.channels_in}")
    for name, value in (("zero", zero), ("zero_out", zero_out)):
        require(0 <= value <= 255, f"{name} is {value}; allowed: 0 to 255")
    outs = geometry.channels_out
    whole("scale", scale, np.float32, 1)
    require(scale.size == outs, f"scale has {scale.size} values; allowed: {outs}")
    added = np.zeros(outs, np.int32) if bias is None else whole("bias", bias, np.int32, 1)
    require(added.size == outs, f"bias has {added.size} values; allowed: {outs}")
    spatial = conv_shape(x.shape[1:-1], geometry)
    shape = (x.shape[0], *spatial, outs)
    out = fresh(shape, np.uint8) if out is None else whole("out", out, np.uint8, rank + 2)
    require(out.shape == shape, f"out is {out.shape}; allowed: {shape}")
    if out.size == 0:
        return out
    edged = pad_spatial(x, geometry.padding, zero)
    pixels = corner_offsets(x.shape[0], edged.shape[1:-1], x.shape[-1], spatial, geometry.stride)
    taps, run = tap_offsets(edged.shape[1:-1], x.shape[-1], geometry)
    columns = outs // geometry.groups
    per_row = -(-taps.size * run // _SPAN) * _SPAN
    block = max(MR, _BLOCK_BYTES // (per_row * _LIKE.itemsize) // MR * MR)
    jobs = -(-pixels.size // block) * -(-columns // NC)
    for g, matrix in enumerate(packed.groups):
        part = slice(g * columns, (g + 1) * columns)
        init = padded("bias", np.ascontiguousarray(added[part]), columns, np.int32) - np.int32(zero) * matrix.sums
        scales = padded("scale", np.ascontiguousarray(scale[part]), columns, np.float32)
        over_range(
            u8_pixels, jobs, edged.reshape(-1), pixels, g * (x.shape[-1] // geometry.groups), taps, run, matrix.words,
            init, scales, np.int32(zero_out), np.float32(zero_out if relu else 0), np.float32(255), block, _LIKE,
            columns, out.reshape(-1, outs), part.start, threads=threads,
        )  # fmt: skip
    return out
