"""Report from what the main path found: rows, breakdown, and what is found when it is read."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from textwrap import shorten
from typing import Any

import numpy as np

from engine.cost.assemble import Schedule
from engine.cost.best_plan import better_streams, fewer_devices
from engine.cost.continuous import Continuous, continuous
from engine.cost.error_bands import error_band
from engine.cost.headline import governed_by, limit_of, problems_of, tile_of, verdict
from engine.cost.layout import METRICS
from engine.cost.report import RESOURCE_NAMES, Assumption, LinkRow, MemoryRow, OpRow, Other, Report, Roofline
from engine.cost.timeline import SHOWN, request
from engine.cost.token_costs import token_costs
from engine.devices.common.cached import remembered
from engine.devices.common.contract import RESOURCES, Fit, Span
from engine.devices.common.setting import Parameter
from engine.plan.schemes import Plan, Stage
from engine.resolve.bind import Bound, engine_version
from engine.scenario.sentences import amount
from hardware_specs.catalog import quantities
from hardware_specs.schema import Device, Link


def _ops(times: Schedule) -> tuple[OpRow, ...]:
    rows, latency = [], times.latency_s
    for priced in times.priced:
        for run in priced.runs:
            job, cost = run.job, run.cost
            seconds = cost.seconds * (run.passes * priced.charged)
            totals, winners = seconds.sum(axis=1).tolist(), seconds.argmax(axis=1).tolist()
            parts, peaks = seconds.tolist(), cost.peak.tolist()
            lasts = totals if cost.durations is None else (cost.durations * (run.passes * priced.charged)).tolist()
            flops, far, near = ((each * run.passes).tolist() for each in (cost.flops, cost.offchip, cost.onchip))
            levels = {name: (moved * run.passes).tolist() for name, moved in cost.levels.items()}
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
                        levels={name: moved[i] for name, moved in levels.items()},
                        limit=cost.limits[i] if cost.limits else "",
                        counters={name: float(of[i]) for name, of in cost.counters.items()},
                    )
                )
    return tuple(rows)


def energy_of(times: Schedule) -> dict[str, float]:
    """Energy of a batch by part, on all devices that share a stage, where their families count it. [J]"""
    result: dict[str, float] = defaultdict(float)
    for priced in times.priced:
        for run in priced.runs:
            for part, spent in run.cost.joules.items():
                result[part] += spent * run.passes * priced.stage.devices
    return dict(result)


def _power_parts(bound: Bound, times: Schedule) -> dict[str, float]:
    """Power by who draws it: devices at any work, their work, switch and chassis, a counted host. [W]"""
    power, idle, host = times.figure("power_w"), times.account.idle_w, 0.0
    if power is None or idle is None:
        return {}
    extra = bound.system.extra_power
    chassis = extra.si if extra is not None else 0.0
    floor, most, cores = times.account.host
    if cores:
        host = floor + (most - floor) * min(1.0, times.drawn("host_s") * times.requests_per_s / cores)
    return {"idle": idle - chassis, "work": power - idle - host, "chassis": chassis, "host": host}


def _other(times: Schedule) -> tuple[Other, ...]:
    rows: dict[tuple[str, str], float] = {}
    for priced in times.priced:
        for run in priced.runs:
            for name, resource, seconds in run.cost.other:
                rows[name, resource] = rows.get((name, resource), 0.0) + seconds * run.passes * priced.charged
        for name, resource, seconds in priced.fixed:
            rows[name, resource] = rows.get((name, resource), 0.0) + seconds * priced.charged
    for hop, seconds in times.hops:
        rows[hop.name, "links"] = rows.get((hop.name, "links"), 0.0) + seconds
    if times.batches > 1:
        waited = (1.0 - 1.0 / times.batches) * times.interval_s / times.latency_s
        rows |= {("batches that follow", name): waited * share for name, share in times.breakdown.items()}
    return tuple(Other(name, resource, seconds) for (name, resource), seconds in rows.items() if seconds)


def _role(plan: Plan, times: Schedule, stage: Stage, fit: Fit) -> str:
    """Which stages need that memory, where there are several."""
    alike = [p.stage.name for p in times.priced if p.stage.device is stage.device and p.fits]
    named = alike if plan.shared and fit.required and fit.role == "offchip" else [stage.name]
    return f" ({', '.join(named)})" if len(plan.stages) > 1 else ""


_OF_FIT = tuple(field.name for field in fields(MemoryRow)[1:])


def _memory(plan: Plan, times: Schedule) -> tuple[MemoryRow, ...]:
    return tuple(
        MemoryRow(p.stage.device.name + _role(plan, times, p.stage, fit), *(getattr(fit, name) for name in _OF_FIT))
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
    for wire, run in ((priced.stage.wire, run) for priced in times.priced for run in priced.runs):
        if wire is not None:
            cost, away = run.cost, run.cost.beyond_bytes * run.passes
            between = sum(t for _, r, t in cost.other if r == "links") * run.passes
            inside = float(cost.seconds[:, RESOURCES.index("links")].sum()) * run.passes
            yield wire.link, wire.role, "in", cost.link_bytes * run.passes - away, 1, between
            yield wire.link, wire.role, "in", 0.0, 1, inside
            if away and wire.beyond:
                yield wire.beyond, "scale-out", "in", away, 1, away / wire.beyond.usable


def _links(plan: Plan, times: Schedule, requests_per_s: float) -> tuple[LinkRow, ...]:
    """Bytes over each kind of link; the utilisation is that of its busier direction, of one of the links alike."""
    moved: dict[tuple[str, str], float] = defaultdict(float)
    spent: dict[tuple[str, str], float] = defaultdict(float)
    load: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    rates: dict[tuple[str, str], float] = {}
    for link, role, way, size, alike, seconds in crossings(times):
        key = link.name, role
        rates[key] = link.usable
        moved[key] += size
        load[key][way] += size / alike
        spent[key] += seconds
    per_wire = requests_per_s / max(plan.replicas, 1)
    return tuple(
        LinkRow(*key, moved[key], rate, spent[key], min(1.0, max(load[key].values()) * per_wire / rate))
        for key, rate in rates.items()
    )


def _timeline(times: Schedule) -> tuple[tuple[Span, ...], str]:
    """The family's own timeline of the slowest phase, else its ops one after the other."""
    runs = [(p.stage, run) for p in times.priced for run in p.runs]
    stage, slowest = max(runs, key=lambda own: own[1].cost.total_s * own[1].passes)
    if slowest.cost.timeline:
        return slowest.cost.timeline, slowest.cost.timeline_of
    job = slowest.job
    most = max(op.layers for op in job.ops)
    shared = stage.graph is not None and stage.turns  # what takes turns with it is of the same layers
    turns = [run for on, run in runs if run is slowest or (shared and on.turns and on.place == stage.place)]
    turns = [run for run in turns if run.job.phase.name == job.phase.name]
    order = {op.name: at for at, op in enumerate(job.phase.ops)}
    layer = [(op, run.cost.seconds[i]) for run in turns for i, op in enumerate(run.job.ops) if op.layers == most]
    layer.sort(key=lambda own: order[own[0].name])
    steps = [most * max(op.steps.at(job.batch, job.length, job.context), 1e-30) for op, _ in layer]
    seconds = np.array([each for _, each in layer]) / np.array(steps)[:, None]
    lasting = seconds.sum(axis=1)
    begins = np.cumsum([0.0, *lasting[:-1]])
    shown = np.sort(np.argsort(-lasting, kind="stable")[:32])
    bound = [RESOURCES[r] for r in seconds[shown].argmax(axis=1).tolist()]
    spans = tuple(
        Span(RESOURCE_NAMES[by], layer[i][0].name, begin, span, by)
        for i, begin, span, by in zip(shown, begins[shown].tolist(), lasting[shown].tolist(), bound, strict=True)
    )
    return spans, f"one of {most} layers, {job.phase.name}" if most > 1 else job.phase.name


