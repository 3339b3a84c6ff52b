"""The sidebar of a language model's load: clients or a rate, the limits, and the scheduler."""

from dataclasses import replace
from typing import Any

import streamlit as st

from app.shared import cached, glossary
from app.shared.load import Load, ServingLoad
from app.shared.widgets.choices import choose, number, switch, text_input
from app.shared.widgets.sidebar import guesses
from app.views.traffic.controls import arrivals, milliseconds, nice, pair, sizes
from app.views.traffic.serving import texts
from engine.cost.report import Report
from engine.scenario import Scenario
from engine.traffic.engines.calendar import MOST_REQUESTS, ClosedLoop
from engine.traffic.engines.operating_points import LABELS
from engine.traffic.engines.priority import parse
from engine.traffic.engines.scheduler import NO_BATCHING, POLICIES, Scheduler
from engine.traffic.scenario_load import usual_policy
from engine.traffic.serving import Serving

_MAX_CLIENTS = 4096
_GENEROUS = {"ttft_s": 10.0, "tpot_s": 3.0}  # times the unloaded figure a limit starts from


def _count(label: str, value: int | None, highest: int, key: str, of: str, **kwargs: Any) -> Any:
    """A whole number from 1, None where none is set."""
    return number(label, 1, highest, value, key, of=f"{of}/{value}", **kwargs)


def _usual_limits(report: Report) -> dict[str, float]:
    """The limits that the page starts from: the scenario's, else some times those of who joins a running batch. [s]"""
    limits, steady = report.scenario.limits, report.continuous or report
    usual = {"ttft_s": limits.ttft_s, "tpot_s": limits.tpot_s, "e2e_s": limits.latency_s}
    for name, times in _GENEROUS.items():
        figure = getattr(steady, name)
        if usual[name] is None and figure is not None:
            usual[name] = nice(times * figure)
    return {name: seconds for name, seconds in usual.items() if seconds is not None}


def _limits(report: Report) -> tuple[tuple[str, float], ...]:
    """What goodput counts as in time, a row each: two in a row cut a value of four digits off. [s]"""
    limits, initial = [], _usual_limits(report)
    for name, label in LABELS.items():
        extra: dict[str, Any] = {"placeholder": "no limit", "help": texts.LIMIT_HELP}
        seconds = milliseconds(label, name.removesuffix("_s"), initial.get(name), report, empty=True, **extra)
        if seconds is not None:
            limits.append((name, seconds))
    return tuple(limits)


def _demand(report: Report) -> dict[str, Any]:
    """Clients of a closed loop, or arrivals at a rate."""
    of = pair(report)
    kind = choose(
        "Load", texts.LOADS, "load", "open" if {"qps", "come"} & st.query_params.to_dict().keys() else "closed"
    )
    if kind == "open":
        usual = nice(0.5 / report.latency_s)
        qps = number(texts.OPEN, min(1e-9, usual), 1e9, usual, "qps", of=of, help=texts.RATE_HELP)
        return {"qps": qps} | arrivals()
    usual = min(report.scenario.batch, _MAX_CLIENTS)
    clients = _count("Clients", usual, _MAX_CLIENTS, "clients", of, help=texts.CLIENTS_HELP)
    first, second = st.columns(2)
    think = number("Think time (s)", 0.0, 86_400.0, 0.0, "think", help=texts.THINK_HELP, widget=first.number_input)
    usual_s = min(86_400.0, think + _alone_s(report))
    extra: dict[str, Any] = {"of": f"{of} {think}", "help": texts.RAMP_HELP, "widget": second.number_input}
    ramp = number("Ramp (s)", 0.0, 86_400.0, usual_s, "ramp", **extra)
    return {"loop": ClosedLoop(clients, think, ramp, exponential=True)}


def _alone_s(report: Report) -> float:
    """Time of the scenario's own requests alone, over which clients begin where nothing else is said. [s]"""
    return float(f"{report.latency_s:.3g}")


def _scheduler(scenario: Scenario) -> Scheduler:
    """The serving engine's policy, and what of it is set apart."""
    batches = st.query_params.get("max-seqs", "1") != "1"
    default = "vllm" if batches else usual_policy(scenario)
    name = choose("Scheduler", glossary.WORDS["policies"], "policy", default, help=texts.POLICY_HELP)
    usual = POLICIES[name]
    counts = {field: row for field, row in texts.COUNTS.items() if field != "max_seqs" or name != NO_BATCHING}
    settings: dict[str, Any] = {}
    with st.expander("Scheduler settings", key="open.scheduler"):
        for field, row in counts.items():
            settings[field] = number(low=1, usual=getattr(usual, field), of=f"{name}/{getattr(usual, field)}", **row)
        on = "on" if usual.chunked else "off"
        settings["chunked"] = choose("Chunked prefill", texts.CHUNKED, "chunk", on, help=texts.CHUNK_HELP) == "on"
        settings["preempt"] = choose("Preemption", texts.PREEMPTION, "preempt", help=texts.PREEMPT_HELP)
        for field, row in texts.PERCENTAGES.items():
            share = 100.0 * getattr(usual, field)
            settings[field] = number(low=0.0, high=100.0, usual=share, of=f"{name}/{share}", **row) / 100
        if (scenario.attention_dp or 1) > 1:
            settings["balance_timeout"] = number(low=0, high=100_000, usual=0, **texts.BALANCE)
        settings["asynchronous"] = switch("Asynchronous scheduling", "async", help=texts.ASYNC_HELP)
        classes = text_input("Priorities", "priority", placeholder="none", max_chars=200, help=texts.PRIORITY_HELP)
    return replace(usual, priorities=parse(classes), **settings)


def usual_load(report: Report, has_clients: bool) -> ServingLoad:
    """What the page opens with, whatever was set since: a demand is set against it."""
    limits = tuple(_usual_limits(report).items())
    loop = ClosedLoop(1, ramp_s=_alone_s(report), exponential=True) if has_clients else None
    return ServingLoad(Load(report.token), POLICIES[usual_policy(report.scenario)], limits, loop)


def _rename_older() -> None:
    """Gives the limit and the sequences of a link from before limits by time their names of today."""
    asked = st.query_params
    limit = {"ttft": "ttft", "tpot": "tpot"}.get(asked.get("sla-time", ""), "e2e")
    for older, name in (("sla", limit), ("together", "max-seqs"), ("sla-time", ""), ("sla-of", "")):
        if older in asked:
            asked.update({name: asked[older]} if name and name not in asked else {})
            del asked[older]


def serving_load(report: Report) -> ServingLoad:
    """Everything the sidebar says about a language model's load."""
    _rename_older()
    with st.sidebar:
        demand = _demand(report)
        limits = _limits(report)
        guesses(report.scenario, cached.options(report.token), "t")
        scheduler = _scheduler(report.scenario)
        extra: dict[str, Any] = {"placeholder": texts.USUAL_REQUESTS, "help": texts.REQUESTS_HELP}
        requests = _count("Requests simulated", None, MOST_REQUESTS, "run-requests", pair(report), **extra)
        level = {name: demand.pop(name) for name in ("loop", "qps") if name in demand}
        rules = Serving(max_batch=1, **sizes(report, False, "trace" in demand, "batch"))
        return ServingLoad(Load(report.token, rules, **demand), scheduler, limits, requests=requests, **level)
