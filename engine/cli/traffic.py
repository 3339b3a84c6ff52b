"""``python -m engine simulate | capacity``: a scenario under load, from the command line."""

import argparse
import math
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from typing import Any

from engine import traffic
from engine.cli.command import Answer
from engine.cli.scenario import changed, scenario_of
from engine.cli.serving import capacity_together, serves, simulate_loop, simulate_serving
from engine.cost.error_bands import told
from engine.evaluate import evaluate
from engine.scenario import Scenario, ScenarioError
from engine.scenario.sentences import amount, percent
from engine.scenario.token import boundary, brief
from engine.traffic.scenario_load import answer_unit, inferences_of, is_decoder
from engine.traffic.serving import Offer, Serving, compare

_ARRIVALS = (
    "poisson, deterministic, gamma:CV, bursty:PEAK:SHARE:SECONDS, diurnal:PERIOD_S:RATE,RATE,... or trace:FILE.csv"
)
_LAWS = "fixed:N, uniform:LOW:HIGH, lognormal:MEAN:CV:MOST or mixed:SIZE=WEIGHT,SIZE=WEIGHT,..."
_REQUESTS = 200_000


def _loaded(args: argparse.Namespace, qps: float) -> tuple[Serving, traffic.Arrivals]:
    """How requests are served and when they come; a trace's own sizes count where none are given."""
    arrivals, sizes, outputs = _arrivals(args.arrivals, qps)
    laws = {
        "sizes": _law("sizes", args.sizes) or sizes,
        "outputs": _law("output-sizes", args.output_sizes) or outputs,
    }
    alike = {f.name: getattr(args, f.name) for f in fields(Serving) if f.name in vars(args) and f.name not in laws}
    return Serving(**alike, **laws, stream=True), arrivals


def _parsed(field: str, text: str, allowed: str, make: Callable[[str, str], Any]) -> Any:
    """What ``make`` finds in ``kind:rest``; where it finds nothing, one sentence."""
    refusal = f"{field} is {brief(text, 60)}; it must be {allowed}"
    with boundary(refusal):
        parsed = make(*text.partition(":")[::2])
        if parsed is None:
            raise ScenarioError(refusal)
        return parsed


def _law(field: str, text: str | None) -> traffic.Sizes | None:
    def make(kind: str, rest: str) -> traffic.Sizes | None:
        parts = rest.split(":")
        if kind == "fixed":
            return traffic.Fixed(int(rest))
        if kind == "uniform":
            low, high = (int(part) for part in parts)
            return traffic.Uniform(low, high)
        if kind == "lognormal":
            mean, cv, most = parts
            return traffic.LogNormal(float(mean), float(cv), int(most))
        if kind == "mixed":
            pairs = [part.split("=") for part in rest.split(",")]
            return traffic.Mixed(tuple(int(size) for size, _ in pairs), tuple(float(weight) for _, weight in pairs))
        return None

    return None if text is None else _parsed(field, text, _LAWS, make)


def _arrivals(text: str, qps: float) -> tuple[traffic.Arrivals, traffic.Sizes | None, traffic.Sizes | None]:
    def make(kind: str, rest: str) -> tuple[traffic.Arrivals, traffic.Sizes | None, traffic.Sizes | None] | None:
        if kind == "trace" and rest:
            trace, sizes, outputs = traffic.read_trace(rest)
            return trace.at(qps), sizes, outputs
        arrivals: traffic.Arrivals | None = None
        if kind in ("poisson", "deterministic") and not rest:
            arrivals = traffic.Poisson(qps) if kind == "poisson" else traffic.Deterministic(qps)
        elif kind == "gamma":
            arrivals = traffic.Gamma(qps, float(rest))
        elif kind == "bursty":
            peak, share, seconds = (float(part) for part in rest.split(":"))
            arrivals = traffic.Bursty(qps, peak, share, seconds)
        elif kind == "diurnal":
            period, rates = rest.split(":")
            arrivals = traffic.Diurnal(qps, tuple(float(rate) for rate in rates.split(",")), float(period))
        return None if arrivals is None else (arrivals, None, None)

    return _parsed("arrivals", text, _ARRIVALS, make)


def simulate(args: argparse.Namespace) -> Answer:
    """Latencies under a load, of queues or of a serving engine. Simulated, on estimates of times."""
    if serves(args):
        if args.passes is not None and (args.scenario or args.system or args.workload):
            raise ScenarioError(f"passes is {args.passes.name} beside a scenario: give either, not both")
        process, sizes, outputs = (None, None, None) if args.qps is None else _arrivals(args.arrivals, args.qps)
        laws = _law("sizes", args.sizes) or sizes, _law("output-sizes", args.output_sizes) or outputs
        scenario = changed(args) if args.passes is None else None
        if scenario is not None and args.clients is not None and process is None and not is_decoder(scenario):
            return simulate_loop(args, scenario, _loaded(args, 1.0)[0])
        return simulate_serving(args, scenario, (process, *laws))
    if args.qps is None:
        raise ScenarioError("qps or clients is needed: a rate of requests, or a closed loop of so many in flight")
    return _simulate_open(args, changed(args))


