"""Plan -> times: what each stage takes a request, what the wires add, and how often a request can start. Estimates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.cost.figures import (
    INTERVAL,
    LATENCY,
    METRICS,
    RATE,
    Layout,
    column_sums,
    time_figures,
)
from engine.devices import family
from engine.devices.common.column import exceeds, larger, largest, smaller
from engine.devices.common.contract import RESOURCES, DeviceFamily, Fit, Job, PhaseCost
from engine.plan.plan import compiled_length, terms, usable
from engine.plan.schemes import Hop, Plan, Stage
from engine.resolve.bind import Bound, Wire
from engine.scenario.formats import activation_bytes
from model_zoo.ops import Op, Phase

__all__ = [
    "Collective",
    "PhaseRun",
    "Priced",
    "Schedule",
    "by_resource",
    "collectives",
    "exchange",
    "exchange_wire",
    "globals_of",
    "hop_row",
    "hop_terms",
    "job_of",
    "layout_of",
    "price_stage",
    "schedule",
    "wire_time",
]


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
    def units_per_s(self) -> float:
        """Units of work a second, all replicas and streams together. [1/s]"""
        return float(self.rows[self.layout.metrics + RATE, 0])


def by_resource(rows: Iterable[tuple[str, str, float]]) -> np.ndarray:
    """Seconds of (name, resource, seconds) rows added up by resource, in order. [s]"""
    out: list[Any] = [0.0] * len(RESOURCES)
    for _, resource, seconds in rows:
        out[RESOURCES.index(resource)] = out[RESOURCES.index(resource)] + seconds
    return np.array(out)


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
    """An exchange of a sharded pass: how often, and bytes sent a device and steps of each of two ways to do it."""

    name: str
    count: float
    ways: tuple[tuple[float, float], tuple[float, float]]  # (bytes, steps); the faster one is taken


def collectives(job: Job, wire: Wire) -> list[Collective]:
    """Exchanges of a sharded pass: Megatron's pattern.

    An op split along K leaves partial sums: all-reduce of its output, a reduce-scatter and an all-gather. What only a
    sum reads is added up first, experts and the shared one together, and exchanged once. An op split along N whose
    reader is not split needs all-gather. Round a ring each takes a step less than there are devices; where every pair
    has a way of its own, one, and a short all-reduce needs no second: every device sends all it has to all others, and
    each adds up for itself.
    """
    readers: dict[str, list[Op]] = {}
    for op in job.ops:
        for name in op.inputs:
            readers.setdefault(name, []).append(op)
    found = []
    fam = family(job.device.kind)
    width = activation_bytes(fam.exchanged(job.device, job.format) if fam.exchanged else job.format)
    ways, at = job.ways, (job.batch, job.length, job.context)
    around = 1.0 if wire.direct else ways - 1.0
    summed: set[str] = set()
    for op in job.ops:
        size = op.writes.at(*at) * width
        count = op.layers * op.steps.at(*at)
        if op.shard == "k":
            after, *others = readers.get(op.name, [op])
            if after.kind == "ReduceSum" and not others:
                if after.name in summed:
                    continue
                summed.add(after.name)
                op, size = after, after.writes.at(*at) * width  # noqa: PLW2901
            scattered = (2 * (ways - 1) / ways * size, 2.0 * around)
            at_once = ((ways - 1) * size, 1.0) if wire.direct else scattered
            found.append(Collective(f"all-reduce after {op.name}", count, (scattered, at_once)))
        elif op.shard == "n" and any(r.shard == "none" for r in readers.get(op.name, [])):
            gathered = ((ways - 1) / ways * size, around)
            found.append(Collective(f"all-gather after {op.name}", count, (gathered, gathered)))
    return found


def exchange(job: Job, wire: Wire) -> tuple[list[tuple[str, str, float]], float]:
    """What the collectives of a sharded pass take, as (name, resource, seconds), and the bytes a device sends.

    Where a host issues calls one by one, a collective lasts the longer of its call and its way over the wire. [s]
    and [B].
    """
    fam, other, sent = family(job.device.kind), [], 0.0
    rate, latency = usable(wire), wire.link.latency.si * wire.hops
    start = job.model.get("collective_latency", 0.0)
    issue = fam.issue(job) if fam.issue else 0.0
    for each in collectives(job, wire):
        (ring, ring_steps), (once, once_steps) = each.ways
        one, two = start + (ring / rate + ring_steps * latency), start + (once / rate + once_steps * latency)
        slow, seconds = exceeds(one, two), smaller(one, two)
        other.append((each.name, "links", each.count * seconds))
        if issue:
            other.append((f"issuing {each.name}", "host", each.count * larger(issue - seconds, 0.0)))
        sent += each.count * ((1.0 - slow) * ring + slow * once)
    return other, sent


def job_of(bound: Bound, stage: Stage, fam: DeviceFamily, phase: Phase) -> Job:
    """What a stage's device is asked to run of a phase."""
    s = bound.scenario
    everything = len(stage.ops) == sum(1 for _ in phase.ops) or all(op.name in stage.ops for op in phase.ops)
    model = {k: v for k, v in bound.model.items() if any(p.name == k for p in fam.parameters)}
    switches = {sw.name: s.switches.get(sw.name, sw.default) for sw in fam.switches}
    for path, priced in fam.fields.items():
        if priced.sets is not None and (value := getattr(s, path)) is not None:
            setting = priced.sets(value)
            switches, model = switches | dict(setting.switches), dict(setting.parameters) | model
    inputs = compiled_length(bound)
    longest = largest(
        p.context.at(inputs, s.outputs) + (p.repeat.at(s.inputs, s.outputs) / 2 if p.repeat.o else 0)
        for p in bound.graph.phases
    )
    return Job(
        device=stage.device,
        phase=phase,
        ops=phase.ops if everything else tuple(op for op in phase.ops if op.name in stage.ops),
        graph=bound.graph,
        batch=s.batch,
        length=phase.length.at(inputs, s.outputs),
        context=phase.context.at(inputs, s.outputs),
        max_context=longest,
        ways=stage.ways,
        streams=s.streams,
        format=stage.format,
        tile=stage.tile or (s.tile if stage.device.kind == bound.device.kind else ()),  # knobs of the first family
        switches=switches,
        model=fam.model(stage.device, model),
        link=stage.wire.link if stage.wire else None,
        link_hops=stage.wire.hops if stage.wire else 1,
    )


