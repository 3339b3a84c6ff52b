"""A system under load as sentences, tables and files. Pure."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from app.shared import formats as fmt
from app.shared import glossary, report_tables
from app.shared.glossary import Metric
from app.shared.load import Answer, Load, LoadDetail, LoadPoint, Site
from app.shared.report_tables import Files, stamp
from app.views.traffic import texts
from app.views.traffic.simulation import SimulationJob
from engine.cost.report import Report
from engine.traffic import Capacity, CapacityPlan, Headline, RequestTimeline, Sla, TrafficError, capacity_plan
from engine.traffic.engines.operating_points import Carried
from engine.traffic.plan import DOMAINS
from engine.traffic.scenario_load import answer_unit, inferences_of, node_facts, token_prices


def _promise(sla: Sla) -> str:
    return f"{sla.metric} ≤ {fmt.seconds(sla.seconds)}"


def verdict(headline: Headline, sla: Sla, report: Report, daily: bool = False, request: str = "batch") -> str:
    """The load inside the agreement, what limits it, and how sure that is; ``daily``: it is a day's mean. Markdown."""
    band = fmt.band(report.error_band.relative)
    times = f":gray[Service times {band}.]"
    if headline.qps <= 0:
        if headline.limit == "drops":
            return texts.NO_LOAD_KEEPS.format(sla=_promise(sla), said=times)
        idle = sla.figure(headline.report)
        text = f"**No load keeps {_promise(sla)}**"
        if idle is not None:
            text += texts.AT_CAPACITY.format(rho=fmt.percent(headline.report.rho), idle=fmt.seconds(idle))
        return f"{text}. {times}"
    batch = inferences_of(report.scenario, request)
    batch_text = texts.REQUESTS_S_EACH.format(batch=batch, unit=report.unit) if batch > 1 else ""
    mean = " on average" if daily else ""
    return texts.HEADLINE.format(
        qps=fmt.si(headline.qps, "QPS"),
        mean=mean,
        sla=_promise(sla),
        each=batch_text,
        limit=fmt.plain(headline.limit),
        low=_sure(headline.sure_qps, headline.qps, headline.hopeless_qps),
        capacity=fmt.si(headline.capacity_qps, "QPS"),
        said=times,
    )


def limits(report: Report) -> list[str]:
    """The scenario's limits, and which of them it misses without load; empty without any."""
    limits = report.scenario.limits.model_dump(exclude_none=True)
    if not limits:
        return []
    pairs = ((Metric.of(name), value) for name, value in limits.items())
    terms = [f"{glossary.in_text(metric.label)} ≤ {metric.text(value)}" for metric, value in pairs]
    return [texts.LIMITS.format(limits=", ".join(terms)), *report.problems]


_PRECISE, _VAGUE = 0.02, 3.0  # of an interval: its half width that needs no ends; the ratio that says nothing


def _sure(low: float, value: float, high: float) -> str:
    """How far a simulated load is to be trusted, at 99% confidence: to within a share, two ends, or a lower end."""
    if low <= 0 or high > _VAGUE * low:
        near = low * _VAGUE > value  # a lower end far below says nothing of the load that is named
        floor = texts.AT_LEAST.format(low=fmt.si(low, "QPS")) if near else texts.NOTHING_YET
        return texts.SIMULATE_MORE_REQUESTS.format(least=floor)
    off = max(high - value, value - low) / value
    if off < _PRECISE:
        return f"simulated to within {'1%' if off < 0.01 else '2%'}"
    scale = fmt.scale([value], "QPS")  # of the load it is about
    return f"99% confidence: {scale.text(low)} to {scale.text(high)} {scale.unit}"


def overload(qps: float, top: Capacity, detail: LoadDetail | None = None) -> str:
    """Why there is no tail at this load."""
    if detail is not None and detail.report is not None:  # a mean load that is below capacity, with a peak that is not
        return detail.report.message
    scale = fmt.scale([qps, top.breaks_qps], "QPS")
    return texts.ABOVE_CAPACITY.format(
        qps=scale.text(qps), unit=scale.unit, capacity=scale.text(top.breaks_qps), breaks=top.breaks
    )


