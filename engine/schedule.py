"""Plan -> times: what each stage takes a request, what the wires add, and how often a request can start."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from engine.bind import Bound, Wire
from engine.devices import family
from engine.devices.family import DeviceFamily, Fit, Job, PhaseCost
from engine.partition import Hop, Plan, Stage
from model_zoo.ops import Op, Phase

__all__ = ["Priced", "Run", "Schedule", "price_stage", "schedule", "wire_time"]


@dataclass(frozen=True)
class Run:
    """One phase of one stage: its job, the cost of a pass, and how many passes a request makes."""

    job: Job
    cost: PhaseCost
    passes: float


@dataclass(frozen=True)
class Priced:
    """A stage with the cost of everything a request asks of it."""

    stage: Stage
    family: DeviceFamily
    runs: tuple[Run, ...]
    fixed: tuple[tuple[str, str, float], ...]  # once a request
    fits: tuple[Fit, ...]

    @property
    def time_s(self) -> float:
        """Time of the stage within one request. [s]"""
        return sum(r.cost.total_s * r.passes for r in self.runs) + sum(t for _, _, t in self.fixed)


@dataclass(frozen=True)
class Schedule:
    """Latency of a request and the rate at which requests finish, both without queueing."""

    priced: tuple[Priced, ...]
    hops: tuple[tuple[Hop, float], ...]  # with the time each adds to a request
    latency_s: float
    interval_s: float  # between two requests of one stream of one replica


def wire_time(wire: Wire, bytes_per_message: float) -> float:
    """Time of one message: latency of each hop plus its bytes at the usable rate, store and forward ignored. [s]"""
    rate = wire.link.bandwidth.si * (wire.link.payload.si if wire.link.payload else 1.0)
    start = wire.link.per_transfer.si if wire.link.per_transfer else 0.0
    return start + wire.hops * wire.link.latency.si + bytes_per_message / rate


def _hop_time(hop: Hop, busy: float) -> float:
    """Time a message adds to a request: what comes in pieces hides behind the devices' work, but for the first. [s]"""
    whole = wire_time(hop.wire, hop.bytes_per_message)
    first = wire_time(hop.wire, hop.bytes_per_message / hop.pieces)
    return hop.messages * (first + max(0.0, whole - first - busy))


def _collectives(job: Job, wire: Wire, act_bytes: float) -> list[tuple[str, float, float, float]]:
    """Exchanges of a sharded pass as (name, count, bytes sent per device, steps): Megatron's pattern on a ring.

    An op split along K leaves partial sums: all-reduce of its output. An op split along N whose reader is not split
    needs all-gather.
    """
    readers: dict[str, list[Op]] = {}
    for op in job.ops:
        for name in op.inputs:
            readers.setdefault(name, []).append(op)
    found = []
    ways = job.ways
    for op in job.ops:
        size = op.writes.at(job.batch, job.length, job.context) * act_bytes
        count = op.layers * op.steps.at(job.batch, job.length, job.context)
        if op.shard == "k":
            found.append((f"all-reduce after {op.name}", count, 2 * (ways - 1) / ways * size, 2.0 * (ways - 1)))
        elif op.shard == "n" and any(r.shard == "none" for r in readers.get(op.name, [])):
            found.append((f"all-gather after {op.name}", count, (ways - 1) / ways * size, ways - 1.0))
    return found


def _exchange(job: Job, cost: PhaseCost, wire: Wire) -> PhaseCost:
    """The pass with its collectives added."""
    other, sent = list(cost.other), cost.link_bytes
    eager = not job.switches.get("graph", True)
    rate = wire.link.bandwidth.si * (wire.link.payload.si if wire.link.payload else 1.0)
    latency = max(wire.link.latency.si * wire.hops, job.model.get("collective_latency", 0.0))
    for name, count, size, steps in _collectives(job, wire, max(_bits(job), 8.0) / 8):
        seconds = count * (size / rate + steps * latency)
        other.append((name, "links", seconds))
        issue = job.model.get("collective_issue", 0.0) if eager else 0.0
        if issue:
            other.append((f"issuing {name}", "host", count * issue))
        sent += count * size
    return replace(cost, other=tuple(other), link_bytes=sent)


def _bits(job: Job) -> float:
    from engine.formats import BITS

    return BITS[job.format]


def _job(bound: Bound, stage: Stage, fam: DeviceFamily, phase: Phase) -> Job:
    s = bound.scenario
    everything = len(stage.ops) == sum(1 for _ in phase.ops) or all(op.name in stage.ops for op in phase.ops)
    model = {k: v for k, v in bound.model.items() if any(p.name == k for p in fam.parameters)}
    longest = max(p.context.at(s.inputs, s.outputs) + (p.repeat.at(s.inputs, s.outputs) / 2 if p.repeat.o else 0)
                  for p in bound.graph.phases)  # fmt: skip
    return Job(
        device=stage.device,
        phase=phase,
        ops=phase.ops if everything else tuple(op for op in phase.ops if op.name in stage.ops),
        graph=bound.graph,
        batch=s.batch,
        length=phase.length.at(s.inputs, s.outputs),
        context=phase.context.at(s.inputs, s.outputs),
        max_context=longest,
        ways=stage.ways,
        streams=s.streams,
        format=stage.format,
        tile=s.tile if stage.device.kind == bound.device.kind else (),  # knobs of the first executor's family
        switches={sw.name: s.switches.get(sw.name, sw.default) for sw in fam.switches},
        model=fam.model(stage.device, model),
        link=stage.wire.link if stage.wire else None,
        link_hops=stage.wire.hops if stage.wire else 1,
    )


def price_stage(bound: Bound, stage: Stage) -> Priced:
    """Cost of everything a request asks of one stage."""
    fam = family(stage.device.kind)
    s = bound.scenario
    runs, fits, fixed = [], (), ()
    for phase in bound.graph.phases:
        passes = phase.repeat.at(s.inputs, s.outputs)
        job = _job(bound, stage, fam, phase)
        if passes <= 0 or not job.ops:
            continue
        cost = fam.price(job)
        if stage.ways > 1 and fam.collectives and stage.wire is not None:
            cost = _exchange(job, cost, stage.wire)
        if not runs:
            fits = fam.place(job)
            fixed = fam.request(job) if fam.request else ()
        runs.append(Run(job, cost, passes))
    return Priced(stage, fam, tuple(runs), tuple(fixed), tuple(fits))


def schedule(bound: Bound, plan: Plan) -> Schedule:
    """Times of a plan: stages one after the other, hops between them, and the pace of the slowest."""
    priced = tuple(price_stage(bound, stage) for stage in plan.stages)
    busy = sum(p.time_s for p in priced)
    hops = tuple((hop, _hop_time(hop, busy)) for hop in plan.hops)
    latency = sum(p.time_s for p in priced) + sum(t for _, t in hops)
    if not plan.pipelined:
        return Schedule(priced, hops, latency, latency)
    wires: dict[str, float] = defaultdict(float)
    for hop, seconds in hops:
        wires[hop.wire.role] += seconds
    pace = max([p.time_s / p.stage.copies for p in priced] + list(wires.values()))
    return Schedule(priced, hops, latency, pace)
