"""(workload, system, mapping) -> Plan: which part runs where, and what crosses which wire."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, takewhile

from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.plan.data_parallel import data_parallel
from engine.plan.embedding_shards import shard_tables
from engine.plan.parallel import parallel, shared_otherwise
from engine.plan.plan import (
    Hop,
    Plan,
    Stage,
    crossing_bytes,
    entering_bytes,
    every_op,
    host_hops,
    leaving_bytes,
    overlaps,
    path_hops,
    second_format_of,
)
from engine.resolve.bound import Bound, Wire
from engine.scenario import ScenarioError
from hardware_specs.schema import Device
from model_zoo.ops import Graph, Op, recurrence


def _single(bound: Bound) -> Plan:
    s = bound.scenario
    stage = Stage("network", bound.device, 1, every_op(bound.graph), s.precision)
    idle = f"One of {s.devices} devices works; the others are counted neither in power nor in price."
    notes = (idle,) if s.scheme == "single" and s.devices > 1 else ()
    return Plan((stage,), host_hops(bound), 1, (1,), overlaps(bound), notes)


def _whole_network(bound: Bound) -> Plan:
    return data_parallel(bound) or _single(bound)


def _replicas(bound: Bound) -> Plan:
    count = bound.scenario.devices
    return data_parallel(bound) or replace(_single(bound), replicas=count, devices_used=(count,))


def _peers(bound: Bound, count: int) -> Wire | None:
    """The wire between devices that work on one request."""
    wire = bound.wire("peer") or bound.wire("switch") or bound.wire("network")
    if count > 1 and wire is None:
        raise ScenarioError(f"scheme is {bound.scenario.scheme!r}: {bound.system.name} has no link between its devices")
    far = bound.wire("scale-out")
    return replace(wire, beyond=far.link) if wire and far else wire


def _tensor(bound: Bound, clusters: int = 1) -> Plan:
    """Every operator cut over all devices, or over each of so many groups of them that serve requests of their own."""
    count = bound.scenario.devices
    ways = count // clusters
    if ways * clusters != count:
        raise ScenarioError(
            f"devices is {count}: {bound.system.name} makes {clusters} clusters of them, so a multiple of {clusters} "
            "is allowed"
        )
    if count == 1:
        return _whole_network(bound)
    if shared_otherwise(bound.scenario):
        return parallel(bound, _peers(bound, ways))
    plan = data_parallel(bound, ways) if bound.system.topology == "switch" else None
    if plan is not None:
        return plan
    stage = Stage("network", bound.device, ways, every_op(bound.graph), bound.scenario.precision, _peers(bound, ways))
    return Plan((stage,), host_hops(bound), clusters, (count,), overlaps(bound))


def _pipeline(bound: Bound) -> Plan:
    """Layers dealt over the devices in order, so that none has more work than it must; a request is on one at a time.

    Families that offer it hand over by their own programs: no hop stands between the stages.
    """
    s, ops = bound.scenario, bound.graph.phases[0].ops
    layers, wire = max(op.layers for op in ops), _peers(bound, s.devices)
    if s.devices > layers:
        raise ScenarioError(
            f"devices is {s.devices}: scheme 'pipelined' gives each a layer at least, and {bound.workload.name} has "
            f"{layers}, so 1 to {layers} are allowed"
        )
    repeats = [i for i, op in enumerate(ops) if op.layers == layers]
    before, layer_flops, after = (
        sum(op.flops.at(1, 1, 1) for op in part)
        for part in (ops[: repeats[0]], ops[repeats[0] : repeats[-1] + 1], ops[repeats[-1] + 1 :])
    )
    layers_of, stages = [1] * s.devices, []
    load = [layer_flops] * s.devices
    load[0], load[-1] = load[0] + before, load[-1] + after
    for _ in range(layers - s.devices):
        lightest = load.index(min(load))
        layers_of[lightest], load[lightest] = layers_of[lightest] + 1, load[lightest] + layer_flops
    for i, count in enumerate(layers_of):
        low = 0 if i == 0 else repeats[0]
        high = len(ops) if i == s.devices - 1 else repeats[-1] + 1
        names = frozenset(op.name for op in ops[low:high])
        stages.append(Stage(f"part {i + 1}", bound.device, 1, names, s.precision, wire, layers=count, place=i))
    notes = (
        f"Layers on the devices: {', '.join(map(str, layers_of))}. A request is on one of them at a time, its input "
        f"tokens too, so {s.devices} requests under way reach the throughput.",
    )
    hops = host_hops(bound, s.devices)
    return Plan(tuple(stages), hops, 1, (s.devices,), s.devices > 1 or overlaps(bound), notes)


def _cut_hop(bound: Bound, part: int, at: int, wire: Wire, format: str) -> Hop:
    """What part number ``part``, which computes in that format, hands on at a cut before operator number ``at``.

    Every producer's output that a later operator reads; where none does, the last one's. [B]
    """
    s, ops = bound.scenario, bound.graph.phases[0].ops
    passes = sum(p.repeat.at(s.inputs, s.outputs) for p in bound.graph.phases)
    before, crossed = {op.name: op for op in ops[:at]}, wire.format or bound.family.streamed_io or format
    names = dict.fromkeys(name for op in ops[at:] for name in op.inputs if name in before)  # in order: sums are too
    producers = [before[name] for name in names or (ops[at - 1].name,)]
    crossing = sum(crossing_bytes(op, crossed, s.batch, float(s.inputs)) for op in producers) / wire.compression
    pieces = 1.0 * s.inputs if bound.family.streamed_io and ops[at - 1].steps.s else 1.0
    name, way = f"cut after {ops[at - 1].name}", f"to part {part + 2}"
    return Hop(name, wire, crossing, passes, pieces, way=way, after=part + 1)


def cut_hops(bound: Bound, formats: Sequence[str], cuts: Sequence[int]) -> tuple[Hop, ...]:
    """What crosses each wire of a split network: at a cut inside it a part's results, at either end the whole's."""
    wires, last = split_wires(bound), len(bound.graph.phases[0].ops)
    inside = [(i, at) for i, at in enumerate(cuts) if 0 < at < last]
    inner = (_cut_hop(bound, i, at, wires[i], formats[i]) for i, at in inside)
    return (*inner, *_end_hops(bound, wires, cuts))


def _end_hops(bound: Bound, wires: Sequence[Wire], cuts: Sequence[int]) -> tuple[Hop, ...]:
    """What enters, sent past executors that run nothing of it, and the answer of a camera's frame on its way back.

    Nothing enters so where a wire brings it to either. A camera's frame crosses as it is encoded.
    """
    s, frame, last = bound.scenario, bound.system.frame, len(bound.graph.phases[0].ops)
    hops: list[Hop] = []
    if not (bound.wire("host") or bound.wire("network")):
        seen = frame is not None and bound.graph.seen
        size = frame.si * s.batch if frame is not None and seen else entering_bytes(bound, s.inputs)
        hops += [Hop("input to the next executor", wire, size, 1.0) for wire, at in zip(wires, cuts) if not at]
    if frame is not None:
        answer = leaving_bytes(bound)
        hops += [
            Hop("answer", wire, answer, 1.0, way="out", after=len(cuts) + 1)
            for wire, at in zip(wires, cuts)
            if at < last
        ]
    return tuple(hops)


def _streams(ops: Sequence[Op]) -> bool:
    """Whether each step of a sequence passes all of these operators before the next one must have entered.

    A recurrence in both directions hands on its first step last, and a window or a mean wants several.
    """
    by_name = {op.name: op for op in ops}
    before = [(op, by_name[name]) for op in ops if op.contraction for name in op.inputs if name in by_name]
    one_way = all(op.k.coef <= source.writes.coef for op, source in before if source.sequential)
    return one_way and ops[0].steps.s > 0 and len({op.steps for op in ops}) == 1


def _chain(
    bound: Bound, cuts: Sequence[int], devices: Sequence[Device], formats: Sequence[str], wires: Sequence[Wire]
) -> Plan:
    """The first phase's ops cut into consecutive stages, each cut over its wire from device to device.

    Where both of two executors step through the sequence, the second starts as soon as the first has sent a step.
    """
    ops = list(bound.graph.phases[0].ops)
    edges = [0, *cuts, len(ops)]
    stages, hops = [], list(host_hops(bound))
    for i, (low, high) in enumerate(pairwise(edges)):
        names = frozenset(op.name for op in ops[low:high])
        if names:
            pieces = all(family(device.kind).streamed_io for device in devices[i - 1 : i + 1])
            follows = stages and wires and pieces and _streams(ops[edges[i - 1] : high])
            streams = hops[-1].name if follows else ""
            stages.append(Stage(f"part {i + 1}", devices[i], 1, names, formats[i], streams=streams, place=i))
        if 0 < high < len(ops) and wires:
            hops.append(_cut_hop(bound, i, high, wires[i], formats[i]))
    return Plan(tuple(stages), tuple(hops), 1, (), len(stages) > 1 or overlaps(bound))


def part_of(graph: Graph, ops: Sequence[Op]) -> Graph:
    """The graph with only those operators."""
    names = {op.name for op in ops}
    return graph.map_ops(lambda op: op if op.name in names else None)


def executors(bound: Bound) -> tuple[Device, ...]:
    """Who takes the parts of a split network: the devices; a single one and the host behind its path, or its twin."""
    if len(bound.devices) > 1:
        return bound.devices
    behind = bound.host if bound.system.topology == "on-path" else None
    return bound.device, behind or bound.device


def split_wires(bound: Bound) -> tuple[Wire, ...]:
    """The wire from each executor to the next one; ScenarioError where there is none."""
    wire, onward = bound.wire("peer") or bound.wire("host") or bound.wire("network"), bound.wire("backhaul")
    if wire is None:
        raise ScenarioError(f"scheme is 'split': {bound.system.name} has no link between two executors")
    return (wire,) if onward is None else (wire, onward)


def _split(bound: Bound) -> Plan:
    """First `split` ops on the first executor; of three, those from `second_split` on on the third."""
    s, later = bound.scenario, executors(bound)[1:]
    second = len(bound.graph.phases[0].ops) if s.second_split is None else s.second_split
    formats = s.precision, *(second_format_of(bound, device) for device in later)
    return split_plan(bound, formats, (s.split, second)[: len(later)])


def split_plan(bound: Bound, formats: Sequence[str], cuts: Sequence[int]) -> Plan:
    """The same over as many executors as formats, each from a cut to the next one: positions of operators.

    ScenarioError or Unsupported where an executor can't run its part.
    """
    ops = bound.graph.phases[0].ops
    if cuts[0] > len(ops):
        raise ScenarioError(
            f"split is {cuts[0]}: {bound.workload.name} has {len(ops)} operators, so 0 to {len(ops)} is allowed"
        )
    devices, wires = executors(bound), split_wires(bound)
    for device, format, (low, high) in zip(devices, formats, pairwise([0, *cuts, len(ops)]), strict=True):
        part = part_of(bound.graph, ops[low:high])
        reason = family(device.kind).supports(device, part, format) if high > low else None
        if reason:
            raise Unsupported(reason)
    plan = _chain(bound, cuts, devices, formats, wires)
    plan = replace(plan, hops=(*plan.hops, *_end_hops(bound, wires, cuts)))
    places = [stage.place for stage in plan.stages]
    counts = (len(places),) if len(bound.devices) == 1 else tuple(map(places.count, range(len(devices))))
    return replace(plan, devices_used=counts)


def _units(ops: Sequence[Op], gates: bool) -> list[int]:
    """Where the network may be cut: before weights, but not inside a recurrence, nor inside layers that are one op
    each, for a request goes through all ops of a layer before the next one. Positions of the first ops.

    With `gates`, what a recurrence makes of its inputs (W) may lie apart from what it makes of its state (U).
    """
    starts, at = [], 0
    while at < len(ops):
        if not at or ops[at].stored > 0:
            starts.append(at)
        layers = sum(1 for _ in takewhile(lambda op, copies=ops[at].layers: op.layers == copies > 1, ops[at:]))
        cell = recurrence(ops, at)
        if gates and cell > 1 and ops[at].layers == 1 and not ops[at].sequential:
            starts.append(at + 1)
        at += cell or layers or 1
    return starts


@lru_cache(maxsize=2048)
def _depth_first(graph: Graph, gates: bool, count: int) -> tuple[int, ...]:
    """Where to cut ops so that each of at most `count` devices takes units in order until its share is full."""
    ops = graph.phases[0].ops
    total = sum(op.stored * op.layers for op in ops)
    cuts, load, here = [], 0.0, 0.0
    for start, end in pairwise([*_units(ops, gates), len(ops)]):
        size = sum(op.stored * op.layers for op in ops[start:end])
        full = load + size > total * (len(cuts) + 1) / count * 1.0001
        if start and len(cuts) < count - 1 and here > 0 and full:
            cuts.append(start)
            here = 0.0
        load, here = load + size, here + size
    return tuple(cuts)


def _pinning(bound: Bound) -> Plan:
    """Weights pinned over k devices, one of several ways, of as many devices as are worth it.

    Pieces of the network, depth first: each device takes ops in order until its share is full, and works on another
    request than the next one; layers whole, or W and U of a recurrence apart. Or every matrix divided: copies of a cell
    side by side go apart, others are cut by rows, and all devices work on one request.
    """
    format = bound.scenario.precision
    wire = bound.wire("network") or bound.wire("peer")
    group, limit = bound.system.devices[0], bound.scenario.devices
    options: list[Plan] = []
    cut_sets: set[tuple[int, ...]] = set()
    for count in sorted({1, limit, *(n for n in group.counts if n < limit)}):
        for cuts in (_depth_first(bound.graph, gates, count) for gates in (False, True)):
            parts = len(cuts) + 1
            if cuts in cut_sets:
                continue
            cut_sets.add(cuts)
            wires = (wire,) * (parts - 1) if wire is not None else ()
            plan = _chain(bound, cuts, [bound.device] * parts, [format] * parts, wires)
            options.append(replace(plan, devices_used=(parts,), notes=_idle(limit - parts, limit)))
        if count > 1 and bound.family.pins is not None:
            stage = Stage("network", bound.device, count, every_op(bound.graph), format, wire)
            notes = ("Every matrix is divided between all devices.", *_idle(limit - count, limit))
            options.append(Plan((stage,), host_hops(bound), 1, (count,), overlaps(bound), notes))
    return replace(options[-1], options=tuple(options)) if len(options) > 1 else options[0]


def _idle(count: int, devices: int) -> tuple[str, ...]:
    if not count:
        return ()
    return (
        f"{count} of {devices} devices hold nothing and are counted neither in power nor in price: neither pieces of "
        "the network nor parts of its matrices on them would give more.",
    )


_SCHEMES: dict[str, Callable[[Bound], Plan]] = {
    "single": _whole_network,
    "replicas": _replicas,
    "tensor": _tensor,
    "clusters": lambda bound: _tensor(bound, bound.system.clusters),
    "pipelined": _pipeline,
    "tables": shard_tables,
    "pinned": _pinning,
    "split": _split,
    "on-path": lambda bound: replace(_single(bound), hops=path_hops(bound)),  # nothing crosses the host's bus
}


def open_plan(bound: Bound) -> Plan:
    """Plan of a bound scenario as its scheme lays it out, `Plan.options` still to choose from."""
    return _SCHEMES[bound.scenario.scheme](bound)
