"""Recommendation over several cards: tables sharded, the dense part copied, the two overlapping (document 000, fig. 6).

A request's indices go to the cards that hold its tables; each looks up and pools its own; the results meet on the one
card whose turn it is to compute the dense part. While it does, all cards look up for the next request on the cores set
aside for that. Tables that the cards leave to the host are looked up in and pooled there meanwhile, and their pooled
rows cross to the same card. Bytes are exact for the graph and the stated indices; which link hides which follows from
their rates.
"""

from dataclasses import dataclass, replace

from engine.devices.common.contract import Unsupported
from engine.plan.host_tables import TableSplit, divide, table_stages
from engine.plan.plan import INDEX, Hop, HostLink, Plan, Stage, every_op, host_hops, model_of, switches_of, with_tiles
from engine.resolve.bound import Bound, Wire
from engine.scenario.formats import BITS, activation_bytes
from model_zoo.ops import LOOKUPS


@dataclass(frozen=True)
class Traffic:
    """What a request moves. [B], [-]"""

    arriving: float  # over the network
    indices: float  # host to the cards that look up, of all cards
    features: float  # host to the card that computes
    pooled: float  # results of lookups, of all cards
    from_host: float  # results of the host's lookups
    output: float
    commands: float  # transfers of indices
    returns: float  # transfers of results, one way
    host_returns: float  # transfers of the host's


def traffic(bound: Bound, split: TableSplit | None = None) -> Traffic:
    """Bytes and transfers of a request under the scenario's switches. Exact for the stated numbers of indices."""
    s, on, model = bound.scenario, switches_of(bound), model_of(bound)
    ops = (split.cards if split else bound.graph).ops
    lookups, away = [op for op in ops if op.kind in LOOKUPS], split.host.ops if split else []
    tables, distant = (sum(op.layers for op in group) for group in (lookups, away))
    user = model.get("user_share", 0.0)
    rows, elsewhere = (sum(op.gather_rows.at(s.batch) * op.layers for op in group) for group in (lookups, away))
    lists = 1.0 * s.batch * tables
    once = (1 - user) + user / s.batch  # the user's lists are the same for every item
    index_bytes = INDEX * (rows + lists) * once + INDEX * (elsewhere + 1.0 * s.batch * distant) * once
    link_bytes = INDEX * (rows * (1.0 if on.get("partial-tensors", True) else model.get("most_indices", 1.0)) + lists)
    link_bytes *= once if on.get("broadcast-on-card", True) else 1.0
    elements = sum(op.reads.at(s.batch) for op in ops if not op.inputs and op.kind not in (*LOOKUPS, "Tile"))
    features = elements * (2 if on.get("fp16-features", True) else 4)
    width = max(BITS[s.precision], 16.0) / 8
    pooled, from_host = (sum(op.writes.at(s.batch) * op.layers for op in group) * width for group in (lookups, away))
    output = bound.graph.output_elements.at(s.batch) * width
    batched = on.get("command-batching", True)
    return Traffic(
        arriving=index_bytes + features,
        indices=link_bytes,
        features=features,
        pooled=pooled,
        from_host=from_host,
        output=output,
        commands=float(s.devices) if batched else 2.0 * tables,
        returns=float(s.devices) if batched else float(tables),
        host_returns=1.0 if batched else float(distant),
    )


def _hops(bound: Bound, flow: Traffic, host: Wire, card: Wire, before: int) -> tuple[Hop, ...]:
    """Messages of a request over network, the host's memory and links, x16 and x4; ``before`` the dense stage."""
    wires, cards = HostLink(bound, host, card), bound.scenario.devices
    hops = list(wires.over_network("request from the network", flow.arriving, "in", 0))
    if flow.pooled:
        hops += wires.through("indices", flow.indices, "in", 0, count=flow.commands, spread=cards)
    hops += wires.through("dense features", flow.features, "in", 0)
    if flow.from_host:
        hops += wires.through("rows pooled on the host", flow.from_host, "in", before, count=flow.host_returns)
    if cards > 1 and flow.pooled and switches_of(bound).get("peer-to-peer", True):
        away = flow.pooled * (cards - 1) / cards
        count = max(1.0, flow.returns * (cards - 1) / cards)
        pooled = Hop("pooled embeddings", card, away / count, count, alike=cards, after=before)
        hops += [replace(pooled, hidden=1.0, way="out", shares=True), replace(pooled, command_s=wires.command)]
    elif cards > 1 and flow.pooled:
        back, count = "pooled embeddings from the host", flow.returns
        hops += wires.through("pooled embeddings to the host", flow.pooled, "out", before, count=count, spread=cards)
        hops += wires.through(back, flow.pooled, "in", before, count=count)
    hops += wires.through("result", flow.output, "out", before + 1)
    return (*hops, *wires.over_network("answer to the network", flow.output, "out", before + 1))


def shard_tables(bound: Bound) -> Plan:
    """Embedding tables sharded over all devices; the dense part copied to each (or sharded), one batch a device."""
    graph, s = bound.graph, bound.scenario
    ops = graph.ops
    if not (lookups := [op for op in ops if op.kind in LOOKUPS]):
        raise Unsupported(f"{bound.workload.name} has no embedding tables to shard; use single, replicas or tensor.")
    on = switches_of(bound)
    sparse = frozenset(name for op in lookups for name in (op.name, *op.inputs))  # and what prepares their indices
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
    split = divide(bound, (first, second))
    stages = (first, second) if split is None else table_stages(split, first, second)
    host, card, stages_before = bound.wire("host"), bound.wire("peer") or bound.wire("switch"), len(stages) - 1
    if card is None or host is None:
        hops = host_hops(bound, 2)
    else:
        hops = _hops(bound, traffic(bound, split), host, card, stages_before)
    if sharded and card is not None:
        for op in (op for op in ops if op.name not in sparse and op.shard == "n" and op.contraction):
            # every card's share of its output to all others, over links that work at once
            share = op.writes.at(s.batch) * op.layers * activation_bytes(s.precision) / s.devices
            hops += (Hop(f"gather {op.name}", card, share, s.devices - 1.0, after=stages_before),)
    notes = split.notes if split else ()
    plan = Plan(stages, hops, 1, (s.devices,), on.get("in-flight", True), notes, shared=True)
    apart = sum(stage.device is bound.device for stage in stages) > 1 and not turns
    return with_tiles(bound, plan) if apart else plan
