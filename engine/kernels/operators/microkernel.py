"""One generator for the inner tile of every matrix product; only the multiply-accumulate step differs by kind.

A tile multiplies ``MR`` packed rows by ``NV`` vectors of ``VL`` columns over the whole K in registers, starting
from ``init`` (bias, zero-point correction) and ending in one epilogue, so nothing is written twice.

Kinds (the word is 32 bits; ``GROUP`` elements share it)::

    u8s8   4 x u8 . s8  -> s32   vpdpbusd, exact                       (AVX512-VNNI)
    s16    2 x s16 . s16 -> s32  widened u8 . s8, exact                (any CPU: LLVM folds it to pmaddwd)
    f32    1 x f32                fused where the target has FMA
    bf16   2 x bf16 -> f32        vdpbf16ps                            (AVX512-BF16)

Layouts
    rows    ``[tile][k-chunk of 64 words][MR][64 words]``: copying keeps whole vectors, and the tile broadcasts every
            word from one moving pointer.
    columns ``[panel][k-word][NV][VL]`` words: a panel is ``NV * VL`` columns, zero padded.

The order of additions of an element is k = 0, 1, 2, ... whatever the tile, block or thread it falls in: results
are bit-identical for any number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numpy.lib.stride_tricks import as_strided

from engine.kernels.jit import JIT_ENABLED, cgutils, host_features, intrinsic, isa, types

__all__ = ["CHUNK", "GROUP", "HAS_BF16", "INT_KIND", "MR", "NC", "NV", "ROUNDER", "STRIP", "VL", "copy_strip", "tile"]

VL = {"avx512vnni": 16, "avx512": 16, "avx2": 8, "portable": 4}[isa()]
MR = 6
NV = 4 if VL == 16 else 2  # 6x4 accumulators of 32 registers, 6x2 of 16
NC = NV * VL
CHUNK = 64
STRIP = 16  # words copied at once
GROUP = {"u8s8": 4, "s16": 2, "f32": 1, "bf16": 2}
INT_KIND = "u8s8" if isa() == "avx512vnni" else "s16"
HAS_BF16 = VL == 16 and "avx512bf16" in host_features()
ROUNDER = np.float32(1.5 * 2**23)  # x + ROUNDER has the integer nearest x (ties to even) in its low mantissa bits
_LINE = 64
_AHEAD = 8  # k-words of the column panel asked for ahead: the panel streams from the second level
_ROUNDER_BITS = 0x4B400000

_I8, _I16, _I32, _I64, _F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()


def declared(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """The function ``name`` of the module under construction, declared on first use."""
    module = builder.module
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, arguments), name)


def multiply_add(builder: Any, kind: str, acc: Any, a: Any, b: Any) -> Any:
    """IR of ``acc + a . b`` for one vector of 32-bit words of ``kind``."""
    width = acc.type.count
    if kind == "f32":
        if isa() == "portable":  # a target without FMA would call a library for every element
            return builder.fadd(acc, builder.fmul(a, b, flags=["contract"]), flags=["contract"])
        return builder.call(declared(builder, f"llvm.fma.v{width}f32", acc.type, [acc.type] * 3), [a, b, acc])
    if kind == "u8s8":
        part = ir.VectorType(_I8, 4 * width)
        name = f"llvm.x86.avx512.vpdpbusd.{32 * width}"
        function = declared(builder, name, acc.type, [acc.type, part, part])
        return builder.call(function, [acc, builder.bitcast(a, part), builder.bitcast(b, part)])
    if kind == "bf16":
        bits = ir.VectorType(ir.IntType(16), 2 * width)
        part = ir.VectorType(_BFloat(), 2 * width)
        function = declared(builder, f"llvm.x86.avx512bf16.dpbf16ps.{32 * width}", acc.type, [acc.type, part, part])
        cast = [builder.bitcast(builder.bitcast(value, bits), part) for value in (a, b)]
        return builder.call(function, [acc, *cast])
    wide = ir.VectorType(_I32, 2 * width)
    narrow = ir.VectorType(_I16, 2 * width)
    factors = [builder.sext(builder.bitcast(value, narrow), wide) for value in (a, b)]
    product = builder.mul(*factors)
    blank = ir.Constant(wide, ir.Undefined)
    half = ir.VectorType(_I32, width)
    even, odd = (ir.Constant(half, list(range(first, 2 * width, 2))) for first in (0, 1))
    pair = builder.add(builder.shuffle_vector(product, blank, even), builder.shuffle_vector(product, blank, odd))
    return builder.add(acc, pair)


class _BFloat(ir.types.Type):
    """The IR type ``bfloat``, which llvmlite does not name."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


def splat(builder: Any, value: Any, width: int) -> Any:
    """IR: ``value`` in every lane of a vector."""
    vector = ir.VectorType(value.type, width)
    blank = ir.Constant(vector, ir.Undefined)
    lanes = ir.Constant(ir.VectorType(_I32, width), [0] * width)
    return builder.shuffle_vector(builder.insert_element(blank, value, _I32(0)), blank, lanes)


