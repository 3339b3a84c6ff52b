"""Depthwise convolution, and convolution in groups of a few channels, over channels-last float32 of 1 to 3 axes.

Vectors run along the channels, a tile along a row of output columns; a square kernel at stride 1 makes two rows at a
time where 32 registers hold them. [FLOP] = 2 * pixels * C * group * taps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from engine.kernels.jit import inner, kernel
from engine.lab.ir.depthwise import row_tile
from engine.lab.ir.lanes import lanes
from engine.lab.operators.conv import LINEAR, RELU, corner_offsets, pad_spatial, per_axis
from engine.lab.ranges import fresh, over_range, require, whole

ROW_TILE = 7
"""Output columns per tile; 7 divides the widths 7 to 112 of the usual networks, any other row ends with a tile that
overlaps its neighbour. [pixels]"""
GROUPS = (1, 2, 4, 8)
"""Channels of a group whose vector may hold several groups. [-]"""
_PAIRS = lanes() == 16


@dataclass(frozen=True)
class PackedDepthwise:
    """Weights as ``[*kernel, group, C]`` with their bias and geometry; ``group`` channels see each other."""

    data: np.ndarray
    bias: np.ndarray
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    group: int


def narrow_groups(channels: int, filters: int, groups: int, kernel: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether :func:`depthwise` takes a convolution without dilation: single channels, or several groups a vector."""
    if channels != filters or channels % groups:
        return False
    group = channels // groups
    return group == 1 or (group in GROUPS and group < lanes() and kernel[-1] == 3 and stride[-1] in (1, 2))


