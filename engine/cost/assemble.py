"""Puts a price together: phases, stages, wires, power and money of a scenario's designs. Estimates, as their parts are.

Everybody prices here. `assemble` takes one design and keeps the detail of its operators, `plan_keys` takes the options
of a plan as columns, `engine.cost.columns` batches and lengths, and a sweep takes the same pieces
(`engine.cost.pieces`), each over the axes that it depends on (`engine.sweep.pricing.tables`). A number of a design is a
double or a `Column` of many.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from engine.cost import layout as number
from engine.cost.exchanges import exchange, exchanges, link_joules
from engine.cost.figures import money_figures, time_figures, voltage
from engine.cost.layout import METRICS, Layout, M, N
from engine.cost.pieces import Design, PhaseRun, Tables, demands, layout_of, pieces, runs_of, together
from engine.cost.power_and_price import Account
from engine.devices import family
from engine.devices.common.column import Column, NotAlike, arrays_of
from engine.devices.common.contract import RESOURCES, DeviceFamily, Fit
from engine.devices.common.counts import SIZES
from engine.devices.common.job import Job
from engine.kernels.jit import body_of, for_points
from engine.plan.plan import terms
from engine.plan.schemes import Hop, Plan, Stage
from engine.resolve.bound import Bound, Wire


@dataclass(frozen=True)
class StageCost:
    """A stage with the cost of everything a request asks of it."""

    stage: Stage
    family: DeviceFamily
    runs: tuple[PhaseRun, ...]
    fixed: tuple[tuple[str, str, float], ...]  # once a request
    fits: tuple[Fit, ...]
    time_s: float = 0.0  # within one request, set when the plan is settled
    charge: float = 1.0  # share of it that a request is charged: less where another stage goes on beside it


@dataclass(frozen=True)
class Figures:
    """Figures of a priced plan, without the detail of its operators. Estimates, SI."""

    layout: Layout
    rows: np.ndarray  # of `layout`, one column

    def figure(self, name: str) -> float | None:
        """A figure of `METRICS`; None where it does not apply or rests on something unpublished. [SI]"""
        return self.figures[name]

    @cached_property
    def figures(self) -> dict[str, float | None]:
        """Every figure by its name, likewise. [SI]"""
        where = self.layout.where
        values = self.rows[where.metrics : where.rows, 0].tolist()
        return {name: None if math.isnan(value) else value for name, value in zip(METRICS, values, strict=True)}

    @cached_property
    def breakdown(self) -> dict[str, float]:
        """Time of a request by resource. [s]"""
        return {name: self.figures[f"{name}_s"] or 0.0 for name in RESOURCES}

    @property
    def bound_by(self) -> str:
        """The resource that most of the time is spent on, of `RESOURCES`."""
        return max(self.breakdown, key=lambda name: self.breakdown[name])

    @property
    def latency_s(self) -> float:
        """Time of a request. [s]"""
        return self._number(self.layout.where.metrics + number.LATENCY)

    @property
    def interval_s(self) -> float:
        """Time between two requests of one stream of one replica. [s]"""
        return self._number(self.layout.where.metrics + number.INTERVAL)

    @property
    def batches(self) -> float:
        """Batches of a request. [-]"""
        return self.global_of(number.BATCHES)

    @property
    def units(self) -> float:
        """Units of work that are answered at once: of a batch, or of a request of more items. [-]"""
        return self.global_of(number.UNITS_REQUEST)

    @property
    def units_per_s(self) -> float:
        """Units of work a second, all replicas and streams together. [1/s]"""
        return self._number(self.layout.where.metrics + number.RATE)

    @property
    def requests_per_s(self) -> float:
        """Requests per second, all replicas and streams together. [1/s]"""
        return self.layout.replicas * self.global_of(number.STREAMS) / self.interval_s

    def part(self, name: str) -> list[float]:
        """Numbers of all stages, hops or wires, by where they begin in `Places`, in their order.

        Of each stage ``stage_s``, its time within a request [s], ``stage_j``, what its devices draw within one beside
        what they draw anyway [J], and ``charge``, the share of its time that a request is charged [-]; ``hop_s``, what
        each hop adds to a request, and ``wire_s``, for which a request occupies each wire of `Layout.wire_of` [s].
        """
        where = self.layout.where
        begin = where._fields.index(name)
        return self.rows[where[begin] : where[begin + 1], 0].tolist()

    @property
    def other_s(self) -> list[float]:
        """Time of each run's passes that belongs to no operator. [s]"""
        runs, passes = range(self.layout.runs), self.layout.where.passes
        return [float(self._parts(i)[1, :N].sum()) * self._number(passes + i) for i in runs]

    def usd_per_million_at(self, utilisation: float, saved_usd: float = 0.0) -> float | None:
        """What a million units of work cost at another utilisation [-] and a price that is less by so much [USD].

        None without a price or a power. [USD]
        """
        where, rows = self.layout.where, self.rows.copy()
        rows[where.globals + number.UTILISATION] = utilisation
        rows[where.globals + number.PRICE] -= saved_usd
        for_points(money_figures)(rows, 1, where)
        return Figures(self.layout, rows).figure("usd_per_million")

    def global_of(self, index: int) -> float:
        """A number of the globals of `engine.cost.layout`: counts and shares [-], [W], [USD]."""
        return self._number(self.layout.where.globals + index)

    def draw(self, name: str) -> float:
        """A number of `engine.cost.layout.DRAWN`: a share of a clock [-], or what a request takes [J], [s]."""
        return self._number(self.layout.where.draws + number.DRAWN.index(name))

    def at_clock(self, run: int) -> tuple[np.ndarray, float]:
        """Factors of a run's seconds by resource and of its joules, at the clock that its governor leaves. [-]"""
        factors = np.ones(N)
        if not self.layout.governed[self.layout.stage_of[run]]:
            return factors, 1.0
        clock = self.draw("clock")
        factors[list(number.CLOCKED)] = 1.0 / clock
        return factors, body_of(voltage)(*map(self.global_of, (number.SLOPE, number.REACH, number.LOWEST)), clock) ** 2

    def run_cost(self, run: int) -> tuple[float, float]:
        """Seconds and joules of a run in a request, all passes, joules of all devices that share it. [s], [J]"""
        ops, extra, watts = self._parts(run)
        factors, energy_scale = self.at_clock(run)
        seconds, passes = (ops + extra)[:N] * factors, self._number(self.layout.where.passes + run)
        joules = float((ops[N] + extra[N] + watts[N]) * energy_scale + watts[:N] @ seconds)
        return float(seconds.sum()) * passes, joules * passes * self.layout.ways[run]

    def _number(self, at: int) -> float:
        return float(self.rows[at, 0])

    def _parts(self, run: int) -> np.ndarray:
        """Of a run by resource, then joules: (3, M) of operators [s], of no operator [s], beside the floor [W]."""
        return self.rows[: self.layout.where.passes, 0].reshape(3, -1, M)[:, run]