def load(builder: Any, base: Any, offset: Any, kind: Any) -> Any:
    """IR: a ``kind`` at byte ``offset`` of ``base``; alignment is never assumed."""
    return builder.load(builder.bitcast(builder.gep(base, [offset]), kind.as_pointer()), align=1)


def _requantised(builder: Any, acc: Any, scale: Any, zero: Any, low: Any, high: Any) -> Any:
    """IR: clamp(rint(acc * scale), low - zero, high - zero) + zero as bytes."""
    floats = ir.VectorType(_F32, VL)
    value = builder.fmul(builder.sitofp(acc, floats), scale)
    origin = builder.sitofp(zero, _F32)
    for bound, test in ((low, "<"), (high, ">")):
        limit = splat(builder, builder.fsub(bound, origin), VL)
        value = builder.select(builder.fcmp_ordered(test, value, limit), limit, value)
    shifted = builder.fadd(value, ir.Constant(floats, [float(ROUNDER)] * VL))
    base = splat(builder, builder.sub(zero, _I32(_ROUNDER_BITS)), VL)
    return builder.trunc(builder.add(builder.bitcast(shifted, acc.type), base), ir.VectorType(_I8, VL))


def _generate(kind: str, epilogue: str) -> Any:
    real = kind in ("f32", "bf16")
    word = _F32 if real else _I32
    load_word = _F32 if kind == "f32" else _I32
    vector, load_vector = ir.VectorType(word, VL), ir.VectorType(load_word, VL)
    size = 1 if epilogue == "u8" else 4

    @intrinsic
    def generated(
        typingctx: Any, a: Any, a_off: Any, b: Any, b_off: Any, words: Any, init: Any, col: Any, scale: Any,
        zero: Any, low: Any, high: Any, c: Any, c_off: Any, ldc: Any, rows: Any, cols: Any,
    ) -> Any:  # fmt: skip
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def data(index: int, offset: Any, width: int) -> Any:
                array = context.make_array(signature.args[index])(context, builder, args[index])
                pointer = builder.bitcast(array.data, _I8.as_pointer())
                return builder.gep(pointer, [builder.mul(offset, _I64(width))])

            rows_at, cols_at, words = data(0, args[1], 4), data(2, args[3], 4), args[4]
            init_at, scale_at = data(5, args[6], 4), data(7, args[6], 4)
            zero, low, high, ldc, rows, cols = *args[8:11], *args[13:16]
            out_at = data(11, args[12], size)
            sums = [[cgutils.alloca_once(builder, vector) for _ in range(NV)] for _ in range(MR)]
            for j in range(NV):
                start = load(builder, init_at, _I64(4 * VL * j), vector)
                for r in range(MR):
                    builder.store(start, sums[r][j])
            hint = declared(builder, "llvm.prefetch.p0", ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
            chunks = builder.sdiv(builder.add(words, _I64(CHUNK - 1)), _I64(CHUNK))
            with cgutils.for_range(builder, chunks) as outer:
                done = builder.mul(outer.index, _I64(CHUNK))
                left = builder.sub(words, done)
                count = builder.select(builder.icmp_signed("<", left, _I64(CHUNK)), left, _I64(CHUNK))
                a_chunk = builder.gep(rows_at, [builder.mul(done, _I64(4 * MR))])
                b_chunk = builder.gep(cols_at, [builder.mul(done, _I64(4 * NC))])
                with cgutils.for_range(builder, count) as step:
                    a_step = builder.gep(a_chunk, [builder.mul(step.index, _I64(4))])
                    b_step = builder.gep(b_chunk, [builder.mul(step.index, _I64(4 * NC))])
                    for line in range(0, 4 * NC, _LINE):
                        ahead = builder.gep(b_step, [_I64(4 * NC * _AHEAD + line)])
                        builder.call(hint, [ahead, _I32(0), _I32(3), _I32(1)])
                    bs = [load(builder, b_step, _I64(4 * VL * j), load_vector) for j in range(NV)]
                    for r in range(MR):
                        one = splat(builder, load(builder, a_step, _I64(4 * CHUNK * r), load_word), VL)
                        for j in range(NV):
                            total = multiply_add(builder, kind, builder.load(sums[r][j]), one, bs[j])
                            builder.store(total, sums[r][j])

            def finished(r: int, j: int) -> Any:
                total = builder.load(sums[r][j])
                if epilogue == "u8":
                    by = load(builder, scale_at, _I64(4 * VL * j), ir.VectorType(_F32, VL))
                    return _requantised(builder, total, by, zero, low, high)
                if real:
                    floor = splat(builder, low, VL)
                    return builder.select(builder.fcmp_ordered("<", total, floor), floor, total)
                return total

            def store_all(base: Any, stride: Any) -> None:
                for r in range(MR):
                    row = builder.gep(base, [builder.mul(stride, _I64(r * size))])
                    for j in range(NV):
                        value = finished(r, j)
                        place = builder.gep(row, [_I64(j * VL * size)])
                        builder.store(value, builder.bitcast(place, value.type.as_pointer()), align=1)

            whole = builder.and_(builder.icmp_signed(">=", rows, _I64(MR)), builder.icmp_signed(">=", cols, _I64(NC)))
            with builder.if_else(whole) as (full, part):
                with full:
                    store_all(out_at, ldc)
                with part:
                    spill = cgutils.alloca_once(builder, ir.ArrayType(_I8, MR * NC * size))
                    base = builder.bitcast(spill, _I8.as_pointer())
                    store_all(base, _I64(NC))
                    wide = builder.select(builder.icmp_signed("<", cols, _I64(NC)), cols, _I64(NC))
                    high_row = builder.select(builder.icmp_signed("<", rows, _I64(MR)), rows, _I64(MR))
                    with cgutils.for_range(builder, high_row) as edge:
                        source = builder.gep(base, [builder.mul(edge.index, _I64(NC * size))])
                        step_bytes = builder.mul(builder.mul(edge.index, ldc), _I64(size))
                        target = builder.gep(out_at, [step_bytes])
                        cgutils.raw_memcpy(builder, target, source, wide, size)
            return context.get_dummy_value()

        index, real_scalar = types.intp, types.float32
        return types.void(
            a, index, b, index, index, init, index, scale, types.int32, real_scalar, real_scalar, c, index, index,
            index, index,
        ), codegen  # fmt: skip

    return generated


def _interpreted(kind: str, epilogue: str) -> Any:
    """The same tile in plain Python over the same packed layouts, for when nothing is compiled."""

    def tile_in_python(a, a_off, b, b_off, words, init, col, scale, zero, low, high, c, c_off, ldc, rows, cols):  # type: ignore[no-untyped-def]  # mirrors the intrinsic
        element = {"u8s8": (np.uint8, np.int8), "s16": (np.int16, np.int16), "f32": (np.float32, np.float32)}[kind]
        group = GROUP[kind]
        k = np.arange(words)
        place = a_off + k // CHUNK * CHUNK * MR + k % CHUNK + CHUNK * np.arange(min(rows, MR))[:, None]
        left = np.zeros((MR, words), np.int32)
        left[:rows] = a.view(np.int32)[place]
        right = b.view(np.int32)[b_off : b_off + words * NC].reshape(words, NC)
        total = np.repeat(init[None, col : col + NC], MR, 0)
        for k in range(words):
            x = np.ascontiguousarray(left[:, k]).view(element[0]).reshape(MR, group)
            y = right[k].view(element[1]).reshape(NC, group)
            for g in range(group):
                total = total + x[:, None, g].astype(total.dtype) * y[None, :, g].astype(total.dtype)
        if epilogue == "u8":
            value = np.clip(total.astype(np.float32) * scale[col : col + NC], low - zero, high - zero)
            total = (np.rint(value) + zero).astype(np.uint8)
        elif kind == "f32":
            total = np.where(total < low, np.float32(low), total)
        rows, cols = min(rows, MR), min(cols, NC)
        flat = c.reshape(-1)[c_off:]
        as_strided(flat, (rows, cols), (ldc * c.itemsize, c.itemsize))[:] = total[:rows, :cols]

    return tile_in_python


def tile(kind: str, epilogue: str = "raw") -> Any:
    """The tile of ``kind`` for the chosen instruction set, to be called from a compiled range kernel.

    ``tile(a, a_off, b, b_off, words, init, col, scale, zero, low, high, c, c_off, ldc, rows, cols)`` with offsets
    of ``a``, ``b`` in words and of ``c`` in elements; ``init[col:]`` starts the sums. Epilogue ``raw`` stores the
    sums (f32: at least ``low``), ``u8`` stores clamp(rint(sum * scale[col:]) + zero, low, high) as bytes.
    Only the first ``rows`` x ``cols`` elements are written.
    """
    return (_generate if JIT_ENABLED else _interpreted)(kind, epilogue)


def _copy_strip_ir() -> Any:
    @intrinsic
    def generated(typingctx: Any, source: Any, source_off: Any, target: Any, target_off: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def place(index: int) -> tuple[Any, Any]:
                array = context.make_array(signature.args[index])(context, builder, args[index])
                return builder.gep(array.data, [args[index + 1]]), array.data.type.pointee

            (read, narrow), (write, wide) = place(0), place(2)
            count = STRIP * 4 // (signature.args[2].dtype.bitwidth // 8)
            value = load(builder, builder.bitcast(read, _I8.as_pointer()), _I64(0), ir.VectorType(narrow, count))
            if narrow != wide:
                value = builder.zext(value, ir.VectorType(wide, count))
            builder.store(value, builder.bitcast(write, value.type.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(source, types.intp, target, types.intp), codegen

    return generated


def _copy_strip_python(source: Any, source_off: int, target: Any, target_off: int) -> None:
    count = STRIP * 4 // target.itemsize
    target[target_off : target_off + count] = source.reshape(-1)[source_off : source_off + count]


copy_strip = _copy_strip_ir() if JIT_ENABLED else _copy_strip_python
"""``copy_strip(source, offset, target, offset)``: 16 words, unsigned elements widened on the way."""
