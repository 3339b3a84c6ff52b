"""Operators that a compiled function prices: tabulated by what sizes they carry, or priced design by design.

An operator's seconds depend on the sizes that its counts carry and on the record. So a group of operators is priced
once for each record and each value of those sizes that occurs, where that is less than for every design.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from engine.cost.layout import M
from engine.devices.common.counts import Group
from engine.sweep.pricing.points import gather

WHOLE = np.zeros(0, dtype=np.int64)
"""In place of the numbers of some designs: every one of a range."""
_AT_ONCE = 1 << 13  # entries whose records lie in memory together
_GRID = 1 << 21  # entries of a table
_SMALL = 64  # entries that are tabulated whatever it spares

Arrays = tuple[np.ndarray, ...]
"""Arrays that vary with the designs, as `gather` takes them."""
Inputs = Callable[[int, int, np.ndarray], tuple[np.ndarray, tuple[np.ndarray, ...]]]
"""Sizes and record, as `Compiled.points` takes them, of so many designs from a first one on, or of some numbers."""


def laid_flat(parts: Sequence[tuple[int, np.ndarray]], order: Sequence[int], steps: np.ndarray) -> Arrays:
    """(row, array with a dimension an axis) as `gather` takes them: flat, those over the same axes together."""
    parts = sorted(parts, key=lambda part: part[1].shape)
    shapes, values = [value.shape for _, value in parts], [value.ravel() for _, value in parts]
    begins = [i for i, shape in enumerate(shapes) if not i or shape != shapes[i - 1]]
    strides = [
        [prod(shapes[i][a + 1 :]) if shapes[i][a] > 1 else 0 for a in order] or [0] for i in begins
    ]  # none along an axis of length 1
    return (
        steps,
        np.array(strides, dtype=np.int64).reshape(len(begins), len(steps)),
        np.array(begins, dtype=np.int64),
        np.diff([*begins, len(parts)]).astype(np.int64),
        np.cumsum([0, *map(len, values)])[:-1].astype(np.int64),
        np.array([row for row, _ in parts], dtype=np.int64),
        np.concatenate(values) if values else np.zeros(0),
    )


def _distinct(sizes: Sequence[tuple[int, np.ndarray]]) -> list[tuple[list[int], np.ndarray, np.ndarray]]:
    """Sizes that vary, those along a common axis together: which they are, (sizes, n) values that occur, and where."""
    queue, result = list(sizes), []
    while queue:
        joint, axes, frontier = [], set(), [queue[0]]
        while frontier:
            joint += frontier
            axes |= {a for _, value in frontier for a, size in enumerate(value.shape) if size > 1}
            queue = [size for size in queue if not any(size is member for member in frontier)]
            frontier = [size for size in queue if any(size[1].shape[a] > 1 for a in axes)]
        spread = np.broadcast_arrays(*(value for _, value in joint))
        flat = [array.ravel() for array in spread]
        if len(flat) == 1:  # the same as below in a tenth of the time
            values, place = np.unique(flat[0], return_inverse=True)
        else:
            values, place = np.unique(np.stack(flat), axis=1, return_inverse=True)
        result.append(([k for k, _ in joint], values.reshape(len(flat), -1), place.reshape(spread[0].shape)))
    return result


def inputs_of(sizes: Sequence[Any], record: Sequence[Any], order: Sequence[int], steps: np.ndarray) -> Inputs:
    """Sizes and record of designs, each a double or an array with its axes in that order."""
    index = [[i for i, value in enumerate(values) if type(value) is not float] for values in (sizes, record)]
    arrays = laid_flat(list(enumerate([*(sizes[i] for i in index[0]), *(record[i] for i in index[1])])), order, steps)
    first, constants = (
        np.array([value if type(value) is float else value.flat[0] for value in values]) for values in (sizes, record)
    )
    varying, fields = (np.array(places, dtype=np.int64) for places in index)

    def at(lo: int, n: int, numbers: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        part, block = np.empty((len(varying) + len(fields), n)), np.repeat(first[:, None], n, axis=1)
        gather(part.reshape(-1), n, lo, n, numbers, *arrays)
        block[varying] = part[: len(varying)]
        return block, (constants, fields, part[len(varying) :])

    return at


@dataclass(frozen=True)
class Operators:
    """Operators of a phase on a stage. Sizes and record are a double each, or an array with a dimension an axis."""

    run: int  # number of the stage's phase in the plan's `Layout`
    points: Callable[..., None]
    tables: tuple[np.ndarray, ...]
    ways: float
    groups: tuple[Group, ...]
    sizes: tuple[Any, ...]
    record: tuple[Any, ...]

    def price(self, group: int, sizes: np.ndarray, record: tuple[np.ndarray, ...]) -> np.ndarray:
        """Seconds of a group by resource, (6, n), from sizes and record as `Compiled.points` takes them. [s]"""
        out, ops = np.zeros((M, sizes.shape[1])), self.groups[group]
        self.points(0, sizes.shape[1], ops.rows, ops.times, *self.tables, self.ways, sizes, record, out)
        return out

    def grids(
        self, radix: Sequence[int], beat: Callable[[int, int], None]
    ) -> Iterator[tuple[list[int], list[np.ndarray], list[np.ndarray]]]:
        """Groups that carry the same sizes and have far fewer entries than designs: which, arrays whose sum at a design
        is its entry, and the seconds of each at all entries, (6, entries). [s]
        """
        varying = [value.shape for value in self.record if type(value) is not float]
        axes = [a for a in range(len(radix)) if any(shape[a] > 1 for shape in varying)]
        alike: dict[tuple[int, ...], list[int]] = {}
        for at, group in enumerate(self.groups):
            alike.setdefault(tuple(k for k in group.sizes if type(self.sizes[k]) is not float), []).append(at)
        for keys, groups in alike.items():
            kinds = _distinct([(k, self.sizes[k]) for k in keys])
            counts = [values.shape[1] for _, values, _ in kinds]
            records = prod(radix[a] for a in axes)
            entries = records * prod(counts)
            if entries > _GRID or (entries * 4 > prod(radix) and entries > _SMALL):
                continue
            first = np.arange(records) * prod(counts)
            place = [first.reshape([n if a in axes else 1 for a, n in enumerate(radix)])]
            place += [at * prod(counts[i + 1 :]) for i, (_, _, at) in enumerate(kinds)]
            yield (
                groups,
                [array.astype(np.float64) for array in place if array.any()],
                self._entries(groups, axes, kinds, radix, beat),
            )

    def _entries(
        self, groups: Sequence[int], axes: Sequence[int], kinds: Any, radix: Sequence[int], beat: Any
    ) -> list[np.ndarray]:
        """Seconds of groups at every record and every value of the sizes they carry, (6, entries) each. [s]"""
        flat = [1] * len(kinds)
        fields = [v if type(v) is float else v.reshape([v.shape[a] for a in axes] + flat) for v in self.record]
        sizes = [value if type(value) is float else float(value.flat[0]) for value in self.sizes]
        for i, (indices, values, _) in enumerate(kinds):
            for k, array in zip(indices, values, strict=True):
                sizes[k] = array.reshape([1] * len(axes) + [-1 if i == j else 1 for j in range(len(kinds))])
        virtual = [radix[a] for a in axes] + [values.shape[1] for _, values, _ in kinds]
        steps, entries, out = np.array(virtual or [1], dtype=np.int64), prod(virtual), []
        inputs = inputs_of(sizes, fields, range(len(virtual)), steps)
        for lo in range(0, entries, _AT_ONCE):
            beat(lo, entries)
            here = inputs(lo, min(_AT_ONCE, entries - lo), WHOLE)
            out.append([self.price(group, *here) for group in groups])
        return [np.concatenate(parts, axis=1) for parts in zip(*out, strict=True)]
