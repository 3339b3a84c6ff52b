"""The sidebar of the Load page: the promise, the arrivals, the serving, and the site of a plan."""

import math
from typing import Any

import streamlit as st

from app.shared import cached, glossary
from app.shared import formats as fmt
from app.shared.load import DAY, Load, Site
from app.shared.widgets.choices import choose, choose_number, number
from app.views.traffic import texts
from engine.cost.report import Report
from engine.resolve.bind import bind
from engine.traffic import Bursty, Deterministic, Diurnal, Gamma, LogNormal, Sla, TrafficError, Uniform
from engine.traffic.arrangements import arrangements
from engine.traffic.plan import DOMAINS
from engine.traffic.scenario_load import inferences_of
from engine.traffic.serving import Serving
from engine.traffic.sizes import Sizes

_METRICS = ("p99", "p95", "p50", "mean")
_BATCHES = tuple(2**i for i in range(11))
_TRACE_MAX = 2_000_000  # bytes of a CSV of arrivals
_DEMAND_NODES = 10  # nodes' worth of load a plan starts from
_GENEROUS = 3.0  # times the unloaded latency an agreement starts from


def nice(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= value * (1 - 1e-9))


def milliseconds(label: str, key: str, usual: float | None, report: Report, **kwargs: Any) -> float | None:
    """A time typed in ms, set for this network on this system; None where it is empty. [s]"""
    usual_ms = None if usual is None else float(f"{fmt.MILLISECOND(usual):.6g}")
    unit, of = fmt.MILLISECOND.unit, f"{pair(report)}/{usual_ms}"
    value = number(f"{label} ({unit})", 1e-6, math.inf, usual_ms, key, of=of, **kwargs)
    return None if value is None else fmt.MILLISECOND.si(value)


def pair(report: Report) -> str:
    """What a promise, a demand and a way of serving are set for: they mean nothing to another network or system."""
    return f"{report.scenario.system}/{report.scenario.workload}"


def usual_agreement(report: Report) -> Sla:
    """The agreement that the page starts from: a limit of the scenario, else what the workload's document allows a
    request, else some times the unloaded latency."""
    limits = report.scenario.limits.model_dump(exclude_none=True)
    if "latency_s" in limits:
        return Sla(limits["latency_s"])
    limit = bind(report.scenario).workload.limit_s
    seconds = None if limit is None else limit.value
    if isinstance(seconds, int | float) and seconds > report.latency_s:
        return Sla(float(seconds))
    return Sla(nice(_GENEROUS * report.latency_s))


def _agreement(report: Report) -> Sla:
    """The figure that is promised."""
    first, second = st.columns(2)
    metric = choose("SLA", {name: name for name in _METRICS}, "sla-of", widget=first.selectbox, help=texts.SLA_HELP)
    usual = usual_agreement(report).seconds
    return Sla(milliseconds("Limit", "sla", usual, report, widget=second.number_input) or usual, metric)


def _request(report: Report) -> str:
    """What a request is: the scenario's batch, or one item of it that is batched with others."""
    s = report.scenario
    if s.batch == 1 or inferences_of(s) > s.batch:
        return "batch"
    options = {
        "batch": texts.BATCH_REQUEST.format(batch=f"{s.batch:,}", unit=report.unit),
        "item": texts.ITEM_REQUEST.format(unit=report.unit),
    }
    return choose("A request is", options, "asks", help=texts.REQUEST_HELP)


def arrivals() -> dict[str, Any]:
    """When requests come: arrivals at 1 QPS, or the text of a trace."""
    kind = choose("Arrivals", glossary.WORDS["arrivals"], "come")
    if kind == "even":
        return {"arrivals": Deterministic(1.0)}
    if kind == "gamma":
        return {"arrivals": Gamma(1.0, number(texts.VARIATION, 0.1, 20.0, 2.0, "gap-cv", help=texts.VARIATION_HELP))}
    if kind == "bursty":
        peak = number(texts.BURST_RATE, 1.1, 100.0, 4.0, "peak")
        share = number(texts.BURST_SHARE, 0.1, 90.0, 10.0, "burst-share") / 100
        return {"arrivals": Bursty(1.0, peak, share, number(texts.BURST_LENGTH, 0.001, 3600.0, 1.0, "burst"))}
    if kind == "day":
        day_s = number(texts.DAY_LENGTH, 1.0, 86_400.0, 60.0, "day", help=texts.DAY_LENGTH_HELP)
        return {"arrivals": Diurnal(1.0, DAY, day_s)}
    if kind == "trace":
        file = st.file_uploader("Arrivals, CSV", type="csv", key="trace", help=texts.ARRIVALS_CSV_HELP)
        if file is None:
            st.caption(texts.NO_FILE)
        elif file.size > _TRACE_MAX:
            raise TrafficError(texts.TRACE_TOO_LONG.format(size=file.size, most=_TRACE_MAX))
        else:
            return {"trace": file.getvalue().decode("utf-8-sig", errors="replace")}
    return {}


def _arrangement(report: Report) -> dict[str, Any]:
    """How many queues the scenario is; what it can't be is left out, with the reason in the help."""
    reasons = cached.answer(arrangements, report.scenario)
    options = {name: label for name, label in texts.ARRANGED.items() if reasons[name] is None}
    if len(options) == 1:
        return {}
    missing = [f"Not here: {texts.ARRANGED[name].lower()}. {reason}." for name, reason in reasons.items() if reason]
    name = choose("Queues", options, "queues", help=" ".join(missing) or None)
    arrangement: dict[str, Any] = {"arrangement": name}
    if name == "pool":
        arrangement["services"] = number(texts.COPIES, 1, 4096, 4, "copies", help=texts.COPIES_HELP)
    elif name == "packets":
        arrangement["share"] = number("Packets classified (%)", 0.001, 100.0, 10.0, "looked") / 100
        st.caption(texts.PACKETS_CAPTION)
    return arrangement


