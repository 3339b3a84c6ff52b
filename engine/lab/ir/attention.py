"""Parts of attention that need their own code: rows weighted and summed in registers, 16-bit values in and out.

The type of a cache tells its format: float32, int16 patterns of bf16, uint16 ones of fp16. Sums are float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from engine.kernels.jit import JIT_ENABLED, inner, intrinsic, types
from engine.lab.ir.dot import AHEAD, NAMED, widened
from engine.lab.ir.lanes import half_vector
from engine.lab.ir.microkernel import VL, declared, load, multiply_add, splat

CACHED = ("f32", "bf16", "fp16")
"""Formats of a key/value cache."""
_I8, _I16, _I32, _I64, _F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
_LINE = 64
_TINY = np.float32(2.0**-14)
_HALF = np.float32(0.5)
_LARGE = np.float32(65520)  # rounds to infinity in fp16


def _widen_ir() -> Any:
    @intrinsic
    def generated(typingctx: Any, x: Any) -> Any:
        stored = NAMED[str(x)]

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if stored == "f32":
                return args[0]
            if stored == "bf16":
                wide = builder.shl(builder.zext(args[0], _I32), _I32(16))
                return builder.bitcast(wide, _F32)
            one = builder.insert_element(ir.Constant(ir.VectorType(_I16, 1), ir.Undefined), args[0], _I32(0))
            return builder.extract_element(half_vector(builder, one, 1), _I32(0))

        return types.float32(x), codegen

    return generated


def _widen_python(x: Any) -> Any:
    if isinstance(x, np.float32):
        return x
    if isinstance(x, np.int16):
        return np.int32(np.int32(x) << 16).view(np.float32)
    return np.float32(x.view(np.float16))


widen = _widen_ir() if JIT_ENABLED else _widen_python
"""``widen(x)``: a stored value, float32, int16 (bf16) or uint16 (fp16), as float32; exact."""


@inner
def narrow_bf16(x):
    """Pattern of a float32 in bf16, nearest, ties to even, as the int16 it is stored in."""
    if np.isnan(x):
        return np.int64(0x7FC0)
    bits = np.int64(np.float32(x).view(np.int32))
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # an arithmetic shift: negative values keep their sign


@inner
def narrow_fp16(x):
    """Pattern of a float32 in fp16, nearest, ties to even."""
    bits = np.int64(np.float32(x).view(np.uint32))
    sign, magnitude = (bits >> 16) & 0x8000, np.float32(abs(x))
    if np.isnan(x):
        return np.uint16(0x7E00 | sign)
    if magnitude >= _LARGE:
        return np.uint16(0x7C00 | sign)
    if magnitude < _TINY:  # the sum's last bit is fp16's smallest step
        return np.uint16((np.int64(np.float32(magnitude + _HALF).view(np.uint32)) - 0x3F000000) | sign)
    bits &= 0x7FFFFFFF
    return np.uint16(((bits - (112 << 23) + 0xFFF + ((bits >> 13) & 1)) >> 13) | sign)


@inner
def store_value(cache, at, x, stored):
    """``cache[at] = x`` in the format numbered ``stored`` in :data:`CACHED`; ``cache`` is flat."""
    if stored == 0:
        cache[at] = x
    elif stored == 1:
        cache[at] = narrow_bf16(x)
    else:
        cache[at] = narrow_fp16(x)


def weighted_rows(vectors: int) -> Any:
    """``f(weights, w_off, rows, rows_off, pitch, count, out, out_off)``: ``vectors * VL`` columns summed over rows.

    ``out[c] = sum over r of weights[w_off + r] * rows[rows_off + r * pitch + c]``, in order of r. Lines are asked for
    :data:`~engine.lab.ir.dot.AHEAD` of where rows are read.
    """
    if not JIT_ENABLED:

        def slow(weights: Any, w_off: int, rows: Any, rows_off: int, pitch: int, count: int, out: Any, to: int) -> None:
            total = np.zeros(vectors * VL, np.float32)
            for r in range(count):
                row = rows[rows_off + r * pitch : rows_off + r * pitch + vectors * VL]
                total += weights[w_off + r] * np.array([widen(v) for v in row], np.float32)
            out[to : to + vectors * VL] = total

        return slow
    floats = ir.VectorType(_F32, VL)

    @intrinsic
    def generated(
        typingctx: Any, weights: Any, w_off: Any, rows: Any, rows_off: Any, pitch: Any, count: Any, out: Any, to: Any
    ) -> Any:
        stored = NAMED[str(rows.dtype)]
        element, size = (_F32, 4) if stored == "f32" else (_I16, 2)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def data(index: int, offset: Any, each: int) -> Any:
                array = context.make_array(signature.args[index])(context, builder, args[index])
                pointer = builder.bitcast(array.data, _I8.as_pointer())
                return builder.gep(pointer, [builder.mul(offset, _I64(each))])

            factor_at, row_at, out_at = data(0, args[1], 4), data(2, args[3], size), data(6, args[7], 4)
            step = builder.mul(args[4], _I64(size))
            entry, head = builder.block, builder.append_basic_block("rows")
            body, done = builder.append_basic_block("row"), builder.append_basic_block("summed")
            builder.branch(head)
            builder.position_at_end(head)
            r = builder.phi(_I64)
            r.add_incoming(_I64(0), entry)
            sums = [builder.phi(floats) for _ in range(vectors)]
            for total in sums:
                total.add_incoming(ir.Constant(floats, [0.0] * VL), entry)
            builder.cbranch(builder.icmp_signed("<", r, args[5]), body, done)
            builder.position_at_end(body)
            factor = splat(builder, load(builder, factor_at, builder.mul(r, _I64(4)), _F32), VL)
            row = builder.gep(row_at, [builder.mul(r, step)])
            hint = declared(builder, "llvm.prefetch.p0", ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
            for v, total in enumerate(sums):
                if v * VL * size % _LINE == 0:
                    line = builder.gep(row, [_I64(v * VL * size + AHEAD)])
                    builder.call(hint, [line, _I32(0), _I32(3), _I32(1)])
                value = load(builder, row, _I64(v * VL * size), ir.VectorType(element, VL))
                total.add_incoming(
                    multiply_add(builder, "f32", total, factor, widened(builder, stored, value)), builder.block
                )
            r.add_incoming(builder.add(r, _I64(1)), builder.block)
            builder.branch(head)
            builder.position_at_end(done)
            for v, total in enumerate(sums):
                place = builder.gep(out_at, [_I64(4 * v * VL)])
                builder.store(total, builder.bitcast(place, floats.as_pointer()), align=1)
            return context.get_dummy_value()

        n = types.intp
        return types.void(weights, n, rows, n, n, n, out, n), codegen

    return generated
