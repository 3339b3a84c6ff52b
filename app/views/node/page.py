"""What moves over which wire, and what does each switch buy?"""

import streamlit as st

from app.shared import boundary, cached, fixes, glossary, link, parts
from app.shared import formats as fmt
from app.shared.figures import report as charts
from app.shared.widgets import sidebar
from app.shared.widgets.choices import pills, switch
from app.views.node import charts as node_charts
from app.views.node import facts, pool, texts
from app.views.node.tilings import tilings
from engine.analyses.node import at_work
from engine.cost.report import Report
from engine.scenario import Scenario, encode
from hardware_specs.catalog import default_catalog


def wires(report: Report) -> None:
    """The node with what crosses each link, and how busy it is."""
    if parts.mobile():
        fig, key = charts.links(report.links, parts.dark()), "wires"
    else:
        fig, key = node_charts.topology(report, parts.dark()), "wiring"
    parts.chart(texts.TRAFFIC, glossary.answer_links(report), fig, key)


@boundary.fragment
def switches(report: Report) -> None:
    """Every switch: what it buys alone, what it buys beside the others as they are, and all of them together."""
    with parts.open_card(texts.SPEED_UPS) as say:
        together, rows = facts.gains(report.scenario, pills("Figure", facts.FIGURES, "figure"))
        say(facts.gain_words(together, rows))
        frame = {
            "Optimisation": [r.switch.label for r in rows],
            "As set": [fmt.times(r.beside) for r in rows],
            "On its own": [fmt.times(r.alone) for r in rows],
            "On": [r.on for r in rows],
        }
        text = st.column_config.TextColumn
        event = parts.table(
            frame,
            {
                "As set": text(alignment="right", help=texts.GAIN_HELP),
                "On its own": text(alignment="right", help=texts.ALONE_HELP),
                "On": st.column_config.CheckboxColumn(width="small"),
            },
            max_rows=0,
            tall=288,
            select="rerun",
            key="node.switches",
        )
        if row := parts.selected_row(event, rows):
            st.caption(f"**{fmt.plain(row.switch.label)}** · {fmt.plain(row.switch.help)}")
            if st.button(f"Turn it {'off' if row.on else 'on'}", key="node.turn"):
                link.commit(switches={**report.scenario.switches, row.switch.name: not row.on})
                st.rerun()


def power(report: Report) -> None:
    """Who draws the report's power, and what the devices' work takes of it by part."""
    if not report.power_parts_w:
        return
    idle, work, chassis, host = (fmt.si(watts, "W") for watts in report.power_parts_w.values())
    power = fmt.si(report.power_w, "W")
    answer = texts.POWER_ANSWER.format(power=power, idle=idle, work=work, chassis=chassis, host=host)
    with parts.card(texts.POWER, answer):
        whole = sum(report.energy.values())
        shares = (f"{name} {fmt.percent(joules / whole)}" for name, joules in report.energy.items() if whole)
        clock = texts.CAP_TAKES.format(share=fmt.percent(report.clock_share))
        st.caption(fmt.plain(texts.WORK_BY_PART.format(shares=", ".join(shares)) + clock * (report.clock_share < 1.0)))


@boundary.fragment
def by_kind(scenario: Scenario) -> None:
    """Time by kind of operator, before and after each optimisation."""
    with st.container(border=True):
        st.markdown(texts.KINDS)
        if switch("Each optimisation", "kinds"):
            parts.table(facts.kinds_table(cached.answer(at_work.by_kind, scenario)))


def show() -> None:
    """The page."""
    scenario = link.current()
    sidebar.scenario_controls(scenario)
    system = default_catalog().system(scenario.system)
    if not link.offers("node"):
        parts.bar(parts.report_now(), "node")
        reason = texts.NO_NODE.format(name=system.name, topology=system.topology)
        if system.topology == "switch":
            reason = texts.NO_HOST.format(name=system.name)
        parts.elsewhere(reason, ("node-dlrm",), "node")
        return
    report = cached.report(encode(scenario))
    parts.bar(report, "node")
    if report.problems:
        fixes.violations(report)
    if not report.fits:  # its numbers would describe a machine that cannot hold the model
        return
    if system.topology == "network":
        pool.pool(report)
        return
    if not report.problems:
        st.markdown(report.verdict)
    parts.beside(lambda: wires(report), lambda: switches(report))
    power(report)
    by_kind(scenario)
    tilings(scenario)


show()
