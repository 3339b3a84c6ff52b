"""Plan -> times: what each stage takes a request, what the wires add, and how often a request can start. Estimates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from engine.cost.figures import (
    BATCHES,
    INTERVAL,
    LATENCY,
    METRICS,
    RATE,
    Layout,
    M,
    column_sums,
    time_figures,
)
from engine.devices import family
from engine.devices.common.collective import OPS, collective_time, link_form, sent_beyond
from engine.devices.common.column import larger
from engine.devices.common.contract import RESOURCES, DeviceFamily, Fit, Job, PhaseCost
from engine.devices.common.counts import records
from engine.plan.jobs import job_of
from engine.plan.plan import terms
from engine.plan.schemes import Hop, Plan, Stage
from engine.resolve.bind import Bound, Wire
from engine.scenario.formats import activation_bytes
from model_zoo.ops import Op


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
class Schedule:
    """Latency of a request and the rate at which requests finish, both without queueing."""

    priced: tuple[Priced, ...]
    hops: tuple[tuple[Hop, float], ...]  # with the time each adds to a request
    layout: Layout
    rows: np.ndarray  # of `layout`, one column; `account` fills in power and price

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
    def units_per_s(self) -> float:
        """Units of work a second, all replicas and streams together. [1/s]"""
        return float(self.rows[self.layout.metrics + RATE, 0])


def by_resource(rows: Iterable[tuple[str, str, float]]) -> np.ndarray:
    """Seconds of (name, resource, seconds) rows added up by resource, in order. [s]"""
    out: list[Any] = [0.0] * len(RESOURCES)
    for _, resource, seconds in rows:
        out[RESOURCES.index(resource)] = out[RESOURCES.index(resource)] + seconds
    return np.array(out)


def _columns(rows: Iterable[Iterable[tuple[str, str, float]]]) -> np.ndarray:
    """`by_resource` of each, (6, n). [s]"""
    return np.array([by_resource(one) for one in rows]).T


def hop_terms(hop: Hop) -> tuple[float, float]:
    """`engine.plan.plan.terms` of a hop's messages, the host's command for each included. Start [s], rate [B/s]."""
    start, rate = terms(hop.wire)
    return start + hop.command_s, rate


def hop_row(hop: Hop) -> tuple[float, ...]:
    """A hop as `engine.cost.figures.HOP` has it. [s], [B]"""
    return hop.messages, hop.bytes_per_message, hop.pieces, *hop_terms(hop), hop.hidden


def wire_time(wire: Wire, bytes_per_message: float) -> float:
    """Time of one message: latency of each hop plus its bytes at the usable rate, store and forward ignored. [s]"""
    start, rate = terms(wire)
    return start + bytes_per_message / rate


@dataclass(frozen=True)
class Collective:
    """An exchange of a sharded pass: what, how often, and over how many bytes, as nccl-tests counts them."""

    name: str
    kind: str  # of `engine.devices.common.collective.OPS`
    count: float
    size: float


def collectives(job: Job) -> list[Collective]:
    """Exchanges of a sharded pass: Megatron's pattern.

    An op split along K leaves partial sums: all-reduce of its output. What only a sum reads is added up first, experts
    and the shared one together, and exchanged once. An op split along N whose reader is not split needs all-gather.
    """
    readers: dict[str, list[Op]] = {}
    for op in job.ops:
        for name in op.inputs:
            readers.setdefault(name, []).append(op)
    needed = []
    fam = family(job.device.kind)
    width = activation_bytes(fam.exchanged(job.device, job.format) if fam.exchanged else job.format)
    at = (job.batch, job.length, job.context)
    summed: set[str] = set()
    for op in job.ops:
        name, size = op.name, op.writes.at(*at) * width
        count = op.layers * op.steps.at(*at)
        if op.shard == "k":
            after, *others = readers.get(op.name, [op])
            if after.kind == "ReduceSum" and not others:
                if after.name in summed:
                    continue
                summed.add(after.name)
                name, size = after.name, after.writes.at(*at) * width
            needed.append(Collective(f"all-reduce after {name}", "all_reduce", count, size))
        elif op.shard == "n" and any(r.shard == "none" for r in readers.get(op.name, [])):
            needed.append(Collective(f"all-gather after {op.name}", "all_gather", count, size))
    return needed


def exchange(job: Job) -> tuple[list[tuple[str, str, float]], float]:
    """What the collectives of a sharded pass take, as (name, resource, seconds), and the bytes a device sends.

    Where a host issues calls one by one, a collective lasts the longer of its call and its way over the wire. [s]
    and [B].
    """
    fam, other, sent = family(job.device.kind), [], 0.0
    issue = fam.issue(job) if fam.issue else 0.0
    for each in collectives(job):
        form = fam.wired(job, each.kind) if fam.wired else link_form(job)
        seconds, bytes_sent = collective_time(OPS[each.kind], job.ways, each.size, form)
        other.append((each.name, "links", each.count * seconds))
        if issue:
            other.append((f"issuing {each.name}", "host", each.count * larger(issue - seconds, 0.0)))
        sent += each.count * bytes_sent
    return other, sent


def _sent_beyond(job: Job) -> float:
    """Bytes of a pass that a device sends to those of other nodes. [B]"""
    return sum(c.count * sent_beyond(OPS[c.kind], job.ways, c.size, job.link_joins) for c in collectives(job))


def link_joules(job: Job, sent: float) -> float:
    """Energy of bytes that a device sends to its peers, where its family's power follows from its work. [J]"""
    return sent * job.model.get("wire_byte_j", 0.0)


