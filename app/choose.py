"""A choice whose id, not its label, stands in the address bar, and that a page switch does not lose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

__all__ = ["choose", "unknown"]

_KEPT = "kept."  # in the session: the choice outlives its widget, which a switch of pages ends


def choose(label: str, options: Mapping[str, str], key: str, **more: Any) -> str:
    """A select box over ``options`` (id -> label); the first is the default and leaves the address clean.

    The address wins over the session, and the session repairs the address. A label is read as its id; what is neither
    is dropped, and `unknown` says so where a page asks it first.
    """
    ss, default = st.session_state, next(iter(options))
    given = st.query_params.get(key)
    value = str(_named(given, options) or ss.get(_KEPT + key, default))
    if value not in options:
        value = default
    widget = f"w.{key}"
    ss[_KEPT + key] = ss[widget] = value

    def mirror(now: str) -> None:
        if now == default:
            st.query_params.pop(key, None)
        else:
            st.query_params[key] = now

    def changed() -> None:
        ss[_KEPT + key] = ss[widget]
        mirror(ss[widget])

    if given != (None if value == default else value):
        mirror(value)
    return st.selectbox(label, list(options), format_func=options.__getitem__, key=widget, on_change=changed, **more)


def unknown(label: str, options: Mapping[str, str], key: str) -> str | None:
    """The sentence to show where the address holds a value that `choose` will drop; None where it holds none."""
    given = st.query_params.get(key)
    if given is None or _named(given, options):
        return None
    *others, last = options
    return f"{label} {given[:40]!r} of this link is not known; {', '.join(others)} and {last} are"


def _named(given: str | None, options: Mapping[str, str]) -> str | None:
    """The id that a value of the address means: itself, or the one of its label, as older links have it."""
    return next((id for id, label in options.items() if given in (id, label)), None)
