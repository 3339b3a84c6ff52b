"""The Load page: an answer at once, a simulation on demand, and addresses that open it as it was."""

import contextlib

import pytest
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import StopException
from streamlit.testing.v1 import AppTest

from app.shared import formats as fmt
from app.shared import jobs
from app.views.traffic import controls
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.resolve.presets import PRESETS
from engine.scenario import encode
from engine.scenario.scenario import Limits
from tests.app.pages import MAIN, alive, key_of, opened

GRU = PRESETS["brainwave-gru"].scenario
pytestmark = pytest.mark.timeout(300)


def said(at: AppTest, text: str) -> bool:
    return any(text in m.value for m in [*at.markdown, *at.caption])


def test_it_opens_with_the_limit_of_the_scenario_else_of_the_networks_document():
    scenario = PRESETS["node-xlmr"].scenario
    assert controls.usual_agreement(evaluate(scenario)).seconds == 0.2
    assert controls.usual_agreement(evaluate(scenario.with_(limits=Limits(latency_s=0.15)))).seconds == 0.15
    gru = evaluate(GRU)
    assert gru.latency_s < controls.usual_agreement(gru).seconds < 100 * gru.latency_s  # no document states one


def test_it_opens_with_an_answer_and_the_slider_moves_it():
    at = opened("traffic", s=encode(GRU))
    assert said(at, "**Max ")
    assert said(at, "Closed form M/D/1")
    assert not at.error
    low, high = at.slider(key=key_of(at, "w.qps")).min, at.slider(key=key_of(at, "w.qps")).max
    at.slider(key=key_of(at, "w.qps")).set_value(low).run()
    assert said(alive(at), "inside the limit")
    at.slider(key=key_of(at, "w.qps")).set_value(high).run()
    assert "grows without limit" in alive(at).error[0].value
    again = opened("traffic", s=encode(GRU), qps=str(high))
    assert again.slider(key=key_of(again, "w.qps")).value == high
    assert again.error[0].value == at.error[0].value


@pytest.mark.parametrize("scenario", [GRU, PRESETS["dfx-1.5b"].scenario], ids=["gru", "dfx"])
def test_no_short_card_leaves_a_blank_beside_a_tall_one(scenario):
    """A bar or two beside a timeline of 40 rows or a table of six left half of a card empty."""
    at = opened("traffic", s=encode(scenario))
    titles = [m.value for column in at.main.columns for m in column.markdown]
    short = ("**Utilisation", "**What limits serving", "**Timeline of 40", "**Times of requests")
    assert len([m for m in at.markdown if m.value.startswith(short)]) == 2
    assert not [title for title in titles if title.startswith(short)]


def test_settings_react_and_come_from_an_address():
    at = opened("traffic", s=encode(GRU))
    at.selectbox(key="w.come").set_value("gamma").run()
    assert at.query_params["come"] == "gamma"  # the id, which a new wording of the label leaves alone
    at.select_slider(key=key_of(at, "w.together")).set_value("4").run()
    assert said(alive(at), "Quick simulation")
    again = opened("traffic", s=encode(GRU), come="gamma", together="4")
    assert again.selectbox(key="w.come").value == "gamma"
    assert again.select_slider(key=key_of(again, "w.together")).value == "4"
    assert [m.value for m in again.markdown] == [m.value for m in at.markdown]
    at.number_input(key=key_of(at, "w.sla")).set_value(0.1).run()
    assert said(alive(at), "No load keeps")


def test_a_choice_survives_a_change_of_pages_and_its_default_leaves_no_trace():
    at = opened("traffic", s=encode(GRU), queues="pool")
    assert at.selectbox(key="w.queues").value == "pool"
    alive(at.switch_page("views/published/page.py").run())
    del at.query_params["queues"]
    alive(at.switch_page("views/traffic/page.py").run())
    assert at.selectbox(key="w.queues").value == "pool"
    assert at.query_params["queues"] == "pool"
    at.selectbox(key="w.queues").set_value("whole").run()
    assert "queues" not in alive(at).query_params