def at_this_load(qps: float, detail: LoadDetail, sla: Sla, top: Capacity) -> str:
    """One load in a sentence: the figure, whether it keeps the agreement, and the median. Markdown."""
    figure = detail.figures.get(sla.metric)
    if figure is None:
        return texts.AT_NOBODY_SERVED.format(qps=fmt.si(qps, "QPS"))
    outcome = "inside the limit" if figure <= sla.seconds else f"**{fmt.times(figure / sla.seconds)} the limit**"
    text = (
        f"At {fmt.si(qps, 'QPS')}, {fmt.percent(qps / top.qps)} of capacity: {sla.metric} "
        f"**{fmt.seconds(figure)}**, {outcome}; p50 {fmt.seconds(detail.figures['p50'])}."
    )
    return text + (f" {fmt.percent(detail.drop_share)} are turned away." if detail.drop_share > 0 else "")


def knee(points: Sequence[LoadPoint], sla: Sla) -> str:
    """How the figure grows along the load, in numbers."""
    finite = [(p.qps, p.figure) for p in points if p.figure is not None and np.isfinite(p.figure)]
    if len(finite) < 2:
        return texts.NO_STEADY_STATE
    (first, lowest), (half, middle) = finite[0], min(finite, key=lambda p: abs(p[0] - finite[-1][0] / 2))
    return texts.ALONG_LOAD.format(
        lowest=fmt.seconds(lowest),
        first=fmt.si(first, "QPS"),
        middle=fmt.seconds(middle),
        half=fmt.si(half, "QPS"),
        seconds=fmt.seconds(sla.seconds),
    )


def made_by(answer: Answer) -> str:
    """Where the curve comes from before anything long was simulated."""
    if answer.requests:
        return texts.QUICK.format(requests=fmt.count(answer.requests))
    return texts.CLOSED_FORM.format(kind=answer.kind)


def simulated_by(job: SimulationJob) -> str:
    """Where a simulated curve comes from."""
    wide = [r for r in job.curve if r.stable and not r.tight]
    text = texts.SIMULATED.format(requests=fmt.count(job.requests))
    if job.cancelled:
        text = texts.CANCELLED_AFTER.format(count=len(job.curve), said=text)
    return text + (texts.WIDER.format(wide=len(wide), count=len(job.curve)) if wide else "")


def job_said(job: SimulationJob | None, qps: float) -> str:
    """The state of the long simulation, in words."""
    if job is None:
        return texts.LONG_SIMULATION
    if job.cancelled:
        return texts.CANCELLED
    text = f"Simulated in {fmt.seconds(job.seconds)}."
    return text if job.qps == qps else texts.QUICK_DISTRIBUTION.format(text=text)


def waits(window: RequestTimeline) -> tuple[float, float]:
    """Share of their time the requests of a window wait, and their mean stay. [s]"""
    stay = window.finish - window.arrive
    wait = np.sum([window.start[name] - came for name, came in window.came.items()], axis=0)
    finite = np.isfinite(stay)
    if not finite.any():
        return 0.0, float("nan")
    mean = float(stay[finite].mean())
    return (float(wait[finite].mean()) / mean if mean > 0 else 0.0), mean


def window_key(window: RequestTimeline) -> str:
    """What the colours of a window mean."""
    stations = [name for name in window.start if name not in window.wires]
    looks = zip(("solid", "hatched", "crossed"), stations if len(stations) > 1 else ["being served"], strict=False)
    legend = "; ".join(f"{look}: {name}" for look, name in looks)
    return f"Grey: waiting; {texts.ON_LINK if window.wires else ''}{legend}."


def columns(plans: Sequence[CapacityPlan], noun: str) -> dict[str, list[Any]]:
    """Machines, power and money of plans as columns, one prefix a column; None where there is no figure."""
    table = {name.replace("unit", noun).replace("Unit", noun.capitalize()): of for name, of in texts.PLANS.items()}
    return report_tables.columns(plans, table)


def plan_said(plan: CapacityPlan, devices: int, noun: str) -> str:
    """A plan in a few numbers, of nodes with so many devices each."""
    text = f"{plan.nodes * devices:,} devices in " if devices > 1 else ""
    text += f"{fmt.counted(plan.nodes, 'node')} in {fmt.counted(plan.racks, 'rack')}, {fmt.si(plan.peak_w, 'W')}"
    if plan.capex_usd is None or plan.usd_per_million is None:
        return text
    return f"{text}, {fmt.usd(plan.capex_usd)}, {fmt.usd(plan.usd_per_million)} per million {noun}s"


