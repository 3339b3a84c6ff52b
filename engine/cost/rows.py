"""Rows of a report: operators, memories, links and time that belongs to none, of a priced plan. Estimates, SI."""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import TypeVar

import numpy as np

from engine.cost.assemble import Schedule
from engine.cost.figures import YEAR_S
from engine.cost.layout import IDLE
from engine.devices.common.contract import LINKS, RESOURCES, Fit, Span
from engine.plan.schemes import Stage
from hardware_specs.schema import Link

Key = TypeVar("Key", bound=Hashable)
_MEMORIES = {"offchip": "off-chip memory", "onchip": "on-chip memory"}
RESOURCE_NAMES: dict[str, str] = {name: _MEMORIES.get(name, name) for name in RESOURCES}


@dataclass(frozen=True)
class OpRow:
    """One operator, all its executions of a request together, on the device that holds it."""

    name: str
    kind: str
    group: str
    phase: str
    device: str
    count: float  # executions per request
    time_s: float  # that a request takes longer with it
    duration_s: float  # from its start to its end, other operators beside it
    share: float  # of the request's latency
    bound: str  # resource its time is spent on
    flops: float  # done by one device
    offchip_bytes: float
    onchip_bytes: float
    peak_flops_per_s: float  # dense, of one device at the precision used
    resources: dict[str, float]
    levels: dict[str, float] = field(default_factory=dict)  # bytes at each memory level, where its family tells [B]
    limit: str = ""  # the unit or memory level that sets its time, where its family says
    counters: dict[str, float] = field(default_factory=dict)  # of a processor, of one execution, where its family has

    @property
    def intensity(self) -> float | None:
        """Arithmetic intensity against off-chip traffic; None where there is none. [FLOP/B]"""
        return self.flops / self.offchip_bytes if self.offchip_bytes > 0 else None

    @property
    def rate(self) -> float:
        """Work over the time it runs. [FLOP/s]"""
        return self.flops / self.duration_s if self.duration_s > 0 else 0.0

    @property
    def peak_used(self) -> float:
        """Achieved rate over the dense peak. [-]"""
        return self.rate / self.peak_flops_per_s if self.peak_flops_per_s > 0 else 0.0


@dataclass(frozen=True)
class Other:
    """Time that belongs to no operator."""

    name: str
    resource: str
    time_s: float


@dataclass(frozen=True)
class MemoryRow:
    """What must lie in a memory level of a device, against its capacity. [B]"""

    device: str
    level: str
    role: str
    need_bytes: float
    capacity_bytes: float
    holds: str
    required: bool
    fits: bool
    rest: str = ""  # level from which a pass streams what does not fit


@dataclass(frozen=True)
class LinkRow:
    """What a request sends over a link, and how busy that keeps it."""

    name: str
    role: str
    bytes_per_request: float
    bandwidth: float  # usable, one direction [B/s]
    time_s: float  # on this link within a request's latency
    utilisation: float  # share of the usable rate used at the reported throughput


@dataclass(frozen=True)
class Roofline:
    """Roofs of one device: its dense peak and the bandwidth of each memory level."""

    device: str
    format: str
    peak_flops_per_s: float
    levels: tuple[tuple[str, str, float], ...]  # name, role, B/s


