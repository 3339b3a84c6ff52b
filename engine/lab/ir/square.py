"""A square of registers turned, as IR: what `operators.reorder` transposes planes by."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from engine.kernels.jit import JIT_ENABLED, intrinsic, types
from engine.lab.ir.lanes import lanes

LANES = lanes()
_I32, _F32 = ir.IntType(32), ir.FloatType()


def _square_ir() -> Any:
    """``f(x, at, pitch, out, to, out_pitch)``: a square of ``lanes`` rows of 4-byte values, turned."""

    @intrinsic
    def generated(typingctx: Any, x: Any, at: Any, pitch: Any, out: Any, to: Any, out_pitch: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            row = ir.VectorType(_F32, LANES)

            def place(array: int, offset: Any, step: Any, r: int) -> Any:
                data = context.make_array(signature.args[array])(context, builder, args[array]).data
                index = builder.add(offset, builder.mul(step, ir.Constant(step.type, r)))
                return builder.bitcast(builder.gep(data, [index]), row.as_pointer())

            rows = [builder.load(place(0, args[1], args[2], r), align=1, typ=row) for r in range(LANES)]
            step = 1
            while step < LANES:
                even = [lane if not lane & step else LANES + lane - step for lane in range(LANES)]
                odd = [lane + step if not lane & step else LANES + lane for lane in range(LANES)]
                masks = [ir.Constant(ir.VectorType(_I32, LANES), mask) for mask in (even, odd)]
                for r in range(LANES):
                    if not r & step:
                        pair = rows[r], rows[r + step]
                        rows[r], rows[r + step] = (builder.shuffle_vector(*pair, mask) for mask in masks)
                step *= 2
            for r, value in enumerate(rows):
                builder.store(value, place(3, args[4], args[5], r), align=1)
            return context.get_dummy_value()

        n = types.intp
        return types.void(x, n, n, out, n, n), codegen

    return generated


def _square_python(x: Any, at: int, pitch: int, out: Any, to: int, out_pitch: int) -> None:
    for r in range(LANES):
        for c in range(LANES):
            out[to + c * out_pitch + r] = x[at + r * pitch + c]


square = _square_ir() if JIT_ENABLED else _square_python
"""``square(x, at, pitch, out, to, out_pitch)``: ``LANES`` rows of as many 4-byte values, turned."""