def plans(
    report: Report, headline: Headline | Carried, site: Site, request: str = "batch", max_batch: int | None = None
) -> tuple[pd.DataFrame | None, str, list[str]]:
    """Plans for each failure domain, the chosen one first: table, sentence, assumptions."""
    try:
        together = headline.together if isinstance(headline, Carried) else max_batch
        node, notes = node_facts(report.scenario, headline, site.idle_w, site.node_usd, request, together)
        facts, demand = site.facts(report.scenario.costs), site.demand
        order = [site.survives, *(d for d in DOMAINS if d != site.survives)]
        by_domain = {d: capacity_plan(demand, node, facts, headroom=site.headroom, survives=d) for d in order}
    except TrafficError as error:
        return None, "no plan", [f"{str(error).rstrip('.')}."]
    by_nodes: dict[int, list[str]] = {}  # failures that take as many nodes stand in one row
    for domain, plan in by_domain.items():
        by_nodes.setdefault(plan.nodes, []).append(domain)
    failures = [" or ".join("none" if d == "none" else f"one {d}" for d in domains) for domains in by_nodes.values()]
    plans = [by_domain[domains[0]] for domains in by_nodes.values()]
    noun = answer_unit(report)
    point = headline.point if isinstance(headline, Carried) else None
    prices = token_prices(plans[0], report.scenario, point.running) if point is not None else {}
    if prices:
        together, read, write = map(fmt.usd, prices.values())
        notes = (texts.TOKEN_PRICES.format(together=together, read=read, written=write), *notes)
    frame = pd.DataFrame({"Failures tolerated": failures} | columns(plans, noun))
    return frame, plan_said(plans[0], node.cards, noun), list(notes)


def _settings(load: Load, sla: Sla) -> dict[str, Any]:
    serving = load.serving
    set_to = {name: getattr(serving, name) for name in ("arrangement", "max_batch", "timeout_s", "places", "sizes_are")}
    law = serving.outputs or serving.sizes
    set_to |= {"arrivals": load.process, "sizes": type(law).__name__.lower() if law else "fixed"}
    return set_to | {"sla_metric": sla.metric, "sla_s": sla.seconds}


def curve_rows(report: Report, load: Load, sla: Sla, points: Sequence[LoadPoint]) -> list[dict[str, Any]]:
    """One flat row a load, SI units in the keys."""
    rows = []
    for p in points:
        low, high = (end if end is not None and np.isfinite(end) else None for end in (p.low, p.high))
        row = {"qps": p.qps, "figure_s": p.figure, "low_s": low, "high_s": high, "p50_s": p.p50}
        row |= {f"use_{name}": share for name, share in p.use.items()}
        rows.append(row | _settings(load, sla))
    return stamp(report, rows)


def plan_rows(report: Report, sla: Sla | str, frame: pd.DataFrame | None) -> list[dict[str, Any]]:
    """The capacity table with what it belongs to; a lone row without numbers where there is no plan."""
    promise = {"sla": sla if isinstance(sla, str) else f"latency {sla.metric} <= {sla.seconds:g} s"}
    rows: list[dict[str, Any]] = [{}] if frame is None else frame.to_dict("records")
    return stamp(report, [promise | row for row in rows])


def here(report: Report, load: Load, sla: Sla, qps: float, headline: Headline, detail: LoadDetail) -> dict[str, Any]:
    """Settings, what is carried inside the agreement, and the load at hand as plain data."""
    row: dict[str, Any] = {"qps": qps, "stable": not detail.message, "kind": detail.kind}
    row |= {"dropped": detail.drop_share, "use": detail.use}
    row |= {f"{name}_s": value for name, value in detail.figures.items()}
    row |= {"bin_edges_s": detail.edges.tolist(), "bin_shares": detail.shares.tolist()}
    row |= {"carried": {name: value for name, value in vars(headline).items() if name != "report"}}
    return stamp(report, [row | _settings(load, sla)])[0]


def files(here: Callable[[], Any], curve: Callable[[], Any], capacity: Callable[[], Any]) -> Files:
    """What of a load can be saved; it is made when it is asked for."""
    sources = {"here": here, "curve": curve, "capacity": capacity}
    return {
        "Curve, CSV": ("traffic", curve),
        "Capacity, CSV": ("traffic-capacity", capacity),
        "Everything, JSON": ("traffic", lambda: {name: make() for name, make in sources.items()}),
    }
