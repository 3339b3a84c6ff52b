"""The sidebar of the Sweep page: axes, constraints, objectives. Each change is a callback on the session's space."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from app.shared import formats as fmt
from app.shared import parts
from app.shared.boundary import callback
from app.shared.glossary import Metric, in_text
from app.shared.widgets import sidebar as widgets
from app.shared.widgets.choices import say
from app.shared.widgets.controlled import SEGMENTS, controlled, pick
from app.views.sweep import axes, spaces, texts
from app.views.sweep.axes import AxisRange, Candidate, Values
from app.views.sweep.spaces import PageSpace, SpaceChoice
from engine.scenario import Scenario, ScenarioError
from engine.sweep.space import EVERY_LIMIT, POWERED
from engine.traffic.engines.operating_space import HEAD, tail_limits
from engine.traffic.scenario_load import is_decoder
from hardware_specs.quantity import SpecError

_KINDS = {False: "Designs", True: texts.SERVING}
_EMPTY: dict[str, Any] = {"index": None, "placeholder": "none"}  # of a select box that may be so
_SEARCH = "v.sweep.search"


def _set_axis(path: str, values: Values, ask: SpaceChoice) -> None:
    """Set one axis of the space, or keep the old one and say why (from a callback)."""
    try:
        if not axes.values_of(values):
            raise SpecError(texts.NO_VALUES)
    except (SpecError, ValueError) as error:
        say(spaces.PARAM, texts.NOTHING_CHANGED.format(why=fmt.sentence(error)))
        return
    ask.choose(ask.space.with_axis(path, values))


def _list(candidate: Candidate, values: tuple[Any, ...], ask: SpaceChoice) -> None:
    def commit(picks: list[Any]) -> None:
        _set_axis(candidate.path, tuple(v for v in candidate.options if v in picks), ask)

    names = {value: candidate.text(value) for value in candidate.options}
    pick("Values", names, f"x.{candidate.path}", list(values), commit, st.multiselect, help=candidate.help or None)


def _range(candidate: Candidate, span: AxisRange, ask: SpaceChoice) -> None:
    def commit(name: str, value: Any) -> None:
        now = dict(ask.space.axes).get(candidate.path, span)
        fresh = value.strip() if isinstance(value, str) else value or getattr(span, name) if name == "steps" else value
        _set_axis(candidate.path, replace(now if isinstance(now, AxisRange) else span, **{name: fresh}), ask)

    def end(name: str) -> dict[str, Any]:
        return controlled(f"x.{candidate.path}.{name}", getattr(span, name), partial(commit, name))

    left, right = st.columns(2)
    left.text_input("From", max_chars=40, **end("low"))
    right.text_input("To", max_chars=40, **end("high"))
    left, right = st.columns(2, vertical_alignment="bottom")
    left.number_input("Steps", 1, axes.MOST_STEPS, **end("steps"))
    right.toggle("Log", help=texts.LOG_HELP, **end("log"))
    st.caption(f"{fmt.plain(str(candidate.now))} in the catalog. {fmt.plain(candidate.help)}")


def _tie(path: str, ask: SpaceChoice, partner: str | None) -> None:
    ask.choose(ask.space.tie(path, partner))


def _kind(ask: SpaceChoice) -> None:
    """Whether designs are swept or operating points of a language model's serving engine."""

    def commit(serving: bool) -> None:
        levers = axes.usual_levers(ask.scenario)
        ask.choose(PageSpace(tuple(levers.items()), tuple(spaces.OPERATING)[:2]) if serving else ask.usual)

    if is_decoder(ask.scenario):
        pick(texts.KIND, _KINDS, "x.kind", ask.space.serving, commit, **SEGMENTS)


def _axes(candidates: Mapping[str, Candidate], ask: SpaceChoice) -> None:
    space = ask.space
    st.markdown(f"**Axes** :gray[· {fmt.count(space.size)} {spaces.noun(space.serving)}]")
    for path, values in space.axes:
        candidate = candidates[path]
        partners = [peer for group in space.groups if path in group for peer in group if peer != path]
        tie_text = f", with {' and '.join(candidates[peer].label for peer in partners)}" if partners else ""
        title = f"{fmt.plain(candidate.label)} :gray[{fmt.plain(axes.axis_words(candidate, values) + tie_text)}]"
        with st.expander(title, key=f"open.x.{path}"):
            if isinstance(values, AxisRange):
                _range(candidate, values, ask)
            else:
                _list(candidate, values, ask)
            alike = {p: candidates[p].label for p, _ in space.axes if p != path and _lever(p) == _lever(path)}
            now, tie, help = next(iter(partners), None), partial(_tie, path, ask), texts.TIED_HELP
            pick("Set together with", alike, f"x.tie.{path}", now, tie, help=help, disabled=not alike, **_EMPTY)
            st.button(
                "Remove axis",
                key=f"x.remove.{path}",
                on_click=callback(lambda path=path: ask.choose(ask.space.without(path))),
                disabled=len(space.axes) == 1,
                width="stretch",
            )
    free = [path for path in candidates if path not in dict(space.axes) and _lever(path) <= space.serving]
    if space.serving:
        free.remove("batch")

    def add(path: str | None) -> None:
        if path:
            ask.choose(ask.space.with_axis(path, candidates[path].first))

    names = {path: f"{texts.GROUPS[candidates[path].group]} · {candidates[path].label}" for path in free}
    pick("Add an axis", names, "x.add", None, add, index=None, placeholder="Batch, bandwidth, clock …")


