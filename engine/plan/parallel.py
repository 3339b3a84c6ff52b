"""A decoder shared in several ways at once: pipeline stages, attention ranks, groups of a context, ranks of experts,
tensor parallelism.

A place is the devices of one pipeline stage. What it runs is one to three stages of a plan, which take turns: all that
its attention ranks do for requests of their own, attention apart where groups share a context, and what ranks share.
Exact counts; what they cost is priced elsewhere.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from engine.plan.context import of_context, of_groups
from engine.plan.plan import ExpertGroup, Plan, Stage, host_hops, overlaps
from engine.resolve.bound import Bound, Wire
from engine.scenario import Scenario
from engine.scenario.configuration import stage_devices, tensor_ways
from hardware_specs.schema import Link
from model_zoo.ops import Graph, Op, Phase, Sum


def shared_otherwise(s: Scenario) -> bool:
    """Whether devices share a network in another way than every operator between all of them."""
    set_ways = (s.pipeline_parallel, s.attention_dp, s.context_parallel, s.expert_parallel)
    return any((ways or 1) > 1 for ways in set_ways)


def parallel(bound: Bound, wire: Wire | None) -> Plan:
    """Plan of a scenario that sets how its devices share a decoder, over the wire between them."""
    s = bound.scenario
    places, group, ways = s.pipeline_parallel or 1, stage_devices(s), tensor_ways(s)
    ranks, context, experts = s.attention_dp or 1, s.context_parallel or 1, s.expert_parallel or 1
    stages: list[Stage] = []
    for at in range(places):
        graph = dealt(bound.graph, at, places)
        ops = {op.name: op for op in graph.ops}
        moe_ops = _moe_ops(graph) if experts > 1 else frozenset()
        ffn_ops = frozenset(n for n, op in ops.items() if op.group == "feed-forward" and ranks > 1 and experts == 1)
        context_ops = frozenset(n for n, op in ops.items() if context > 1 and of_context(op))
        graph = of_groups(graph, context) if context > 1 else graph
        on = Stage(
            "attention" if places == 1 else f"part {at + 1}",
            bound.device,
            ways,
            frozenset(ops) - moe_ops - ffn_ops - context_ops,
            s.precision,
            wire,
            graph=graph,
            turns=True,
            ranks=ranks * context,
            context=context,
            place=at,
            under_way=places,
            sends=_next(wire, (at + 1) * group) if at + 1 < places else None,
        )
        if context_ops:
            attends = replace(on, name=f"{on.name}, keys and values", ops=context_ops, attends=True, sends=None)
            stages.append(attends)
            on = replace(on, graph=_stateless(graph))
        stages.append(on)
        apart = replace(on, graph=_stateless(graph), ranks=1, context=1, sends=None)
        if ffn_ops:
            stages.append(replace(apart, name=f"{on.name}, feed-forward", ways=group, ops=ffn_ops))
        if moe_ops:
            share = _expert_share(apart.graph or graph, moe_ops, experts, _load(s), s.redundant_experts or 0)
            how = _expert_ranks(graph, moe_ops, s, group)
            stage = replace(apart, name=f"{on.name}, experts", ways=group // experts, ops=moe_ops, ranks=experts)
            stages.append(replace(stage, graph=share, experts=how))
    among = f" x context {context}" if context > 1 else ""
    parts = f"TP {ways} x PP {places} x attention DP {ranks}{among}, EP {experts}"
    under_way = f"; {places} batches under way reach the throughput" if places > 1 else ""
    notes = (f"{parts} on {s.devices} devices, {group} of them a pipeline stage{under_way}.",)
    hops, apart_from_host = host_hops(bound, len(stages)), places > 1 or overlaps(bound)
    return Plan(tuple(stages), hops, 1, (s.devices,), apart_from_host, notes, shared=True)


def _next(wire: Wire | None, before: int) -> Link | None:
    """The link from the last of so many devices to the next one: between nodes where a node ends there."""
    if wire is None:
        return None
    return wire.beyond if wire.beyond is not None and before % wire.joins == 0 else wire.link


def _load(scenario: Scenario) -> float:
    """Tokens of the busiest rank of experts over the mean: copies on every rank take their part of what is above it."""
    above = float((scenario.expert_imbalance or "0%").removesuffix("%")) / 100.0
    return 1.0 + above / (1.0 + (scenario.redundant_experts or 0) / (scenario.expert_parallel or 1))


@lru_cache(maxsize=64)
def _deals(layers: tuple[int, ...], places: int) -> dict[int, tuple[int, ...]]:
    """Of each number of layers that a kind has, how many each place gets: even, ends last with what is left over."""
    loads, result = [0] * places, {}
    for count in sorted(layers, reverse=True):
        deal = [count // places] * places
        for at in sorted(range(places), key=lambda i: (loads[i], i in (0, places - 1)))[: count % places]:
            deal[at] += 1
        loads = [load + extra for load, extra in zip(loads, deal, strict=True)]
        result[count] = tuple(deal)
    return result


def _dealt_ops(ops: Sequence[Op], at: int, places: int) -> tuple[Op, ...]:
    repeats = [i for i, op in enumerate(ops) if op.layers > 1]
    if not repeats:  # what guesses or ends lies with the last
        return tuple(ops) if at == places - 1 else ()
    deals = _deals(tuple(sorted({ops[i].layers for i in repeats})), places)
    result = []
    for i, op in enumerate(ops):
        layers = deals[op.layers][at] if op.layers > 1 else int(at == (places - 1 if i > repeats[-1] else 0))
        if layers:
            result.append(replace(op, layers=layers))
    return tuple(result)


def _state_written(phase: Phase, grows: bool) -> float:
    """Elements of state that a phase's operators write, of what grows with the context or does not. [-]"""
    return sum(op.state_writes.coef * op.layers for op in phase.ops if bool(op.state_writes.s) is grows)