@dataclass(frozen=True)
class Schedule(Figures):
    """Latency of a request, the rate at which requests finish, both without queueing, and what they draw and cost."""

    bound: Bound
    plan: Plan
    priced: tuple[StageCost, ...]
    hops: tuple[tuple[Hop, float], ...]  # with the time each adds to a request
    account: Account


def wire_time(wire: Wire, bytes_per_message: float) -> float:
    """Time of one message: latency of each hop plus its bytes at the usable rate, store and forward ignored. [s]"""
    start, rate = terms(wire)
    return start + bytes_per_message / rate


def wire_busy(wire: Wire, bytes_per_message: float) -> float:
    """Time in which a link carries one message and no other: its start and its bytes at the usable rate. [s]"""
    start = wire.link.per_transfer.si if wire.link.per_transfer else 0.0
    return start + bytes_per_message / wire.link.usable


def price_stage(design: Design, at: int, phases: Sequence[int]) -> StageCost:
    """Cost of everything a request asks of one stage, of the phases that have operators and passes there."""
    stage, jobs = design.plan.stages[at], [design.job(at, phase) for phase in phases]
    fam, runs = family(stage.device.kind), []
    for job, phase in zip(jobs, phases, strict=True):
        cost = fam.price(job)
        if exchanges(stage, fam):
            rows, bytes_sent, beyond = exchange(stage, job)
            cost = replace(
                cost,
                overheads=(*cost.overheads, *(row for row in rows if row[2])),
                link_bytes=cost.link_bytes + bytes_sent,
                beyond_bytes=beyond,
                link_j=link_joules(job, bytes_sent),
            )
        runs.append(PhaseRun(job, cost, design.passes(phase)))
    fixed = fam.request(jobs[0]) if jobs and fam.request else ()
    return StageCost(stage, fam, tuple(runs), tuple(fixed), tuple(fam.place(jobs[0])) if jobs else ())


