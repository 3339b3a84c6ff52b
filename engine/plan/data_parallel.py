"""Whole networks on cards behind a switch, a request on one card at a time, and what the host does before or between.

Each request comes over the network, the host's link and its card's link; the next one takes the next card. Parts that
the host or a decoder runs are stages of their own where requests overlap: a detector's two nets then hold cores of
their card apart (document 000, section VI-B), and video is decoded while cards compute. Estimates.
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from engine.plan.plan import (
    Hop,
    HostLink,
    Plan,
    Stage,
    arriving_bytes,
    compiled_length,
    entering_bytes,
    every_op,
    host_hops,
    leaving_bytes,
    model_of,
    overlaps,
    switches_of,
    with_tiles,
)
from engine.resolve.bound import Bound, Wire
from model_zoo.ops import Op

_WIDE = 2.0  # bytes of a value that leaves one unit for another


def _parts(bound: Bound) -> list[tuple[str, list[Op]]]:
    """Runs of operators on one unit: ("device" | "host" | "decoder", operators), in order."""
    on, unit, ops = switches_of(bound), bound.family.unit_of, bound.graph.phases[0].ops
    if unit is None:
        return [("device", list(ops))]
    parts: list[tuple[str, list[Op]]] = []
    for op in ops:
        where = unit(op, on)
        if not parts or parts[-1][0] != where:
            parts.append((where, []))
        parts[-1][1].append(op)
    return parts


def _crossings(bound: Bound, parts: list[tuple[str, list[Op]]]) -> Iterator[tuple[str, float, str, int]]:
    """What crosses between the host and a card: its name, bytes that are made before and read after, way and place."""
    s, length = bound.scenario, compiled_length(bound)
    for at, ((left, before), (right, after)) in enumerate(pairwise(parts), 1):
        if "host" in (left, right):
            read = {name for op in after for name in op.inputs}
            crossing = sum(op.writes.at(s.batch, length, length) * op.layers for op in before if op.name in read)
            size = _WIDE * (crossing or before[-1].writes.at(s.batch, length, length))
            yield f"after {before[-1].name}", size, "in" if left == "host" else "out", at


def _entering(bound: Bound, parts: list[tuple[str, list[Op]]]) -> tuple[float, float]:
    """Bytes of a request over the network, and over the links of host and card (before any part on the host)."""
    s = bound.scenario
    raw = arriving_bytes(bound, s.inputs)
    padded = entering_bytes(bound, compiled_length(bound) if bound.graph.input_elements.s else s.inputs)
    if parts[0][1][0].name == "decode":
        video = model_of(bound)["clip_bytes"] * s.batch
        return video, video
    return raw, padded


def data_parallel(bound: Bound, ways: int = 1) -> Plan | None:
    """Plan of a network on each of the scenario's cards; None where the system or the switches ask for nothing of it.

    Stages on the host have a copy for each of its cores, those on cards one for each card, or for each ``ways`` cards
    that share every operator; streams share them.
    """
    s, graph = bound.scenario, bound.graph
    host, card = bound.wire("host"), bound.wire("peer")
    switched = bound.system.topology == "switch" and host is not None and card is not None
    parts = _parts(bound) if len(graph.phases) == 1 else [("device", list(graph.phases[0].ops))]
    if host is None or (not switched and len(parts) == 1) or (len(graph.phases) > 1 and not switched):
        return None
    cards = s.devices
    pipelined = cards > 1 or overlaps(bound)
    host_cores = int(bound.host.cores) if bound.host is not None else 1
    stages = []
    for at, (where, ops) in enumerate(parts):
        name = {"device": "network" if len(parts) == 1 else f"net {at + 1}"}.get(where, where)
        copies = int(max(1, host_cores // s.streams)) if where == "host" else cards // ways
        names = frozenset(op.name for op in ops) if len(parts) > 1 else every_op(graph)
        stage_ways, wire = (ways, card) if ways > 1 and where == "device" else (1, None)
        stages.append(Stage(name, bound.device, stage_ways, names, s.precision, wire, copies))
    if switched and card is not None:
        hops = _over_switch(bound, parts, host, card, ways)
    else:
        hops = _direct(bound, parts, host)
    plan = Plan(tuple(stages), hops, 1, (cards,), pipelined, _notes(bound), shared=True)
    return with_tiles(bound, plan) if sum(where == "device" for where, _ in parts) > 1 else plan


def _notes(bound: Bound) -> tuple[str, ...]:
    length, raw = compiled_length(bound), bound.scenario.inputs
    if length == raw:
        return ()
    return (f"Sentences of {raw:g} tokens on average are padded to {length:.3g}: {raw / length:.0%} of that is text.",)


def _over_switch(bound: Bound, parts: list[tuple[str, list[Op]]], host: Wire, card: Wire, ways: int) -> tuple[Hop, ...]:
    """Messages over network, the host's memory and link, and the links of the ``ways`` cards of a request.

    Each of them takes all that comes in, and sends its part of what leaves.
    """
    wires = HostLink(bound, host, card)
    through = partial(wires.through, count=1.0 * ways, spread=ways)
    arriving, to_card = _entering(bound, parts)
    leaving, last = leaving_bytes(bound), len(parts)
    hops = list(wires.over_network("request from the network", arriving, "in", 0))
    if parts[0][0] != "host":
        hops += through("input", ways * to_card, "in", 0)
    for name, size, way, at in _crossings(bound, parts):
        hops += through(name, size * (ways if way == "in" else 1), way, at)
    if parts[-1][0] != "host":
        hops += through("output", leaving, "out", last)
    return (*hops, *wires.over_network("answer to the network", leaving, "out", last))


def _direct(bound: Bound, parts: list[tuple[str, list[Op]]], host: Wire) -> tuple[Hop, ...]:
    """The same with a card on the host's own link."""
    *way, into, out = host_hops(bound, len(parts))
    hops = list(way)
    if parts[0][0] != "host":
        hops.append(Hop("input", host, _entering(bound, parts)[1], 1.0) if parts[0][0] == "decoder" else into)
    hops += [Hop(name, host, size, 1.0, way=way, after=at) for name, size, way, at in _crossings(bound, parts)]
    return (*hops, out) if parts[-1][0] != "host" else tuple(hops)
