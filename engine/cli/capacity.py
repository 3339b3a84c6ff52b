"""``python -m engine capacity`` of a serving engine: what may vary, the most that keeps all limits, and the plan."""

import argparse
from dataclasses import replace
from itertools import product
from typing import Any

from engine.cli.command import Answer, refuse
from engine.cli.scenario import scenario_of
from engine.cli.serving import OF_QUEUES, engine_answer, pools_of, report_lines
from engine.cost.error_bands import told
from engine.evaluate import evaluate
from engine.scenario import Scenario, ScenarioError, encode
from engine.scenario.overrides import apply_all, parse_setting
from engine.scenario.sentences import amount
from engine.traffic.engines.operating_points import engine, limits_of
from engine.traffic.engines.operating_space import scheduler_of, varied
from engine.traffic.engines.pools import Pool, ratios_of
from engine.traffic.plan import CapacityPlan, Demand, SiteFacts, capacity_plan, group_of
from engine.traffic.scenario_load import answer_unit, node_facts, token_prices, usual_policy
from engine.traffic.serving import Serving
from entries.schema import InputError


def capacity_together(
    args: argparse.Namespace, scenario: Scenario, serving: Serving, arrivals: Any, demand: Demand, site: SiteFacts
) -> Answer:
    """The highest rate at which a serving engine keeps several limits at once, what binds there, and the plan.

    ScenarioError for options of the one-limit search that this one has not.
    """
    refuse(args, (*OF_QUEUES, "batch"), "limits of a serving engine; leave it out")
    limits = limits_of(args.sla)
    best, trials = _arrangement(args, scenario, limits, serving, arrivals, (demand, site))
    choice, load, plan, prefills, notes, (engine_data, engine_lines) = best
    point = load.point
    assert point is not None
    nearest = max(limits, key=lambda name: (point.figure(name) or 0.0) / limits[name])
    rates = {f"{name}s": getattr(point.report, f"{name}_tokens_per_s") for name in ("input", "output")}
    lengths = {name: max(1, round(rate / point.report.requests_per_s)) for name, rate in rates.items()}
    prices = token_prices(plan, choice.with_(**lengths), point.running, prefills)
    running = choice.with_(batch=point.together)
    lines, band = [], evaluate(running).error_band
    for at, row in enumerate(trials if len(trials) > 1 else ()):
        set_to = "  ".join(f"{name}={value}" for name, value in row.items() if value is not None)
        lines.append(f"{'tried' if at else 'best'}  {set_to}")
    unit = "node" if args.pools is None else "group"
    lines += [
        f"a {unit}: {load.message}; nearest its limit: {nearest}; most of the time: {point.binds}",
        *engine_lines,
        *report_lines(point.report),
        f"{point.tokens_per_s_per_device:,.4g} output tokens/s per device",
        *plan_lines(plan, running),
        *(f"{name.replace('_', ' ').replace('usd', '$')}: {value:.4g}" for name, value in prices.items()),
        *notes,
    ]
    figures = {"qps": load.qps, "capacity_qps": load.capacity_qps, "limit": point.binds, "nearest": nearest}
    rates = {name: getattr(point, name) for name in ("tokens_per_s_per_device", "tokens_per_s_per_user")}
    document = {"node": figures | {"message": load.message} | rates, "plan": vars(plan) | prices, "notes": notes}
    document |= {"at_limit": point.report.as_dict(), "shares": dict(point.shares), "token": encode(choice)}
    document |= engine_data | band.beside({"capacity_per_s": load.capacity_qps})
    document["against"] = against = list[dict[str, Any]]()
    for target in args.against:
        rival = argparse.Namespace(**vars(args) | {"against": []})
        try:
            row, sentences = capacity_together(rival, scenario_of(target), serving, arrivals, demand, site)
        except InputError as why:
            row, sentences = {"problem": str(why)}, [str(why)]
        against.append(row | {"scenario": target})
        lines += ["", f"against {target}:", *sentences]
    return document | ({"tried": trials} if len(trials) > 1 else {}), lines


