"""``python -m engine simulate | capacity``: a scenario under load, from the command line."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from engine.cli.command import Answer
from engine.cli.scenario import add_scenario, changed, scenario_of
from engine.cli.serving import add_serving, capacity_together, serves, simulate_loop, simulate_serving
from engine.scenario import Scenario, ScenarioError
from engine.scenario.sentences import amount, percent
from engine.scenario.token import boundary, brief

if TYPE_CHECKING:  # imported where used: a command line that lists systems should not wait for the event engine
    from engine.traffic import Arrivals, SiteFacts, Sizes
    from engine.traffic.serving import Offer, Serving

_ARRIVALS = (
    "poisson, deterministic, gamma:CV, bursty:PEAK:SHARE:SECONDS, diurnal:PERIOD_S:RATE,RATE,... or trace:FILE.csv"
)
_LAWS = "fixed:N, uniform:LOW:HIGH, lognormal:MEAN:CV:MOST or mixed:SIZE=WEIGHT,SIZE=WEIGHT,..."
_VARY = (
    "with several limits: what may be chosen, as attention_dp=1,8 or serving.budget=2048,8192; the cheapest is taken"
)
_REQUESTS = 200_000
SIMULATE = """\
A request is what `evaluate` prices: the scenario's batch at its lengths. Every figure comes with its 99% confidence
interval; a load at or above capacity gets one sentence instead of a tail. Same seed, same bits, whatever the threads.

examples:
  python -m engine simulate preset:brainwave-gru --qps 400 --json
  python -m engine simulate preset:node-xlmr --qps 150 --max-batch 8 --timeout 0.02 --sizes uniform:20:70 --buckets 2
  python -m engine simulate preset:dfx-345m --qps 1.2 --output-sizes lognormal:40:0.8:128
  python -m engine simulate preset:node-dlrm --qps 4000 --arrangement stages --max-batch 2 --timeout 0.0005
  python -m engine simulate preset:brainwave-gru --qps 3000 --arrangement pool --services 4
  python -m engine simulate preset:tonic-fc --qps 9000 --arrangement packets --share 0.1 --places 64
  python -m engine simulate preset:wide-deep-int8 --qps 1500 --arrivals bursty:4:0.1:0.5
  python -m engine simulate --system h100-sxm --workload llama3.1-8b --clients 64 --inputs 1024 --outputs 1024 --json
  python -m engine simulate --passes passes.yaml --inputs 1024 --outputs 128 --clients 32 --kv-blocks 16384 --block 64
  python -m engine simulate preset:node-xlmr --qps 20 --arrivals trace:requests.csv   # time_s[,size][,output]
"""
CAPACITY = """\
The highest load inside the SLA with what limits it, then the nodes, racks, power and money for a demand with headroom
and a failure domain down. Perf/W is at the actual load, idle power included; what is assumed is said.

examples:
  python -m engine capacity preset:wide-deep-int8 --demand 5000 --sla p99=50ms --json
  python -m engine capacity preset:dfx-1.5b --demand 20,60,100,40 --sla p95=5s --against preset:v100-1.5b
  python -m engine capacity preset:v100-1.5b --demand 5 --sla ttft:p99=2s --max-batch 8
  python -m engine capacity --system h100-sxm --workload llama3.1-8b --demand 9 --sla ttft:p99=1s,tpot:p50=30ms
