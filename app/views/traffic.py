"""What load can it carry inside the SLA?"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import cached, link, parts, traffic_charts, traffic_tables
from app import format as fmt
from app.load import ARRIVALS, Answer, Load, Point, Spot, point_of, spot_of
from app.simulation import Simulation
from engine.devices.family import Unsupported
from engine.report import Report
from engine.scenario import ScenarioError, encode
from engine.traffic import Sla, TrafficError

_METRICS = ("p99", "p95", "p50", "mean")
_TIMES = {"latency": "Whole answer", "ttft": "First token", "tpot": "Each further token"}
_BATCHES = (1, 2, 4, 8, 16, 32, 64)
_REQUESTS = {50_000: "50 k", 200_000: "200 k", 1_000_000: "1 M"}
_RATE, _KEPT = "qps", "traffic.qps"  # in the address; in the session, with the scenario it was set for
_TRACE_MAX = 2_000_000  # bytes of a CSV of arrivals
_DEMAND_NODES = 10  # nodes' worth of load a plan starts from
_TALL = (380, 300)  # height of the figure beside the curve, on a wide window and on a phone [px]
_GENEROUS = 3.0  # times the unloaded latency an agreement starts from


def nice(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= value * (1 - 1e-9))


def agreement(report: Report) -> Sla:
    """The sidebar: the figure that is promised."""
    tokens = report.tpot_s is not None
    one, two = st.columns(2)
    metric = one.selectbox(
        "Promise",
        _METRICS,
        key="sla-of",
        bind="query-params",
        help="p99: 99% of requests stay under the limit.",
    )
    usual = report.scenario.limits.latency_s or nice(_GENEROUS * report.latency_s)
    limit = two.number_input(
        f"at most ({fmt.MILLISECOND.unit})",
        min_value=1e-6,
        value=float(f"{fmt.MILLISECOND(usual):.6g}"),
        key="sla",
        bind="query-params",
        format="%.6g",
    )
    time = "latency"
    if tokens:
        time = st.selectbox(
            "Of the time to the", list(_TIMES), format_func=_TIMES.__getitem__, key="sla-time", bind="query-params"
        )
    return Sla(limit / fmt.MILLISECOND.factor, metric, time)


def _number(label: str, value: float, low: float, high: float, key: str, **more: Any) -> float:
    return st.number_input(label, min_value=low, max_value=high, value=value, key=key, bind="query-params", **more)


def arrivals() -> dict[str, Any]:
    """The sidebar: when requests come."""
    kind = st.selectbox("Arrivals", list(ARRIVALS), format_func=ARRIVALS.__getitem__, key="come", bind="query-params")
    found: dict[str, Any] = {"arrivals": kind}
    if kind == "gamma":
        found["cv"] = _number("Variation of the gaps", 2.0, 0.1, 20.0, "gap-cv", help="1 is as random as Poisson.")
    elif kind == "bursty":
        found["peak"] = _number("Rate in a burst, times the mean", 4.0, 1.1, 100.0, "peak")
        found["share"] = _number("Share of time in bursts (%)", 10.0, 0.1, 90.0, "burst-share") / 100
        found["burst_s"] = _number("Length of a burst (s)", 1.0, 0.001, 3600.0, "burst")
    elif kind == "day":
        found["day_s"] = _number(
            "Length of the day (s)", 60.0, 1.0, 86_400.0, "day", help="A day squeezed to this length, peak at 20 h."
        )
    elif kind == "trace":
        file = st.file_uploader(
            "Arrivals, CSV",
            type="csv",
            key="trace",
            help="Column time_s, increasing. Not in the link: it has to be given again.",
        )
        if file is None:
            st.caption("No file yet: arrivals are taken as Poisson.")
            found["arrivals"] = "poisson"
        elif file.size > _TRACE_MAX:
            raise TrafficError(f"trace has {file.size:,} bytes; at most {_TRACE_MAX:,} are allowed")
        else:
            found["trace"] = file.getvalue().decode("utf-8-sig", errors="replace")
    return found


def policy(report: Report) -> dict[str, Any]:
    """The sidebar: how requests are queued and launched together."""
    decoder = report.tpot_s is not None
    batch = st.select_slider(
        "Requests launched together",
        _BATCHES,
        key="together",
        bind="query-params",
        help="1: none. Tokens join a running batch between iterations; others wait for a full batch or the time below.",
    )
    found: dict[str, Any] = {"max_batch": batch}
    if batch > 1 and not decoder:
        usual = float(f"{fmt.MILLISECOND(report.latency_s / 2):.2g}")
        wait = _number("Longest wait for a batch (ms)", usual, 0.0, 1e6, "wait", format="%.4g")
        found["timeout_s"] = wait / fmt.MILLISECOND.factor
    places = st.number_input(
        "Waiting places", min_value=0, max_value=1_000_000, value=None, key="places", bind="query-params",
        placeholder="no limit", help="Who finds them all taken is turned away.",
    )  # fmt: skip
    found["places"] = None if places is None else int(places)
    return found


def sizes(scenario_label: str | None) -> dict[str, Any]:
    """The sidebar: how long requests are; only where the workload has a length."""
    if not scenario_label:
        return {}
    kinds = {"fixed": "All alike", "uniform": "Uniform", "lognormal": "Log-normal"}
    kind = st.selectbox(
        f"{scenario_label}, distribution", list(kinds), format_func=kinds.__getitem__, key="sizes", bind="query-params",
        help="Around the scenario's own length, at most twice it.",
    )  # fmt: skip
    found: dict[str, Any] = {"sizes": kind}
    if kind == "lognormal":
        found["size_cv"] = _number("Variation of the lengths", 0.5, 0.05, 3.0, "size-cv")
    return found


def load_and_sla(report: Report) -> tuple[Load, Sla]:
    """Everything the sidebar says about the load."""
    with st.sidebar:
        sla = agreement(report)
        found = arrivals()
        rule = policy(report)
        label = cached.options(report.token).input_label
        size = sizes(label)
        if size.get("sizes", "fixed") != "fixed" and rule["max_batch"] > 1 and report.tpot_s is None:
            rule["buckets"] = st.select_slider(
                "Length buckets", (1, 2, 4), key="buckets", bind="query-params",
                help="A batch holds one bucket's requests only, so it pads less.",
            )  # fmt: skip
        return Load(report.token, **found, **rule, **size, stream=sla.time != "latency"), sla


def asked() -> float | None:
    """The load somebody set for this scenario: by the slider, or in the address, which wins. [1/s]"""
    ss, token = st.session_state, st.session_state.token
    given = st.query_params.get(_RATE)
    if given is not None:
        try:
            qps = float(given)
        except ValueError:
            qps = math.nan
        if 0 < qps < math.inf:
            ss[_KEPT] = (token, qps)
        else:
            del st.query_params[_RATE]
    kept = ss.get(_KEPT)
    if kept is None or kept[0] != token:
        return None
    if given is None:  # a page switch left it out
        st.query_params[_RATE] = f"{kept[1]:.12g}"
    return float(kept[1])


def rate(answer: Answer) -> float:
    """The load slider; it follows the settings until it is moved. [1/s]"""
    top = 1.2 * min(answer.capacity.qps, answer.capacity.breaks_qps)
    step = nice(top / 200)
    decimals = max(0, -math.floor(math.log10(step)))
    count = max(2, math.ceil(top / step))
    wanted = asked() or 0.8 * answer.headline.qps or 0.4 * top
    key = "w.qps"
    st.session_state[key] = round(min(count, max(1, round(wanted / step))) * step, 9)

    def moved() -> None:
        st.session_state[_KEPT] = (st.session_state.token, st.session_state[key])
        st.query_params[_RATE] = f"{st.session_state[key]:.12g}"

    return st.slider(
        "Load (QPS)",
        min_value=round(step, 9),
        max_value=round(count * step, 9),
        step=round(step, 9),
        format=f"%.{decimals}f",
        key=key,
        on_change=moved,
        help="Requests a second offered to one node. A request is the scenario's batch at its lengths.",
    )


def side_by_side(left: Callable[[], None], right: Callable[[], None]) -> None:
    """Two cards in a row."""
    one, two = st.columns(2, gap="small")
    with one:
        left()
    with two:
        right()


def along_the_load(answer: Answer, points: list[Point], sla: Sla, qps: float, spot: Spot, made: str) -> None:
    """Latency along the load."""
    title = f"{sla.metric} along the load"
    said = traffic_tables.knee(points, sla)
    with parts.card(title, said):
        now = (qps, spot.figures.get(sla.metric))
        fig = traffic_charts.curve(
            points, sla.metric, sla.seconds, answer.headline.qps, answer.capacity.qps, now, parts.dark()
        )
        parts.figure(fig, f"{title}: {said}.", "t.curve")
        st.caption(made)


def spread(spot: Spot, sla: Sla) -> None:
    """The distribution at this load; how busy everything is where there is none."""
    if not spot.shares.size:
        busy(spot)
        return
    promised = sla.metric if sla.time == "latency" else None
    ratio = spot.figures["p99"] / spot.figures["p50"]
    said = f"p99 is {fmt.times(ratio)} p50" if promised else "whole answers; the promise is about another time"
    with parts.card("How long requests take", said):
        fig = traffic_charts.distribution(spot, sla.seconds, promised, parts.dark(), _TALL[parts.mobile()])
        parts.figure(fig, f"Distribution of latency: {said}.", "t.spread")


def busy(spot: Spot) -> None:
    """How busy each resource is."""
    most = max(spot.use, key=lambda name: spot.use[name])
    said = f"{most} is {fmt.percent(spot.use[most])} busy"
    with parts.card("How busy each part is", said, stretch=False):
        parts.figure(traffic_charts.use(spot.use, parts.dark()), f"Use: {said}.", "t.use")


def window(load: Load, qps: float) -> None:
    """A few requests on their way."""
    seen = cached.load_window(load, qps)
    wait, stay = traffic_tables.waits(seen)
    said = "nobody waits" if wait < 0.005 else f"{fmt.percent(wait)} of the time is waiting"
    if seen.first is not None:
        said = f"the first token takes {fmt.percent(wait)} of the time"
    with parts.card("Forty requests on their way", said):
        parts.figure(traffic_charts.window(seen, parts.dark()), f"Timeline: {said}.", "t.window")
        st.caption(
            "Grey until the first token, ink to the last." if seen.first is not None else "Grey waits, ink is served."
        )
        if not math.isfinite(stay):
            st.caption("All of these were turned away.")


def plan_of(report: Report, answer: Answer) -> tuple[pd.DataFrame | None, str, list[str]]:
    """The capacity table by failure domain, its sentence, and the assumptions behind it."""
    with st.sidebar, st.expander("Demand and site", key="open.site"):
        usual = nice(_DEMAND_NODES * answer.headline.qps) if answer.headline.qps > 0 else 1.0
        given = st.number_input(
            "Demand at the peak (QPS)", min_value=1e-6, max_value=1e12, value=None, key="demand", bind="query-params",
            format="%.6g", placeholder=f"{usual:.6g}",
        )  # fmt: skip
        demand = usual if given is None else given
        mean = _number("Mean over the peak (%)", 60.0, 1.0, 100.0, "mean-load")
        headroom = _number("Headroom (%)", 20.0, 0.0, 400.0, "headroom")
        survives = st.selectbox(
            "Survives the loss of a", traffic_tables.DOMAINS, index=2, key="survives", bind="query-params"
        )
        slots = st.number_input("Nodes a rack takes", 1, 1000, 20, key="slots", bind="query-params")
        rack_w = _number("Power a rack takes (W)", 15_000.0, 1.0, 1e7, "rack-w", format="%.6g")
        price = st.number_input(
            "Price of a node ($)", min_value=0.0, value=None, key="node-usd", bind="query-params",
            placeholder=fmt.usd(report.capex_usd) if report.capex_usd is not None else "none published",
        )  # fmt: skip
    return traffic_tables.plans(
        report, answer.headline, demand, mean / 100, headroom / 100, survives, int(slots), rack_w, price
    )


def _three(largest: float) -> Any:
    """A column whose largest value has three digits, and as many decimals everywhere."""
    decimals = max(0, 2 - math.floor(math.log10(largest))) if largest > 0 else 0
    return st.column_config.NumberColumn(format=f"%.{decimals}f")


def capacity_card(frame: pd.DataFrame | None, said: str, notes: list[str]) -> None:
    """Nodes, racks, power and money for the demand."""
    with parts.card("Nodes for the demand", said):
        if frame is not None:
            whole = st.column_config.NumberColumn(format="localized")
            st.dataframe(
                frame,
                hide_index=True,
                column_config={n: _three(frame[n].max()) for n in frame if frame[n].dtype.kind == "f"}
                | {n: whole for n in frame if frame[n].dtype.kind == "i"}
                | {"Down": st.column_config.TextColumn(pinned=True, width="small")},
                alt="Nodes, racks, power and cost by failure domain",
            )
        for note in notes:
            st.caption(fmt.plain(note))


@st.fragment(run_every=0.4)
def progress(job: Simulation) -> None:
    """How far a simulation is, with Cancel beside it."""
    if not job.running:
        st.rerun()
    now = job.progress
    done, total = fmt.of(now.done, now.total, "requests"), now.total
    speed = now.done / now.elapsed_s if now.elapsed_s > 0 else 0.0
    left = f" · {fmt.seconds((total - now.done) / speed)} left" if speed > 0 else ""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(min(1.0, now.done / total), text=f"{done} · {fmt.si(speed, 'requests/s')}{left}")
        st.button("Cancel", on_click=job.cancel, key="t.cancel")


def simulated(load: Load, sla: Sla, qps: float) -> Simulation | None:
    """The button, and the simulation of these settings if there is one."""
    job: Simulation | None = st.session_state.get("t.job")
    mine = job if job is not None and (job.load, job.sla) == (load, sla) else None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        requests = st.selectbox(
            "Requests a point", list(_REQUESTS), index=1, format_func=_REQUESTS.__getitem__, key="t.requests", width=140
        )

        def run() -> None:
            if job is not None:
                job.cancel()
            st.session_state["t.job"] = Simulation(load, sla, qps, requests)

        running = mine is not None and mine.running
        st.button("Simulate", type="primary", on_click=run, disabled=running, key="t.run", shortcut="Ctrl+Enter")
        st.caption(traffic_tables.job_said(mine, qps))
    if mine is not None and mine.running:
        progress(mine)
    return mine


def results(report: Report, load: Load, sla: Sla, bar: DeltaGenerator) -> None:
    """The page below the bar, for a load that can be simulated."""
    with st.skeleton(height=340):
        answer = cached.load_answer(load, sla)
    frame, said, notes = plan_of(report, answer)
    qps = rate(answer)
    spot = cached.load_point(load, sla, qps)
    verdict = st.container()
    chart = st.container()
    job = simulated(load, sla, qps)
    points, headline = list(answer.curve), answer.headline
    made = traffic_tables.made_by(answer)
    if job is not None and not job.running and job.curve:
        points = [point_of(r, sla) for r in job.curve if r.stable]
        headline = job.headline or headline
        made = traffic_tables.simulated_by(job)
        if job.spot is not None and job.spot.stable and job.qps == qps:
            spot = spot_of(job.spot, sla, spot.use)
    with verdict:
        st.markdown(traffic_tables.verdict(headline, sla, report))
        if spot.message:
            st.error(fmt.plain(traffic_tables.overload(qps, answer.capacity)), icon=":material/block:")
        else:
            st.markdown(traffic_tables.at_this_load(qps, spot, sla, answer.capacity))
    shown = Answer(answer.capacity, headline, answer.curve, answer.kind, answer.requests)
    with chart:
        side_by_side(lambda: along_the_load(shown, points, sla, qps, spot, made), lambda: spread(spot, sla))
    capacity_card(frame, said, notes)
    if spot.shares.size:
        side_by_side(lambda: busy(spot), lambda: window(load, qps))
    exports: dict[str, tuple[str, str, Callable[[], str]]] = {
        "Curve, CSV": ("traffic", "csv", lambda: traffic_tables.curve_csv(report, load, sla, points)),
        "Capacity, CSV": ("traffic-capacity", "csv", lambda: traffic_tables.plan_csv(report, sla, frame)),
        "Everything, JSON": (
            "traffic",
            "json",
            lambda: json.dumps(
                traffic_tables.everything(report, load, sla, qps, headline, spot, points, frame), indent=1
            ),
        ),
    }
    with bar:
        parts.bar(report, "traffic", exports)


def show() -> None:
    """The page."""
    try:
        report = cached.report(encode(link.current()))
    except Unsupported as reason:
        parts.bar(None, "traffic")
        st.info(fmt.plain(str(reason)), icon=":material/info:")
        parts.footer(None)
        return
    if not report.fits:
        parts.bar(report, "traffic")
        for problem in report.problems:
            st.error(fmt.plain(problem), icon=":material/block:")
        st.caption("No load is shown: a machine that cannot hold the model carries none.")
        parts.footer(report)
        return
    slot = st.container()
    try:
        load, sla = load_and_sla(report)
        results(report, load, sla, slot)
    except ScenarioError as error:
        with slot:
            parts.bar(report, "traffic")
        st.warning(fmt.plain(f"{str(error).rstrip('.')}. Change it in the sidebar."), icon=":material/edit_off:")
    parts.footer(report)


show()
