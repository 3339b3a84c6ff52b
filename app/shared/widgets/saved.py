"""Scenarios to open: presets, and those that a reader keeps in the browser; a server sees their tokens once opened."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app.shared import link, parts
from app.shared.boundary import callback
from app.shared.widgets.choices import say
from app.shared.widgets.controlled import controlled
from engine.published.nearest import TITLES
from engine.resolve.presets import PRESETS
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
        say("saved", error)


def _saved(name: str) -> None:
    """A button that keeps the session's scenario under a name, and what was kept before, to open or to remove."""
    _COMPONENT(key=_KEY, data={"token": st.session_state.token, "name": name}, on_opened_change=_opened)


def presets() -> None:
    """One pill a document, and all presets under More."""
    heads = [p.id for p in PRESETS.values() if p.headline]
    matching = link.matching(link.current())
    head, preset = matching.id if matching and matching.headline else None, matching.id if matching else None

    def picked(id: str | None) -> None:
        if id:
            link.open_scenario(PRESETS[id].scenario)

    near = link.related(link.current())
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.pills(
            "Presets, one for each document",
            heads,
            format_func=lambda id: PRESETS[id].pill,
            label_visibility="collapsed",
            **controlled("w.preset", head, picked),
        )
        with st.popover("More"), st.container(width=300 if parts.mobile() else 460):
            st.selectbox(
                "Preset",
                sorted(PRESETS, key=lambda id: PRESETS[id].document),
                index=None,
                format_func=lambda id: f"{TITLES[PRESETS[id].document]} · {PRESETS[id].title}",
                placeholder="Choose a preset",
                **controlled("w.more", preset, picked),
            )
            if near and not matching:
                st.button(
                    f"Reset to {near.pill}",
                    on_click=link.open_scenario,
                    args=(near.scenario,),
                    key="reset",
                    width="stretch",
                )
            _saved(f"{parts.short_name(link.current())}, {parts.pair_names(link.current())[1]}")
