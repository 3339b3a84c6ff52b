"""Tables of a family's pieces of the model: each entry once per value of the axes it reads, many entries at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from engine.devices.common.column import NotAlike, rows_of
from engine.sweep.pricing.design import Design, DesignFamily, Structural
from engine.sweep.pricing.program import Table
from engine.sweep.pricing.watch import note, watching

__all__ = ["Refused", "TableMaker"]

_TABLE_BYTES = 256 << 20
_FEW = 3  # entries that are made one by one: columns that turn out to be none cost more
_TOGETHER = 1 << 14  # entries that are worked out together: a number of each fits in a cache
_WORTH = 3  # entries by themselves that a part may cost


class Refused(ValueError):
    """Every design of a family is refused: the sentence why."""


class TableMaker:
    """Makes the tables of one family."""

    def __init__(self, fam: DesignFamily) -> None:
        self.family = fam
        self.radix = [len(fam.space.axes[i]) for i in fam.numeric]
        allowed = [[d for d in range(n) if (i, d) not in fam.refused] for i, n in zip(fam.numeric, self.radix)]
        for axis, digits in zip(fam.numeric, allowed, strict=True):
            if not digits:
                raise Refused(fam.refused[axis, 0])
        self.allowed = [set(digits) for digits in allowed]
        self.reference = [digits[0] for digits in allowed]
        self.position = {axis: at for at, axis in enumerate(fam.numeric)}

    def make(self, piece: Callable[[Design], Any], whole: bool = False) -> Table:
        """The table of a piece of the model: entries are added until it reads no axis that the table lacks.

        A piece is a row of numbers, or an object of any kind where ``whole``.
        """
        axes: set[int] = set()
        while True:
            table = self._try(piece, axes, whole)
            if table is not None:
                return table

    def _try(self, piece: Callable[[Design], Any], axes: set[int], whole: bool) -> Table | None:
        """The table over those axes; None, with `axes` enlarged, where the piece reads another one."""
        order = sorted(axes)
        entries = prod(self.radix[a] for a in order)
        if order and not whole:
            columns = self._columns(piece, axes)
            if columns is not None or len(axes) > len(order):
                return columns
        values: np.ndarray | None = None
        bad = np.zeros(entries, dtype=bool)
        sentences: dict[str, None] = {}
        for at, digits in enumerate(product(*(range(self.radix[a]) for a in order))):
            self.family.beat(at, entries)
            if any(d not in self.allowed[a] for a, d in zip(order, digits, strict=True)):
                bad[at] = True
                continue
            where = list(self.reference)
            for a, d in zip(order, digits, strict=True):
                where[a] = d
            design = self.family.design(where)
            error: ValueError | None = None
            row: Any = None
            with watching(self.family.fields) as read:
                try:
                    row = piece(design) if whole else np.asarray(piece(design), dtype=np.float64)
                except ValueError as refusal:
                    error = refusal
                    for own in self.family.model_axes.values():
                        note(own)
            grown = {self.position[axis] for axis in read} - axes
            if grown:
                axes |= grown
                return None
            if error is not None:
                bad[at] = True
                sentences.setdefault(str(error))
                continue
            if values is None:
                if entries * _size(row) > _TABLE_BYTES:
                    raise Structural({self.family.numeric[max(order, key=lambda a: self.radix[a])]})
                values = np.full(entries, None) if whole else np.full((entries, *row.shape), np.nan)
            values[at] = row
        if values is None:
            if sentences:
                raise Refused(next(iter(sentences)))
            values = np.zeros((entries, 0))
        return Table(tuple(order), values, bad, tuple(sentences))

    def _columns(self, piece: Callable[[Design], Any], axes: set[int]) -> Table | None:
        """The table over those axes, many entries at a time; None where `axes` grew or the piece takes numbers only.

        Entries are taken apart along the axes on which the piece decides, until each part is worked out alike.
        """
        order = sorted(axes)
        radix = [self.radix[a] for a in order]
        able = [a for a in order if self.family.columnar(a)]
        if prod(len(self.allowed[a]) for a in able) <= _FEW:
            return None
        left = self._parts(order, able)
        most = len(left) + prod(len(self.allowed[a]) for a in order) // _WORTH
        bad, values = np.ones(radix, dtype=bool), None
        sentences: dict[str, None] = {}
        done = 0
        while left:
            part = left.pop()
            self.family.beat(done, most)
            done += 1
            if done > most:
                return None
            shape = tuple(map(len, part))
            with watching(self.family.fields) as read, np.errstate(all="ignore"):
                try:
                    rows: np.ndarray | None = rows_of(piece(self.family.part(self.reference, order, part)), shape)
                except NotAlike as found:
                    halves = _halves(part, found.axes)
                    if halves is None:
                        return None
                    left += halves
                    rows = None
                except Exception as error:  # whatever plain numbers would not have raised
                    if not self._refused(piece, order, part, error):
                        return None
                    sentences.setdefault(str(error))
                    rows = None
            grown = {self.position[axis] for axis in read} - axes
            if grown:
                axes |= grown
                return None
            if rows is None:
                continue
            if values is None:
                if bad.size * (8 + 8 * rows.shape[-1]) > _TABLE_BYTES:
                    raise Structural({self.family.numeric[max(order, key=lambda a: self.radix[a])]})
                values = np.full((*radix, rows.shape[-1]), np.nan)
            values[np.ix_(*part)] = rows
            bad[np.ix_(*part)] = False
        if values is None:
            raise Refused(next(iter(sentences)))
        return Table(tuple(order), values.reshape(bad.size, -1), bad.ravel(), tuple(sentences))

    def _parts(self, order: Sequence[int], able: Sequence[int]) -> list[tuple[list[int], ...]]:
        """Allowed entries as parts, digits by axis, that stay in a cache and have one value of what is no column."""
        left, room = [], _TOGETHER
        for a in sorted(order, key=lambda a: (a in able, -self.radix[a]), reverse=True):
            digits = sorted(self.allowed[a])
            step = max(1, min(len(digits), room)) if a in able else 1
            room //= step
            left.append((a, [digits[i : i + step] for i in range(0, len(digits), step)]))
        left.sort()
        return list(product(*(pieces for _, pieces in left)))

    def _refused(
        self, piece: Callable[[Design], Any], order: Sequence[int], part: Sequence[list[int]], error: Exception
    ) -> bool:
        """Whether the model refuses a part: then it refuses its first entry, met by itself, in the same way."""
        if not isinstance(error, ValueError):
            return False
        try:
            piece(self.family.part(self.reference, order, [digits[:1] for digits in part]))
        except ValueError as alone:
            return type(alone) is type(error)
        return False


def _halves(part: Sequence[list[int]], axes: Sequence[int]) -> list[tuple[list[int], ...]] | None:
    """A part of a table cut in two along one of those axes; None where there is nothing to cut."""
    able = [i for i in axes if len(part[i]) > 1]
    if not able:
        return None
    at = max(able, key=lambda i: len(part[i]))
    middle = len(part[at]) // 2
    return [(*part[:at], half, *part[at + 1 :]) for half in (part[at][:middle], part[at][middle:])]


def _size(entry: Any) -> int:
    """Bytes of an entry, about. [B]"""
    parts = entry if isinstance(entry, tuple) else (entry,)
    return 8 + sum(part.nbytes for part in parts if isinstance(part, np.ndarray))
