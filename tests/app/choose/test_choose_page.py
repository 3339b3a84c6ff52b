"""What should I use: the page answers, its address reruns it, and what it is given is never a dead page (AppTest)."""

import json
import re
import time
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.shared import cached, comparison, parts
from engine.choose import choose, question_of
from engine.choose.question import QUESTIONS
from engine.scenario import encode
from tests.app.pages import key_of
from tests.effort import EFFORT
from tests.laws.choose.test_choose import SEVERAL, answer

APP = Path(__file__).parents[3] / "app"
PAGE = str(APP / "views" / "choose" / "page.py")
SEVEN = ("llama-70b", "gru", "binary", "dlrm", "resnet", "gpt2", "xlmr")
FEW = {"systems": ["l4", "t4"]}  # a choice among all of them is asked by the seven
ASKED = SEVEN if EFFORT >= 5 else SEVEN[:3]  # all seven are asked headless
pytestmark = pytest.mark.timeout(300)


class Walker:
    """A visitor whose every click and entry is counted."""

    def __init__(self, **query: str) -> None:
        self.at = AppTest.from_file(str(APP / "main.py"), default_timeout=240)
        for key, value in query.items():
            self.at.query_params[key] = value
        self.at.run()
        self.steps = 0

    def open(self) -> "Walker":
        """The room, then the page."""
        self.steps += 2
        self.at.switch_page(PAGE).run()
        return self

    def pick(self, name: str, value: object, kind: str = "selectbox") -> None:
        self.steps += 2 if kind == "selectbox" else 1
        getattr(self.at, kind)(key=key_of(self.at, name)).set_value(value).run()

    @property
    def question(self):
        given = self.at.query_params.get("q")
        token = given[0] if isinstance(given, list) else given
        return question_of(token) if token else QUESTIONS["llama-70b"].question

    @property
    def sentence(self) -> str:
        return next(m.value for m in self.at.markdown if m.value.startswith("**") and ":** " in m.value)


def plain(text: str) -> str:
    return re.sub(r"[\\*]", "", text)


@pytest.mark.parametrize("id", ASKED)
def test_the_seven_questions_take_six_interactions_or_fewer(id):
    began = time.perf_counter()
    me = Walker().open()
    if id != SEVEN[0]:  # which the page opens with
        me.pick("h.more", id)
    assert not me.at.exception
    assert me.question == QUESTIONS[id].question
    expected = answer(id)
    assert plain(me.sentence) == expected.sentence
    assert me.steps <= 6
    print(
        f"{id}: {me.steps} interactions, {time.perf_counter() - began:.1f} s with the app's start. {plain(me.sentence)}"
    )


def test_a_question_of_ones_own_takes_six_interactions_or_fewer():
    me = Walker(q=question_of(FEW | {"workload": "llama3.1-8b"}).token).open()
    me.pick("h.workload", "resnet50")
    me.pick("h.latency_s", 7.0, "number_input")
    assert me.steps <= 6
    assert me.question == question_of(FEW | {"workload": "resnet50", "latency_s": 0.007})
    assert plain(me.sentence) == cached.answer(choose, me.question.token).sentence


def test_the_link_reruns_itself():
    token = question_of({"workload": "bert-base", "qps": 2000, "latency_s": 0.02, "systems": ["l4", "t4"]}).token
    me = Walker(q=token).open()
    assert plain(me.sentence) == cached.answer(choose, token).sentence
    assert me.question.token == token


@pytest.mark.parametrize("token", ["junk", "1q", "1qAAAA", question_of({"workload": "nonet"}).token,
                                   question_of({"workload": "resnet50", "systems": ["nosuch"]}).token])  # fmt: skip
def test_a_bad_link_is_one_sentence_and_the_first_question(token):
    me = Walker(q=token).open()
    assert not me.at.exception
    assert not me.at.error
    assert len(me.at.warning) == 1
    assert plain(me.sentence) == answer("llama-70b").sentence


def test_a_demand_that_nobody_meets_says_what_is_nearest():
    me = Walker(q=question_of({"workload": "llama3.1-405b", "tpot_s": 1e-6, "systems": SEVERAL}).token).open()
    assert not me.at.exception
    assert any("No system meets this" in m.value for m in me.at.markdown)
    assert not any("Open in Explore" in b.label for b in me.at.button)


def test_a_row_opens_pins_and_joins_compare():
    me = Walker().open()
    best = answer("llama-70b").rows[0].best
    me.at.button(key="h.compare").click().run()
    assert comparison.Entry(best.scenario) in me.at.session_state["comparison"].entries
    me.at.button(key="h.pin").click().run()
    assert me.at.session_state["baseline"] == encode(best.scenario)
    me.at.button(key="h.open").click().run()
    assert not me.at.exception
    assert me.at.session_state["token"] == encode(best.scenario)


def test_a_change_that_is_not_allowed_changes_nothing():
    me = Walker().open()
    before = me.question
    me.pick("h.costs.pue", 0.5, "number_input")
    assert len(me.at.warning) == 1
    assert "pue" in me.at.warning[0].value
    assert me.question == before


def test_another_workload_drops_limits_it_cannot_have():
    me = Walker(q=question_of(FEW | {"workload": "llama3.1-8b", "tpot_s": 0.05}).token).open()
    me.pick("h.workload", "resnet50")
    assert me.question == question_of(FEW | {"workload": "resnet50"})


def test_evidence_only_is_a_switch_and_the_limit_is_drawn():
    fields = {"workload": "llama3.1-8b", "tpot_s": 0.025, "systems": ["h100-sxm", "mi300x"]}
    me = Walker(q=question_of(fields).token).open()
    rules = [trace for trace in json.loads(me.at.get("plotly_chart")[0].proto.spec)["data"] if trace["x"] == [40, 40]]
    assert len(rules) == 1
    me.pick("h.evidence", True, "toggle")
    assert me.question == question_of(fields | {"evidence": "measured"})
    assert plain(me.sentence) == cached.answer(choose, me.question.token).sentence


@pytest.mark.parametrize("demand", [{"users": 40}, {"qps": 20.0}])
def test_load_is_asked_for_the_same_demand(demand):
    """As often as it is opened, on whichever system: an instance gets its part, the plan all of it."""
    me = Walker(q=question_of({"workload": "llama3.1-8b", "systems": ["l4"]} | demand).token).open()
    for system in ("l4", "a100-sxm-80gb"):
        me.pick("h.systems", [system], "multiselect")
        best = cached.answer(choose, me.question.token).rows[0].best
        me.at.button(key="h.load").click().run()
        assert not me.at.exception
        shown = {box.key: box.value for box in me.at.number_input}
        value = {key.split(".")[1]: v for key, v in shown.items() if key.startswith("w.")}
        if "users" in demand:
            assert (value["clients"], value["users"]) == (-(-40 // best.instances), 40)
        else:
            assert (value["qps"], value["demand"]) == (pytest.approx(20.0 / best.instances), 20.0)
        me.open()


def test_a_phone_shows_what_each_system_costs(monkeypatch):
    """It has room for three columns, and the second was wide."""
    monkeypatch.setattr(parts, "mobile", lambda: True)
    me = Walker(q=question_of(FEW | {"workload": "llama3.1-8b"}).token).open()
    assert list(me.at.dataframe[0].value)[:2] == ["System", "$/M output tokens"]
