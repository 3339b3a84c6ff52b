"""Choices of a page that stand in the address bar, by id, and that a page switch does not lose.

The address wins over the session, and the session repairs the address of a page that was just turned to; a default
leaves it clean. What an address holds and a page can't take is said in one sentence, above the page.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, TypeVar

import streamlit as st

from app.shared import formats as fmt
from app.shared.boundary import WRITTEN
from app.shared.widgets.controlled import controlled
from entries.schema import hint

_CHOICE = "kept."  # in the session: the choice outlives its widget, which a switch of pages ends
_EMPTY = "none"
_LISTED = 16  # options that a sentence lists, above which it names the nearest
_SENTENCES = "said"  # sentences of this run about the address and edits

T = TypeVar("T")
K = TypeVar("K", bound=str)


@contextmanager
def turned_to(page: str, is_whole: bool) -> Iterator[None]:
    """Draw a page; where it stood before and its address is whole, a choice that is missing there was taken back.

    A switch of pages leaves the choices out of the address, and a run that was cut short may not have written them.
    """
    ss = st.session_state
    if ss.get(WRITTEN) != page or not is_whole:
        ss.pop(WRITTEN, None)
    yield
    ss[WRITTEN] = page


def remember(
    key: str, default: T, read: Callable[[str], tuple[T, str | None]], write: Callable[[T], str] = str, of: str = ""
) -> tuple[T, Callable[[T], None]]:
    """A value of the address, and what sets it (in a callback).

    ``read`` makes it of text: the value, and what is wrong with the text, if anything. What nobody chose follows the
    default, as does what the browser's Back took out of the address. A choice is ``of`` something: with another, the
    default comes back, unless the address says otherwise than the session.
    """
    ss, slot, query = st.session_state, f"{_CHOICE}{key}", st.query_params.get(key)

    def commit(value: T) -> None:
        ss[slot] = value, of, value != default
        if value == default:
            st.query_params.pop(key, None)
        else:
            st.query_params[key] = write(value)

    last, owner, is_choice = ss.get(slot, (default, of, False))
    is_choice = is_choice and not (query is None and WRITTEN in ss)
    text = None if owner != of and query == write(last) else query
    value, wrong = read(write(last if is_choice and owner == of else default) if text is None else text)
    if text is not None and wrong:
        say(key, wrong)
    ss[slot] = value, of, value != default
    if query != (None if value == default else write(value)):
        commit(value)
    return value, commit


def forget(keys: Iterable[str]) -> None:
    """Drop choices made before: another page's button says them anew."""
    for key in keys:
        st.session_state.pop(f"{_CHOICE}{key}", None)


def parameter(key: str) -> str:
    """Text of a parameter of the address that no control is of, empty where there is none."""
    st.session_state.setdefault(f"{_CHOICE}{key}", ("", "", False))
    return st.query_params.get(key, "")


def say_unread(*more: str) -> None:
    """Say once of each parameter of the address but ``more`` that it sets nothing where nothing on the page read it."""
    ss = st.session_state
    for key in st.query_params:
        if key not in more and f"{_CHOICE}{key}" not in ss:
            ss[f"{_CHOICE}{key}"] = ("", "", False)
            say(key, f"{key[:40]!r} of this link sets nothing on this page")


def say(key: str, wrong: object) -> None:
    """Show a sentence above the page of this run: about parameter ``key`` of the address, or an edit of it."""
    st.session_state.setdefault(_SENTENCES, {})[key] = fmt.sentence(wrong)


def sentences() -> list[str]:
    """What is said of this run, each once."""
    return list(st.session_state.pop(_SENTENCES, {}).values())


def choose(
    label: str,
    options: Mapping[K, str],
    key: str,
    default: K | None = None,
    widget: Callable[..., object] = st.selectbox,
    of: str = "",
    **kwargs: Any,
) -> K:
    """A select box, or another ``widget``, over ``options`` (id -> label), the first where no default is named."""
    usual = next(iter(options)) if default is None else default

    def read(text: str) -> tuple[K, str | None]:
        result = next((id for id, name in options.items() if text in (id, name)), None)  # older links have the label
        return (result, None) if result is not None else (usual, stray(label, options, text))

    value, commit = remember(key, usual, read, of=of)
    args = controlled(f"w.{key}", value, commit, tuple(options.items()))
    widget(label, list(options), format_func=options.__getitem__, **args, **kwargs)
    return value


