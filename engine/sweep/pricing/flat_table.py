"""Designs whose plans lie alike as flat arrays, which a compiled loop prices by number."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.cost.layout import METRICS, Layout, M
from engine.sweep.pricing.operators import Inputs, Operators, inputs_of, laid_flat
from engine.sweep.pricing.points import fill_points

Priced = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Figures (k, n) of designs, whether the model refuses each, and whether each does not fit."""


@dataclass(frozen=True)
class Table:
    """Designs with options of their plans that lie alike: all designs with the first option come first."""

    order: tuple[int, ...]  # axes of the designs, slowest first
    options: int
    layout: Layout
    arguments: tuple[Any, ...]  # of `fill_points`, between the numbers and what is known
    live: tuple[tuple[Operators, tuple[int, ...], Inputs], ...]  # groups of operators that are priced on each design
    refusals: range  # rows that say what is refused

    @property
    def work(self) -> int:
        """Operators that are priced on each design. [-]"""
        return self.options * sum(len(run.groups[g].rows) for run, groups, _ in self.live for g in groups)

    def fill(self, lo: int, n: int, numbers: np.ndarray, figures: Sequence[str]) -> Priced:
        """The designs from ``lo`` on, or those numbers where there are any."""
        names = [self.layout.where.metrics + METRICS.index(name) for name in figures]
        rows = np.array([*names, *self.refusals, self.layout.where.rows], dtype=np.int64)
        out, parts = np.empty((len(rows), n)), [np.empty((0, n))]
        for run, groups, inputs in self.live:
            here = inputs(lo, n, numbers)
            parts += [run.price(group, *here) for group in groups]
        fill_points(lo, numbers, *self.arguments, np.concatenate(parts), rows, out)
        return out[: len(names)], (out[len(names) : -1] != 0.0).any(axis=0), out[-1] != 0.0


def table_of(
    layout: Layout,
    radix: Sequence[int],
    rows: list[tuple[int, Any]],
    needs: int,
    marks: int,
    operators: Sequence[Operators],
    order: tuple[int, ...] | None,
    beat: Callable[[int, int], None],
) -> Table:
    """Numbers of designs, and the operators that they run, as a table.

    Parameters
    ----------
    radix : values of each axis, then options
    rows : memory row, and a double or an array with a dimension an axis: those of the layout, then behind the one that
        says what does not fit so many ``needs`` (need and capacity, again and again [B]) and what is ``marks``
    order : axes, slowest first; None: as suits the operators
    """
    first = layout.where.rows + 1 + needs
    refusals = range(first, first + marks)
    groups, live, places = _group_rows(operators, radix, refusals.stop, beat)
    rows = [*rows, *enumerate(places, refusals.stop)]
    order = _order(radix, live) if order is None else order
    axes = order if radix[-1] == 1 else (len(radix) - 1, *order)
    steps = np.array([radix[a] for a in axes] or [1], dtype=np.int64)
    constants = [(row, value) for row, value in rows if type(value) is float]
    arguments = (
        laid_flat([(row, value) for row, value in rows if type(value) is not float], axes, steps),
        (np.array([row for row, _ in constants], dtype=np.int64), np.array([value for _, value in constants])),
        groups,
        needs // 2,
        refusals.stop + len(places),
        layout.where.rows,
        layout.facts,
    )
    inputs = tuple((run, indices, inputs_of(run.sizes, run.record, axes, steps)) for run, indices in live if indices)
    return Table(order, radix[-1], layout, arguments, inputs, refusals)


def _order(radix: Sequence[int], live: Sequence[tuple[Operators, Sequence[int]]]) -> tuple[int, ...]:
    """Axes slowest first: what decides the sizes of operators priced design by design, then the shorter; no options."""
    sizes = [value for run, groups in live if groups for value in run.sizes if type(value) is not float]
    slow = {a for value in sizes for a, size in enumerate(value.shape) if size > 1}
    return tuple(sorted(range(len(radix) - 1), key=lambda a: (a not in slow, radix[a], a)))


def _group_rows(
    operators: Sequence[Operators], radix: Sequence[int], first: int, beat: Callable[[int, int], None]
) -> tuple[Any, list[tuple[Operators, tuple[int, ...]]], list[np.ndarray]]:
    """Groups of operators as `fill_points` takes them, those of each run that have no table, and where others lie.

    The latter are numbers of the memory rows from ``first`` on.
    """
    lines, columns, seconds, live, places, height, width = [], [], [], [], list[np.ndarray](), 0, 0
    for run in operators:
        entries_of: dict[int, tuple[int, ...]] = {}
        for groups, place, entries in run.grids(radix, beat):
            begin = first + len(places)
            places += place
            for group, table in zip(groups, entries, strict=True):
                resources = np.flatnonzero(table.any(axis=1)).tolist()
                entries_of[group] = -1, begin, first + len(places), len(columns), len(columns) + len(resources)
                for resource in resources:
                    columns.append((resource, width))
                    seconds.append(table[resource])
                    width += table.shape[1]
        remaining = tuple(group for group in range(len(run.groups)) if group not in entries_of)
        for group in range(len(run.groups)):
            lines.append((M * run.run, *entries_of.get(group, (height, 0, 0, 0, 0))))
            height += M * (group in remaining)
        live.append((run, remaining))
    flat = np.array(lines, dtype=np.int64).reshape(-1, 6), np.array(columns, dtype=np.int64).reshape(-1, 2)
    return (*flat, np.concatenate(seconds) if seconds else np.zeros(0)), live, places
