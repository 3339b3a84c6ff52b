"""``ask machine | microservice | program``: an instruction-set machine in full, a pool of them, its programs."""

import argparse
from dataclasses import asdict
from pathlib import Path

from engine.analyses.machine import execute, listing, program_text
from engine.analyses.machine import machine as describe
from engine.analyses.microservice import Client
from engine.analyses.microservice import microservice as serve
from engine.cli.command import Answer, refuse
from engine.cli.scenario import scenario_in
from engine.cost.rows import totals
from engine.devices.common.instruction_set import TIE
from engine.scenario import Scenario, ScenarioError
from engine.scenario.sentences import amount, counted, percent
from entries.files import read_bytes
from entries.schema import InputError

_LIMIT = 4_000_000  # bytes of a program's file


def machine(args: argparse.Namespace) -> Answer:
    """Units, fabric, tiles and arithmetic. Sizes are exact, times estimates."""
    facts = describe(scenario_in(args))
    sentences = [f"units over {facts.timeline_of}"] if facts.units else []
    if facts.tiles:
        (down, across), (side, lanes) = facts.tiles.knobs, facts.tiles.best
        sentences.append(
            f"of latencies by {down} and {across}: best {side} x {lanes}, fewest DSP slices, "
            f"{facts.tiles.best_slices:,.0f}, within {TIE:.1%} of the fastest"
        )
    return asdict(facts), sentences


def microservice(args: argparse.Namespace) -> Answer:
    """A pool behind the network: its rate and its clients. An estimate."""
    limit = None if args.p95_ms is None else args.p95_ms * 1e-3
    client = Client(args.client_cores, args.client_ms * 1e-3)
    service = serve(scenario_in(args), args.pool, args.clients, client, limit)
    return asdict(service), [service.message]


def _text(args: argparse.Namespace, scenario: Scenario) -> str:
    if args.file is None:
        return program_text(scenario, args.part)
    try:
        return read_bytes(Path(args.file), _LIMIT).decode()
    except (InputError, UnicodeDecodeError) as error:
        why = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error
        raise ScenarioError(f"--file {args.file}: {why}") from None


def program(args: argparse.Namespace) -> Answer:
    """A program, shipped or a user's own: listed, run on numbers, timed, or its hazards."""
    refuse(args, ("seed",), f"{args.what}; only run draws numbers", args.what != "run")
    refuse(args, ("part",), "a program of your own, which is whole; leave it out", args.file is not None)
    scenario = scenario_in(args)
    text = _text(args, scenario)
    if args.what == "run":
        return [asdict(value) for value in execute(scenario, text, args.seed)], ()
    result = listing(scenario, text)
    total = f"{result.cycles:,.0f} cycles, {amount(result.seconds, 's')}"
    if args.what == "check":
        hazards = [asdict(row) for row in result.rows if row.hazard]
        return hazards, [
            f"{counted(len(result.rows), 'instruction')}, {len(hazards)} of them waiting for another",
            *result.notes,
        ]
    if args.what == "show":
        return result.as_dict(), [total]
    busy = totals((unit, cycles) for unit, _, _, cycles in result.bars)
    shares = [f"  {unit:24} {n:>10,.0f} busy {percent(n / result.cycles):>6}" for unit, n in busy.items()]
    return result.as_dict(), [total, *shares]
