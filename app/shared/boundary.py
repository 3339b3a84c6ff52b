"""The one boundary of the app: whatever escapes a page, a part that reruns alone, or a callback is one sentence and a
way back to the default. What it was, with its traceback, goes to the server's log.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec

import streamlit as st

from app.shared import formats as fmt
from engine.devices.common.contract import Unsupported
from engine.kernels.allowance import Overdue, allowance
from engine.scenario import ScenarioError
from hardware_specs.quantity import SpecError
from model_zoo.schema import WorkloadError

_SENTENCES = (Overdue, ScenarioError, SpecError, Unsupported, WorkloadError)  # their text is a sentence for a reader
WRITTEN = "written"
"""In the session: the page whose address has all of its choices; until then none is known to be missing there."""
_FALLEN = "fallen"  # in the session: the sentence about a callback that failed
_LONGEST = 300  # characters of a reason
_log = logging.getLogger("inferscape")

P = ParamSpec("P")


def _why(error: Exception) -> str:
    """One sentence about an error nobody expected there."""
    _log.error("What escaped to the app's boundary", exc_info=error)
    reason = str(error)[:_LONGEST].rstrip(".") if isinstance(error, _SENTENCES) else ""
    return f"{reason or f'The app met an unexpected {type(error).__name__}'}."


def _home() -> None:
    """The session and the address as a newcomer has them (a callback)."""
    st.session_state.clear()
    st.query_params.clear()


def _notice(text: str, key: str) -> None:
    st.error(fmt.plain(text), icon=":material/error:")
    st.button("Back to the default", key=f"fallen.{key}", on_click=_home)


@contextmanager
def guard(subject: str = "This page can't show what its link and its controls ask for", key: str = "page") -> Iterator:
    """Show what escapes in one sentence, after the `subject` that can't be shown."""
    fallen = st.session_state.pop(_FALLEN, None) if key == "page" else None
    try:
        if fallen:
            _notice(f"That change was not made. {fallen}", "change")
        with allowance():
            yield
    except Exception as error:  # the last place before a dead page; the traceback goes to the log
        _notice(f"{subject}. {_why(error)}", key)


def callback(act: Callable[P, object]) -> Callable[P, None]:
    """A callback that leaves the session to the page where it fails: the page then says so."""

    @wraps(act)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        st.session_state.pop(WRITTEN, None)  # a browser may not have the address of its last edit yet
        try:
            with allowance():
                act(*args, **kwargs)
        except Exception as error:  # as in `guard`: callbacks run outside it
            st.session_state[_FALLEN] = _why(error)

    return wrapper


def fragment(draw: Callable[P, None]) -> Callable[P, None]:
    """A part of a page that reruns alone, with a boundary of its own: the rest of the page stays."""

    @wraps(draw)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        with guard("This part can't be shown", getattr(draw, "__name__", "part")):
            draw(*args, **kwargs)

    return st.fragment(wrapper)
