"""The implicit-GEMM tile as IR: a few output pixels times a few vectors of output channels, all in registers.

Each of the ``rows`` pixels has its own base offset, each kernel tap its own displacement, and along a tap the channels
are contiguous: one tile serves 1-D, 2-D and 3-D convolution with any stride, and (one tap,
pixel = sample) the gate products of a recurrent cell. K is walked in one order whatever the tile, so results do not
depend on how pixels are cut into tiles. [-]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from engine.kernels.jit import JIT_ENABLED, cgutils, intrinsic, types
from engine.lab.ir.lanes import lanes
from engine.lab.ir.microkernel import members, splat

BLOCK_VECTORS = (4, 2, 1)
"""Output-channel vectors per tile, widest first."""
_ROWS = {16: {4: 6, 2: 12, 1: 14}, 8: {4: 3, 2: 6, 1: 8}, 4: {4: 3, 2: 6, 1: 6}}
"""Pixels per tile for 16, 8, 4 lanes: accumulators + weights + one broadcast fill the 32 (16, 16) registers."""
UNROLL = 4
_I64, _F32 = ir.IntType(64), ir.FloatType()


def tile_rows(vectors: int) -> int:
    """Pixels of the full tile with this many vectors of channels. [-]"""
    return _ROWS[lanes()][vectors]


def _emit(rows: int, vectors: int, context: Any, builder: Any, kinds: Any, args: Any) -> Any:
    width = lanes()
    floats = ir.VectorType(_F32, width)

    def parts(position: int) -> list[Any]:
        return members(context, builder, kinds[position], args[position])

    def number(pointer: Any, index: Any) -> Any:
        return builder.load(builder.gep(pointer, [index]), align=8)

    def vector_at(pointer: Any, index: Any) -> Any:
        return builder.bitcast(builder.gep(pointer, [index]), floats.as_pointer())

    source, where, base, steps, run = parts(0)
    tap, tap_end = parts(2)
    factors, at_weight, shifts, at_bias = parts(3)
    result, slot_of, column = parts(6)
    p, first, floor, q = args[1], args[4], args[5], args[7]
    pixel = [builder.add(number(where, builder.add(p, _I64(m))), base) for m in range(rows)]
    target = [builder.add(number(slot_of, builder.add(q, _I64(m))), column) for m in range(rows)]
    with builder.goto_entry_block():
        sums = [[builder.alloca(floats) for _ in range(vectors)] for _ in range(rows)]
        cursor = builder.alloca(_I64)
    for m in range(rows):
        for v in range(vectors):
            with builder.if_else(first) as (fresh, resumed):
                with fresh:
                    start = builder.load(vector_at(shifts, builder.add(at_bias, _I64(v * width))), align=1, typ=floats)
                    builder.store(start, sums[m][v])
                with resumed:
                    part = builder.load(vector_at(result, builder.add(target[m], _I64(v * width))), align=1, typ=floats)
                    builder.store(part, sums[m][v])
    builder.store(at_weight, cursor)

    def multiply(inputs: list[Any], k: Any, count: int) -> None:
        place = builder.load(cursor)
        for u in range(count):
            step = [
                builder.load(
                    vector_at(factors, builder.add(place, _I64((u * vectors + v) * width))), align=1, typ=floats
                )
                for v in range(vectors)
            ]
            for m in range(rows):
                scalar = builder.load(builder.gep(inputs[m], [builder.add(k, _I64(u))]), align=4)
                every = splat(builder, scalar, width)
                for v in range(vectors):
                    product = builder.fmul(every, step[v], flags=("contract",))
                    builder.store(builder.fadd(builder.load(sums[m][v]), product, flags=("contract",)), sums[m][v])
        builder.store(builder.add(place, _I64(count * vectors * width)), cursor)

    def along_tap(i: Any) -> None:
        displacement = number(steps, builder.add(tap, i))
        inputs = [builder.gep(source, [builder.add(pixel[m], displacement)]) for m in range(rows)]
        whole = builder.sdiv(run, _I64(UNROLL))
        with cgutils.for_range(builder, whole) as loop:
            multiply(inputs, builder.mul(loop.index, _I64(UNROLL)), UNROLL)
        walked = builder.mul(whole, _I64(UNROLL))
        with cgutils.for_range(builder, builder.sub(run, walked)) as loop:
            multiply(inputs, builder.add(walked, loop.index), 1)

    with cgutils.for_range(builder, builder.sub(tap_end, tap)) as loop:
        along_tap(loop.index)
    least = splat(builder, floor, width)
    for m in range(rows):
        for v in range(vectors):
            value = builder.load(sums[m][v])
            value = builder.select(builder.fcmp_ordered("<", value, least), least, value)
            builder.store(value, vector_at(result, builder.add(target[m], _I64(v * width))), align=1)
    return context.get_dummy_value()


@cache
def tile(rows: int, vectors: int) -> Callable[..., None]:
    """Kernel of one tile: ``f(source, p, span, weights, first, floor, target, q)``.

    With source ``(x, pixels, base, taps, run)``, span ``(tap, tap_end)``, weights ``(data, at, bias, at_bias)`` and
    target ``(out, slots, column)``: for pixel ``m`` of ``rows`` and channel ``c`` of ``vectors`` registers,
    ``out[slots[q + m] + column + c] = max(floor, start + sum of x[pixels[p + m] + base + taps[t] + k] * data[...])``
    over taps ``[tap, tap_end)`` and ``k < run``; ``start`` is ``bias[at_bias + c]`` when ``first``, else what
    ``out`` holds.
    """
    if JIT_ENABLED:

        def typed(
            typingctx: Any, source: Any, p: Any, span: Any, weights: Any, first: Any, floor: Any, target: Any, q: Any
        ) -> Any:
            def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                return _emit(rows, vectors, context, builder, signature.args, args)

            n = types.intp
            return types.void(source, n, span, weights, types.boolean, types.float32, target, n), codegen

        return intrinsic(typed)

    def slow(source: Any, p: int, span: Any, weights: Any, first: bool, floor: float, target: Any, q: int) -> None:
        (x, pixels, base, taps, run), (tap, tap_end) = source, span
        (data, at, bias, at_bias), (out, slots, column) = weights, target
        columns = vectors * lanes()
        factors = data[at : at + (tap_end - tap) * run * columns].reshape(tap_end - tap, run, columns)
        for m in range(rows):
            place = slots[q + m] + column
            total = (bias[at_bias : at_bias + columns] if first else out[place : place + columns]).copy()
            for t in range(tap, tap_end):
                start = pixels[p + m] + base + taps[t]
                total += (x[start : start + run, None] * factors[t - tap]).sum(0, dtype=np.float32)
            out[place : place + columns] = np.maximum(total, floor)

    return slow
