"""How few bits still meet my metric?"""

from collections.abc import Callable
from typing import Any

import streamlit as st

from app.shared import boundary, cached, link, parts
from app.shared import formats as fmt
from app.shared.report_tables import columns
from app.shared.widgets.choices import choose, number
from app.views.numerics import charts, texts, trained
from engine.lab.numerics.study import TENSORS, FormatLoss, in_format, points
from engine.lab.numerics.workflow import BOUND, METRIC, WORKLOAD, WorkflowResult, in_scenario, study
from engine.resolve.choices import default_scenario
from entries.schema import InputError
from model_zoo.catalog import default_zoo


def controls() -> tuple[str, float, str]:
    """The sidebar: tensor, wanted ratio, format looked at."""
    with st.sidebar:
        name = choose("Layer", TENSORS, "layer", help=texts.LAYER_HELP)
        kwargs: dict[str, Any] = {"widget": st.slider, "step": 5, "help": texts.TARGET_HELP}
        target_db = number("Target SQNR (dB)", 5, 60, 30, "wanted", **kwargs)
        formats = {p.format: charts.label(p.format) for p in points(name)}
        format = choose("Format", formats, "format", "int8 by row", help=texts.FORMAT_HELP)
    return name, target_db, format


def curve(name: str, target_db: float, choice: FormatLoss, best: FormatLoss | None) -> None:
    """Error against bits."""
    answer = texts.NO_FORMAT.format(wanted=target_db)
    if best is not None:
        answer = f"{charts.label(best.format)}: {fmt.digits3(best.bits)} bits for {fmt.digits3(best.sqnr_db)} dB"
    fig = charts.error_curve(points(name), choice, target_db, parts.dark())
    parts.chart("Error against bits", answer, fig, "error-bits")


def before_after(name: str, format: str) -> None:
    """Distribution of the values."""
    values = in_format(name, format)
    answer = texts.BEFORE_AFTER_ANSWER.format(
        sqnr=fmt.digits3(values.point.sqnr_db), largest=fmt.digits3(values.point.largest)
    )
    fig = charts.distribution(values.before, values.after, parts.dark())
    parts.chart(f"Before and after {charts.label(format)}", answer, fig, "before-after")


@boundary.fragment
def measured_plan() -> None:
    """The workflow on kernels: a small network, its own metric, and the plan in a scenario."""
    with parts.open_card(texts.MEASURED, stretch=False) as say:
        left, right = st.columns(2, vertical_alignment="bottom")
        bound = left.select_slider(
            f"Largest {METRIC}",
            [BOUND * factor for factor in (0.4, 1.0, 4.0)],
            BOUND,
            format_func=lambda b: f"{b * 100:g}%",
            key="n.metric",
            persist_state="session",
            help=texts.LIMIT_HELP,
        )
        run = right.button(
            "Measure",
            icon=":material/timer:",
            key="n.measure",
            width="stretch",
            help=texts.MEASURE_HELP,
        )
        runs = st.session_state.setdefault("v.numerics.asked", set())
        if run:
            runs.add(bound)
        if bound not in runs:
            say("not run yet")
            return
        with st.spinner("Training, timing, searching"):
            outcome = cached.answer(study, bound=bound)
        plan_result(outcome, say)


def plan_result(result: WorkflowResult, say: Callable[[str], object]) -> None:
    """What a measured search ended with, each of its moves, and the way into a scenario."""
    wide = len(result.layers)
    outcome = texts.UNTOUCHED.format(loss=100 * result.untouched_loss)
    answer = texts.MEASURED_ANSWER.format(
        wide=wide, layers=sum(not op.startswith("table") for op in result.plan.precision), outcome=outcome
    )
    if not result.holds:
        answer = texts.NO_MEASURED_PLAN.format(bound=100 * result.bound)
        if result.plan.holds:
            answer += texts.HELD_OUT_MISSED.format(loss=outcome)
    say(answer)
    rows = {
        "Layer": ["all" if s.operator == "*" else s.operator for s in result.plan.steps],
        "To": [s.precision.upper() for s in result.plan.steps],
    }
    parts.table(rows | columns(result.plan.steps, texts.STEP_COLUMNS))
    st.caption(fmt.plain(", ".join(f"{op} {format.upper()}" for op, format in result.plan.precision.items())))
    try:
        scenario = in_scenario(result, default_scenario("fb-node", WORKLOAD))
        st.button(
            texts.OPEN.format(name=default_zoo().workload(WORKLOAD).name),
            on_click=link.open_scenario,
            args=(scenario,),
            key="n.open",
        )
    except InputError as why:
        st.caption(fmt.plain(str(why)))


def show() -> None:
    """The page."""
    name, target_db, format = controls()
    parts.bar(parts.report_now(), "numerics")  # none where the pair can't run: formats don't need the scenario
    best = next((p for p in points(name) if p.sqnr_db >= target_db), None)
    st.markdown(f"{charts.answer(name, target_db, best)}.")
    loss = in_format(name, format).point
    parts.beside(lambda: curve(name, target_db, loss, best), lambda: before_after(name, format))
    measured_plan()
    trained.trained_here()
    st.caption(texts.CAPTION)


show()
