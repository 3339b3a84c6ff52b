"""``ask node | kinds | tile``: networks that share a node of cards, time by kind of operator, tilings of products."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from engine.cli.scenario import changed, scenario_of
from engine.scenario import Scenario, ScenarioError, encode
from engine.scenario.sentences import amount, percent
from engine.scenario.token import boundary, brief

if TYPE_CHECKING:
    from engine.analyses.node.shared_load import Load, Network

EPILOG = """\
Each network is a scenario of the same system, with @ and its requests per second after it. A request is what `evaluate`
prices: the scenario's batch. Behind the first, a workload's id is enough: its tables are sharded, or each card has a
copy. Cards, host and links are shared; so is the memory on and off the chip.

examples:
  python -m engine ask node preset:node-dlrm@2000 preset:node-xlmr@60
  python -m engine ask node preset:node-dlrm@1500 regnety-128gf@5 resnext101-32x4d@100 --json
"""
_Answer = tuple[Any, Iterable[str]]


def _load(text: str, first: Scenario | None) -> Load:
    from engine.analyses.node.shared_load import Load, usual
    from model_zoo.catalog import default_zoo

    target, _, rate = text.rpartition("@")
    with boundary(f"network is {brief(text, 60)}: a scenario, @ and its requests per second are needed"):
        qps = float(rate)
        if not target:
            raise ValueError
    if first is not None and target in default_zoo().ids():
        return Load(usual(first, target), qps)
    return Load(scenario_of(target), qps)


def _row(network: Network) -> dict[str, Any]:
    row = {key: value for key, value in vars(network).items() if key != "scenario"}
    return row | {"use": dict(network.use), "met": network.met, "token": encode(network.scenario)}


def node(args: argparse.Namespace) -> _Answer:
    """Several networks on one node: what they keep busy and how long each waits. An estimate."""
    from engine.analyses.node.shared_load import share_node

    loads = [_load(args.networks[0], None)]
    loads += [_load(text, loads[0].scenario) for text in args.networks[1:]]
    shared = share_node(loads)
    sentences = [
        shared.problem or f"{shared.busiest} is the busiest; the node carries {shared.room:.3g} times this load"
    ]
    for network in shared.networks:
        if network.limit_s is not None:
            state = "met" if network.met else "missed"
            sentences.append(f"{network.name}: limit {amount(network.limit_s, 's')} {state}")
    need, room = shared.together
    data = {
        "networks": [_row(network) for network in shared.networks],
        "use": dict(shared.use),
        "busiest": shared.busiest,
        "room": shared.room,
        "memory": [
            {"level": level, "need_bytes": need, "capacity_bytes": room, "devices": count}
            for level, need, room, count in shared.memory
        ],
        "together": {"need_bytes": need, "capacity_bytes": room},
        "problem": shared.problem,
    }
    return data, sentences


def kinds(args: argparse.Namespace) -> _Answer:
    """Time by kind of operator, before and after each optimisation. An estimate. [s]"""
    from engine.analyses.node.operator_kinds import by_kind

    first, *rest = by_kind(changed(args))
    sentences = [f"{amount(first.latency_s, 's')} a request, by kind of operator"]
    sentences += [
        f"  {kind:24} {amount(t, 's'):>10}  {percent(first.share(kind)):>5}" for kind, t in first.seconds.items()
    ]
    for column in rest:
        changes = {
            kind: column.seconds.get(kind, 0.0) - first.seconds.get(kind, 0.0)
            for kind in {**first.seconds, **column.seconds}
        }
        most = sorted(((k, v) for k, v in changes.items() if abs(v) > 1e-9), key=lambda pair: -abs(pair[1]))[:4]
        by = ", ".join(f"{kind} {'+' if by > 0 else '-'}{amount(abs(by), 's')}" for kind, by in most)
        if by:
            sentences.append(f"{column.label} {'on' if column.on else 'off'}: {amount(column.latency_s, 's')} ({by})")
    return {"columns": [vars(column) | {"seconds": dict(column.seconds)} for column in (first, *rest)]}, sentences


def _sides(text: str, name: str, many: int) -> tuple[int, ...]:
    parts = text.split("x")
    if len(parts) != many or not all(part.isdigit() for part in parts):
        raise ScenarioError(f"{name} is {text[:40]!r}: {many} whole numbers with an x between are allowed")
    return tuple(map(int, parts))


def tile(args: argparse.Namespace) -> _Answer:
    """Every tiling of every product on a card, or the price of one. Counts are exact, times estimates."""
    from engine.analyses.node.tilings import pinned, products, tiled

    named = products(changed(args))
    if args.op:
        names = [op.name for _, op, _ in named]
        named = tuple(row for row in named if row[1].name == args.op)
        if not named:
            raise ScenarioError(f"--op is {args.op[:60]!r}: products here are {', '.join(names[:20])}")
    if args.block:
        block = _sides(args.block, "--block", 3)
        rows, sentences = [], []
        for job, op, side in named:
            best = tiled(job, op, side, 0.0).best["latency"]
            cores = _sides(args.cores, "--cores", 2) if args.cores else best.cores
            own = pinned(side, block, (cores[0], cores[1]), args.stays or "")
            sentences.append(f"{op.name}: {amount(own.seconds, 's')} (best {amount(best.seconds, 's')})")
            rows.append({"name": op.name, "pinned": vars(own) | {"words": own.words()}, "best": vars(best)})
        return {"products": rows}, sentences
    tilings = [tiled(job, op, side) for job, op, side in named]
    sentences = []
    for product in tilings:
        if (best := product.best.get("latency")) is None:
            sentences.append(f"{product.name}: no tile of it fits a core")
            continue
        sentences.append(f"{product.name}: {amount(best.seconds, 's')}, {product.counted()}; {best.words()}")
        (near, far), most = product.least, (best.near_bytes, best.far_bytes)
        into, off = (f"{amount(b, 'B')} (at least {amount(a, 'B')})" for a, b in zip((near, far), most, strict=True))
        sentences.append(f"    into cores {into}, LPDDR {off}, {amount(best.joules, 'J')}")
    return {"products": [product.to_dict() for product in tilings]}, sentences
