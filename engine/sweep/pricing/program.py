"""Tables laid out flat, and what prices designs from them: what the compiled loop over designs takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from engine.cost.figures import METRICS, Layout, M
from engine.devices.common.column import Column, arrays_of
from engine.sweep.pricing.design import OPTIONS
from engine.sweep.pricing.points import fill_points
from engine.sweep.pricing.runs import AT_ONCE, CompiledRun, GroupTable, LiveRun, laid

_WORK = 1 << 21  # operators priced in a chunk, so that one takes a fraction of a second
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Program:
    """A family of designs, ready to be priced by number. `order` is its numeric axes, slowest first.

    Options that are priced together, `options` of them, lie one after the other: all designs with the first one come
    first.
    """

    order: tuple[int, ...]  # axes of the space
    steps: np.ndarray  # options, if there are several, then values of each of these axes
    options: int
    layout: Layout
    arguments: tuple[Any, ...]  # of `fill_points`, between the numbers and what is given
    live: tuple[LiveRun, ...]
    bad_rows: tuple[int, ...]
    sentences: tuple[str, ...]

    @property
    def radix(self) -> np.ndarray:
        """Values of each axis."""
        return self.steps[len(self.steps) - len(self.order) :]

    @property
    def size(self) -> int:
        """Designs."""
        return prod(self.radix.tolist())

    @property
    def chunk(self) -> int:
        """Designs that are priced in a fraction of a second. [-]"""
        return max(64, _WORK // max(sum(run.ops for run in self.live), 1) // self.options)

    def fill(self, lo: int, hi: int, figures: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Figures (k, n) of designs lo..hi, whether the model refuses each, and whether each does not fit."""
        return self._fill(lo, hi, None, figures)

    def fill_at(self, numbers: np.ndarray, figures: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same of designs here and there."""
        return self._fill(0, len(numbers), np.asarray(numbers, dtype=np.int64), figures)

    def _fill(
        self, lo: int, hi: int, numbers: np.ndarray | None, figures: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        first, k = self.layout.metrics, len(figures)
        names = [first + METRICS.index(name) for name in figures]
        wanted = np.array([*names, *self.bad_rows, self.layout.rows], dtype=np.int64)
        out = np.empty((len(wanted), hi - lo))
        given = self._given(lo, hi, numbers)
        fill_points(lo, hi, _NONE if numbers is None else numbers, *self.arguments, given, wanted, out)
        bad = np.zeros(hi - lo, dtype=bool)
        for row in out[k:-1]:
            bad |= row != 0.0
        return out[:k], bad, out[-1] != 0.0

    def _given(self, lo: int, hi: int, numbers: np.ndarray | None) -> np.ndarray:
        """Seconds by resource of the groups that are priced design by design, (6 * groups, hi - lo). [s]"""
        out = np.empty((M * sum(len(run.groups) for run in self.live), hi - lo))
        for at in range(lo, hi, AT_ONCE) if self.live else ():
            upto, top = min(hi, at + AT_ONCE), 0
            some = None if numbers is None else numbers[at - lo : upto - lo]
            for run in self.live:
                below = top + M * len(run.groups)
                run.seconds(at, some, self.steps, out[top:below, at - lo : upto - lo])
                top = below
        return out


@dataclass
class Assembly:
    """Collects numbers, the memory rows they go to, runs, and what is refused or does not fit."""

    layout: Layout
    radix: Sequence[int]
    parts: list[tuple[int, Any]] = field(default_factory=list)
    bad: list[np.ndarray] = field(default_factory=list)
    sentences: dict[str, None] = field(default_factory=dict)
    pairs: list[Any] = field(default_factory=list)
    runs: list[CompiledRun] = field(default_factory=list)

    def rows(self, values: Sequence[Any], rows: Sequence[int]) -> None:
        """Each double or array goes to a row; further ones go nowhere."""
        self.parts += zip(rows, values, strict=False)

    def found(self, chunk: Any, rows: Sequence[int]) -> None:
        """The numbers of a piece, and what it refuses."""
        self.rows(chunk.values or (), rows)
        self.refusals([chunk])

    def refusals(self, refused: Sequence[Any]) -> None:
        """What pieces refuse."""
        for one in refused:
            self.bad += [one.bad] if one.bad.any() else []
            self.sentences.update(one.sentences)

    def refused(self, numeric: Sequence[int], refused: Mapping[tuple[int, int], str]) -> None:
        """Values of axes that are refused on their own."""
        for a, axis in enumerate(numeric):
            digits = [digit for one, digit in refused if one == axis]
            if digits:
                bad = np.zeros(self.radix[a], dtype=bool)
                bad[digits] = True
                self.bad.append(bad.reshape([-1 if a == b else 1 for b in range(len(numeric))]))
        self.sentences.update(dict.fromkeys(refused.values()))

    def fits(self, pairs: Sequence[Any]) -> None:
        """Need and capacity, again and again."""
        self.pairs += pairs


@dataclass
class _Groups:
    """Groups of operators as `fill_points` takes them."""

    rows: list[list[int]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    columns: list[tuple[int, int]] = field(default_factory=list)
    seconds: list[np.ndarray] = field(default_factory=list)
    held: int = 0  # of them
    given: int = 0
    known: dict[int, tuple[int, int]] = field(default_factory=dict)  # of places by `id`: from which to which

    def add(self, run: int, table: Any, first_row: int) -> list[np.ndarray]:
        """A group of a run: its table, or None where it is given. What is to lie in memory from a row on."""
        more, places, columns = [], (0, 0), len(self.columns)
        if table is not None:
            if id(table.place) not in self.known:
                self.known[id(table.place)] = len(self.places), len(self.places) + len(table.place)
                self.places += range(first_row, first_row + len(table.place))
                more = list(table.place)
            places = self.known[id(table.place)]
            for resource in np.flatnonzero(table.seconds.any(axis=1)).tolist():
                self.columns.append((resource, self.held))
                self.seconds.append(table.seconds[resource])
                self.held += len(table.seconds[resource])
        given = -1 if table is not None else self.given
        self.rows.append([M * run, given, *places, columns, len(self.columns)])
        self.given += 0 if table is not None else M
        return more

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """All of it, flat."""
        return (
            np.array(self.rows, dtype=np.int64).reshape(-1, 6),
            np.array(self.places, dtype=np.int64),
            np.array(self.columns, dtype=np.int64).reshape(-1, 2),
            np.concatenate(self.seconds) if self.seconds else np.zeros(0),
        )


def _order(radix: Sequence[int], live: Sequence[tuple[CompiledRun, list[int]]]) -> list[int]:
    """Axes slowest first: options, what decides the sizes of operators priced design by design, then the shorter."""
    sizes = [value for run, groups in live if groups for value in run.sizes if type(value) is not float]
    slow = {a for value in sizes for a, size in enumerate(value.shape) if size > 1}
    options = len(radix) - 1
    return sorted(
        range(options if radix[-1] == 1 else len(radix)), key=lambda a: (a != options, a not in slow, radix[a], a)
    )


def assemble(numeric: Sequence[int], radix: Sequence[int], put: Assembly, beat: Callable[[int, int], None]) -> Program:
    """Everything as the flat arrays that `fill_points` takes."""
    layout, parts, groups, live = put.layout, list(put.parts), _Groups(), []
    row = layout.rows + 1  # after the one that says what does not fit
    bad_rows = range(row, row + len(put.bad))
    parts += zip(bad_rows, arrays_of(map(Column, put.bad)), strict=True)
    row += len(put.bad)
    fits = [(row + i, row + i + 1) for i in range(0, len(put.pairs), 2)]
    parts += enumerate(put.pairs, row)
    row += len(put.pairs)
    kept: list[GroupTable | None] = []  # alive while their places are told apart by `id`
    for run in put.runs:
        tables = run.tabulated(radix, beat)
        kept += tables
        for table in tables:
            places = groups.add(run.number, table, row)
            parts += enumerate(places, row)
            row += len(places)
        live.append((run, [at for at, table in enumerate(tables) if table is None]))
    order = _order(radix, live)
    steps = np.array([radix[a] for a in order] or [1], dtype=np.int64)
    constants = [(at, value) for at, value in parts if type(value) is float]
    arguments = (
        _tables(steps, [(at, value) for at, value in parts if type(value) is not float], order),
        (np.array([at for at, _ in constants], dtype=np.int64), np.array([value for _, value in constants])),
        groups.arrays,
        np.array(fits, dtype=np.int64).reshape(-1, 2),
        row,
        layout.rows,
        layout.facts,
    )
    return Program(
        order=tuple(numeric[a] for a in order if numeric[a] != OPTIONS),
        steps=steps,
        options=radix[-1],
        layout=layout,
        arguments=arguments,
        live=tuple(LiveRun.of(run, left, order) for run, left in live if left),
        bad_rows=tuple(bad_rows),
        sentences=tuple(put.sentences),
    )


def _tables(steps: np.ndarray, parts: list[tuple[int, np.ndarray]], order: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Arrays that vary, those over the same axes together: as `fill_points` gathers them."""
    parts.sort(key=lambda part: part[1].shape)
    strides, offset, values = laid([value for _, value in parts], order)
    begins = [i for i, (_, value) in enumerate(parts) if not i or value.shape != parts[i - 1][1].shape]
    first = np.array(begins, dtype=np.int64)
    return (
        steps,
        strides[first],
        first,
        np.diff([*begins, len(parts)]).astype(np.int64),
        offset,
        np.array([at for at, _ in parts], dtype=np.int64),
        values,
    )
