"""Eight doubles side by side: a type that compiled code adds, divides and compares as it does one double.

For loops whose steps differ from point to point only in their numbers: eight points take each step together, with the
same bits as one by one. An array holds them as stretches of `LANES` doubles, a step for all of them is one operation
on the widest vector registers and a few on narrower ones. A comparison gives a mask, an integer with a bit a lane.

Every function takes single doubles too, alone or beside vectors: so a formula is written once, and what calls it says
by what it passes whether it is worked out for one point or for eight. Of single doubles a mask is `FULL` or 0.
"""

import operator
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from llvmlite import ir

from engine.kernels.jit import cgutils, lower_builtin, models, overload, register_model, type_callable, types

LANES = 8
"""Doubles of a vector register of AVX-512; narrower targets split it."""
FULL = (1 << LANES) - 1
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


def _in_every_lane(builder: Any, value: Any) -> Any:
    unset = ir.Constant(_VECTOR, ir.Undefined)
    scalar = builder.insert_element(unset, value, _I32(0))
    return builder.shuffle_vector(scalar, unset, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES))


def _compiled(of: Any, infer: Callable[..., Any], *kinds: Any) -> Any:
    """Decorator of the IR that stands for a function of Python where its arguments are of those kinds."""
    type_callable(of)(lambda context: infer)
    return lower_builtin(of, *kinds)


def load(array: Any, at: Any) -> Any:
    """The doubles ``array[at : at + LANES]`` of a flat array; nothing is checked."""
    return array[at : at + LANES].copy()


