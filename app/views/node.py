"""What moves over which wire, and what does each switch buy?"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import cached, charts, fixes, link, node_charts, nodes, parts, pool, widgets, words
from app import format as fmt
from engine import node
from engine.devices.family import Unsupported
from engine.presets import PRESETS
from engine.report import Report
from engine.scenario import Scenario, encode

_PRESET = "node-dlrm"
_REQUESTS = 6  # drawn in flight


def elsewhere(reason: str) -> None:
    """This system is no node; here is one."""
    st.info(fmt.plain(reason), icon=":material/info:")
    preset = PRESETS[_PRESET]
    st.button(
        f"Open {preset.title}",
        on_click=link.open_scenario,
        args=(preset.scenario,),
        key="node.open",
        type="primary",
    )


def wires(report: Report) -> None:
    """The node with what crosses each link, and how busy it is."""
    with parts.card("Who moves what", words.answer_links(report)):
        alt = f"Topology: {words.answer_links(report)}."
        if parts.mobile():
            parts.figure(charts.links(report.links, parts.dark()), alt, "wires")
        else:
            parts.figure(node_charts.topology(nodes.topology(report), parts.dark()), alt, "wires")


@st.fragment
def switches(report: Report) -> None:
    """Every switch: what it buys alone, what it buys beside the others as they are, and all of them together."""
    figures = nodes.FIGURES
    with st.container(border=True, height="stretch"):
        title = st.empty()
        picked = st.pills(
            "Figure",
            list(figures),
            default=next(iter(figures)),
            required=True,
            format_func=lambda name: figures[name],
            key="v.node.figure",
            label_visibility="collapsed",
            persist_state="session",
        )
        together, rows = nodes.gains(report.scenario, picked)
        title.markdown(f"**What each switch buys** :gray[· {fmt.plain(nodes.told(together, rows))}]")
        frame = pd.DataFrame(
            {
                "Switch": [r.label for r in rows],
                "Gain (×)": [r.beside for r in rows],
                "Alone (×)": [r.alone for r in rows],
                "On": [r.on for r in rows],
            }
        )
        number = st.column_config.NumberColumn
        event = st.dataframe(
            frame,
            hide_index=True,
            on_select="rerun",
            selection_mode="single-row",
            key="node.switches",
            height=288,
            column_config={
                "Switch": st.column_config.TextColumn(pinned=True),
                "Gain (×)": number(format="%.2f", help="On against off, the other switches as they are."),
                "Alone (×)": number(format="%.2f", help="On against off, every other switch off."),
                "On": st.column_config.CheckboxColumn(width="small"),
            },
            alt="Switches, the gain of each beside the others and alone, and whether it is on",
        )
        at = event["selection"]["rows"]
        if at and at[0] < len(rows):
            row = rows[at[0]]
            st.caption(f"**{fmt.plain(row.label)}** · {fmt.plain(row.help)}")
            if st.button(f"Turn it {'off' if row.on else 'on'}", key="node.turn"):
                link.commit(switches={**report.scenario.switches, row.name: not row.on})
                st.rerun()


def split(scenario: Scenario) -> None:
    """Throughput as cores move from dense work to lookups."""
    points, now = nodes.core_split(scenario)
    if len(points) < 2:
        return
    best = max(range(len(points)), key=lambda i: points[i][1].throughput_per_s)
    answer = f"{points[best][0]} of {nodes.cores(scenario)} for lookups is best"
    if now is not None and now != best:
        gain = points[best][1].throughput_per_s / points[now][1].throughput_per_s
        answer += f", {fmt.times(gain)} the present throughput"
    with parts.card("Cores for lookups", answer):
        unit = f"{words.rate_unit(points[0][1].unit)}/s"
        fig = charts.knob(
            [str(v) for v, _ in points], [r.throughput_per_s for _, r in points], now, "Cores for lookups", unit,
            parts.dark(),
        )  # fmt: skip
        parts.figure(fig, f"Throughput along the core split: {answer}.", "split")


def over_time(report: Report) -> None:
    """Cores and links over several requests in flight."""
    bars, interval = node.gantt(report.scenario, _REQUESTS)
    ahead = report.latency_s / interval if interval else 1.0
    answer = f"a request every {fmt.seconds(interval)}, each takes {fmt.seconds(report.latency_s)}"
    answer += f": {fmt.digits3(ahead)} in flight" if ahead > 1.005 else ", one at a time"
    with parts.card("Cores and links over time", answer):
        fig = node_charts.cores(bars, parts.dark())
        parts.figure(fig, f"Timeline of {_REQUESTS} requests: {answer}.", "cores")


def show() -> None:
    """The page."""
    scenario = link.current()
    reason = nodes.not_a_node(scenario)
    if reason:
        try:
            report = cached.report(encode(scenario))
        except Unsupported:
            report = None
        parts.bar(report, "node")
        if report is not None and report.fits and nodes.shared(scenario):
            pool.pool(report)
        else:
            elsewhere(reason)
        parts.footer(report)
        return
    widgets.scenario_controls(scenario)
    try:
        report = cached.report(encode(scenario))
    except Unsupported as why:
        parts.bar(None, "node")
        st.info(fmt.plain(str(why)), icon=":material/info:")
        with st.container(horizontal=True, gap="small"):
            for system, load in fixes.neighbours(scenario):
                label = widgets.workload_label(load) if system == scenario.system else widgets.system_label(system)
                st.button(label, on_click=link.open_pair, args=(system, load), key=f"pair.{system}.{load}")
        parts.footer(None)
        return
    parts.bar(report, "node")
    problem = st.session_state.pop("problem", None)
    if problem:
        st.warning(fmt.plain(f"{problem[1].rstrip('.')}. Nothing was changed."), icon=":material/edit_off:")
    for text in report.problems:
        st.error(fmt.plain(text), icon=":material/block:")
    if not report.problems:
        st.markdown(report.verdict)
    left, right = st.columns([1, 1], gap="small")
    with left:
        wires(report)
    with right:
        switches(report)
    over_time(report)
    split(scenario)
    parts.footer(report)


show()
