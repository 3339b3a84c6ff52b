"""What is this machine made of, and what of it does the scenario use?"""

import pandas as pd
import streamlit as st

from app.shared import formats as fmt
from app.shared import glossary, link, parts
from app.shared import machine as inside
from app.shared.figures import report as charts
from app.shared.widgets import sidebar
from app.views.machine import facts
from engine.cost.report import Report
from engine.resolve.bind import named
from engine.resolve.bound import Bound
from engine.scenario import ScenarioError


def _levels(bound: Bound, report: Report | None) -> None:
    frame = facts.memory(bound, report)
    answer = glossary.answer_fits(report) if report is not None else fmt.counted(len(frame), "level")
    fig = charts.fits(report.memory, parts.dark()) if report is not None and report.memory else None
    with parts.card("Memory levels", answer, fig, "machine.fits", stretch=False):
        parts.table(
            frame if frame["Of"].nunique() > 1 else frame.drop(columns="Of"),
            {"Full (%)": st.column_config.ProgressColumn(format="%.1f%%", min_value=0, max_value=100)},
            right=("Capacity", "Bandwidth", "In use"),
            max_rows=0,
            tall=parts.tall(frame),
        )


def _spec_table(title: str, frame: pd.DataFrame) -> None:
    sources = frame["Evidence"].value_counts()
    answer = ", ".join(f"{count} {basis}" for basis, count in sources.items())
    with parts.card(title, answer, stretch=False):
        st.table(
            frame,
            hide_index=True,
            height="content" if len(frame) <= 15 else 420,
            alt=parts.table_alt(frame),
        )


def _links(bound: Bound, report: Report | None) -> None:
    frame = facts.links(bound, report)
    answer = glossary.answer_links(report) if report is not None and report.links else fmt.counted(len(frame), "kind")
    with parts.card("Links", answer):
        parts.table(frame, right=("Bandwidth", "Latency", "Per request", "Busy"), max_rows=0, tall=parts.tall(frame))


def show() -> None:
    """The page."""
    scenario = link.current()
    sidebar.scenario_controls(scenario)
    report = parts.report_now()  # none where the pair can't run: the machine is there all the same
    parts.bar(report, "machine")
    try:
        bound = named(scenario)
    except ScenarioError as error:
        st.info(fmt.plain(fmt.sentence(error)), icon=":material/info:")
        return
    st.markdown(facts.sentence(bound))
    money = facts.money(bound, report)
    with st.container(key="cards"):
        parts.metrics(money, len(money))
    _levels(bound, report)
    if bound.wires:
        _links(bound, report)
    for title, frame in facts.groups(bound).items():
        _spec_table(title, frame)
    if report is not None and report.fits and bound.family.instructions is not None:
        inside.inside()


show()
