"""Scenarios to open: presets, and those that a reader keeps in the browser; a server sees their tokens once opened."""

from pathlib import Path

import streamlit as st

from app.shared import link, parts
from app.shared.boundary import callback
from app.shared.widgets.choices import say
from app.shared.widgets.controlled import pick
from engine.published.nearest import TITLES
from engine.resolve.presets import PRESETS
from engine.scenario import ScenarioError

_HTML = '<div class="saved"><button class="save"></button><ul></ul></div>'
_KEY = "saved"
_CSS, _JS = (Path(__file__).with_name(f"saved.{kind}").read_text() for kind in ("css", "js"))
_COMPONENT = st.components.v2.component("scenario.saved", html=_HTML, css=_CSS, js=_JS)


@callback
def _open() -> None:
    token = st.session_state[_KEY]["opened"]
    try:
        link.open_scenario(link.read(str(token)))
    except ScenarioError as error:
        say("saved", error)


def presets() -> None:
    """One pill a document, and all presets under More."""
    heads = {p.id: p.pill for p in PRESETS.values() if p.headline}
    matching = link.matching(link.current())
    head, preset = matching.id if matching and matching.headline else None, matching.id if matching else None

    def commit(id: str | None) -> None:
        if id:
            link.open_scenario(PRESETS[id].scenario)

    near = link.origin(link.current())
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        label = "Presets, one for each document"
        pick(label, heads, "w.preset", head, commit, st.pills, label_visibility="collapsed")
        with st.popover("More"), st.container(width=300 if parts.mobile() else 460):
            titles = {id: f"{TITLES[preset.document]} · {preset.title}" for id, preset in PRESETS.items()}
            pick("Preset", titles, "w.more", preset, commit, index=None, placeholder="Choose a preset")
            if near and not matching:
                st.button(
                    f"Reset to {near.pill}",
                    on_click=link.open_scenario,
                    args=(near.scenario,),
                    key="reset",
                    width="stretch",
                )
            name = f"{parts.short_name(link.current())}, {parts.pair_names(link.current())[1]}"
            _COMPONENT(key=_KEY, data={"token": st.session_state.token, "name": name}, on_opened_change=_open)
