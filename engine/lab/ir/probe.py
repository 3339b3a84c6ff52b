"""What the probe runs, as IR: products that never leave the registers, reads alone, and instructions without work."""

from functools import reduce
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from engine.kernels.jit import cgutils, intrinsic, types
from engine.lab.ir.lanes import LINE, VL, array_at, ask_for, declare
from engine.lab.ir.microkernel import load, multiply_add

CHAINS = 24 if VL == 16 else 12
"""Independent sums: latency times throughput of the widest machines, within the registers."""
IDLE = 64
"""Instructions without work in a turn of their loop."""
_VECTOR_BYTES = 4 * VL
_I32, _I64 = ir.IntType(32), ir.IntType(64)
STORED = {"f32": np.float32, "u8s8": np.uint8, "bf16": np.uint16, "xnor": np.uint32}
"""Type of the data that products of a kind are burnt on."""


def compute_ir() -> Any:
    """``burn(data, turns)``: :data:`CHAINS` independent sums of products, their kind by `STORED`, ``turns`` times."""

    @intrinsic
    def emit(typingctx: Any, data: Any, turns: Any) -> Any:
        kind = next(name for name, element in STORED.items() if str(data.dtype) == element.__name__)
        real = kind in ("f32", "bf16")
        vector = ir.VectorType(ir.FloatType() if real else _I32, VL)
        words = ir.VectorType(ir.FloatType() if kind == "f32" else _I32, VL)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _, base = array_at(context, builder, signature, args, 0)
            a = load(builder, base, _I64(0), words)
            b = load(builder, base, _I64(_VECTOR_BYTES), words)
            starts = (load(builder, base, _I64(4 * (i % VL)), vector) for i in range(CHAINS))
            sums = [cgutils.alloca_once_value(builder, start) for start in starts]
            with cgutils.for_range(builder, args[1]):
                for place in sums:
                    value = builder.load(place)
                    if kind == "xnor":  # of two constants the bits would be counted once, before the loop
                        count = declare(builder, f"llvm.ctpop.v{VL}i32", vector, [vector])
                        total = builder.add(value, builder.call(count, [builder.xor(value, b)]))
                    else:
                        total = multiply_add(builder, kind, value, a, b)
                    builder.store(total, place)
            total = reduce(builder.fadd if real else builder.add, map(builder.load, sums))
            builder.store(total, builder.bitcast(base, vector.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(data, types.intp), codegen

    return emit


def idle_ir() -> Any:
    """``idle(turns)``: `IDLE` instructions that do nothing, ``turns`` times, as many at once as a core issues."""
    llvm.initialize_native_asmparser()

    @intrinsic
    def emit(typingctx: Any, turns: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            with cgutils.for_range(builder, args[0]):
                builder.asm(ir.FunctionType(ir.VoidType(), ()), "nop\n" * IDLE, "", (), True)
            return context.get_dummy_value()

        return types.void(types.intp), codegen

    return emit


def read_ir(ahead: int) -> Any:
    """``read(data, first, last)`` of int32 in eight streams; asks for lines ``ahead`` bytes in advance, 0 never."""
    vector = ir.VectorType(_I32, VL)
    streams = 8

    @intrinsic
    def emit(typingctx: Any, data: Any, first: Any, last: Any) -> Any:
        """Exclusive-or of the 4-byte words ``first:last`` of ``data``, whole groups of eight vectors."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            base = builder.gep(array_at(context, builder, signature, args, 0)[1], [builder.mul(args[1], _I64(4))])
            group = streams * VL
            count = builder.sdiv(builder.sub(args[2], args[1]), _I64(group))
            sums = [cgutils.alloca_once_value(builder, ir.Constant(vector, None)) for _ in range(streams)]
            with cgutils.for_range(builder, count) as loop:
                at = builder.gep(base, [builder.mul(loop.index, _I64(4 * group))])
                for i, place in enumerate(sums):
                    if ahead and i * _VECTOR_BYTES % LINE == 0:
                        ask_for(builder, builder.gep(at, [_I64(i * _VECTOR_BYTES + ahead)]), 2)
                    value = load(builder, at, _I64(i * _VECTOR_BYTES), vector)
                    builder.store(builder.xor(builder.load(place), value), place)
            total = reduce(builder.xor, map(builder.load, sums))
            return reduce(builder.xor, (builder.extract_element(total, _I32(lane)) for lane in range(VL)))

        return types.int32(data, types.intp, types.intp), codegen

    return emit
