"""A scenario as more than one queue: its stages in a row, a pool of it behind the network, a NIC that forwards packets.

All take their times from `evaluate`'s schedule: idle, a request takes the scenario's latency in each, and a row of
stages carries the scenario's rate. Estimates, as good as the cost model.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from engine.cost.assemble import Schedule
from engine.devices import family
from engine.plan.schemes import Plan
from engine.scenario import Scenario
from engine.traffic.policies import PLAIN, DynamicBatching, NoBatching, Policy, Station, TandemQueue
from engine.traffic.scenario_load import checked, ladder, priced, service_table, sized, sizes_of
from engine.traffic.service import Resource, Service, TrafficError, whole
from engine.traffic.sizes import Mixed

ARRANGEMENTS = ("whole", "stages", "pool", "packets")
"""``whole``: one station (`scenario_load.load_of`); the others are this module's functions."""


def arrangements(scenario: Scenario) -> dict[str, str | None]:
    """Each arrangement, and None where the scenario can be put so, else the reason in a sentence."""
    bound, plan, _ = priced(scenario)
    refusals: dict[str, str | None] = dict.fromkeys(ARRANGEMENTS)
    together = not plan.pipelined or any(stage.turns for stage in plan.stages)
    joint = together or (len(plan.stages) == 1 and plan.stages[0].copies == 1)
    if any(stage.beside for stage in plan.stages):
        refusals["stages"] = (
            f"host_tables is {scenario.host_tables!r}: host and cards look up at once, which is no row of stations"
        )
    elif any(stage.streams for stage in plan.stages):
        refusals["stages"] = (
            "devices hand a sequence on step by step: several work on one at once, which is no row of stations"
        )
    elif joint or bound.graph.causal:
        refusals["stages"] = f"scheme is {scenario.scheme!r}: its parts do not overlap, so they make one station"
    if bound.graph.causal or not any(hop.wire.role == "network" for hop in plan.hops) or not joint:
        refusals["pool"] = (
            f"{bound.system.name}: a request of this scenario does not come over the network to one station"
        )
    if family(plan.stages[0].device.kind).packets is None or scenario.scheme != "on-path":
        refusals["packets"] = (
            f"{bound.system.name} with scheme {scenario.scheme!r} has no packets on their way to look at"
        )
    return refusals


def _require(scenario: Scenario, name: str) -> None:
    reason = arrangements(scenario)[name]
    if reason is not None:
        raise TrafficError(f"arrangement is {name!r}; {reason}")


def wires(plan: Plan, times: Schedule) -> list[tuple[str, str, float, float]]:
    """Wires of a plan as (link, way, time a request holds it, time it adds to the latency). [s]"""
    occupied, result = times.part("wire_s"), dict[int, tuple[str, str, float, float]]()
    for at, (hop, seconds) in zip(times.layout.wire_of, times.hops, strict=True):
        link, way, hold, adds = result.get(at, (hop.wire.link.name, hop.way, occupied[at], 0.0))
        result[at] = (link, way, hold, adds + seconds)
    return list(result.values())


def stages(
    scenario: Scenario, policy: Policy = PLAIN, sizes: Sequence[int] | None = None, sizes_are: str = "inputs"
) -> TandemQueue:
    """The stages of a pipelined scenario in a row, each with its queue: look-ups and the dense part over the cards,
    host and co-processor, two sockets; the wires between them are stations too.

    ``policy`` is that of the first stage; later ones take together what waits. A wire is held for what it bears of a
    request, as in the scenario's pace; one whose messages hide behind others' is counted, not queued for. ``sizes`` as
    in `scenario_load.service_table`. TrafficError for a request of several batches.
    """
    _require(scenario, "stages")
    grid, counts = sizes_of(sizes_are, sizes), ladder(whole("max_batch", policy.max_batch))
    checked(sized(scenario, sizes_are, grid[-1], policy.max_batch))
    points = [[priced(sized(scenario, sizes_are, size, count))[1:] for size in grid] for count in counts]
    if points[-1][-1][1].batches > 1:
        raise TrafficError(
            f"inputs is {scenario.inputs}: stages in a row take a batch at a time, so a request is at most its "
            f"{scenario.batch} items; a request of several batches is simulated whole"
        )
    rows_are = (1,) if sizes is None else tuple(sizes)
    plan = points[0][0][0]
    kinds = {stage.device.id for stage in plan.stages}
    copies = plan.replicas * scenario.streams
    row = []
    later = PLAIN if policy.max_batch == 1 else DynamicBatching(policy.max_batch, 0.0)  # takes what waits
    for at, stage in enumerate(plan.stages):
        seconds = [[t.priced[at].time_s for _, t in points_of_count] for points_of_count in points]
        service = Service.from_points(counts, seconds, servers=copies * stage.copies, sizes=rows_are)
        name = stage.device.name if len(kinds) == len(plan.stages) else stage.name
        row.append(Station(service, later if at else policy, name=name))
    before, behind, way_s = [], [], 0.0
    alone = [wires(*point) for point in points[0]]  # requests travel one by one
    links = [link for link, *_ in alone[0]]
    for at, (link, way, *_) in enumerate(alone[0]):
        name = link if links.count(link) == 1 else f"{link}, {way}"
        hold, adds = np.array([[alone_wires[at][k] for alone_wires in alone] for k in (2, 3)])[:, None, :]
        if adds.all() and hold.all():
            wire = Station(Service(hold, adds, servers=copies, sizes=rows_are), name=name, wire=True)
            (before if way == "in" else behind).append(wire)
        elif hold.any():
            first = row[0].service
            busy = Resource(np.broadcast_to(hold, first.hold_s.shape), copies)
            row[0] = replace(row[0], service=replace(first, resources={**first.resources, name: busy}))
        else:
            way_s += float(adds.max())
    return TandemQueue((*before, *row, *behind), way_s)


