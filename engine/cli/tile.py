"""``python -m engine tile``: every tiling of every product on a card, counted and searched."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from engine.cli.output import emit
from engine.scenario import Scenario, ScenarioError
from engine.scenario.sentences import amount


def add_tile(commands: Any, add_scenario: Callable[[argparse.ArgumentParser], None], scenario: Any) -> None:
    """Register the command; ``scenario`` makes a Scenario of parsed arguments."""
    p = commands.add_parser("tile", help="every tiling of every product on a card: counted, the best, or one of yours")
    add_scenario(p)
    p.add_argument("--op", help="only this operator")
    p.add_argument("--block", metavar="ROWSxCOLUMNSxDEPTH", help="price these blocks in a core instead of a search")
    p.add_argument("--cores", metavar="COLUMNSxROWS", help="of cores beside each other, with --block")
    p.add_argument("--stays", choices=("a", "b", "c"), help="the operand whose block stays, with --block")
    p.set_defaults(run=lambda args: _tile(args, scenario(args)))


def _sides(text: str, name: str, many: int) -> tuple[int, ...]:
    parts = text.split("x")
    if len(parts) != many or not all(part.isdigit() for part in parts):
        raise ScenarioError(f"{name} is {text[:40]!r}: {many} whole numbers with an x between are allowed")
    return tuple(map(int, parts))


def _tile(args: argparse.Namespace, scenario: Scenario) -> int:
    from engine.analyses.node.tilings import pinned, products, tiled

    named = products(scenario)
    if args.op:
        names = [op.name for _, op, _ in named]
        named = tuple(row for row in named if row[1].name == args.op)
        if not named:
            raise ScenarioError(f"--op is {args.op[:60]!r}: products here are {', '.join(names[:20])}")
    if args.block:
        block = _sides(args.block, "--block", 3)
        rows, lines = [], []
        for job, op, side in named:
            best = tiled(job, op, side, 0.0).best["latency"]
            cores = _sides(args.cores, "--cores", 2) if args.cores else best.cores
            one = pinned(side, block, (cores[0], cores[1]), args.stays or "")
            rows.append({"name": op.name, "pinned": vars(one) | {"words": one.words()}, "best": vars(best)})
            lines.append(
                f"{op.name[:34]:34} {amount(one.seconds, 's'):>10} (best {amount(best.seconds, 's')}), into cores "
                f"{amount(one.near_bytes, 'B')} (best {amount(best.near_bytes, 'B')})"
            )
        return emit({"products": rows}, args.json, lines)
    told = [tiled(job, op, side) for job, op, side in named]
    lines = [f"{len(told)} products on cards"]
    for one in told:
        if "latency" not in one.best:
            lines.append(f"{one.name[:34]:34} no tile of it fits a core")
            continue
        best = one.best["latency"]
        lines.append(f"{one.name[:34]:34} {amount(best.seconds, 's'):>10}  {one.counted()}, {one.tried:,} tried")
        lines.append(f"    {best.words()}")
        near, far = one.least
        lines.append(
            f"    into cores {amount(best.near_bytes, 'B')} (at least {amount(near, 'B')}), LPDDR "
            f"{amount(best.far_bytes, 'B')} (at least {amount(far, 'B')}), {amount(best.joules, 'J')}"
        )
    return emit({"products": [one.to_dict() for one in told]}, args.json, lines)
