"""What stands below a front: what moves a figure most, the smallest change that does; and the scenario of a design."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from app.shared import cached, glossary, jobs, link, parts, priority, specs
from app.shared import formats as fmt
from app.shared.glossary import LEVERS, Metric
from app.shared.jobs import Job
from app.views.sweep import axes, front, spaces, texts
from app.views.sweep.axes import Candidate
from app.views.sweep.background import designs_of
from app.views.sweep.columns import settings_of
from app.views.sweep.outcome import Outcome, SweptDesign
from app.views.sweep.spaces import PageSpace
from app.views.sweep.tables import over, setting
from engine.cost.report import Report
from engine.scenario import Scenario, ScenarioError, encode
from engine.sweep import Axis, Inverse, inverse, sensitivity
from engine.sweep import Space as Designs
from engine.traffic.engines.operating_space import HEAD
from entries.schema import InputError

SHARE = 0.2  # by which a tornado lowers and raises each number
_MOST_SWINGS = 10
_MOST_DESIGNS = 300_000  # of the grid on which the smallest change is looked for

Ask = Callable[[Callable[[], Any]], Any]
"""What runs a call of the engine that takes as long as a sweep, and gives its answer: a page waits for its turn."""


def swings(scenario: Scenario, metric: Metric, ask: Ask) -> list[tuple[str, float, float]]:
    """(name, change where the number is lowered by `SHARE`, where it is raised), the widest first."""
    candidates = axes.candidates(scenario)
    rows = []
    for swing in ask(lambda: sensitivity(scenario, metric.name, SHARE))[:_MOST_SWINGS]:
        name = (
            candidates[swing.path].label if swing.path in candidates else glossary.tidy(swing.path.rpartition(".")[2])
        )
        ends = [0.0 if end is None else end / swing.base - 1.0 for end in (swing.low, swing.high)]
        if any(abs(e) > 5e-4 for e in ends):
            rows.append((name[:1].upper() + name[1:], ends[0], ends[1]))
    return rows


def smallest_change(
    report: Report, space: PageSpace, metrics: Mapping[str, Metric], ask: Ask
) -> tuple[Inverse, list[tuple[str, str, str]]]:
    """Over the space's grid with the scenario's own values put in: fewest axes changed, then least far. Exact on it.

    With every setting that changes, its value before and after. ScenarioError where the grid is too large or nothing of
    it runs.
    """
    scenario = report.scenario
    candidates = axes.candidates(scenario)
    designs = designs_of(scenario, space, metrics)
    size = math.prod(1 + len(axis) for axis in designs.axes)
    if size > _MOST_DESIGNS:
        raise ScenarioError(texts.TOO_MANY_DESIGNS.format(size=size, most=_MOST_DESIGNS))
    before: dict[str, Any] = {}
    start: dict[str, Any] = {}
    grid = []
    for axis in designs.axes:
        present = {path: _now(designs.base, candidates[path]) for path, _ in axis.settings(0)}
        now = start[axis.path] = present.get(axis.path, present)  # of axes that are tied, all
        before |= present
        values = axis.values if now in axis.values else (now, *axis.values)
        is_range = axis.path in candidates and candidates[axis.path].row is not None
        grid.append(Axis(axis.path, tuple(sorted(values)) if is_range else values))
    search_space = Designs(designs.base, tuple(grid), designs.objectives, designs.limits)
    answer = ask(lambda: inverse(search_space, start))
    after = settings_of(search_space, answer.number)
    changes = [
        (candidates[path].label, setting(candidates[path], before[path]), setting(candidates[path], value))
        for path, value in after.items()
        if before[path] != value
    ]
    return answer, changes


def _now(base: Scenario, candidate: Candidate) -> Any:
    """The value an axis has in the scenario that a space turns about."""
    if candidate.row is not None:
        return specs.at_present(base, candidate.path)
    if candidate.path.startswith("tile."):
        return base.tile[int(candidate.path.removeprefix("tile."))]
    return candidate.now


def scenario_of(outcome: Outcome, design: SweptDesign) -> Scenario:
    """The scenario of an operating point: as many sequences in its batch as it has clients, where they fit."""
    scenario, clients = outcome.space.scenario(design.number), levers(outcome, design).get("clients", "1")
    wide = cached.try_report(scenario, batch=int(clients))
    return wide.scenario if wide is not None and wide.fits else scenario


def levers(outcome: Outcome, design: SweptDesign) -> dict[str, str]:
    """Parameters of the Load page's address that set an operating point's levers there."""
    settings: dict[str, Any] = {f"{HEAD}clients": 1} | settings_of(outcome.space, design.number)
    query = {key: settings[HEAD + name] for name, (_, key) in LEVERS.items() if HEAD + name in settings}
    texts = {key: value if isinstance(value, str) else axes.lever_text(value) for key, value in query.items()}
    return texts | {"ramp": "0"}  # clients of a sweep come all at once


def _in_turn(ask: Callable[[], Any]) -> Any:
    """The answer of a call that takes as long as a sweep, once its turn has come; a click elsewhere leaves it."""
    question = Job(jobs.SWEEPS, lambda _: priority.background().submit(ask).result(), lambda _: "Working it out")
    with jobs.line("sweep.ask") as bar:
        return jobs.follow(question, bar)


def moves(outcome: Outcome, design: SweptDesign) -> None:
    """What the first objective of the selected design depends on most."""
    metric = outcome.metrics[outcome.objectives[0]]
    with st.expander(texts.SENSITIVITY, key="open.moves", on_change="rerun") as expander:
        if not expander.open:
            return
        scenario = outcome.space.scenario(design.number)
        key = encode(scenario), metric.name
        if st.session_state.get("sweep_moves", (None,))[0] != key:
            st.session_state.sweep_moves = key, swings(scenario, metric, _in_turn)
        rows = st.session_state.sweep_moves[1]
        if not rows:
            st.caption(texts.NOTHING_MOVES.format(label=glossary.in_text(metric.label)))
            return
        share = fmt.percent(SHARE)
        swing = f"{rows[0][0]} down by {share}: {fmt.deviation(rows[0][1])}; up: {fmt.deviation(rows[0][2])}"
        st.caption(texts.SENSITIVITY_CAPTION.format(share=share, said=fmt.plain(swing)))
        fig = front.tornado(rows, SHARE, glossary.in_text(metric.label), parts.dark())
        parts.figure(fig, f"Tornado of {metric.label}: {swing}.", "moves")


def change(report: Report, space: PageSpace, metrics: Mapping[str, Metric]) -> None:
    """The smallest change of the current scenario that keeps its limits."""
    with st.expander(texts.INVERSE, key="open.change", on_change="rerun") as expander:
        if not expander.open:
            return
        if not report.scenario.limits.of_figures and report.fits:
            st.caption(texts.NO_LIMITS)
            return
        st.caption(texts.INVERSE_CAPTION)
        key = f"{spaces.write(space)} {st.session_state.token}"
        if st.button("Look for it", key="sweep.change"):
            try:
                st.session_state.sweep_change = (key, smallest_change(report, space, metrics, _in_turn))
            except InputError as error:
                st.session_state.sweep_change = None
                parts.refusal(error)
        last, result = st.session_state.get("sweep_change") or ("", None)
        if result is None or last != key:
            return
        nearest, changes = result
        if not nearest.met:
            misses = over(nearest.figures, report.scenario.limits.of_figures, metrics) or texts.NEAREST_DOES_NOT_FIT
            st.error(fmt.plain(texts.NO_DESIGN_KEEPS.format(missed=misses)), icon=":material/block:")
        elif not changes:
            st.markdown(texts.NOTHING_TO_CHANGE)
        else:
            st.markdown("; ".join(f"**{fmt.plain(n)}** {fmt.plain(a)} → **{fmt.plain(b)}**" for n, a, b in changes))
        if changes and st.button("Open in Explore", key="sweep.change.open"):
            link.show("explore", nearest.scenario)
