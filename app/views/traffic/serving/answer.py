"""How many users does it serve inside the limits?"""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.shared import cached, parts
from app.shared import formats as fmt
from app.shared.load import ServingLoad, serving_capacity, serving_points
from app.views.traffic import tables as plans
from app.views.traffic.controls import site
from app.views.traffic.plan_and_simulation import capacity_card, simulation_controls, simulation_of
from app.views.traffic.serving import charts, tables, texts
from app.views.traffic.serving.controls import serving_load, usual_load
from app.views.traffic.simulation import serving_simulation
from engine.cost.report import Report
from engine.traffic.engines.operating_points import OperatingPoint, timeline
from engine.traffic.scenario_load import in_turn

_REQUESTS = {5_000: "5 k", 20_000: "20 k", 100_000: "100 k"}


def along(load: ServingLoad, points: Sequence[OperatingPoint], now: OperatingPoint, how: str) -> None:
    """TTFT and inter-token latency along the load."""
    ends = [f"{fmt.seconds(p.figure('ttft:p99'))} at {tables.level(load, p.level)}" for p in (points[0], points[-1])]
    answer = f"TTFT p99 {', '.join(ends)}"
    with parts.card(texts.ALONG, answer, charts.along(points, now, load, parts.dark()), "t.along"):
        st.caption(how)


def passes(point: OperatingPoint) -> None:
    """The passes of the run in time."""
    report = point.report
    answer = f"{fmt.counted(report.passes, 'pass')} in {fmt.seconds(report.duration_s)}, "
    answer += fmt.counted(report.preemptions, "preemption")
    with parts.card("Timeline of passes", answer, charts.passes(timeline(report), point, parts.dark()), "t.passes"):
        st.caption(texts.PASSES_CAPTION)


def binding(point: OperatingPoint) -> None:
    """What most of the time goes to."""
    answer = f"{texts.SHARES[point.binds]}, {fmt.percent(point.shares[point.binds])} of the time"
    parts.chart("What limits serving", answer, charts.binds(point, parts.dark()), "t.binds")


def latencies(point: OperatingPoint) -> None:
    """Times of requests; first wave and steady state apart."""
    frame, answer = tables.latencies(point)
    with parts.card("Times of requests", answer):
        parts.table(frame, wide=frame.columns[1:])  # rows are times of several kinds
        if point.report.first_wave_ttft is not None:
            st.caption(texts.LATENCIES_CAPTION)


def serving(report: Report, bar: DeltaGenerator) -> None:
    """The page of a language model, below the bar."""
    load = serving_load(report)
    with bar, st.skeleton(height=340):  # whose place the bar takes
        point, points = cached.answer(serving_points, load)
        max_load = cached.answer(serving_capacity, load.unit_load)
    files = plans.files(
        lambda: tables.curve_rows(report, load, [point])[0],
        lambda: tables.curve_rows(report, load, points),
        lambda: plans.plan_rows(report, tables.limits(load), frame),
    )
    with bar:
        parts.bar(report, "traffic", files)
    words = (texts.USERS, "users") if load.loop else ()
    initial = cached.answer(serving_capacity, usual_load(report, bool(load.loop)))
    where = site(report, initial.level or initial.capacity_qps, *words)
    demand = max_load.demand_qps(where.peak_qps) if load.loop else where.peak_qps
    frame, nodes, notes = plans.plans(report, max_load, replace(where, peak_qps=demand))
    st.markdown(f"{tables.verdict(load, max_load)} {tables.here(load, point)}")
    for sentence in plans.limits(report):
        st.caption(fmt.plain(sentence))
    job = simulation_of(load)
    if job is not None and job.curve:
        points = job.curve
        point = job.detail or point
    served = cached.try_report(report.scenario, batch=point.together) or report
    band = fmt.band(served.error_band.relative)
    how = texts.SIMULATED.format(requests=fmt.count(point.report.requests), band=band)
    if load.scheduler.max_seqs == 1 and (why := in_turn(report.scenario)):
        how += texts.IN_TURN.format(why=why)
    parts.metrics(tables.numbers(point, parts.mobile()), 3)
    parts.beside(lambda: along(load, points, point, how), lambda: passes(point))
    simulation_controls(job, lambda n: serving_simulation(load, n), _REQUESTS, 20_000, 0.0)
    peak = fmt.counted(round(where.peak_qps), "user") if load.loop else tables.level(load, where.peak_qps)
    capacity_card(frame, nodes, notes, peak, texts.PLAN_CAPTION)
    latencies(point)
    binding(point)
