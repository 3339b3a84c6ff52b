"""Tables laid out flat: what the compiled loop over designs takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from engine.settle import METRICS, Layout
from engine.sweep.points import HALVES_ROWS, fill_points

__all__ = ["Assembly", "Program", "Table", "assemble"]


@dataclass(frozen=True)
class Table:
    """Values of a piece of the model: (entries, ...), entries numbered by the axes it reads, last one fastest."""

    axes: tuple[int, ...]  # positions among the family's numeric axes
    values: np.ndarray
    bad: np.ndarray  # entries that the model refuses
    sentences: tuple[str, ...] = ()

    def strides(self, radix: Sequence[int]) -> list[int]:
        """What a step along each numeric axis adds to an entry's number."""
        return [prod(radix[b] for b in self.axes if b > a) if a in self.axes else 0 for a in range(len(radix))]


@dataclass(frozen=True)
class Program:
    """A family of designs, ready to be priced by number. `order` is its numeric axes, slowest first."""

    order: tuple[int, ...]  # axes of the space
    radix: np.ndarray
    size: int
    layout: Layout
    arguments: tuple[Any, ...]  # of `fill_points`, between the range and what is wanted
    bad_rows: tuple[int, ...]
    unfit_rows: tuple[int, ...]
    sentences: tuple[str, ...]

    def fill(self, lo: int, hi: int, figures: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Figures (k, n) of designs lo..hi, whether the model refuses each, and whether each does not fit."""
        wanted = self._wanted(figures)
        out = np.empty((len(wanted), hi - lo))
        fill_points(lo, hi, *self.arguments, wanted, out)
        return self._parted(out, len(figures))

    def fill_at(self, numbers: np.ndarray, figures: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same of designs here and there."""
        wanted = self._wanted(figures)
        out, one = np.empty((len(wanted), len(numbers))), np.empty((len(wanted), 1))
        for i, number in enumerate(numbers.tolist()):
            fill_points(number, number + 1, *self.arguments, wanted, one)
            out[:, i] = one[:, 0]
        return self._parted(out, len(figures))

    def _wanted(self, figures: Sequence[str]) -> np.ndarray:
        first = self.layout.metrics
        names = [first + METRICS.index(name) for name in figures]
        return np.array([*names, *self.bad_rows, *self.unfit_rows], dtype=np.int64)

    def _parted(self, out: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        b = k + len(self.bad_rows)
        return out[:k], np.any(out[k:b], axis=0), np.any(out[b:], axis=0)


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


def assemble(
    numeric: Sequence[int],
    sizes: Sequence[int],
    layout: Layout,
    put: Assembly,
    halves: Sequence[tuple[int, Table, list[Table]]],
    extra: int,
    rest: tuple[tuple[int, ...], tuple[int, ...], tuple[str, ...]],
) -> Program:
    """Everything as the flat arrays that `fill_points` takes."""
    blocks = []
    for _, _, supply in halves:
        blocks.append(extra)
        for r, table in enumerate(supply):
            put.put(table, [extra + r])
        extra += HALVES_ROWS
    slow = sorted({a for _, demand, _ in halves for a in demand.axes})
    fast = [a for a in range(len(sizes)) if a not in slow]
    fast.sort(key=lambda a: (sizes[a], a))
    order = [*slow, *fast]
    radix = [sizes[a] for a in order] or [1]
    strides, first, width, offset, row, values = [], [], [], [], [], []
    at = 0
    for table, rows in put.parts:
        step = table.strides(sizes)
        strides.append([step[a] for a in order])
        first.append(len(row))
        width.append(len(rows))
        for i, target in enumerate(rows):
            offset.append(at)
            row.append(target)
            values.append(np.ascontiguousarray(table.values[:, i]))
            at += len(table.bad)
    demands, demand_first, ops, demand_strides, count = [], [], [], [], 0
    for _, demand, _ in halves:
        step = demand.strides(sizes)
        demand_strides.append([step[a] for a in order] or [0])
        flat = np.nan_to_num(demand.values)
        demand_first.append(count)
        ops.append(flat.shape[1])
        demands.append(flat.reshape(-1, flat.shape[2]))
        count += len(demands[-1])

    def whole(numbers: Any, dims: int = 1) -> np.ndarray:
        found = np.array(numbers, dtype=np.int64)
        return found if found.size else np.zeros((0,) if dims == 1 else (0, len(radix)), dtype=np.int64)

    arguments = (
        whole(radix), whole(strides, 2), whole(first), whole(width), whole(offset), whole(row),
        np.concatenate(values) if values else np.zeros(0),
        whole([r for r, _ in put.constants]), np.array([v for _, v in put.constants], dtype=np.float64),
        np.concatenate(demands) if demands else np.zeros((0, 7)),
        whole(demand_first), whole(ops), whole(demand_strides, 2), whole([i for i, _, _ in halves]), whole(blocks),
        prod(sizes[a] for a in fast), layout.rows, layout.facts(),
    )  # fmt: skip
    return Program(tuple(numeric[a] for a in order), whole(radix), prod(sizes), layout, arguments, *rest)
