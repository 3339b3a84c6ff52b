"""What stands below a front: the tornado, the smallest change; and the scenario that a design is."""

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from app.shared import cached, jobs, link, parts, priority
from app.shared import formats as fmt
from app.shared.glossary import LEVERS, Metric
from app.shared.jobs import Job
from app.views.sweep import axes, charts, questions, spaces, texts
from app.views.sweep.background import Outcome, SweptDesign
from app.views.sweep.columns import settings_of
from app.views.sweep.spaces import PageSpace
from app.views.sweep.tables import over
from engine.cost.report import Report
from engine.scenario import Scenario, encode
from engine.traffic.engines.serving_sweep import HEAD
from entries.schema import InputError


def scenario_of(outcome: Outcome, design: SweptDesign) -> Scenario:
    """The scenario of an operating point: as many sequences in its batch as it has clients, where they fit."""
    scenario, clients = outcome.space.scenario(design.number), levers(outcome, design).get("clients", "1")
    wide = cached.tried(scenario, batch=int(clients))
    return wide.scenario if wide is not None and wide.fits else scenario


def levers(outcome: Outcome, design: SweptDesign) -> dict[str, str]:
    """Parameters of the Load page's address that set an operating point's levers there."""
    chosen: dict[str, Any] = {f"{HEAD}clients": 1} | settings_of(outcome.space, design.number)
    known = {key: chosen[HEAD + name] for name, (_, key) in LEVERS.items() if HEAD + name in chosen}
    return {key: value if isinstance(value, str) else axes.lever_text(value) for key, value in known.items()}


def _in_turn(ask: Callable[[], Any]) -> Any:
    """The answer of a call that takes as long as a sweep, once its turn has come; a click elsewhere leaves it."""
    question = Job(jobs.SWEEPS, lambda _: priority.background().submit(ask).result(), lambda _: "Working it out")
    line = st.empty()
    for _ in question:
        line.caption(question.status())
    line.empty()
    return question.result()


def moves(outcome: Outcome, design: SweptDesign) -> None:
    """What the first objective of the selected design depends on most."""
    metric = outcome.metrics[outcome.objectives[0]]
    opened = st.expander(texts.SENSITIVITY, key="open.moves", on_change="rerun")
    with opened:
        if not opened.open:
            return
        scenario = outcome.space.scenario(design.number)
        key = encode(scenario), metric.name
        if st.session_state.get("sweep_moves", (None,))[0] != key:
            st.session_state.sweep_moves = key, questions.swings(scenario, metric, _in_turn)
        rows = st.session_state.sweep_moves[1]
        if not rows:
            st.caption(texts.NOTHING_MOVES.format(label=metric.label.lower()))
            return
        share = fmt.percent(questions.SHARE)
        swing = f"{rows[0][0]} down by {share}: {fmt.signed(rows[0][1])}; up: {fmt.signed(rows[0][2])}"
        st.caption(texts.SENSITIVITY_CAPTION.format(share=share, said=fmt.plain(swing)))
        fig = charts.tornado(rows, questions.SHARE, metric.label.lower(), parts.dark())
        parts.figure(fig, f"Tornado of {metric.label}: {swing}.", "moves")


def change(report: Report, space: PageSpace, metrics: Mapping[str, Metric]) -> None:
    """The smallest change of the current scenario that keeps its limits."""
    opened = st.expander(texts.INVERSE, key="open.change", on_change="rerun")
    with opened:
        if not opened.open:
            return
        if not report.scenario.limits.of_figures and report.fits:
            st.caption(texts.NO_LIMITS)
            return
        st.caption(texts.INVERSE_CAPTION)
        key = f"{spaces.write(space)} {st.session_state.token}"
        if st.button("Look for it", key="sweep.change"):
            try:
                st.session_state.sweep_change = (key, questions.smallest_change(report, space, metrics, _in_turn))
            except InputError as error:
                st.session_state.sweep_change = None
                parts.refusal(error)
        last, found = st.session_state.get("sweep_change") or ("", None)
        if found is None or last != key:
            return
        nearest, changes = found
        if not nearest.met:
            missed = over(nearest.figures, report.scenario.limits.of_figures) or texts.NEAREST_DOES_NOT_FIT
            st.error(fmt.plain(texts.NO_DESIGN_KEEPS.format(missed=missed)), icon=":material/block:")
        elif not changes:
            st.markdown(texts.NOTHING_TO_CHANGE)
        else:
            st.markdown("; ".join(f"**{fmt.plain(n)}** {fmt.plain(a)} → **{fmt.plain(b)}**" for n, a, b in changes))
        if changes and st.button("Open in Explore", key="sweep.change.open"):
            link.show("explore", nearest.scenario)
