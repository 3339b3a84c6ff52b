"""The first page asks what to run; every way on it leads to an answer (AppTest: no browser)."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.views.home import texts
from engine.choose import question_of
from engine.choose.question import QUESTIONS
from engine.resolve.presets import PRESETS
from engine.scenario import encode

MAIN = Path(__file__).parents[3] / "app" / "main.py"
PAPERS = [id for id, preset in PRESETS.items() if preset.headline]
pytestmark = pytest.mark.timeout(300)


def opened() -> AppTest:
    """The app at its bare address."""
    at = AppTest.from_file(str(MAIN), default_timeout=240).run()
    assert not at.exception
    return at


def test_a_newcomer_is_asked_what_to_run_and_sees_no_one_s_numbers():
    at = opened()
    assert [h.value for h in at.header] == [texts.QUESTION]
    assert not at.metric
    assert not at.warning
    assert "s" not in at.query_params
    assert not [m for m in at.markdown if "unvalidated" in m.value]


def test_it_offers_the_five_papers_and_four_of_todays_questions():
    keys = {b.key for b in opened().button}
    assert len(PAPERS) == 5
    assert {f"home.{id}" for id in PAPERS} <= keys
    assert len({f"home.{id}" for id in QUESTIONS} & keys) == 4


@pytest.mark.parametrize("id", ["dfx-1.5b", "tonic-fc"])
def test_a_paper_opens_in_explore(id):
    at = opened()
    at.button(key=f"home.{id}").click().run()
    assert not at.exception
    assert at.session_state["scenario"] == PRESETS[id].scenario
    assert at.query_params["s"] in (encode(PRESETS[id].scenario), [encode(PRESETS[id].scenario)])
    assert at.metric


def asked(monkeypatch, click) -> str:
    """Token of the question that a click asks Choose."""
    import streamlit as st

    found = []

    def switched(page, *, query_params=None):
        found.append((page, query_params["q"]))
        st.stop()

    monkeypatch.setattr(st, "switch_page", switched)
    at = opened()
    click(at)
    assert not at.exception
    ((page, token),) = found
    assert page == "views/choose/page.py"
    return token


def test_a_question_of_today_is_asked(monkeypatch):
    token = asked(monkeypatch, lambda at: at.button(key="home.dlrm").click().run())
    assert question_of(token) == QUESTIONS["dlrm"].question


def test_a_network_its_lengths_and_limits_become_a_question(monkeypatch):
    def click(at: AppTest) -> None:
        at.number_input(key="home.inputs.llama3.1-70b").set_value(2000).run()
        at.number_input(key="home.ttft_s").set_value(500.0).run()
        at.number_input(key="home.tpot_s").set_value(30.0).run()
        at.button(key="home.find").click().run()

    question = question_of(asked(monkeypatch, click))
    assert (question.workload, question.inputs) == ("llama3.1-70b", 2000)
    assert (question.ttft_s, question.tpot_s) == pytest.approx((0.5, 0.03))


def test_a_link_with_a_scenario_still_opens_it_at_the_bare_address():
    at = AppTest.from_file(str(MAIN), default_timeout=240)
    at.query_params["s"] = encode(PRESETS["tonic-fc"].scenario)
    at.run()
    assert at.session_state["scenario"] == PRESETS["tonic-fc"].scenario
    assert at.metric
