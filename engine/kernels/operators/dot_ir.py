"""Generator of the streaming dot-product tile: a few stored rows against a few short vectors, K across the lanes.

Used where one side is tall and the other narrow: weights [N, K] against one token (GEMV), activations [M, K]
against at most 16 columns. Rows are read once, contiguously, in their stored format and widened in registers.

Stored formats, told by the type of the rows: float32; uint16 patterns of fp16 and int16 ones of bf16, exact; uint8
against int8 vectors, exact int32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numpy.lib.stride_tricks import as_strided

from engine.kernels.jit import JIT_ENABLED, cgutils, intrinsic, types
from engine.kernels.operators.lanes import half_vector
from engine.kernels.operators.microkernel import INT_KIND, VL, declared, load, multiply_add

__all__ = ["PAIR_ROWS", "ROWS", "SPAN", "STORED", "dot_tile", "widened"]

ROWS = 4
PAIR_ROWS = 8 if VL == 16 else 4  # rows of the tile of two vectors: with 32 registers, sixteen sums
STORED = {"f32": np.float32, "bf16": np.int16, "fp16": np.uint16, "u8": np.uint8}
"""Type that tells the tile a stored format."""
SPAN = {"f32": VL, "bf16": VL, "fp16": VL, "u8": 4 * VL}
"""Elements of K per step; vectors are zero padded to a multiple of it."""

NAMED: dict[str, str] = {np.dtype(kind).name: stored for stored, kind in STORED.items()}
_FAR = 64 * 1024  # beyond this a whole row group is too far ahead to prefetch
_NEAR = 2048
_I8, _I16, _I32, _I64, _F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()


def widened(builder: Any, stored: str, value: Any) -> Any:
    """IR: loaded lanes as float32 lanes (exact); bytes stay as they are."""
    if stored == "bf16":
        wide = builder.zext(value, ir.VectorType(_I32, VL))
        moved = builder.shl(wide, ir.Constant(wide.type, [16] * VL))
        return builder.bitcast(moved, ir.VectorType(_F32, VL))
    return half_vector(builder, value, VL) if stored == "fp16" else value


def _accumulated(builder: Any, stored: str, total: Any, row: Any, vector: Any) -> Any:
    if stored != "u8":
        return multiply_add(builder, "f32", total, row, vector)
    if INT_KIND == "u8s8":
        words = ir.VectorType(_I32, VL)
        return multiply_add(builder, "u8s8", total, builder.bitcast(row, words), builder.bitcast(vector, words))
    short = ir.VectorType(_I16, 4 * VL)
    row, vector = builder.zext(row, short), builder.sext(vector, short)
    for first in (0, 2 * VL):
        part = ir.Constant(ir.VectorType(_I32, 2 * VL), list(range(first, first + 2 * VL)))
        blank = ir.Constant(short, ir.Undefined)
        a, b = (builder.shuffle_vector(value, blank, part) for value in (row, vector))
        total = multiply_add(builder, "s16", total, a, b)
    return total


def _folded(builder: Any, sums: list[Any], add: Any) -> Any:
    """IR: one vector of the lane sums of ``sums`` (a power of two, at most a vector's lanes), in order.

    Every sum is folded by halves: lane i and i + width / 2, always in the same order. While there are several, two fold
    into one register.
    """
    lanes = sums[0].type.count  # of each sum still held apart
    while lanes > 1:
        lanes //= 2
        held = sums[0].type.count // (2 * lanes)  # sums in one register
        pairs = list(zip(sums[::2], sums[1::2], strict=True)) if len(sums) > 1 else [(sums[0], None)]
        sums = []
        for a, b in pairs:
            second = ir.Constant(a.type, ir.Undefined) if b is None else b
            groups = range(held if b is None else 2 * held)
            low = [g * 2 * lanes + i for g in groups for i in range(lanes)]
            index = ir.VectorType(_I32, len(low))
            halves = [builder.shuffle_vector(a, second, ir.Constant(index, [i + up for i in low])) for up in (0, lanes)]
            sums.append(add(*halves))
    return sums[0]


def _generate(vectors: int) -> Any:
    unroll = 2 if vectors == 1 else 1
    height = PAIR_ROWS if vectors == 2 else ROWS

    @intrinsic
    def generated(
        typingctx: Any, w: Any, w_off: Any, lda: Any, rows: Any, x: Any, x_off: Any, ldx: Any, k: Any, init: Any,
        col: Any, out: Any, out_off: Any, ldo: Any, cols: Any,
    ) -> Any:  # fmt: skip
        stored = NAMED[str(w.dtype)]
        integer = stored == "u8"
        element = {"f32": _F32, "bf16": _I16, "fp16": _I16, "u8": _I8}[stored]
        size, x_size, span = w.dtype.bitwidth // 8, x.dtype.bitwidth // 8, SPAN[stored]
        word = _I32 if integer else _F32
        sum_type, row_type = ir.VectorType(word, VL), ir.VectorType(element, span)
        x_type = ir.VectorType(_I8 if integer else _F32, span)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def data(index: int, offset: Any, width: int) -> Any:
                array = context.make_array(signature.args[index])(context, builder, args[index])
                pointer = builder.bitcast(array.data, _I8.as_pointer())
                return builder.gep(pointer, [builder.mul(offset, _I64(width))])

            lda, rows, ldx, k = args[2], args[3], args[6], args[7]
            base, vector_at = data(0, args[1], size), data(4, args[5], x_size)
            init_at, out_at, ldo, cols = data(8, args[9], 4), data(10, args[11], 4), args[12], args[13]
            row_at = []
            for r in range(height):
                inside = builder.icmp_signed("<", _I64(r), rows)
                index = builder.select(inside, _I64(r), builder.sub(rows, _I64(1)))
                row_at.append(builder.gep(base, [builder.mul(builder.mul(index, lda), _I64(size))]))
            x_at = [builder.gep(vector_at, [builder.mul(ldx, _I64(v * x_size))]) for v in range(vectors)]
            group_bytes = builder.mul(lda, _I64(height * size))
            near = builder.icmp_signed("<=", group_bytes, _I64(_FAR))
            ahead = builder.select(near, group_bytes, _I64(_NEAR))
            hint = declared(builder, "llvm.prefetch.p0", ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
            sums = [
                [[cgutils.alloca_once(builder, sum_type) for _ in range(unroll)] for _ in range(vectors)]
                for _ in range(height)
            ]
            for place in (p for row in sums for column in row for p in column):
                builder.store(ir.Constant(sum_type, None), place)

            def step(u: int, at: Any, fetch: Any) -> None:
                xs = [load(builder, p, builder.mul(at, _I64(x_size)), x_type) for p in x_at]
                for r in range(height):
                    value = widened(builder, stored, fetch(r, builder.mul(at, _I64(size))))
                    for v in range(vectors):
                        place = sums[r][v][u]
                        builder.store(_accumulated(builder, stored, builder.load(place), value, xs[v]), place)

            def fetch_whole(r: int, offset: Any) -> Any:
                if vectors != 2:  # of two vectors the rows are activations, near already: asking takes load slots
                    line = builder.gep(row_at[r], [builder.add(offset, ahead)])
                    builder.call(hint, [line, _I32(0), _I32(3), _I32(1)])
                return load(builder, row_at[r], offset, row_type)

            tail_bytes = builder.mul(builder.srem(k, _I64(span)), _I64(size))
            spill = cgutils.alloca_once(builder, row_type)

            def fetch_tail(r: int, offset: Any) -> Any:
                builder.store(ir.Constant(row_type, None), spill)
                target = builder.bitcast(spill, _I8.as_pointer())
                cgutils.raw_memcpy(builder, target, builder.gep(row_at[r], [offset]), tail_bytes, 1)
                return builder.load(spill)

            steps = builder.sdiv(k, _I64(span))
            turns = builder.sdiv(steps, _I64(unroll))
            with cgutils.for_range(builder, turns) as loop:
                for u in range(unroll):
                    at = builder.mul(builder.add(builder.mul(loop.index, _I64(unroll)), _I64(u)), _I64(span))
                    step(u, at, fetch_whole)
            with cgutils.for_range(builder, builder.sub(steps, builder.mul(turns, _I64(unroll)))) as loop:
                at = builder.mul(builder.add(builder.mul(turns, _I64(unroll)), loop.index), _I64(span))
                step(0, at, fetch_whole)
            with builder.if_then(builder.icmp_signed(">", tail_bytes, _I64(0))):
                step(0, builder.mul(steps, _I64(span)), fetch_tail)

            add = builder.add if integer else builder.fadd
            totals = []
            for place in (column for row in sums for column in row):
                total = builder.load(place[0])
                for more in place[1:]:
                    total = add(total, builder.load(more))
                totals.append(total)
            group = min(len(totals), VL)
            start = load(builder, init_at, _I64(0), ir.VectorType(word, vectors))
            every = ir.Constant(ir.VectorType(_I32, group), [i % vectors for i in range(group)])
            start = builder.shuffle_vector(start, ir.Constant(start.type, ir.Undefined), every)
            tight = builder.and_(
                builder.icmp_signed("==", ldo, _I64(vectors)), builder.icmp_signed("<=", _I64(vectors), cols)
            )
            whole = builder.and_(tight, builder.icmp_signed("<=", _I64(height), rows))
            spill = builder.bitcast(cgutils.alloca_once(builder, ir.ArrayType(_I8, 4 * len(totals))), _I8.as_pointer())
            target = builder.select(whole, out_at, spill)
            for first in range(0, len(totals), group):
                value = add(_folded(builder, totals[first : first + group], add), start)
                place = builder.gep(target, [_I64(4 * first)])
                builder.store(value, builder.bitcast(place, value.type.as_pointer()), align=1)
            with builder.if_then(builder.not_(whole)):
                wide = builder.select(builder.icmp_signed("<", cols, _I64(vectors)), cols, _I64(vectors))
                high = builder.select(builder.icmp_signed("<", rows, _I64(height)), rows, _I64(height))
                with cgutils.for_range(builder, high) as edge:
                    source = builder.gep(spill, [builder.mul(edge.index, _I64(4 * vectors))])
                    place = builder.gep(out_at, [builder.mul(builder.mul(edge.index, ldo), _I64(4))])
                    cgutils.raw_memcpy(builder, place, source, wide, 4)
            return context.get_dummy_value()

        index = types.intp
        return types.void(
            w, index, index, index, x, index, index, index, init, index, out, index, index, index
        ), codegen  # fmt: skip

    return generated


def _interpreted(vectors: int) -> Any:
    def tile_in_python(w, w_off, lda, rows, x, x_off, ldx, k, init, col, out, out_off, ldo, cols):  # type: ignore[no-untyped-def]  # mirrors the intrinsic
        stored = NAMED[w.dtype.name]
        rows, cols = min(rows, PAIR_ROWS if vectors == 2 else ROWS), min(cols, vectors)
        left = as_strided(w.reshape(-1)[w_off:], (rows, k), (lda * w.itemsize, w.itemsize))
        right = as_strided(x.reshape(-1)[x_off:], (cols, k), (ldx * x.itemsize, x.itemsize))
        if stored == "bf16":
            left = (left.astype(np.int32) << 16).view(np.float32)
        elif stored == "fp16":
            left = np.ascontiguousarray(left).view(np.float16).astype(np.float32)
        total = left.astype(init.dtype) @ right.astype(init.dtype).T + init[col : col + cols]
        as_strided(out.reshape(-1)[out_off:], (rows, cols), (ldo * 4, 4))[:] = total

    return tile_in_python


def dot_tile(vectors: int) -> Any:
    """Tile of some stored rows against at most ``vectors`` vectors (1, 2 or 4), for compiled range kernels.

    ``dot(w, w_off, lda, rows, x, x_off, ldx, k, init, col, out, out_off, ldo, cols)``: element (r, v) of the output, at
    ``out_off + r * ldo + v``, becomes ``w[r] . x[v] + init[col + v]``; all offsets in elements. At most :data:`ROWS`
    rows a call, :data:`PAIR_ROWS` for two vectors; ``init`` and ``x`` have whole tiles of vectors.
    """
    return (_generate if JIT_ENABLED else _interpreted)(vectors)