@pytest.mark.parametrize(
    ("preset", "queues"), [("node-dlrm", "stages"), ("brainwave-gru", "pool"), ("tonic-fc", "packets")]
)
def test_every_arrangement_opens_from_an_address(preset, queues):
    at = opened("traffic", s=encode(PRESETS[preset].scenario), queues=queues)
    assert at.selectbox(key="w.queues").value == queues
    assert said(at, "**Max ")
    assert said(at, "Quick simulation")
    assert not at.error
    assert not at.warning


def test_requests_differ_in_what_the_workload_has():
    at = opened("traffic", s=encode(PRESETS["node-dlrm"].scenario), spread="lognormal", differ="lookups")
    assert at.selectbox(key="w.differ").value == "lookups"
    assert said(at, "Quick simulation")
    at.selectbox(key="w.differ").set_value("items").run()
    alive(at)
    assert not at.warning


def test_a_bad_address_changes_nothing():
    come = "![x](http://evil.example/x.png)"
    at = opened(
        "traffic",
        s=encode(GRU),
        qps="-5",
        come=come,
        sla="nan",
        together="7",
        survives="moon",
        queues="moon",
        spread="%00",
    )
    assert said(at, "Closed form M/D/1")
    assert at.select_slider(key=key_of(at, "w.together")).value == "1"


def test_a_simulation_runs_on_the_button_with_what_was_chosen_just_before_it():
    """Browsers send both together where the page has no time to draw the choice."""
    at = opened("traffic", s=encode(GRU))
    at.selectbox(key="w.requests").set_value("50000")
    alive(at.button(key="t.run").click().run(timeout=240))
    assert said(at, "Simulated in")
    assert said(at, "Simulated, 50.0 k requests per point")


def test_a_simulation_ends_when_its_session_leaves(monkeypatch):
    """Where a browser is gone Streamlit stops the script at its next line, which draws the progress."""
    at = opened("traffic", s=encode(PRESETS["dfx-345m"].scenario))
    at.selectbox(key="w.requests").set_value("100000").run()

    def gone(*_: object) -> None:
        raise StopException

    monkeypatch.setattr(DeltaGenerator, "progress", gone)
    monkeypatch.setattr(jobs, "line", lambda _: contextlib.nullcontext(DeltaGenerator()))
    at.button(key="t.run").click().run()
    job = at.session_state["t.job"]
    job.wait(60)
    assert job.done
    assert job.cancelled


def test_a_simulation_for_which_there_is_no_place_is_refused_in_a_sentence(monkeypatch):
    at = opened("traffic", s=encode(GRU))
    monkeypatch.setattr(jobs, "_MAX_WAITING", 0)
    alive(at.button(key="t.run").click().run())
    assert at.warning[0].value.startswith("0 simulations wait on this server already")
    assert said(at, "Closed form M/D/1")


def test_what_cannot_run_or_does_not_fit_says_so():
    odd = PRESETS["dfx-1.5b"].scenario
    tight = odd.with_(devices=1, scheme="single", overrides={"devices.0.memory.hbm.capacity": "2 GB"})
    assert "Does not fit" in opened("traffic", s=encode(tight)).error[0].value
    other = odd.with_(system="agilio-cx", scheme="on-path", devices=1, tile=(), switches={})
    assert len(opened("traffic", s=encode(other)).info) == 1


def test_the_demand_and_what_a_request_holds_are_named():
    at = opened("traffic", s=encode(PRESETS["v100-1.5b"].scenario.with_(batch=8)), load="open", demand="50")
    assert said(at, "**Nodes for 50.0 requests/s at the peak**")
    assert not said(at, "requests of 8 sequences each")  # a decoder's request is one
    assert at.number_input(key=key_of(at, "w.demand")).value == 50.0
    images = opened("traffic", s=encode(default_scenario("fb-card", "resnet50", batch=8)))
    assert said(images, "requests of 8 images each")