@_compiled(load, lambda array, at: _doubles, types.Array, types.Integer)
def _load(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.load(_pointer(context, builder, signature.args[0], *args), align=_ALIGNED)


def loads(array: Any, at: Any, apart: Any, count: int) -> Any:
    """As many stretches, each so far behind the one before; the count is a constant."""
    return tuple(load(array, at + i * apart) for i in range(count))


def _as_many(array: Any, at: Any, apart: Any, count: Any) -> Any:
    return types.UniTuple(_doubles, count.literal_value) if isinstance(count, types.IntegerLiteral) else None


@_compiled(loads, _as_many, types.Array, types.Integer, types.Integer, types.Integer)
def _loads(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    data, at, apart, _ = args
    places = [builder.add(at, builder.mul(apart, apart.type(i))) for i in range(signature.return_type.count)]
    pointers = [_pointer(context, builder, signature.args[0], data, place) for place in places]
    values = [builder.load(pointer, align=_ALIGNED) for pointer in pointers]
    return context.make_tuple(builder, signature.return_type, values)


def store(array: Any, at: Any, values: Any) -> None:
    """Puts them there."""
    array[at : at + LANES] = values


@_compiled(store, lambda array, at, values: types.void, types.Array, types.Integer, _Doubles)
def _store(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    builder.store(args[2], _pointer(context, builder, signature.args[0], *args[:2]), align=_ALIGNED)
    return context.get_dummy_value()


def spread(value: Any) -> Any:
    """One double in every lane."""
    return np.full(LANES, value)


@_compiled(spread, lambda value: _doubles, types.Number)
def _spread(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return _as(_doubles, context, builder, signature.args[0], args[0])


def first_of(values: Any) -> Any:
    """The double of the first lane."""
    return values[0]


@_compiled(first_of, lambda values: types.float64, _Doubles)
def _first_of(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.extract_element(args[0], _I32(0))


def _as(kind: Any, context: Any, builder: Any, of: Any, value: Any) -> Any:
    """A value of type ``of`` as a double, or in every lane, as ``kind`` is. (No call: an instruction or two.)"""
    if of is _doubles:
        return value
    value = context.cast(builder, value, of, types.float64)
    return _in_every_lane(builder, value) if kind is _doubles else value


def _offer(of: Any, emit: Callable[..., Any], count: int = 2, result: Any = None, numbers: bool = True) -> None:
    """Compiles a function of ``count`` doubles, of vectors and, where ``numbers``, of single doubles in its place.

    ``emit(builder, *values)`` is its IR for either; a number beside vectors is in every lane. It returns ``result``,
    or what it is given.
    """

    def kind_of(*kinds: Any) -> Any:
        """Vectors, single doubles, or neither."""
        known = all(isinstance(kind, _Doubles | types.Number) for kind in kinds)
        return _doubles if known and _doubles in kinds else types.float64 if known and numbers else None

    def of_one(a: Any) -> Any:
        return kind_of(a) and (result or kind_of(a))

    def of_two(a: Any, b: Any) -> Any:
        return kind_of(a, b) and (result or kind_of(a, b))

    type_callable(of)(lambda context: of_one if count == 1 else of_two)

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = kind_of(*signature.args)
        return emit(builder, *(_as(kind, context, builder, *pair) for pair in zip(signature.args, args, strict=True)))

    for kinds in product((_Doubles, types.Number), repeat=count):
        if numbers or _Doubles in kinds:
            lower_builtin(of, *kinds)(lower)


def _arithmetic(name: str) -> Any:
    """A binary operation of the builder on doubles."""
    return lambda builder, a, b: getattr(builder, name)(a, b)


def _select_by(sign: str) -> Any:
    """The second of two where it lies on that side of the first, else the first."""
    return lambda builder, a, b: builder.select(builder.fcmp_ordered(sign, b, a), b, a)


def _compare(sign: str) -> Any:
    """Mask of the lanes where a comparison holds."""

    def emit(builder: Any, a: Any, b: Any) -> Any:
        holds = builder.fcmp_ordered(sign, a, b)
        if a.type == _VECTOR:
            return builder.zext(builder.bitcast(holds, _MASK), _I64)
        return builder.select(holds, _I64(FULL), _I64(0))

    return emit


def _of_one(name: str) -> Any:
    """An intrinsic function of LLVM."""

    def emit(builder: Any, value: Any) -> Any:
        suffix = f"v{LANES}f64" if value.type == _VECTOR else "f64"
        kind = ir.FunctionType(value.type, [value.type])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.{suffix}"), [value])

    return emit


def _mask_of(mask: Any) -> int:
    return sum(1 << lane for lane, on in enumerate(np.broadcast_to(mask, LANES)) if on)


def larger(a: Any, b: Any) -> Any:
    """``max(a, b)`` lane by lane."""
    return np.where(b > a, b, a)[()]


def smaller(a: Any, b: Any) -> Any:
    """``min(a, b)`` lane by lane."""
    return np.where(b < a, b, a)[()]


def above(a: Any, b: Any) -> int:
    """Mask of the lanes where a > b."""
    return _mask_of(a > b)


def at_least(a: Any, b: Any) -> int:
    """Mask of the lanes where a >= b."""
    return _mask_of(a >= b)


def root(a: Any) -> Any:
    """Square roots."""
    return np.sqrt(a)


def rounded_up(a: Any) -> Any:
    """Whole numbers at or above."""
    return np.ceil(a)


def rounded_down(a: Any) -> Any:
    """Whole numbers at or below."""
    return np.floor(a)


def alike(like: Any, value: Any) -> Any:
    """A value in as many lanes as ``like`` has."""
    return np.where(True, value, like)[()]


def chosen(mask: int, a: Any, b: Any) -> Any:
    """``a`` in the lanes of the mask, ``b`` in the others; of two single doubles one, as the first lane says."""
    if np.ndim(a) == np.ndim(b) == 0:
        return a if mask & 1 else b
    return np.where([mask >> lane & 1 for lane in range(LANES)], a, b)


def entry(like: Any, array: Any, at: int) -> Any:
    """Entry ``at`` of an array whose entries have as many lanes as ``like``."""
    return array[at] if np.ndim(like) == 0 else load(array, at * LANES)


def write(array: Any, at: int, value: Any) -> None:
    """Puts a value where `entry` finds it."""
    if np.ndim(value) == 0:
        array[at] = value
    else:
        store(array, at * LANES, value)


for _of, _name in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _offer(_of, _arithmetic(_name), numbers=False)
    _offer(getattr(operator, f"i{_of.__name__}"), _arithmetic(_name), numbers=False)
_offer(larger, _select_by(">"))
_offer(smaller, _select_by("<"))
_offer(above, _compare(">"), result=types.int64)
_offer(at_least, _compare(">="), result=types.int64)
_offer(root, _of_one("sqrt"), 1)
_offer(rounded_up, _of_one("ceil"), 1)
_offer(rounded_down, _of_one("floor"), 1)


def _kind_of(a: Any, b: Any) -> Any:
    return _doubles if _doubles in (a, b) else types.float64


@_compiled(alike, _kind_of, types.Any, types.Any)
def _alike(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return _as(signature.return_type, context, builder, signature.args[1], args[1])


@_compiled(chosen, lambda mask, a, b: _kind_of(a, b), types.Integer, types.Any, types.Any)
def _choose(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind, (mask, *values) = signature.return_type, args
    on = builder.bitcast(builder.trunc(mask, _MASK), _BITS) if kind is _doubles else builder.trunc(mask, ir.IntType(1))
    return builder.select(on, *map(partial(_as, kind, context, builder), signature.args[1:], values))


@overload(entry, strict=False)
def _entry_of(like: Any, array: Any, at: Any) -> Any:
    if isinstance(like, _Doubles):
        return lambda like, array, at: load(array, at * LANES)
    return lambda like, array, at: array[at]


@overload(write, strict=False)
def _put_of(array: Any, at: Any, value: Any) -> Any:
    if isinstance(value, _Doubles):
        return lambda array, at, value: store(array, at * LANES, value)

    def single(array: Any, at: Any, value: Any) -> None:
        array[at] = value

    return single
