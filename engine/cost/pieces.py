"""Pieces of a price: numbers of a design that belong together, and the rows of its layout that take them. Estimates."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from engine.cost.exchanges import exchange, exchanges, link_joules
from engine.cost.figures import column_sums
from engine.cost.layout import Layout, N
from engine.cost.power_and_price import Account, account, counts_host, draws_alike, working_w
from engine.devices import family
from engine.devices.common.column import larger
from engine.devices.common.contract import RESOURCES, DeviceFamily, Fit, PhaseCost
from engine.devices.common.job import Job
from engine.plan.jobs import job_of
from engine.plan.plan import model_of, terms
from engine.plan.schemes import Hop, Plan, Stage
from engine.resolve.bound import Bound

BESIDE = ("host", "decoder")
"""Names of stages that run beside a device."""


@dataclass(frozen=True)
class PhaseRun:
    """One phase of one stage: its job, the cost of a pass, and how many passes a request makes."""

    job: Job
    cost: PhaseCost
    passes: float


def by_resource(rows: Iterable[tuple[str, str, float]]) -> np.ndarray:
    """Seconds of (name, resource, seconds) rows added up by resource, in order. [s]"""
    out: list[Any] = [0.0] * len(RESOURCES)
    for _, resource, seconds in rows:
        out[RESOURCES.index(resource)] = out[RESOURCES.index(resource)] + seconds
    return np.array(out)


def _hop(hop: Hop) -> tuple[float, ...]:
    """A hop as `engine.cost.layout.HOP` has it. [s], [B]

    What is set up for a message occupies its wire, the way of its first bit does not: the next message may follow.
    """
    start, rate = terms(hop.wire)
    setup = hop.command_s + (hop.wire.link.per_transfer.si if hop.wire.link.per_transfer else 0.0)
    commands = hop.command_s if hop.wire.role == "host" else 0.0
    start = start + hop.command_s + hop.way_s
    return hop.messages, hop.bytes_per_message, hop.pieces, start, rate, hop.hidden, setup, commands


def together(plan: Plan, fits: Sequence[Sequence[Fit]]) -> list[tuple[Fit, ...]]:
    """Demands on memory of each stage, off the chip those of all stages that lie on the same devices with the first."""
    result: list[tuple[Fit, ...]] = []
    first: dict[tuple[str, int, str], tuple[int, int]] = {}  # devices and level -> stage and rank that hold its demand
    for at, (stage, stage_fits) in enumerate(zip(plan.stages, fits, strict=True)):
        distinct: list[Fit] = []
        for fit in stage_fits:
            key = stage.device.id, stage.place, fit.level
            if not (plan.shared and fit.required and fit.role == "offchip"):
                distinct.append(fit)
            elif key in first:
                s, i = first[key]
                base = result[s][i]
                sums = base.need_bytes + fit.need_bytes, base.state_bytes + fit.state_bytes
                total = replace(base, need_bytes=sums[0], state_bytes=sums[1])
                result[s] = (*result[s][:i], total, *result[s][i + 1 :])
            else:
                first[key] = at, len(distinct)
                distinct.append(fit)
        result.append(tuple(distinct))
    return result


def layout_of(design: "Design", runs: Sequence[tuple[int, int]]) -> Layout:
    """Rows of a design whose runs are (number of the stage, number of the phase)."""
    plan, phases = design.plan, design.bound.graph.phases
    ways = list(dict.fromkeys((hop.wire.role, hop.way) for hop in plan.hops))
    return _layout(
        stage_of=tuple(stage for stage, _ in runs),
        decode=tuple(phases[phase].repeat.o for _, phase in runs),
        copies=tuple(stage.copies for stage in plan.stages),
        wire_of=tuple(ways.index((hop.wire.role, hop.way)) for hop in plan.hops),
        pipelined=plan.pipelined,
        causal=design.bound.graph.causal,
        replicas=plan.replicas,
        turns=_turns(plan),
        beside=tuple(_beside(plan, at) for at in range(len(plan.stages))),
        alike=tuple(hop.alike for hop in plan.hops),
        shares=tuple(hop.shares for hop in plan.hops),
        ways=tuple(plan.stages[stage].devices for stage, _ in runs),
        governed=tuple(  # of a device, not of a host or of a decoder beside it
            family(stage.device.kind).governs is not None and stage.name not in BESIDE for stage in plan.stages
        ),
        spends=tuple(not draws_alike(stage.device) for stage in plan.stages),
        host=tuple(_on_host(design.bound, stage) for stage in plan.stages),
    )


_layout = lru_cache(maxsize=1024)(Layout)  # plans that are laid out alike have the same arrays of facts


def _turns(plan: Plan) -> tuple[int, ...]:
    """Of each stage whether it takes turns with the one before it on the same devices."""
    turns, at = any(stage.turns for stage in plan.stages), [stage.place for stage in plan.stages]
    return tuple(int(turns and place == before) for place, before in zip(at, [at[0], *at], strict=False))


def _on_host(bound: Bound, stage: Stage) -> int:
    """Cores of a counted host that a stage takes, as `Layout` has it."""
    if not counts_host(bound):
        return 0
    return 2 if stage.device is bound.host else int(stage.name == "host")


def _beside(plan: Plan, at: int) -> int:
    """Whether a stage goes on with the one before it, and once which hop has brought a piece, as `Layout` has it."""
    stage = plan.stages[at]
    return next((h for h, hop in enumerate(plan.hops, 1) if hop.name == stage.streams), -stage.beside)


def batches_of(bound: Bound) -> float:
    """Batches that a request takes: several where it has more items than a batch of the network, else one. [-]"""
    s = bound.scenario
    return larger(1.0, 1.0 * math.ceil(s.inputs / s.batch)) if bound.graph.items else 1.0


class Design:
    """A bound scenario laid out as a plan. Its numbers may be columns of many designs that are alike in structure."""

    def __init__(self, bound: Bound, plan: Plan) -> None:
        self.bound, self.plan = bound, plan
        self._jobs: dict[tuple[int, int], Job] = {}

    def job(self, stage: int, phase: int) -> Job:
        """The job of a phase on a stage."""
        key = (stage, phase)
        if key not in self._jobs:
            on = self.plan.stages[stage]
            self._jobs[key] = job_of(self.bound, on, family(on.device.kind), self.bound.graph.phases[phase])
        return self._jobs[key]

    @cached_property
    def account(self) -> Account:
        """Power and price of the devices in use."""
        return account(self.bound, self.plan)

    def passes(self, phase: int) -> float:
        """Passes of a phase in a request. [-]"""
        s = self.bound.scenario
        return self.bound.graph.phases[phase].repeat.at(s.inputs, s.outputs)

    def first_job(self, stage: int, phases: Sequence[int]) -> Job | None:
        """A stage's job of the first of those phases that has a pass."""
        first = next((phase for phase in phases if self.passes(phase) > 0), None)
        return None if first is None else self.job(stage, first)