"""


def add_simulate(p: argparse.ArgumentParser) -> None:
    """Arguments of a scenario under a load."""
    add_scenario(p)
    _add_load(p)
    add_serving(p)
    p.add_argument("--qps", type=float, help="requests per second")
    p.add_argument("--most", type=int, help="go on to at most so many requests until intervals are within 5%%")


def add_capacity(p: argparse.ArgumentParser) -> None:
    """Arguments of a demand and what is promised to it."""
    add_scenario(p)
    _add_load(p)
    p.add_argument("--demand", required=True, help="peak requests per second, or a day as equal steps: 100,400,250")
    p.add_argument(
        "--sla",
        required=True,
        help="p99=20ms, mean=3us, ttft:p95=300ms; of a language model several together: ttft:p99=1s,tpot:p50=30ms",
    )
    p.add_argument("--policy", help="several limits together: the engine is vllm, sglang or trtllm (default vllm)")
    p.add_argument(
        "--headroom", type=float, default=0.2, help="load on top of the peak to plan for (default 0.2: a fifth more)"
    )
    p.add_argument("--survives", default="node", help="none, card, node, domain or rack (default node)")
    p.add_argument("--vary", action="append", default=[], metavar="PATH=V,V", help=_VARY)
    p.add_argument("--node-usd", type=float, help="price of a node where none is published")
    p.add_argument("--idle-w", type=float, help="power of an idle node where none is published")
    p.add_argument("--rack-slots", type=int, default=20, help="nodes a rack takes (default 20)")
    p.add_argument("--rack-w", type=float, default=15_000.0, help="power a rack takes (default 15000)")
    p.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="SCENARIO",
        help="another system at the same SLA and inferences per second; may be repeated",
    )


def _add_load(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("load")
    group.add_argument("--arrivals", default="poisson", help=_ARRIVALS)
    group.add_argument("--sizes", help=f"sizes of requests: {_LAWS}; default: the scenario's, or the trace's")
    group.add_argument("--sizes-are", default="inputs", help="what a size is: inputs, items or lookups")
    group.add_argument("--output-sizes", help="tokens wanted, as --sizes")
    group = parser.add_argument_group("serving")
    group.add_argument(
        "--arrangement", default="whole", help="whole, stages (each with a queue), pool (behind the network) or packets"
    )
    group.add_argument(
        "--max-batch",
        type=int,
        help="requests in a launch; of a decoder in its batch, the scenario's where left out",
    )
    group.add_argument("--request", default="batch", help="what a request is: batch (the scenario's) or item (of one)")
    group.add_argument(
        "--timeout", dest="timeout_s", type=float, default=0.0, help="longest a request waits for its batch [s]"
    )
    group.add_argument("--buckets", type=int, default=1, help="queues by size; a batch is of one")
    group.add_argument("--places", type=int, help="waiting places; who finds them taken is turned away")
    group.add_argument("--services", type=int, default=1, help="copies in a pool")
    group.add_argument("--share", type=float, default=0.1, help="share of packets that is looked at")
    group = parser.add_argument_group("simulation")
    group.add_argument("--requests", type=int, help=f"requests simulated (default {_REQUESTS:,})")
    group.add_argument("--seed", type=int, default=0)


def _loaded(args: argparse.Namespace, qps: float) -> tuple[Serving, Arrivals]:
    """How requests are served and when they come; a trace's own sizes count where none are given."""
    from engine.traffic.serving import Serving

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


def _law(field: str, text: str | None) -> Sizes | None:
    from engine.traffic import Fixed, LogNormal, Mixed, Uniform

    def make(kind: str, rest: str) -> Sizes | None:
        parts = rest.split(":")
        if kind == "fixed":
            return Fixed(int(rest))
        if kind == "uniform":
            low, high = (int(part) for part in parts)
            return Uniform(low, high)
        if kind == "lognormal":
            mean, cv, most = parts
            return LogNormal(float(mean), float(cv), int(most))
        if kind == "mixed":
            pairs = [part.split("=") for part in rest.split(",")]
            return Mixed(tuple(int(size) for size, _ in pairs), tuple(float(weight) for _, weight in pairs))
        return None

    return None if text is None else _parsed(field, text, _LAWS, make)


def _arrivals(text: str, qps: float) -> tuple[Arrivals, Sizes | None, Sizes | None]:
    from engine.traffic import Bursty, Deterministic, Diurnal, Gamma, Poisson, read_trace

    def make(kind: str, rest: str) -> tuple[Arrivals, Sizes | None, Sizes | None] | None:
        if kind == "trace" and rest:
            trace, sizes, outputs = read_trace(rest)
            return trace.at(qps), sizes, outputs
        arrivals: Arrivals | None = None
        if kind in ("poisson", "deterministic") and not rest:
            arrivals = Poisson(qps) if kind == "poisson" else Deterministic(qps)
        elif kind == "gamma":
            arrivals = Gamma(qps, float(rest))
        elif kind == "bursty":
            peak, share, seconds = (float(part) for part in rest.split(":"))
            arrivals = Bursty(qps, peak, share, seconds)
        elif kind == "diurnal":
            period, rates = rest.split(":")
            arrivals = Diurnal(qps, tuple(float(rate) for rate in rates.split(",")), float(period))
        return None if arrivals is None else (arrivals, None, None)

    return _parsed("arrivals", text, _ARRIVALS, make)


