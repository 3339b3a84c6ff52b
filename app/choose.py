"""A choice whose id, not its label, stands in the address bar, and that a page switch does not lose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

__all__ = ["choose"]

_KEPT = "kept."  # in the session: the choice outlives its widget, which a switch of pages ends


def choose(label: str, options: Mapping[str, str], key: str, **more: Any) -> str:
    """A select box over ``options`` (id -> label); the first is the default and leaves the address clean.

    The address wins over the session, and the session repairs the address. An unknown id is dropped.
    """
    ss, default = st.session_state, next(iter(options))
    given = st.query_params.get(key)
    value = str(given if given in options else ss.get(_KEPT + key, default))
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
