"""The only cache. Everything in it is immutable and found by a scenario's token or by nothing at all."""

from __future__ import annotations

import gc

import streamlit as st

from engine.choices import Choices, choices
from engine.evaluate import evaluate
from engine.report import Report
from engine.scenario import decode

__all__ = ["options", "published", "report", "warm_up"]


@st.cache_resource(max_entries=512, show_spinner=False)
def report(token: str) -> Report:
    """Report of a token; raises what `decode` and `evaluate` raise, and then keeps nothing."""
    return evaluate(decode(token))


@st.cache_resource(max_entries=256, show_spinner=False)
def options(token: str) -> Choices:
    """What may be picked beside a scenario."""
    return choices(decode(token))


@st.cache_resource(max_entries=1, show_spinner=False)
def published() -> list[dict]:
    """Every published figure beside its prediction."""
    from engine.published import validate  # its predictions are read when the page is first opened

    return validate()


@st.cache_resource(max_entries=1, show_spinner=False)
def warm_up(token: str) -> int:
    """First evaluation and imports done before anybody waits; then everything alive is frozen.

    Streamlit collects garbage after every rerun; with numba, plotly and pandas loaded that would be most of a rerun's
    time, and none of it is garbage.
    """
    import plotly.graph_objects  # noqa: F401  # imported so that the first page finds it loaded
    import pyarrow  # noqa: F401  # the same

    report(token)
    gc.collect()
    gc.freeze()
    return gc.get_freeze_count()