def simulate(args: argparse.Namespace) -> Answer:
    """Latencies under a load, of queues or of a serving engine. Simulated, on estimates of times."""
    if serves(args):
        if args.passes is not None and (args.scenario or args.system or args.workload):
            raise ScenarioError(f"passes is {args.passes.name} beside a scenario: give one of the two")
        process, sizes, outputs = (None, None, None) if args.qps is None else _arrivals(args.arrivals, args.qps)
        laws = _law("sizes", args.sizes) or sizes, _law("output-sizes", args.output_sizes) or outputs
        scenario = changed(args) if args.passes is None else None
        if scenario is not None and args.clients is not None and process is None and not _is_decoder(scenario):
            return simulate_loop(args, scenario, _loaded(args, 1.0)[0])
        return simulate_serving(args, scenario, (process, *laws))
    if args.qps is None:
        raise ScenarioError("qps or clients is needed: a rate of requests, or a closed loop of so many in flight")
    return _simulate_open(args, changed(args))


def _is_decoder(scenario: Scenario) -> bool:
    from engine.traffic.scenario_load import is_decoder

    return is_decoder(scenario)


def _simulate_open(args: argparse.Namespace, scenario: Scenario) -> Answer:
    import engine.traffic
    from engine.cost.error_bands import told
    from engine.evaluate import evaluate

    serving, arrivals = _loaded(args, args.qps)
    system, sizes, outputs = serving.of(scenario)
    report = engine.traffic.simulate(
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
    from engine.traffic import Demand, Sla
    from engine.traffic.scenario_load import inferences_of
    from engine.traffic.serving import compare

    scenario = changed(args)
    with boundary(f"demand is {brief(args.demand, 60)}; it must be numbers separated by commas"):
        demand = Demand(tuple(float(part) for part in args.demand.split(",")))
    serving, arrivals = _loaded(args, demand.peak)
    if "," in args.sla or args.policy is not None:
        return capacity_together(args, scenario, serving, arrivals, demand, _site(args, scenario))
    sla = Sla.parse(args.sla)
    if sla.time == "latency":
        serving = replace(serving, stream=False)
    scenarios = {"this": scenario} | {target: scenario_of(target) for target in args.against}
    first, *rest = compare(
        scenarios,
        serving,
        sla,
        Demand(tuple(q * inferences_of(scenario, args.request) for q in demand.qps)),
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


def _site(args: argparse.Namespace, scenario: Scenario) -> SiteFacts:
    from engine.traffic import SiteFacts

    costs = scenario.costs
    return SiteFacts(args.rack_slots, args.rack_w, 0.0, costs.pue, costs.energy_usd_per_kwh, costs.years)


def _offer(offer: Offer) -> dict[str, Any]:
    """A system's part of the answer as plain data."""
    from engine.evaluate import evaluate

    carried = None if offer.headline is None else {k: v for k, v in vars(offer.headline).items() if k != "report"}
    plan = None if offer.plan is None else offer.plan.as_dict()
    band = evaluate(offer.scenario).error_band
    most = None if offer.headline is None else offer.headline.capacity_qps
    row = {"node": carried, "plan": plan, "notes": offer.notes, **band.beside({"capacity_per_s": most})}
    return row | ({"scenario": offer.name, "problem": offer.problem} if offer.name != "this" else {})


def _plan(offer: Offer) -> list[str]:
    from engine.cost.error_bands import told
    from engine.evaluate import evaluate

    plan = offer.plan
    assert plan is not None
    lines = [
        plan.message,
        f"error band of service times: {told(evaluate(offer.scenario).error_band)}",
        f"power       {amount(plan.mean_w, 'W')} over the day, {amount(plan.peak_w, 'W')} at the peak",
        f"perf/W      {plan.inferences_per_joule:,.4g} inferences/J at this load, idle power and PUE included",
    ]
    if plan.capex_usd is not None and plan.usd_per_million is not None:
        lines += [
            f"capex       ${plan.capex_usd:,.0f}",
            f"energy      ${plan.energy_usd_per_year:,.0f} per year",
            f"a million   ${plan.usd_per_million:,.4g} for 10^6 inferences",
        ]
    return [*lines, *offer.notes]
