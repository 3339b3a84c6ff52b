"""Cameras and the machines behind them, as a chain of tiers: where a network runs, or is cut, and what N cameras ask.

A tier is any device of the catalog, behind any link. A frame is computed by consecutive pieces of the network on the
tiers in order, a tier may have none. What a place takes is put together as `evaluate` does (`engine.cost.assemble`).
The best of all cuts is found from parts that add up, by dynamic programming over tiers and positions. Estimates;
machines, links and distances are assumptions of the catalog, as document 003 names the points only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import floor, inf
from typing import Literal

import numpy as np

from engine.analyses.cuts import CutParts, PricedCut, Times, check_format, price_cuts
from engine.cost.assemble import wire_busy, wire_time
from engine.cost.power_and_price import monthly
from engine.cost.report import ErrorBand
from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.plan.plan import second_format_of
from engine.plan.schemes import executors, split_wires
from engine.resolve.bind import Bound, bind
from engine.scenario import Scenario, ScenarioError, make
from engine.scenario.formats import BITS
from engine.traffic.arrivals import Poisson
from engine.traffic.estimates import Estimate
from engine.traffic.policies import PLAIN, DynamicBatching, Station, TandemQueue
from engine.traffic.scenario_load import ladder
from engine.traffic.service import Service
from engine.traffic.simulate import simulate
from hardware_specs.catalog import Catalog, default_catalog
from hardware_specs.quantity import Quantity, SpecError
from hardware_specs.schema import DeviceGroup, LinkUse, System

FIBRE_S_PER_M = 5e-9  # light in glass, one way
_MOST_CAMERAS = 1_000_000
Goal = Literal["latency", "throughput"]
"""Least time of a frame, or most cameras."""


@dataclass(frozen=True)
class Tier:
    """A machine on a frame's way, and the link to it from the tier before.

    Attributes
    ----------
    device, link : ids of the catalog; the first tier, where frames arise, has no link.
    precision : that it computes in.
    machines : at this tier; None: one for each camera.
    batch : frames taken together there under load, at most.
    format, compression : of a cut network's results on the link: None, as they are computed; bytes over those sent.
    metres : fibre on top of what the link's latency holds. [m]
    """

    name: str
    device: str
    link: str | None = None
    precision: str = "fp32"
    machines: int | None = 1
    batch: int = 1
    format: str | None = None
    compression: float = 1.0
    metres: float = 0.0


def row_of(scenario: Scenario) -> Scenario:
    """The scenario cut before its first operator, a frame at a time, on its own row of machines.

    Where its system is no row, on the three machines that document 003 names; what was set for its system is left out.
    """
    catalog = default_catalog()
    if catalog.system(scenario.system).topology in ("pair", "chain"):
        return scenario.with_(scheme="split", split=0, second_split=None, batch=1, streams=1)
    first = catalog.device(catalog.system("edge-metro-core").devices[0].device)
    offered = family(first.kind).formats(first)
    return Scenario(
        system="edge-metro-core",
        workload=scenario.workload,
        precision=scenario.precision if scenario.precision in offered else offered[0],
        scheme="split",
        params=scenario.params,
        costs=scenario.costs,
    )


def tiers_of(scenario: Scenario) -> tuple[Tier, ...]:
    """The machines and links of `row_of`, in its precision where they have it, frames as many as the scenario's batch.

    Before a camera's frame the first machine is one of each camera; ScenarioError or Unsupported as `bind` has it.
    """
    bound = bind(row_of(scenario))
    devices, batch = executors(bound), scenario.batch
    places = [group.tier for group in bound.system.devices for _ in range(group.count)]
    names = [place or f"{nth} machine" for nth, place in zip(("first", "second", "third"), places, strict=False)]
    each = None if bound.system.frame is not None else 1
    result = [Tier(names[0], devices[0].id, None, bound.scenario.precision, each, batch)]
    for name, device, wire in zip(names[1:], devices[1:], split_wires(bound), strict=True):
        format, crosses = second_format_of(bound, device), wire.format or None
        result.append(Tier(name, device.id, wire.link.id, format, 1, batch, crosses, wire.compression))
    return tuple(result)


@dataclass(frozen=True)
class Camera:
    """Streams of frames: how many cameras, frames a second of each, and bytes of a frame after its encoder."""

    frames_per_s: float = 5.0
    frame_bytes: float | None = None  # None: the system's own, or an image as the network takes it
    cameras: int = 1


@dataclass(frozen=True)
class Cascade:
    """A small network that sees every frame on the first tier, and the share of frames that it passes on."""

    workload: str
    passed: float


@dataclass(frozen=True)
class Placement:
    """One way to serve the cameras. Times are of a frame that is passed on, without queueing. [s]"""

    name: str
    cuts: tuple[int, ...]  # operators before each link
    after: str  # last operators before each cut inside the network
    latency_s: float  # from a frame to its answer
    travel_s: float  # frame or intermediate out, answer back
    answer_s: float  # of it, the answer's way back
    compute_s: float
    stage_s: tuple[float, ...]  # of the network at each tier
    link_bytes: tuple[float, ...]  # of a frame over each link, outwards
    uplink_bytes_per_s: float  # of one camera over the first link
    cameras: int | None  # that tiers and links keep up with; None: any number
    meets_limit: bool
    watts: float | None  # of all machines at this load; None where a power is not published
    joules_per_frame: float | None
    usd_per_month: float | None  # machines and links over their years of use, and energy; None where no price is known
    error_band: ErrorBand  # of the executors' times


def _check(tier: Tier) -> None:
    """ScenarioError for a tier that no network can be laid on."""
    machines = 1 if tier.machines is None else tier.machines
    counts = ("machines", machines, 1), ("batch", tier.batch, 1)
    for name, value, least in (*counts, ("compression", tier.compression, 1.0), ("metres", tier.metres, 0.0)):
        if not least <= value < inf:
            raise ScenarioError(f"{name} of the {tier.name} is {value:g}; allowed: {least:g} or more")
    if tier.format is not None and tier.format not in BITS:
        raise ScenarioError(
            f"format of the link to the {tier.name} is {tier.format[:20]!r}; allowed: {', '.join(BITS)}"
        )


@dataclass(frozen=True)
class CameraNetwork:
    """A scenario's network on a row of machines behind cameras, checked; ScenarioError in one sentence.

    Attributes
    ----------
    scenario : as of `row_of`; all of it counts, what-ifs too, while the machines and links are its own.
    tiers : those machines and links, or any of the catalog.
    """

    scenario: Scenario
    tiers: tuple[Tier, ...]
    camera: Camera = Camera()
    cascade: Cascade | None = None

    def __post_init__(self) -> None:
        if len(self.tiers) not in (2, 3):
            raise ScenarioError(f"tiers are {len(self.tiers)}; allowed: 2 or 3")
        for name, value in (("frames_per_s", self.camera.frames_per_s), ("frame_bytes", self.camera.frame_bytes)):
            if value is not None and not 0 < value < inf:
                raise ScenarioError(f"{name} is {value:g}; allowed: above 0")
        for tier in self.tiers:
            _check(tier)
        if not 1 <= self.camera.cameras <= _MOST_CAMERAS:
            raise ScenarioError(f"cameras is {self.camera.cameras}; allowed: 1 to {_MOST_CAMERAS:,}")
        if self.cascade is not None and not 0.0 < self.cascade.passed <= 1.0:
            raise ScenarioError(f"pass rate is {self.cascade.passed:g}; allowed: above 0, at most 1")
        if not self.bound.graph.seen:
            raise Unsupported(f"{self.bound.workload.name} takes no image: a camera's frame is no request of it.")

    @cached_property
    def own(self) -> bool:
        """Whether machines and links are those of the scenario's system."""
        here, own = (
            [(tier.device, tier.link, tier.format, tier.compression, tier.metres) for tier in tiers]
            for tiers in (self.tiers, tiers_of(self.scenario))
        )
        return here == own

    def _system(self) -> tuple[System, Catalog]:
        """The tiers as a system, in a catalog that has it."""
        links, catalog = [], default_catalog()
        for at, tier in enumerate(self.tiers[1:]):
            if tier.link is None:
                raise ScenarioError(f"link of the {tier.name} is not set; a link from the tier before it is needed")
            try:
                link = catalog.link(tier.link)
            except SpecError as error:
                raise ScenarioError(str(error)) from None
            latency = link.latency.si + tier.metres * FIBRE_S_PER_M
            far = Quantity(value=f"{latency!r} s", basis="assumed", note="with fibre that the user adds")
            links.append(
                link.model_copy(update={"id": f"tier-{at + 1}", "latency": far if tier.metres else link.latency})
            )
        system = System(
            schema_version=1,
            id="camera-tiers",
            name=" to ".join(tier.name for tier in self.tiers),
            summary="Tiers behind cameras.",
            topology="chain",
            devices=tuple(DeviceGroup(device=tier.device, count=1) for tier in self.tiers),
            links=tuple(
                LinkUse(link=link.id, role=role, compression=tier.compression, format=tier.format)
                for link, tier, role in zip(links, self.tiers[1:], ("peer", "backhaul"), strict=False)
            ),
            frame=catalog.system(self.scenario.system).frame,
            schemes=("split",),
        )
        return system, catalog.with_system(system, tuple(links))

    @cached_property
    def bound(self) -> Bound:
        """The network on them, cut before its first operator, with everything it names."""
        first = self.tiers[0].precision
        if self.own:
            bound = bind(self.scenario.with_(precision=first))
        else:
            system, catalog = self._system()
            fields = {"system": system.id, "workload": self.scenario.workload, "precision": first, "scheme": "split"}
            bound = bind(make(fields | self.scenario.model_dump(include={"params", "costs"})), catalog)
        if self.camera.frame_bytes is None:
            return bound
        frame = Quantity(value=f"{self.camera.frame_bytes!r} B", basis="assumed", note="as the user says")
        return replace(bound, system=bound.system.model_copy(update={"frame": frame}))

    @property
    def formats(self) -> tuple[str, ...]:
        """That each tier computes in."""
        return tuple(tier.precision for tier in self.tiers)

    @cached_property
    def refusals(self) -> dict[str, str]:
        """Tiers that can't run the whole network, each with the reason."""
        reasons: dict[str, str] = {}
        for at, tier in enumerate(self.tiers):
            try:
                device = executors(self.bound)[at]
                check_format(tier.name, device, tier.precision)
                reason = family(device.kind).supports(device, self.bound.graph, tier.precision)
            except ScenarioError as error:
                reason = str(error)
            if reason:
                reasons[tier.name] = reason
        return reasons

    def placements(self, limit_s: float | None = None, goal: Goal = "latency") -> tuple[Placement, ...]:
        """The best cut for every set of tiers that can share the network, whole networks at one tier among them.

        Unsupported, with the first reason, where none can.
        """
        parts, result = CutParts(self.bound, self.formats), []
        loads = None if goal == "latency" else self._loads(parts)
        for size in range(1, len(self.tiers) + 1):
            for used in combinations(range(len(self.tiers)), size):
                cuts = parts.best(used, loads)
                if cuts is not None:
                    result.append(_placement(self, used, price_cuts(self.bound, self.formats, cuts), limit_s))
        if not result:
            raise Unsupported(next(iter(self.refusals.values())))
        return tuple(result)

    def _loads(self, parts: CutParts) -> tuple[Times, Times]:
        """Time that a frame takes of each link, and of all machines of a tier together. [s]

        Machines of which each camera has one set no pace, but can't take longer than until its next frame.
        """
        loads = []
        for at, (tier, seconds) in enumerate(zip(self.tiers, parts.tiers, strict=True)):
            load = seconds * self.passed + (self.filter_s if not at else 0.0)
            own = np.where(load * self.camera.frames_per_s <= 1.0, 0.0, inf)
            loads.append(own if tier.machines is None else load / tier.machines)
        return [busy * self.passed for busy in parts.link_busy], loads

    @property
    def filter_s(self) -> float:
        """Time of a cascade's small network on a machine of the first tier. [s]"""
        return self._filter[0]

    @cached_property
    def _filter(self) -> tuple[float, float]:
        """What a cascade's small network takes of a machine of the first tier, and draws beside its floor. [s], [J]"""
        if self.cascade is None:
            return 0.0, 0.0
        small = self.scenario.with_(workload=self.cascade.workload, params={}, layers={}, tile=())
        first = replace(self, scenario=small, cascade=None)
        cuts = [len(first.bound.graph.phases[0].ops)] * (len(self.tiers) - 1)
        priced = price_cuts(first.bound, first.formats, cuts)
        return priced.stage_s[0], priced.stage_j[0]

    def of_frame(self, at: int, seconds: float, joules: float) -> tuple[float, float]:
        """Time and energy that a camera's frame takes of a tier, of those of a frame that the network sees. [s], [J]"""
        own_s, own_j = (0.0, 0.0) if at else self._filter
        return seconds * self.passed + own_s, joules * self.passed + own_j

    @property
    def passed(self) -> float:
        """Share of frames that the network sees. [-]"""
        return 1.0 if self.cascade is None else self.cascade.passed


