"""Where a network lies on the machines behind cameras, or is cut, and what N cameras ask of each way. Estimates.

What a place takes is put together as `evaluate` does (`engine.cost.assemble`). The best of all cuts is found from parts
that add up, by dynamic programming over tiers and positions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import floor, inf
from typing import Literal

import numpy as np

from engine.analyses.camera import CameraNetwork
from engine.analyses.cuts import CutParts, PricedCut, Times, price_cuts
from engine.cost.assemble import wire_busy, wire_time
from engine.cost.error_bands import ErrorBand
from engine.cost.power_and_price import idle_power, monthly
from engine.devices.common.contract import Unsupported
from engine.plan.schemes import executors, split_wires
from engine.traffic.arrivals import Poisson
from engine.traffic.estimates import Estimate
from engine.traffic.policies import PLAIN, DynamicBatching, Station, TandemQueue
from engine.traffic.scenario_load import ladder
from engine.traffic.service import Service
from engine.traffic.simulate import simulate
from engine.traffic.sizes import Fixed, Mixed

Goal = Literal["latency", "throughput"]
"""Least time of a frame, or most cameras."""
_LEAST_REQUESTS, _MOST_REQUESTS = 20_000, 400_000


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
    watts: float | None  # of all machines at this load; None where a power is not published
    joules_per_frame: float | None
    usd_per_month: float | None  # machines and links over their years of use, and energy; None where no price is known
    error_band: ErrorBand  # of the executors' times
    p99_s: float | None = None  # of several cameras, which queue; None where they are more than it carries
    meets_limit: bool = True  # a frame of one camera, 99% of those of several


def placements(network: CameraNetwork, limit_s: float | None = None, goal: Goal = "latency") -> tuple[Placement, ...]:
    """The best cut for every set of tiers that can share the network, whole networks at one tier among them.

    Unsupported, with the first reason, where none can.
    """
    parts, result = CutParts(network.bound, network.formats), []
    loads = None if goal == "latency" else _loads(network, parts)
    for size in range(1, len(network.tiers) + 1):
        for tiers in combinations(range(len(network.tiers)), size):
            cuts = parts.best(tiers, loads)
            if cuts is not None:
                place = _placement(network, tiers, price_cuts(network.bound, network.formats, cuts))
                tail = p99_s(network, place) if network.camera.cameras > 1 else None
                slow = place.latency_s if network.camera.cameras == 1 else tail.value if tail else inf
                in_time = limit_s is None or slow <= limit_s
                result.append(replace(place, p99_s=tail.value if tail else None, meets_limit=in_time))
    if not result:
        raise Unsupported(next(iter(network.refusals.values())))
    return tuple(result)


def best_of(places: Iterable[Placement], cameras: int) -> tuple[Placement, Placement] | None:
    """The places of least latency and of most cameras that keep the limit and up with so many; None: there are none."""
    able = [p for p in places if p.meets_limit and (p.cameras is None or p.cameras >= cameras)]
    if not able:
        return None
    return min(able, key=lambda p: p.latency_s), max(able, key=lambda p: p.cameras or inf)


def _loads(network: CameraNetwork, parts: CutParts) -> tuple[Times, Times]:
    """Time that a frame takes of each link, and of all machines of a tier together, at the tier's own batch. [s]

    Machines of which each camera has one set no pace, but can't take longer than until its next frame.
    """
    loads = []
    for at, tier in enumerate(network.tiers):
        seconds = parts.tiers[at] if tier.batch == 1 else parts.tier(at, tier.batch) / tier.batch
        load = seconds * network.pass_rate + (network.filter_s if not at else 0.0)
        camera_load = np.where(load * network.camera.frames_per_s <= 1.0, 0.0, inf)
        loads.append(camera_load if tier.machines is None else load / tier.machines)
    return [busy * network.pass_rate for busy in parts.link_busy], loads


def _placement(network: CameraNetwork, places: Sequence[int], cut: PricedCut) -> Placement:
    """A way to cut with everything it asks."""
    ops, tiers, camera, cuts = network.bound.graph.phases[0].ops, network.tiers, network.camera, cut.cuts
    wires, hops = split_wires(network.bound), list(zip(cut.plan.hops, cut.figures.part("hop_s"), strict=True))
    answer = sum(s for hop, s in hops if hop.way == "out")
    sizes = tuple(sum(hop.bytes_per_message for hop, _ in hops if hop.wire == w and hop.way != "out") for w in wires)
    rate, limits = network.pass_rate * camera.frames_per_s, []
    loads = _tier_loads(network, cut)
    for tier, (load, _) in zip(tiers, loads, strict=True):
        if tier.machines is None:
            limits.append(inf if load * camera.frames_per_s <= 1.0 + 1e-12 else 0.0)
        elif load:
            limits.append(tier.machines / load / camera.frames_per_s)
    for wire, size in zip(wires, sizes, strict=True):
        limits += [1.0 / wire_busy(wire, size) / rate] if size else []
    limit, latency = min(limits), cut.figures.latency_s + network.filter_s
    travel = sum(s for _, s in hops)
    watts, usd = _bill(network, loads, sizes)
    return Placement(
        name=" and ".join(tiers[at].name for at in places),
        cuts=cuts,
        after=", ".join(dict.fromkeys(ops[at - 1].name for at in cuts if 0 < at < len(ops))),
        latency_s=latency,
        travel_s=travel,
        answer_s=answer,
        compute_s=latency - travel,
        stage_s=cut.stage_s,
        link_bytes=sizes,
        uplink_bytes_per_s=sizes[0] * rate,
        cameras=None if limit == inf else floor(limit * (1 + 1e-12)),
        watts=watts,
        joules_per_frame=None if watts is None else watts / camera.cameras / camera.frames_per_s,
        usd_per_month=usd,
        error_band=cut.error_band,
    )


def _tier_loads(network: CameraNetwork, cut: PricedCut) -> list[tuple[float, float]]:
    """Time and energy that a frame of any camera takes of a machine of each tier, at the tier's own batch. [s], [J]"""
    loads = []
    for at, (tier, alone) in enumerate(zip(network.tiers, cut.stage_s, strict=True)):
        count = tier.batch if alone else 1
        batch_cut = price_cuts(network.bound, network.formats, cut.cuts, count) if count > 1 else cut
        loads.append(network.of_frame(at, batch_cut.stage_s[at] / count, batch_cut.stage_j[at] / count))
    return loads


