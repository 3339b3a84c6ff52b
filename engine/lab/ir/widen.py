"""A strip of narrow codes widened to float32, exactly, as IR: what `operators.halfprec` unpacks panels by."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from engine.kernels.jit import JIT_ENABLED, intrinsic, types
from engine.lab.ir.lanes import half_vector
from engine.lab.ir.microkernel import load

STRIP = 16
"""Codes widened at once."""
_CODES = {"ms-fp9": 7, "ms-fp8": 8}  # formats of a byte a code: bits that bring it under fp16's exponent
_I8, _I16, _I32, _I64, _F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()


def _widen_ir(format: str) -> Any:
    @intrinsic
    def generated(typingctx: Any, codes: Any, at: Any, signs: Any, target: Any, target_at: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def data(index: int, offset: Any, size: int) -> Any:
                array = context.make_array(signature.args[index])(context, builder, args[index])
                pointer = builder.bitcast(array.data, _I8.as_pointer())
                return builder.gep(pointer, [builder.mul(offset, _I64(size))])

            halves, words = ir.VectorType(_I16, STRIP), ir.VectorType(_I32, STRIP)
            floats = ir.VectorType(_F32, STRIP)
            byte = format in _CODES
            value = load(
                builder, data(0, args[1], 1 if byte else 2), _I64(0), ir.VectorType(_I8, STRIP) if byte else halves
            )
            if byte:
                value = builder.zext(value, halves)
                value = builder.shl(value, ir.Constant(halves, [_CODES[format]] * STRIP))
            if format == "ms-fp9":
                plane = load(builder, data(2, builder.sdiv(args[1], _I64(STRIP)), 2), _I64(0), _I16)
                negative = builder.bitcast(plane, ir.VectorType(ir.IntType(1), STRIP))
                sign = builder.shl(builder.zext(negative, halves), ir.Constant(halves, [15] * STRIP))
                value = builder.or_(value, sign)
            if format == "bf16":
                wide = builder.shl(builder.zext(value, words), ir.Constant(words, [16] * STRIP))
                wide = builder.bitcast(wide, floats)
            else:
                wide = half_vector(builder, value, STRIP)
            builder.store(wide, builder.bitcast(data(3, args[4], 4), floats.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(codes, types.intp, signs, target, types.intp), codegen

    return generated


def _widen_python(format: str) -> Any:
    def widen(codes: Any, at: int, signs: Any, target: Any, target_at: int) -> None:
        value = codes[at : at + STRIP].astype(np.uint16)
        if format in _CODES:
            value <<= _CODES[format]
        if format == "ms-fp9":
            plane = (signs[at // STRIP] >> np.arange(STRIP, dtype=np.uint16)) & np.uint16(1)
            value |= plane << np.uint16(15)
        if format == "bf16":
            wide = (value.astype(np.uint32) << 16).view(np.float32)
        else:
            wide = value.view(np.float16).astype(np.float32)
        target[target_at : target_at + STRIP] = wide

    return widen


make_widen = _widen_ir if JIT_ENABLED else _widen_python
"""``make_widen(format)(codes, at, signs, target, target_at)``: one strip of a format's codes as float32."""
