"""What a page's own choices change is in its link: a fresh session that opens it sees the same."""

from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.shared import parts
from engine.choose import question_of
from engine.resolve.presets import PRESETS
from tests.app.pages import key_of, opened

APP = Path(__file__).parents[3] / "app"
pytestmark = pytest.mark.timeout(300)

# page, preset, parameter of its address, value
CHOICES = [
    ("explore", "dfx-1.5b", "knob", "devices"),
    ("node", "node-dlrm", "figure", "latency"),
    ("split", "alexnet-split", "goal", "throughput"),
    ("split", "alexnet-split", "answer", "0.1"),
    ("numerics", "dfx-1.5b", "layer", "outliers"),
    ("kernels", "dfx-1.5b", "kernel", "softmax"),
    ("traffic", "dfx-1.5b", "requests", "100000"),
]


def shown(at: AppTest, key: str) -> str:
    return at.session_state[key_of(at, f"w.{key}")]


@pytest.mark.parametrize(("page", "preset", "key", "value"), CHOICES)
def test_a_link_carries_a_pages_choice_and_a_bad_one_is_one_sentence(page, preset, key, value):
    at = opened(page, preset, **{key: value})
    assert shown(at, key) == value
    assert at.query_params[key] == value
    assert not at.warning
    bad = opened(page, preset, **{key: "nonsense"})
    assert shown(bad, key) not in (value, "nonsense")
    assert [w.value.count("nonsense") for w in bad.warning] == [1]
    assert key not in bad.query_params
    assert not bad.run().warning


def test_a_limit_is_written_with_the_digits_that_it_has():
    limited = PRESETS["dfx-1.5b"].scenario.with_(limits={"latency_s": 0.025, "power_w": 350.5})
    question = question_of({"workload": "llama3.1-8b", "tpot_s": 0.025, "systems": ["l4"]})
    explore, choose = opened("explore", limited), opened("choose", q=question.token)
    shown = [(explore, "w.limits.latency_s"), (explore, "w.limits.power_w"), (choose, "h.tpot_s")]
    assert [at.number_input(key=key_of(at, key)).proto.format for at, key in shown] == ["%.0f", "%.1f", "%.0f"]


def test_toggles_travel_and_only_on_and_off_are_known():
    at = opened("split", "alexnet-split", low="on")
    assert at.toggle(key="w.low").value
    assert "low" not in at.toggle(key="w.low").set_value(False).run().query_params
    bad = opened("split", "alexnet-split", low="perhaps")
    assert not bad.toggle(key=key_of(bad, "w.low")).value
    assert len(bad.warning) == 1


def warnings(page: str, key: str, value: str) -> list[str]:
    """What a page says of a parameter that a widget of Streamlit's own reads."""
    return [
        w.value.replace("\\", "")
        for w in opened(page, "node-dlrm" if page == "traffic" else "dfx-1.5b", **{key: value}).warning
    ]


@pytest.mark.parametrize(
    ("page", "key", "value", "sentence"),
    [
        (
            "published",
            "status",
            "bad",
            "Status 'bad' of this link is not known; all, met, missed and not predicted are.",
        ),
        ("published", "picked", "ZZ-1", "Claim 'ZZ-1' of this link is not known; "),
        ("published", "role", "x", "Role 'x' of this link is not known; all, validation and calibration are."),
        ("compare", "metric", "zz", "Metric 'zz' of this link is not known; latency, ttft, tpot, throughput, "),
        ("traffic", "sla-of", "p98", "SLA 'p98' of this link is not known; p99, p95, p50 and mean are."),
        ("traffic", "places", "-1", "Queue limit '-1' of this link is out of range; 0 to 1,000,000 is allowed."),
        ("traffic", "slots", "2.5", "Nodes per rack '2.5' of this link is no whole number; 1 to 1,000 is allowed."),
        ("traffic", "demand", "nan", "Demand at the peak (QPS) 'nan' of this link is out of range; 0 to 1,000,000,000"),
        ("traffic", "sla", "soon", "Limit (ms) 'soon' of this link is no number; 0.000001 or more is allowed."),
        ("numerics", "format", "in6", "Format 'in6' of this link is not known; nearest: int6"),
        ("kernels", "threads", "0", "Threads '0' of this link is not known; "),
        (
            "numerics",
            "wanted",
            "61",
            "Target SQNR (dB) '61' of this link is out of range; 5 to 60 is allowed.",
        ),
    ],
)
def test_a_value_that_a_widget_cant_take_is_said(page, key, value, sentence):
    assert any(w.startswith(sentence) for w in warnings(page, key, value))


@pytest.mark.parametrize(
    ("page", "key", "value"),
    [
        ("published", "status", "Missed"),
        ("traffic", "places", "3"),
        ("traffic", "sla", "0.5"),
        ("numerics", "wanted", "25"),
    ],
)
def test_a_value_that_fits_is_taken_without_a_word(page, key, value):
    assert warnings(page, key, value) == []


def test_back_takes_a_choice_out_and_a_switch_of_pages_does_not():
    at = opened("catalog", section="devices", entry="h100-sxm")
    assert shown(at, "section") == "devices"
    del at.query_params["section"], at.query_params["entry"]  # as the browser's Back leaves the address
    at.run()
    assert shown(at, "section") == "systems"
    assert "section" not in at.query_params
    at.query_params["section"] = "links"
    at.run().switch_page("views/published/page.py").run()
    at.query_params.pop("section", None)
    at.switch_page("views/catalog/page.py").run()
    assert shown(at, "section") == "links"
    assert at.query_params["section"] == "links"


def test_what_is_wrong_with_a_link_is_told_before_the_page_is_drawn(monkeypatch):
    """Told afterwards, it moved the whole page down under its reader's eyes."""
    untold, draw = [], parts.bar

    def bar(*args, **options):
        untold.extend(st.session_state.get("said", ()))
        draw(*args, **options)

    monkeypatch.setattr(parts, "bar", bar)
    assert opened("machine", s="1znonsense").warning
    assert not untold
