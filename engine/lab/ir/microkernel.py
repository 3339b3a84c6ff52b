"""One generator for the inner tile of every matrix product; only the multiply-accumulate step differs by kind.

A tile multiplies ``MR`` rows by ``NV`` vectors of ``VL`` columns over the whole K in registers, starting from ``init``
(bias, zero-point correction) and ending in one epilogue, so nothing is written twice. A second tile of ``EDGE`` rows
takes what is left of M.

Kinds, chosen by the type of the rows when a kernel is compiled (the word is 32 bits; ``GROUP`` elements share it)::

    u8s8   uint8    4 x u8 . s8  -> s32   vpdpbusd, exact                       (AVX512-VNNI)
    s16    int16    2 x s16 . s16 -> s32  widened u8 . s8, exact                (any CPU: LLVM folds it to pmaddwd)
    f32    float32  1 x f32               fused where the target has FMA
    bf16   uint16   2 x bf16 -> f32       vdpbf16ps                             (AVX512-BF16)

Rows are read where they lie, one 32-bit word broadcast at a time: six rows fit a first-level cache at any stride.
Columns lie in panels ``[panel][k-word][NV][VL]`` words of ``NC = NV * VL`` columns, zero padded (:func:`in_panels`).
Where K is no multiple of four bytes, the last word of u8s8 starts at element K - 4 and its weights for what was
already counted are zero, and bf16 ends on half a word, so no row is copied for its length.

The order of additions of an element is k = 0, 1, 2, ... whatever the tile, block or thread it falls in: results
are bit-identical for any number of threads.
"""

from typing import Any

import numpy as np
from llvmlite import ir

from engine.kernels.jit import cgutils, host_features, intrinsic, isa, types
from engine.lab.ir.lanes import LINE, VL, ask_for, declare
from engine.lab.ranges import fresh

MR = 6
EDGE = 2
NV = 4 if VL == 16 else 2  # 6x4 accumulators of 32 registers, 6x2 of 16
NC = NV * VL
GROUP = {"u8s8": 4, "s16": 2, "f32": 1, "bf16": 2}
INT_KIND = "u8s8" if isa() == "avx512vnni" else "s16"
_NEWEST = host_features() if isa() == "avx512vnni" else frozenset()
HAS_BF16 = "avx512bf16" in _NEWEST
"""Whether bf16 pairs are multiplied by one instruction."""
HAS_COUNT = "avx512vpopcntdq" in _NEWEST
"""Whether the bits of a vector's lanes are counted by one instruction."""

_KIND: dict[str, str] = {"uint8": "u8s8", "int16": "s16", "float32": "f32", "uint16": "bf16"}
_ROUNDER = 1.5 * 2**23  # x + _ROUNDER has the integer nearest x (ties to even) in its low mantissa bits
_ROUNDER_BITS = 0x4B400000
_AHEAD = 3072  # bytes of the panel that the edge tile, which may be all there is of M, asks for in advance

_I8, _I16, _I32, _I64, _F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()