def _rooflines(times: Schedule) -> tuple[Roofline, ...]:
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


def _assumptions(bound: Bound, plan: Plan, times: Schedule) -> tuple[Assumption, ...]:
    assumptions: dict[str, str] = {}
    known, asked = bound.graph.positions, bound.scenario.inputs
    if known and bound.graph.causal:
        asked += bound.scenario.outputs - 1
    if known and asked > known:
        text = (
            f"{bound.workload.name} has {known:,} learned positions; this request reaches {asked:,}, as if it had more."
        )
        assumptions[text] = "assumed"
    for p in times.priced:
        for text in p.family.assumptions:
            assumptions[text] = "derived"
        for path, priced in p.family.fields.items():
            if getattr(bound.scenario, path) is not None:
                assumptions[priced.assumption] = "assumed"
        for rule in p.family.rules:
            assumptions[f"{rule.text} Read off {', '.join(rule.claims)}."] = "calibrated"
        own = p.runs[0].job.model if p.runs else {}
        for parameter in p.family.parameters:
            assumptions[_tell(parameter, own.get(parameter.name, parameter.value))] = parameter.basis
        for run in p.runs:
            for note in run.cost.notes:
                assumptions[note] = "derived"
        assumptions.update(dict.fromkeys(_assumed(p.stage.device), "assumed"))
    for number in bound.workload.params.items():
        if number[1].basis in ("assumed", "calibrated"):
            value = shorten(str(number[1].value), 80, placeholder=" ...")  # of a list of layers the first ones
            assumptions[f"{bound.workload.name}: {number[0]} = {value} ({number[1].note})"] = number[1].basis
    for text, basis in times.account.notes:
        assumptions[text] = basis
    if (governed := governed_by(bound, times)) is not None:
        assumptions[f"{governed}: arithmetic and on-chip memory slow down, the rest keeps its time"] = "derived"
    for text in (*plan.notes, *bound.system.notes, *bound.workload.notes):
        assumptions[text] = "published"
    return tuple(Assumption(text, basis) for text, basis in assumptions.items())


