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
from engine.lab.ir.lanes import half_vector
from engine.lab.ir.microkernel import VL, declared, load, multiply_add

ROWS = 4
PAIR_ROWS = 8 if VL == 16 else 4  # rows of the tile of two vectors: with 32 registers, sixteen sums
STORED = {"f32": np.float32, "bf16": np.int16, "fp16": np.uint16}
"""Type that tells the tile a stored format."""
SPAN = {"f32": VL, "bf16": VL, "fp16": VL}
"""Elements of K per step; vectors are zero padded to a multiple of it."""

NAMED: dict[str, str] = {np.dtype(kind).name: stored for stored, kind in STORED.items()}
_FAR = 64 * 1024  # beyond this a whole row group is too far ahead to prefetch
_NEAR = 2048
AHEAD = 6144
"""How far ahead of a row read from its first to its last value lines are asked for. [B]"""
_LINE = 64
_CHAINS = 8  # independent sums of such a row
_I8, _I16, _I32, _I64, _F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()


def widened(builder: Any, stored: str, value: Any) -> Any:
    """IR: loaded lanes as float32 lanes (exact)."""
    if stored == "bf16":
        wide = builder.zext(value, ir.VectorType(_I32, VL))
        moved = builder.shl(wide, ir.Constant(wide.type, [16] * VL))
        return builder.bitcast(moved, ir.VectorType(_F32, VL))
    return half_vector(builder, value, VL) if stored == "fp16" else value


def _accumulated(builder: Any, stored: str, total: Any, row: Any, vector: Any) -> Any:
    return multiply_add(builder, "f32", total, row, vector)


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