def _placement(network: CameraNetwork, used: Sequence[int], priced: PricedCut, limit: float | None) -> Placement:
    """A way to cut with everything it asks."""
    ops, tiers, camera, cuts = network.bound.graph.phases[0].ops, network.tiers, network.camera, priced.cuts
    wires, hops = split_wires(network.bound), list(zip(priced.plan.hops, priced.figures.hop_s, strict=True))
    answer = sum(s for hop, s in hops if hop.way == "out")
    sent = tuple(sum(hop.bytes_per_message for hop, _ in hops if hop.wire == w and hop.way != "out") for w in wires)
    rate, limits = network.passed * camera.frames_per_s, []
    loads = _tier_loads(network, priced)
    for tier, (load, _) in zip(tiers, loads, strict=True):
        if tier.machines is None:
            limits.append(inf if load * camera.frames_per_s <= 1.0 + 1e-12 else 0.0)
        elif load:
            limits.append(tier.machines / load / camera.frames_per_s)
    for wire, size in zip(wires, sent, strict=True):
        limits += [1.0 / wire_busy(wire, size) / rate] if size else []
    most, latency = min(limits), priced.figures.latency_s + network.filter_s
    travel = sum(s for _, s in hops)
    watts, usd = _bill(network, loads, sent)
    return Placement(
        name=" and ".join(tiers[at].name for at in used),
        cuts=cuts,
        after=", ".join(dict.fromkeys(ops[at - 1].name for at in cuts if 0 < at < len(ops))),
        latency_s=latency,
        travel_s=travel,
        answer_s=answer,
        compute_s=latency - travel,
        stage_s=priced.stage_s,
        link_bytes=sent,
        uplink_bytes_per_s=sent[0] * rate,
        cameras=None if most == inf else floor(most * (1 + 1e-12)),
        meets_limit=limit is None or latency <= limit,
        watts=watts,
        joules_per_frame=None if watts is None else watts / camera.cameras / camera.frames_per_s,
        usd_per_month=usd,
        error_band=priced.error_band,
    )