_SCALED = ("s", "J", "B", "B/s", "op/s", "pixel/s", "pixel")  # units that take a prefix; others are counts and shares


@remembered(id)
def _assumed(device: Device) -> tuple[str, ...]:
    """What a device's file assumes."""
    return tuple(f"{device.name}: {q.value} ({q.note})" for q in quantities(device) if q.basis == "assumed")


@lru_cache(maxsize=4096)
def _tell(parameter: Parameter, value: float) -> str:
    how = "fitted on" if parameter.basis == "calibrated" else "chosen knowing"
    where = f"; {how} {', '.join(parameter.claims)}" if parameter.claims else ""
    unit = parameter.unit
    said = amount(value, unit) if unit in _SCALED else f"{value:.4g} {unit}".removesuffix(" 1")
    return f"{parameter.name.replace('_', ' ')} = {said}: {parameter.note}{where}"


_OF_TIMES = tuple(name for name in METRICS if name != "interval_s" and name.removesuffix("_s") not in RESOURCES)
"""Figures of a report that a schedule has."""


@dataclass(frozen=True)
class ReportDetail:
    """What of a report is found when it is read, as it takes as long as all the rest."""

    bound: Bound
    plan: Plan
    times: Schedule
    memory: tuple[MemoryRow, ...]
    idle: Callable[[], Sequence[str]]  # of settings that move no figure

    @cached_property
    def continuous(self) -> Continuous | None:
        """As `Report.continuous`. [s]"""
        return continuous(self.bound, self.times)

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """As `Report.problems`."""
        limits = self.bound.scenario.limits
        limited = limits.ttft_s is not None or limits.tpot_s is not None
        return problems_of(self.bound, self.memory, self.times, self.continuous if limited else None)

    def ops(self) -> tuple[OpRow, ...]:
        """As `Report.ops`."""
        return _ops(self.times)

    def timeline(self) -> tuple[tuple[Span, ...], str]:
        """As `Report.timeline` and `Report.timeline_of`. [s]"""
        return _timeline(self.times)

    def stated(self) -> tuple[Assumption, ...]:
        """What the plan and its parts assume."""
        return _assumptions(self.bound, self.plan, self.times)

    def better(self) -> tuple[str, ...]:
        """As `Report.better`."""
        tried = fewer_devices(self.bound, self.times.latency_s), better_streams(self.bound, self.times, RESOURCE_NAMES)
        return tuple(filter(None, tried))

    def words(self) -> tuple[str, str]:
        """As `Report.verdict` and `Report.limited_by`."""
        if self.problems:
            return self.problems[0], limit_of(self.times)[0]
        joined = self.continuous if self.bound.scenario.batch > 1 else None
        return verdict(self.bound, self.times, self.memory, joined)

    def request(self, most: int = SHOWN) -> tuple[Span, ...]:
        """As `Report.in_order`. [s]"""
        return request(self.times, most)


def compose(
    bound: Bound,
    plan: Plan,
    times: Schedule,
    moved: float | None = 0.0,
    idle: Callable[[], Sequence[str]] = tuple,
) -> Report:
    """The report of a priced plan; ``moved``: by what-ifs, see `error_band`; ``idle``: of `without_effect`. [-]"""
    s, graph, memory = bound.scenario, bound.graph, _memory(plan, times)
    detail = ReportDetail(bound, plan, times, memory, idle)
    bound_by = max(times.breakdown, key=lambda name: times.breakdown[name])
    requests_per_s = times.batches * times.units_per_s / times.units if times.units else 0.0
    figures: dict[str, Any] = {name: times.figure(name) for name in _OF_TIMES}
    return Report(
        scenario=s,
        system_name=bound.system.name,
        workload_name=bound.workload.name,
        unit=graph.unit,
        **figures,
        price_contains=times.account.price_contains,
        price_lacks=times.account.price_lacks,
        bound=bound_by,
        breakdown=times.breakdown,
        other=_other(times),
        fits=all(row.fits for row in memory),
        memory=memory,
        links=_links(plan, times, requests_per_s),
        rooflines=_rooflines(times),
        tile=tile_of(bound, times),
        devices_used=sum(plan.devices_used),
        error_band=error_band(s, bound.workload.family, graph, [p.stage.device for p in times.priced], bound_by, moved),
        problems=detail.problems,
        detail=detail,
        energy=energy_of(times),
        power_parts_w=_power_parts(bound, times),
        clock_share=times.drawn("clock"),
        **token_costs(bound, times),
        versions={"engine": engine_version(), "catalog": bound.catalog_digest, "zoo": bound.zoo_digest},
    )
