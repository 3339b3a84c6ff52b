"""``python -m engine kinds``: time by kind of operator, before and after each optimisation."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from engine.cli.output import emit
from engine.scenario import Scenario
from engine.scenario.sentences import amount, percent


def add_kinds(commands: Any, add_scenario: Callable[[argparse.ArgumentParser], None], scenario: Any) -> None:
    """Register the command; ``scenario`` makes a Scenario of parsed arguments."""
    p = commands.add_parser("kinds", help="time by kind of operator, before and after each optimisation")
    add_scenario(p)
    p.set_defaults(run=lambda args: _kinds(args, scenario(args)))


def _kinds(args: argparse.Namespace, scenario: Scenario) -> int:
    from engine.analyses.node.operator_kinds import by_kind

    first, *others = by_kind(scenario)
    lines = [f"{amount(first.latency_s, 's')} a request, by kind of operator"]
    lines += [f"  {kind:24} {amount(t, 's'):>10}  {percent(first.share(kind)):>5}" for kind, t in first.seconds.items()]
    for column in others:
        changed = {
            kind: column.seconds.get(kind, 0.0) - first.seconds.get(kind, 0.0)
            for kind in {**first.seconds, **column.seconds}
        }
        most = sorted(((k, v) for k, v in changed.items() if abs(v) > 1e-9), key=lambda pair: -abs(pair[1]))[:4]
        told = ", ".join(f"{kind} {'+' if by > 0 else '-'}{amount(abs(by), 's')}" for kind, by in most)
        if told:
            lines.append(f"{column.label} {'on' if column.on else 'off'}: {amount(column.latency_s, 's')} ({told})")
    data = {"columns": [vars(column) | {"seconds": dict(column.seconds)} for column in (first, *others)]}
    return emit(data, args.json, lines)
