"""Figures 8, 15 and 18 of the appliance's document: bars, what is printed of them, their place on the page."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from app.views.published.dfx_figures import paired
from engine.published import claims
from engine.published.dfx_figures import figures

FIGURES = figures()


def _section() -> None:
    import streamlit as st

    from app.views.published import dfx_figures

    st.session_state["open.dfx_figures"] = True
    dfx_figures.section()


def test_every_printed_number_is_the_documents_and_is_met():
    printed = [b.printed for f in FIGURES for b in f.bars if b.printed is not None]
    listed = {
        c["value"] / (100 if c["unit"] == "%" else 1)
        for c in claims()
        if c["document"] == "004" and c["unit"] in ("%", "fraction", "tokens/s")
    }
    assert len(printed) == 10
    assert [p for p in printed if not any(p == pytest.approx(v) for v in listed)] == [pytest.approx(0.101)]
    for figure in FIGURES[2:]:
        for one in figure.bars:
            assert one.predicted == pytest.approx(one.printed, rel=0.2)
    assert sum(one.predicted for one in FIGURES[2].bars) == pytest.approx(1)


def test_the_panels_of_figure_8_say_what_the_document_draws():
    times = [one.predicted for one in FIGURES[0].bars]
    assert max(times[1:4]) < 1.02 * min(times[1:4]) < 1.15 * min(times[1:4]) < min(times[0], times[4])
    for at in range(0, 12, 3):
        narrow, middle, wide = (one.predicted for one in FIGURES[1].bars[at : at + 3])
        assert narrow > middle > wide


@pytest.mark.parametrize("dark", [False, True])
def test_each_is_drawn_with_a_diamond_for_every_printed_number(dark):
    for figure in FIGURES:
        data = paired(figure, dark).data
        told = [trace for trace in data if trace.type == "scatter"]
        assert sum(len(trace.x) for trace in told) == sum(one.printed is not None for one in figure.bars)
        assert len(data) - len(told) == len(figure.bars)


def test_the_page_shows_them_when_they_are_asked_for():
    at = AppTest.from_function(_section, default_timeout=120).run()
    assert not at.exception, at.exception
    said = " ".join(m.value for m in at.markdown)
    assert all(f"**{figure.title}**" in said for figure in FIGURES)
