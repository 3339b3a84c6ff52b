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
from engine.kernels.operators.lanes import half_vector

__all__ = ["bag_block", "decode_block"]

LINE_BYTES = 64
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


def _emit(fmt: str, width: int, vectors: int, context: Any, builder: Any, signature: Any, args: Any) -> Any:
    table, indices, weights, mask, first, last, total, distance, column, out, slot, bad = args
    floats = ir.VectorType(_F32, width)

    def data(array: Any, position: int) -> Any:
        return builder.bitcast(
            context.make_array(signature.args[position])(context, builder, array).data, _I8.as_pointer()
        )

    def at(pointer: Any, offset: Any) -> Any:
        return builder.gep(pointer, [offset], source_etype=_I8)

    def splat(value: Any) -> Any:
        one = builder.insert_element(ir.Constant(floats, ir.Undefined), value, _I32(0))
        return builder.shuffle_vector(
            one, ir.Constant(floats, ir.Undefined), ir.Constant(ir.VectorType(_I32, width), [0] * width)
        )

    array = context.make_array(signature.args[0])(context, builder, table)
    stride = builder.extract_value(array.strides, 0)
    rows, ids, factors, result = data(table, 0), data(indices, 1), data(weights, 2), data(out, 9)
    per_byte = 2 if fmt == "int4" else 1
    block_bytes = int(vectors * width * per_byte * _BYTES_PER_COLUMN[fmt])
    begin = builder.mul(column, _I64(int(4 * _BYTES_PER_COLUMN[fmt] * 2)))  # eighths of a byte: int4 stays whole
    begin = builder.lshr(begin, _I64(3))
    tail = builder.sub(stride, _I64(_ROW_TAIL_BYTES[fmt]))
    quantised = _ROW_TAIL_BYTES[fmt] > 0
    chains = vectors * per_byte
    address = builder.or_(builder.ptrtoint(at(rows, begin), _I64), stride)
    straddles = builder.icmp_unsigned("!=", builder.and_(address, _I64(LINE_BYTES - 1)), _I64(0))

    entry, head = builder.block, builder.append_basic_block("bag")
    body, done = builder.append_basic_block("lookup"), builder.append_basic_block("bagged")
    builder.branch(head)
    builder.position_at_end(head)
    t = builder.phi(_I64)
    t.add_incoming(first, entry)
    sums = [builder.phi(floats) for _ in range(chains)]
    shift, missed = builder.phi(_F32), builder.phi(_I8)
    missed.add_incoming(_I8(0), entry)
    for value in sums:
        value.add_incoming(ir.Constant(floats, [0.0] * width), entry)
    shift.add_incoming(_F32(0.0), entry)
    builder.cbranch(builder.icmp_signed("<", t, last), body, done)

    builder.position_at_end(body)
    with builder.if_then(builder.icmp_signed(">", distance, _I64(0))):
        ahead = builder.add(t, distance)
        ahead = builder.select(builder.icmp_signed("<", ahead, total), ahead, builder.sub(total, _I64(1)))
        hinted = at(rows, builder.mul(_load(builder, at(ids, builder.shl(ahead, _I64(3))), _I64), stride))
        hint_type = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
        known = builder.module.globals.get("llvm.prefetch.p0")
        hint = known or ir.Function(builder.module, hint_type, "llvm.prefetch.p0")
        for byte in range(0, block_bytes, LINE_BYTES):
            builder.call(hint, [at(at(hinted, begin), _I64(byte)), _I32(0), _I32(3), _I32(1)])
        if quantised:  # scale and bias end the row: their line is the block's last one, or the one after
            builder.call(hint, [at(hinted, builder.sub(stride, _I64(1))), _I32(0), _I32(3), _I32(1)])
        else:
            with builder.if_then(straddles):
                builder.call(hint, [at(at(hinted, begin), _I64(block_bytes - 1)), _I32(0), _I32(3), _I32(1)])

    wanted = _load(builder, at(ids, builder.shl(t, _I64(3))), _I64)
    inside = builder.icmp_unsigned("<", wanted, builder.extract_value(array.shape, 0))
    missed.add_incoming(builder.or_(missed, builder.zext(builder.not_(inside), _I8)), builder.block)
    row = at(rows, builder.mul(builder.select(inside, wanted, _I64(0)), stride))  # never read outside the table
    weight = _load(builder, at(factors, builder.shl(builder.and_(t, mask), _I64(2))), _F32)
    scale, bias = _F32(1.0), _F32(0.0)
    if fmt == "int8":
        scale = _load(builder, at(row, tail), _F32)
        bias = _load(builder, at(row, builder.add(tail, _I64(4))), _F32)
    elif fmt == "int4":
        pair = half_vector(builder, _load(builder, at(row, tail), ir.VectorType(_I16, 2)), 2)
        scale, bias = builder.extract_element(pair, _I32(0)), builder.extract_element(pair, _I32(1))
    factor = builder.fmul(weight, scale) if quantised else weight
    next_shift = (
        builder.fadd(shift, builder.fmul(weight, bias, flags=("contract",)), flags=("contract",))
        if quantised
        else shift
    )
    factor_all, source = splat(factor), at(row, begin)
    bytes_type, ints = ir.VectorType(_I8, width), ir.VectorType(_I32, width)
    decoded = []
    for v in range(vectors):
        step = at(source, _I64(int(v * width * per_byte * _BYTES_PER_COLUMN[fmt])))
        if fmt == "fp32":
            decoded.append(_load(builder, step, floats))
        elif fmt == "fp16":
            decoded.append(half_vector(builder, _load(builder, step, ir.VectorType(_I16, width)), width))
        elif fmt == "int8":
            decoded.append(builder.sitofp(builder.zext(_load(builder, step, bytes_type), ints), floats))
        else:
            wide = builder.zext(_load(builder, step, bytes_type), ints)
            low = builder.and_(wide, ir.Constant(ints, [15] * width))
            high = builder.lshr(wide, ir.Constant(ints, [4] * width))
            decoded += [builder.sitofp(low, floats), builder.sitofp(high, floats)]
    for total_so_far, value in zip(sums, decoded, strict=True):
        product = builder.fmul(value, factor_all, flags=("contract",))
        total_so_far.add_incoming(builder.fadd(total_so_far, product, flags=("contract",)), builder.block)
    shift.add_incoming(next_shift, builder.block)
    t.add_incoming(builder.add(t, _I64(1)), builder.block)
    builder.branch(head)

    builder.position_at_end(done)
    with builder.if_then(builder.icmp_unsigned("!=", missed, _I8(0)), likely=False):
        builder.store(_I8(1), data(bad, 11))
    target = at(result, builder.shl(slot, _I64(2)))
    final = [builder.fadd(value, splat(shift)) for value in sums] if quantised else list(sums)
    if fmt == "int4" and width > 1:  # even and odd columns were summed apart: interleave once per bag
        pairs = []
        for even, odd in zip(final[::2], final[1::2], strict=True):
            for half in (0, width // 2):
                order = [half + j // 2 + (width if j % 2 else 0) for j in range(width)]
                pairs.append(builder.shuffle_vector(even, odd, ir.Constant(ints, order)))
        final = pairs
    for v, value in enumerate(final):
        builder.store(value, builder.bitcast(at(target, _I64(v * width * 4)), floats.as_pointer()), align=1)
    return context.get_dummy_value()


def bag_block(fmt: str, width: int, vectors: int) -> tuple[Callable[..., None], int]:
    """Kernel summing one column block of one bag, and how many columns that block has.

    ``f(table, indices, weights, mask, first, last, total, distance, column, out, slot, bad)`` writes
    ``out.flat[slot:slot + columns] = sum_t weights[t & mask] * row(indices[t])[column:column + columns]`` for ``t`` in
    ``[first, last)``, prefetching row ``indices[t + distance]`` (none where ``distance`` is 0). An index outside
    the table sets ``bad[0]`` and reads row 0 instead; ``mask`` is -1, or 0 for the single weight 1.
    """
    columns = width * vectors * (2 if fmt == "int4" else 1)
    if JIT_ENABLED:

        def typed(
            typingctx: Any, table: Any, indices: Any, weights: Any, mask: Any, first: Any, last: Any, total: Any,
            distance: Any, column: Any, out: Any, slot: Any, bad: Any,
        ) -> Any:  # fmt: skip
            def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                return _emit(fmt, width, vectors, context, builder, signature, args)

            whole = types.intp
            return types.void(
                table, indices, weights, whole, whole, whole, whole, whole, whole, out, whole, bad
            ), codegen

        return intrinsic(typed), columns

    def block(
        table: Any, indices: Any, weights: Any, mask: Any, first: Any, last: Any, total: Any, distance: Any,
        column: Any, out: Any, slot: Any, bad: Any,
    ) -> None:  # fmt: skip
        result, shift = np.zeros(columns, np.float32), np.float32(0)
        for t in range(first, last):
            inside = 0 <= indices[t] < len(table)
            bad[0] |= not inside
            values, scale, bias = decode_block(fmt, table[indices[t] if inside else 0], column, columns)
            result += values * np.float32(weights[t & mask] * scale)
            shift += np.float32(weights[t & mask] * bias)
        out.reshape(-1)[slot : slot + columns] = result + shift

    return block, columns