def choose_number(label: str, options: Iterable[int], key: str, usual: int | None = None, **kwargs: Any) -> int:
    """A slider over whole numbers."""
    names = {str(option): f"{option:,}" for option in options}
    return int(choose(label, names, key, None if usual is None else str(usual), st.select_slider, **kwargs))


def number(
    label: str,
    low: float,
    high: float,
    usual: float | None,
    key: str,
    *,
    of: str = "",
    empty: bool = False,
    widget: Callable[..., object] = st.number_input,
    **kwargs: Any,
) -> Any:
    """A number from low to high, a whole one where they are; None where it is left empty, which it may be by default
    or where ``empty`` says so.
    """
    optional, cast = empty or usual is None, int if isinstance(low, int) else float

    def read(text: str) -> tuple[float | None, str | None]:
        if optional and text == _EMPTY:
            return None, None
        wrong = _outside(label[:1].upper() + label[1:], text, low, high)
        return (usual, wrong) if wrong else (cast(text), None)

    def write(value: float | None) -> str:
        return _EMPTY if value is None else str(value).removesuffix(".0")

    value, commit = remember(key, usual, read, write, of)
    limits = {"min_value": low, "max_value": None if math.isinf(high) else high}
    format_args = {} if cast is int else {"format": digits(value)}
    args = controlled(f"w.{key}", value, lambda number: commit(usual if number is None and not optional else number))
    widget(label, **limits, **format_args, **args, **({"value": None} if optional else {}), **kwargs)
    return value


def digits(value: float | None) -> str:
    """The format in which a number input shows all of a value, without a power of ten or trailing zeros."""
    places = -int(Decimal(f"{value or 0.0:.9g}").normalize().as_tuple().exponent)
    return f"%.{min(max(places, 0), 9)}f"


def _outside(name: str, text: str, low: float, high: float) -> str | None:
    """What is wrong with a text that should be a number from ``low`` to ``high``, a whole one where they are."""
    whole = isinstance(low, int)
    ends = [f"{Decimal(f'{limit:.15g}'):,f}" for limit in (low, high) if math.isfinite(limit)]
    range_text = " to ".join(ends) if len(ends) > 1 else f"{ends[0]} or more"
    try:
        value = int(text) if whole else float(text)
        wrong = None if low <= value <= high and math.isfinite(value) else "is out of range"
    except ValueError:
        wrong = "is no whole number" if whole else "is no number"
    return wrong and f"{name} {text[:40]!r} of this link {wrong}; {range_text} is allowed"


def pills(label: str, options: Mapping[K, str], key: str, default: K | None = None) -> K:
    """Pills over ``options`` (id -> label) in a card whose title says what they are."""
    return choose(label, options, key, default, st.pills, required=True, label_visibility="collapsed")


def switch(label: str, key: str, **kwargs: Any) -> bool:
    """A toggle that is off by default."""

    def read(text: str) -> tuple[bool, str | None]:
        return text == "on", None if text in ("on", "off") else stray(label, ("on", "off"), text)

    value, commit = remember(key, False, read, lambda on: "on" if on else "off")
    st.toggle(label, **controlled(f"w.{key}", value, commit), **kwargs)
    return value


def text_input(label: str, key: str, **kwargs: Any) -> str:
    """A line of text; whatever the address holds is one."""
    parameter(key)
    return st.text_input(label, key=key, bind="query-params", **kwargs)


def stray(label: str, options: Iterable[str], text: str) -> str:
    """The sentence about a value that is none of the ``options``."""
    *head, last = options
    if len(head) >= _LISTED:
        return f"{label} {text[:40]!r} of this link is not known{hint(text, [*head, last], 'the page')}"
    listing = f"{', '.join(head)} and {last} are" if head else f"{last} is"
    return f"{label} {text[:40]!r} of this link is not known; {listing}"