def _bill(
    network: CameraNetwork, loads: Sequence[tuple[float, float]], link_bytes: Sequence[float]
) -> tuple[float | None, float | None]:
    """What machines that work draw together [W], and what they, their links and their energy cost a month [USD]."""
    camera, machines = network.camera, []
    for tier, device, (load, joules) in zip(network.tiers, executors(network.bound), loads, strict=True):
        count = camera.cameras if tier.machines is None else tier.machines
        share = min(1.0, load * camera.cameras * camera.frames_per_s / count)
        machines.append((device, count, share, joules / load) if load else (device, 0, 0.0, 0.0))
    links = [wire.link for wire, size in zip(split_wires(network.bound), link_bytes, strict=True) if size]
    return monthly(network.bound, machines, links)


def idle_notes(network: CameraNetwork) -> tuple[str, ...]:
    """What the power of machines that work in part assumes, a sentence for each kind of them."""
    notes = (idle_power(network.bound, device)[1] for device in executors(network.bound))
    return tuple(dict.fromkeys(filter(None, notes)))


def p99_s(network: CameraNetwork, place: Placement, requests: int | None = None) -> Estimate | None:
    """99th percentile of the time of a passed frame with all cameras at work, frames batched where a tier says. [s]

    Frames of many cameras come independently (Poisson). Tiers and links are stations of one queue each; a machine of
    which each camera has one takes its frames one by one and queues none. First machines that are shared take every
    frame of a cascade, one at a time, and what they drop passes what comes behind them by. None where they are more
    than it carries. Where no number of ``requests`` is given it grows with the square of the time that queues take to
    settle, up to `_MOST_REQUESTS`.
    """
    camera, tiers, carried = network.camera, network.tiers, place.cameras
    if carried is not None and carried < camera.cameras:
        return None
    shared = network.cascade is not None and tiers[0].machines is not None
    drops = shared and network.pass_rate < 1.0
    sizes, asks = ((1, 2), np.array([0.0, 1.0])) if drops else ((1,), np.array([1.0]))  # dropped, passed on
    row, way = list[Station](), 0.0 if shared else network.filter_s
    for at, (tier, alone) in enumerate(zip(tiers, place.stage_s, strict=True)):
        filter_s = network.filter_s if shared and not at else 0.0
        if tier.machines is None:
            way += alone
        elif alone or filter_s:
            counts = [1] if filter_s else ladder(tier.batch)
            cuts = [price_cuts(network.bound, network.formats, place.cuts, count) for count in counts]
            seconds = np.outer([cut.stage_s[at] for cut in cuts], asks) + filter_s
            policy = PLAIN if len(counts) == 1 else DynamicBatching(tier.batch, 0.0)
            service = Service.from_points(counts, seconds, servers=tier.machines, sizes=sizes)
            row.append(Station(service, policy, name=tier.name))
        if at < len(place.link_bytes) and place.link_bytes[at]:
            wire = split_wires(network.bound)[at]
            hold, adds = (asks[None, :] * f(wire, place.link_bytes[at]) for f in (wire_busy, wire_time))
            row.append(Station(Service(hold, adds, sizes=sizes), name=f"link {at + 1}", wire=True))
    if not row:
        return Estimate(*[way + place.answer_s] * 3)
    if requests is None:
        spare = 1.0 if carried is None else 1.0 - camera.cameras / (carried + 1.0)
        requests = int(min(_MOST_REQUESTS, _LEAST_REQUESTS / (network.pass_rate if drops else 1.0) / spare**2))
    queue = TandemQueue(tuple(row), way + place.answer_s, judged=sizes[-1])
    arrivals = Poisson(camera.cameras * camera.frames_per_s * (1.0 if shared else network.pass_rate))
    frames = Mixed(sizes, (1.0 - network.pass_rate, network.pass_rate)) if drops else Fixed(1)
    report = simulate(queue, arrivals, sizes=frames, requests=requests)
    return report.latency.p99 if report.latency is not None else None
