"""Designs that share a structure, ready to be priced by number: tables laid out flat, options of a plan settled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from engine.cost.layout import METRICS, Layout, M
from engine.sweep.pricing.operators import ALL, Inputs, Operators, laid_flat
from engine.sweep.pricing.points import fill_points

_WORK = 1 << 21  # operators priced in a chunk, so that one takes a fraction of a second
_PACE = ("interval_s", "latency_s")  # what the best option that fits has least of, as `engine.cost.best_plan` has it

Priced = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Figures (k, n) of designs, whether the model refuses each, and whether each does not fit."""


@dataclass(frozen=True)
class Table:
    """Designs with options of their plans that lie alike: all designs with the first option come first."""

    steps: np.ndarray  # options, if there are several, then values of each axis, slowest first
    order: tuple[int, ...]  # those axes
    options: int
    layout: Layout
    arguments: tuple[Any, ...]  # of `fill_points`, between the numbers and what is known
    live: tuple[tuple[Operators, tuple[int, ...], Inputs], ...]  # groups of operators that are priced on each design
    refusals: range  # rows that say what is refused
    sentences: tuple[str, ...]

    @property
    def work(self) -> int:
        """Operators that are priced on each design. [-]"""
        return self.options * sum(len(run.groups[g].rows) for run, groups, _ in self.live for g in groups)

    def fill(self, lo: int, n: int, numbers: np.ndarray, figures: Sequence[str]) -> Priced:
        """The designs from ``lo`` on, or those numbers where there are any."""
        names = [self.layout.where.metrics + METRICS.index(name) for name in figures]
        wanted = np.array([*names, *self.refusals, self.layout.where.rows], dtype=np.int64)
        out, known = np.empty((len(wanted), n)), [np.empty((0, n))]
        for run, groups, inputs in self.live:
            here = inputs.at(lo, n, numbers)
            known += [run.price(group, *here) for group in groups]
        fill_points(lo, numbers, *self.arguments, np.concatenate(known), wanted, out)
        return out[: len(names)], (out[len(names) : -1] != 0.0).any(axis=0), out[-1] != 0.0