@dataclass(frozen=True, eq=False)
class Tables:
    """Arrays of a network as a compiled function takes them; equal where all their entries are."""

    arrays: tuple[np.ndarray, ...]

    def __ne__(self, other: Any) -> bool:
        return not all(a is b or np.array_equal(a, b) for a, b in zip(self.arrays, other.arrays, strict=True))


Numbers = tuple[Iterable[Any], Any]
"""Numbers of a design, doubles or columns, and what must be the same for all designs that they are of."""


@dataclass(frozen=True)
class Piece:
    """Numbers of a design that belong together.

    `rows` of its `Layout` take them, first to last. Where a family prices operators by a compiled function, `run` is
    the number of the run, and what comes behind those rows are the sizes and the record that the function takes.
    """

    rows: Sequence[int]
    of: Callable[[Design], Numbers]
    run: int | None = None


def runs_of(design: Design) -> list[tuple[int, int]]:
    """Stages and phases that have operators and passes, by number."""
    phases = [phase for phase in range(len(design.bound.graph.phases)) if design.passes(phase) > 0]
    return [(s, p) for s in range(len(design.plan.stages)) for p in phases if design.job(s, p).ops]


def _between(stage: Stage, job: Job, fam: DeviceFamily) -> tuple[list[tuple[str, str, float]], float]:
    """What devices that share a stage exchange in a pass, as `exchange` has it. [s], [B]"""
    return exchange(stage, job)[:2] if exchanges(stage, fam) else ([], 0.0)


def _watts(stage: int, phase: int, fam: DeviceFamily, design: Design) -> Numbers:
    """What a device draws in a run beside its floor, by resource, and joules of a pass, where they follow its time."""
    job = design.job(stage, phase)
    assert fam.activity is not None
    return fam.activity(job, working_w(design.bound, job.device)), None


def _compiled(stage: int, phase: int, fam: DeviceFamily, design: Design) -> Numbers:
    """Seconds by resource of a pass that belong to no operator, joules, sizes and record; tables of the network."""
    job, compiled = design.job(stage, phase), fam.compiled
    assert compiled is not None
    between, size = _between(design.plan.stages[stage], job, fam)
    seconds = by_resource([*(compiled.overheads(job) if compiled.overheads else ()), *between])
    return [*seconds.tolist(), link_joules(job, size), *job.sizes, *compiled.record(job)], Tables(compiled.tables(job))


