"""What do you want to run?"""

from functools import partial
from typing import Any

import streamlit as st

from app.shared import formats as fmt
from app.shared import link, parts
from app.shared.widgets import pickers
from app.views.home import texts
from engine.choose import question_of
from engine.choose.question import QUESTIONS
from engine.published.nearest import TITLES
from engine.resolve.presets import PRESETS
from engine.scenario import ScenarioError
from model_zoo.catalog import default_zoo

_FIRST = "llama3.1-70b"
_TODAY = ("llama-70b", "dlrm", "resnet-edge", "gru")
_WORKLOAD = "home.workload"


def _limits(decoder: bool) -> dict[str, float]:
    """The limits that a request's users feel; empty where none is set. [s]"""
    limits = {}
    for column, (name, (label, help)) in zip(st.columns(2), texts.LIMITS["decoder" if decoder else "other"].items()):
        args: dict[str, Any] = {"min_value": 0.0, "value": None, "placeholder": "none", "help": help}
        if value := column.number_input(label, key=f"home.{name}", **args):
            limits[name] = fmt.MILLISECOND.si(value)
    return limits


def ask() -> None:
    """A network, the lengths of a request and limits: they are answered by Choose."""
    with st.container(border=True, key="ask"):
        workload = st.session_state.get(_WORKLOAD, _FIRST)
        store = partial(st.session_state.__setitem__, _WORKLOAD)
        pickers.workload("home.network", workload, store, label="Network")
        fields: dict[str, Any] = {"workload": workload}
        fields |= pickers.lengths(workload, None, None, lambda name, v: {"value": v, "key": f"home.{name}.{workload}"})
        fields |= _limits(default_zoo().graph(workload).causal)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            if st.button(texts.FIND, type="primary", key="home.find"):
                try:
                    link.show("choose", query={"q": question_of(fields).token})
                except ScenarioError as error:
                    parts.refusal(error)
            st.page_link(
                "views/catalog/page.py", label=f":small[{texts.OWN}]", query_params=link.address() | {"own": "open"}
            )


def today() -> None:
    """Questions of today, answered by Choose."""
    st.markdown(f"**{texts.TODAY}**")
    for id in _TODAY:
        if st.button(QUESTIONS[id].title, width="stretch", key=f"home.{id}"):
            link.show("choose", query={"q": QUESTIONS[id].question.token})


def papers() -> None:
    """The preset of each document, opened in Explore."""
    st.markdown(f"**{texts.PAPERS}**")
    for preset in (p for p in PRESETS.values() if p.headline):
        label = f"{TITLES[preset.document]} · {preset.title}"
        if st.button(label, width="stretch", key=f"home.{preset.id}"):
            link.show("explore", preset.scenario)


def show() -> None:
    """The page; an address that names a scenario goes on to Explore."""
    if link.PARAM in st.query_params:
        link.show("explore")
    with st.container(key="home"):
        st.header(texts.QUESTION, anchor=False)
        st.markdown(texts.PURPOSE)
        ask()
        parts.beside(today, papers)


show()
