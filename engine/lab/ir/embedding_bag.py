"""The inner loop of the embedding bag as IR: a block of columns stays in registers over all lookups of a bag.

A plain loop re-stores the output row at every lookup and waits for DRAM at each; here the sums stay in registers and
the row ``distance`` lookups ahead is prefetched, across bag boundaries. [-]
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from engine.kernels.jit import cgutils, intrinsic, types
from engine.lab.ir.lanes import LINE, array_at, ask_for, half_vector
from engine.lab.ir.microkernel import load, splat

IDS_AHEAD = 64
"""Lookups from the row that is requested to the ids that are: eight lines, so that they are there when it is named."""
_I8, _I16, _I32, _I64, _F32 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
_FORMATS = {"float32": "fp32", "uint16": "fp16", "uint8": "int8", "int8": "int4"}
"""Format of a table by the type of its stored elements."""
_BYTES_PER_COLUMN = {"fp32": 4.0, "fp16": 2.0, "int8": 1.0, "int4": 0.5}
_ROW_TAIL_BYTES = {"fp32": 0, "fp16": 0, "int8": 8, "int4": 4}
"""Bytes of scale and bias behind each row: two fp32 (int8) or two fp16 (int4)."""


def _request(builder: Any, data: Any, block: Any, row_bytes: Any, size: int, quantised: bool) -> None:
    """Prefetch ``size`` bytes of a row from ``block`` on, and where scale and bias end the row their line with it."""
    for byte in range(0, size, LINE):
        ask_for(builder, builder.gep(block, [_I64(byte)]))
    if quantised:
        ask_for(builder, builder.gep(data, [builder.sub(row_bytes, _I64(1))]))
        return
    lines = builder.or_(builder.ptrtoint(block, _I64), row_bytes)
    with builder.if_then(builder.icmp_unsigned("!=", builder.and_(lines, _I64(LINE - 1)), _I64(0))):
        ask_for(builder, builder.gep(block, [_I64(size - 1)]))  # it begins inside a line, so it reaches into one more


def _scale_and_bias(fmt: str, builder: Any, row: Any, stride: Any) -> tuple[Any, Any]:
    """IR: what ends a quantised row, as float32."""
    tail = builder.gep(row, [builder.sub(stride, _I64(_ROW_TAIL_BYTES[fmt]))])
    if fmt == "int8":
        return load(builder, tail, _I64(0), _F32), load(builder, tail, _I64(4), _F32)
    pair = half_vector(builder, load(builder, tail, _I64(0), ir.VectorType(_I16, 2)), 2)
    return builder.extract_element(pair, _I32(0)), builder.extract_element(pair, _I32(1))


def _decode(fmt: str, builder: Any, width: int, block: Any, offset: int) -> list[Any]:
    """IR: ``width`` stored elements as float32; of int4 the even columns, then the odd ones."""
    floats, ints = ir.VectorType(_F32, width), ir.VectorType(_I32, width)
    element = {"fp32": _F32, "fp16": _I16}.get(fmt, _I8)
    values = load(builder, block, _I64(offset), ir.VectorType(element, width))
    if fmt == "fp32":
        return [values]
    if fmt == "fp16":
        return [half_vector(builder, values, width)]
    codes = builder.zext(values, ints)
    if fmt == "int8":
        return [builder.sitofp(codes, floats)]
    low = builder.and_(codes, ir.Constant(ints, [15] * width))
    high = builder.lshr(codes, ir.Constant(ints, [4] * width))
    return [builder.sitofp(low, floats), builder.sitofp(high, floats)]


def _interleave(builder: Any, sums: list[Any], width: int) -> list[Any]:
    """IR: sums of even and of odd columns in the order of columns."""
    if width == 1:
        return sums
    result = []
    for even, odd in zip(sums[::2], sums[1::2], strict=True):
        for start in (0, width // 2):
            order = [start + j // 2 + (width if j % 2 else 0) for j in range(width)]
            result.append(builder.shuffle_vector(even, odd, ir.Constant(ir.VectorType(_I32, width), order)))
    return result


def _emit(fmt: str, width: int, vectors: int, context: Any, builder: Any, signature: Any, args: Any) -> Any:
    arrays = (array_at(context, builder, signature, args, place) for place in (0, 1, 7, 9))
    ((table, data), (_, ids), (_, out), (_, bad)), (first, last, total, distance, column) = arrays, args[2:7]
    rows, stride = builder.extract_value(table.shape, 0), builder.extract_value(table.strides, 0)
    eighths = builder.mul(column, _I64(int(8 * _BYTES_PER_COLUMN[fmt])))  # of a byte: int4 stays whole
    block_of_zero = builder.gep(data, [builder.lshr(eighths, _I64(3))])
    floats, quantised, per_byte = ir.VectorType(_F32, width), _ROW_TAIL_BYTES[fmt] > 0, 2 if fmt == "int4" else 1
    vector_bytes = int(width * per_byte * _BYTES_PER_COLUMN[fmt])
    zeros = ir.Constant(floats, [0.0] * width)
    sums = [cgutils.alloca_once_value(builder, zeros) for _ in range(vectors * per_byte)]
    shift = cgutils.alloca_once_value(builder, _F32(0.0))

    def row_id(position: Any) -> Any:
        return load(builder, ids, builder.shl(position, _I64(3)), _I64)

    none = builder.icmp_signed("==", distance, _I64(0))
    hint_end = builder.select(none, first, builder.sub(total, distance))  # lookups below this one
    with cgutils.for_range_slice(builder, first, last, _I64(1)) as (t, _):
        with builder.if_then(builder.icmp_signed("<", t, hint_end)):
            ahead = builder.add(t, distance)
            offset = builder.mul(row_id(ahead), stride)
            coming = builder.gep(ids, [builder.shl(builder.add(ahead, _I64(IDS_AHEAD)), _I64(3))])
            ask_for(builder, coming)  # a new list of ids is no warmer than the rows
            row, block = (builder.gep(pointer, [offset]) for pointer in (data, block_of_zero))
            _request(builder, row, block, stride, vectors * vector_bytes, quantised)
        index = row_id(t)
        inside = builder.icmp_unsigned("<", index, rows)
        with builder.if_then(builder.not_(inside), likely=False):
            builder.store(_I8(1), bad)
        offset = builder.mul(builder.select(inside, index, _I64(0)), stride)  # never read outside the table
        block = builder.gep(block_of_zero, [offset])
        values = [value for v in range(vectors) for value in _decode(fmt, builder, width, block, v * vector_bytes)]
        if quantised:
            scale, bias = _scale_and_bias(fmt, builder, builder.gep(data, [offset]), stride)
            builder.store(builder.fadd(builder.load(shift), bias), shift)
            factor = splat(builder, scale, width)
            values = [builder.fmul(value, factor, flags=("contract",)) for value in values]
        for place, value in zip(sums, values, strict=True):
            builder.store(builder.fadd(builder.load(place), value, flags=("contract",)), place)

    result = [builder.load(place) for place in sums]
    if quantised:
        bias_sum = splat(builder, builder.load(shift), width)
        result = [builder.fadd(value, bias_sum) for value in result]
    target = builder.gep(out, [builder.shl(args[8], _I64(2))])
    for v, value in enumerate(_interleave(builder, result, width) if per_byte == 2 else result):
        place = builder.gep(target, [_I64(v * width * 4)])
        builder.store(value, builder.bitcast(place, floats.as_pointer()), align=1)
    return context.get_dummy_value()


def bag_block(width: int, vectors: int) -> Callable[..., None]:
    """Kernel summing one block of ``width * vectors`` columns of one bag, of an int4 table an even number of them.

    ``f(table, indices, first, last, total, distance, column, out, slot, bad)`` writes
    ``out.flat[slot:slot + columns] = sum_t row(indices[t])[column:column + columns]`` for ``t`` in ``[first, last)``,
    prefetching row ``indices[t + distance]`` (none where ``distance`` is 0). An index outside the table sets
    ``bad[0]`` and reads row 0 instead. The type of what ``table`` stores tells its format: see `_FORMATS`.
    """

    def infer(typingctx, table, indices, first, last, total, distance, column, out, slot, bad):
        fmt = _FORMATS[str(table.dtype)]
        loads = max(1, vectors // 2) if fmt == "int4" else vectors  # of which each makes two of columns

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _emit(fmt, width, loads, context, builder, signature, args)

        whole = types.intp
        return types.void(table, indices, whole, whole, whole, whole, whole, out, whole, bad), codegen

    return intrinsic(infer)