def pool(scenario: Scenario, policy: Policy = PLAIN, services: int = 1) -> TandemQueue:
    """``services`` copies of a scenario behind the network, shared by all clients: a hardware microservice.

    Requests queue for the ports (one a copy), then in one queue for all copies; a copy is free again when its devices
    are, while the answer still travels. Superposed Poisson clients are Poisson, so their number does not matter.
    """
    _require(scenario, "pool")
    counts = ladder(whole("max_batch", policy.max_batch))
    checked(sized(scenario, "inputs", None, policy.max_batch))
    points = [priced(sized(scenario, "inputs", None, count))[1:] for count in counts]
    plan, times = points[0]
    service_s = [[t.latency_s - sum(s for hop, s in t.hops if hop.wire.role == "network")] for _, t in points]
    copies = whole("services", services) * plan.replicas
    ways: dict[str, tuple[float, float]] = {}
    for hop, seconds in times.hops:
        if hop.wire.role == "network":
            busy, adds = ways.get(hop.way, (0.0, 0.0))
            wire_s = hop.bytes_per_message * hop.messages / hop.alike / hop.wire.link.usable
            ways[hop.way] = (busy + wire_s, adds + seconds)
    devices = Service.from_points(counts, service_s, servers=copies * scenario.streams)
    row = [Station(devices, policy, name="pool")]
    busy, adds = ways.get("in", (0.0, 0.0))
    if busy > 0 and adds > 0:
        row.insert(0, Station(Service(np.array([[busy]]), np.array([[adds]]), servers=copies), name="NIC", wire=True))
    return TandemQueue(tuple(row), ways.get("out", (0.0, 0.0))[1])


def packets(scenario: Scenario, share: float, places: int | None = None) -> tuple[TandemQueue, Mixed]:
    """A NIC that forwards every packet and runs the network on a ``share`` of them; requests are packets.

    The packet path is served at the rate its engines forward packets beside inference, in a buffer of ``places``; the
    packets asked about then queue for the executors, in as many places. A packet that is only forwarded takes its
    engine's cycles however many pass side by side; the way of one that is asked about is in the scenario's latency.
    Returns the system and its packets: size 1 is forwarded only, 2 is also classified and what latency is told of.
    The share in [-]. TrafficError for a share that is not above 0 and at most 1.
    """
    _require(scenario, "packets")
    if not 0.0 < share <= 1.0:
        raise TrafficError(f"share is {share!r}; it must lie above 0 and up to 1")
    inference = service_table(scenario)
    job = priced(scenario)[2].priced[0].runs[0].job
    packets_of = family(job.device.kind).packets
    assert packets_of is not None
    forward, alone = packets_of.times(job)
    policy = NoBatching(places)
    assert inference.latency_s is not None
    way = Service(np.full((1, 2), forward), np.array([[alone, forward]]), sizes=(1, 2))
    path = Station(way, policy, name="packet path", wire=True)
    ask = np.array([0.0, 1.0])
    executors = replace(
        inference, hold_s=inference.hold_s * ask, latency_s=inference.latency_s * ask, sizes=(1, 2), resources={}
    )
    chain = TandemQueue((path, Station(executors, policy, name="executors")), judged=2)
    return chain, Mixed((1, 2), (1.0 - share, share))
