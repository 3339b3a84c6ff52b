"""Figures 8, 15 and 18 of the appliance's document: bars, what is printed of them, their place on the page."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from app.views.published.dfx_figures import paired
from engine.evaluate import evaluate
from engine.published import claims
from engine.published.dfx import dfx
from engine.published.dfx_figures import figures
from engine.scenario.overrides import apply_all
from tests.app.valid import valid

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
    for figure in FIGURES[2:4]:
        for one in figure.bars:
            assert one.predicted == pytest.approx(one.printed, rel=0.2)
    assert sum(one.predicted for one in FIGURES[2].bars) == pytest.approx(1)


def test_one_share_is_fitted_of_every_model_on_every_number_of_cards_and_it_is_small():
    """64% of 1.5B on four cards rested on two fitted constants; now what is fitted is one, and none on one card."""
    shares = {one.label: one.predicted for one in FIGURES[4].bars}
    print(shares)
    assert [name for name, share in shares.items() if share == 0] == ["345M, 1 FPGA", "1.5B, 1 FPGA"]
    assert all(0.05 < share < 0.2 for name, share in shares.items() if "FPGAs" in name)
    for name, share in shares.items():
        model, cards = name.split(", ")[0].lower(), int(name.split(", ")[1].split()[0])
        without = evaluate(apply_all(dfx(model, cards), ["model.unexplained=0"])).latency_s
        assert 1 - without / evaluate(dfx(model, cards)).latency_s == pytest.approx(share, rel=0.02, abs=1e-12)


def test_the_panels_of_figure_8_say_what_the_document_draws():
    times = [one.predicted for one in FIGURES[0].bars]
    assert max(times[1:4]) < 1.02 * min(times[1:4]) < 1.15 * min(times[1:4]) < min(times[0], times[4])
    for at in range(0, 12, 3):
        narrow, middle, wide = (one.predicted for one in FIGURES[1].bars[at : at + 3])
        assert narrow > middle > wide


@pytest.mark.parametrize("dark", [False, True])
def test_each_is_drawn_with_a_diamond_for_every_printed_number(dark):
    for figure in FIGURES:
        data = valid(paired(figure, dark)).data
        told = [trace for trace in data if trace.type == "scatter"]
        assert sum(len(trace.x) for trace in told) == sum(one.printed is not None for one in figure.bars)
        assert len(data[0].x) == len(figure.bars)


def test_the_page_shows_them_when_they_are_asked_for():
    at = AppTest.from_function(_section, default_timeout=120).run()
    assert not at.exception, at.exception
    said = " ".join(m.value for m in at.markdown)
    assert all(f"**{figure.title}**" in said for figure in FIGURES)