def add_up(job: Job, numbers: Sequence[Any], tables: Tables, out: np.ndarray) -> None:
    """Adds a compiled function's seconds by resource and joules of all operators to ``out`` (M, n)."""
    fam, n = family(job.device.kind), out.shape[1]
    assert fam.compiled is not None
    sizes = np.empty((SIZES, n))
    for row, value in enumerate(numbers[:SIZES]):
        sizes[row] = value if type(value) is float else value.ravel()
    record = numbers[SIZES:]
    columns = [at for at, value in enumerate(record) if type(value) is not float]
    values = np.array([record[at].ravel() for at in columns]).reshape(len(columns), n)
    fields = np.array(columns, dtype=np.int64)
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
    return Figures(*rows_of(design, 1, runs_of(design)))


def figures_where_it_fits(bound: Bound, plan: Plan) -> Figures | None:
    """The same; None where a memory of its devices lacks room for what it must hold."""
    design = Design(bound, plan)
    runs = runs_of(design)
    return None if lacks_room(design, runs, 1)[0] else Figures(*rows_of(design, 1, runs))


def rows_of(design: Design, n: int, runs: Sequence[tuple[int, int]], costs: Sequence[PhaseRun] = ()) -> Any:
    """The layout of a design and its rows, a column each of ``n`` designs."""
    layout = layout_of(design, runs)
    rows = np.zeros((layout.where.rows, n))
    for piece in pieces(design, layout, runs, costs):
        values, tables = piece.of(design)
        numbers = arrays_of(values)
        for row, value in zip(piece.rows, numbers, strict=False):
            rows[row] = value if type(value) is float else value.ravel()
        if piece.run is not None:
            total = rows[M * piece.run : M * piece.run + M]
            add_up(design.job(*runs[piece.run]), numbers[len(piece.rows) :], tables, total)
    for_points(time_figures, n)(rows, n, *layout.facts)
    for_points(money_figures, n)(rows, n, layout.where)
    return layout, rows


def plan_keys(bound: Bound, plans: Sequence[Plan]) -> list[tuple[bool, float, float]]:
    """Of plans that differ in their tiles alone: whether each lacks room, its interval and its latency. [-], [s]"""
    n = len(plans)
    design = Design(bound, tiles_as_columns(plans, (n,)))
    try:
        runs = runs_of(design)
        layout, rows = rows_of(design, n, runs)
        lacks = lacks_room(design, runs, n).tolist()
    except NotAlike:
        return [key for plan in plans for key in plan_keys(bound, [plan])]
    interval, latency = rows[layout.where.metrics + number.INTERVAL], rows[layout.where.metrics + number.LATENCY]
    return list(zip(lacks, interval.tolist(), latency.tolist(), strict=True))


def lacks_room(design: Design, runs: Sequence[tuple[int, int]], n: int) -> np.ndarray:
    """Whether a memory lacks room for what it must hold, of each of ``n`` designs."""
    needs = np.array([np.broadcast_to(np.ravel(x), n) for x in arrays_of(demands(design, runs)[0])]).reshape(-1, 2, n)
    return np.any(~(needs[:, 0] <= needs[:, 1]), axis=0)


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
    pairs = runs_of(design)
    costs = [price_stage(design, at, [phase for s, phase in pairs if s == at]) for at in range(len(plan.stages))]
    fits = together(plan, [stage.fits for stage in costs])
    figures = Figures(*rows_of(design, 1, pairs, [run for stage in costs for run in stage.runs]))
    index = iter(range(figures.layout.runs))
    slower = [tuple(_at_clock(run, *figures.at_clock(next(index))) for run in stage.runs) for stage in costs]
    details = zip(costs, slower, fits, figures.part("stage_s"), figures.part("charge"), strict=True)
    return Schedule(
        figures.layout,
        figures.rows,
        bound,
        plan,
        tuple(replace(stage, runs=runs, fits=f, time_s=t, charge=share) for stage, runs, f, t, share in details),
        tuple(zip(plan.hops, figures.part("hop_s"), strict=True)),
        design.account,
    )


def _at_clock(run: PhaseRun, factors: np.ndarray, energy_scale: float) -> PhaseRun:
    """A run at the clock that its governor leaves."""
    if energy_scale == 1.0 and (factors == 1.0).all():
        return run
    joules = {part: energy * energy_scale for part, energy in run.cost.joules.items()}
    return replace(run, cost=replace(run.cost, seconds=run.cost.seconds * factors, joules=joules))
