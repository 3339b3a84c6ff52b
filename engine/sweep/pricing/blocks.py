"""A space as blocks of designs that share a structure, and all of them priced. Estimates, as `evaluate`'s are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import isnan, nan, prod
from typing import Any

import numpy as np

from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.scenario import ScenarioError
from engine.sweep.goals import FIGURES
from engine.sweep.pricing.flat_table import Priced, Table
from engine.sweep.pricing.operators import WHOLE
from engine.sweep.pricing.structure import Beat, Structural, Structure, numeric_axes
from engine.sweep.pricing.tables import tables_of
from engine.sweep.result import design_row
from engine.sweep.space import Space

TABLE_LIMIT = 1_000_000
CHUNK = 1 << 14
"""Most designs priced at once: tens of milliseconds of work, so that threads end together; handing out takes 0.1."""


_WORK = 1 << 21  # operators priced in a chunk, so that one takes a fraction of a second
_PACE = ("interval_s", "latency_s")  # what the best option that fits has least of, as `engine.cost.best_plan` has it


@dataclass(frozen=True)
class DesignBlock:
    """Designs that share a structure: which digits are fixed, where their numbers lie, and what prices them."""

    space: Space
    digits: tuple[tuple[int, int], ...]  # (axis, digit) of the structural axes
    first: int  # number of the block's first design in the space
    size: int
    sentences: tuple[str, ...]  # why designs are refused
    tables: Sequence[Table] = ()  # options of plans in the order in which they are tried; none: refused as a whole
    strides: tuple[int, ...] = ()  # what a step along each numeric axis adds, slowest first
    radix: tuple[int, ...] = ()  # values of each of those

    def numbers(self, inside: np.ndarray) -> np.ndarray:
        """Numbers in the space of designs numbered inside the block."""
        if not self.strides:
            return np.full(inside.shape, self.first, dtype=np.int64)
        return self.first + np.array(self.strides) @ np.array(np.unravel_index(inside, self.radix))

    def inside(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers inside the block of designs that lie in it, by their numbers in the space."""
        if not self.strides:
            return np.zeros(len(numbers), dtype=np.int64)
        digits = [numbers // stride % size for size, stride in zip(self.radix, self.strides, strict=True)]
        return np.ravel_multi_index(digits, self.radix)

    @property
    def chunk(self) -> int:
        """Designs that are priced in a fraction of a second. [-]"""
        return max(64, _WORK // max(sum(table.work for table in self.tables), 1))

    def fill(self, lo: int, n: int, figures: Sequence[str], numbers: np.ndarray = WHOLE) -> Priced:
        """The ``n`` designs from ``lo`` on, or those numbers, each with the option of its plan that `make_plan` takes.

        That is the first that fits with the shortest interval, then the least latency; refused where any is.
        """
        if not self.tables:
            return np.full((len(figures), n), nan), np.ones(n, dtype=bool), np.zeros(n, dtype=bool)
        options = [(table, self.size * option) for table in self.tables for option in range(table.options)]
        names = tuple(dict.fromkeys((*_PACE, *figures))) if len(options) > 1 else figures
        (values, bad, unfit), *tail = (table.fill(at + lo, n, numbers + at, names) for table, at in options)
        if not tail:
            return values, bad, unfit
        for rival, misses, misfit in tail:
            better = (rival[0] < values[0]) | ((rival[0] == values[0]) & (rival[1] < values[1]))
            better = np.where(misfit == unfit, better, unfit)
            np.copyto(values, rival, where=better)
            np.copyto(unfit, misfit, where=better)
            np.logical_or(bad, misses, out=bad)
        return values[[names.index(figure) for figure in figures]], bad, unfit


def blocks(space: Space, beat: Beat = lambda at, of: None) -> Iterator[DesignBlock]:
    """All blocks of a space, first to last; an axis that turns out to change a plan's structure is split on the way."""
    numeric, cache = set(numeric_axes(space)), dict[Any, Any]()

    def split(digits: dict[int, int], numeric: set[int]) -> Iterator[DesignBlock]:
        try:
            yield block_at(space, tuple(sorted(digits.items())), cache, beat)
        except Structural as error:
            axes = sorted(error.axes & numeric)
            for extra in product(*(range(len(space.axes[i])) for i in axes)):
                yield from split(digits | dict(zip(axes, extra, strict=True)), numeric - set(axes))

    fixed = [i for i in range(len(space.axes)) if i not in numeric]
    for digits in product(*(range(len(space.axes[i])) for i in fixed)):
        here = dict(zip(fixed, digits, strict=True))
        out = space.left_out(here)
        if not any(here.get(axis) for axis in out):  # else skipped
            yield from split(here | dict.fromkeys(out, 0), numeric - out)


def block_at(
    space: Space, digits: tuple[tuple[int, int], ...], cache: dict[Any, Any], beat: Beat = lambda at, of: None
) -> DesignBlock:
    """The block of a space with those digits; Structural where they leave a plan's structure open.

    ``cache``: what the values of its axes set, as far as another block has had it validated.
    """
    fixed = dict(digits)
    within = space.without(space.left_out(fixed))
    free = [i for i in range(len(space.axes)) if i not in fixed]
    first = sum(space.strides[axis] * digit for axis, digit in digits)
    size = prod(len(space.axes[i]) for i in free)
    try:
        open_axes = set(numeric_axes(within)) - set(fixed)
        numeric = sorted(open_axes, key=lambda i: (len(space.axes[i]), i))  # the longest last, equals in axis order
        structure = Structure(within, fixed, numeric, cache, beat)
        tables, sentences = tables_of(structure)
    except (ScenarioError, Unsupported) as refusal:
        return DesignBlock(space, digits, first, size, (str(refusal),))
    order = tables[0].order
    lie = (tuple(of[structure.numeric[a]] for a in order) for of in (space.strides, [len(axis) for axis in space.axes]))
    return DesignBlock(space, digits, first, size, sentences, tables, *lie)


def price(space: Space, figures: Sequence[str] = FIGURES) -> Priced:
    """Figures (k, size) of every design by number, NaN where refused, and whether each is refused or does not fit."""
    values = np.full((len(figures), space.size), np.nan)
    bad, unfit = np.ones(space.size, dtype=bool), np.zeros(space.size, dtype=bool)
    for block in blocks(space):
        if not block.tables:
            continue
        for lo in range(0, block.size, CHUNK):
            hi = min(lo + CHUNK, block.size)
            part, misses, misfit = block.fill(lo, hi - lo, figures)
            part[:, misses] = np.nan
            numbers = block.numbers(np.arange(lo, hi))
            values[:, numbers], bad[numbers], unfit[numbers] = part, misses, misfit & ~misses
    return values, bad, unfit


def figures_of(space: Space, number: int) -> dict[str, float]:
    """Figures of one design through `evaluate`; NaN where one does not apply. Raises what `evaluate` raises.

    SI, units as in the names, as [s].
    """
    report = evaluate(space.scenario(number), space.catalog, space.zoo)
    values = {name: report.figure(name) for name in FIGURES}
    return {name: nan if value is None else value for name, value in values.items()} | {"fits": report.fits}


def table_rows(space: Space) -> Iterator[dict[str, Any]]:
    """Every design as a flat row: number, what each axis sets, all figures, whether it fits, its token.

    A figure that does not apply is None, a design that is refused has none and no token. At most `TABLE_LIMIT`
    designs. ScenarioError for a space too large for a full table.
    """
    if space.size > TABLE_LIMIT:
        raise ScenarioError(f"the space has {space.size} designs: a full table holds at most {TABLE_LIMIT}")
    values, bad, unfit = price(space)
    for number, row in enumerate(values.T.tolist()):
        scenario = None if bad[number] else space.scenario(number)
        figures = {name: None if isnan(value) else value for name, value in zip(FIGURES, row, strict=True)}
        fits = None if scenario is None else bool(not unfit[number])
        yield design_row(space, number, scenario, figures | {"fits": fits})