@lru_cache(maxsize=512)
def dealt(graph: Graph, at: int, places: int) -> Graph:
    """The part of a network at one of so many places: layers of each kind dealt evenly, with their state."""
    if places == 1:
        return graph
    phases = tuple(replace(phase, ops=_dealt_ops(phase.ops, at, places)) for phase in graph.phases)
    share = {}
    for grows in (True, False):
        whole = _state_written(graph.phases[0], grows)
        share[grows] = _state_written(phases[0], grows) / whole if whole else 1.0 / places
    state = Sum(tuple(term * share[bool(term.c)] for term in graph.state_elements.terms))
    return replace(graph, phases=phases, state_elements=state)


@lru_cache(maxsize=512)
def _stateless(graph: Graph) -> Graph:
    return replace(graph, state_elements=Sum())


@lru_cache(maxsize=512)
def _moe_ops(graph: Graph) -> frozenset[str]:
    """Operators that run where experts lie: their products, and what lies between two of those."""
    names: set[str] = set()
    for op in graph.ops:
        between = op.shard == "elements" and any(name in names for name in op.inputs)
        if op.attribute("experts") or between:
            names.add(op.name)
    return frozenset(names)


def _expert_ranks(graph: Graph, moe_ops: frozenset[str], scenario: Scenario, group: int) -> ExpertGroup:
    ops = graph.ops
    read = {name for op in ops if op.name not in moe_ops and moe_ops.intersection(op.inputs) for name in op.inputs}
    added = any(op.shard == "k" and op.name in read - moe_ops for op in ops)
    picks = max(op.attribute("top_k") for op in ops if op.name in moe_ops)
    ranks = scenario.expert_parallel or 1
    apart = (scenario.attention_dp or 1) * (scenario.context_parallel or 1)
    return ExpertGroup(ranks, group, apart, picks, _load(scenario), added)


@lru_cache(maxsize=512)
def _expert_share(graph: Graph, moe_ops: frozenset[str], ranks: int, load: float, copies: int) -> Graph:
    """The network as the busiest of so many ranks of experts has it: its experts, and what is sent to them."""

    def share_of(op: Op) -> Op:
        if op.name not in moe_ops:
            return op
        part, experts = load / ranks, op.attribute("experts")
        counts = {name: getattr(op, name) * part for name in ("m", "flops", "reads", "writes", "weights")}
        attributes = tuple((n, v / ranks if n in ("experts", "top_k") else v) for n, v in op.attributes)
        elements = op.stored * (1.0 + copies / experts if experts else 1.0) / ranks
        return replace(op, attributes=attributes, stored=elements, **counts)

    return graph.map_ops(share_of)
