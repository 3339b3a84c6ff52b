"""``python -m engine simulate | capacity``: a scenario under load, from the command line."""

import argparse
import math
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from itertools import product
from typing import Any

from engine import traffic
from engine.cli.capacity import capacity_together, plan_lines
from engine.cli.command import TABLE, Answer, refuse
from engine.cli.scenario import scenario_in, scenario_of
from engine.cli.serving import OF_POOLS, engine_answer, needs_engine, serves, simulate_loop, simulate_serving
from engine.cost.error_bands import told
from engine.evaluate import evaluate
from engine.scenario import Scenario, ScenarioError
from engine.scenario.sentences import amount, percent
from engine.scenario.token import boundary, brief
from engine.traffic.scenario_load import inferences_of, is_decoder, usual_policy
from engine.traffic.serving import Offer, Serving, compare

_ARRIVALS = TABLE["groups"]["load"]["--arrivals"]["help"]
_LAWS = "fixed:N, uniform:LOW:HIGH, lognormal:MEAN:CV:MOST or mixed:SIZE=WEIGHT,SIZE=WEIGHT,..."
_REQUESTS = 200_000


def _serving_of(args: argparse.Namespace, qps: float) -> tuple[Serving, traffic.Arrivals]:
    """How requests are served and when they come."""
    arrivals, sizes, outputs = _demand(args, qps)
    names = {f.name for f in fields(Serving)} & vars(args).keys()
    rules: dict[str, Any] = {name: getattr(args, name) for name in names} | {"sizes": sizes, "outputs": outputs}
    return Serving(**rules, stream=True), arrivals


def _refuse_idle(args: argparse.Namespace, serving: Serving, scenario: Scenario) -> None:
    """InputError for an option of queues that the rest of them leaves nothing to act on."""
    refuse(args, ("services",), "one copy; give arrangement pool", serving.arrangement != "pool")
    refuse(args, ("share",), "requests that are no packets; give arrangement packets", serving.arrangement != "packets")
    refuse(args, ("sizes_are",), "requests of one size; give sizes", serving.sizes is None)
    alone = serving.max_batch in (None, 1) and serving.request == "batch"
    refuse(args, ("timeout_s",), "single requests; give max-batch", alone)
    sequences = serving.arrangement == "whole" and is_decoder(scenario)
    refuse(args, ("batch",), "requests of a language model, each a sequence; give max-batch", sequences)


def _demand(args: argparse.Namespace, qps: float | None) -> tuple[Any, traffic.Sizes | None, traffic.Sizes | None]:
    """Arrivals, where there is a rate, and what sizes and outputs vary by: a trace's own where none are given."""
    arrivals, sizes, outputs = (None, None, None) if qps is None else _arrivals(args.arrivals, qps)
    sizes, outputs = _law("sizes", args.sizes) or sizes, _law("output-sizes", args.output_sizes) or outputs
    refuse(args, ["inputs"], "sizes of requests: give either", sizes is not None and args.sizes_are == "inputs")
    refuse(args, ["outputs"], "output sizes of requests: give either", outputs is not None)
    return arrivals, sizes, outputs


def _mixture(text: str) -> traffic.Mixed:
    sizes, weights = zip(*(part.split("=") for part in text.split(",")), strict=True)
    return traffic.Mixed(tuple(map(int, sizes)), tuple(map(float, weights)))


_LAW: dict[str, Callable[..., traffic.Sizes]] = {
    "fixed": lambda size: traffic.Fixed(int(size)),
    "uniform": lambda low, high: traffic.Uniform(int(low), int(high)),
    "lognormal": lambda mean, cv, largest: traffic.LogNormal(float(mean), float(cv), int(largest)),
    "mixed": _mixture,
}
_PROCESS: dict[str, Callable[..., traffic.Arrivals]] = {
    "poisson": traffic.Poisson,
    "deterministic": traffic.Deterministic,
    "gamma": lambda qps, cv: traffic.Gamma(qps, float(cv)),
    "bursty": lambda qps, peak, share, burst_s: traffic.Bursty(qps, float(peak), float(share), float(burst_s)),
    "diurnal": lambda qps, day_s, rates: traffic.Diurnal(qps, tuple(map(float, rates.split(","))), float(day_s)),
}


def _law(field: str, text: str | None) -> traffic.Sizes | None:
    if text is None:
        return None
    with boundary(f"{field} is {brief(text, 60)}; it must be {_LAWS}"):
        kind, *numbers = text.split(":")
        return _LAW[kind](*numbers)


def _arrivals(text: str, qps: float) -> tuple[traffic.Arrivals, traffic.Sizes | None, traffic.Sizes | None]:
    with boundary(f"arrivals is {brief(text, 60)}; it must be {_ARRIVALS}"):
        kind, _, body = text.partition(":")
        if kind == "trace" and body:
            trace, sizes, outputs = traffic.read_trace(body)
            return trace.at(qps), sizes, outputs
        return _PROCESS[kind](qps, *(body.split(":") if body else ())), None, None


