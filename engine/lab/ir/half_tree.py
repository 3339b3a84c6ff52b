"""A tile of fp16 products summed by a pairwise tree, every result rounded, as IR: the unit of `operators.halftree`."""

from typing import Any

import numpy as np
from llvmlite import ir

from engine.kernels.jit import JIT_ENABLED, intrinsic, types
from engine.lab.ir.lanes import HALF, half_vector, has_f16c
from engine.lab.ir.microkernel import VL, load, splat

_AHEAD = 8 * 1024  # bytes of weights to prefetch ahead: beyond one page, within a second-level cache
_I8, _I16, _I32, _I64, _F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()


def _rounded(builder: Any, value: Any) -> Any:
    """IR: float32 lanes rounded to the nearest fp16 (ties to even), kept as float32."""
    floats, words = value.type, ir.VectorType(_I32, VL)

    def bits(constant: int) -> Any:
        return ir.Constant(words, [constant] * VL)

    raw = builder.bitcast(value, words)
    magnitude, sign = builder.and_(raw, bits(0x7FFFFFFF)), builder.and_(raw, bits(0x80000000))
    power = builder.and_(raw, bits(0x7F800000))
    small = bits((127 - 14) << 23)
    power = builder.select(builder.icmp_unsigned(">", power, small), power, small)
    big = builder.bitcast(builder.add(power, bits((13 << 23) | 0x400000)), floats)
    near = builder.bitcast(builder.fsub(builder.fadd(value, big), big), words)
    near = builder.or_(near, sign)  # a sum that rounds to zero keeps its sign
    limit = int(np.float32(65520).view(np.uint32))
    infinite = builder.select(
        builder.icmp_unsigned(">", magnitude, bits(0x7F800000)), raw, builder.or_(sign, bits(0x7F800000))
    )
    result = builder.select(builder.icmp_unsigned("<", magnitude, bits(limit)), near, infinite)
    return builder.bitcast(result, floats)


def _tile_ir(width: int) -> Any:
    floats = ir.VectorType(_F32, VL)
    shorts = ir.VectorType(_I16, VL)
    halves = ir.VectorType(HALF, VL)

    @intrinsic
    def generated(typingctx: Any, w: Any, w_off: Any, x: Any, x_off: Any, total: Any):
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def data(index: int, offset: Any, each: int) -> Any:
                array = context.make_array(signature.args[index])(context, builder, args[index])
                return builder.gep(builder.bitcast(array.data, _I8.as_pointer()), [builder.mul(offset, _I64(each))])

            w_at, x_at, total_at = data(0, args[1], 2), data(2, args[3], 4), data(4, _I64(0), 4)
            name = "llvm.prefetch.p0"
            kind = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
            hint = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)

            def half(value: Any) -> Any:
                if has_f16c():
                    return builder.fpext(builder.fptrunc(value, halves), floats)
                return _rounded(builder, value)

            level = []
            for i in range(width):
                if i * 2 * VL % 64 == 0:
                    line = builder.gep(w_at, [_I64(i * 2 * VL + _AHEAD)])
                    builder.call(hint, [line, _I32(0), _I32(3), _I32(1)])
                weight = half_vector(builder, load(builder, w_at, _I64(2 * VL * i), shorts), VL)
                level.append(half(builder.fmul(weight, splat(builder, load(builder, x_at, _I64(4 * i), _F32), VL))))
            while len(level) > 1:  # level by level: what is rounded next does not wait for what was rounded last
                level = [half(builder.fadd(a, b)) for a, b in zip(level[::2], level[1::2], strict=True)]
            value = half(builder.fadd(load(builder, total_at, _I64(0), floats), level[0]))
            builder.store(value, builder.bitcast(total_at, floats.as_pointer()), align=1)
            return context.get_dummy_value()

        index = types.intp
        return types.void(w, index, x, index, total), codegen

    return generated


def _tile_python(width: int) -> Any:
    def tile_in_python(w, w_off, x, x_off, total):
        weights = w[w_off : w_off + width * VL].view(np.float16).reshape(width, VL)
        with np.errstate(all="ignore"):
            level = weights * x[x_off : x_off + width].astype(np.float16)[:, None]
            while len(level) > 1:
                level = level[0::2] + level[1::2]
            total[:] = (total.astype(np.float16) + level[0]).astype(np.float32)

    return tile_in_python


make_tile = _tile_ir if JIT_ENABLED else _tile_python
"""``make_tile(width)(w, w_off, x, x_off, total)``: ``width`` inputs of VL outputs, added to their running sums."""
