"""Widgets that Streamlit binds to the address: what an address holds and they can't take is said, above the page.

Streamlit alone drops such a value in silence and shows its default.
"""

import inspect
import math
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import streamlit as st
from streamlit.errors import StreamlitAPIException

from app.shared.widgets.choices import say, stray

_OWNERS = "heeded"  # in the session: what each value was set for


def checked(widget: Callable[..., Any], label: str, *args: Any, key: str, of: str | None = None, **more: Any) -> Any:
    """``widget(label, ...)`` bound to parameter ``key`` of the address: a number within limits, or one of options.

    A value that is neither is said and leaves the address; Streamlit is not asked to read it, as an infinite one ends
    its script. ``of`` is what the value is set for: with another, the default comes back, unless the address differs.
    """
    ss, text = st.session_state, st.query_params.get(key)
    wrong = None
    if text is not None:
        limits, name = (
            inspect.signature(widget).bind_partial(label, *args, **more).arguments,
            label[:1].upper() + label[1:],
        )
        wrong = _strange(name, text, limits) if "options" in limits else _outside(name, text, limits)
        if wrong:
            say(key, wrong)
    owners = ss.setdefault(_OWNERS, {})
    stale = of is not None and owners.setdefault(key, of) != of and text in (None, str(ss.get(key)))
    owners[key] = of
    if stale:
        ss.pop(key, None)
    if not (wrong or stale):
        return widget(label, *args, key=key, bind="query-params", **more)
    with suppress(StreamlitAPIException):  # one that is bound already goes when its widget lets go of it
        st.query_params.pop(key, None)
    return widget(label, *args, key=key, **more)


def whole(key: str, usual: float = 0.0) -> str:
    """The format in which a number input shows all of the value it holds, without a power of ten or trailing zeros."""
    state = st.session_state.get(key)
    try:
        value = float(st.query_params.get(key, usual) if state is None else state)
        places = -int(Decimal(f"{value:.9g}").normalize().as_tuple().exponent)
    except (ValueError, ArithmeticError):  # the address holds no number: `checked` says so
        places = 0
    return f"%.{min(max(places, 0), 9)}f"


def _strange(name: str, text: str, limits: dict[str, Any]) -> str | None:
    """What is wrong with a text that should be one of ``options``, as Streamlit shows and therefore writes them."""
    shown = limits.get("format_func", str)
    names = [str(shown(option)) for option in limits["options"]]
    return None if text in names else stray(name, names, text)


def _plain(limit: float) -> str:
    """A limit with all its digits, never in scientific notation."""
    return f"{Decimal(f'{limit:.15g}'):,f}"


def _outside(name: str, text: str, limits: dict[str, Any]) -> str | None:
    """What is wrong with a text that should be a number from ``min_value`` to ``max_value``, each where it is given."""
    low, high = limits.get("min_value"), limits.get("max_value")
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    whole = all(isinstance(limits.get(limit, 0) or 0, int) for limit in ("min_value", "max_value", "value", "step"))
    allowed = f"{_plain(low)} or more is allowed" if high == math.inf else f"{_plain(low)} to {_plain(high)} is allowed"
    try:
        value = int(text) if whole else float(text)
        wrong = None if low <= value <= high and math.isfinite(value) else "is out of range"
    except ValueError:
        wrong = "is no whole number" if whole else "is no number"
    return wrong and f"{name} {text[:40]!r} of this link {wrong}; {allowed}"
