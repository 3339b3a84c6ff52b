"""Tables laid out flat, and what prices designs from them: what the compiled loop over designs takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from engine.cost.figures import METRICS, Layout, N
from engine.sweep.pricing.points import HALVES_ROWS, demand_at, fill_points, fill_scattered, gather_range, gather_rows

__all__ = ["Assembly", "HalvedRun", "Pieces", "Program", "Table", "assemble", "price_run"]

_AT_ONCE = 4096  # designs whose rates lie in memory together
_WORK = 1 << 21  # operators priced in a chunk, so that one takes a fraction of a second


@dataclass(frozen=True)
class Table:
    """Values of a piece of the model: (entries, ...), entries numbered by the axes it reads, last one fastest."""

    axes: tuple[int, ...]  # positions among the family's numeric axes
    values: np.ndarray  # numbers, or whole demands
    bad: np.ndarray  # entries that the model refuses
    sentences: tuple[str, ...] = ()

    def strides(self, radix: Sequence[int]) -> list[int]:
        """What a step along each numeric axis adds to an entry's number."""
        return [prod(radix[b] for b in self.axes if b > a) if a in self.axes else 0 for a in range(len(radix))]


@dataclass(frozen=True)
class HalvedRun:
    """Seconds that come in halves: the six rows they go to, their demand and their rates as tables."""

    rows: range
    points: Callable[..., None]
    fused: bool  # priced inside the loop over designs
    demand: Table
    supply: tuple[Table, ...]

    @property
    def ops(self) -> int:
        """Operators, or exchanges, that are priced on each design. [-]"""
        return max([1, *(len(d[0]) for d in self.demand.values if d is not None)])


@dataclass(frozen=True)
class _Priced:
    """A run priced beforehand, many designs a call."""

    points: Callable[..., None]
    demand: np.ndarray  # of objects
    demand_strides: np.ndarray
    strides: np.ndarray  # (rates, axes)
    offset: np.ndarray
    values: np.ndarray

    def seconds(self, lo: int, hi: int, radix: np.ndarray, out: np.ndarray) -> None:
        """Seconds by resource of designs lo..hi: fills ``out`` (6, hi - lo). [s]"""
        supply = np.empty((len(self.offset), hi - lo))
        gather_range(lo, radix, self.strides, self.offset, self.values, supply)
        out[:] = 0.0
        varying = np.flatnonzero(self.demand_strides)
        same = int(np.prod(radix[varying[-1] + 1 :])) if len(varying) else hi  # designs in a row with one demand
        at = lo
        while at < hi:
            upto = min(hi, at - at % same + same)
            demand = self.demand[demand_at(at, radix, self.demand_strides)]
            if demand is not None:
                self.points(at - lo, upto - lo, *demand, supply, out)
            at = upto

    def seconds_at(self, numbers: np.ndarray, radix: np.ndarray, out: np.ndarray) -> None:
        """The same of designs here and there: fills ``out`` (6, n). [s]"""
        left, which = numbers.copy(), np.zeros(len(numbers), dtype=np.int64)
        for a in range(len(radix) - 1, -1, -1):
            which += left % radix[a] * self.demand_strides[a]
            left //= radix[a]
        supply = np.empty((len(self.offset), len(numbers)))
        gather_rows(numbers, radix, self.strides, self.offset, self.values, supply)
        out[:] = 0.0
        edges = [0, *(np.flatnonzero(np.diff(which)) + 1).tolist(), len(numbers)]
        for lo, hi in pairwise(edges):
            demand = self.demand[which[lo]]
            if demand is not None:
                self.points(lo, hi, *demand, supply, out)