def plan_lines(plan: CapacityPlan, scenario: Scenario) -> list[str]:
    """Machines, power and money of a plan in words, with the error band of the times that it rests on."""
    report = evaluate(scenario)
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
    return lines


def _arrangement(
    args: argparse.Namespace,
    scenario: Scenario,
    limits: dict[str, float],
    serving: Serving,
    arrivals: Any,
    target: tuple[Demand, SiteFacts],
) -> tuple[tuple[Scenario, Any, Any, Any, Any, Any], list[dict[str, Any]]]:
    """Of what ``--vary`` and ``--pools`` allow, what carries the demand at the least cost, and all tried, best first.

    Its scenario, load, plan, the share of it that prefills alone, notes, and its engine as `engine_answer` has it; by
    money where all have a price, else by devices. Each scenario has its own machine's usual policy where none is asked
    for. ScenarioError where none can carry it.
    """
    settings = map(parse_setting, args.vary)
    axes = {path: [int(v) if v.isdecimal() else v for v in values.split(",")] for path, values in settings}
    for option, lever in (("policy", "serving.policy"), ("max_batch", "serving.max_seqs")):
        refuse(args, [option], f"vary {lever}: give either", lever in axes)
    asked = {} if args.max_batch is None else {"max_seqs": args.max_batch}
    options: list[tuple[float, dict[str, Any], Any]] = []
    failures: list[dict[str, Any]] = []
    ratios = [None] if args.pools is None else ratios_of(args.pools)
    for (varies, variant, choice), ratio in product(varied(scenario, axes), ratios):
        settings = varies if ratio is None else varies | {"pools": "{}:{}".format(*ratio)}
        try:
            levers = asked | choice
            policy = levers.get("policy") or args.policy or usual_policy(variant, levers.get("max_seqs"))
            rules = scheduler_of(levers | {"policy": policy})
            subject = engine(variant, rules, limits, serving.sizes, serving.outputs)
            if ratio is not None:
                decodes = Pool(subject.times, subject.scheduler, subject.devices)
                longest = subject.inputs.largest + subject.outputs.largest
                pools = pools_of(args, variant, rules, decodes, longest)
                subject = replace(subject, pools=pools.at(ratio))
            load, prefills = subject.highest(arrivals, args.requests, args.seed), None
            site = args.idle_w, args.node_usd
            node, notes = node_facts(variant, load, *site, together=load.together)
            if ratio is not None:
                first, _ = node_facts(apply_all(variant, args.prefill_set), load, *site, together=load.together)
                node, decode_usd = group_of(first, node, ratio), node.capex_usd
                notes = (*notes, f"nodes come in groups of {ratio[0]} that prefill and {ratio[1]} that decode")
                if node.capex_usd and decode_usd:
                    prefills = 1.0 - ratio[1] * decode_usd / (sum(ratio) * node.capex_usd)
            plan = capacity_plan(target[0], node, target[1], headroom=args.headroom, survives=args.survives)
        except InputError as why:
            if not args.vary and len(ratios) == 1:
                raise
            failures.append(settings | {"problem": str(why)})
            continue
        devices = node.cards if subject.pools is None else subject.pools.devices
        said = engine_answer(policy, variant, rules)
        row = settings | {"qps": load.qps, "nodes": plan.nodes, "total_devices": plan.nodes // node.group * devices}
        by = float(row["total_devices"]) if plan.usd_per_year is None else plan.usd_per_year
        options.append((by, row | {"usd_per_year": plan.usd_per_year}, (variant, load, plan, prefills, notes, said)))
    if not options:
        noun = "combination of --vary" if args.vary else "ratio of --pools"
        raise ScenarioError(f"no {noun} carries the demand: {failures[0]['problem']}")
    options.sort(key=lambda option: option[0])
    return options[0][2], [row for _, row, _ in options] + failures