def _batching(report: Report, packets: bool, request: str) -> dict[str, Any]:
    """How requests are launched together, and who is let in."""
    batching: dict[str, Any] = {"request": request}
    usual = report.scenario.batch if request == "item" else 1
    if not packets:
        sizes, of = sorted({*_BATCHES, usual}), f"{pair(report)}/{usual}"
        batching["max_batch"] = choose_number(
            "Max batch size", sizes, "together", usual, of=of, help=texts.MAX_BATCH_SIZE_HELP
        )
        if batching["max_batch"] > 1:
            usual = float(f"{fmt.MILLISECOND(report.latency_s / 2):.2g}")
            wait = number(texts.LONGEST_WAIT, 0.0, 1e6, usual, "wait", of=pair(report))
            batching["timeout_s"] = wait / fmt.MILLISECOND.factor
    extra: dict[str, Any] = {"placeholder": "no limit", "help": texts.QUEUE_LIMIT_HELP}
    places = number("Queue limit", 0, 1_000_000, None, "places", of=pair(report), **extra)
    max_batch = batching.get("max_batch", 1)  # a batch has room to come together
    return batching | {"places": None if places is None else max(places, max_batch if max_batch > 1 else 0)}


def _size_kinds(report: Report, has_trace: bool, request: str) -> dict[str, tuple[str, int]]:
    """In what requests may differ: a label each, and what it is in the scenario; a trace brings its own outputs."""
    scenario, options = report.scenario, cached.options(report.token)
    decoder = report.tpot_s is not None
    rows = [
        ("inputs", options.input_label, scenario.inputs),
        ("outputs", options.output_label if decoder and not has_trace else None, scenario.outputs),
        ("items", texts.ITEMS if not decoder and request == "batch" else None, scenario.batch),
    ]
    lookups = (p for p in options.params if p.name == "lookups")
    rows += [("lookups", p.label, max(1, round(scenario.params.get("lookups", p.default)))) for p in lookups]
    return {name: (label, value) for name, label, value in rows if label}


def sizes(report: Report, with_batching: bool, has_trace: bool, request: str) -> dict[str, Any]:
    """In what requests differ, and how much; a trace brings its own sizes, if any."""
    decoder, kinds = report.tpot_s is not None, _size_kinds(report, has_trace, request)
    spread = "trace" if has_trace else choose("Sizes of requests", texts.SPREADS, "spread")
    if spread == "fixed" or not kinds:
        return {}
    names = {name: label for name, (label, _) in kinds.items()}
    kind = choose(texts.SIZES if has_trace else "Requests differ in", names, "differ")
    if has_trace:
        return {"sizes_are": kind}
    mean = max(2, kinds[kind][1])
    usual = number("Mean size", 1, 65_536, mean, f"mean-{kind}", of=pair(report))
    largest = 2 * usual - (spread == "uniform")
    st.caption(f"From 1 to {largest:,}.")
    law: Sizes = Uniform(1, max(1, largest))
    if spread == "lognormal":
        law = LogNormal(usual, number("Variation of sizes", 0.05, 3.0, 0.5, "size-cv"), max(2, largest))
    if kind == "outputs":
        return {"outputs": law}
    buckets = 1
    if with_batching and not decoder:
        buckets = choose_number("Size buckets", (1, 2, 4), "buckets", help=texts.SIZE_BUCKETS_HELP)
    return {"sizes": law, "sizes_are": kind, "buckets": buckets}


def load_and_sla(report: Report) -> tuple[Load, Sla]:
    """Everything the sidebar says about the load."""
    with st.sidebar:
        sla = _agreement(report)
        request = _request(report)
        come = arrivals()
        rules: dict[str, Any] = {"max_batch": 1} | _arrangement(report)
        name = rules.get("arrangement", "whole")
        rules |= _batching(report, name == "packets", request)
        if name in ("whole", "stages"):
            rules |= sizes(report, rules["max_batch"] > 1, "trace" in come, request)
        return Load(report.token, Serving(**rules), **come), sla


def site(report: Report, per_node: float, label: str = texts.DEMAND, key: str = "demand") -> Site:
    """The demand, and where its nodes stand; the demand starts from that of some nodes, each of ``per_node``."""
    usual, of = nice(_DEMAND_NODES * per_node), pair(report)
    with st.sidebar, st.expander("Demand and site", key="open.site"):
        demand = number(label, 0.0, 1e12, None, key, of=of, placeholder=fmt.count(usual))
        mean = number(texts.MEAN_OVER_PEAK, 1.0, 100.0, 60.0, "mean-load")
        headroom = number("Headroom (%)", 0.0, 400.0, 20.0, "headroom")
        survives = choose("Failures tolerated (one)", {name: name for name in DOMAINS}, "survives", DOMAINS[2])
        slots = number("Nodes per rack", 1, 1000, 20, "slots")
        rack_w = number(texts.RACK_POWER, 1.0, 1e7, 15_000.0, "rack-w")
        list_price = fmt.usd(report.capex_usd) if report.capex_usd is not None else str(report.unpriced)
        price = number(texts.NODE_PRICE, 0.0, 1e12, None, "node-usd", of=of, placeholder=list_price)
        idle = number(texts.IDLE_POWER, 0.0, 1e7, None, "idle-w", of=of, placeholder=texts.IDLE_POWER_PLACEHOLDER)
        return Site(demand or usual, mean / 100, headroom / 100, survives, slots, rack_w, price, idle)