def _whole(stage: int, phase: int, fam: DeviceFamily, design: Design) -> Numbers:
    """Seconds by resource of a pass and joules: of operators, then of everything else."""
    job = design.job(stage, phase)
    cost = fam.price(job, detail=False)
    totals = sum(cost.seconds, np.zeros(N))
    between, size = _between(design.plan.stages[stage], job, fam)
    return [*totals.tolist(), 0.0, *by_resource([*cost.overheads, *between]).tolist(), link_joules(job, size)], None


def _by_operator(run: PhaseRun, fam: DeviceFamily, _: Design) -> Numbers:
    """The same of a run whose operators were priced one by one: adds them up in the order of a compiled function."""
    cost, joules = run.cost, run.cost.op_joules
    columns = np.column_stack([cost.seconds, np.zeros(len(cost.seconds)) if joules is None else joules])
    totals = column_sums(columns, fam.groups(run.job), run.job.rows)
    return [*totals.tolist(), *by_resource(cost.overheads).tolist(), cost.link_j], None


def _once(stage: int, phases: Sequence[int], fam: DeviceFamily, design: Design) -> Numbers:
    """What a stage pays once a request, by resource."""
    job = design.first_job(stage, phases)
    return by_resource(fam.request(job) if job is not None and fam.request else ()), None


def _hops(design: Design) -> Numbers:
    """Hops in the order of `engine.cost.layout.HOP`, one after the other."""
    return [x for hop in design.plan.hops for x in _hop(hop)], None


def _globals(design: Design) -> Numbers:
    """The globals, in the order of `engine.cost.layout`: of work, of money and power, of a governor and a host."""
    bound, money = design.bound, design.account
    s, graph, governor = bound.scenario, bound.graph, money.governor
    units = graph.units_per_request.at(s.inputs, s.outputs)
    answers = larger(units * s.batch, 1.0 * s.inputs) if graph.items else units * s.batch
    figures = (math.nan if value is None else value for value in (money.limit_w, money.idle_w, money.price_usd))
    prices = (s.costs.years, s.costs.utilisation, s.costs.pue, s.costs.energy_usd_per_kwh, money.waiting_w)
    parsing = model_of(bound).get("parsing_cores", 1.0)
    power = (*money.host, parsing, money.cap_w, money.floor_w, governor.lowest, governor.slope, governor.reach)
    return (units, answers, 1.0 * s.streams, batches_of(bound), *figures, *prices, *power), None


def fits_of(design: Design, runs: Sequence[tuple[int, int]]) -> list[tuple[Fit, ...]]:
    """Demands of each stage on its memories, as `together` has them."""
    fits: list[Sequence[Fit]] = []
    for at, stage in enumerate(design.plan.stages):
        job = design.first_job(at, [phase for s, phase in runs if s == at])
        fits.append(() if job is None else family(stage.device.kind).place(job))
    return together(design.plan, fits)


def demands(design: Design, runs: Sequence[tuple[int, int]]) -> Numbers:
    """Need and capacity of each memory that must hold what all stages keep there, one after the other. [B]"""
    needs = [fit for stage_fits in fits_of(design, runs) for fit in stage_fits if fit.required]
    return [x for fit in needs for x in (fit.need_bytes, fit.capacity_bytes)], None


def pieces(
    design: Design, layout: Layout, runs: Sequence[tuple[int, int]], costs: Sequence[PhaseRun] = ()
) -> Iterator[Piece]:
    """Everything that a price is put together from, by rows of the layout; ``costs`` where operators are priced."""
    families, where = [family(stage.device.kind) for stage in design.plan.stages], layout.where
    for i, (s, p) in enumerate(runs):
        fam, ops, extra = families[s], layout.of_run(0, i), layout.of_run(where.extra, i)
        yield Piece([where.passes + i], lambda design, p=p: ([design.passes(p)], None))
        if fam.activity:
            yield Piece(layout.of_run(where.watts, i), partial(_watts, s, p, fam))
        if costs:
            yield Piece([*ops, *extra], partial(_by_operator, costs[i], fam))
        elif fam.compiled is None:
            yield Piece([*ops, *extra], partial(_whole, s, p, fam))
        else:
            yield Piece(extra, partial(_compiled, s, p, fam), i)
    for s, fam in enumerate(families):
        first, phases = where.fixed + N * s, [p for at, p in runs if at == s]
        yield Piece(range(first, first + N), partial(_once, s, phases, fam))
    yield Piece(range(where.hops, where.globals), _hops)
    yield Piece(range(where.globals, where.draws), _globals)
