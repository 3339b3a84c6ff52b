"""A system under load as sentences, tables and files. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from app import format as fmt
from app.load import ARRIVALS, Answer, Load, Point, Spot
from app.simulation import Simulation
from engine.report import Report
from engine.traffic import (
    Capacity,
    Demand,
    Headline,
    SiteFacts,
    Sla,
    Timeline,
    TrafficError,
    capacity_plan,
)
from engine.traffic.scenario_load import node_facts

__all__ = [
    "DOMAINS",
    "at_this_load",
    "curve_csv",
    "everything",
    "job_said",
    "knee",
    "made_by",
    "overload",
    "plan_csv",
    "plans",
    "simulated_by",
    "verdict",
    "waits",
]

DOMAINS = ("none", "card", "node", "rack")
_STEPS = 100  # of a day
_OF = {"latency": "", "ttft": " of the first token", "tpot": " of a further token"}


def _promise(sla: Sla) -> str:
    return f"{sla.metric}{_OF[sla.time]} ≤ {fmt.seconds(sla.seconds)}"


def verdict(headline: Headline, sla: Sla, report: Report) -> str:
    """The load inside the agreement, what limits it, and how sure that is. Markdown."""
    band = fmt.band(report.error_band.relative)
    said = f":gray[Service times {band}.]"
    if headline.qps <= 0:
        if headline.limit == "drops":
            return f"**No load keeps {_promise(sla)}**: requests are turned away even at the lowest one. {said}"
        idle = sla.figure(headline.report)
        found = "" if idle is None else f": at {fmt.percent(headline.report.rho)} of capacity it is {fmt.seconds(idle)}"
        return f"**No load keeps {_promise(sla)}**{found}. {said}"
    low, high = headline.sure_qps, headline.hopeless_qps
    return (
        f"**Max {fmt.si(headline.qps, 'QPS')} at {_promise(sla)}**, limited by **{fmt.plain(headline.limit)}**; "
        f"99% sure: {_range(low, high)}. Capacity is {fmt.si(headline.capacity_qps, 'QPS')}. {said}"
    )


def _range(low: float, high: float) -> str:
    both = fmt.scale([low, high], "QPS")
    return f"between {both.text(low)} and {both.text(high)} {both.unit}"


def overload(qps: float, top: Capacity) -> str:
    """Why there is no tail at this load."""
    both = fmt.scale([qps, top.breaks_qps], "QPS")
    return (
        f"Offered load {both.text(qps)} {both.unit} is above capacity {both.text(top.breaks_qps)} {both.unit} "
        f"({top.breaks}): the queue grows without limit, so there is no p99."
    )


def at_this_load(qps: float, spot: Spot, sla: Sla, top: Capacity) -> str:
    """One load in a sentence: the figure, whether it keeps the agreement, and the median. Markdown."""
    figure = spot.figures.get(sla.metric)
    if figure is None:
        return f"At {fmt.si(qps, 'QPS')} nobody is served."
    kept = "inside the limit" if figure <= sla.seconds else f"**{fmt.times(figure / sla.seconds)} the limit**"
    text = (
        f"At {fmt.si(qps, 'QPS')}, {fmt.percent(qps / top.qps)} of capacity: {sla.metric}{_OF[sla.time]} "
        f"**{fmt.seconds(figure)}**, {kept}; p50 {fmt.seconds(spot.figures['p50'])}."
    )
    return text + (f" {fmt.percent(spot.dropped)} are turned away." if spot.dropped > 0 else "")


def knee(points: Sequence[Point], sla: Sla) -> str:
    """How the figure grows along the load, in numbers."""
    known = [p for p in points if p.figure is not None and np.isfinite(p.figure)]
    if len(known) < 2:
        return "no steady state at any load"
    first, half = known[0], min(known, key=lambda p: abs(p.qps - known[-1].qps / 2))
    assert first.figure is not None
    assert half.figure is not None
    idle, middle = fmt.seconds(first.figure), fmt.seconds(half.figure)
    return f"{idle} when idle, {middle} at half load; limit {fmt.seconds(sla.seconds)}"


def made_by(answer: Answer) -> str:
    """Where the curve comes from before anything long was simulated."""
    if answer.requests:
        return f"Quick simulation, {fmt.count(answer.requests)} requests a point, with its 99% interval in grey."
    return f"Closed form {answer.kind}; simulate for its confidence interval."


def simulated_by(job: Simulation) -> str:
    """Where a simulated curve comes from."""
    wide = [r for r in job.curve if r.stable and not r.tight]
    said = f"Simulated, {fmt.count(job.requests)} requests a point, with its 99% interval in grey."
    if job.cancelled:
        said = f"Cancelled after {len(job.curve)} of 20 points; the curve covers those. {said}"
    return said + (f" At {len(wide)} of {len(job.curve)} points it is wider than ±5%." if wide else "")


def job_said(job: Simulation | None, qps: float) -> str:
    """The state of the long simulation, in words."""
    if job is None:
        return "A long simulation gives the curve its confidence interval."
    if job.running:
        return "Simulating."
    if job.problem:
        return fmt.plain(job.problem)
    if job.cancelled:
        return "Cancelled; what was done is drawn."
    text = f"Simulated in {fmt.seconds(job.progress.elapsed_s)}."
    return text if job.qps == qps else f"{text} The distribution is of the quick answer: it was not simulated here."


def waits(seen: Timeline) -> tuple[float, float]:
    """Share of their time the requests of a window wait (to the first token where known), and their mean stay. [s]"""
    stay = np.nanmean(seen.done - seen.arrive) if np.isfinite(seen.done).any() else np.nan
    end = seen.first if seen.first is not None else next(iter(seen.start.values()))
    wait = np.nanmean(end - seen.arrive) if np.isfinite(end).any() else np.nan
    return (float(wait / stay) if stay > 0 else 0.0), float(stay)


def plans(
    report: Report,
    headline: Headline,
    peak_qps: float,
    mean_share: float,
    headroom: float,
    survives: str,
    slots: int,
    rack_w: float,
    node_usd: float | None,
) -> tuple[pd.DataFrame | None, str, list[str]]:
    """Plans for each failure domain, the chosen one first: table, sentence, assumptions.

    Power is linear in load, so of the day only peak and mean count: a hundredth of it at the peak, the rest level.
    """
    costs = report.scenario.costs
    if report.capex_usd is None and node_usd is None:
        return None, "no plan", [f"No price is published for {report.system_name}. Give one under Demand and site."]
    try:
        rest = peak_qps * (mean_share * _STEPS - 1) / (_STEPS - 1)
        steps = (peak_qps, *[max(0.0, rest)] * (_STEPS - 1))
        node, notes = node_facts(report.scenario, headline, None, node_usd)
        site = SiteFacts(slots, rack_w, 0.0, costs.pue, costs.energy_usd_per_kwh, costs.years)
        order = [survives, *(d for d in DOMAINS if d != survives)]
        made = [capacity_plan(Demand(steps), node, site, headroom=headroom, survives=d) for d in order]
    except TrafficError as error:
        return None, "no plan", [f"{str(error).rstrip('.')}."]
    first = made[0]
    power = fmt.scale([p.peak_w for p in made], "W")
    money = fmt.scale([p.capex_usd for p in made], "")
    frame = pd.DataFrame(
        {
            "Down": ["nothing" if d == "none" else f"one {d}" for d in order],
            "Nodes": [p.nodes for p in made],
            "Racks": [p.racks for p in made],
            f"Power at the peak ({power.unit})": [power(p.peak_w) for p in made],
            f"Mean power ({power.unit})": [power(p.mean_w) for p in made],
            f"Capex ($ {money.unit})".replace(" )", ")"): [money(p.capex_usd) for p in made],
            "Per million ($)": [p.usd_per_million for p in made],
            "Energy (J a request)": [p.energy_j_per_inference for p in made],
            "Busy at the peak (%)": [100 * p.peak_use for p in made],
        }
    )
    plural = ["s" if n > 1 else "" for n in (first.nodes, first.racks)]
    said = (
        f"{first.nodes:,} node{plural[0]} in {first.racks:,} rack{plural[1]}, "
        f"{fmt.si(first.peak_w, 'W')}, {fmt.usd(first.capex_usd)}, {fmt.usd(first.usd_per_million)} a million"
    )
    return frame, said, list(notes)


def _identity(report: Report) -> dict[str, Any]:
    s = report.scenario
    return {"id": f"{s.system}/{s.workload}", "token": report.token}


def _versions(report: Report) -> dict[str, str]:
    return {f"{name}_version": value for name, value in report.versions.items()}


def _settings(load: Load, sla: Sla) -> dict[str, Any]:
    return {
        "arrivals": ARRIVALS[load.arrivals],
        "max_batch": load.max_batch,
        "timeout_s": load.timeout_s,
        "places": load.places,
        "sizes": load.sizes,
        "sla_time": sla.time,
        "sla_metric": sla.metric,
        "sla_s": sla.seconds,
    }


def curve_rows(report: Report, load: Load, sla: Sla, points: Sequence[Point]) -> list[dict[str, Any]]:
    """One flat row a load, SI units in the keys."""
    rows = []
    for p in points:
        ends = {name: v if v is not None and np.isfinite(v) else None for name, v in (("low", p.low), ("high", p.high))}
        rows.append(
            _identity(report)
            | {"qps": p.qps, "figure_s": p.figure, "low_s": ends["low"], "high_s": ends["high"], "p50_s": p.p50}
            | _settings(load, sla)
            | _versions(report)
        )
    return rows


def curve_csv(report: Report, load: Load, sla: Sla, points: Sequence[Point]) -> str:
    """The curve as CSV, one row a load."""
    return fmt.csv_text(curve_rows(report, load, sla, points))


def plan_rows(report: Report, sla: Sla, frame: pd.DataFrame | None) -> list[dict[str, Any]]:
    """The capacity table with what it belongs to; a lone row without numbers where there is no plan."""
    promise = {"sla": f"{sla.time} {sla.metric} <= {sla.seconds:g} s"}
    rows: list[dict[str, Any]] = [{}] if frame is None else frame.to_dict("records")  # type: ignore[assignment]  # str keys
    return [_identity(report) | promise | row | _versions(report) for row in rows]


def plan_csv(report: Report, sla: Sla, frame: pd.DataFrame | None) -> str:
    """The capacity table as CSV, one row a failure domain."""
    return fmt.csv_text(plan_rows(report, sla, frame))


def everything(
    report: Report,
    load: Load,
    sla: Sla,
    qps: float,
    headline: Headline,
    spot: Spot,
    points: Sequence[Point],
    frame: pd.DataFrame | None,
) -> dict[str, Any]:
    """Settings and results as plain data."""
    carried = {k: v for k, v in vars(headline).items() if k != "report"}
    here = {"qps": qps, "stable": not spot.message, "kind": spot.kind, "dropped": spot.dropped, "use": spot.use}
    here |= {f"{name}_s": value for name, value in spot.figures.items()}
    here |= {"bin_edges_s": spot.edges.tolist(), "bin_shares": spot.shares.tolist()}
    return {
        **_identity(report),
        "settings": _settings(load, sla),
        "carried": carried,
        "here": here,
        "curve": curve_rows(report, load, sla, points),
        "capacity": plan_rows(report, sla, frame),
        **_versions(report),
    }
