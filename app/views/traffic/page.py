"""What load can it carry inside the SLA?"""

import math

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.shared import cached, fixes, link, parts
from app.shared import formats as fmt
from app.shared import load as loads
from app.shared.load import Answer, Load, LoadDetail, LoadPoint, detail_of, point_of
from app.shared.widgets.choices import remember
from app.shared.widgets.controlled import controlled
from app.views.traffic import charts, tables, texts
from app.views.traffic.controls import load_and_sla, nice, site, usual_agreement
from app.views.traffic.plan_and_simulation import capacity_card, simulation_controls, simulation_of
from app.views.traffic.serving.answer import serving
from app.views.traffic.simulation import simulation
from engine.cost.report import Report
from engine.scenario import encode
from engine.traffic import Sla
from engine.traffic.scenario_load import is_decoder
from entries.schema import InputError

_REQUESTS = {50_000: "50 k", 200_000: "200 k", 1_000_000: "1 M"}
_ALWAYS = 0.995  # of the time: told as 100%


def _read(text: str) -> tuple[float, str | None]:
    """A load of the address, and what is wrong with it. [1/s]"""
    try:
        qps = float(text)
    except ValueError:
        qps = math.nan
    return (qps, None) if 0 < qps < math.inf else (0.0, texts.NO_LOAD_IN_LINK.format(given=text[:40]))


def rate(answer: Answer) -> float:
    """The load slider; it follows the settings until it is moved. [1/s]"""
    top = 1.2 * min(answer.capacity.qps, answer.capacity.breaks_qps)
    step = nice(top / 200)
    decimals = max(0, -math.floor(math.log10(step)))
    count = max(2, math.ceil(top / step))
    choice, commit = remember("qps", 0.0, _read, "{:.12g}".format, of=st.session_state.token)
    target = choice or 0.8 * answer.headline.qps or 0.4 * top
    now = round(min(count, max(1, round(target / step))) * step, decimals)
    if not 0.5 * step <= target <= (count + 0.5) * step:
        bounds = (fmt.si(load, "QPS") for load in (target, step, count * step, now))
        st.info(texts.LOAD_OUTSIDE.format(*bounds), icon=":material/info:")
    return st.slider(
        "Load (QPS)",
        min_value=round(step, decimals),
        max_value=round(count * step, decimals),
        step=round(step, decimals),
        format=f"%.{decimals}f",
        help=texts.LOAD_HELP,
        **controlled("w.qps", now, commit, (step, count)),
    )


def along_the_load(points: list[LoadPoint], sla: Sla, inside: float, capacity: float, qps: float, how: str) -> None:
    """Latency along the load, whose most is `inside` the agreement. [1/s]"""
    fig = charts.curve(points, sla, inside, capacity, qps, parts.dark())
    with parts.card(f"{sla.metric} along the load", tables.knee(points, sla), fig, "t.curve"):
        st.caption(how)


def spread(detail: LoadDetail, sla: Sla) -> None:
    """The distribution at this load."""
    answer = f"p99 is {fmt.times(detail.figures['p99'] / detail.figures['p50'])} p50"
    fig = charts.distribution(detail, sla.seconds, sla.metric, parts.dark())
    with parts.card(texts.DISTRIBUTION, answer, fig, "t.spread"):
        for note in detail.report.notes if detail.report else ():
            st.caption(fmt.plain(note))


def busy(detail: LoadDetail) -> None:
    """How busy each resource is."""
    busiest = max(detail.use, key=lambda name: detail.use[name])
    answer = f"{busiest} is {fmt.percent(detail.use[busiest])} busy"
    fig = charts.use(detail.use, parts.dark(), detail.message is not None)
    with parts.card(texts.UTILISATION, answer, fig, "t.use"):
        if "server" in detail.use and len(detail.use) > 1:
            st.caption(texts.SERVER_CAPTION)
        if detail.message is None and detail.use[busiest] >= _ALWAYS:
            st.caption(texts.BATCHES_CAPTION)


def window(load: Load, qps: float) -> None:
    """A few requests on their way."""
    window = cached.answer(loads.window, load, qps)
    wait, stay = tables.waits(window)
    answer = "no request waits" if wait < 0.005 else texts.WAITING.format(wait=fmt.percent(wait))
    with parts.card("Timeline of 40 requests", answer, charts.window(window, parts.dark()), "t.window"):
        st.caption(tables.window_key(window))
        if not math.isfinite(stay):
            st.caption(texts.ALL_TURNED_AWAY)


def results(report: Report, load: Load, sla: Sla, bar: DeltaGenerator) -> None:
    """The page below the bar, for a load that can be simulated."""
    with bar, st.skeleton(height=340):  # whose place the bar takes
        answer = cached.answer(loads.answer, load, sla)
    files = tables.files(
        lambda: tables.here(report, load, sla, qps, headline, detail),
        lambda: tables.curve_rows(report, load, sla, points),
        lambda: tables.plan_rows(report, sla, frame),
    )
    with bar:
        parts.bar(report, "traffic", files)
    initial = cached.answer(loads.answer, Load(report.token), usual_agreement(report))  # whatever is set now
    where = site(report, initial.headline.qps or initial.capacity.qps)
    frame, nodes, notes = tables.plans(report, answer.headline, where, load.rules.request, load.rules.max_batch)
    qps = rate(answer)
    detail = cached.answer(loads.point, load, qps, answer.capacity)
    job = simulation_of((load, sla))
    points, headline = list(answer.curve), answer.headline
    origin = tables.made_by(answer)
    if job is not None and job.curve:
        points = [point_of(r, sla) for r in job.curve if r.stable]
        headline = job.headline or headline
        origin = tables.simulated_by(job)
        if job.detail is not None and job.detail.stable and job.qps == qps:
            detail = detail_of(job.detail)
    st.markdown(tables.verdict(headline, sla, report, load.process == "diurnal", load.rules.request))
    if detail.message:
        st.error(fmt.plain(tables.overload(qps, answer.capacity, detail)), icon=":material/block:")
    else:
        st.markdown(tables.at_this_load(qps, detail, sla, answer.capacity))
    for sentence in tables.limits(report):
        st.caption(fmt.plain(sentence))
    parts.beside(
        lambda: along_the_load(points, sla, headline.qps, answer.capacity.qps, qps, origin),
        lambda: spread(detail, sla) if detail.shares.size else busy(detail),
    )
    simulation_controls(job, lambda n: simulation(load, sla, qps, n), _REQUESTS, 200_000, qps)
    capacity_card(frame, nodes, notes, fmt.si(where.peak_qps, "QPS"), texts.NODES_CAPTION)
    if detail.shares.size:
        busy(detail)
        window(load, qps)


def show() -> None:
    """The page."""
    report = cached.report(encode(link.current()))
    if not report.fits:
        parts.bar(report, "traffic")
        fixes.violations(report)
        st.caption(texts.DOES_NOT_FIT)
        return
    slot = st.container()
    try:
        if is_decoder(report.scenario):
            serving(report, slot)
        else:
            load, sla = load_and_sla(report)
            results(report, load, sla, slot)
    except InputError as error:
        with slot:
            parts.bar(report, "traffic")
        st.warning(fmt.plain(texts.CHANGE_IN_SIDEBAR.format(error=str(error).rstrip("."))), icon=":material/edit_off:")


show()