def panels(n: int) -> int:
    """Column panels of ``n`` columns. [-]"""
    return -(-n // NC)


def in_panels(b: np.ndarray, kind: str, dtype: type) -> np.ndarray:
    """Weights [K, N] as the flat column panels of ``kind``, elements of ``dtype``."""
    k, n = b.shape
    group, across = GROUP[kind], panels(n)
    words = -(-k // group)
    full = np.zeros((words * group, across * NC), dtype)
    full[:k, :n] = b
    tail = k % group
    if kind == "u8s8" and tail and k > group:  # the last word of a row starts at K - 4
        full[-group:] = 0
        full[-tail:, :n] = b[-tail:]
    out = fresh((full.size,), dtype)
    out[:] = full.reshape(words, group, across, NC).transpose(2, 0, 3, 1).reshape(-1)
    return out


def multiply_add(builder: Any, kind: str, acc: Any, a: Any, b: Any) -> Any:
    """IR of ``acc + a . b`` for one vector of 32-bit words of ``kind``."""
    width = acc.type.count
    if kind == "f32":
        if isa() == "portable":  # a target without FMA would call a library for every element
            return builder.fadd(acc, builder.fmul(a, b, flags=["contract"]), flags=["contract"])
        return builder.call(declare(builder, f"llvm.fma.v{width}f32", acc.type, [acc.type] * 3), [a, b, acc])
    if kind == "u8s8":
        part = ir.VectorType(_I8, 4 * width)
        name = f"llvm.x86.avx512.vpdpbusd.{32 * width}"
        function = declare(builder, name, acc.type, [acc.type, part, part])
        return builder.call(function, [acc, builder.bitcast(a, part), builder.bitcast(b, part)])
    if kind == "bf16":
        bits = ir.VectorType(ir.IntType(16), 2 * width)
        part = ir.VectorType(_BFloat(), 2 * width)
        function = declare(builder, f"llvm.x86.avx512bf16.dpbf16ps.{32 * width}", acc.type, [acc.type, part, part])
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


def members(context: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    """IR: members of a tuple; of an array the pointer to its data, whole numbers of 64 bits, reals of 32."""
    result = []
    for part, member in zip(kind.types, cgutils.unpack_tuple(builder, value), strict=True):
        if isinstance(part, types.Array):
            result.append(context.make_array(part)(context, builder, member).data)
        else:
            target = types.float32 if isinstance(part, types.Float) else types.intp
            result.append(context.cast(builder, member, part, target))
    return result


def _requantise(builder: Any, acc: Any, scale: Any, zero: Any, low: Any, high: Any) -> Any:
    """IR: clamp(rint(acc * scale), low - zero, high - zero) + zero as bytes."""
    floats = ir.VectorType(_F32, VL)
    value = builder.fmul(builder.sitofp(acc, floats), scale)
    origin = builder.sitofp(zero, _F32)
    for bound, test in ((low, "<"), (high, ">")):
        limit = splat(builder, builder.fsub(bound, origin), VL)
        value = builder.select(builder.fcmp_ordered(test, value, limit), limit, value)
    code = builder.fadd(value, ir.Constant(floats, [_ROUNDER] * VL))
    base = splat(builder, builder.sub(zero, _I32(_ROUNDER_BITS)), VL)
    return builder.trunc(builder.add(builder.bitcast(code, acc.type), base), ir.VectorType(_I8, VL))


def tile(height: int) -> Any:
    """The tile of ``height`` rows, :data:`MR` or :data:`EDGE`, to be called from a compiled range kernel.

    ``tile((a, a_off, lda), (b, b_off, k), (init, scale, col), (zero, low, high), (c, c_off, ldc), (rows, cols),
    resume)``: rows of
    ``k`` elements from ``a_off``, ``lda`` apart, against the panel at word ``b_off``; s16 takes whole words of K, u8s8
    at least one. ``init[col:]`` starts the sums or, where ``resume``, what ``c`` holds (32-bit sums). The type of
    ``c`` picks the epilogue: uint8 of integer sums stores ``clamp(rint(sum * scale[col:]) + zero, low, high)``,
    anything else the sums (real ones at least ``low``).
    ``c_off``, ``ldc`` and ``cols`` count elements of ``c``; only the first ``rows`` x ``cols`` are written, and the
    tall tile is only given whole heights.
    """

    @intrinsic
    def emit(typingctx: Any, lhs: Any, rhs: Any, start: Any, clamp: Any, target: Any, edge: Any, resume: Any) -> Any:
        left_type, out_type = lhs.types[0].dtype, target.types[0].dtype
        kind, epilogue = _KIND[str(left_type)], "u8" if str(out_type) == "uint8" else "raw"
        real = kind in ("f32", "bf16")
        vector = ir.VectorType(_F32 if real else _I32, VL)
        word = _F32 if kind == "f32" else _I32
        a_size, size = left_type.bitwidth // 8, out_type.bitwidth // 8
        step = VL * size  # bytes stored of one vector of sums

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def parts(index: int) -> list[Any]:
                """Members of a tuple, pointers to bytes."""
                fields = members(context, builder, signature.args[index], args[index])
                return [builder.bitcast(m, _I8.as_pointer()) if m.type.is_pointer else m for m in fields]

            def beyond(pointer: Any, offset: Any, width: int) -> Any:
                return builder.gep(pointer, [builder.mul(offset, _I64(width))])

            (a, a_off, lda), (b, b_off, k), (init, scale, col) = parts(0), parts(1), parts(2)
            (zero, low, high), (c, c_off, ldc), (rows, cols) = parts(3), parts(4), parts(5)
            zero, resume = builder.trunc(zero, _I32), args[6]
            first_row, cols_at = beyond(a, a_off, a_size), beyond(b, b_off, 4)
            init_at, scale_at, out_at = beyond(init, col, 4), beyond(scale, col, 4), beyond(c, c_off, size)
            row_at = []
            for r in range(height):
                inside = builder.icmp_signed("<", _I64(r), rows)  # an edge tile repeats row 0 beyond its rows
                index = _I64(r) if height == MR or r == 0 else builder.select(inside, _I64(r), _I64(0))
                offset = builder.mul(builder.mul(lda, index), _I64(a_size))
                row_at.append(builder.gep(first_row, [offset]))

            across = _I64(NV * step // size)
            whole = builder.icmp_signed(">=", cols, across)
            if height != MR:
                whole = builder.and_(whole, builder.icmp_signed(">=", rows, _I64(height)))
            room = ir.ArrayType(_I8, height * NV * step)
            spill = builder.bitcast(cgutils.alloca_once(builder, room), _I8.as_pointer())
            base = builder.select(whole, out_at, spill)
            stride = builder.select(whole, builder.mul(ldc, _I64(size)), _I64(NV * step))
            place = [builder.gep(base, [builder.mul(stride, _I64(r))]) for r in range(height)]

            def exchange(inwards: bool) -> None:
                """Copy what there is of an incomplete tile of the output into or out of the spill."""
                wide = builder.select(builder.icmp_signed("<", cols, across), cols, across)
                high_row = builder.select(builder.icmp_signed("<", rows, _I64(height)), rows, _I64(height))
                with cgutils.for_range(builder, high_row) as line:
                    spill_at = builder.gep(spill, [builder.mul(line.index, _I64(NV * step))])
                    source_at = builder.gep(out_at, [builder.mul(builder.mul(line.index, ldc), _I64(size))])
                    target, source = (spill_at, source_at) if inwards else (source_at, spill_at)
                    cgutils.raw_memcpy(builder, target, source, wide, size)

            begin = [init_at] * height
            if epilogue == "raw":
                with builder.if_then(builder.and_(resume, builder.not_(whole)), likely=False):
                    exchange(inwards=True)
                begin = [builder.select(resume, place[r], init_at) for r in range(height)]
            starts = ((load(builder, at, _I64(4 * VL * j), vector) for j in range(NV)) for at in begin)
            sums = [[cgutils.alloca_once_value(builder, value) for value in row] for row in starts]

            def step_of_k(word_of_a: Any, index: Any) -> None:
                """All sums by one word of K; ``word_of_a(r)`` is row r's."""
                b_step = builder.gep(cols_at, [builder.mul(index, _I64(4 * NC))])
                if height != MR:
                    for line in range(0, 4 * NC, LINE):
                        ask_for(builder, builder.gep(b_step, [_I64(_AHEAD + line)]))
                bs = [load(builder, b_step, _I64(4 * VL * j), ir.VectorType(word, VL)) for j in range(NV)]
                for r in range(height):
                    lanes = splat(builder, word_of_a(r), VL)
                    for j in range(NV):
                        total = multiply_add(builder, kind, builder.load(sums[r][j]), lanes, bs[j])
                        builder.store(total, sums[r][j])

            split = kind == "bf16"  # an odd K ends on half a word: an overlapping one could multiply 0 by infinity
            words = builder.sdiv(k if split else builder.add(k, _I64(GROUP[kind] - 1)), _I64(GROUP[kind]))
            last = builder.sub(builder.mul(k, _I64(a_size)), _I64(4))
            with cgutils.for_range(builder, words) as loop:
                at = builder.mul(loop.index, _I64(4))
                if kind == "u8s8":
                    at = builder.select(builder.icmp_signed("<", at, last), at, last)
                step_of_k(lambda r: load(builder, row_at[r], at, word), loop.index)
            if split:
                with builder.if_then(builder.trunc(k, ir.IntType(1)), likely=False):
                    at = builder.mul(words, _I64(4))
                    step_of_k(lambda r: builder.zext(load(builder, row_at[r], at, _I16), word), words)

            def finish(r: int, j: int) -> Any:
                total = builder.load(sums[r][j])
                if epilogue == "u8":
                    by = load(builder, scale_at, _I64(4 * VL * j), ir.VectorType(_F32, VL))
                    return _requantise(builder, total, by, zero, low, high)
                if real:
                    floor = splat(builder, low, VL)
                    return builder.select(builder.fcmp_ordered("<", total, floor), floor, total)
                return total

            for r in range(height):
                for j in range(NV):
                    value = finish(r, j)
                    target = builder.gep(place[r], [_I64(j * step)])
                    builder.store(value, builder.bitcast(target, value.type.as_pointer()), align=1)
            with builder.if_then(builder.not_(whole), likely=False):
                exchange(inwards=False)
            return context.get_dummy_value()

        return types.void(lhs, rhs, start, clamp, target, edge, types.boolean), codegen

    return emit
