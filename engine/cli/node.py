"""``python -m engine node``: several networks on one node of cards, what they keep busy and how long each waits."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.cli.output import emit
from engine.scenario import Scenario, encode
from engine.scenario.sentences import amount, percent
from engine.scenario.token import boundary, brief

if TYPE_CHECKING:
    from engine.analyses.node.shared_load import Load, Network

_TOLD = """\
Each network is a scenario of the same system, with @ and its requests a second behind it. A request is what `evaluate`
prices: the scenario's batch. Behind the first, a workload's id is enough: its tables are sharded, or each card has a
copy. Cards, host and links are shared; so is the memory on and off the chip.

examples:
  python -m engine node preset:node-dlrm@2000 preset:node-xlmr@60
  python -m engine node preset:node-dlrm@1500 regnety-128gf@5 resnext101-32x4d@100 --json
"""


def add_node(commands: Any, scenario_of: Callable[[str], Scenario]) -> None:
    """Register the command; ``scenario_of`` makes a Scenario of a target."""
    raw = argparse.RawDescriptionHelpFormatter
    p = commands.add_parser("node", help="several networks on one node of cards", epilog=_TOLD, formatter_class=raw)
    p.add_argument("networks", nargs="+", metavar="SCENARIO@QPS", help="token, URL, preset:ID or a file, @, requests/s")
    p.set_defaults(run=lambda args: _node(args, scenario_of))


def _load(text: str, scenario_of: Callable[[str], Scenario], first: Scenario | None) -> Load:
    from engine.analyses.node.shared_load import Load, usual
    from model_zoo.catalog import default_zoo

    target, _, rate = text.rpartition("@")
    with boundary(f"network is {brief(text, 60)}: a scenario, @ and its requests a second are needed"):
        qps = float(rate)
        if not target:
            raise ValueError
    if first is not None and target in default_zoo().ids():
        return Load(usual(first, target), qps)
    return Load(scenario_of(target), qps)


def _row(network: Network) -> dict[str, Any]:
    row = {key: value for key, value in vars(network).items() if key != "scenario"}
    return row | {"use": dict(network.use), "met": network.met, "token": encode(network.scenario)}


def _node(args: argparse.Namespace, scenario_of: Callable[[str], Scenario]) -> int:
    from engine.analyses.node.shared_load import share_node

    loads = [_load(args.networks[0], scenario_of, None)]
    loads += [_load(text, scenario_of, loads[0].scenario) for text in args.networks[1:]]
    shared = share_node(loads)
    lines = [shared.problem or f"{shared.busiest} is the busiest; the node carries {shared.room:.3g} times this load"]
    for one in shared.networks:
        p50, p99 = ("-" if t is None else amount(t, "s") for t in (one.p50_s, one.p99_s))
        limit = "" if one.limit_s is None else f", limit {amount(one.limit_s, 's')} {'met' if one.met else 'missed'}"
        lines.append(
            f"{one.name[:28]:28} {one.qps:>8.4g}/s of {one.alone_qps:.4g} alone: {amount(one.idle_s, 's')} idle, "
            f"p50 {p50}, p99 {p99}{limit}"
        )
    for unit, used in sorted(shared.use.items(), key=lambda pair: -pair[1]):
        by = ", ".join(f"{n.name} {percent(n.use[unit])}" for n in shared.networks if n.use.get(unit))
        lines.append(f"  {unit:32} {percent(used):>5} busy  ({by})")
    for level, need, room, count in shared.memory:
        many = f" ({count} of them)" if count > 1 else ""
        lines.append(f"  {level:48} {amount(need, 'B')} of {amount(room, 'B')}{many}")
    need, room = shared.together
    lines.append(f"  {'memory used together':48} {amount(need, 'B')} of {amount(room, 'B')}")
    data = {
        "networks": [_row(one) for one in shared.networks],
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
    return emit(data, args.json, lines)
