"""The inner loop of the embedding bag as IR: a block of columns stays in registers over all lookups of a bag.

A plain loop re-stores the output row at every lookup and waits for DRAM at each; here the accumulators are SSA values
and the row ``distance`` lookups ahead is prefetched, across bag boundaries. [-]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from engine.kernels.jit import JIT_ENABLED, intrinsic, types
from engine.lab.ir.lanes import half_vector

LINE_BYTES = 64
IDS_AHEAD = 64
"""Lookups from the row that is requested to the ids that are: eight lines, so that they are there when it is named."""
_I8, _I16, _I32, _I64, _F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
_BYTES_PER_COLUMN = {"fp32": 4.0, "fp16": 2.0, "int8": 1.0, "int4": 0.5}
_ROW_TAIL_BYTES = {"fp32": 0, "fp16": 0, "int8": 8, "int4": 4}
"""Bytes of scale and bias behind each row: two fp32 (int8) or two fp16 (int4)."""


def decode_block(fmt: str, row: np.ndarray, column: int, count: int) -> tuple[np.ndarray, Any, Any]:
    """Stored values of ``count`` columns of one row as float32, with the row's scale and bias: the Python path."""
    if fmt == "fp32":
        return row[column : column + count], np.float32(1), np.float32(0)
    if fmt == "fp16":
        return row[column : column + count].view(np.float16).astype(np.float32), np.float32(1), np.float32(0)
    if fmt == "int8":
        scale, bias = row[-8:].copy().view(np.float32)
        return row[column : column + count].astype(np.float32), scale, bias
    scale, bias = row[-4:].copy().view(np.float16).astype(np.float32)
    bytes_ = row[column // 2 : (column + count) // 2]
    return np.stack([bytes_ & 15, bytes_ >> 4], axis=1).reshape(-1).astype(np.float32), scale, bias


def _load(builder: Any, pointer: Any, kind: Any) -> Any:
    """Load ``kind`` from a byte pointer without assuming alignment."""
    return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=1, typ=kind)


def _at(builder: Any, pointer: Any, offset: Any) -> Any:
    """``offset`` bytes behind a byte pointer."""
    return builder.gep(pointer, [offset], source_etype=_I8)


def _splat(builder: Any, value: Any, floats: Any) -> Any:
    scalar = builder.insert_element(ir.Constant(floats, ir.Undefined), value, _I32(0))
    everywhere = ir.Constant(ir.VectorType(_I32, floats.count), [0] * floats.count)
    return builder.shuffle_vector(scalar, ir.Constant(floats, ir.Undefined), everywhere)


_BYTES = _I8.as_pointer()
_KINDS = (_BYTES, _I64, _I64, _BYTES, _I64, _I64, _I64, _I64, _I64, _BYTES, _BYTES)
"""Types of a loop's arguments, in the order in which :class:`_Loop` names them."""


