"""Many values of a setting as one number: what a model works out of it by plain arithmetic comes out for all at once.

Adding, multiplying, dividing and rounding doubles gives the same bits one by one and in an array, so the functions of a
model that price one design fill a whole table in a few calls. A column lies along the axis of the designs it varies
with; columns of several axes spread over their product only where they meet. A comparison that falls out alike for all
values is answered. For anything else `NotAlike` names the axes along which the values must be taken apart.

A model picks the larger of two numbers by `larger`, and so on, where either answer may come out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, NoReturn

import numpy as np

_WHOLE = 1 << 53  # integers up to here are doubles
_TOGETHER = 1 << 22  # values of a column
_DIVIDES = (operator.truediv, operator.floordiv)
_NEUTRAL = {operator.add: 0.0, operator.sub: 0.0, operator.mul: 1.0, operator.truediv: 1.0}  # what changes no number


class NotAlike(Exception):
    """The values of a column can't be treated alike: take them apart along one of those axes, if any is named.

    `wholly` says that no two of them can; `overflow` that there are too many to hold together; `answers`, where there
    are some, which of them went one way.
    """

    def __init__(
        self, axes: Sequence[int] = (), wholly: bool = False, overflow: bool = False, answers: np.ndarray | None = None
    ) -> None:
        super().__init__(f"axes {list(axes)}")
        self.axes, self.wholly, self.overflow, self.answers = tuple(axes), wholly, overflow, answers


def _operand(operand: Any) -> Any:
    if isinstance(operand, Column):
        return operand.values
    if not isinstance(operand, int | float) or (isinstance(operand, int) and abs(operand) > _WHOLE):
        raise NotAlike
    return float(operand)


def _spread(a: Any, b: Any) -> None:
    """NotAlike where two columns meet at more points than are held together."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.size * b.size > _TOGETHER:
        shape = np.broadcast_shapes(a.shape, b.shape)
        if prod(shape) > _TOGETHER:
            raise NotAlike([d for d, size in enumerate(shape) if size > 1], overflow=True)


def _alike(values: np.ndarray) -> Any:
    """A column of what may be nothing anywhere: then the number, and what comes of it are numbers."""
    return Column(values) if values.any() else 0.0


def _arithmetic(of: Callable[[Any, Any], Any], reverse: bool) -> Callable[[Column, Any], Any]:
    divides, times = of in _DIVIDES, of is operator.mul
    neutral = _NEUTRAL.get(of) if not reverse or of in (operator.add, operator.mul) else None

    def result_of(self: Column, operand: Any) -> Any:
        if isinstance(operand, np.ndarray):
            return NotImplemented  # its entries meet the column one by one
        values, operand = self.values, operand if type(operand) is float else _operand(operand)
        if type(operand) is not float:
            _spread(values, operand)
        elif operand == neutral:
            return self
        a, b = (operand, values) if reverse else (values, operand)
        if divides and not (b if type(b) is float else b.all()):  # a number raises where an array would go on
            raise NotAlike(_varying(np.asarray(b) != 0.0))
        result = of(a, b)
        return _alike(result) if type(operand) is float and operand == 0.0 and (times or divides) else Column(result)

    return result_of


def _comparison(of: Callable[[Any, Any], Any]) -> Callable[[Column, Any], bool]:
    def comparison(self: Column, operand: Any) -> bool:
        answers = of(self.values, _operand(operand))
        if answers.all():
            return True
        if answers.any():
            raise NotAlike(_varying(answers), answers=answers)
        return False

    return comparison


def _varying(answers: np.ndarray) -> tuple[int, ...]:
    """Axes along which answers differ."""
    return tuple(d for d in range(answers.ndim) if (answers != answers.take([0], d)).any())


class Column:
    """A double for each value of an axis, or of several: an array with one dimension an axis of the designs."""

    __slots__ = ("values",)

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values, dtype=np.float64)

    __add__, __radd__ = _arithmetic(operator.add, False), _arithmetic(operator.add, True)
    __sub__, __rsub__ = _arithmetic(operator.sub, False), _arithmetic(operator.sub, True)
    __mul__, __rmul__ = _arithmetic(operator.mul, False), _arithmetic(operator.mul, True)
    __truediv__, __rtruediv__ = _arithmetic(operator.truediv, False), _arithmetic(operator.truediv, True)
    __floordiv__, __rfloordiv__ = _arithmetic(operator.floordiv, False), _arithmetic(operator.floordiv, True)
    __lt__, __le__ = _comparison(operator.lt), _comparison(operator.le)
    __gt__, __ge__ = _comparison(operator.gt), _comparison(operator.ge)
    __eq__ = _comparison(operator.eq)
    __ne__ = _comparison(operator.ne)

    def __neg__(self) -> Column:
        return Column(-self.values)

    def __bool__(self) -> bool:
        return self != 0.0

    def __ceil__(self) -> Column:
        """What `math.ceil` and `np.ceil` find."""
        if not np.isfinite(self.values).all():  # a number raises
            raise NotAlike(_varying(np.isfinite(self.values)))
        return Column(np.ceil(self.values))

    def __format__(self, spec: str) -> str:
        """The first value: what is told about many is told about one of them."""
        return format(float(self.values.flat[0]), spec)

    def _refuse(self, *_: Any) -> NoReturn:
        raise NotAlike([d for d, size in enumerate(self.values.shape) if size > 1], wholly=True)

    __hash__ = _refuse
    __float__ = __int__ = __index__ = __str__ = __repr__ = __round__ = __floor__ = __trunc__ = __abs__ = _refuse
    __pow__ = __rpow__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _refuse
    sqrt = exp = exp2 = log = log2 = log10 = log1p = expm1 = _refuse  # by these names numpy asks for its functions
    _numba_type_ = property(_refuse)  # by this name a compiled function asks what it is given


