"""Scenarios that a reader keeps in the browser: their tokens never reach this server until one is opened."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app.shared import link
from app.shared.boundary import callback
from engine.scenario import ScenarioError

_HTML = '<div class="saved"><button class="save"></button><ul></ul></div>'
_CSS = """
.saved { font: 400 14px var(--st-font, sans-serif); color: var(--st-text-color); }
.saved ul { list-style: none; margin: 8px 0 0; padding: 0; max-height: 240px; overflow-y: auto; }
.saved li { display: flex; justify-content: space-between; gap: 8px; }
.saved button { font: inherit; color: inherit; background: none; cursor: pointer; text-align: left; padding: 6px 8px;
  border: 1px solid transparent; border-radius: 6px; }
.saved button.save { width: 100%; border-color: var(--st-border-color); text-align: center; }
.saved button:hover:enabled { border-color: var(--st-primary-color); }
.saved button:focus-visible { outline: 2px solid #C2185B; outline-offset: -2px; }
.saved button:disabled { cursor: default; color: var(--st-gray-text-color, inherit); }
"""
_KEY = "saved"
_COMPONENT = st.components.v2.component(
    "scenario.saved", html=_HTML, css=_CSS, js=(Path(__file__).parent / "saved.js").read_text()
)


@callback
def _opened() -> None:
    token = st.session_state[_KEY]["opened"]
    try:
        link.open_scenario(link.read(str(token)))
    except ScenarioError as error:
        st.session_state.problem = ((), str(error))


def saved(name: str) -> None:
    """A button that keeps the session's scenario under a name, and what was kept before, to open or to remove."""
    _COMPONENT(key=_KEY, data={"token": st.session_state.token, "name": name}, on_opened_change=_opened)