def exchanges(stage: Stage, fam: DeviceFamily) -> bool:
    """Whether devices that share a stage's operators exchange results over a wire that their family does not time."""
    return stage.wire is not None and stage.ways > 1 and fam.collectives


def _brief(fam: DeviceFamily, jobs: Sequence[Job]) -> tuple[np.ndarray, list[Sequence[tuple[str, str, float]]]]:
    """Seconds by resource of a pass of jobs that differ in their tiles alone, (6, n), and those of no operator. [s]"""
    compiled, first = fam.compiled, jobs[0]
    if compiled is None:
        costs = [fam.times(job) for job in jobs]
        sums = [column_sums(seconds, fam.groups(job), job.rows) for job, (seconds, _) in zip(jobs, costs, strict=True)]
        return np.array(sums).T, [other for _, other in costs]
    out = np.zeros((len(RESOURCES), len(jobs)))
    sizes = np.repeat(np.array([first.sizes], dtype=np.float64).T, len(jobs), axis=1)
    record = records([compiled.record(job) for job in jobs])
    for group in fam.groups(first):
        part = np.zeros(out.shape)
        tables = compiled.tables(first)
        compiled.points(0, len(jobs), group.rows, group.times, *tables, float(first.ways), sizes, record, part)
        out += part
    return out, [compiled.other(job) if compiled.other else () for job in jobs]


def paces(bound: Bound, plans: Sequence[Plan]) -> list[tuple[bool, float, float]]:
    """Of plans that differ in their tiles alone: whether each lacks room, its interval and its latency. [-], [s]"""
    s, plan, n = bound.scenario, plans[0], len(plans)
    runs, fixed = [], np.zeros((len(plan.stages), len(RESOURCES), n))
    fits: list[list[tuple[Fit, ...]]] = [[()] * len(plan.stages) for _ in plans]
    for at, stage in enumerate(plan.stages):
        fam, begun = family(stage.device.kind), len(runs)
        for phase in bound.graph.phases:
            passes, job = phase.repeat.at(s.inputs, s.outputs), job_of(bound, stage, fam, phase)
            if passes <= 0 or not job.ops:
                continue
            jobs = [replace(job, tile=one.stages[at].tile or job.tile) for one in plans]
            seconds, other = _brief(fam, jobs)
            if exchanges(stage, fam):
                other = [(*own, *exchange(one)[0]) for own, one in zip(other, jobs, strict=True)]
            if len(runs) == begun:
                for held, one in zip(fits, jobs, strict=True):
                    held[at] = fam.place(one)
                fixed[at] = _columns(fam.request(one) if fam.request else () for one in jobs)
            runs.append((at, phase.repeat.o, passes, seconds, _columns(other)))
    layout = layout_of(bound, plan, [run[:2] for run in runs])
    rows = np.zeros((layout.rows, n))
    for i, run in enumerate(runs):
        rows[layout.passes + i], rows[layout.seconds_of(i)], rows[layout.others_of(i)] = run[2:]
    for at in range(len(plan.stages)):
        rows[layout.fixed_of(at)] = fixed[at]
    _around(bound, plan, layout, rows)
    time_figures(rows, n, *layout.facts)
    pair = rows[[layout.metrics + INTERVAL, layout.metrics + LATENCY]]
    lacks = [any(fit.lacks for own in together(plan, held) for fit in own) for held in fits]
    return [(short, *pace) for short, pace in zip(lacks, pair.T.tolist(), strict=True)]


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
                beyond_bytes=_sent_beyond(job),
                link_j=spent,
            )
        if not runs:
            fits = fam.place(job)
            fixed = fam.request(job) if fam.request else ()
        runs.append(PhaseRun(job, cost, passes))
    return Priced(stage, fam, tuple(runs), tuple(fixed), tuple(fits))


