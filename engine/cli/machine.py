"""``ask machine | microservice | program``: an instruction-set machine in full, a pool of them, its programs."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.cli.scenario import changed
from engine.scenario import Scenario, ScenarioError
from engine.scenario.sentences import amount, percent

_LIMIT = 4_000_000  # bytes of a program's file
_Answer = tuple[Any, Iterable[str]]


def machine(args: argparse.Namespace) -> _Answer:
    """Units, fabric, tiles and arithmetic. Sizes are exact, times estimates."""
    from engine.analyses.machine import machine as describe
    from engine.devices.common.instruction_set import SAME

    described = describe(changed(args))
    sentences = [f"units over {described.timeline_of}"] if described.units else []
    if described.tiles:
        (down, across), (side, lanes) = described.tiles.knobs, described.tiles.best
        sentences.append(
            f"of latencies by {down} and {across}: best {side} x {lanes}, fewest DSP slices, "
            f"{described.tiles.best_slices:,.0f}, within {SAME:.1%} of the fastest"
        )
    return described.as_dict(), sentences


def microservice(args: argparse.Namespace) -> _Answer:
    """A pool behind the network: its rate and its clients. An estimate."""
    from engine.analyses.microservice import Client
    from engine.analyses.microservice import microservice as serve

    for name, value in (("client-ms", args.client_ms), ("p95-ms", args.p95_ms)):
        if value is not None and not 0 < value < 1e6:
            raise ScenarioError(f"{name} is {value:g}: above 0 and below 1000000 is allowed")
    limit = None if args.p95_ms is None else args.p95_ms * 1e-3
    client = Client(args.client_cores, args.client_ms * 1e-3)
    service = serve(changed(args), args.pool, args.clients, client, limit)
    data = service.as_dict()
    return data, [data["message"]]


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


def program(args: argparse.Namespace) -> _Answer:
    """A program, shipped or a user's own: listed, run on numbers, timed, or its hazards."""
    from engine.analyses.programs import execute, listing

    if not 0 <= args.seed < 2**32:
        raise ScenarioError(f"--seed is {args.seed}: 0 to 4,294,967,295 is allowed")
    scenario = changed(args)
    text = _text(args, scenario)
    if args.what == "run":
        return [asdict(value) for value in execute(scenario, text, args.seed)], ()
    listed = listing(scenario, text)
    total = f"{listed.cycles:,.0f} cycles, {amount(listed.seconds, 's')}"
    if args.what == "check":
        hazards = [asdict(row) for row in listed.rows if row.hazard]
        return hazards, [f"{len(listed.rows)} instructions, {len(hazards)} of them wait for another", *listed.notes]
    if args.what == "show":
        return listed.as_dict(), [total]
    busy: dict[str, float] = {}
    for unit, _, _, cycles in listed.bars:
        busy[unit] = busy.get(unit, 0.0) + cycles
    shares = [f"  {unit:24} {n:>10,.0f} busy {percent(n / listed.cycles):>6}" for unit, n in busy.items()]
    return listed.as_dict(), [total, *shares]