# --- what a language model opens with, and what its batch limit leaves alone

LLAMA = default_scenario("h100-sxm", "llama3.1-70b", devices=8).with_(precision="fp8")


@pytest.mark.parametrize("scenario", [LLAMA, LLAMA.with_(batch=48), PRESETS["dfx-345m"].scenario])
def test_a_decoder_opens_with_as_many_clients_as_its_scenario_has_sequences(scenario):
    at = opened("traffic", s=encode(scenario))
    assert at.number_input(key=key_of(at, "w.clients")).value == scenario.batch
    assert "clients" not in at.query_params


def test_batching_makes_a_million_tokens_cheap():
    at = opened("traffic", s=encode(LLAMA.with_(batch=64)), ttft="100000", tpot="100000", users="50000")
    usual = float(at.dataframe[0].value["$ / M requests"].iloc[0])
    at.number_input(key=key_of(at, "w.max-seqs")).set_value(1).run()
    assert usual < float(alive(at).dataframe[0].value["$ / M requests"].iloc[0]) / 10


def test_limits_of_a_scenario_are_the_promise_and_are_said():
    limited = LLAMA.with_(batch=8, limits={"tpot_s": 0.025, "power_w": 9_000.0})
    at = opened("traffic", s=encode(limited))
    assert at.number_input(key=key_of(at, "w.tpot")).value == 25.0
    assert said(at, fmt.plain("Limits of the scenario: TPOT ≤ 25.0 ms, power ≤ 9.00 kW"))


def test_a_request_is_a_batch_or_one_item_of_it():
    scenario = encode(default_scenario("fb-card", "resnet50", batch=8))
    at = opened("traffic", s=scenario)
    assert at.select_slider(key=key_of(at, "w.together")).value == "1"
    at = opened("traffic", s=scenario, asks="item")
    assert at.select_slider(key=key_of(at, "w.together")).value == "8"
    assert not said(at, "requests of 8 images each")


@pytest.mark.parametrize("key", ["max-seqs", "ttft", "budget"])
def test_a_way_of_serving_leaves_the_demand_alone(key):
    at = opened("traffic", s=encode(LLAMA))
    before = next(m.value for m in at.markdown if "at the peak**" in m.value)
    for value in {"max-seqs": (1, 512), "ttft": (4e3, 6e4), "budget": (1024, 16384)}[key]:
        at.number_input(key=key_of(at, f"w.{key}")).set_value(value).run()
        after = next(m.value for m in alive(at).markdown if "at the peak**" in m.value)
        assert after.split("**")[1] == before.split("**")[1]


# --- settings belong to what they were set for


def test_a_promise_and_a_batch_stay_with_their_network():
    at = opened("traffic", s=encode(PRESETS["dfx-1.5b"].scenario))
    at.number_input(key=key_of(at, "w.ttft")).set_value(10_000.0).run()
    at.number_input(key=key_of(at, "w.users")).set_value(77.0).run()
    at.number_input(key=key_of(at, "w.clients")).set_value(64).run()
    alive(at.switch_page("views/explore/page.py").run())
    alive(at.switch_page("views/traffic/page.py").run())
    assert at.number_input(key=key_of(at, "w.ttft")).value == 10_000.0  # a change of pages loses nothing
    alive(at.switch_page("views/explore/page.py").run())
    node = PRESETS["node-dlrm"].scenario
    at.query_params["s"] = encode(node)
    alive(at.run())
    alive(at.switch_page("views/traffic/page.py").run())
    fresh = opened("traffic", s=encode(node))
    for key in ("sla", "demand"):
        ours, theirs = (page.number_input(key=key_of(page, f"w.{key}")).value for page in (at, fresh))
        assert ours == theirs
        assert key not in at.query_params
    assert at.select_slider(key=key_of(at, "w.together")).value == "1"
    asked = opened("traffic", s=encode(node), sla="7")
    assert asked.number_input(key=key_of(asked, "w.sla")).value == 7.0


