"""Depthwise convolution over channels-last float32: every channel with its own kernel, vectors along the channels.

Along a row each input column is loaded once and serves every output column whose window holds it, so a 3-wide kernel
at stride 1 takes 8 loads for 18 multiply-adds. [FLOP] = 2 * pixels * C * taps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from engine.kernels.jit import JIT_ENABLED, inner, intrinsic, kernel, types
from engine.kernels.operators.conv import LINEAR, RELU, pad_spatial
from engine.kernels.operators.lanes import lanes
from engine.kernels.operators.ranges import over_range, require, whole

__all__ = ["PackedDepthwise", "depthwise", "pack_depthwise"]

ROW_TILE = 7
"""Output columns per tile: accumulators, one loaded column and a kernel row fit 16 registers; 7 divides the widths
7 to 112 of the usual networks, any other row ends with a tile that overlaps its neighbour. [pixels]"""
_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()


def _emit(
    columns: int, width: int, taps: int, stride: int, context: Any, builder: Any, signature: Any, args: Any
) -> Any:
    x, at, row_step, step, kernel_rows, weights, at_weight, channels, bias, at_bias, floor, out, slot = args
    floats = ir.VectorType(_F32, width)

    def data(array: Any, position: int) -> Any:
        return context.make_array(signature.args[position])(context, builder, array).data

    def load(pointer: Any, index: Any) -> Any:
        return builder.load(builder.bitcast(builder.gep(pointer, [index]), floats.as_pointer()), align=1, typ=floats)

    source, factors, result = data(x, 0), data(weights, 5), data(out, 11)
    before, head = builder.block, builder.append_basic_block("kernel.row")
    body, done = builder.append_basic_block("kernel.row.body"), builder.append_basic_block("kernel.row.end")
    start = load(data(bias, 8), at_bias)
    builder.branch(head)
    builder.position_at_end(head)
    row = builder.phi(_I64)
    row.add_incoming(_I64(0), before)
    sums = [builder.phi(floats) for _ in range(columns)]
    for value in sums:
        value.add_incoming(start, before)
    builder.cbranch(builder.icmp_signed("<", row, kernel_rows), body, done)
    builder.position_at_end(body)
    place = builder.add(at_weight, builder.mul(row, builder.mul(channels, _I64(taps))))
    factor = [load(factors, builder.add(place, builder.mul(channels, _I64(k)))) for k in range(taps)]
    line = builder.add(at, builder.mul(row, row_step))
    total: list[Any] = list(sums)
    for j in range((columns - 1) * stride + taps):
        users = [(m, j - m * stride) for m in range(columns) if 0 <= j - m * stride < taps]
        if users:
            value = load(source, builder.add(line, builder.mul(step, _I64(j))))
            for m, k in users:
                product = builder.fmul(value, factor[k], flags=("contract",))
                total[m] = builder.fadd(total[m], product, flags=("contract",))
    for phi, value in zip(sums, total, strict=True):
        phi.add_incoming(value, builder.block)
    row.add_incoming(builder.add(row, _I64(1)), builder.block)
    builder.branch(head)
    builder.position_at_end(done)
    undefined = ir.Constant(floats, ir.Undefined)
    lanes_zero = ir.Constant(ir.VectorType(_I32, width), [0] * width)
    least = builder.shuffle_vector(builder.insert_element(undefined, floor, _I32(0)), undefined, lanes_zero)
    for m, value in enumerate(sums):
        bounded = builder.select(builder.fcmp_ordered("<", value, least), least, value)
        target = builder.gep(result, [builder.add(slot, builder.mul(channels, _I64(m)))])
        builder.store(bounded, builder.bitcast(target, floats.as_pointer()), align=1)
    return context.get_dummy_value()


@cache
def row_tile(columns: int, width: int, taps: int, stride: int) -> Callable[..., None]:
    """Kernel of ``columns`` adjacent outputs times ``width`` channels for a kernel ``taps`` wide.

    ``f(x, at, row_step, step, kernel_rows, weights, at_weight, channels, bias, at_bias, floor, out, slot)``.
    """
    if JIT_ENABLED:

        def typed(
            typingctx: Any, x: Any, at: Any, row_step: Any, step: Any, kernel_rows: Any, weights: Any, at_weight: Any,
            channels: Any, bias: Any, at_bias: Any, floor: Any, out: Any, slot: Any,
        ) -> Any:  # fmt: skip
            def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                return _emit(columns, width, taps, stride, context, builder, signature, args)

            n = types.intp
            return types.void(x, n, n, n, n, weights, n, n, bias, n, types.float32, out, n), codegen

        return intrinsic(typed)

    def slow(
        x: Any, at: Any, row_step: Any, step: Any, kernel_rows: Any, weights: Any, at_weight: Any, channels: Any,
        bias: Any, at_bias: Any, floor: Any, out: Any, slot: Any,
    ) -> None:  # fmt: skip
        for m in range(columns):
            total = bias[at_bias : at_bias + width].copy()
            for row in range(kernel_rows):
                for k in range(taps):
                    place = at + row * row_step + (m * stride + k) * step
                    factor = at_weight + (row * taps + k) * channels
                    total += x[place : place + width] * weights[factor : factor + width]
            out[slot + m * channels : slot + m * channels + width] = np.maximum(total, floor)

    return slow


@dataclass(frozen=True)
class PackedDepthwise:
    """Depthwise weights as ``[KH, KW, C]`` with their bias and geometry."""

    data: np.ndarray
    bias: np.ndarray
    stride: tuple[int, int]
    padding: tuple[int, int]


def pack_depthwise(
    weights: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
) -> PackedDepthwise:
    """Pack ONNX-ordered weights ``[C, 1, KH, KW]`` (float32, one output per input channel)."""
    require(
        isinstance(weights, np.ndarray) and weights.ndim == 4 and weights.shape[1] == 1,
        "weights must be [C, 1, KH, KW]",
    )
    require(weights.dtype == np.float32, f"weights has type {weights.dtype}; allowed: float32")
    require(min(weights.shape) >= 1, f"weights has shape {weights.shape}; allowed: every axis 1 or more")
    bias = np.zeros(weights.shape[0], np.float32) if bias is None else whole("bias", bias, np.float32, 1)
    require(bias.size == weights.shape[0], f"bias has {bias.size} values; allowed: {weights.shape[0]}")
    pairs = [(v, v) if isinstance(v, int) else (int(v[0]), int(v[1])) for v in (stride, padding)]
    require(min(pairs[0]) >= 1, f"stride is {pairs[0]}; allowed: 1 or more")
    require(min(pairs[1]) >= 0, f"padding is {pairs[1]}; allowed: 0 or more")
    return PackedDepthwise(np.ascontiguousarray(np.moveaxis(weights[:, 0], 0, -1)), bias, pairs[0], pairs[1])


def _rows(taps: int, stride: int) -> Callable[..., None]:
    width = lanes()
    wide, wide_one = row_tile(ROW_TILE, width, taps, stride), row_tile(1, width, taps, stride)
    thin = row_tile(1, 1, taps, stride)

    @inner
    def rows(
        lo, hi, x, edged, height, down, weights, kernel_rows, bias, floor, out, columns, channels, out_edged, border
    ):
        for r in range(lo, hi):
            image, line = r // height, r % height
            above = edged[0] * image + line * down
            below = out_edged[0] * image + line + border
            pitch = edged[1] * channels
            ow = 0
            while ow < columns:
                full = columns >= ROW_TILE
                if full:
                    ow = min(ow, columns - ROW_TILE)  # the overlap is computed twice, equally
                at = (above * edged[1] + ow * stride) * channels
                slot = (below * out_edged[1] + ow + border) * channels
                c = 0
                while c + width <= channels:
                    if full:
                        wide(
                            x, at + c, pitch, channels, kernel_rows, weights, c, channels, bias, c, floor, out, slot + c
                        )
                    else:
                        wide_one(
                            x, at + c, pitch, channels, kernel_rows, weights, c, channels, bias, c, floor, out, slot + c
                        )
                    c += width
                while c < channels:
                    for m in range(ROW_TILE if full else 1):
                        near, to = at + m * stride * channels + c, slot + m * channels + c
                        thin(x, near, pitch, channels, kernel_rows, weights, c, channels, bias, c, floor, out, to)
                    c += 1
                ow += ROW_TILE if full else 1

    return rows


_rows_3_1, _rows_3_2, _rows_5_1, _rows_5_2 = _rows(3, 1), _rows(3, 2), _rows(5, 1), _rows(5, 2)


@kernel
def depthwise_rows(
    lo, hi, x, edged, height, down, across, weights, taps, bias, floor, out, columns, channels, out_edged, border
):
    """Output rows ``[lo, hi)`` (over all images) of a depthwise convolution."""
    flat, kernel_rows = weights.reshape(-1), weights.shape[0]
    if taps == 3 and across == 1:
        _rows_3_1(
            lo, hi, x, edged, height, down, flat, kernel_rows, bias, floor, out, columns, channels, out_edged, border
        )
    elif taps == 3 and across == 2:
        _rows_3_2(
            lo, hi, x, edged, height, down, flat, kernel_rows, bias, floor, out, columns, channels, out_edged, border
        )
    elif taps == 5 and across == 1:
        _rows_5_1(
            lo, hi, x, edged, height, down, flat, kernel_rows, bias, floor, out, columns, channels, out_edged, border
        )
    elif taps == 5 and across == 2:
        _rows_5_2(
            lo, hi, x, edged, height, down, flat, kernel_rows, bias, floor, out, columns, channels, out_edged, border
        )
    else:
        total = np.empty(channels, np.float32)
        for r in range(lo, hi):
            image, line = r // height, r % height
            for ow in range(columns):
                total[:] = bias
                for i in range(kernel_rows):
                    for k in range(taps):
                        at = ((edged[0] * image + line * down + i) * edged[1] + ow * across + k) * channels
                        for c in range(channels):
                            total[c] += x[at + c] * weights[i, k, c]
                slot = ((out_edged[0] * image + line + border) * out_edged[1] + ow + border) * channels
                for c in range(channels):
                    out[slot + c] = max(total[c], floor)


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
    """Depthwise 2-D convolution of ``x`` ``[N, H, W, C]``; arguments as for ``conv``."""
    whole("x", x, np.float32, 4)
    kernel_rows, taps, channels = packed.data.shape
    require(x.shape[3] == channels, f"x has {x.shape[3]} channels; the weights take {channels}")
    require(border >= 0, f"border is {border}; allowed: 0 or more")
    padded = x if bordered else pad_spatial(x, packed.padding)
    edged = padded.shape[1:3]
    spatial = tuple(max(0, (n - k) // s + 1) for n, k, s in zip(edged, (kernel_rows, taps), packed.stride, strict=True))
    shape = (x.shape[0], spatial[0] + 2 * border, spatial[1] + 2 * border, channels)
    if out is None:
        out = np.zeros(shape, np.float32) if border else np.empty(shape, np.float32)
    require(whole("out", out, np.float32, 4).shape == shape, f"out is {out.shape}; allowed: {shape}")
    if x.shape[0] == 0 or min(spatial) == 0:
        return out
    over_range(
        depthwise_rows, x.shape[0] * spatial[0], padded.reshape(-1), edged, spatial[0], packed.stride[0],
        packed.stride[1], packed.data, taps, packed.bias, RELU if relu else LINEAR, out.reshape(-1),
        spatial[1], channels, shape[1:3], border, threads=threads, grain=4,
    )  # fmt: skip
    return out
