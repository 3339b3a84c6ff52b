"""``ask kinds | tile``: time by kind of operator, tilings of products."""

import argparse

from engine.analyses.node.at_work import by_kind
from engine.analyses.node.tilings import pinned, products, tilings_of
from engine.cli.command import Answer, refuse
from engine.cli.scenario import scenario_in
from engine.scenario import ScenarioError
from engine.scenario.sentences import amount, percent


def kinds(args: argparse.Namespace) -> Answer:
    """Time by kind of operator, before and after each optimisation. An estimate. [s]"""
    first, *columns = by_kind(scenario_in(args))
    sentences = [f"{amount(first.latency_s, 's')} per request, by kind of operator"]
    sentences += [
        f"  {kind:24} {amount(t, 's'):>10}  {percent(first.share(kind)):>5}" for kind, t in first.seconds.items()
    ]
    for column in columns:
        changes = {
            kind: column.seconds.get(kind, 0.0) - first.seconds.get(kind, 0.0)
            for kind in {**first.seconds, **column.seconds}
        }
        largest = sorted(((k, v) for k, v in changes.items() if abs(v) > 1e-9), key=lambda pair: -abs(pair[1]))[:4]
        by = ", ".join(f"{kind} {'+' if by > 0 else '-'}{amount(abs(by), 's')}" for kind, by in largest)
        if by:
            sentences.append(f"{column.label} {'on' if column.on else 'off'}: {amount(column.latency_s, 's')} ({by})")
    return {"columns": [vars(column) | {"seconds": dict(column.seconds)} for column in (first, *columns)]}, sentences


def _sides(text: str, name: str, count: int) -> tuple[int, ...]:
    parts = text.split("x")
    if len(parts) != count or not all(part.isdigit() for part in parts):
        raise ScenarioError(f"{name} is {text[:40]!r}: {count} whole numbers with an x between are allowed")
    return tuple(map(int, parts))


def tile(args: argparse.Namespace) -> Answer:
    """Every tiling of every product on a card, or the price of one. Counts are exact, times estimates."""
    jobs = products(scenario_in(args))
    if args.op is not None:
        names = [op.name for _, op, _ in jobs]
        jobs = tuple(row for row in jobs if row[1].name == args.op)
        if not jobs:
            raise ScenarioError(f"--op is {args.op[:60]!r}: products here are {', '.join(names[:20])}")
    if args.block is not None:
        block = _sides(args.block, "--block", 3)
        rows, sentences = [], []
        for job, op, side in jobs:
            best = tilings_of(job, op, side, 0.0).best["latency"]
            cores = _sides(args.cores, "--cores", 2) if args.cores is not None else best.cores
            tiling = pinned(side, block, (cores[0], cores[1]), args.stays or "")
            sentences.append(f"{op.name}: {amount(tiling.seconds, 's')} (best {amount(best.seconds, 's')})")
            rows.append({"name": op.name, "pinned": vars(tiling) | {"words": tiling.words()}, "best": vars(best)})
        return {"products": rows}, sentences
    refuse(args, ("cores", "stays"), "a search over all blocks; give block")
    tilings = [tilings_of(job, op, side) for job, op, side in jobs]
    sentences = []
    for product in tilings:
        if (best := product.best.get("latency")) is None:
            sentences.append(f"{product.name}: no tile of it fits a core")
            continue
        sentences.append(f"{product.name}: {amount(best.seconds, 's')}, {product.count_text()}; {best.words()}")
        (near, far), traffic = product.bounds, (best.near_bytes, best.far_bytes)
        into, off = (f"{amount(b, 'B')} (at least {amount(a, 'B')})" for a, b in zip((near, far), traffic, strict=True))
        sentences.append(f"    into cores {into}, LPDDR {off}, {amount(best.joules, 'J')}")
    return {"products": [product.to_dict() for product in tilings]}, sentences
