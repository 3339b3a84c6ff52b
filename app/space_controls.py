"""The sidebar of the Sweep page: axes, constraints, objectives. Each change is a callback on the session's space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from app import axes, link, spaces
from app import format as fmt
from app.axes import Candidate, Span, Values
from app.objectives import Metric
from app.spaces import Space
from engine.scenario import Scenario
from hardware_specs.quantity import SpecError

__all__ = ["controls"]

_GROUPS = {
    "request": "Request",
    "mapping": "Mapping",
    "switch": "Optimisation",
    "hardware": "Hardware",
    "model": "Model",
}
_NONE = "none"


def _changed(space: Space, path: str, values: Values, names: list[str]) -> None:
    """Set one axis, or keep the old one and say why (from a callback)."""
    try:
        if not axes.values_of(values):
            raise SpecError("an axis needs at least one value")
    except (SpecError, ValueError) as error:
        st.session_state.space_problem = f"{str(error).rstrip('.')}. Nothing was changed."
        return
    spaces.choose(space.with_axis(path, values), names)


def _list(space: Space, candidate: Candidate, values: tuple[Any, ...], names: list[str]) -> None:
    key = f"x.{candidate.path}"
    st.session_state[key] = list(values)

    def picked() -> None:
        chosen = st.session_state[key]
        _changed(space, candidate.path, tuple(v for v in candidate.options if v in chosen), names)

    st.multiselect(
        "Values",
        candidate.options,
        key=key,
        format_func=candidate.shown,
        on_change=picked,
        help=candidate.help or None,
    )


def _range(space: Space, candidate: Candidate, span: Span, names: list[str]) -> None:
    keys = {name: f"x.{candidate.path}.{name}" for name in ("low", "high", "steps", "log")}
    for name, key in keys.items():
        st.session_state[key] = getattr(span, name)

    def typed() -> None:
        given = {name: st.session_state[key] for name, key in keys.items()}
        fresh = Span(given["low"].strip(), given["high"].strip(), int(given["steps"] or span.steps), bool(given["log"]))
        _changed(space, candidate.path, fresh, names)

    left, right = st.columns(2)
    left.text_input("From", key=keys["low"], on_change=typed, max_chars=40)
    right.text_input("To", key=keys["high"], on_change=typed, max_chars=40)
    left, right = st.columns(2, vertical_alignment="bottom")
    left.number_input("Steps", 1, axes.MOST_STEPS, key=keys["steps"], on_change=typed)
    right.toggle("Log", key=keys["log"], on_change=typed, help="Equal ratios between steps instead of equal distances.")
    st.caption(f"{fmt.plain(str(candidate.now))} in the catalog. {fmt.plain(candidate.help)}")


def _axes(space: Space, found: Mapping[str, Candidate], names: list[str]) -> None:
    st.markdown(f"**Axes** :gray[· {fmt.count(axes.size(dict(space.axes)))} designs]")
    for path, values in space.axes:
        candidate = found[path]
        title = f"{fmt.plain(candidate.label)} :gray[{fmt.plain(axes.told(candidate, values))}]"
        with st.expander(title, key=f"open.x.{path}"):
            if isinstance(values, Span):
                _range(space, candidate, values, names)
            else:
                _list(space, candidate, values, names)
            st.button(
                "Remove axis",
                key=f"x.remove.{path}",
                on_click=spaces.choose,
                args=(space.without(path), names),
                disabled=len(space.axes) == 1,
                width="stretch",
            )
    free = [path for path in found if path not in dict(space.axes)]
    st.session_state["x.add"] = None

    def added() -> None:
        path = st.session_state["x.add"]
        if path:
            spaces.choose(space.with_axis(path, found[path].first), names)

    st.selectbox(
        "Add an axis",
        free,
        index=None,
        key="x.add",
        placeholder="Batch, bandwidth, clock …",
        format_func=lambda p: f"{_GROUPS[found[p].group]} · {found[p].label}",
        on_change=added,
    )


def _constraints(scenario: Scenario) -> None:
    """The scenario's own limits; what does not fit in memory never counts."""
    st.markdown("**Constraints** :gray[· fits in memory, and]")

    def limited(name: str, key: str, factor: float) -> None:
        value = st.session_state[key]
        limits = link.current().limits.model_dump()
        link.commit(limits=limits | {name: value / factor if value else None})

    for name, label, unit in (
        ("latency_s", "Latency of a request ≤", fmt.MILLISECOND),
        ("power_w", "Power ≤", fmt.WATT),
        ("capex_usd", "Budget ≤", fmt.DOLLAR),
    ):
        value = getattr(scenario.limits, name)
        key = f"x.limits.{name}"
        st.session_state[key] = None if value is None else unit(value)
        st.number_input(
            f"{label} ({unit.unit})", min_value=0.0, value=None, key=key, placeholder="none", on_change=limited,
            args=(name, key, unit.factor),
        )  # fmt: skip


def _objectives(space: Space, found: Mapping[str, Metric], names: list[str]) -> None:
    st.markdown("**Objectives**")
    known = dict(found)
    wanted = list(space.objectives)

    def picked(at: int, key: str) -> None:
        value = st.session_state[key]
        chosen = [v for v in wanted if v != value] if value != _NONE else wanted
        if at < len(wanted):
            chosen = [*wanted]
            chosen[at] = value
        else:
            chosen = [*wanted, value]
        kept = tuple(dict.fromkeys(v for v in chosen if v in known))
        if len(kept) >= 2:
            spaces.choose(replace(space, objectives=kept), names)

    def worded(name: str) -> str:
        if name == _NONE:
            return _NONE
        return f"{'least' if known[name].less else 'most'} {known[name].label[:1].lower()}{known[name].label[1:]}"

    for at, label in enumerate(("Across", "Up", "Also")):
        others = [w for i, w in enumerate(wanted) if i != at]
        options = [n for n in known if n not in others]
        if at == 2:
            options = [_NONE, *options]
        key = f"x.objective.{at}"
        st.session_state[key] = wanted[at] if at < len(wanted) else _NONE
        st.selectbox(label, options, key=key, format_func=worded, on_change=picked, args=(at, key))


def controls(scenario: Scenario, space: Space, found: Mapping[str, Metric]) -> bool:
    """The sidebar; returns whether Run was pressed."""
    names = list(found)
    candidates = axes.candidates(scenario)
    with st.sidebar:
        run = st.button(
            f"Run {fmt.count(axes.size(dict(space.axes)))} designs",
            type="primary",
            key="x.run",
            shortcut="Ctrl+Enter",
            width="stretch",
        )
        _axes(space, candidates, names)
        _constraints(scenario)
        _objectives(space, found, names)
        st.button("Back to the usual axes", key="x.reset", on_click=spaces.reset, args=(names,), width="stretch")
    return run
