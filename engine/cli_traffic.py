"""``python -m engine simulate | capacity``: a scenario under load, from the command line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.scenario import Scenario, ScenarioError
from engine.words import amount, percent

if TYPE_CHECKING:  # imported where used: a command line that lists systems should not wait for the event engine
    from engine.traffic import Arrivals, Chain, Decoder, Listed

__all__ = ["add_traffic"]

_ARRIVALS = "poisson, deterministic, gamma:CV, bursty:PEAK:SHARE:SECONDS or trace:FILE"


def add_traffic(commands: Any, add_scenario: Callable[[argparse.ArgumentParser], None], scenario: Any) -> None:
    """Register both commands; ``scenario`` makes a Scenario of parsed arguments."""
    p = commands.add_parser("simulate", help="latency distribution of a scenario under a load")
    add_scenario(p)
    _add_load(p)
    p.add_argument("--qps", type=float, required=True, help="requests a second")
    p.set_defaults(run=lambda args: _simulate(args, scenario(args)))
    p = commands.add_parser("capacity", help="load inside an SLA, and the nodes, power and money a demand needs")
    add_scenario(p)
    _add_load(p)
    p.add_argument("--demand", required=True, help="peak requests a second, or a day as equal steps: 100,400,250")
    p.add_argument("--sla", required=True, help="p99=20ms, mean=3us, ttft:p95=300ms")
    p.add_argument("--headroom", type=float, default=0.2, help="share kept free at the peak (default 0.2)")
    p.add_argument("--survives", default="node", help="none, card, node or rack (default node)")
    p.add_argument("--node-usd", type=float, help="price of a node where none is published")
    p.add_argument("--idle-w", type=float, help="power of an idle node where none is published")
    p.add_argument("--rack-slots", type=int, default=20)
    p.add_argument("--rack-w", type=float, default=15_000.0)
    p.set_defaults(run=lambda args: _capacity(args, scenario(args)))


def _add_load(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--arrivals", default="poisson", help=_ARRIVALS)
    parser.add_argument("--max-batch", type=int, default=1, help="requests in a launch, or in a decoder's batch")
    parser.add_argument("--timeout", type=float, default=0.0, help="longest a request waits for its batch [s]")
    parser.add_argument("--places", type=int, help="waiting places; who finds them taken is turned away")
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)


def _loaded(args: argparse.Namespace, scenario: Scenario, qps: float) -> tuple[Chain | Decoder, Arrivals, Any, Any]:
    """System, arrivals, sizes and outputs; a trace's own sizes count, else every request is the scenario's."""
    from engine.traffic import ContinuousBatching, DynamicBatching, Fixed, NoBatching
    from engine.traffic.scenario_load import is_decoder, ladder, load_of

    arrivals, sizes, outputs = _arrivals(args.arrivals, qps)
    grid = None if sizes is None else ladder(int(sizes.values.max()))
    longest = scenario.inputs + scenario.outputs
    if sizes is not None or outputs is not None:
        longest = (scenario.inputs if sizes is None else int(sizes.values.max())) + (
            scenario.outputs if outputs is None else int(outputs.values.max())
        )
    if is_decoder(scenario):
        policy: Any = ContinuousBatching(args.max_batch, args.places)
    elif args.max_batch > 1:
        policy = DynamicBatching(args.max_batch, args.timeout, args.places)
    else:
        policy = NoBatching(args.places)
    system = load_of(scenario, policy, grid, longest)
    return system, arrivals, sizes or Fixed(scenario.inputs), outputs or Fixed(scenario.outputs)


def _arrivals(text: str, qps: float) -> tuple[Arrivals, Listed | None, Listed | None]:
    from engine.traffic import Bursty, Deterministic, Gamma, Poisson, read_trace

    kind, _, rest = text.partition(":")
    try:
        if kind == "poisson" and not rest:
            return Poisson(qps), None, None
        if kind == "deterministic" and not rest:
            return Deterministic(qps), None, None
        if kind == "gamma":
            return Gamma(qps, float(rest)), None, None
        if kind == "bursty":
            peak, share, seconds = (float(part) for part in rest.split(":"))
            return Bursty(qps, peak, share, seconds), None, None
        if kind == "trace" and rest:
            trace, sizes, outputs = read_trace(rest)
            return trace.at(qps), sizes, outputs
    except ScenarioError:
        raise
    except ValueError:
        raise ScenarioError(f"arrivals is {text[:60]!r}; it must be {_ARRIVALS}") from None
    raise ScenarioError(f"arrivals is {text[:60]!r}; it must be {_ARRIVALS}")


def _simulate(args: argparse.Namespace, scenario: Scenario) -> int:
    from engine.traffic import simulate

    system, arrivals, sizes, outputs = _loaded(args, scenario, args.qps)
    report = simulate(system, arrivals, sizes=sizes, outputs=outputs, requests=args.requests, seed=args.seed)
    if args.json:
        return _json(report.as_dict())
    lines = [report.message]
    for name, tail in (("latency", report.latency), ("ttft", report.ttft), ("tpot", report.tpot)):
        for metric in () if tail is None else ("mean", "p50", "p95", "p99"):
            e = getattr(tail, metric)
            lines.append(f"{name} {metric:4}  {amount(e.value, 's')}  ({amount(e.low, 's')} to {amount(e.high, 's')})")
    lines += [f"use {percent(use):>5}  {name}" for name, use in report.use.items()]
    return _text([*lines, *report.notes])


def _capacity(args: argparse.Namespace, scenario: Scenario) -> int:
    from engine.traffic import Demand, SiteFacts, Sla, capacity_plan, max_qps
    from engine.traffic.scenario_load import node_facts

    try:
        demand = Demand(tuple(float(part) for part in args.demand.split(",")))
    except ScenarioError:
        raise
    except ValueError:
        raise ScenarioError(f"demand is {args.demand[:60]!r}; it must be numbers separated by commas") from None
    sla = Sla.parse(args.sla)
    system, arrivals, sizes, outputs = _loaded(args, scenario, demand.peak)
    best = max_qps(system, sla, arrivals, sizes=sizes, outputs=outputs, requests=args.requests, seed=args.seed)
    node, notes = node_facts(scenario, best, args.idle_w, args.node_usd)
    costs = scenario.costs
    site = SiteFacts(args.rack_slots, args.rack_w, 0.0, costs.pue, costs.energy_usd_per_kwh, costs.years)
    plan = capacity_plan(demand, node, site, headroom=args.headroom, survives=args.survives)
    if args.json:
        headline = {k: v for k, v in vars(best).items() if k != "report"}
        return _json({"node": headline, "plan": plan.as_dict(), "at_limit": best.report.as_dict(), "notes": notes})
    return _text(
        [
            f"a node: {best.message}",
            plan.message,
            f"power       {amount(plan.mean_w, 'W')} over the day, {amount(plan.peak_w, 'W')} at the peak",
            f"capex       ${plan.capex_usd:,.0f}",
            f"a million   ${plan.usd_per_million:,.4g}",
            *notes,
        ]
    )


def _json(data: dict[str, Any]) -> int:
    json.dump(data, sys.stdout, indent=1, allow_nan=False)
    return _text([""])


def _text(lines: list[str]) -> int:
    sys.stdout.write("\n".join(lines) + "\n")
    return 0