def _tier_loads(network: CameraNetwork, priced: PricedCut) -> list[tuple[float, float]]:
    """Time and energy that a frame of any camera takes of a machine of each tier, at the tier's own batch. [s], [J]"""
    loads = []
    for at, (tier, alone) in enumerate(zip(network.tiers, priced.stage_s, strict=True)):
        count = tier.batch if alone else 1
        batched = price_cuts(network.bound, network.formats, priced.cuts, count) if count > 1 else priced
        loads.append(network.of_frame(at, batched.stage_s[at] / count, batched.stage_j[at] / count))
    return loads


def _bill(
    network: CameraNetwork, loads: Sequence[tuple[float, float]], sent: Sequence[float]
) -> tuple[float | None, float | None]:
    """What machines that work draw together [W], and what they, their links and their energy cost a month [USD]."""
    camera, machines = network.camera, []
    for tier, device, (load, joules) in zip(network.tiers, executors(network.bound), loads, strict=True):
        if load:
            count = camera.cameras if tier.machines is None else tier.machines
            share = min(1.0, load * camera.cameras * camera.frames_per_s / count)
            machines.append((device, count, share, joules / load))
    links = [wire.link for wire, size in zip(split_wires(network.bound), sent, strict=True) if size]
    return monthly(network.bound, machines, links)


