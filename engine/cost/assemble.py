"""Puts a price together: phases, stages, wires, power and money of a scenario's designs. Estimates, as their parts are.

Everybody prices here. `assemble` takes one design and keeps the detail of its operators, `paces` takes the options of a
plan as columns, and a sweep takes the same `pieces`, each over the axes that it depends on
(`engine.sweep.pricing.tables`). A number of a design is a double or a `Column` of many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from engine.cost.exchanges import exchange, exchanges, link_joules, sent_to_other_nodes
from engine.cost.figures import (
    BATCHES,
    CLOCKED,
    GLOBALS,
    INTERVAL,
    LATENCY,
    LOWEST,
    METRICS,
    RATE,
    REACH,
    SLOPE,
    STREAMS,
    UNITS_REQUEST,
    Layout,
    M,
    N,
    column_sums,
    money_figures,
    overlapped,
    time_figures,
    voltage,
)
from engine.cost.power_and_price import Account, account, counts_host, working_w
from engine.devices import family
from engine.devices.common.column import Column, NotAlike, arrays_of, larger
from engine.devices.common.contract import RESOURCES, DeviceFamily, Fit, Job, PhaseCost
from engine.devices.common.counts import SIZES
from engine.plan.jobs import job_of
from engine.plan.plan import terms
from engine.plan.schemes import Hop, Plan, Stage
from engine.resolve.bind import Bound, Wire

BESIDE = ("host", "decoder")
"""Names of stages that run beside a device."""


@dataclass(frozen=True)
class PhaseRun:
    """One phase of one stage: its job, the cost of a pass, and how many passes a request makes."""

    job: Job
    cost: PhaseCost
    passes: float


@dataclass(frozen=True)
class Priced:
    """A stage with the cost of everything a request asks of it."""

    stage: Stage
    family: DeviceFamily
    runs: tuple[PhaseRun, ...]
    fixed: tuple[tuple[str, str, float], ...]  # once a request
    fits: tuple[Fit, ...]
    time_s: float = 0.0  # within one request, set when the plan is settled
    charged: float = 1.0  # share of it that a request is charged: less where another stage goes on beside it


@dataclass(frozen=True)
class Figures:
    """Figures of a priced plan, without the detail of its operators. Estimates, SI."""

    layout: Layout
    rows: np.ndarray  # of `layout`, one column

    def figure(self, name: str) -> float | None:
        """A figure of `METRICS`; None where it does not apply or rests on something unpublished. [SI]"""
        value = float(self.rows[self.layout.metrics + METRICS.index(name), 0])
        return None if math.isnan(value) else value

    @property
    def latency_s(self) -> float:
        """Time of a request. [s]"""
        return float(self.rows[self.layout.metrics + LATENCY, 0])

    @property
    def interval_s(self) -> float:
        """Time between two requests of one stream of one replica. [s]"""
        return float(self.rows[self.layout.metrics + INTERVAL, 0])

    @property
    def batches(self) -> float:
        """Batches of a request. [-]"""
        return float(self.rows[self.layout.globals + BATCHES, 0])

    @property
    def units(self) -> float:
        """Units of work that are answered at once: of a batch, or of a request of more items. [-]"""
        return float(self.rows[self.layout.globals + UNITS_REQUEST, 0])

    @property
    def units_per_s(self) -> float:
        """Units of work a second, all replicas and streams together. [1/s]"""
        return float(self.rows[self.layout.metrics + RATE, 0])

    @property
    def requests_per_s(self) -> float:
        """Requests a second, all replicas and streams together. [1/s]"""
        return self.layout.replicas * self.global_of(STREAMS) / self.interval_s

    @property
    def stage_s(self) -> list[float]:
        """Time of each stage within a request. [s]"""
        return self.rows[self.layout.stage_times, 0].tolist()

    @property
    def hop_s(self) -> list[float]:
        """Time each hop adds to a request. [s]"""
        return self.rows[self.layout.hop_times, 0].tolist()

    @property
    def other_s(self) -> list[float]:
        """Time of each run's passes that belongs to no operator. [s]"""
        runs = range(self.layout.runs)
        return [
            float(self.rows[self.layout.others_of(i), 0].sum() * self.rows[self.layout.passes + i, 0]) for i in runs
        ]

    def global_of(self, which: int) -> float:
        """A number of `engine.cost.figures.GLOBALS`: counts and shares [-], [W], [USD]."""
        return float(self.rows[self.layout.globals + which, 0])

    def drawn(self, name: str) -> float:
        """A number of `engine.cost.figures.DRAWN`: a share of a clock [-], or what a request takes [J], [s]."""
        return float(self.rows[self.layout.drawn(name), 0])

    def at_clock(self, run: int) -> tuple[np.ndarray, float]:
        """Factors of a run's seconds by resource and of its joules, at the clock that its governor leaves. [-]"""
        factors, clock = np.ones(N), self.drawn("clock")
        if not (self.layout.governed and self.layout.governed[self.layout.stage_of[run]]):
            return factors, 1.0
        factors[list(CLOCKED)] = 1.0 / clock
        return factors, voltage(*map(self.global_of, (SLOPE, REACH, LOWEST)), clock) ** 2

    def spent(self, run: int) -> tuple[float, float]:
        """Seconds and joules of a run in a request, all passes, joules of all devices that share it. [s], [J]"""
        layout, rows, (factors, squared) = self.layout, self.rows[:, 0], self.at_clock(run)
        seconds = (rows[layout.seconds_of(run)] + rows[layout.others_of(run)]) * factors
        watts = rows[layout.watts + M * run : layout.watts + M * run + N]
        each = rows[layout.seconds_of(run).stop] + rows[layout.others_of(run).stop] + rows[layout.watts + M * run + N]
        passes = float(rows[layout.passes + run])
        joules = float(each * squared + watts @ seconds) * passes * layout.ways[run]
        return float(seconds.sum()) * passes, joules