def simulate(args: argparse.Namespace) -> Answer:
    """Latencies under a load, of queues or of a serving engine. Simulated, on estimates of times."""
    if serves(args):
        if args.passes is not None and (args.scenario or args.system or args.workload):
            raise ScenarioError(f"passes is {args.passes.name} beside a scenario: give either, not both")
        demand = _demand(args, args.qps)
        scenario = scenario_in(args) if args.passes is None else None
        if scenario is not None and not is_decoder(scenario):
            serving, _ = _serving_of(args, 1.0)
            _refuse_idle(args, serving, scenario)
            return simulate_loop(args, scenario, serving)
        return simulate_serving(args, scenario, demand)
    refuse(args, ("think", "think_law", "ramp", "speed", *OF_POOLS), "a queue without clients or pools")
    if args.qps is None:
        raise ScenarioError("qps or clients is needed: a rate of requests, or a closed loop of so many in flight")
    scenario, (serving, arrivals) = scenario_in(args), _serving_of(args, args.qps)
    _refuse_idle(args, serving, scenario)
    system, sizes, outputs = serving.of(scenario)
    load: dict[str, Any] = {"sizes": sizes, "outputs": outputs, "requests": _requests(args)}
    report = traffic.simulate(system, arrivals, **load, most=args.most, seed=args.seed)
    engine, engine_lines, served = dict[str, Any](), list[str](), scenario
    if isinstance(system, traffic.DecoderServer):
        rules = system.scheduler
        engine, engine_lines = engine_answer(usual_policy(scenario, rules.max_seqs), scenario, rules)
        if report.stable:
            served = scenario.with_(batch=max(1, round(min(report.in_system, rules.max_seqs))))
    band = evaluate(served).error_band
    lines = [report.message, f"error band of service times: {told(band)}"]
    for name, metric in product(("latency", "ttft", "tpot", "passed"), ("mean", "p50", "p95", "p99")):
        if tail := getattr(report, name):
            e = getattr(tail, metric)
            high = amount(e.high, "s") if math.isfinite(e.high) else "no upper end"
            lines.append(f"{name} {metric:4}  {amount(e.value, 's')}  ({amount(e.low, 's')} to {high})")
    lines += [f"use {percent(use):>5}  {name}" for name, use in report.use.items()]
    lines += [*report.notes, *engine_lines]
    return report.as_dict() | {"error_band": asdict(band)} | engine, lines


def _requests(args: argparse.Namespace) -> int:
    return _REQUESTS if args.requests is None else args.requests


def capacity(args: argparse.Namespace) -> Answer:
    """The most that keeps a promise, and what a demand needs. Estimates."""
    refuse(args, OF_POOLS, "one pool; give pools", args.pools is None)
    scenario = scenario_in(args)
    with boundary(f"demand is {brief(args.demand, 60)}; it must be numbers separated by commas"):
        demand = traffic.Demand(tuple(float(part) for part in args.demand.split(",")))
    serving, arrivals = _serving_of(args, demand.peak)
    if needs_engine(args, scenario):
        return capacity_together(args, scenario, serving, arrivals, demand, _site(args, scenario))
    _refuse_idle(args, serving, scenario)
    sla, serving = traffic.Sla.parse(args.sla), replace(serving, stream=False)
    scenarios = {"this": scenario} | {target: scenario_of(target) for target in args.against}
    first, *rivals = compare(
        scenarios,
        serving,
        sla,
        traffic.Demand(tuple(q * inferences_of(scenario, args.request) for q in demand.qps)),
        arrivals,
        site=_site(args, scenario),
        headroom=args.headroom,
        survives=args.survives,
        idle_w=args.idle_w,
        node_usd=args.node_usd,
        requests=_requests(args),
        seed=args.seed,
    )
    if first.plan is None or first.headline is None:
        raise ScenarioError(first.problem)
    document = {"at_limit": first.headline.report.as_dict(), "against": [*map(_offer, rivals)]}
    lines = [f"a node: {first.headline.message}", *_plan(first)]
    for offer in rivals:
        answer = offer.problem if offer.headline is None or offer.plan is None else offer.headline.message
        lines += ["", f"against {offer.name}: {answer}", *_plan(offer)]
    return _offer(first) | document, lines


def _site(args: argparse.Namespace, scenario: Scenario) -> traffic.SiteFacts:
    costs = scenario.costs
    return traffic.SiteFacts(args.rack_slots, args.rack_w, 0.0, costs.pue, costs.energy_usd_per_kwh, costs.years)


def _offer(offer: Offer) -> dict[str, Any]:
    """A system's part of the answer as plain data."""
    load = None if offer.headline is None else {k: v for k, v in vars(offer.headline).items() if k != "report"}
    plan = None if offer.plan is None else vars(offer.plan)
    band = evaluate(offer.scenario).error_band
    capacity_qps = None if offer.headline is None else offer.headline.capacity_qps
    row = {"node": load, "plan": plan, "notes": offer.notes, **band.beside({"capacity_per_s": capacity_qps})}
    return row | ({"scenario": offer.name, "problem": offer.problem} if offer.name != "this" else {})


def _plan(offer: Offer) -> list[str]:
    return [] if offer.plan is None else [*plan_lines(offer.plan, offer.scenario), *offer.notes]
