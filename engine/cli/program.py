"""``python -m engine program show | run | time | check``: programs of an instruction set, shipped or a user's own."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.cli.output import emit
from engine.scenario import Scenario, ScenarioError
from engine.scenario.sentences import amount, percent

_LIMIT = 4_000_000  # bytes of a program's file


def add_program(commands: Any, add_scenario: Callable[[argparse.ArgumentParser], None], scenario: Any) -> None:
    """Register the command; ``scenario`` makes a Scenario of parsed arguments."""
    p = commands.add_parser("program", help="programs of an FPGA processor: shown, run on numbers, timed, checked")
    p.add_argument("what", choices=("show", "run", "time", "check"))
    add_scenario(p)
    p.add_argument("--file", help="text of a program (default: the one the scenario's price rests on)")
    p.add_argument(
        "--part",
        default="layer",
        help="of a decoder: layer (default), head or token; of an NPU attention, "
        "convolution or mlp instead of the network's own step",
    )
    p.add_argument("--seed", type=int, default=0, help="of the numbers it runs on (default 0)")
    p.set_defaults(run=lambda args: _program(args, scenario(args)))


def _text(args: argparse.Namespace, scenario: Scenario) -> str:
    from engine.analyses.programs import shipped

    if args.file is None:
        return shipped(scenario, args.part)
    path = Path(args.file)
    try:
        if path.stat().st_size > _LIMIT:
            raise ScenarioError(f"--file {args.file}: {path.stat().st_size:,} bytes; {_LIMIT:,} are allowed")
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"--file {args.file}: {getattr(error, 'strerror', None) or 'is no text'}") from None


def _program(args: argparse.Namespace, scenario: Scenario) -> int:
    from engine.analyses.programs import execute, listing

    if not 0 <= args.seed < 2**32:
        raise ScenarioError(f"--seed is {args.seed}: 0 to 4,294,967,295 is allowed")
    text = _text(args, scenario)
    if args.what == "run":
        values = execute(scenario, text, args.seed)
        lines = [f"{'register':14} {'elements':>9} {'error':>8}  first values after"]
        for one in values:
            error = "-" if one.error is None else percent(one.error)
            first = " ".join(f"{v:9.4g}" for v in one.after)
            lines.append(f"{one.register:14} {one.elements:>9,} {error:>8}  {first}")
        return emit([asdict(one) for one in values], args.json, lines)
    listed = listing(scenario, text)
    if args.what == "check":
        hazards = [row for row in listed.rows if row.hazard]
        lines = [f"{len(listed.rows)} instructions, {len(hazards)} of them wait for another"]
        lines += [
            f"line {row.line}: {row.hazard} of {_names(row)}, instruction {row.waits_for}: held until {row.start:,.0f}"
            for row in hazards
        ]
        return emit([asdict(row) for row in hazards], args.json, [*lines, *listed.notes])
    if args.what == "time":
        busy: dict[str, float] = {}
        for unit, _, _, cycles in listed.bars:
            busy[unit] = busy.get(unit, 0.0) + cycles
        lines = [f"{listed.cycles:,.0f} cycles, {amount(listed.seconds, 's')}"]
        lines += [
            f"  {unit:24} {cycles:>10,.0f} busy {percent(cycles / listed.cycles):>6}" for unit, cycles in busy.items()
        ]
        return emit(listed.as_dict(), args.json, [*lines, *listed.notes])
    lines = [f"{'no':>4} {'start':>9} {'end':>9} {'valid':>9} {'after':>5}  {'unit':20} instruction"]
    for row in listed.rows:
        after = "-" if row.waits_for is None else str(row.waits_for)
        numbers = f"{row.number:>4} {row.start:>9,.0f} {row.end:>9,.0f} {row.valid:>9,.0f} {after:>5}"
        lines.append(f"{numbers}  {row.unit:20} {row.text}")
    total = f"{listed.cycles:,.0f} cycles, {amount(listed.seconds, 's')}"
    return emit(listed.as_dict(), args.json, [*lines, total, *listed.notes])


def _names(row: Any) -> str:
    return ", ".join(row.writes if row.hazard != "read after write" else row.reads)