@dataclass(frozen=True)
class Program:
    """Designs with the option of their plan that `make_plan` would take, by number."""

    order: tuple[int, ...]  # axes of the space, slowest first
    radix: tuple[int, ...]  # values of each
    tables: tuple[Table, ...]  # options in the order in which they are tried

    @property
    def size(self) -> int:
        """Designs."""
        return prod(self.radix)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Why designs are refused."""
        return tuple(dict.fromkeys(text for table in self.tables for text in table.sentences))

    @property
    def chunk(self) -> int:
        """Designs that are priced in a fraction of a second. [-]"""
        return max(64, _WORK // max(sum(table.work for table in self.tables), 1))

    def fill(self, lo: int, hi: int, figures: Sequence[str]) -> Priced:
        """Designs lo..hi."""
        return self._best(lo, hi - lo, ALL, figures)

    def fill_at(self, numbers: np.ndarray, figures: Sequence[str]) -> Priced:
        """Designs here and there."""
        return self._best(0, len(numbers), np.asarray(numbers, dtype=np.int64), figures)

    def _best(self, lo: int, n: int, numbers: np.ndarray, figures: Sequence[str]) -> Priced:
        """The first option that fits with the shortest interval, then the least latency; refused where any is."""
        options = [(table, self.size * option) for table in self.tables for option in range(table.options)]
        names = tuple(dict.fromkeys((*_PACE, *figures))) if len(options) > 1 else figures
        (values, bad, unfit), *rest = (table.fill(at + lo, n, numbers + at, names) for table, at in options)
        if not rest:
            return values, bad, unfit
        for other, refused, misfit in rest:
            less = (other[0] < values[0]) | ((other[0] == values[0]) & (other[1] < values[1]))
            less = np.where(misfit == unfit, less, unfit)
            np.copyto(values, other, where=less)
            np.copyto(unfit, misfit, where=less)
            np.logical_or(bad, refused, out=bad)
        return values[[names.index(figure) for figure in figures]], bad, unfit


def _order(radix: Sequence[int], live: Sequence[tuple[Operators, Sequence[int]]]) -> tuple[int, ...]:
    """Axes slowest first: what decides the sizes of operators priced design by design, then the shorter; no options."""
    sizes = [value for run, groups in live if groups for value in run.sizes if type(value) is not float]
    slow = {a for value in sizes for a, size in enumerate(value.shape) if size > 1}
    return tuple(sorted(range(len(radix) - 1), key=lambda a: (a not in slow, radix[a], a)))


@dataclass
class Rows:
    """What is put together for a `Table`: numbers, the memory rows that they go to, operators, what is refused."""

    layout: Layout
    radix: Sequence[int]  # values of each axis, then options
    parts: list[tuple[int, Any]]  # row, and a double or an array with a dimension an axis
    needs: Sequence[Any]  # need and capacity, again and again [B]
    refused: Sequence[np.ndarray]
    sentences: tuple[str, ...]
    operators: Sequence[Operators]
    _height: int = 0

    def table(self, order: tuple[int, ...] | None, beat: Callable[[int, int], None]) -> Table:
        """All of it as the flat arrays that `fill_points` takes, axes in that order or the one that suits it."""
        self._height = self.layout.where.rows + 1  # after the row that says what does not fit
        self._add(self.needs)
        refusals = self._add([bad.astype(np.float64) if bad.size > 1 else float(bad.item()) for bad in self.refused])
        groups, live = self._grouped(beat)
        order = _order(self.radix, live) if order is None else order
        options = len(self.radix) - 1
        axes = order if self.radix[-1] == 1 else (options, *order)
        steps = np.array([self.radix[a] for a in axes] or [1], dtype=np.int64)
        constants = [(row, value) for row, value in self.parts if type(value) is float]
        arguments = (
            laid_flat([(row, value) for row, value in self.parts if type(value) is not float], axes, steps),
            (np.array([row for row, _ in constants], dtype=np.int64), np.array([value for _, value in constants])),
            groups,
            len(self.needs) // 2,
            self._height,
            self.layout.where.rows,
            self.layout.facts,
        )
        priced = tuple((run, own, Inputs.of(run.sizes, run.record, axes, steps)) for run, own in live if own)
        return Table(steps, order, self.radix[-1], self.layout, arguments, priced, refusals, self.sentences)

    def _add(self, values: Sequence[Any]) -> range:
        """Rows of their own for numbers."""
        rows = range(self._height, self._height + len(values))
        self.parts += zip(rows, values, strict=True)
        self._height = rows.stop
        return rows

    def _grouped(self, beat: Callable[[int, int], None]) -> tuple[Any, list[tuple[Operators, tuple[int, ...]]]]:
        """Groups of operators as `fill_points` takes them, and those of each run that have no table."""
        lines, columns, seconds, live, height, width = [], [], [], [], 0, 0
        for run in self.operators:
            known: dict[int, tuple[int, ...]] = {}
            for groups, place, entries in run.tabulated(self.radix, beat):
                rows = self._add(place)
                for group, table in zip(groups, entries, strict=True):
                    begin = len(columns)
                    for resource in np.flatnonzero(table.any(axis=1)).tolist():
                        columns.append((resource, width))
                        seconds.append(table[resource])
                        width += table.shape[1]
                    known[group] = -1, rows.start, rows.stop, begin, len(columns)
            left = tuple(group for group in range(len(run.groups)) if group not in known)
            for group in range(len(run.groups)):
                lines.append((M * run.run, *known.get(group, (height, 0, 0, 0, 0))))
                height += M * (group in left)
            live.append((run, left))
        flat = np.array(lines, dtype=np.int64).reshape(-1, 6), np.array(columns, dtype=np.int64).reshape(-1, 2)
        return (*flat, np.concatenate(seconds) if seconds else np.zeros(0)), live
