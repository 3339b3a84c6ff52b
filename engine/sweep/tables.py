"""A family of designs as tables: each piece of the model once per value of the axes it reads, exact by construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from engine.account import draw, purchase
from engine.bind import check
from engine.devices import family
from engine.partition import Plan
from engine.schedule import exchange_wire, globals_of, hop_terms, layout_of, schedule
from engine.settle import GLOBALS, HOP, POWER, PRICE, YEARS, N, exchange_points
from engine.sweep.choice import TileChoice
from engine.sweep.column import rows_of
from engine.sweep.design import Design, Family, Structural
from engine.sweep.pieces import (
    collectives_of,
    demand_of,
    known,
    once_a_request,
    others_apart,
    places,
    prices,
    rate_of,
    whole_runs,
    wire_rates,
)
from engine.sweep.program import Assembly, Pieces, Program, Run, Table, assemble, price_run
from engine.sweep.watch import note, watching

__all__ = ["Refused", "compile_family"]

_TABLE_BYTES = 256 << 20
_FEW = 2  # values of an axis that are taken one by one: a column that turns out to be none costs one more
_GRID = 1 << 21  # entries up to which priced runs are tabulated


class Refused(ValueError):
    """Every design of a family is refused: the sentence why."""


class _Tables:
    """Makes the tables of one family."""

    def __init__(self, fam: Family) -> None:
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
            columns = self._columns(piece, order)
            if columns is not None:
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

    def _columns(self, piece: Callable[[Design], Any], order: Sequence[int]) -> Table | None:
        """The table over those axes, all values of one of them at a time; None where they differ in more than numbers.

        It must read none but those axes and be refused nowhere: else each entry is made by itself.
        """
        able = [a for a in order if len(self.allowed[a]) > _FEW and self.family.columnar(a)]
        if not able:
            return None
        along = max(able, key=lambda a: self.radix[a])
        rest = [a for a in order if a != along]
        digits = sorted(self.allowed[along])
        bad = np.ones([self.radix[a] for a in (*rest, along)], dtype=bool)
        values: np.ndarray | None = None
        for others in product(*(sorted(self.allowed[a]) for a in rest)):
            self.family.beat(0, 1)
            where = list(self.reference)
            for a, d in zip(rest, others, strict=True):
                where[a] = d
            try:
                with watching(self.family.fields) as read, np.errstate(all="ignore"):
                    rows = rows_of(piece(self.family.column(where, along, digits)), len(digits))
            except Exception:  # whatever arithmetic on numbers would not have raised
                return None
            if {self.position[axis] for axis in read} - set(order):
                return None
            if values is None:
                if bad.size * 8 * rows.shape[1] > _TABLE_BYTES:
                    return None
                values = np.full((*bad.shape, rows.shape[1]), np.nan)
            values[(*others, digits)] = rows
            bad[(*others, digits)] = False
        assert values is not None
        back = np.argsort([*rest, along])
        values = np.ascontiguousarray(values.transpose([*back, len(order)])).reshape(bad.size, -1)
        return Table(tuple(order), values, np.ascontiguousarray(bad.transpose(back)).ravel())


def _size(entry: Any) -> int:
    """Bytes of an entry, about. [B]"""
    parts = entry if isinstance(entry, tuple) else (entry,)
    return 8 + sum(part.nbytes for part in parts if isinstance(part, np.ndarray))


def _signature(plan: Plan) -> tuple[Any, ...]:
    """What a plan is apart from its numbers."""
    stages = tuple(
        (*(v for k, v in vars(s).items() if k not in ("device", "wire")), s.device.id, s.wire and s.wire.role)
        for s in plan.stages
    )
    numbers = ("wire", "messages", "bytes_per_message", "pieces")
    hops = tuple((*(v for k, v in vars(h).items() if k not in numbers), h.wire.role) for h in plan.hops)
    return stages, hops, plan.replicas, plan.devices_used, plan.pipelined, plan.tiles


def _check(design: Design) -> tuple[float, ...]:
    b = design.bound
    check(b.scenario, b.system, b.device, design.family.base.graph)
    return ()


def _planner() -> Callable[[Design], list[float]]:
    seen: list[tuple[Any, ...]] = []

    def piece(design: Design) -> list[float]:
        with watching(design.family.fields) as read:
            plan = design.open_plan()
        note(read)
        seen.append(_signature(plan))
        if seen[0] != seen[-1]:
            raise Structural(read)
        return [x for hop in plan.hops for x in (hop.messages, hop.bytes_per_message, hop.pieces)]

    return piece


def _tabulated(made: _Tables, run: Run, size: int) -> Table | None:
    """Seconds of a run as a table, where its demand and its supply together leave other axes out."""
    axes = sorted({a for t in (run.demand, *run.supply) for a in t.axes})
    radix = [made.radix[a] for a in axes]
    if prod(radix) * 4 > size or prod(radix) > _GRID:
        return None
    order = sorted(range(len(axes)), key=lambda i: (axes[i] not in run.demand.axes, i))  # alike demands together
    out = price_run(run, made.radix, [axes[i] for i in order], made.family.beat)
    out = out.reshape([*(radix[i] for i in order), N]).transpose([*np.argsort(order), len(axes)])
    return Table(tuple(axes), np.ascontiguousarray(out).reshape(-1, N), np.zeros(prod(radix), dtype=bool))


def compile_family(fam: Family) -> Program | TileChoice:
    """The program of a family of designs; Structural or Refused where there is none."""
    made = _Tables(fam)
    checks = [made.make(_check)]
    fam.design(made.reference).lower()
    tiles = fam.design(made.reference).open_plan().tiles
    found = []
    for tile in tiles or ((),):
        fam.pin(tile)
        found.append(_pieces(made, checks))
    slow = {a for pieces in found for a in pieces.slow}
    programs = tuple(assemble(fam.numeric, pieces, slow) for pieces in found)
    return TileChoice(programs) if tiles else programs[0]


def _pieces(made: _Tables, checks: list[Table]) -> Pieces:
    """Everything a program is made of."""
    fam = made.family
    plans = made.make(_planner())
    good = int(np.flatnonzero(~plans.bad)[0])
    where, left = list(made.reference), good
    for a in reversed(plans.axes):
        where[a], left = left % made.radix[a], left // made.radix[a]
    sample = fam.design(where)
    plan = sample.plan
    families = [family(stage.device.kind) for stage in plan.stages]
    own_power = any(f.power is not None for f in families)
    kept = [
        (s, p) for s in range(len(plan.stages)) for p in range(len(sample.bound.graph.phases)) if sample.job(s, p).ops
    ]
    layout = layout_of(sample.bound, plan, [(s, bool(sample.bound.graph.phases[p].repeat.o)) for s, p in kept])
    size = prod(made.radix)
    put = Assembly()
    every = [plans]
    runs: list[Run] = []
    for i, (s, p) in enumerate(kept):
        fam_of, halves = families[s], families[s].halves
        put.put(made.make(lambda d, p=p: (d.passes(p),)), [layout.passes + i])
        totals, others = range(N * i, N * i + N), range(layout.others + N * i, layout.others + N * i + N)
        if halves is None:
            every.append(made.make(whole_runs(s, p, fam_of)))
            put.put(every[-1], [*totals, *others])
            continue
        rates = tuple(lambda d, job, rate=rate: rate(job) for rate in halves.supply)
        took = [(totals, halves.points, halves.block is not None, demand_of(s, p, halves), rates)]
        wire = exchange_wire(plan.stages[s], fam_of)
        if wire is None or halves.other is not None:
            every.append(made.make(others_apart(s, p, fam_of, halves)))
            put.put(every[-1], list(others))
        else:
            took.append((others, exchange_points, False, collectives_of(s, p), wire_rates(s)))
        for rows, points, fused, asked, rates in took:
            demand = made.make(asked, whole=True)
            if all(d is None for d in demand.values):  # no pass of it in any design
                continue
            supply = tuple(made.make(rate_of(s, p, rate)) for rate in rates)
            every += [demand, *supply]
            run = Run(rows, points, fused, demand, supply)
            priced = _tabulated(made, run, size)
            if priced is not None:
                put.put(priced, list(rows))
            else:
                runs.append(run)
    extra = layout.rows
    unfit_rows = []
    for s in range(len(plan.stages)):
        every.append(made.make(once_a_request(s, families[s])))
        put.put(every[-1], range(layout.fixed + N * s, layout.fixed + N * s + N))
        every.append(made.make(places(s, families[s])))
        put.put(every[-1], [extra])
        unfit_rows.append(extra)
        extra += 1
    for h in range(len(plan.hops)):
        rows = [layout.hops + len(HOP) * h + j for j in range(len(HOP))]
        put.put(Table(plans.axes, plans.values[:, 3 * h : 3 * h + 3], plans.bad), rows[:3])
        every.append(made.make(lambda d, h=h: hop_terms(d.plan.hops[h])))
        put.put(every[-1], rows[3:])
    g = layout.globals
    for piece, rows in (
        (lambda d: globals_of(d.bound), range(g, g + 3)),
        (lambda d: known(draw(d.bound, d.plan, schedule(d.bound, d.plan) if own_power else None)[0]), [g + POWER]),
        (lambda d: known(purchase(d.bound, d.plan)[0]), [g + PRICE]),
        (prices, range(g + YEARS, g + len(GLOBALS))),
    ):
        every.append(made.make(piece))
        put.put(every[-1], list(rows))
    bad_rows = []
    refused = [_refusals(made, at) for at in range(len(made.radix))]
    for table in (*checks, *every, *refused):
        if table.bad.any():
            put.put(Table(table.axes, table.bad[:, None].astype(np.float64), table.bad), [extra])
            bad_rows.append(extra)
            extra += 1
    sentences = tuple(dict.fromkeys(s for t in (*checks, *every) for s in t.sentences))
    sentences += tuple(dict.fromkeys(fam.refused.values()))
    return Pieces(made.radix, layout, put, runs, extra, tuple(bad_rows), tuple(unfit_rows), sentences)


def _refusals(made: _Tables, at: int) -> Table:
    """Values of an axis that are refused on their own."""
    bad = np.array([d not in made.allowed[at] for d in range(made.radix[at])])
    return Table((at,), np.zeros((len(bad), 0)), bad)