def _lever(path: str) -> bool:
    return path.startswith(HEAD)


def _constraints(scenario: Scenario, ask: SpaceChoice) -> None:
    """The scenario's own limits, and an operating point's at percentiles; what does not fit in memory never counts."""
    st.markdown(texts.CONSTRAINTS)
    labels = {"latency_s": texts.LATENCY_LIMIT, "power_w": "Power ≤", "capex_usd": "Budget ≤"}
    if not ask.space.serving:
        widgets.limits_inputs(scenario, "x", labels)
        return
    widgets.limits_inputs(scenario, "x", {"ttft_s": "Mean TTFT ≤", "tpot_s": "Mean TPOT ≤"})

    def commit(text: str) -> None:
        try:
            tail_limits(text)
        except ScenarioError as error:
            say(spaces.PARAM, texts.NOTHING_CHANGED.format(why=fmt.sentence(error)))
            return
        ask.choose(replace(ask.space, tails=text.strip()))

    widgets.percentile_limits(ask.space.tails, "x.tails", commit, texts.TAILS_HELP)


def _objectives(metrics: Mapping[str, Metric], ask: SpaceChoice, names: list[str]) -> None:
    st.markdown("**Objectives**")
    objectives = list(ask.space.objectives)

    def commit(at: int, value: str | None) -> None:
        remaining = [o for i, o in enumerate(ask.space.objectives) if i != at]
        result = tuple(dict.fromkeys(v for v in (*remaining[:at], value, *remaining[at:]) if v in metrics))
        if len(result) >= 2:
            ask.choose(replace(ask.space, objectives=result))

    labels = {n: f"{'most' if m.rising else 'least'} {in_text(m.label)}" for n, m in metrics.items()}
    for at, label in enumerate(("X axis", "Y axis", "Third objective")):
        remaining = [w for i, w in enumerate(objectives) if i != at]
        options = {n: words for n, words in labels.items() if n not in remaining}
        look = _EMPTY if at == 2 else {}
        now = objectives[at] if at < len(objectives) else None
        pick(label, options, f"x.objective.{at}", now, partial(commit, at), **look)
    missing = set(names) - set(metrics)
    if any("usd" in name for name in missing):
        st.caption(texts.NO_COST)
    if missing & set(POWERED):
        st.caption(texts.FREE_POWER)


def searching(size: int) -> bool:
    """Whether a space of so many designs is to be searched, not tried whole."""
    return size > EVERY_LIMIT or (size >= axes.SEARCH_FROM and bool(st.session_state.get(_SEARCH)))


def action(space: PageSpace) -> str:
    """What the button does with the designs of a space."""
    verb = "Search" if not space.serving and searching(space.size) else "Run"
    return f"{verb} {fmt.count(space.size)} {spaces.noun(space.serving)}"


def controls(ask: SpaceChoice, metrics: Mapping[str, Metric], names: list[str]) -> bool:
    """The sidebar; returns whether Run was pressed. `names` are the figures of the scenario itself."""
    scenario, space, size = ask.scenario, ask.space, ask.space.size
    with st.sidebar:
        run = st.button(
            action(space),
            type="primary",
            key="x.run",
            shortcut=parts.run_keys(),
            width="stretch",
        )
        if size >= axes.SEARCH_FROM and not space.serving:
            st.toggle(
                f"Search, {fmt.count(axes.EVALUATIONS)} evaluations",
                size > EVERY_LIMIT,
                key=_SEARCH,
                disabled=size > EVERY_LIMIT,
                help=texts.SEARCH_HELP.format(most=fmt.count(EVERY_LIMIT)),
                persist_state="session",
            )
        _kind(ask)
        _axes(axes.candidates(scenario), ask)
        _constraints(scenario, ask)
        if space.serving:
            st.caption(texts.SERVING_OBJECTIVES)
        else:
            _objectives(metrics, ask, names)
        st.button(texts.USUAL_AXES, key="x.reset", on_click=ask.choose, args=(ask.usual,), width="stretch")
    return run
