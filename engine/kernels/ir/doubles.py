"""Eight doubles side by side: a type that compiled code adds, divides and compares as it does one double.

For loops whose steps differ from point to point only in their numbers: eight points take each step together, with the
same bits as one by one. An array holds them as stretches of `LANES` doubles, a step for all of them is one operation
on the widest vector registers and a few on narrower ones. A comparison gives a mask, an integer with a bit a lane.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from engine.kernels.jit import JIT_ENABLED, cgutils, intrinsic, models, overload, register_model, types

__all__ = ["ALL", "LANES", "above", "at_least", "chosen", "larger", "load", "root", "smaller", "spread", "store"]

LANES = 8
"""Doubles of a vector register of AVX-512; narrower targets split it."""
ALL = (1 << LANES) - 1
"""The mask of every lane."""

_I32, _I64, _F64 = ir.IntType(32), ir.IntType(64), ir.DoubleType()
_VECTOR, _BITS = ir.VectorType(_F64, LANES), ir.VectorType(ir.IntType(1), LANES)
_MASK = ir.IntType(LANES)
_ALIGNED = 8  # bytes: stretches begin at any double


class _Doubles(types.Type):
    def __init__(self) -> None:
        super().__init__(name=f"doubles x {LANES}")


_doubles = _Doubles()


@register_model(_Doubles)
class _DoublesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), _VECTOR.as_pointer())


@intrinsic
def _load(typingctx: Any, array: Any, at: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(context, builder, signature.args[0], *args), align=_ALIGNED)

    return _doubles(array, types.intp), codegen


@intrinsic
def _store(typingctx: Any, array: Any, at: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(context, builder, signature.args[0], *args[:2]), align=_ALIGNED)
        return context.get_dummy_value()

    return types.void(array, types.intp, _doubles), codegen


@intrinsic
def _spread(typingctx: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        unset = ir.Constant(_VECTOR, ir.Undefined)
        one = builder.insert_element(unset, args[0], _I32(0))
        return builder.shuffle_vector(one, unset, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES))

    return _doubles(types.float64), codegen


def _of_two(emit: Callable[..., Any], result: Any = _doubles) -> Any:
    """An operation on two vectors: ``emit(builder, a, b)`` is its IR."""

    @intrinsic
    def found(typingctx: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return emit(builder, *args)

        return result(_doubles, _doubles), codegen

    return found


def _arithmetic(name: str) -> Any:
    """A binary operation of the builder on doubles."""
    return _of_two(lambda builder, a, b: getattr(builder, name)(a, b))


def _picked(sign: str) -> Any:
    """The second of two where it lies on that side of the first, else the first."""
    return _of_two(lambda builder, a, b: builder.select(builder.fcmp_ordered(sign, b, a), b, a))


def _compared(sign: str) -> Any:
    """Mask of the lanes where a comparison holds."""

    def emit(builder: Any, a: Any, b: Any) -> Any:
        return builder.zext(builder.bitcast(builder.fcmp_ordered(sign, a, b), _MASK), _I64)

    return _of_two(emit, types.int64)


@intrinsic
def _root(typingctx: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        of = cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{LANES}f64")
        return builder.call(of, args)

    return _doubles(_doubles), codegen


@intrinsic
def _chosen(typingctx: Any, mask: Any, a: Any, b: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.bitcast(builder.trunc(args[0], _MASK), _BITS), *args[1:])

    return _doubles(types.int64, _doubles, _doubles), codegen


def _operator(of: Callable[[Any, Any], Any], work: Any) -> None:
    @overload(of, strict=False)
    def found(a: Any, b: Any) -> Any:
        if isinstance(a, _Doubles) and isinstance(b, _Doubles):
            return lambda a, b: work(a, b)  # noqa: PLW0108 - an overload is a plain function
        return None


for _of, _name in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _operator(_of, _arithmetic(_name))


def _mask_of(found: Any) -> int:
    return sum(1 << lane for lane in range(LANES) if found[lane])


def _put(array: Any, at: int, value: Any) -> None:
    array[at : at + LANES] = value


load: Any = _load if JIT_ENABLED else lambda array, at: array[at : at + LANES].copy()
"""``(array, at)``: the doubles ``array[at : at + LANES]`` of a flat array; nothing is checked."""
store: Any = _store if JIT_ENABLED else _put
"""``(array, at, values)``: puts them there."""
spread: Any = _spread if JIT_ENABLED else lambda value: np.full(LANES, value)
"""``(value)``: one double in every lane."""
larger: Any = _picked(">") if JIT_ENABLED else lambda a, b: np.where(b > a, b, a)
"""``(a, b)``: ``max(a, b)`` lane by lane."""
smaller: Any = _picked("<") if JIT_ENABLED else lambda a, b: np.where(b < a, b, a)
"""``(a, b)``: ``min(a, b)`` lane by lane."""
above: Any = _compared(">") if JIT_ENABLED else lambda a, b: _mask_of(a > b)
"""``(a, b)``: mask of the lanes where a > b."""
root: Any = _root if JIT_ENABLED else np.sqrt
"""``(a)``: square roots."""
at_least: Any = _compared(">=") if JIT_ENABLED else lambda a, b: _mask_of(a >= b)
"""``(a, b)``: mask of the lanes where a >= b."""
chosen: Any = _chosen if JIT_ENABLED else lambda mask, a, b: np.where([mask >> lane & 1 for lane in range(LANES)], a, b)
"""``(mask, a, b)``: a in the lanes of the mask, b in the others."""
