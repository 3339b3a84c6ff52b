"""Widgets that Streamlit binds to the address: what an address holds and they can't take is said, above the page.

Streamlit alone drops such a value in silence and shows its default.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import streamlit as st

from app.choose import say

__all__ = ["heed"]


def heed(widget: Callable[..., Any], label: str, *args: Any, key: str, **more: Any) -> Any:
    """``widget(label, ...)`` bound to parameter ``key`` of the address: a number within limits, or one of options."""
    given = st.query_params.get(key)
    if given is not None:
        asked = inspect.signature(widget).bind_partial(label, *args, **more).arguments
        wrong = _strange(given, asked) if "options" in asked else _outside(given, asked)
        if wrong:
            say(key, f"{label[:1].upper()}{label[1:]} {given[:40]!r} of this link {wrong}")
    return widget(label, *args, key=key, bind="query-params", **more)


def _strange(given: str, asked: dict[str, Any]) -> str | None:
    """What is wrong with a text that should be one of ``options``."""
    shown = asked.get("format_func", str)
    names = [str(shown(option)) for option in asked["options"]]
    if given in names:  # Streamlit writes and reads what it shows
        return None
    *others, last = names
    return f"is not known; {', '.join(others)} and {last} are" if others else f"is not known; {last} is"


def _outside(given: str, asked: dict[str, Any]) -> str | None:
    """What is wrong with a text that should be a number from ``min_value`` to ``max_value``, each where it is given."""
    low, high = asked.get("min_value"), asked.get("max_value")
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    whole = all(isinstance(asked.get(name, 0) or 0, int) for name in ("min_value", "max_value", "value", "step"))
    allowed = f"{low:,.15g} or more is allowed" if high == math.inf else f"{low:,.15g} to {high:,.15g} is allowed"
    try:
        value = int(given) if whole else float(given)
    except ValueError:
        return f"is no {'whole ' if whole else ''}number; {allowed}"
    return None if low <= value <= high else f"is out of range; {allowed}"