@dataclass(frozen=True)
class Program:
    """A family of designs, ready to be priced by number. `order` is its numeric axes, slowest first."""

    order: tuple[int, ...]  # axes of the space
    radix: np.ndarray
    size: int
    layout: Layout
    arguments: tuple[Any, ...]  # of `fill_points`, between the range and what is given
    priced: tuple[_Priced, ...]
    given_row: np.ndarray
    bad_rows: tuple[int, ...]
    unfit_rows: tuple[int, ...]
    sentences: tuple[str, ...]
    work: int  # operators that a design's price takes beforehand

    @property
    def chunk(self) -> int:
        """Designs that are priced in a fraction of a second. [-]"""
        return max(64, _WORK // max(self.work, 1))

    def fill(self, lo: int, hi: int, figures: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Figures (k, n) of designs lo..hi, whether the model refuses each, and whether each does not fit."""
        wanted = self._wanted(figures)
        out = np.empty((len(wanted), hi - lo))
        given = self._given(lo, hi)
        fill_points(lo, hi, *self.arguments, self.given_row, given, wanted, out)
        return self._parted(out, len(figures))

    def fill_at(self, numbers: np.ndarray, figures: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same of designs here and there."""
        wanted = self._wanted(figures)
        out = np.empty((len(wanted), len(numbers)))
        given = np.empty((N * len(self.priced), len(numbers)))
        for i, run in enumerate(self.priced):
            run.seconds_at(numbers, self.radix, given[N * i : N * i + N])
        fill_scattered(numbers, *self.arguments, self.given_row, given, wanted, out)
        return self._parted(out, len(figures))

    def _given(self, lo: int, hi: int) -> np.ndarray:
        """Seconds by resource of the runs that are priced beforehand, (6 * runs, hi - lo). [s]"""
        found = np.empty((N * len(self.priced), hi - lo))
        for at in range(lo, hi, _AT_ONCE) if self.priced else ():
            part = np.empty((N, min(_AT_ONCE, hi - at)))
            for i, run in enumerate(self.priced):
                run.seconds(at, at + part.shape[1], self.radix, part)
                found[N * i : N * i + N, at - lo : at - lo + part.shape[1]] = part
        return found

    def _wanted(self, figures: Sequence[str]) -> np.ndarray:
        first = self.layout.metrics
        names = [first + METRICS.index(name) for name in figures]
        return np.array([*names, *self.bad_rows, *self.unfit_rows], dtype=np.int64)

    def _parted(self, out: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        b = k + len(self.bad_rows)
        return out[:k], _any(out[k:b]), _any(out[b:])


def _any(rows: np.ndarray) -> np.ndarray:
    """Of which designs any of the rows is set."""
    found = np.zeros(rows.shape[1], dtype=bool)
    for row in rows:
        found |= row != 0.0
    return found


class Assembly:
    """Collects tables and the memory rows that their columns go to."""

    def __init__(self) -> None:
        self.parts: list[tuple[Table, list[int]]] = []
        self.constants: list[tuple[int, float]] = []

    def put(self, table: Table, rows: Sequence[int]) -> None:
        """Column i of a table goes to memory row ``rows[i]``."""
        values = table.values.reshape(len(table.bad), -1)
        if not table.axes:
            self.constants += list(zip(rows, map(float, values[0]), strict=True))
            return
        varying = [i for i in range(len(rows)) if np.isnan(values[:, i]).any() or np.ptp(values[:, i]) > 0]
        self.constants += [(rows[i], float(values[0, i])) for i in range(len(rows)) if i not in varying]
        if varying:
            kept = Table(table.axes, np.ascontiguousarray(values[:, varying]), table.bad)
            self.parts.append((kept, [rows[i] for i in varying]))


@dataclass(frozen=True)
class Pieces:
    """Everything a program is made of, before its axes are put in order."""

    sizes: Sequence[int]
    layout: Layout
    put: Assembly
    runs: Sequence[HalvedRun]
    extra: int  # first memory row that is free
    bad_rows: tuple[int, ...]
    unfit_rows: tuple[int, ...]
    sentences: tuple[str, ...]

    @property
    def slow(self) -> set[int]:
        """Axes that demands depend on: designs with the same demand lie next to each other."""
        return {a for run in self.runs for a in run.demand.axes}


def _whole(numbers: Any, columns: int = 0) -> np.ndarray:
    found = np.array(numbers, dtype=np.int64)
    return found if found.size else np.zeros((0, columns) if columns else (0,), dtype=np.int64)


def _laid(
    tables: Sequence[tuple[Table, list[int]]], sizes: Sequence[int], order: Sequence[int]
) -> tuple[list[list[int]], list[int], list[int], list[int], list[int], np.ndarray]:
    """Tables one after the other: strides and first column and width of each, offset and row of each column, values."""
    strides, first, width, offset, row, values = [], [], [], [], [], []
    at = 0
    for table, rows in tables:
        step = table.strides(sizes)
        strides.append([step[a] for a in order] or [0])
        first.append(len(row))
        width.append(len(rows))
        for i, target in enumerate(rows):
            offset.append(at)
            row.append(target)
            values.append(np.ascontiguousarray(table.values[:, i]))
            at += len(table.bad)
    return strides, first, width, offset, row, np.concatenate(values) if values else np.zeros(0)


def _beforehand(run: HalvedRun, sizes: Sequence[int], order: Sequence[int]) -> _Priced:
    step = run.demand.strides(sizes)
    rates = [(Table(t.axes, t.values.reshape(len(t.bad), -1), t.bad), [r]) for r, t in enumerate(run.supply)]
    strides, _, _, offset, _, values = _laid(rates, sizes, order)
    demand_strides = _whole([step[a] for a in order] or [0])
    return _Priced(run.points, run.demand.values, demand_strides, _whole(strides), _whole(offset), values)


def price_run(
    run: HalvedRun, sizes: Sequence[int], order: Sequence[int], beat: Callable[[int, int], None]
) -> np.ndarray:
    """Seconds by resource of a run at every point of some axes, slowest first, shape (entries, 6). [s]"""
    radix = _whole([sizes[a] for a in order] or [1])
    entries = prod(sizes[a] for a in order)
    priced, out = _beforehand(run, sizes, order), np.empty((entries, N))
    step = max(1, min(_AT_ONCE, _WORK // run.ops))
    for lo in range(0, entries, step):
        beat(lo, entries)
        part = np.empty((N, min(step, entries - lo)))
        priced.seconds(lo, lo + part.shape[1], radix, part)
        out[lo : lo + step] = part.T
    return out


def assemble(numeric: Sequence[int], given: Pieces, slow: set[int]) -> Program:
    """Everything as the flat arrays that `fill_points` takes; ``slow`` axes come first."""
    sizes, layout, put, extra = given.sizes, given.layout, given.put, given.extra
    fused = [run for run in given.runs if run.fused]
    apart = [run for run in given.runs if not run.fused]
    blocks = []
    for run in fused:
        blocks.append(extra)
        for r, table in enumerate(run.supply):
            put.put(table, [extra + r])
        extra += HALVES_ROWS
    fast = [a for a in range(len(sizes)) if a not in slow]
    fast.sort(key=lambda a: (sizes[a], a))
    order = [*sorted(slow), *fast]
    radix = _whole([sizes[a] for a in order] or [1])
    strides, first, width, offset, row, values = _laid(put.parts, sizes, order)
    demands, demand_first, ops, demand_strides, count = [], [], [], [], 0
    for run in fused:
        step = run.demand.strides(sizes)
        demand_strides.append([step[a] for a in order] or [0])
        blank = np.zeros_like(next(d[0] for d in run.demand.values if d is not None))
        flat = [blank if d is None else d[0] for d in run.demand.values]
        demand_first.append(count)
        ops.append(len(blank))
        demands += flat
        count += len(blank) * len(flat)
    arguments = (
        radix,
        _whole(strides, len(radix)),
        _whole(first),
        _whole(width),
        _whole(offset),
        _whole(row),
        values,
        _whole([r for r, _ in put.constants]),
        np.array([v for _, v in put.constants], dtype=np.float64),
        np.concatenate(demands) if demands else np.zeros((0, 7)),
        _whole(demand_first),
        _whole(ops),
        _whole(demand_strides, len(radix)),
        _whole([run.rows[0] // N for run in fused]),
        _whole(blocks),
        prod(sizes[a] for a in fast),
        layout.rows,
        layout.facts(),
    )
    return Program(
        order=tuple(numeric[a] for a in order),
        radix=radix,
        size=prod(sizes),
        layout=layout,
        arguments=arguments,
        priced=tuple(_beforehand(run, sizes, order) for run in apart),
        given_row=_whole([r for run in apart for r in run.rows]),
        bad_rows=given.bad_rows,
        unfit_rows=given.unfit_rows,
        sentences=given.sentences,
        work=sum(run.ops for run in apart),
    )