@dataclass(frozen=True)
class Schedule(Figures):
    """Latency of a request, the rate at which requests finish, both without queueing, and what they draw and cost."""

    priced: tuple[Priced, ...]
    hops: tuple[tuple[Hop, float], ...]  # with the time each adds to a request
    account: Account


def by_resource(rows: Iterable[tuple[str, str, float]]) -> np.ndarray:
    """Seconds of (name, resource, seconds) rows added up by resource, in order. [s]"""
    out: list[Any] = [0.0] * len(RESOURCES)
    for _, resource, seconds in rows:
        out[RESOURCES.index(resource)] = out[RESOURCES.index(resource)] + seconds
    return np.array(out)


def hop_terms(hop: Hop) -> tuple[float, float]:
    """`engine.plan.plan.terms` of a hop's messages, with the host's command for each and the time of their way.

    Start [s], rate [B/s].
    """
    start, rate = terms(hop.wire)
    return start + hop.command_s + hop.way_s, rate


def hop_row(hop: Hop) -> tuple[float, ...]:
    """A hop as `engine.cost.figures.HOP` has it. [s], [B]

    What is set up for a message occupies its wire, the way of its first bit does not: the next message may follow.
    """
    setup = hop.command_s + (hop.wire.link.per_transfer.si if hop.wire.link.per_transfer else 0.0)
    commands = hop.command_s if hop.wire.role == "host" else 0.0
    return hop.messages, hop.bytes_per_message, hop.pieces, *hop_terms(hop), hop.hidden, setup, commands


def wire_time(wire: Wire, bytes_per_message: float) -> float:
    """Time of one message: latency of each hop plus its bytes at the usable rate, store and forward ignored. [s]"""
    start, rate = terms(wire)
    return start + bytes_per_message / rate


def together(plan: Plan, fits: Sequence[Sequence[Fit]]) -> list[tuple[Fit, ...]]:
    """Demands on memory of each stage, off the chip those of all stages that lie on the same devices with the first."""
    result: list[tuple[Fit, ...]] = []
    first: dict[tuple[str, str], tuple[int, int]] = {}  # device and level -> stage and place that hold its demand
    for at, (stage, own) in enumerate(zip(plan.stages, fits, strict=True)):
        kept: list[Fit] = []
        for fit in own:
            key = stage.device.id, fit.level
            if not (plan.shared and fit.required and fit.role == "offchip"):
                kept.append(fit)
            elif key in first:
                s, i = first[key]
                known = result[s][i]
                both = known.need_bytes + fit.need_bytes, known.state_bytes + fit.state_bytes
                summed = replace(known, need_bytes=both[0], state_bytes=both[1])
                result[s] = (*result[s][:i], summed, *result[s][i + 1 :])
            else:
                first[key] = at, len(kept)
                kept.append(fit)
        result.append(tuple(kept))
    return result