def layout_of(bound: Bound, plan: Plan, runs: Sequence[tuple[int, float]]) -> Layout:
    """Rows of a plan whose runs are given as (number of the stage, passes for a unit of output; 0: it makes none)."""
    ways = list(dict.fromkeys((hop.wire.role, hop.way) for hop in plan.hops))
    return _layout(
        stage_of=tuple(stage for stage, _ in runs),
        decode=tuple(decode for _, decode in runs),
        copies=tuple(stage.copies for stage in plan.stages),
        wire_of=tuple(ways.index((hop.wire.role, hop.way)) for hop in plan.hops),
        pipelined=plan.pipelined,
        causal=bound.graph.causal,
        replicas=plan.replicas,
        turns=any(stage.turns for stage in plan.stages),
        beside=tuple(_beside(plan, at) for at in range(len(plan.stages))),
        alike=tuple(hop.alike for hop in plan.hops),
        shares=tuple(hop.shares for hop in plan.hops),
        ways=tuple(plan.stages[stage].ways for stage, _ in runs),
    )


_layout = lru_cache(maxsize=1024)(Layout)  # plans that are laid out alike have the same arrays of facts


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


def _around(bound: Bound, plan: Plan, layout: Layout, rows: np.ndarray) -> None:
    """Fills the rows of a plan's hops and the first globals."""
    hops = [x for hop in plan.hops for x in hop_row(hop)]  # the globals come behind them
    rows[layout.hops : layout.globals + 4] = np.array([*hops, *globals_of(bound)])[:, None]


def _charged(plan: Plan, stage_s: Sequence[float]) -> list[float]:
    """Share of each stage's time that a request is charged, as `engine.cost.figures.time_figures` has it. [-]"""
    result = [1.0] * len(stage_s)
    for at in range(len(plan.stages)):
        hop = _beside(plan, at)
        pieces = plan.hops[hop - 1].pieces if hop > 0 else math.inf
        for one, other in ((at - 1, at), (at, at - 1)) if hop else ():
            both = 0.5 * min(stage_s[one], stage_s[other]) * (1.0 - 1.0 / pieces)
            result[one] = 1.0 - both / stage_s[one] if stage_s[one] > 0.0 else 0.0
    return result


def schedule(bound: Bound, plan: Plan) -> Schedule:
    """Times of a plan: stages one after the other, hops between them, and the pace of the slowest."""
    each = [price_stage(bound, stage) for stage in plan.stages]
    held = together(plan, [one.fits for one in each])
    priced = tuple(replace(one, fits=fits) for one, fits in zip(each, held, strict=True))
    runs = [(s, run) for s, stage in enumerate(priced) for run in stage.runs]
    layout = layout_of(bound, plan, [(s, run.job.phase.repeat.o) for s, run in runs])
    rows = np.zeros((layout.rows, 1))
    for i, (_, run) in enumerate(runs):
        drawn, groups = run.cost.drawn, priced[layout.stage_of[i]].family.groups(run.job)
        every = np.column_stack([run.cost.seconds, np.zeros(len(run.cost.seconds)) if drawn is None else drawn])
        rows[M * i : M * i + M, 0] = column_sums(every, groups, run.job.rows)
        rows[layout.others_of(i).stop, 0] = run.cost.link_j
        rows[layout.others_of(i), 0] = by_resource(run.cost.other)
        rows[layout.passes + i, 0] = run.passes
    for s, stage in enumerate(priced):
        rows[layout.fixed_of(s), 0] = by_resource(stage.fixed)
    _around(bound, plan, layout, rows)
    time_figures(rows, 1, *layout.facts)
    stage_s, hop_s = rows[layout.stage_times, 0], rows[layout.hop_times, 0]
    charged = _charged(plan, stage_s.tolist())
    return Schedule(
        tuple(replace(p, time_s=float(t), charged=c) for p, t, c in zip(priced, stage_s, charged, strict=True)),
        tuple((hop, float(t)) for hop, t in zip(plan.hops, hop_s, strict=True)),
        layout,
        rows,
    )