class _Tile:
    """IR of one tile while it is being made: where its operands lie, and how a step of K adds to a sum."""

    def __init__(self, vectors: int, stored: str, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.builder, self.stored, self.vectors = builder, stored, vectors
        self.height = PAIR_ROWS if vectors == 2 else ROWS
        element = {"f32": _F32, "bf16": _I16, "fp16": _I16}[stored]
        self.word, self.span = _F32, SPAN[stored]
        self.size, self.x_size = signature.args[0].dtype.bitwidth // 8, signature.args[4].dtype.bitwidth // 8
        self.sum_type, self.row_type = ir.VectorType(self.word, VL), ir.VectorType(element, self.span)
        self.x_type = ir.VectorType(_F32, self.span)
        self.add = builder.fadd

        def data(index: int, offset: Any, width: int) -> Any:
            array = context.make_array(signature.args[index])(context, builder, args[index])
            pointer = builder.bitcast(array.data, _I8.as_pointer())
            return builder.gep(pointer, [builder.mul(offset, _I64(width))])

        self.lda, self.rows, self.k = args[2], args[3], args[7]
        self.base, vector_at = data(0, args[1], self.size), data(4, args[5], self.x_size)
        self.x_at = [builder.gep(vector_at, [builder.mul(args[6], _I64(v * self.x_size))]) for v in range(vectors)]
        self.init_at, self.out_at, self.ldo, self.cols = data(8, args[9], 4), data(10, args[11], 4), args[12], args[13]
        self.steps = builder.sdiv(self.k, _I64(self.span))
        self.tail_bytes = builder.mul(builder.srem(self.k, _I64(self.span)), _I64(self.size))
        self.hint = declared(builder, "llvm.prefetch.p0", ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
        self.spill = cgutils.alloca_once(builder, self.row_type)

    def row(self, number: Any) -> Any:
        """Where row ``number`` starts; beyond the last row, the last."""
        builder = self.builder
        inside = builder.icmp_signed("<", number, self.rows)
        index = builder.select(inside, number, builder.sub(self.rows, _I64(1)))
        return builder.gep(self.base, [builder.mul(builder.mul(index, self.lda), _I64(self.size))])

    def ask(self, row: Any, offset: Any) -> None:
        """Ask for the line ``offset`` bytes behind ``row``."""
        self.builder.call(self.hint, [self.builder.gep(row, [offset]), _I32(0), _I32(3), _I32(1)])

    def fetched(self, row: Any, at: Any) -> Any:
        """A step of a row from its element ``at`` on, as it is summed."""
        value = load(self.builder, row, self.builder.mul(at, _I64(self.size)), self.row_type)
        return widened(self.builder, self.stored, value)

    def fetched_tail(self, row: Any) -> Any:
        """What is left of a row behind its whole steps, zero padded."""
        builder = self.builder
        builder.store(ir.Constant(self.row_type, None), self.spill)
        source = builder.gep(row, [builder.mul(self.steps, _I64(self.span * self.size))])
        cgutils.raw_memcpy(builder, builder.bitcast(self.spill, _I8.as_pointer()), source, self.tail_bytes, 1)
        return widened(builder, self.stored, builder.load(self.spill))

    def vector(self, v: int, at: Any) -> Any:
        return load(self.builder, self.x_at[v], self.builder.mul(at, _I64(self.x_size)), self.x_type)

    def count_in(self, place: Any, row: Any, vector: Any) -> None:
        total = _accumulated(self.builder, self.stored, self.builder.load(place), row, vector)
        self.builder.store(total, place)

    def fresh_sums(self, count: int) -> list[Any]:
        return [cgutils.alloca_once(self.builder, self.sum_type) for _ in range(count)]

    def row_by_row(self) -> list[Any]:
        """Sums of each row against one vector, row after row: memory is read, and asked for, in one rising order."""
        builder, step_bytes = self.builder, self.span * self.size
        sums = self.fresh_sums(_CHAINS)
        kept = cgutils.alloca_once(builder, ir.ArrayType(self.sum_type, self.height))
        turns = builder.sdiv(self.steps, _I64(_CHAINS))
        with cgutils.for_range(builder, _I64(self.height)) as number:
            row = self.row(number.index)
            for place in sums:
                builder.store(ir.Constant(self.sum_type, None), place)

            def step(chain: int, index: Any, hinted: bool) -> None:
                at = builder.mul(index, _I64(self.span))
                if hinted:
                    self.ask(row, builder.add(builder.mul(at, _I64(self.size)), _I64(AHEAD)))
                self.count_in(sums[chain], self.fetched(row, at), self.vector(0, at))

            with cgutils.for_range(builder, turns) as loop:
                for u in range(_CHAINS):
                    index = builder.add(builder.mul(loop.index, _I64(_CHAINS)), _I64(u))
                    step(u, index, u * step_bytes % _LINE == 0)
            done = builder.mul(turns, _I64(_CHAINS))
            with cgutils.for_range(builder, builder.sub(self.steps, done)) as loop:
                step(0, builder.add(done, loop.index), True)
            with builder.if_then(builder.icmp_signed(">", self.tail_bytes, _I64(0))):
                self.count_in(sums[0], self.fetched_tail(row), self.vector(0, builder.mul(self.steps, _I64(self.span))))
            totals = [builder.load(place) for place in sums]
            while len(totals) > 1:
                totals = [self.add(a, b) for a, b in zip(totals[::2], totals[1::2], strict=True)]
            builder.store(totals[0], builder.gep(kept, [_I64(0), number.index]))
        return [builder.load(builder.gep(kept, [_I64(0), _I64(r)])) for r in range(self.height)]

    def abreast(self) -> list[Any]:
        """Sums of all rows against all vectors, one step of K after another: what is read of a vector serves all."""
        builder = self.builder
        rows = [self.row(_I64(r)) for r in range(self.height)]
        group_bytes = builder.mul(self.lda, _I64(self.height * self.size))
        near = builder.icmp_signed("<=", group_bytes, _I64(_FAR))
        ahead = builder.select(near, group_bytes, _I64(_NEAR))
        sums = [self.fresh_sums(self.vectors) for _ in rows]
        for place in (place for row in sums for place in row):
            builder.store(ir.Constant(self.sum_type, None), place)

        def step(at: Any, fetch: Any) -> None:
            vectors = [self.vector(v, at) for v in range(self.vectors)]
            for row, places in zip(rows, sums, strict=True):
                value = fetch(row, at)
                for place, vector in zip(places, vectors, strict=True):
                    self.count_in(place, value, vector)

        def fetch_whole(row: Any, at: Any) -> Any:
            if self.vectors != 2:  # of two vectors the rows are activations, near already: asking takes load slots
                self.ask(row, builder.add(builder.mul(at, _I64(self.size)), ahead))
            return self.fetched(row, at)

        with cgutils.for_range(builder, self.steps) as loop:
            step(builder.mul(loop.index, _I64(self.span)), fetch_whole)
        with builder.if_then(builder.icmp_signed(">", self.tail_bytes, _I64(0))):
            step(builder.mul(self.steps, _I64(self.span)), lambda row, at: self.fetched_tail(row))
        return [builder.load(place) for row in sums for place in row]

    def finish(self, totals: list[Any]) -> None:
        """Fold the lanes of every sum, add the start values and store what the output has of the tile."""
        builder, vectors = self.builder, self.vectors
        group = min(len(totals), VL)
        start = load(builder, self.init_at, _I64(0), ir.VectorType(self.word, vectors))
        every = ir.Constant(ir.VectorType(_I32, group), [i % vectors for i in range(group)])
        start = builder.shuffle_vector(start, ir.Constant(start.type, ir.Undefined), every)
        tight = builder.and_(
            builder.icmp_signed("==", self.ldo, _I64(vectors)), builder.icmp_signed("<=", _I64(vectors), self.cols)
        )
        whole = builder.and_(tight, builder.icmp_signed("<=", _I64(self.height), self.rows))
        spill = builder.bitcast(cgutils.alloca_once(builder, ir.ArrayType(_I8, 4 * len(totals))), _I8.as_pointer())
        target = builder.select(whole, self.out_at, spill)
        for first in range(0, len(totals), group):
            value = self.add(_folded(builder, totals[first : first + group], self.add), start)
            place = builder.gep(target, [_I64(4 * first)])
            builder.store(value, builder.bitcast(place, value.type.as_pointer()), align=1)
        with builder.if_then(builder.not_(whole)):
            wide = builder.select(builder.icmp_signed("<", self.cols, _I64(vectors)), self.cols, _I64(vectors))
            high = builder.select(builder.icmp_signed("<", self.rows, _I64(self.height)), self.rows, _I64(self.height))
            with cgutils.for_range(builder, high) as edge:
                source = builder.gep(spill, [builder.mul(edge.index, _I64(4 * vectors))])
                place = builder.gep(self.out_at, [builder.mul(builder.mul(edge.index, self.ldo), _I64(4))])
                cgutils.raw_memcpy(builder, place, source, wide, 4)


def _generate(vectors: int) -> Any:
    @intrinsic
    def generated(
        typingctx: Any,
        w: Any,
        w_off: Any,
        lda: Any,
        rows: Any,
        x: Any,
        x_off: Any,
        ldx: Any,
        k: Any,
        init: Any,
        col: Any,
        out: Any,
        out_off: Any,
        ldo: Any,
        cols: Any,
    ) -> Any:
        stored = NAMED[str(w.dtype)]

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            tile = _Tile(vectors, stored, context, builder, signature, args)
            tile.finish(tile.row_by_row() if vectors == 1 else tile.abreast())
            return context.get_dummy_value()

        index = types.intp
        return types.void(
            w, index, index, index, x, index, index, index, init, index, out, index, index, index
        ), codegen

    return generated


def _interpreted(vectors: int) -> Any:
    def tile_in_python(w, w_off, lda, rows, x, x_off, ldx, k, init, col, out, out_off, ldo, cols):
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