def price_stage(bound: Bound, stage: Stage) -> Priced:
    """Cost of everything a request asks of one stage."""
    fam = family(stage.device.kind)
    s = bound.scenario
    runs, fits, fixed = [], (), ()
    for phase in bound.graph.phases:
        passes = phase.repeat.at(s.inputs, s.outputs)
        job = job_of(bound, stage, fam, phase)
        if passes <= 0 or not job.ops:
            continue
        cost = fam.price(job)
        if exchanges(stage, fam):
            other, sent = exchange(job)
            shown, spent = (row for row in other if row[2]), link_joules(job, sent)
            cost = replace(
                cost,
                other=(*cost.other, *shown),
                link_bytes=cost.link_bytes + sent,
                beyond_bytes=sent_to_other_nodes(job),
                link_j=spent,
            )
        if not runs:
            fits = fam.place(job)
            fixed = fam.request(job) if fam.request else ()
        runs.append(PhaseRun(job, cost, passes))
    return Priced(stage, fam, tuple(runs), tuple(fixed), tuple(fits))


def layout_of(design: Design, runs: Sequence[tuple[int, int]]) -> Layout:
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
        turns=any(stage.turns for stage in plan.stages),
        beside=tuple(_beside(plan, at) for at in range(len(plan.stages))),
        alike=tuple(hop.alike for hop in plan.hops),
        shares=tuple(hop.shares for hop in plan.hops),
        ways=tuple(plan.stages[stage].ways for stage, _ in runs),
        governed=tuple(_governed(stage) for stage in plan.stages),
        host=tuple(_on_host(design.bound, stage) for stage in plan.stages),
    )


_layout = lru_cache(maxsize=1024)(Layout)  # plans that are laid out alike have the same arrays of facts


def _governed(stage: Stage) -> bool:
    """Whether a governor sets the clock of who runs a stage: of a device, not of a host or of a decoder beside it."""
    return family(stage.device.kind).governs is not None and stage.name not in BESIDE


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


def globals_of(bound: Bound) -> tuple[float, float, float, float]:
    """Units of one input, of what is answered at once (a batch, or a request of more items), streams, batches. [-]"""
    s = bound.scenario
    units = bound.graph.units_per_request.at(s.inputs, s.outputs)
    answered = larger(units * s.batch, 1.0 * s.inputs) if bound.graph.items else units * s.batch
    return units, answered, 1.0 * s.streams, batches_of(bound)


def _charged(layout: Layout, rows: np.ndarray) -> list[float]:
    """Share of each stage's time that a request is charged, as `engine.cost.figures.time_figures` has it. [-]"""
    share, first, beside = np.empty(1), layout.stage_times.start, layout.facts[4][1]
    result = []
    for s in range(len(layout.copies)):
        overlapped(rows, first, layout.hops, beside, s, 1, share)
        result.append(float(share[0]))
    return result


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


def _between(design: Design, stage: int, job: Job, fam: DeviceFamily) -> tuple[list[tuple[str, str, float]], float]:
    """What devices that share a stage exchange in a pass, as `exchange` has it. [s], [B]"""
    return exchange(job) if exchanges(design.plan.stages[stage], fam) else ([], 0.0)


def _watts(stage: int, phase: int, fam: DeviceFamily) -> Callable[[Design], Numbers]:
    """What a device draws in a run beside its floor, by resource, and joules of a pass, where they follow its time."""

    def of(design: Design) -> Numbers:
        job = design.job(stage, phase)
        assert fam.activity is not None
        return fam.activity(job, working_w(design.bound, job.device)), None

    return of


def _compiled(stage: int, phase: int, fam: DeviceFamily) -> Callable[[Design], Numbers]:
    """Seconds by resource of a pass that belong to no operator, joules, sizes and record; tables of the network."""

    def of(design: Design) -> Numbers:
        job, compiled = design.job(stage, phase), fam.compiled
        assert compiled is not None
        between, sent = _between(design, stage, job, fam)
        own = by_resource([*(compiled.other(job) if compiled.other else ()), *between])
        return [*own.tolist(), link_joules(job, sent), *job.sizes, *compiled.record(job)], Tables(compiled.tables(job))

    return of


