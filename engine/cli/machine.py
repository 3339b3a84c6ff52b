"""``python -m engine machine | microservice``: an instruction-set machine in full, and a pool of them for clients."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from engine.cli.output import emit
from engine.scenario import Scenario, ScenarioError
from engine.scenario.sentences import amount, percent


def add_machine(commands: Any, add_scenario: Callable[[argparse.ArgumentParser], None], scenario: Any) -> None:
    """Register both commands; ``scenario`` makes a Scenario of parsed arguments."""
    p = commands.add_parser("machine", help="units, fabric, tiles and arithmetic of an FPGA processor")
    add_scenario(p)
    p.set_defaults(run=lambda args: _machine(args, scenario(args)))
    p = commands.add_parser("microservice", help="a pool of accelerators behind the network: its rate and its clients")
    add_scenario(p)
    p.add_argument("--pool", type=int, required=True, help="devices of the pool")
    p.add_argument("--clients", type=int, default=1, help="CPU servers that drive it (default 1)")
    p.add_argument("--client-cores", type=int, default=16, help="cores of a client (default 16)")
    p.add_argument("--client-ms", type=float, default=50.0, help="core time of a query on a client [ms] (default 50)")
    p.add_argument("--p95-ms", type=float, help="limit on the 95th percentile from request to answer [ms]")
    p.set_defaults(run=lambda args: _microservice(args, scenario(args)))


def _machine(args: argparse.Namespace, scenario: Scenario) -> int:
    from engine.analyses.machine import machine
    from engine.devices.common.instruction_set import SAME

    described = machine(scenario)
    lines = [described.device, f"units over {described.timeline_of}"] if described.units else [described.device]
    for unit in described.units:
        share = percent(unit.busy_s / (unit.busy_s + unit.stall_s))
        lines.append(f"  {unit.name:42} {amount(unit.busy_s, 's'):>10} busy  {share:>5}")
    lines.append("latency of a request")
    for part in described.parts:
        lines.append(f"  {part.name:42} {amount(part.time_s, 's'):>10}  {percent(part.share):>5}")
    lines.append("fabric")
    for use in described.uses:
        most = "" if use.available is None else f" of {use.available:,.0f}"
        share = "" if use.share is None else f"{percent(use.share):>6}"
        lines.append(f"  {use.name:42} {use.used:>10,.0f}{most}{share}  {use.basis}")
    lines.append("on the parts of the catalog")
    fits = {True: "fits", False: "does not fit", None: "other fabric"}
    lines += [f"  {row.part:42} {fits[row.fits]:>12}  {row.said}" for row in described.part_fits]
    lines.append("arithmetic")
    lines += [f"  {row.name:42} {percent(row.relative):>6}  {row.note}" for row in described.errors]
    if described.tiles:
        lines.append(
            f"latency by {described.tiles.knobs[0]} (down) and {described.tiles.knobs[1]} (across); - does not fit"
        )
        lines.append("       " + "".join(f"{column:>10}" for column in described.tiles.columns))
        for row, values in zip(described.tiles.rows, described.tiles.seconds, strict=True):
            cells = (f"{'-' if v is None else amount(v, 's'):>10}" for v in values)
            lines.append(f"  {row:>5}" + "".join(cells))
        side, lanes = described.tiles.best
        lines.append(
            f"  best {side} x {lanes}: fewest DSP slices, {described.tiles.best_slices:,.0f}, "
            f"within {SAME:.1%} of the fastest"
        )
    if described.densities:
        lines.append("peak by precision, what the part holds")
        lines += [
            f"  {d.format:8} {d.hard + d.soft:>10,.0f} units  {amount(d.flops_per_s, 'FLOP/s')}"
            for d in described.densities
        ]
    return emit(described.as_dict(), args.json, lines)


def _microservice(args: argparse.Namespace, scenario: Scenario) -> int:
    from engine.analyses.microservice import Client, microservice

    for name, value in (("client-ms", args.client_ms), ("p95-ms", args.p95_ms)):
        if value is not None and not 0 < value < 1e6:
            raise ScenarioError(f"{name} is {value:g}: above 0 and below 1000000 is allowed")
    limit = None if args.p95_ms is None else args.p95_ms * 1e-3
    client = Client(args.client_cores, args.client_ms * 1e-3)
    service = microservice(scenario, args.pool, args.clients, client, limit)
    waits = (
        "more than the pool carries"
        if service.p95_s is None
        else f"{amount(service.p95_s, 's')} at the 95th percentile"
    )
    return emit(
        service.as_dict(),
        args.json,
        [
            service.message,
            f"an instance     {amount(service.instance_qps, 'request/s')}, limited by {service.limit}; "
            f"{amount(service.latency_s, 's')} idle",
            f"{service.clients} clients       {amount(service.offered_qps, 'request/s')}, "
            f"{percent(service.utilisation)} of the pool: {waits}",
            f"most clients    {service.most_clients}",
            f"one client fills an instance only below {amount(service.shared_above_s, 's')} of core time a query",
        ],
    )