def totals(parts: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    """Numbers added up by their keys, in the order in which those first come. In the numbers' own unit, as [s]."""
    result: dict[Key, float] = {}
    for key, number in parts:
        result[key] = result.get(key, 0.0) + number
    return result


def busy_of(bars: Iterable[Span]) -> dict[str, float]:
    """How long each unit of a timeline is busy; a dependence is no unit. [s]"""
    return totals((bar.unit, bar.duration_s) for bar in bars if bar.unit != "dependence")


def ops_of(times: Schedule) -> tuple[OpRow, ...]:
    """A row of each operator on each of its devices. [s], [B]"""
    rows, latency = [], times.latency_s
    for stage in times.priced:
        for run in stage.runs:
            job, cost = run.job, run.cost
            seconds = cost.seconds * (run.passes * stage.charge)
            totals, winners = seconds.sum(axis=1).tolist(), seconds.argmax(axis=1).tolist()
            parts, peaks = seconds.tolist(), cost.peak.tolist()
            lasts = totals if cost.durations is None else (cost.durations * (run.passes * stage.charge)).tolist()
            flops, far, near = ((counter * run.passes).tolist() for counter in (cost.flops, cost.offchip, cost.onchip))
            levels = {name: (size * run.passes).tolist() for name, size in cost.levels.items()}
            for i, op in enumerate(job.ops):
                rows.append(
                    OpRow(
                        name=op.name,
                        kind=op.kind,
                        group=op.group,
                        phase=job.phase.name,
                        device=job.device.id,
                        count=op.layers * op.steps.at(job.batch, job.length, job.context) * run.passes,
                        time_s=totals[i],
                        duration_s=lasts[i],
                        share=totals[i] / latency if latency else 0.0,
                        bound=RESOURCES[winners[i]],
                        flops=flops[i],
                        offchip_bytes=far[i],
                        onchip_bytes=near[i],
                        peak_flops_per_s=peaks[i],
                        resources=dict(zip(RESOURCES, parts[i], strict=True)),
                        levels={name: size[i] for name, size in levels.items()},
                        limit=cost.limits[i] if cost.limits else "",
                        counters={name: float(of[i]) for name, of in cost.counters.items()},
                    )
                )
    return tuple(rows)


def energy_of(times: Schedule) -> dict[str, float]:
    """Energy of a batch by part, on all devices that share a stage, where their families count it. [J]"""
    return totals(
        (part, energy * run.passes * stage_cost.stage.devices)
        for stage_cost in times.priced
        for run in stage_cost.runs
        for part, energy in run.cost.joules.items()
    )


def power_parts(times: Schedule) -> dict[str, float]:
    """Power by who draws it: devices at any work, their work, switch and chassis, a counted host. [W]"""
    power, idle, host = times.figure("power_w"), times.account.idle_w, 0.0
    if power is None or idle is None:
        return {}
    extra = times.bound.system.extra_power
    chassis = extra.si if extra is not None else 0.0
    floor, peak, cores = times.account.host
    if cores:
        host = floor + (peak - floor) * min(1.0, times.draw("host_s") * times.requests_per_s / cores)
    return {"idle": idle - chassis, "work": power - idle - host, "chassis": chassis, "host": host}


def other_of(times: Schedule) -> tuple[Other, ...]:
    """Time that belongs to no operator, by what takes it. [s]"""
    rows = []
    for stage in times.priced:
        for run in stage.runs:
            rows += [((name, by), s * run.passes * stage.charge) for name, by, s in run.cost.overheads]
        rows += [((name, by), s * stage.charge) for name, by, s in stage.fixed]
    rows += [((hop.name, "links"), s) for hop, s in times.hops]
    rows += [((name, by), s) for name, by, s in following(times)]
    return tuple(Other(name, by, seconds) for (name, by), seconds in totals(rows).items() if seconds)


def following(times: Schedule) -> Iterator[tuple[str, str, float]]:
    """What a request waits for the batches of it behind the first: its name, a resource, seconds of that. [s]"""
    if times.batches > 1:
        wait_s = (1.0 - 1.0 / times.batches) * times.interval_s / times.latency_s
        yield from (("batches that follow", name, wait_s * share) for name, share in times.breakdown.items())


def _role(times: Schedule, stage: Stage, fit: Fit) -> str:
    """Which stages need that memory, where there are several."""
    alike = [p.stage.name for p in times.priced if p.stage.device is stage.device and p.fits]
    names = alike if times.plan.shared and fit.required and fit.role == "offchip" else [stage.name]
    return f" ({', '.join(names)})" if len(times.plan.stages) > 1 else ""


_OF_FIT = tuple(field.name for field in fields(MemoryRow)[1:])


def memory_of(times: Schedule) -> tuple[MemoryRow, ...]:
    """What must lie in each memory, stage by stage. [B]"""
    return tuple(
        MemoryRow(p.stage.device.name + _role(times, p.stage, fit), *(getattr(fit, name) for name in _OF_FIT))
        for p in times.priced
        for fit in p.fits
    )


def crossings(times: Schedule) -> Iterator[tuple[Link, str, str, float, int, float]]:
    """Link, its role, the way, bytes of a request [B], wires that take turns with them [-], and their time [s].

    Estimates. Of hops first, then of what devices of a stage exchange behind and inside its operators; what goes to
    other nodes is apart.
    """
    for hop, seconds in times.hops:
        if hop.bytes_per_message:
            yield hop.wire.link, hop.wire.role, hop.way, hop.bytes_per_message * hop.messages, hop.alike, seconds
    for wire, run in ((stage_cost.stage.wire, run) for stage_cost in times.priced for run in stage_cost.runs):
        if wire is not None:
            cost, away = run.cost, run.cost.beyond_bytes * run.passes
            between = sum(t for _, r, t in cost.overheads if r == "links") * run.passes
            inside = float(cost.seconds[:, LINKS].sum()) * run.passes
            yield wire.link, wire.role, "in", cost.link_bytes * run.passes - away, 1, between
            yield wire.link, wire.role, "in", 0.0, 1, inside
            if away and wire.beyond:
                yield wire.beyond, "scale-out", "in", away, 1, away / wire.beyond.usable


def loads_of(times: Schedule) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Bytes of a request and share of the usable rate of one of the links alike, by link, role and way. [B], [-]"""
    rows = [((link.name, role, way), link.usable, s, s / alike) for link, role, way, s, alike, _ in crossings(times)]
    sizes, loads = (totals((row[0], row[at]) for row in rows) for at in (2, 3))
    per_wire = times.requests_per_s / max(times.plan.replicas, 1)
    return {key: (sizes[key], min(1.0, loads[key] * per_wire / rate)) for key, rate, *_ in rows}


def links_of(times: Schedule) -> tuple[LinkRow, ...]:
    """Bytes over each kind of link; the utilisation is that of its busier direction, of one of the links alike."""
    rows = [((link.name, role), link.usable, size, seconds) for link, role, _, size, _, seconds in crossings(times)]
    sizes, busy_s = (totals((row[0], row[at]) for row in rows) for at in (2, 3))
    shares: dict[tuple[str, str], float] = {}
    for (name, role, _), (_, share) in loads_of(times).items():
        shares[name, role] = max(share, shares.get((name, role), 0.0))
    rates = {key: rate for key, rate, *_ in rows}
    return tuple(LinkRow(*key, sizes[key], rate, busy_s[key], shares[key]) for key, rate in rates.items())


def timeline_of(times: Schedule) -> tuple[tuple[Span, ...], str]:
    """The family's own timeline of the slowest phase, else its ops one after the other."""
    runs = [(p.stage, run) for p in times.priced for run in p.runs]
    stage, slowest = max(runs, key=lambda pair: pair[1].cost.total_s * pair[1].passes)
    if slowest.cost.timeline:
        return slowest.cost.timeline, slowest.cost.timeline_of
    job = slowest.job
    layers = max(op.layers for op in job.ops)
    shared = stage.graph is not None and stage.turns  # what takes turns with it is of the same layers
    turns = [run for on, run in runs if run is slowest or (shared and on.turns and on.place == stage.place)]
    turns = [run for run in turns if run.job.phase.name == job.phase.name]
    order = {op.name: at for at, op in enumerate(job.phase.ops)}
    layer = [(op, run.cost.seconds[i]) for run in turns for i, op in enumerate(run.job.ops) if op.layers == layers]
    layer.sort(key=lambda pair: order[pair[0].name])
    steps = [layers * max(op.steps.at(job.batch, job.length, job.context), 1e-30) for op, _ in layer]
    seconds = np.array([row for _, row in layer]) / np.array(steps)[:, None]
    lasting = seconds.sum(axis=1)
    begins = np.cumsum([0.0, *lasting[:-1]])
    longest = np.sort(np.argsort(-lasting, kind="stable")[:32])
    bound = [RESOURCES[r] for r in seconds[longest].argmax(axis=1).tolist()]
    spans = tuple(
        Span(RESOURCE_NAMES[by], layer[i][0].name, begin, span, by)
        for i, begin, span, by in zip(longest, begins[longest].tolist(), lasting[longest].tolist(), bound, strict=True)
    )
    return spans, f"one of {layers} layers, {job.phase.name}" if layers > 1 else job.phase.name


def rooflines_of(times: Schedule) -> tuple[Roofline, ...]:
    """Roofs of each device, first of the one that spends most of the time. Bounds."""
    rooflines: dict[str, Roofline] = {}
    for p in sorted(times.priced, key=lambda p: -p.time_s):
        device = p.stage.device
        levels = tuple(
            (m.name, m.role, m.bandwidth.si * (device.cores if m.per == "core" else 1.0))
            for m in device.memory
            if m.bandwidth is not None
        )
        rooflines.setdefault(
            device.id, Roofline(device.name, p.stage.format, p.family.peak(device, p.stage.format), levels)
        )
    return tuple(rooflines.values())


def token_costs(times: Schedule) -> dict[str, float]:
    """Energy and cost of a token read and of one written, apart. [J], [USD]

    Empty where tokens are not read and written one by one, or no power is published. What devices draw anyway and what
    they cost goes by the time that prompts and written tokens take, the rest of the energy by what each does. An
    estimate; the two together are what a request takes.
    """
    s, graph, layout = times.bound.scenario, times.bound.graph, times.layout
    energy, cost, price = (times.figure(name) for name in ("energy_per_unit_j", "usd_per_million", "capex_usd"))
    if not (graph.causal and graph.input_indices.s and any(layout.decode)) or energy is None:
        return {}
    phase_s, joules = [0.0, 0.0], [0.0, 0.0]  # of prompts, of written tokens
    for i, decode in enumerate(map(bool, layout.decode)):
        seconds, run_j = times.run_cost(i)
        phase_s[decode] += seconds
        joules[decode] += run_j
    phase_s[False] = times.latency_s - phase_s[True]  # with all that belongs to no pass
    units, idle = times.units, times.global_of(IDLE)
    phase_j = [j + idle * t for j, t in zip(joules, phase_s, strict=True)]
    request_j = energy * units
    result = {}
    for name, decode, tokens in (("input", False, s.inputs), ("output", True, s.outputs)):
        batch_tokens = s.batch * tokens
        share = phase_j[decode] / sum(phase_j)
        result[f"energy_per_{name}_token_j"] = share * request_j / batch_tokens
        if cost is not None and price is not None:
            machine = price / (s.costs.years * YEAR_S * times.requests_per_s * s.costs.utilisation)
            electricity = cost / 1e6 * units - machine
            whole = machine * phase_s[decode] / times.latency_s + electricity * share
            result[f"usd_per_million_{name}"] = whole / batch_tokens * 1e6
    return result