def _whole(stage: int, phase: int, fam: DeviceFamily) -> Callable[[Design], Numbers]:
    """Seconds by resource of a pass and joules: of operators, then of everything else."""

    def of(design: Design) -> Numbers:
        job = design.job(stage, phase)
        cost = fam.price(job, detail=False)
        totals = sum(cost.seconds, np.zeros(N))
        between, sent = _between(design, stage, job, fam)
        return [*totals.tolist(), 0.0, *by_resource([*cost.other, *between]).tolist(), link_joules(job, sent)], None

    return of


def _detailed(run: PhaseRun, fam: DeviceFamily) -> Callable[[Design], Numbers]:
    """The same of a run whose operators were priced one by one: adds them up in the order of a compiled function."""

    def of(_: Design) -> Numbers:
        cost, drawn = run.cost, run.cost.drawn
        every = np.column_stack([cost.seconds, np.zeros(len(cost.seconds)) if drawn is None else drawn])
        totals = column_sums(every, fam.groups(run.job), run.job.rows)
        return [*totals.tolist(), *by_resource(cost.other).tolist(), cost.link_j], None

    return of


def _once(stage: int, phases: Sequence[int], fam: DeviceFamily) -> Callable[[Design], Numbers]:
    """What a stage pays once a request, by resource."""

    def of(design: Design) -> Numbers:
        job = design.first_job(stage, phases)
        return by_resource(fam.request(job) if job is not None and fam.request else ()), None

    return of


def _hops(design: Design) -> Numbers:
    """Hops in the order of `engine.cost.figures.HOP`, one after the other."""
    return [x for hop in design.plan.hops for x in hop_row(hop)], None


def _globals(design: Design) -> Numbers:
    """The globals, in the order of `engine.cost.figures.GLOBALS`."""
    money, costs = design.account, design.bound.scenario.costs
    known = (math.nan if value is None else value for value in (money.limit_w, money.idle_w, money.price_usd))
    prices = (costs.years, costs.utilisation, costs.pue, costs.energy_usd_per_kwh)
    power, governor = (*money.host, money.cap_w, money.floor_w), money.governor
    return (
        *globals_of(design.bound),
        *known,
        *prices,
        *power,
        governor.lowest,
        governor.slope,
        governor.reach,
    ), None


def demands(design: Design, runs: Sequence[tuple[int, int]]) -> Numbers:
    """Need and capacity of each memory that must hold what all stages keep there, one after the other. [B]"""
    fits: list[Sequence[Fit]] = []
    for at, stage in enumerate(design.plan.stages):
        job = design.first_job(at, [phase for s, phase in runs if s == at])
        fits.append(() if job is None else family(stage.device.kind).place(job))
    required = [fit for own in together(design.plan, fits) for fit in own if fit.required]
    return [x for fit in required for x in (fit.need_bytes, fit.capacity_bytes)], None


def pieces(
    design: Design, layout: Layout, runs: Sequence[tuple[int, int]], costs: Sequence[PhaseRun] = ()
) -> Iterator[Piece]:
    """Everything that a price is put together from, by rows of the layout; ``costs`` where operators are priced."""
    families = [family(stage.device.kind) for stage in design.plan.stages]
    for i, (s, p) in enumerate(runs):
        own, others = range(M * i, M * i + M), range(layout.others + M * i, layout.others + M * i + M)
        yield Piece([layout.passes + i], lambda design, p=p: ([design.passes(p)], None))
        if families[s].activity:
            yield Piece(range(layout.watts + M * i, layout.watts + M * i + M), _watts(s, p, families[s]))
        if costs:
            yield Piece([*own, *others], _detailed(costs[i], families[s]))
        elif families[s].compiled is None:
            yield Piece([*own, *others], _whole(s, p, families[s]))
        else:
            yield Piece(others, _compiled(s, p, families[s]), i)
    for s, fam in enumerate(families):
        yield Piece(range(*layout.fixed_of(s).indices(layout.rows)), _once(s, [p for at, p in runs if at == s], fam))
    yield Piece(range(layout.hops, layout.globals), _hops)
    yield Piece(range(layout.globals, layout.globals + len(GLOBALS)), _globals)


def _added_up(job: Job, numbers: Sequence[Any], tables: Tables, out: np.ndarray) -> None:
    """Adds a compiled function's seconds by resource and joules of all operators to ``out`` (M, n)."""
    fam, n = family(job.device.kind), out.shape[1]
    assert fam.compiled is not None
    sizes = np.empty((SIZES, n))
    for row, value in enumerate(numbers[:SIZES]):
        sizes[row] = value if type(value) is float else value.ravel()
    record = numbers[SIZES:]
    many = [at for at, value in enumerate(record) if type(value) is not float]
    values = np.array([record[at].ravel() for at in many]).reshape(len(many), n)
    fields = np.array(many, dtype=np.int64)
    first = np.array([value if type(value) is float else value.flat[0] for value in record])
    for group in fam.groups(job):
        part = np.zeros(out.shape)
        fam.compiled.points(
            0, n, group.rows, group.times, *tables.arrays, float(job.ways), sizes, (first, fields, values), part
        )
        out += part