def p99_s(network: CameraNetwork, place: Placement, requests: int = 20_000, seed: int = 0) -> Estimate | None:
    """99th percentile of the time of a passed frame with all cameras at work, frames batched where a tier says. [s]

    Frames of many cameras come independently (Poisson). Tiers and links are stations of one queue each; a machine of
    which each camera has one takes its frames one by one and queues none. None where they are more than it carries.
    """
    camera, row, way = network.camera, [], network.filter_s
    for at, (tier, alone) in enumerate(zip(network.tiers, place.stage_s, strict=True)):
        if tier.machines is None:
            way += alone
        elif alone:
            counts = ladder(tier.batch)
            priced = [price_cuts(network.bound, network.formats, place.cuts, count) for count in counts]
            seconds = [[one.stage_s[at]] for one in priced]
            policy = PLAIN if tier.batch == 1 else DynamicBatching(tier.batch, 0.0)
            row.append(Station(Service.from_points(counts, seconds, servers=tier.machines), policy, name=tier.name))
        if at < len(place.link_bytes) and place.link_bytes[at]:
            wire = split_wires(network.bound)[at]
            size = place.link_bytes[at]
            hold, adds = wire_busy(wire, size), wire_time(wire, size)
            row.append(Station(Service(np.array([[hold]]), np.array([[adds]])), name=f"link {at + 1}", wire=True))
    if place.cameras is not None and place.cameras < camera.cameras:
        return None
    if not row:
        return Estimate(place.latency_s, place.latency_s, place.latency_s)
    arrivals = Poisson(camera.cameras * camera.frames_per_s * network.passed)
    report = simulate(TandemQueue(tuple(row), way + place.answer_s), arrivals, requests=requests, seed=seed)
    return report.latency.p99 if report.latency is not None else None
