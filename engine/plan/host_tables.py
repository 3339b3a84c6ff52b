"""Embedding tables over the memories of cards and host: which lie where, and the network as each of them runs it.

The host takes what the cards can't hold, or a share of all tables, those of the fewest lookups first where a switch
says so. Tables are never cut. Counts are exact for the network as compiled.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.devices.common.footprint import footprint
from engine.devices.common.offer import TableMemory
from engine.plan.jobs import job_of
from engine.plan.plan import Stage, model_of, second_format_of, switches_of
from engine.resolve.bound import Bound
from engine.scenario import ScenarioError
from engine.scenario.formats import BITS
from hardware_specs.schema import Device
from model_zoo.ops import LOOKUPS, Graph, Op


@dataclass(frozen=True)
class TableSplit:
    """A network whose tables lie on cards and on the host: what either runs of it."""

    cards: Graph
    host: Graph  # its lookups alone
    device: Device  # the host
    format: str
    notes: tuple[str, ...]


@lru_cache(maxsize=256)
def _with(graph: Graph, changes: tuple[tuple[str, Op | None], ...], alone: bool) -> Graph:
    """The graph with operators replaced, or left out where there is None; ``alone``: with nothing else."""
    new = dict(changes)
    return graph.map_ops(lambda op: new.get(op.name, None if alone else op))


def _off_chip(device: Device) -> float:
    """Capacity of the largest memory off the chip. [B]"""
    return max(m.capacity.si for m in device.memory if m.role == "offchip")


def _by_capacity(bound: Bound, store: TableMemory, stages: tuple[Stage, ...], tables: list[Op]) -> dict[str, int]:
    """Tables of each operator that the host takes: those that the cards' memories don't hold beside the rest. [-]

    Where a slower memory lies behind the cards', the host takes no more than its own memory holds.
    """
    s, fam = bound.scenario, bound.family
    jobs = [job_of(bound, stage, fam, bound.graph.phases[0]) for stage in stages]
    bits, wide = store.bits(jobs[0]), fam.exchange_format(bound.device, s.precision)
    needs = [footprint(job, wide=wide, table_bits=bits) for job in jobs]
    room = _off_chip(bound.device) - sum(need.total - need.tables for need in needs)
    nvm_tier = switches_of(bound).get("nvm-tier", False) and bound.host is not None
    beside = _off_chip(bound.host) if nvm_tier and bound.host is not None else math.inf
    result = {}
    for op in tables:
        table_bytes = op.stored * bits / 8
        resident = min(op.layers, s.devices * max(0, math.floor(room / table_bytes)))
        room -= math.ceil(resident / s.devices) * table_bytes
        result[op.name] = away = op.layers - resident
        if nvm_tier:
            result[op.name] = min(away, max(0, math.floor(beside / table_bytes)))
            beside -= result[op.name] * table_bytes
    return result


def _fed(tile: Op, before: Op, stays: Op | None) -> Op | None:
    """What repeats the indices of lookups, for those that stay."""
    if stays is None:
        return None
    copies = max(1, round(tile.layers * stays.layers / before.layers))
    rows = stays.gather_rows.coef * stays.layers / (before.gather_rows.coef * before.layers)
    size = rows * tile.layers / copies
    return replace(tile, layers=copies, flops=tile.flops * size, reads=tile.reads * size, writes=tile.writes * size)


def divide(bound: Bound, stages: tuple[Stage, ...]) -> TableSplit | None:
    """The network as cards and host divide it; None where the scenario leaves the host no table.

    ``stages`` are those of the cards alone. ScenarioError or Unsupported where there is no host that could.
    """
    store, host, share = bound.family.tables, bound.host, bound.scenario.host_tables
    if share is None or store is None:
        return None
    if host is None or bound.wire("host") is None or bound.wire("peer") is None:
        raise ScenarioError(
            f"host_tables is {share!r}: {bound.system.name} has no host with a link to its cards, so only 'none' is "
            "allowed"
        )
    tables = [op for op in bound.graph.ops if op.kind in LOOKUPS and op.layers > 1]
    if share == "by-capacity":
        away: Mapping[str, int] = _by_capacity(bound, store, stages, tables)
    else:
        away = {op.name: round(op.layers * float(share.removesuffix("%")) / 100) for op in tables}
    leaving = [op for op in tables if away[op.name]]
    return _apart(bound, store, host, stages[0], leaving, away) if leaving else None


def _apart(
    bound: Bound, store: TableMemory, host: Device, stage: Stage, leaving: list[Op], away: Mapping[str, int]
) -> TableSplit:
    """The network with so many tables of some operators on the host, rows as long as the cards keep them."""
    on, format = family(host.kind), second_format_of(bound, host)
    bits = store.bits(job_of(bound, stage, bound.family, bound.graph.phases[0]))
    row = bits / BITS[on.exchange_format(host, format)]  # in elements as the host counts them
    by = {op.name: op for op in bound.graph.ops}
    remaining: dict[str, Op | None] = {}
    host_ops = []
    for op in leaving:
        stays, goes = store.split(op, away[op.name], switches_of(bound), model_of(bound))
        remaining[op.name] = stays
        remaining |= {name: _fed(by[name], op, stays) for name in op.inputs if name in by and by[name].kind == "Tile"}
        sizes = {name: getattr(goes, name) * row for name in ("stored", "weights", "row_elements")}
        host_ops.append((op.name, replace(goes, **sizes)))
    cards, host_graph = _with(bound.graph, tuple(remaining.items()), False), _with(bound.graph, tuple(host_ops), True)
    if reason := on.supports(host, host_graph, format):
        raise Unsupported(reason)
    batch = bound.scenario.batch
    rows, whole = (sum(op.gather_rows.at(batch) * op.layers for op in ops) for ops in (host_graph.ops, leaving))
    text = (
        f"{sum(away.values())} of {sum(op.layers for op in leaving)} tables lie in the host's memory; "
        f"{rows / whole:.0%} of the lookups go there."
    )
    return TableSplit(cards, host_graph, host, format, (text,))


def table_stages(split: TableSplit, first: Stage, second: Stage) -> tuple[Stage, ...]:
    """Lookups on the cards, unless the host has all tables, and meanwhile on the host; then the dense part."""
    first, second = (replace(stage, graph=split.cards) for stage in (first, second))
    names = frozenset(op.name for op in split.host.ops)
    card_lookups = any(op.name in first.ops for op in split.cards.ops)
    host = Stage("host tables", split.device, 1, names, split.format, graph=split.host, beside=card_lookups)
    return (first, host, second) if card_lookups else (host, second)
