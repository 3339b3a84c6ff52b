"""Vector width of the target, and things numba has no name for: functions of LLVM, prefetch and fp16 vectors.

``INFERSCAPE_ISA`` narrows the vector width (``avx2``: 8 floats, ``portable``: 4) without changing any result
beyond fused multiply-add; it can never widen it past what the host executes.
"""

from functools import cache
from typing import Any

from llvmlite import ir

from engine.kernels.jit import host_features, intrinsic, isa, types

HALF = ir.HalfType()
_BYTE = ir.IntType(8)
_I32 = ir.IntType(32)
_LANES_OF = {"avx512vnni": 16, "avx512": 16, "avx2": 8, "portable": 4}


@cache
def lanes() -> int:
    """FP32 lanes of one vector register of the target: 16 (AVX-512), 8 (AVX2) or 4. [-]"""
    return _LANES_OF[isa()]


def declare(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """The function ``name`` of the module under construction, declared on first use."""
    module = builder.module
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, arguments), name)


def ask_for(builder: Any, pointer: Any, locality: int = 3) -> None:
    """IR: asks for the cache line at a pointer to bytes: never a fault."""
    hint = declare(builder, "llvm.prefetch.p0", ir.VoidType(), [_BYTE.as_pointer(), _I32, _I32, _I32])
    builder.call(hint, [pointer, _I32(0), _I32(locality), _I32(1)])


@cache
def has_f16c() -> bool:
    """Whether the fp16 <-> fp32 conversion instructions may be emitted (never when ``portable`` is forced). [-]"""
    return "f16c" in host_features() and lanes() > 4


def half_vector(builder: Any, bits: Any, width: int) -> Any:
    """IR: ``width`` fp16 bit patterns (``<width x i16>``) to ``<width x float>``, exact for every pattern.

    Without the conversion instruction: shift exponent and mantissa into place and rescale by 2^112, which is
    exact for normals and subnormals alike; infinities and NaNs get the full exponent.
    """
    floats = ir.VectorType(ir.FloatType(), width)
    if has_f16c():
        return builder.fpext(builder.bitcast(bits, ir.VectorType(HALF, width)), floats)
    ints = ir.VectorType(_I32, width)

    def splat(value: int) -> Any:
        return ir.Constant(ints, [value] * width)

    wide = builder.zext(bits, ints)
    magnitude = builder.shl(builder.and_(wide, splat(0x7FFF)), splat(13))
    scale = builder.bitcast(splat((127 + 112) << 23), floats)
    finite = builder.bitcast(builder.fmul(builder.bitcast(magnitude, floats), scale), ints)
    special = builder.icmp_unsigned(">=", magnitude, splat(0x7C00 << 13))
    value = builder.select(special, builder.or_(magnitude, splat(0x7F800000)), finite)
    sign = builder.shl(builder.and_(wide, splat(0x8000)), splat(16))
    return builder.bitcast(builder.or_(value, sign), floats)


@intrinsic
def _hint(typingctx: Any, array: Any, offset: Any) -> Any:
    """IR of :data:`prefetch`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        ask_for(builder, builder.bitcast(builder.gep(data, [args[1]]), _BYTE.as_pointer()))
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


prefetch: Any = _hint
"""``prefetch(array, offset)`` asks for the cache line at flat ``offset`` [elements] of ``array``: never a fault."""