def pack_depthwise(
    weights: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
) -> PackedDepthwise:
    """Pack ONNX-ordered weights ``[C, group, *kernel]`` (float32, as many outputs as inputs)."""
    require(
        isinstance(weights, np.ndarray) and 3 <= weights.ndim <= 5,
        "weights must be [C, group, *kernel] with 1 to 3 spatial axes",
    )
    require(weights.dtype == np.float32, f"weights has type {weights.dtype}; allowed: float32")
    require(min(weights.shape) >= 1, f"weights has shape {weights.shape}; allowed: every axis 1 or more")
    channels, group, window = weights.shape[0], weights.shape[1], tuple(weights.shape[2:])
    bias = np.zeros(channels, np.float32) if bias is None else whole("bias", bias, np.float32, 1)
    require(bias.size == channels, f"bias has {bias.size} values; allowed: {channels}")
    steps = per_axis("stride", stride, len(window), 1)
    require(
        channels % group == 0 and narrow_groups(channels, channels, channels // group, window, steps),
        f"weights has groups of {group} channels and a kernel {window}; allowed: groups of 1, or of 2, 4 or 8 below "
        f"{lanes()} lanes with a kernel 3 wide at stride 1 or 2",
    )
    turned = np.moveaxis(weights, (0, 1), (-1, -2))
    data = fresh(turned.shape)
    data[...] = turned
    return PackedDepthwise(data, bias, window, steps, per_axis("padding", padding, len(window), 0), group)


def _rows(taps: int, stride: int, group: int = 1, tall: int = 1, deep: int = 1) -> Callable[..., None]:
    width = lanes()
    wide = row_tile(ROW_TILE, tall, width, taps, deep, group, stride)
    wide_one = row_tile(1, tall, width, taps, deep, group, stride)
    thin = row_tile(1, tall, group, taps, deep, group, stride)

    @inner
    def rows(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height):
        bands = (height + tall - 1) // tall
        span = width if channels >= width else group
        for job in range(lo, hi):
            r = job // bands * height + min(job % bands * tall, height - tall)  # the overlap is computed twice, equally
            slot_step = slots[r + tall - 1] - slots[r]
            ow = 0
            while ow < columns:
                full = columns >= ROW_TILE and channels >= width
                if full:
                    ow = min(ow, columns - ROW_TILE)
                at, slot = starts[r] + ow * stride * channels, slots[r] + ow * channels
                c = 0
                while c < channels:
                    c = min(c, channels - span)
                    if full:
                        wide(
                            x,
                            at + c,
                            row_step,
                            channels,
                            steps,
                            weights,
                            c,
                            channels,
                            bias,
                            c,
                            floor,
                            out,
                            slot + c,
                            slot_step,
                        )
                    elif channels >= width:
                        wide_one(
                            x,
                            at + c,
                            row_step,
                            channels,
                            steps,
                            weights,
                            c,
                            channels,
                            bias,
                            c,
                            floor,
                            out,
                            slot + c,
                            slot_step,
                        )
                    else:
                        thin(
                            x,
                            at + c,
                            row_step,
                            channels,
                            steps,
                            weights,
                            c,
                            channels,
                            bias,
                            c,
                            floor,
                            out,
                            slot + c,
                            slot_step,
                        )
                    c += span
                ow += ROW_TILE if full else 1

    return rows


_any_3_1, _any_3_2, _any_5_1, _any_5_2 = _rows(3, 1), _rows(3, 2), _rows(5, 1), _rows(5, 2)
_pairs_3, _pairs_5 = _rows(3, 1, tall=2, deep=3), _rows(5, 1, tall=2, deep=5)
_two_1, _two_2, _four_1, _four_2, _eight_1, _eight_2 = (_rows(3, s, g) for g in GROUPS[1:] for s in (1, 2))


@kernel
def rows_3_1(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height):
    """Output rows ``[lo, hi)`` of a kernel 3 wide at stride 1."""
    _any_3_1(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height)


@kernel
def rows_3_2(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height):
    """Output rows ``[lo, hi)`` of a kernel 3 wide at stride 2."""
    _any_3_2(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height)


@kernel
def rows_5_1(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height):
    """Output rows ``[lo, hi)`` of a kernel 5 wide at stride 1."""
    _any_5_1(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height)


@kernel
def rows_5_2(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height):
    """Output rows ``[lo, hi)`` of a kernel 5 wide at stride 2."""
    _any_5_2(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height)


@kernel
def pairs_3(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height):
    """Pairs ``[lo, hi)`` of output rows of a 3 x 3 kernel at stride 1."""
    _pairs_3(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height)


@kernel
def pairs_5(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height):
    """Pairs ``[lo, hi)`` of output rows of a 5 x 5 kernel at stride 1."""
    _pairs_5(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height)


@kernel
def groups_1(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height, group):
    """Output rows ``[lo, hi)`` of a kernel 3 wide at stride 1 over groups of 2, 4 or 8 channels."""
    if group == 2:
        _two_1(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height)
    elif group == 4:
        _four_1(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height)
    else:
        _eight_1(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height)


@kernel
def groups_2(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height, group):
    """Output rows ``[lo, hi)`` of a kernel 3 wide at stride 2 over groups of 2, 4 or 8 channels."""
    if group == 2:
        _two_2(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height)
    elif group == 4:
        _four_2(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height)
    else:
        _eight_2(lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height)


@kernel
def rows_any(
    lo, hi, x, starts, slots, steps, row_step, weights, bias, floor, out, columns, channels, height, taps, across
):
    """Output rows ``[lo, hi)`` of any kernel: a loop over the channels for each tap."""
    total = np.empty(channels, np.float32)
    for r in range(lo, hi):
        for ow in range(columns):
            total[:] = bias
            for i in range(steps.size):
                for k in range(taps):
                    at, factor = starts[r] + steps[i] + (ow * across + k) * channels, (i * taps + k) * channels
                    for c in range(channels):
                        total[c] += x[at + c] * weights[factor + c]
            slot = slots[r] + ow * channels
            for c in range(channels):
                out[slot + c] = max(total[c], floor)


_ROWS: dict[tuple[int, int], Any] = {(3, 1): rows_3_1, (3, 2): rows_3_2, (5, 1): rows_5_1, (5, 2): rows_5_2}


@lru_cache(maxsize=64)
def _geometry(
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    group: int,
    edged: tuple[int, ...],
    shape: tuple[int, ...],
    border: int,
) -> tuple[bool, np.ndarray, np.ndarray, np.ndarray, int, int]:
    """Whether rows go in pairs; where each output row reads and writes; kernel rows; rows of a plane; jobs."""
    batch, channels, rank = shape[0], shape[-1], len(kernel)
    spatial = tuple(n - 2 * border for n in shape[1:-1])
    lines = (*spatial[:-1], 1)
    starts = corner_offsets(batch, edged, channels, lines, stride)
    inward = int(sum(border * np.prod(shape[2 + axis :], dtype=np.int64) for axis in range(rank)))
    slots = corner_offsets(batch, shape[1:-1], channels, lines, (1,) * rank) + inward
    pair = _PAIRS and group == 1 and rank > 1 and kernel[-2] == kernel[-1] and kernel[-1] in (3, 5)
    pair = pair and stride[-2:] == (1, 1) and spatial[-2] >= 2
    steps = np.zeros(1, np.int64)
    for axis in range(rank - (2 if pair else 1)):
        pitch = channels * int(np.prod(edged[axis + 1 :]))
        steps = (steps[:, None] + np.arange(kernel[axis], dtype=np.int64) * pitch).reshape(-1)
    height = spatial[-2] if pair else 1
    return pair, starts, slots, steps, height, starts.size // height * -(-height // 2) if pair else starts.size


def depthwise(
    x: np.ndarray,
    packed: PackedDepthwise,
    *,
    relu: bool = False,
    bordered: bool = False,
    border: int = 0,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """Depthwise or narrow-group convolution of ``x`` ``[N, *spatial, C]``; arguments as for ``conv``."""
    rank, channels = len(packed.kernel), packed.data.shape[-1]
    whole("x", x, np.float32, rank + 2)
    require(x.shape[-1] == channels, f"x has {x.shape[-1]} channels; the weights take {channels}")
    require(border >= 0, f"border is {border}; allowed: 0 or more")
    padded = x if bordered else pad_spatial(x, packed.padding)
    edged = padded.shape[1:-1]
    spatial = tuple(max(0, (n - k) // s + 1) for n, k, s in zip(edged, packed.kernel, packed.stride, strict=True))
    shape = (x.shape[0], *(n + 2 * border for n in spatial), channels)
    if out is None:
        out = fresh(shape, zero=border > 0)
    require(whole("out", out, np.float32, rank + 2).shape == shape, f"out is {out.shape}; allowed: {shape}")
    if x.shape[0] == 0 or min(spatial) == 0:
        return out
    pair, starts, slots, steps, height, jobs = _geometry(
        packed.kernel, packed.stride, packed.group, edged, shape, border
    )
    taps, across = packed.kernel[-1], packed.stride[-1]
    row_step = edged[-1] * channels
    run: Any = {3: pairs_3, 5: pairs_5}[taps] if pair else _ROWS.get((taps, across), rows_any)
    extra: tuple[int, ...] = (taps, across) if run is rows_any else ()
    if packed.group > 1:
        run, extra = (groups_1 if across == 1 else groups_2), (packed.group,)
    over_range(
        run,
        jobs,
        padded.reshape(-1),
        starts,
        slots,
        steps,
        row_step,
        packed.data.reshape(-1),
        packed.bias,
        RELU if relu else LINEAR,
        out.reshape(-1),
        spatial[-1],
        channels,
        height,
        *extra,
        threads=threads,
        grain=4,
    )
    return out