class _Loop:
    """One block of columns, ``vectors`` vectors of ``width`` stored elements, summed over the lookups of a bag.

    It is a function of its own, so that what it keeps in registers does not compete with the blocks around it.
    """

    def __init__(self, fmt: str, width: int, vectors: int, module: Any) -> None:
        self.fmt, self.width, self.vectors = fmt, width, vectors
        self.floats, self.quantised = ir.VectorType(_F32, width), _ROW_TAIL_BYTES[fmt] > 0
        self.per_byte = 2 if fmt == "int4" else 1
        self.vector_bytes = int(width * self.per_byte * _BYTES_PER_COLUMN[fmt])
        name = f"bag_block_{fmt}_{width}x{vectors}"
        self.function = ir.Function(module, ir.FunctionType(ir.VoidType(), _KINDS), module.get_unique_name(name))
        self.function.linkage = "internal"
        self.function.attributes.add("noinline")
        self.table, self.rows, self.stride, self.ids, self.first = self.function.args[:5]
        self.last, self.total, self.distance, self.begin, self.target, self.bad = self.function.args[5:]
        builder = self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.block_of_zero = _at(builder, self.table, self.begin)
        lines = builder.or_(builder.ptrtoint(self.block_of_zero, _I64), self.stride)
        self.straddles = builder.icmp_unsigned("!=", builder.and_(lines, _I64(LINE_BYTES - 1)), _I64(0))
        self._emit()

    def _offset_of(self, position: Any) -> Any:
        """Bytes from row 0 to the row that lookup ``position`` names, and that row's number."""
        wanted = _load(self.builder, _at(self.builder, self.ids, self.builder.shl(position, _I64(3))), _I64)
        return self.builder.mul(wanted, self.stride), wanted

    def _request(self, position: Any) -> None:
        """Prefetch the block of the row that lookup ``position`` names, its scale and bias with it."""
        builder = self.builder
        offset, _ = self._offset_of(position)
        block = _at(builder, self.block_of_zero, offset)
        hint_type = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
        hint = builder.module.globals.get("llvm.prefetch.p0") or ir.Function(
            builder.module, hint_type, "llvm.prefetch.p0"
        )

        def request(pointer: Any, byte: Any) -> None:
            builder.call(hint, [_at(builder, pointer, byte), _I32(0), _I32(3), _I32(1)])

        coming = builder.shl(builder.add(position, _I64(IDS_AHEAD)), _I64(3))
        request(self.ids, coming)  # a new list of ids is no warmer than the rows
        size = self.vectors * self.vector_bytes
        for byte in range(0, size, LINE_BYTES):
            request(block, _I64(byte))
        if self.quantised:  # scale and bias end the row: their line is the block's last one, or the one after
            request(_at(builder, self.table, offset), builder.sub(self.stride, _I64(1)))
        else:
            with builder.if_then(self.straddles):
                request(block, _I64(size - 1))

    def _scale_and_bias(self, row: Any) -> tuple[Any, Any]:
        tail = _at(self.builder, row, self.builder.sub(self.stride, _I64(_ROW_TAIL_BYTES[self.fmt])))
        if self.fmt == "int8":
            return _load(self.builder, tail, _F32), _load(self.builder, _at(self.builder, tail, _I64(4)), _F32)
        pair = half_vector(self.builder, _load(self.builder, tail, ir.VectorType(_I16, 2)), 2)
        return self.builder.extract_element(pair, _I32(0)), self.builder.extract_element(pair, _I32(1))

    def _decoded(self, block: Any) -> list[Any]:
        """The stored elements of a row's block as float32 vectors; of int4 the even, then the odd columns of each."""
        builder, result = self.builder, []
        bytes_type, ints = ir.VectorType(_I8, self.width), ir.VectorType(_I32, self.width)
        for v in range(self.vectors):
            step = _at(builder, block, _I64(v * self.vector_bytes))
            if self.fmt == "fp32":
                result.append(_load(builder, step, self.floats))
            elif self.fmt == "fp16":
                result.append(half_vector(builder, _load(builder, step, ir.VectorType(_I16, self.width)), self.width))
            elif self.fmt == "int8":
                result.append(builder.sitofp(builder.zext(_load(builder, step, bytes_type), ints), self.floats))
            else:
                nibbles = builder.zext(_load(builder, step, bytes_type), ints)
                low = builder.and_(nibbles, ir.Constant(ints, [15] * self.width))
                high = builder.lshr(nibbles, ir.Constant(ints, [4] * self.width))
                result += [builder.sitofp(low, self.floats), builder.sitofp(high, self.floats)]
        return result

    def _emit(self) -> None:
        """The loop and the stores behind it."""
        builder, contract = self.builder, ("contract",)
        zeros = ir.Constant(self.floats, [0.0] * self.width)
        none = builder.icmp_signed("==", self.distance, _I64(0))
        hinted = builder.select(none, self.first, builder.sub(self.total, self.distance))  # lookups below this one
        entry = builder.block
        head, body, read, following, end = (
            builder.append_basic_block(name) for name in ("bag", "lookup", "read", "next", "bagged")
        )
        builder.branch(head)
        builder.position_at_end(head)
        t, shift, missed = builder.phi(_I64), builder.phi(_F32), builder.phi(_I8)
        sums = [builder.phi(self.floats) for _ in range(self.vectors * self.per_byte)]
        for value, start in [(t, self.first), (shift, _F32(0.0)), (missed, _I8(0)), *((v, zeros) for v in sums)]:
            value.add_incoming(start, entry)
        builder.cbranch(builder.icmp_signed("<", t, self.last), body, end)

        builder.position_at_end(body)
        with builder.if_then(builder.icmp_signed("<", t, hinted)):
            self._request(builder.add(t, self.distance))
        (offset, wanted), block = self._offset_of(t), builder.block
        builder.cbranch(builder.icmp_unsigned("<", wanted, self.rows), read, following)  # never read outside the table

        builder.position_at_end(read)
        next_shift, values = shift, self._decoded(_at(builder, self.block_of_zero, offset))
        if self.quantised:
            scale, bias = self._scale_and_bias(_at(builder, self.table, offset))
            next_shift, factor = builder.fadd(shift, bias), _splat(builder, scale, self.floats)
            values = [builder.fmul(value, factor, flags=contract) for value in values]
        added = [builder.fadd(so_far, value, flags=contract) for so_far, value in zip(sums, values, strict=True)]
        builder.branch(following)

        builder.position_at_end(following)
        for so_far, value in zip([*sums, shift, missed], [*added, next_shift, missed], strict=True):
            carried = builder.phi(so_far.type)
            carried.add_incoming(_I8(1) if so_far is missed else so_far, block)
            carried.add_incoming(value, read)
            so_far.add_incoming(carried, following)
        t.add_incoming(builder.add(t, _I64(1)), following)
        builder.branch(head)

        builder.position_at_end(end)
        with builder.if_then(builder.icmp_unsigned("!=", missed, _I8(0)), likely=False):
            builder.store(_I8(1), self.bad)
        self._store([builder.fadd(v, _splat(builder, shift, self.floats)) for v in sums] if self.quantised else sums)
        builder.ret_void()

    def _store(self, sums: list[Any]) -> None:
        """Write the block's sums; even and odd columns of int4 were summed apart and are interleaved once per bag."""
        builder, half = self.builder, self.width // 2
        if self.fmt == "int4" and self.width > 1:
            pairs = []
            for even, odd in zip(sums[::2], sums[1::2], strict=True):
                for start in (0, half):
                    order = [start + j // 2 + (self.width if j % 2 else 0) for j in range(self.width)]
                    ints = ir.VectorType(_I32, self.width)
                    pairs.append(builder.shuffle_vector(even, odd, ir.Constant(ints, order)))
            sums = pairs
        for v, value in enumerate(sums):
            target = _at(builder, self.target, _I64(v * self.width * 4))
            builder.store(value, builder.bitcast(target, self.floats.as_pointer()), align=1)


def _emit(fmt: str, width: int, vectors: int, context: Any, builder: Any, signature: Any, args: Any) -> Any:
    table, indices, first, last, total, distance, column, out, slot, bad = args

    def data(array: Any, position: int) -> Any:
        struct = context.make_array(signature.args[position])(context, builder, array)
        return builder.bitcast(struct.data, _I8.as_pointer())

    array = context.make_array(signature.args[0])(context, builder, table)
    rows, stride = builder.extract_value(array.shape, 0), builder.extract_value(array.strides, 0)
    eighths = builder.mul(column, _I64(int(4 * _BYTES_PER_COLUMN[fmt] * 2)))  # of a byte: int4 stays whole
    begin, target = builder.lshr(eighths, _I64(3)), _at(builder, data(out, 7), builder.shl(slot, _I64(2)))
    operands = (data(table, 0), rows, stride, data(indices, 1), first, last, total, distance, begin)
    builder.call(_Loop(fmt, width, vectors, builder.module).function, [*operands, target, data(bad, 9)])
    return context.get_dummy_value()


def bag_block(fmt: str, width: int, vectors: int) -> tuple[Callable[..., None], int]:
    """Kernel summing one column block of one bag, and how many columns that block has.

    ``f(table, indices, first, last, total, distance, column, out, slot, bad)`` writes
    ``out.flat[slot:slot + columns] = sum_t row(indices[t])[column:column + columns]`` for ``t`` in ``[first, last)``,
    prefetching row ``indices[t + distance]`` (none where ``distance`` is 0). An index outside the table sets
    ``bad[0]`` and reads row 0 instead.
    """
    columns = width * vectors * (2 if fmt == "int4" else 1)
    if JIT_ENABLED:

        def typed(typingctx, table, indices, first, last, total, distance, column, out, slot, bad):
            def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                return _emit(fmt, width, vectors, context, builder, signature, args)

            whole = types.intp
            return types.void(table, indices, whole, whole, whole, whole, whole, out, whole, bad), codegen

        return intrinsic(typed), columns

    def block(table, indices, first, last, total, distance, column, out, slot, bad):
        result, shift = np.zeros(columns, np.float32), np.float32(0)
        for t in range(first, last):
            inside = 0 <= indices[t] < len(table)
            bad[0] |= not inside
            values, scale, bias = decode_block(fmt, table[indices[t] if inside else 0], column, columns)
            result += values * scale
            shift += bias
        out.reshape(-1)[slot : slot + columns] = result + shift

    return block, columns
