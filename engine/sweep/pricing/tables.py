"""A family of designs as tables: each piece of the model once per value of the axes it reads, exact by construction."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from engine.cost.figures import GLOBALS, HOP, POWER, PRICE, YEARS, N, exchange_points
from engine.cost.power_and_price import draw, purchase
from engine.cost.schedule import exchange_wire, globals_of, hop_terms, layout_of, schedule
from engine.devices import family
from engine.plan.schemes import Plan
from engine.resolve.bind import check
from engine.sweep.pricing.choice import Choice
from engine.sweep.pricing.design import Design, DesignFamily, Structural
from engine.sweep.pricing.entries import TableMaker
from engine.sweep.pricing.pieces import (
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
from engine.sweep.pricing.program import Assembly, HalvedRun, Pieces, Program, Table, assemble, price_run
from engine.sweep.pricing.watch import note, watching

__all__ = ["compile_family"]

_GRID = 1 << 21  # entries up to which priced runs are tabulated


def _signature(plan: Plan) -> tuple[Any, ...]:
    """What a plan is apart from its numbers."""
    stages = tuple(
        (*(v for k, v in vars(s).items() if k not in ("device", "wire")), s.device.id, s.wire and s.wire.role)
        for s in plan.stages
    )
    numbers = ("wire", "messages", "bytes_per_message", "pieces")
    hops = tuple((*(v for k, v in vars(h).items() if k not in numbers), h.wire.role) for h in plan.hops)
    return stages, hops, plan.replicas, plan.devices_used, plan.pipelined, tuple(map(_signature, plan.options))


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
        plan = plan.options[design.family.option] if plan.options else plan
        return [x for hop in plan.hops for x in (hop.messages, hop.bytes_per_message, hop.pieces)]

    return piece


def _tabulated(made: TableMaker, run: HalvedRun, size: int) -> Table | None:
    """Seconds of a run as a table, where its demand and its supply together leave other axes out."""
    axes = sorted({a for t in (run.demand, *run.supply) for a in t.axes})
    radix = [made.radix[a] for a in axes]
    if prod(radix) * 4 > size or prod(radix) > _GRID:
        return None
    order = sorted(range(len(axes)), key=lambda i: (axes[i] not in run.demand.axes, i))  # alike demands together
    out = price_run(run, made.radix, [axes[i] for i in order], made.family.beat)
    out = out.reshape([*(radix[i] for i in order), N]).transpose([*np.argsort(order), len(axes)])
    return Table(tuple(axes), np.ascontiguousarray(out).reshape(-1, N), np.zeros(prod(radix), dtype=bool))


def compile_family(fam: DesignFamily) -> Program | Choice:
    """The program of a family of designs; Structural or Refused where there is none."""
    made = TableMaker(fam)
    checks = [made.make(_check)]
    fam.design(made.reference).lower()
    options = fam.design(made.reference).open_plan().options
    found = []
    for option in range(max(1, len(options))):
        fam.pin(option)
        found.append(_pieces(made, checks))
    slow = {a for pieces in found for a in pieces.slow}
    programs = tuple(assemble(fam.numeric, pieces, slow) for pieces in found)
    return Choice(programs) if options else programs[0]


def _pieces(made: TableMaker, checks: list[Table]) -> Pieces:
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
    runs: list[HalvedRun] = []
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
            run = HalvedRun(rows, points, fused, demand, supply)
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


def _refusals(made: TableMaker, at: int) -> Table:
    """Values of an axis that are refused on their own."""
    bad = np.array([d not in made.allowed[at] for d in range(made.radix[at])])
    return Table((at,), np.zeros((len(bad), 0)), bad)