def larger(a: Any, b: Any) -> Any:
    """``max(a, b)``, of columns value by value."""
    if isinstance(a, Column) or isinstance(b, Column):
        a, b = _operand(a), _operand(b)
        _spread(a, b)
        return _alike(np.where(b > a, b, a))
    return b if b > a else a


def smaller(a: Any, b: Any) -> Any:
    """``min(a, b)``, of columns value by value."""
    if isinstance(a, Column) or isinstance(b, Column):
        a, b = _operand(a), _operand(b)
        _spread(a, b)
        return Column(np.where(b < a, b, a))
    return b if b < a else a


def each_larger(a: np.ndarray, b: Any) -> np.ndarray:
    """`larger`, entry by entry, of arrays of numbers or columns."""
    return np.frompyfunc(larger, 2, 1)(a, b) if object in (a.dtype, getattr(b, "dtype", None)) else np.maximum(a, b)


def largest(values: Iterable[Any]) -> Any:
    """``max(values)``, of columns value by value."""
    first, *tail = values
    for value in tail:
        first = larger(first, value)
    return first


def exceeds(need: Any, capacity: Any) -> Any:
    """1.0 where a need is not met by a capacity, else 0.0; of columns value by value."""
    if isinstance(need, Column) or isinstance(capacity, Column):
        need, capacity = _operand(need), _operand(capacity)
        _spread(need, capacity)
        return Column(np.where(need <= capacity, 0.0, 1.0))
    return 0.0 if need <= capacity else 1.0


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    """Zeros that a model adds numbers or columns to; `as_doubles` ends that."""
    return np.full(shape, 0.0, dtype=object)


def as_doubles(values: np.ndarray) -> np.ndarray:
    """The same as doubles, where no entry is a column."""
    try:
        return values.astype(np.float64, copy=False)
    except NotAlike:
        return values


def one_by_one(work: Callable[..., float], *inputs: Any) -> Any:
    """``work(*given)``, a number; of columns, the number of each of their values."""
    if not any(isinstance(value, Column) for value in inputs):
        return work(*inputs)
    if len(inputs) == 1:  # many values of one column are the same
        values, index = np.unique(inputs[0].values, return_inverse=True)
        return Column(np.array([work(value) for value in values.tolist()], dtype=np.float64)[index])
    spread = together(*inputs)
    values = np.array([work(*row) for row in zip(*(s.ravel().tolist() for s in spread), strict=True)], dtype=np.float64)
    return _alike(values.reshape(spread[0].shape))


def together(*inputs: Any) -> list[np.ndarray]:
    """Numbers and columns as arrays of one shape: an entry for each design; NotAlike where those are too many."""
    values = [np.asarray(_operand(value)) for value in inputs]
    shape = np.broadcast_shapes(*(value.shape for value in values))
    if prod(shape) > _TOGETHER:
        raise NotAlike([d for d, size in enumerate(shape) if size > 1], overflow=True)
    return [np.broadcast_to(value, shape) for value in values]


def columns_of(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array whose last axis runs over designs, in the order of ``shape``, as an array of columns."""
    out = np.empty(array.shape[:-1], dtype=object)
    for at in np.ndindex(out.shape):
        row = array[at]
        out[at] = Column(row.reshape(shape)) if row.any() else 0.0
    return out


def columns_as(shape: np.ndarray, values: Sequence[Any]) -> np.ndarray:
    """Numbers and columns in the shape of an array."""
    out = np.empty(shape.size, dtype=object)
    out[:] = values
    return out.reshape(shape.shape)


def arrays_of(value: Iterable[Any]) -> list[Any]:
    """What a function of designs returned: of a column of several values its array, of anything else a double."""
    values = (item if type(item) is float else _operand(item) for item in value)
    return [item if type(item) is float or item.size > 1 else float(item.flat[0]) for item in values]
