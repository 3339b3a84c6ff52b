"""Widgets that Streamlit binds to the address: what an address holds and they can't take is said, above the page.

Streamlit alone drops such a value in silence and shows its default.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import streamlit as st

from app.choose import say, stray

__all__ = ["heed"]


def heed(widget: Callable[..., Any], label: str, *args: Any, key: str, **more: Any) -> Any:
    """``widget(label, ...)`` bound to parameter ``key`` of the address: a number within limits, or one of options."""
    given = st.query_params.get(key)
    if given is not None:
        asked, name = (
            inspect.signature(widget).bind_partial(label, *args, **more).arguments,
            label[:1].upper() + label[1:],
        )
        wrong = _strange(name, given, asked) if "options" in asked else _outside(name, given, asked)
        if wrong:
            say(key, wrong)
    return widget(label, *args, key=key, bind="query-params", **more)


def _strange(name: str, given: str, asked: dict[str, Any]) -> str | None:
    """What is wrong with a text that should be one of ``options``, as Streamlit shows and therefore writes them."""
    shown = asked.get("format_func", str)
    names = [str(shown(option)) for option in asked["options"]]
    return None if given in names else stray(name, names, given)


def _outside(name: str, given: str, asked: dict[str, Any]) -> str | None:
    """What is wrong with a text that should be a number from ``min_value`` to ``max_value``, each where it is given."""
    low, high = asked.get("min_value"), asked.get("max_value")
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    whole = all(isinstance(asked.get(limit, 0) or 0, int) for limit in ("min_value", "max_value", "value", "step"))
    allowed = f"{low:,.15g} or more is allowed" if high == math.inf else f"{low:,.15g} to {high:,.15g} is allowed"
    try:
        value = int(given) if whole else float(given)
        wrong = None if low <= value <= high else "is out of range"
    except ValueError:
        wrong = "is no whole number" if whole else "is no number"
    return wrong and f"{name} {given[:40]!r} of this link {wrong}; {allowed}"
