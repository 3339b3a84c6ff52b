"""Recommendation over several cards: tables sharded, the dense part copied, the two overlapping (document 000, fig. 6).

A request's indices go to the cards that hold its tables; each looks up and pools its own; the results meet on the one
card whose turn it is to compute the dense part. While it does, all cards look up for the next request on the cores set
aside for that. Bytes are exact for the graph and the stated indices; which link hides which follows from their rates.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.devices.common.contract import Unsupported
from engine.plan.plan import (
    INDEX,
    Hop,
    HostLink,
    Plan,
    Stage,
    every_op,
    from_network,
    host_hops,
    host_memory,
    model_of,
    switches_of,
    through_switch,
    tiled,
)
from engine.resolve.bind import Bound, Wire
from engine.scenario.formats import BITS, activation_bytes
from model_zoo.ops import LOOKUPS, Op

__all__ = ["Traffic", "shard_tables", "traffic"]


@dataclass(frozen=True)
class Traffic:
    """What a request moves. [B], [-]"""

    arriving: float  # over the network
    indices: float  # host to the cards that look up, of all cards
    features: float  # host to the card that computes
    pooled: float  # results of lookups, of all cards
    output: float
    commands: float  # transfers of indices
    returns: float  # transfers of results, one way


def _sparse(ops: list[Op]) -> frozenset[str]:
    """Lookups, and what only prepares their indices."""
    lookups = [op for op in ops if op.kind in LOOKUPS]
    feeds = {name for op in lookups for name in op.inputs}
    return frozenset(op.name for op in lookups) | feeds


def traffic(bound: Bound) -> Traffic:
    """Bytes and transfers of a request under the scenario's switches. Exact for the stated numbers of indices."""
    s, on, model = bound.scenario, switches_of(bound), model_of(bound)
    ops = [op for phase in bound.graph.phases for op in phase.ops]
    lookups = [op for op in ops if op.kind in LOOKUPS]
    tables = sum(op.layers for op in lookups)
    user = model.get("user_share", 0.0)
    rows = sum(op.gather_rows.at(s.batch) * op.layers for op in lookups)
    lists = 1.0 * s.batch * tables
    once = (1 - user) + user / s.batch  # the user's lists are the same for every item
    used = INDEX * (rows + lists) * once
    sent = INDEX * (rows * (1.0 if on.get("partial-tensors", True) else model.get("most_indices", 1.0)) + lists)
    sent *= once if on.get("broadcast-on-card", True) else 1.0
    elements = sum(op.reads.at(s.batch) for op in ops if not op.inputs and op.kind not in (*LOOKUPS, "Tile"))
    features = elements * (2 if on.get("fp16-features", True) else 4)
    pooled = sum(op.writes.at(s.batch) * op.layers for op in lookups) * max(BITS[s.precision], 16.0) / 8
    output = bound.graph.output_elements.at(s.batch) * max(BITS[s.precision], 16.0) / 8
    batched = on.get("command-batching", True)
    return Traffic(
        arriving=used + features,
        indices=sent,
        features=features,
        pooled=pooled,
        output=output,
        commands=float(s.devices) if batched else 2.0 * tables,
        returns=float(s.devices) if batched else float(tables),
    )


def _hops(bound: Bound, moved: Traffic, command: float) -> tuple[Hop, ...]:
    """Messages of a request over network, the host's memory, its x16, and the cards' x4 links."""
    cards = bound.scenario.devices
    network, host, card, memory = bound.wire("network"), bound.wire("host"), bound.wire("peer"), host_memory(bound)
    assert host is not None, bound.system.id
    assert card is not None, bound.system.id
    hops: list[Hop] = []
    ways = HostLink(host, card, memory, cards, command)

    def both(name: str, size: float, count: float, spread: int, way: str, after: int) -> None:
        hops.extend(through_switch(name, ways, size, way, after, count=count, spread=spread))

    if network is not None:
        hops += from_network("request from the network", network, memory, moved.arriving, "in", 0)
    both("indices", moved.indices, moved.commands, cards, "in", 0)
    both("dense features", moved.features, 1.0, 1, "in", 0)
    if cards > 1 and switches_of(bound).get("peer-to-peer", True):
        away = moved.pooled * (cards - 1) / cards
        count = max(1.0, moved.returns * (cards - 1) / cards)
        hops.append(
            Hop(
                "pooled embeddings",
                card,
                away / count,
                count,
                alike=cards,
                hidden=1.0,
                way="out",
                after=1,
                shares=True,
            )
        )
        hops.append(Hop("pooled embeddings", card, away / count, count, alike=cards, command_s=command, after=1))
    elif cards > 1:
        both("pooled embeddings to the host", moved.pooled, moved.returns, cards, "out", 1)
        both("pooled embeddings from the host", moved.pooled, moved.returns, 1, "in", 1)
    both("result", moved.output, 1.0, 1, "out", 2)
    if network is not None:
        hops += from_network("answer to the network", network, memory, moved.output, "out", 2)
    return tuple(hops)


def _gathers(bound: Bound, dense: list[Op], wire: Wire) -> tuple[Hop, ...]:
    """Every card's share of a dense layer's output to all others, over links that work at once (FC sharding)."""
    s, found = bound.scenario, []
    size = activation_bytes(s.precision)
    for op in dense:
        if op.shard == "n" and op.contraction:
            share = op.writes.at(s.batch) * op.layers * size / s.devices
            found.append(Hop(f"gather {op.name}", wire, share, s.devices - 1.0, after=1))
    return tuple(found)


def shard_tables(bound: Bound) -> Plan:
    """Embedding tables sharded over all devices; the dense part copied to each (or sharded), one batch a device."""
    graph, s = bound.graph, bound.scenario
    ops = [op for phase in graph.phases for op in phase.ops]
    if not any(op.kind in LOOKUPS for op in ops):
        raise Unsupported(f"{bound.workload.name} has no embedding tables to shard; use single, replicas or tensor.")
    on = switches_of(bound)
    sparse = _sparse(ops)
    sharded = on.get("shard-fc", False) and s.devices > 1
    turns = not on.get("overlap", True)
    first = Stage("sparse", bound.device, s.devices, sparse, s.precision, turns=turns)
    second = Stage(
        "dense",
        bound.device,
        s.devices if sharded else 1,
        every_op(graph) - sparse,
        s.precision,
        copies=s.devices if on.get("data-parallel", True) and not sharded else 1,
        turns=turns,
    )
    card = bound.wire("peer") or bound.wire("switch")
    if card is None or bound.wire("host") is None:
        hops = host_hops(bound, 2)
    else:
        hops = _hops(bound, traffic(bound), model_of(bound).get("transfer_command", 0.0))
    if sharded and card is not None:
        hops += _gathers(bound, [op for op in ops if op.name not in sparse], card)
    knobs = bound.family.knobs(bound.device) if bound.family.knobs else ()
    tiles = [(v,) for v in knobs[0].values] if not turns and len(knobs) == 1 and not s.tile else []
    return tiled(Plan((first, second), hops, 1, (s.devices,), on.get("in-flight", True)), tiles)
