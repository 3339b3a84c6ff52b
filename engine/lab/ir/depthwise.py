"""The tile of a depthwise or narrow-group convolution as IR: a few output columns (and rows) times one vector.

Along a row each input column is loaded once and serves every output whose window holds it. With groups of 2, 4 or 8
channels the vector holds several whole groups, and one shuffle for each member spreads it over its group's lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from engine.kernels.jit import JIT_ENABLED, intrinsic, types

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
Shape = tuple[int, int, int, int, int, int, int]


def _emit(shape: Shape, context: Any, builder: Any, signature: Any, args: Any) -> Any:
    columns, tall, width, taps, deep, group, stride = shape
    x, at, row_step, step, steps, weights, at_weight, channels, bias, at_bias, floor, out, slot, slot_step = args
    floats = ir.VectorType(_F32, width)

    def data(array: Any, position: int) -> Any:
        return context.make_array(signature.args[position])(context, builder, array).data

    def load(pointer: Any, index: Any) -> Any:
        return builder.load(builder.bitcast(builder.gep(pointer, [index]), floats.as_pointer()), align=1, typ=floats)

    def times(value: Any, count: int) -> Any:
        return builder.mul(value, _I64(count))

    source, factors, result = data(x, 0), data(weights, 5), data(out, 11)
    where, count = data(steps, 4), context.make_array(signature.args[4])(context, builder, steps).nitems
    before, head = builder.block, builder.append_basic_block("kernel.row")
    body, done = builder.append_basic_block("kernel.row.body"), builder.append_basic_block("kernel.row.end")
    start = load(data(bias, 8), at_bias)
    builder.branch(head)
    builder.position_at_end(head)
    turn = builder.phi(_I64)
    turn.add_incoming(_I64(0), before)
    sums = [[builder.phi(floats) for _ in range(columns)] for _ in range(tall)]
    for value in (v for line in sums for v in line):
        value.add_incoming(start, before)
    builder.cbranch(builder.icmp_signed("<", turn, count), body, done)
    builder.position_at_end(body)
    place = builder.add(at_weight, builder.mul(turn, times(channels, deep * taps * group)))
    factor = [load(factors, builder.add(place, times(channels, i))) for i in range(deep * taps * group)]
    base = builder.add(at, builder.load(builder.gep(where, [turn]), align=8))
    total: list[list[Any]] = [list(line) for line in sums]
    for h in range(tall + deep - 1):
        line = builder.add(base, times(row_step, h))
        for j in range((columns - 1) * stride + taps):
            users = [
                (t, m, (h - t) * taps + j - m * stride)
                for t in range(tall)
                if 0 <= h - t < deep
                for m in range(columns)
                if 0 <= j - m * stride < taps
            ]
            if not users:
                continue
            value = load(source, builder.add(line, times(step, j)))
            for member in range(group):
                spread = value
                if group > 1:
                    order = [lane // group * group + member for lane in range(width)]
                    spread = builder.shuffle_vector(value, value, ir.Constant(ir.VectorType(_I32, width), order))
                for t, m, tap in users:
                    product = builder.fmul(spread, factor[tap * group + member], flags=("contract",))
                    total[t][m] = builder.fadd(total[t][m], product, flags=("contract",))
    for phi_line, line in zip(sums, total, strict=True):
        for phi, value in zip(phi_line, line, strict=True):
            phi.add_incoming(value, builder.block)
    turn.add_incoming(builder.add(turn, _I64(1)), builder.block)
    builder.branch(head)
    builder.position_at_end(done)
    undefined = ir.Constant(floats, ir.Undefined)
    lanes_zero = ir.Constant(ir.VectorType(_I32, width), [0] * width)
    least = builder.shuffle_vector(builder.insert_element(undefined, floor, _I32(0)), undefined, lanes_zero)
    for t in range(tall):
        for m in range(columns):
            value = builder.select(builder.fcmp_ordered("<", sums[t][m], least), least, sums[t][m])
            index = builder.add(builder.add(slot, times(slot_step, t)), times(channels, m))
            builder.store(value, builder.bitcast(builder.gep(result, [index]), floats.as_pointer()), align=1)
    return context.get_dummy_value()


@cache
def row_tile(columns: int, tall: int, width: int, taps: int, deep: int, group: int, stride: int) -> Callable[..., None]:
    """Kernel of ``tall`` rows of ``columns`` adjacent outputs times ``width`` channels, a kernel ``taps`` wide.

    ``f(x, at, row_step, step, steps, weights, at_weight, channels, bias, at_bias, floor, out, slot, slot_step)``:
    ``deep`` kernel rows, ``row_step`` apart, at every displacement in ``steps``; input pixels are ``step`` apart.
    Weights lie as ``[kernel row][tap][member of the group][channels]``. ``tall`` above 1 needs rows at stride 1.
    """
    if JIT_ENABLED:

        def typed(
            typingctx: Any,
            x: Any,
            at: Any,
            row_step: Any,
            step: Any,
            steps: Any,
            weights: Any,
            at_weight: Any,
            channels: Any,
            bias: Any,
            at_bias: Any,
            floor: Any,
            out: Any,
            slot: Any,
            slot_step: Any,
        ) -> Any:
            def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                shape = (columns, tall, width, taps, deep, group, stride)
                return _emit(shape, context, builder, signature, args)

            n = types.intp
            return types.void(x, n, n, n, steps, weights, n, n, bias, n, types.float32, out, n, n), codegen

        return intrinsic(typed)

    def slow(
        x: Any,
        at: Any,
        row_step: Any,
        step: Any,
        steps: Any,
        weights: Any,
        at_weight: Any,
        channels: Any,
        bias: Any,
        at_bias: Any,
        floor: Any,
        out: Any,
        slot: Any,
        slot_step: Any,
    ) -> None:
        lane = np.arange(width)
        for t in range(tall):
            for m in range(columns):
                total = bias[at_bias : at_bias + width].copy()
                for turn, h in np.ndindex(len(steps), deep):
                    for k, member in np.ndindex(taps, group):
                        place = at + steps[turn] + (t + h) * row_step + (m * stride + k) * step
                        factor = at_weight + (((turn * deep + h) * taps + k) * group + member) * channels
                        total += x[place + lane // group * group + member] * weights[factor : factor + width]
                to = slot + t * slot_step + m * channels
                out[to : to + width] = np.maximum(total, floor)

    return slow
