"""Runs that a compiled function prices: its operators by what sizes they carry, tabulated or priced design by design.

An operator's seconds depend on the sizes that its counts carry and on the record. So a group of operators is priced
once for each record and each value of those sizes that occurs, where that is less than for every design.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from engine.cost.figures import M
from engine.devices.common.contract import DeviceFamily, Job
from engine.devices.common.counts import Group
from engine.sweep.pricing.points import gather_range, gather_rows

AT_ONCE = 1 << 13  # designs whose records lie in memory together
_GRID = 1 << 21  # entries of a table
_FEW = 64  # entries that are tabulated whatever it spares


def _strides_of(value: np.ndarray) -> list[int]:
    """What a step along each axis adds to an entry's place in a flat array; nothing along one of length 1."""
    return [prod(value.shape[a + 1 :]) if size > 1 else 0 for a, size in enumerate(value.shape)]


def laid(values: Sequence[np.ndarray], order: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrays one after the other: strides (arrays, axes) and offset of each, and all values, flat."""
    strides = [[_strides_of(value)[a] for a in order] or [0] for value in values]
    offset = np.cumsum([0, *(value.size for value in values)])[:-1]
    flat = np.concatenate([value.ravel() for value in values]) if values else np.zeros(0)
    return np.array(strides, dtype=np.int64).reshape(len(values), max(1, len(order))), offset.astype(np.int64), flat


def _distinct(sizes: Sequence[tuple[int, np.ndarray]]) -> list[tuple[list[int], np.ndarray, np.ndarray]]:
    """Sizes that vary, those along a common axis together: which they are, (sizes, n) values that occur, and where."""
    left, result = list(sizes), []
    while left:
        some, axes = [left.pop(0)], set()
        grown = True
        while grown:
            axes = {a for _, value in some for a, size in enumerate(value.shape) if size > 1}
            more = [one for one in left if any(one[1].shape[a] > 1 for a in axes)]
            left = [one for one in left if not any(one is other for other in more)]
            some, grown = some + more, bool(more)
        if len(some) == 1 and (np.diff(some[0][1].ravel()) > 0.0).all():
            result.append(
                ([some[0][0]], some[0][1].reshape(1, -1), np.arange(some[0][1].size).reshape(some[0][1].shape))
            )
            continue
        if len(some) == 1:
            single, place = np.unique(some[0][1], return_inverse=True)
            result.append(([some[0][0]], single[None], place.reshape(some[0][1].shape)))
            continue
        spread = np.broadcast_arrays(*(value for _, value in some))
        values, place = np.unique(np.stack([one.ravel() for one in spread]), axis=1, return_inverse=True)
        result.append(([k for k, _ in some], values, place.reshape(spread[0].shape)))
    return result


@dataclass(frozen=True)
class GroupTable:
    """Seconds of a group, tabulated: `place` holds arrays whose sum, at a design, is its entry."""

    seconds: np.ndarray  # (6, entries)
    place: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class CompiledRun:
    """A phase of a stage that a compiled function prices. Sizes and record are a double each, or an array with a
    dimension an axis."""

    number: int
    points: Callable[..., None]
    tables: tuple[np.ndarray, ...]
    ways: float
    groups: tuple[Group, ...]
    sizes: tuple[Any, ...]
    record: tuple[Any, ...]

    @classmethod
    def of(
        cls,
        number: int,
        fam: DeviceFamily,
        job: Job,
        tables: tuple[np.ndarray, ...],
        sizes: Sequence[Any],
        record: Sequence[Any],
    ) -> CompiledRun:
        """A run of a family's job; what of the job may vary is taken from ``sizes`` and ``record`` alone."""
        assert fam.compiled is not None
        given = tuple(sizes), tuple(record)
        return cls(number, fam.compiled.points, tables, float(job.ways), fam.groups(job), *given)

    def price(self, group: Group, sizes: np.ndarray, record: tuple[np.ndarray, ...]) -> np.ndarray:
        """Seconds of a group by resource, (6, n), from sizes and record as `Compiled.points` takes them. [s]"""
        out = np.zeros((M, sizes.shape[1]))
        self.points(0, sizes.shape[1], group.rows, group.times, *self.tables, self.ways, sizes, record, out)
        return out

    def tabulated(self, radix: Sequence[int], beat: Callable[[int, int], None]) -> list[GroupTable | None]:
        """Each group as a table; None where its entries are not much fewer than the designs.

        Groups that carry the same sizes lie in their tables alike: they have one `GroupTable.place`.
        """
        result: list[GroupTable | None] = [None] * len(self.groups)
        varying = [value.shape for value in self.record if type(value) is not float]
        axes = [a for a in range(len(radix)) if any(shape[a] > 1 for shape in varying)]
        alike: dict[tuple[int, ...], list[int]] = {}
        for at, group in enumerate(self.groups):
            alike.setdefault(tuple(k for k in group.carried if type(self.sizes[k]) is not float), []).append(at)
        for carried, some in alike.items():
            kinds = _distinct([(k, self.sizes[k]) for k in carried])
            counts = [values.shape[1] for _, values, _ in kinds]
            entries = prod(radix[a] for a in axes) * prod(counts)
            if entries > _GRID or (entries * 4 > prod(radix) and entries > _FEW):
                continue
            first = np.arange(prod(radix[a] for a in axes)) * prod(counts)
            place = [first.reshape([n if a in axes else 1 for a, n in enumerate(radix)])]
            place += [at * prod(counts[i + 1 :]) for i, (_, _, at) in enumerate(kinds)]
            doubles = tuple(one.astype(np.float64) for one in place if one.any())
            for at, seconds in zip(some, self._entries(some, axes, kinds, radix, beat), strict=True):
                result[at] = GroupTable(seconds, doubles)
        return result

    def _entries(
        self, groups: Sequence[int], axes: Sequence[int], kinds: Any, radix: Sequence[int], beat: Any
    ) -> list[np.ndarray]:
        """Seconds of groups at every record and every value of the sizes they carry, (6, entries) each. [s]"""
        inside = [1] * len(axes)
        flat = [1] * len(kinds)
        fields = [v if type(v) is float else v.reshape([v.shape[a] for a in axes] + flat) for v in self.record]
        sizes = [value if type(value) is float else float(value.flat[0]) for value in self.sizes]
        for i, (which, values, _) in enumerate(kinds):
            for k, one in zip(which, values, strict=True):
                sizes[k] = one.reshape([*inside, *(-1 if i == j else 1 for j in range(len(kinds)))])
        virtual = [radix[a] for a in axes] + [values.shape[1] for _, values, _ in kinds]
        matrix, entries, out = Matrix.of(sizes, fields, range(len(virtual))), prod(virtual), []
        steps = np.array(virtual or [1], dtype=np.int64)
        for lo in range(0, entries, AT_ONCE):
            beat(lo, entries)
            here = matrix.at(lo, min(AT_ONCE, entries - lo), None, steps)
            out.append([self.price(self.groups[group], *here) for group in groups])
        return [np.concatenate(parts, axis=1) for parts in zip(*out, strict=True)]


@dataclass(frozen=True)
class Matrix:
    """Sizes and record of designs: what all of them hold, and those that vary, laid out flat."""

    sizes: np.ndarray
    record: np.ndarray
    varying: tuple[np.ndarray, np.ndarray]  # of each, which
    given: tuple[np.ndarray, np.ndarray, np.ndarray]

    @classmethod
    def of(cls, sizes: Sequence[Any], record: Sequence[Any], order: Sequence[int]) -> Matrix:
        """Each a double or an array, axes in that order."""
        first, which, some = [], [], []
        for values in (sizes, record):
            own = [i for i, value in enumerate(values) if type(value) is not float]
            first.append(np.array([value if type(value) is float else value.flat[0] for value in values]))
            which.append(np.array(own, dtype=np.int64))
            some += [values[i] for i in own]
        return cls(*first, tuple(which), laid(some, order))

    def at(self, lo: int, n: int, numbers: np.ndarray | None, radix: np.ndarray) -> tuple[np.ndarray, tuple]:
        """Of the designs from ``lo`` on, or of some numbers, as `Compiled.points` takes them."""
        which, fields = self.varying
        part, sizes = np.empty((len(which) + len(fields), n)), np.repeat(self.sizes[:, None], n, axis=1)
        if numbers is None:
            gather_range(lo, radix, *self.given, part)
        else:
            gather_rows(numbers, radix, *self.given, part)
        sizes[which] = part[: len(which)]
        return sizes, (self.record, fields, part[len(which) :])


@dataclass(frozen=True)
class LiveRun:
    """Groups of a run that are priced design by design."""

    run: CompiledRun
    groups: tuple[int, ...]
    matrix: Matrix

    @classmethod
    def of(cls, run: CompiledRun, groups: Sequence[int], order: Sequence[int]) -> LiveRun:
        """Those groups, axes in that order."""
        return cls(run, tuple(groups), Matrix.of(run.sizes, run.record, order))

    @property
    def ops(self) -> int:
        """Operators that are priced on each design. [-]"""
        return sum(len(self.run.groups[g].rows) for g in self.groups)

    def seconds(self, lo: int, numbers: np.ndarray | None, radix: np.ndarray, out: np.ndarray) -> None:
        """Seconds by resource, a group after the other, of designs from ``lo`` on or of some: fills ``out``. [s]"""
        here = self.matrix.at(lo, out.shape[1], numbers, radix)
        for i, group in enumerate(self.groups):
            out[M * i : M * i + M] = self.run.price(self.run.groups[group], *here)
