"""Free times of servers in vector registers, in order, as IR: the loop of `events.servers`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir

from engine.kernels.jit import JIT_ENABLED, intrinsic, types

_LANES = 8  # float64 of the widest vector register; narrower targets split it
_I32, _I64, _F64 = ir.IntType(32), ir.IntType(64), ir.DoubleType()
_VECTOR = ir.VectorType(_F64, _LANES)
_UNSET = ir.Constant(_VECTOR, ir.Undefined)


def _lanes(values: Any) -> ir.Constant:
    return ir.Constant(ir.VectorType(_I32, _LANES), list(values))


def _never_busy(builder: Any, first: int, servers: Any) -> Any:
    """Free times of servers ``first`` .. + 7 before the first request: always for those present, never for others."""
    vector = _UNSET
    for lane in range(_LANES):
        present = builder.icmp_signed("<", _I64(first + lane), servers)
        vector = builder.insert_element(vector, builder.select(present, _F64(-math.inf), _F64(math.inf)), _I32(lane))
    return vector


def _taken(builder: Any, free: list[Any], x: Any) -> list[Any]:
    """Free times in order once the earliest server is free at ``x`` instead."""
    x = builder.shuffle_vector(builder.insert_element(_UNSET, x, _I32(0)), _UNSET, _lanes([0] * _LANES))
    result = []
    for here, beyond in zip(free, [*free[1:], ir.Constant(_VECTOR, [math.inf] * _LANES)]):
        above = builder.shuffle_vector(here, beyond, _lanes(range(1, _LANES + 1)))
        low = builder.select(builder.fcmp_ordered("<", above, x), above, x)
        result.append(builder.select(builder.fcmp_ordered(">", here, low), here, low))
    return result


def _loop_ir(vectors: int) -> Any:
    """The loop for at most ``8 * vectors`` servers; ``waited`` as in `finite_in_registers`, empty: no limit."""

    @intrinsic
    def generated(
        typingctx: Any, arrive: Any, hold: Any, latency: Any, servers: Any, places: Any, waited: Any, done: Any
    ) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            arrays = {k: context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 1, 2, 5, 6)}
            count = builder.extract_value(arrays[0].shape, 0)
            room = builder.extract_value(arrays[5].shape, 0)
            limited, mask = builder.icmp_signed(">", room, _I64(0)), builder.sub(room, _I64(1))
            roomless = builder.icmp_signed("<=", args[4], _I64(0))
            before, end = builder.block, builder.append_basic_block("end")
            first = [_never_busy(builder, _LANES * v, args[3]) for v in range(vectors)]
            bodies = {kind: builder.append_basic_block(kind) for kind in ("unlimited", "places", "no places")}
            some, known = builder.append_basic_block("some"), builder.append_basic_block("known")
            builder.cbranch(builder.icmp_signed(">", count, _I64(0)), some, end)
            builder.position_at_end(some)
            builder.cbranch(limited, known, bodies["unlimited"])
            builder.position_at_end(known)
            never = builder.load(arrays[5].data)
            builder.cbranch(roomless, bodies["no places"], bodies["places"])
            kept_at_end = [(_I64(0), before)]
            for kind, body in bodies.items():
                finite = kind != "unlimited"
                builder.position_at_end(body)
                i, kept = builder.phi(_I64), builder.phi(_I64)
                free = [builder.phi(_VECTOR) for _ in first]
                for phi, value in zip((i, kept, *free), (_I64(0), _I64(0), *first)):
                    phi.add_incoming(value, known if finite else some)
                came, held, stays, out = (builder.gep(arrays[k].data, [i]) for k in (0, 1, 2, 6))
                now, least = builder.load(came), builder.extract_element(free[0], _I32(0))
                start = builder.select(builder.fcmp_ordered(">", least, now), least, now)
                answer, x = builder.fadd(start, builder.load(stays)), builder.fadd(start, builder.load(held))
                kept_now = kept
                if finite:
                    waits = builder.fcmp_ordered(">=", least, now)
                    oldest = builder.load(builder.gep(arrays[5].data, [builder.and_(kept, mask)]))
                    # while anybody waits, no server is free; without places nobody ever does
                    full = waits if kind == "no places" else builder.fcmp_ordered(">=", oldest, now)
                    mine = builder.gep(arrays[5].data, [builder.and_(builder.add(kept, args[4]), mask)])
                    builder.store(builder.select(waits, start, never), mine)
                    kept_now = builder.add(kept, builder.zext(builder.not_(full), _I64))
                    answer, x = builder.select(full, _F64(math.nan), answer), builder.select(full, least, x)
                builder.store(answer, out)
                following = builder.add(i, _I64(1))
                for phi, value in zip((i, kept, *free), (following, kept_now, *_taken(builder, free, x))):
                    phi.add_incoming(value, body)
                builder.cbranch(builder.icmp_signed("<", following, count), body, end)
                kept_at_end.append((kept_now, body))
            builder.position_at_end(end)
            result = builder.phi(_I64)
            for value, block in kept_at_end:
                result.add_incoming(value, block)
            return result

        return types.intp(arrive, hold, latency, types.intp, types.intp, waited, done), codegen

    return generated


def _loop_python(vectors: int) -> Any:
    """As the compiled loop, on a plain array."""

    def interpreted(arrive: Any, hold: Any, latency: Any, servers: int, places: int, waited: Any, done: Any) -> int:
        free = np.full(_LANES * vectors + 1, math.inf)
        free[:servers] = -math.inf
        kept, room = 0, waited.size
        never = waited[0] if room else 0.0
        for i, now in enumerate(arrive):
            start = max(free[0], now)
            if waited.size:
                waits = free[0] >= now
                if waits and waited[kept % room] >= now:
                    done[i] = math.nan
                    continue
                waited[(kept + places) % room] = start if waits else never
                kept += 1
            done[i] = start + latency[i]
            free[:-1] = np.maximum(free[:-1], np.minimum(free[1:], start + hold[i]))
        return kept

    return interpreted


loop = _loop_ir if JIT_ENABLED else _loop_python
"""``loop(vectors)``: the recursion for at most ``8 * vectors`` servers; arguments as `finite_in_registers` has them."""
