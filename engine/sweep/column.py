"""All values of an axis as one number: what the model works out of it by plain arithmetic comes out for all at once.

Adding, multiplying and dividing doubles gives the same bits one by one and in an array, so the same functions of a
design fill a whole column of a table in one call. A comparison that falls out alike for all values is answered; for
anything else, `NotAlike` says that the values must be taken one by one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

__all__ = ["Column", "NotAlike", "rows_of"]

_WHOLE = 1 << 53  # integers up to here are doubles


class NotAlike(Exception):
    """The values of a column can't be treated alike."""


def _operand(other: Any) -> Any:
    if isinstance(other, Column):
        return other.values
    if (
        isinstance(other, bool)
        or not isinstance(other, int | float)
        or (isinstance(other, int) and abs(other) > _WHOLE)
    ):
        raise NotAlike
    return float(other)


def _arithmetic(of: Callable[[Any, Any], Any], swapped: bool) -> Callable[[Column, Any], Column]:
    def found(self: Column, other: Any) -> Column:
        a, b = (_operand(other), self.values) if swapped else (self.values, _operand(other))
        if of is operator.truediv and not np.all(b):  # a number raises where an array would go on
            raise NotAlike
        return Column(of(a, b))

    return found


def _compared(of: Callable[[Any, Any], Any]) -> Callable[[Column, Any], bool]:
    def found(self: Column, other: Any) -> bool:
        answers = of(self.values, _operand(other))
        if answers.all():
            return True
        if answers.any():
            raise NotAlike
        return False

    return found


class Column:
    """A double for each value of an axis."""

    __slots__ = ("values",)
    __array_ufunc__ = None  # a numpy number beside it leaves the work to it

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values, dtype=np.float64)

    __add__, __radd__ = _arithmetic(operator.add, False), _arithmetic(operator.add, True)
    __sub__, __rsub__ = _arithmetic(operator.sub, False), _arithmetic(operator.sub, True)
    __mul__, __rmul__ = _arithmetic(operator.mul, False), _arithmetic(operator.mul, True)
    __truediv__, __rtruediv__ = _arithmetic(operator.truediv, False), _arithmetic(operator.truediv, True)
    __lt__, __le__ = _compared(operator.lt), _compared(operator.le)
    __gt__, __ge__ = _compared(operator.gt), _compared(operator.ge)
    __eq__ = _compared(operator.eq)  # type: ignore[assignment]
    __ne__ = _compared(operator.ne)  # type: ignore[assignment]

    def __neg__(self) -> Column:
        return Column(-self.values)

    def __bool__(self) -> bool:
        return self != 0.0

    def _refuse(self, *_: Any) -> NoReturn:
        raise NotAlike

    def __hash__(self) -> int:
        raise NotAlike

    __float__ = __int__ = __index__ = __str__ = __repr__ = __format__ = __array__ = _refuse
    __iter__ = __len__ = __getitem__ = __round__ = __floor__ = __ceil__ = __trunc__ = __abs__ = _refuse
    __pow__ = __rpow__ = __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __divmod__ = __rdivmod__ = _refuse


def rows_of(found: Sequence[Any], count: int) -> np.ndarray:
    """Entries (count, columns) from what a function of a design returned; NotAlike where that is no row of numbers."""
    if not isinstance(found, tuple | list):
        raise NotAlike
    out = np.empty((count, len(found)))
    for i, one in enumerate(found):
        out[:, i] = _operand(one)
    return out
