"""Choices of a page that stand in the address bar, by id, and that a page switch does not lose.

The address wins over the session, and the session repairs the address; a default leaves it clean. What an address holds
and a page can't take is said in one sentence, above the page.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import streamlit as st

from app.shared import formats as fmt
from app.shared.widgets.controlled import controlled

_KEPT = "kept."  # in the session: the choice outlives its widget, which a switch of pages ends
_SAID = "said"  # sentences of this run about the address and edits

T = TypeVar("T")
K = TypeVar("K", bound=str)


def remember(
    key: str, default: T, read: Callable[[str], tuple[T, str | None]], write: Callable[[T], str] = str, of: str = ""
) -> tuple[T, Callable[[T], None]]:
    """A value of the address, and what sets it (in a callback).

    ``read`` makes it of text: the value, and what is wrong with the text, if anything. The session keeps it for what
    it was set ``of``.
    """
    ss, text, kept = st.session_state, st.query_params.get(key), f"{_KEPT}{key}{of}"

    def mirror(value: T) -> None:
        if value == default:
            st.query_params.pop(key, None)
        else:
            st.query_params[key] = write(value)

    def put(value: T) -> None:
        ss[kept] = value
        mirror(value)

    value, wrong = read(text if text is not None else write(ss.get(kept, default)))
    if text is not None and wrong:
        say(key, wrong)
    if text != (None if value == default else write(value)):
        mirror(value)
    ss[kept] = value
    return value, put


def say(key: str, wrong: object) -> None:
    """Show a sentence above the page of this run: about parameter ``key`` of the address, or an edit of it."""
    st.session_state.setdefault(_SAID, {})[key] = fmt.sentence(wrong)


def sentences() -> list[str]:
    """What is said of this run, each once."""
    return list(st.session_state.pop(_SAID, {}).values())


def choice(
    label: str, options: Mapping[K, str], key: str, default: K | None = None, of: str = ""
) -> tuple[K, dict[str, Any]]:
    """One of ``options`` (id -> label), the first where no default is named, and the arguments of its widget.

    ``of`` is what the default belongs to: with another, a value that was not chosen follows.
    """
    usual = next(iter(options)) if default is None else default

    def read(text: str) -> tuple[K, str | None]:
        result = _named(text, options)
        return (result, None) if result is not None else (usual, stray(label, options, text))

    value, put = remember(key, usual, read, of=of)
    shown = options.__getitem__
    return value, {"format_func": shown, **controlled(f"w.{key}", value, put, tuple(options.items()))}


def choose(
    label: str,
    options: Mapping[K, str],
    key: str,
    default: K | None = None,
    widget: Callable[..., object] = st.selectbox,
    of: str = "",
    **more: Any,
) -> K:
    """A select box, or another ``widget``, over ``options`` (id -> label)."""
    value, args = choice(label, options, key, default, of)
    widget(label, list(options), **args, **more)
    return value


def pills(label: str, options: Mapping[K, str], key: str) -> K:
    """Pills over ``options`` (id -> label) in a card whose title says what they are."""
    return choose(label, options, key, widget=st.pills, required=True, label_visibility="collapsed")


def switch(label: str, key: str, **more: Any) -> bool:
    """A toggle that is off by default."""

    def read(text: str) -> tuple[bool, str | None]:
        return text == "on", None if text in ("on", "off") else stray(label, ("on", "off"), text)

    value, put = remember(key, False, read, lambda on: "on" if on else "off")
    st.toggle(label, **controlled(f"w.{key}", value, put), **more)
    return value


def stray(label: str, options: Iterable[str], text: str) -> str:
    """The sentence about a value that is none of the ``options``."""
    *rest, last = options
    known = f"{', '.join(rest)} and {last} are" if rest else f"{last} is"
    return f"{label} {text[:40]!r} of this link is not known; {known}"


def _named(text: str, options: Mapping[K, str]) -> K | None:
    """The id that a value of the address means: itself, or the one of its label, as older links have it."""
    return next((id for id, label in options.items() if text in (id, label)), None)
