"""Vector width of the target, and things numba has no name for: functions of LLVM, prefetch and fp16 vectors.

``INFERSCAPE_ISA`` narrows the vector width (``avx2``: 8 floats, ``portable``: 4) without changing any result
beyond fused multiply-add; it can never widen it past what the host executes.
"""

from typing import Any

from llvmlite import ir

from engine.kernels.jit import host_features, intrinsic, isa, types

LINE = 64
"""Bytes of a cache line. [B]"""
HALF = ir.HalfType()
_BYTE = ir.IntType(8)
_I32 = ir.IntType(32)
VL = {"avx512vnni": 16, "avx512": 16, "avx2": 8, "portable": 4}[isa()]
"""FP32 lanes of one vector register of the target: 16 (AVX-512), 8 (AVX2) or 4. [-]"""
_HAS_F16C = "f16c" in host_features() and VL > 4  # fp16 <-> fp32 in one instruction, never where `portable` is forced


def declare(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """The function ``name`` of the module under construction, declared on first use."""
    module = builder.module
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, arguments), name)


def ask_for(builder: Any, pointer: Any, locality: int = 3) -> None:
    """IR: asks for the cache line at a pointer to bytes: never a fault."""
    hint = declare(builder, "llvm.prefetch.p0", ir.VoidType(), [_BYTE.as_pointer(), _I32, _I32, _I32])
    builder.call(hint, [pointer, _I32(0), _I32(locality), _I32(1)])


def half_vector(builder: Any, bits: Any, width: int) -> Any:
    """IR: ``width`` fp16 bit patterns (``<width x i16>``) to ``<width x float>``, exact for every pattern.

    Without the conversion instruction: shift exponent and mantissa into place and rescale by 2^112, which is
    exact for normals and subnormals alike; infinities and NaNs get the full exponent.
    """
    floats = ir.VectorType(ir.FloatType(), width)
    if _HAS_F16C:
        return builder.fpext(builder.bitcast(bits, ir.VectorType(HALF, width)), floats)
    ints = ir.VectorType(_I32, width)
    constants = (0x7FFF, 13, (127 + 112) << 23, 0x7C00 << 13, 0x7F800000, 0x8000, 16)
    low, left, scale, limit, full, top, up = (ir.Constant(ints, [value] * width) for value in constants)
    wide = builder.zext(bits, ints)
    magnitude = builder.shl(builder.and_(wide, low), left)
    finite = builder.fmul(builder.bitcast(magnitude, floats), builder.bitcast(scale, floats))
    special = builder.icmp_unsigned(">=", magnitude, limit)
    value = builder.select(special, builder.or_(magnitude, full), builder.bitcast(finite, ints))
    sign = builder.shl(builder.and_(wide, top), up)
    return builder.bitcast(builder.or_(value, sign), floats)


def array_at(context: Any, builder: Any, signature: Any, args: Any, position: int) -> tuple[Any, Any]:
    """An argument of a function that is an array, and the pointer to its bytes."""
    array = context.make_array(signature.args[position])(context, builder, args[position])
    return array, builder.bitcast(array.data, _BYTE.as_pointer())


def _prefetch(typingctx: Any, array: Any, offset: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, start = array_at(context, builder, signature, args, 0)
        ask_for(builder, builder.gep(start, [builder.mul(args[1], args[1].type(array.dtype.bitwidth // 8))]))
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


prefetch: Any = intrinsic(_prefetch)
"""``prefetch(array, offset)`` asks for the cache line at flat ``offset`` [elements] of ``array``: never a fault."""