def _simulate_open(args: argparse.Namespace, scenario: Scenario) -> Answer:
    serving, arrivals = _loaded(args, args.qps)
    system, sizes, outputs = serving.of(scenario)
    report = traffic.simulate(
        system,
        arrivals,
        sizes=sizes,
        outputs=outputs,
        requests=args.requests or _REQUESTS,
        most=args.most,
        seed=args.seed,
    )
    band = evaluate(scenario).error_band
    lines = [report.message, f"error band of service times: {told(band)}"]
    tails = {"latency": report.latency, "ttft": report.ttft, "tpot": report.tpot, "passed": report.passed}
    for name, tail in tails.items():
        for metric in () if tail is None else ("mean", "p50", "p95", "p99"):
            e = getattr(tail, metric)
            high = amount(e.high, "s") if math.isfinite(e.high) else "no upper end"
            lines.append(f"{name} {metric:4}  {amount(e.value, 's')}  ({amount(e.low, 's')} to {high})")
    lines += [f"use {percent(use):>5}  {name}" for name, use in report.use.items()]
    return report.as_dict() | {"error_band": asdict(band)}, [*lines, *report.notes]


def capacity(args: argparse.Namespace) -> Answer:
    """The most that keeps a promise, and what a demand needs. Estimates."""
    scenario = changed(args)
    with boundary(f"demand is {brief(args.demand, 60)}; it must be numbers separated by commas"):
        demand = traffic.Demand(tuple(float(part) for part in args.demand.split(",")))
    serving, arrivals = _loaded(args, demand.peak)
    if "," in args.sla or args.policy is not None:
        return capacity_together(args, scenario, serving, arrivals, demand, _site(args, scenario))
    sla = traffic.Sla.parse(args.sla)
    if sla.time == "latency":
        serving = replace(serving, stream=False)
    scenarios = {"this": scenario} | {target: scenario_of(target) for target in args.against}
    first, *rest = compare(
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
        requests=args.requests or _REQUESTS,
        seed=args.seed,
    )
    if first.plan is None or first.headline is None:
        raise ScenarioError(first.problem)
    document = {"at_limit": first.headline.report.as_dict(), "against": [*map(_offer, rest)]}
    lines = [f"a node: {first.headline.message}", *_plan(first)]
    for offer in rest:
        if offer.headline is None or offer.plan is None:
            lines += ["", f"against {offer.name}: {offer.problem}"]
        else:
            lines += ["", f"against {offer.name}: {offer.headline.message}", *_plan(offer)]
    return _offer(first) | document, lines


def _site(args: argparse.Namespace, scenario: Scenario) -> traffic.SiteFacts:
    costs = scenario.costs
    return traffic.SiteFacts(args.rack_slots, args.rack_w, 0.0, costs.pue, costs.energy_usd_per_kwh, costs.years)


def _offer(offer: Offer) -> dict[str, Any]:
    """A system's part of the answer as plain data."""
    carried = None if offer.headline is None else {k: v for k, v in vars(offer.headline).items() if k != "report"}
    plan = None if offer.plan is None else offer.plan.as_dict()
    band = evaluate(offer.scenario).error_band
    most = None if offer.headline is None else offer.headline.capacity_qps
    row = {"node": carried, "plan": plan, "notes": offer.notes, **band.beside({"capacity_per_s": most})}
    return row | ({"scenario": offer.name, "problem": offer.problem} if offer.name != "this" else {})


def _plan(offer: Offer) -> list[str]:
    plan, report = offer.plan, evaluate(offer.scenario)
    assert plan is not None
    unit = answer_unit(report)
    lines = [
        plan.message,
        f"error band of service times: {told(report.error_band)}",
        f"power       {amount(plan.mean_w, 'W')} over the day, {amount(plan.peak_w, 'W')} at the peak",
        f"perf/W      {plan.inferences_per_joule:,.4g} {unit}s/J at this load, idle power and PUE included",
    ]
    if plan.capex_usd is not None and plan.usd_per_million is not None:
        lines += [
            f"capex       ${plan.capex_usd:,.0f}",
            f"energy      ${plan.energy_usd_per_year:,.0f} per year",
            f"a million   ${plan.usd_per_million:,.4g} for 10^6 {unit}s",
        ]
    return [*lines, *offer.notes]