def figures_of(bound: Bound, plan: Plan) -> Figures:
    """A plan priced without detail."""
    design = Design(bound, plan)
    return Figures(*_figures(design, 1, runs_of(design)))


def _figures(design: Design, n: int, runs: Sequence[tuple[int, int]], costs: Sequence[PhaseRun] = ()) -> Any:
    """The layout of a design and its rows, a column each of ``n`` designs."""
    layout = layout_of(design, runs)
    rows = np.zeros((layout.rows, n))
    for piece in pieces(design, layout, runs, costs):
        found, tables = piece.of(design)
        numbers = arrays_of(found)
        for row, value in zip(piece.rows, numbers, strict=False):
            rows[row] = value if type(value) is float else value.ravel()
        if piece.run is not None:
            total = rows[M * piece.run : M * piece.run + M]
            _added_up(design.job(*runs[piece.run]), numbers[len(piece.rows) :], tables, total)
    time_figures(rows, n, *layout.facts)
    money_figures(rows, n, layout.facts[1])
    return layout, rows


def paces(bound: Bound, plans: Sequence[Plan]) -> list[tuple[bool, float, float]]:
    """Of plans that differ in their tiles alone: whether each lacks room, its interval and its latency. [-], [s]"""
    n = len(plans)
    design = Design(bound, tiles_as_columns(plans, (n,)))
    try:
        runs = runs_of(design)
        layout, rows = _figures(design, n, runs)
        needs = np.array([np.broadcast_to(np.ravel(x), n) for x in arrays_of(demands(design, runs)[0])])
    except NotAlike:
        return [pace for plan in plans for pace in paces(bound, [plan])]
    needs = needs.reshape(-1, 2, n)
    lacks = np.any(~(needs[:, 0] <= needs[:, 1]), axis=0).tolist()
    interval, latency = rows[layout.metrics + INTERVAL], rows[layout.metrics + LATENCY]
    return [(lacks[i], float(interval[i]), float(latency[i])) for i in range(n)]


def tiles_as_columns(plans: Sequence[Plan], shape: tuple[int, ...]) -> Plan:
    """Plans that differ in their tiles alone as one, whose tiles are columns of that shape."""
    if len(plans) == 1:
        return plans[0]
    stages = []
    for at, stage in enumerate(plans[0].stages):
        knobs = zip(*(plan.stages[at].tile for plan in plans), strict=True)
        stages.append(replace(stage, tile=tuple(Column(np.reshape(knob, shape)) for knob in knobs)))
    return replace(plans[0], stages=tuple(stages))


def assemble(bound: Bound, plan: Plan) -> Schedule:
    """A plan priced in detail: stages one after the other, hops between them, the pace of the slowest, and money."""
    design = Design(bound, plan)
    each = [price_stage(bound, stage) for stage in plan.stages]
    fits = together(plan, [stage.fits for stage in each])
    priced = Figures(*_figures(design, 1, runs_of(design), [run for stage in each for run in stage.runs]))
    runs = iter(range(priced.layout.runs))
    clocked = [tuple(_slowed(run, *priced.at_clock(next(runs))) for run in stage.runs) for stage in each]
    details = zip(each, clocked, fits, priced.stage_s, _charged(priced.layout, priced.rows), strict=True)
    return Schedule(
        priced.layout,
        priced.rows,
        tuple(replace(stage, runs=own, fits=f, time_s=t, charged=share) for stage, own, f, t, share in details),
        tuple(zip(plan.hops, priced.hop_s, strict=True)),
        design.account,
    )


def _slowed(run: PhaseRun, factors: np.ndarray, squared: float) -> PhaseRun:
    """A run at the clock that its governor leaves."""
    if squared == 1.0 and (factors == 1.0).all():
        return run
    joules = {part: spent * squared for part, spent in run.cost.joules.items()}
    return replace(run, cost=replace(run.cost, seconds=run.cost.seconds * factors, joules=joules))
