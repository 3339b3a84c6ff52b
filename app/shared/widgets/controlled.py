"""Widgets that show a value of the page's own: a scenario's field, an axis, a choice of the address.

A browser sends what all of its widgets hold with every edit, so just after a pick it still sends what it draws of the
scenario that was left, and its edit of one value would undo the pick's changes of the others. So a value that something
else than its widget changed is drawn by a new widget, with a key of its own. What comes under the old key is then known
for what was drawn there, unless its reader turned it.
"""

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.shared.boundary import callback

SEGMENTS: dict[str, Any] = {"widget": st.segmented_control, "required": True, "width": "stretch"}
"""How `pick` shows a few short options, one of which is always chosen."""

_KEYS = 4  # keys of a widget that a browser may still send


@dataclass
class _Widget:
    """A widget through its keys: what each holds in the browser, the present one last."""

    looks: Hashable
    number: int = 0
    holds: dict[str, Any] = field(default_factory=dict)


def controlled(name: str, value: Any, commit: Callable[[Any], None], looks: Hashable = None) -> dict[str, Any]:
    """Arguments of a widget that shows ``value`` and hands what its reader makes of it to ``commit`` (in a callback).

    ``looks`` is what else has to be the same for the same widget: the options whose labels the browser sends.
    """
    ss = st.session_state
    widget = ss.setdefault("drawn", {}).setdefault(name, _Widget(looks))
    key = next(reversed(widget.holds), None)
    if key is None or widget.looks not in (looks, None) or not _equal(widget.holds[key], value):
        key = f"{name}.{widget.number}" if widget.number else name
        widget.number += 1
        widget.holds[key] = value
        for old in list(widget.holds)[:-_KEYS]:
            del widget.holds[old]
    widget.looks = looks
    if not (_in_message(key) and key in ss and _equal(ss[key], widget.holds[key])):
        ss[key] = widget.holds[key]
    return {"key": key, "on_change": _receive, "args": (name, key, commit)}


def pick(
    label: str,
    names: Mapping[Any, str],
    key: str,
    now: Any,
    commit: Callable[[Any], None],
    widget: Callable[..., object] = st.selectbox,
    **kwargs: Any,
) -> None:
    """A select box, or another ``widget``, over ``names`` (id -> label); what its reader picks is handed to ``commit``
    (in a callback).

    With ``index=None`` a select box is empty where ``now`` is None.
    """
    args = controlled(key, now, commit, tuple(names.items()))
    widget(label, list(names), format_func=lambda id: names.get(id, str(id)), **args, **kwargs)


def _in_message(key: str) -> bool:
    """Whether the browser's message of this run holds the widget.

    Until it does, every answer says its value: of several that come at once a browser may draw the last one alone.
    Afterwards none does that has nothing new to say: what its reader's hand is at meanwhile would be drawn over.
    """
    context = get_script_run_ctx()
    if context is None:
        return False
    state = context.session_state._state  # Streamlit tells this nowhere else
    return state._key_id_mapper.get_id_from_key(key) in state._new_widget_state.states


@callback
def _receive(name: str, key: str, commit: Callable[[Any], None]) -> None:
    """A browser sent what a widget holds: an edit only where that is not what it was given to draw."""
    widget: _Widget = st.session_state["drawn"][name]
    value = st.session_state.get(key)
    if key in widget.holds and not _equal(widget.holds[key], value):
        widget.holds[key] = value
        widget.looks = None  # whatever it changes of its own options, the reader's hand stays on it
        commit(value)


def _equal(a: Any, b: Any) -> bool:
    """Whether two values look alike; a number may have gone through a unit and back."""
    if isinstance(a, float) and isinstance(b, int | float):
        return math.isclose(a, b, rel_tol=1e-12)
    return a == b