def exchange_wire(stage: Stage, fam: DeviceFamily) -> Wire | None:
    """The wire on which devices that share a stage's operators exchange results, unless the family times that."""
    return stage.wire if stage.ways > 1 and fam.collectives else None


def _brief(fam: DeviceFamily, job: Job) -> PhaseCost:
    """Times of a pass without its detail: one row for a group of operators, as a sweep has them. An estimate."""
    compiled = fam.compiled
    if compiled is None:
        return fam.price(job)
    sizes = np.array([[job.batch], [job.length], [job.context]], dtype=np.float64)
    record, tables = np.array(compiled.record(job), dtype=np.float64).reshape(-1, 1), compiled.tables(job)
    found = []
    for group in fam.groups(job):
        part = np.zeros((len(RESOURCES), 1))
        compiled.points(0, 1, group.rows, *tables, float(job.ways), sizes, record, part)
        found.append(group.times * part)
    other = compiled.other(job) if compiled.other else ()
    return PhaseCost(np.concatenate(found, axis=1).T, *np.zeros((4, len(found))), other=other)


def price_stage(bound: Bound, stage: Stage, detail: bool = True) -> Priced:
    """Cost of everything a request asks of one stage; without `detail`, operators of a pass together."""
    fam = family(stage.device.kind)
    s = bound.scenario
    runs, fits, fixed = [], (), ()
    for phase in bound.graph.phases:
        passes = phase.repeat.at(s.inputs, s.outputs)
        job = job_of(bound, stage, fam, phase)
        if passes <= 0 or not job.ops:
            continue
        cost = fam.price(job) if detail else _brief(fam, job)
        wire = exchange_wire(stage, fam)
        if wire is not None:
            other, sent = exchange(job, wire)
            shown = (row for row in other if row[2])
            cost = replace(cost, other=(*cost.other, *shown), link_bytes=cost.link_bytes + sent)
        if not runs:
            fits = fam.place(job)
            fixed = fam.request(job) if fam.request else ()
        runs.append(PhaseRun(job, cost, passes))
    return Priced(stage, fam, tuple(runs), tuple(fixed), tuple(fits))


def layout_of(bound: Bound, plan: Plan, runs: Sequence[tuple[int, bool]]) -> Layout:
    """Rows of a plan whose runs are given as (number of the stage, whether it makes output unit by unit)."""
    ways = list(dict.fromkeys((hop.wire.role, hop.way) for hop in plan.hops))
    return Layout(
        stage_of=tuple(stage for stage, _ in runs),
        decode=tuple(decode for _, decode in runs),
        copies=tuple(stage.copies for stage in plan.stages),
        wire_of=tuple(ways.index((hop.wire.role, hop.way)) for hop in plan.hops),
        pipelined=plan.pipelined,
        causal=bound.graph.causal,
        replicas=plan.replicas,
        alike=tuple(hop.alike for hop in plan.hops),
        shares=tuple(hop.shares for hop in plan.hops),
    )


def globals_of(bound: Bound) -> tuple[float, float, float]:
    """Units of a request, of a batch of them, and batches in flight. [-]"""
    s = bound.scenario
    units = bound.graph.units_per_request.at(s.inputs, s.outputs)
    return units, units * s.batch, 1.0 * s.streams


def schedule(bound: Bound, plan: Plan, detail: bool = True) -> Schedule:
    """Times of a plan: stages one after the other, hops between them, and the pace of the slowest.

    Without `detail` it tells no operator from another.
    """
    priced = tuple(price_stage(bound, stage, detail) for stage in plan.stages)
    runs = [(s, run) for s, stage in enumerate(priced) for run in stage.runs]
    layout = layout_of(bound, plan, [(s, bool(run.job.phase.repeat.o)) for s, run in runs])
    rows = np.zeros((layout.rows, 1))
    for i, (_, run) in enumerate(runs):
        seconds, fam = run.cost.seconds, priced[layout.stage_of[i]].family
        if detail or fam.compiled is None:
            rows[layout.seconds_of(i), 0] = column_sums(seconds, fam.groups(run.job), run.job.rows)
        else:
            rows[layout.seconds_of(i), 0] = sum(seconds, np.zeros(len(RESOURCES)))
        rows[layout.others_of(i), 0] = by_resource(run.cost.other)
        rows[layout.passes + i, 0] = run.passes
    for s, stage in enumerate(priced):
        rows[layout.fixed_of(s), 0] = by_resource(stage.fixed)
    for h, hop in enumerate(plan.hops):
        rows[layout.hop_of(h), 0] = hop_row(hop)
    rows[layout.globals : layout.globals + 3, 0] = globals_of(bound)
    time_figures(rows, 1, *layout.facts)
    stage_s, hop_s = rows[layout.stage_times, 0], rows[layout.hop_times, 0]
    return Schedule(
        tuple(replace(stage, time_s=float(t)) for stage, t in zip(priced, stage_s, strict=True)),
        tuple((hop, float(t)) for hop, t in zip(plan.hops, hop_s, strict=True)),
        layout,
        rows,
    )