def test_a_batch_is_not_carried_to_another_network():
    at = AppTest.from_file(str(MAIN), default_timeout=240)
    at.query_params["s"] = encode(PRESETS["node-dlrm"].scenario.with_(batch=64))
    alive(at.run())
    at.selectbox(key="w.workload").set_value("xlm-r-large").run()
    found = alive(at).session_state["scenario"]
    assert found.batch == default_scenario("fb-node", "xlm-r-large").batch


# --- links that hold what no widget takes

_HOSTILE = ("inf", "-inf", "1e999", "-1e999", "nan", str(2**64), "1e400", "9" * 400, "0x10", "")


@pytest.mark.parametrize("page", ["traffic", "node", "kernels", "numerics", "split"])
def test_a_number_no_widget_takes_is_one_sentence_and_leaves_the_link(page):
    at = AppTest.from_file(str(MAIN), default_timeout=240)
    at.session_state["kernels_seen"] = True  # a hostile number need not be measured first
    at.run()
    at.query_params["s"] = encode(GRU)
    alive(at.switch_page(f"views/{page}/page.py").run())
    named = (n.key.removeprefix("w.") for n in at.number_input if n.key)
    keys = [name for name in named if f"kept.{name}" in at.session_state]
    assert keys or page in ("split", "numerics")
    for value in _HOSTILE:
        for key in keys:
            at.query_params[key] = value
        alive(at.run())
        assert not at.error, (value, at.error[0].value)
        said = [w.value for w in at.warning]
        left = [key for key in keys if key in at.query_params]
        timed = value == str(2**64)  # a time has no upper limit
        assert not left or timed, (value, left)
        assert len(set(said)) == len(said) <= len(keys), (value, said)
        assert len(said) == len(keys) or timed, (value, said)


def test_a_load_no_slider_takes_is_said():
    for value in _HOSTILE[:5]:
        at = opened("traffic", s=encode(GRU), qps=value)
        assert len(at.warning) == 1
        assert "Load" in at.warning[0].value
        assert not at.error


def test_a_load_beyond_the_slider_is_said_beside_what_is_shown():
    for value, shown in ("1e9", "max"), ("1e-9", "min"):
        at = opened("traffic", s=encode(GRU), qps=value)
        slider = at.slider(key=key_of(at, "w.qps"))
        assert slider.value == getattr(slider, shown)
        assert [i.value for i in at.info if "is outside the range" in i.value]
    slider.set_value(slider.max).run()
    assert not [i.value for i in alive(at).info if "is outside the range" in i.value]


def test_a_day_is_shown_whole_and_its_peak_has_a_sentence():
    at = opened("traffic", s=encode(GRU), come="day", day="86400")
    assert said(at, "QPS on average at p99")
    top = at.slider(key=key_of(at, "w.qps"))
    top.set_value(0.7 * top.max).run()
    assert "At the peak of the day" in alive(at).error[0].value
    assert not said(at, "covers the first")


@pytest.mark.parametrize(
    ("preset", "slow"),
    [
        ("brainwave-gru", {"devices.0.npu.clock": "0.001 Hz"}),
        ("v100-1.5b", {"devices.0.memory.hbm.bandwidth": "1 B/s"}),
        ("wide-deep-fp32", {"devices.0.memory.dram.bandwidth": "0.01 B/s"}),
        ("brainwave-gru", {"devices.0.npu.clock": "1 kHz"}),
    ],
)
def test_a_scenario_that_takes_years_has_a_slider(preset, slow):
    at = opened("traffic", s=encode(PRESETS[preset].scenario.with_(overrides=slow)))
    assert not at.error, at.error[0].value
    if preset == "v100-1.5b":  # clients of a closed loop wait as long as it takes
        assert len(at.metric) == 6
        return
    slider = at.slider(key=key_of(at, "w.qps"))
    assert 0 < slider.min < slider.max
    slider.set_value(slider.max).run()
    assert "grows without limit" in alive(at).error[0].value
