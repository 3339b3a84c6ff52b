"""Traffic: closed forms at once, simulation on demand, overload in a sentence, and charts that hold the numbers."""

import csv
import io
import json
import time
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app import load as loads
from app import traffic_charts as charts
from app import traffic_tables as tables
from app.load import ARRIVALS, Load
from app.simulation import Simulation
from engine.evaluate import evaluate
from engine.presets import PRESETS
from engine.scenario import encode
from engine.traffic import Sla, Timeline
from engine.traffic.closed_forms import md1

MAIN = Path(__file__).parents[2] / "app" / "main.py"
GRU = PRESETS["brainwave-gru"].scenario
TRACE = "time_s\n" + "\n".join(f"{i * 0.01 + (i % 3) * 0.002:.4f}" for i in range(400))
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def gru():
    """A load with a closed form, its agreement and its answer."""
    load, sla = Load(encode(GRU)), Sla(5e-3)
    return load, sla, loads.answer(load, sla)


def opened(**query: str) -> AppTest:
    at = AppTest.from_file(str(MAIN), default_timeout=240)
    at.run()
    for key, value in query.items():
        at.query_params[key] = value
    return alive(at.switch_page("views/traffic.py").run())


def alive(at: AppTest) -> AppTest:
    assert not at.exception, [e.message for e in at.exception]
    return at


def said(at: AppTest, text: str) -> bool:
    return any(text in m.value for m in [*at.markdown, *at.caption])


# --- answers


def test_the_closed_form_is_that_of_the_service_time(gru):
    load, _, found = gru
    service = evaluate(GRU).latency_s
    assert found.kind == "M/D/1"
    assert found.capacity.qps == pytest.approx(1 / service, rel=0.05)
    for p in found.curve[::6]:
        law = md1(p.qps, 1 / found.capacity.qps)
        assert p.figure == pytest.approx(law.quantile(0.99), rel=1e-6)
    assert load.at(3.0).qps == 3.0


def test_a_law_and_a_simulation_agree_and_bins_hold_everybody(gru):
    load, sla, found = gru
    qps = 0.5 * found.capacity.qps
    law = loads.point(load, sla, qps, found.capacity)
    assert law.shares.sum() == pytest.approx(1.0, abs=2e-3)
    assert np.diff(np.log(law.edges)).std() < 1e-9
    batched = loads.point(Load(encode(GRU), places=10_000), sla, qps, found.capacity)
    assert batched.kind == "simulation"
    assert batched.shares.sum() == pytest.approx(1.0)
    assert batched.figures["p99"] == pytest.approx(law.figures["p99"], rel=0.15)


def test_overload_has_no_tail_but_a_sentence(gru):
    load, sla, found = gru
    spot = loads.point(load, sla, 1.1 * found.capacity.qps, found.capacity)
    assert spot.message
    assert not spot.figures
    text = tables.overload(1.1 * found.capacity.qps, found.capacity)
    assert "the queue grows without limit, so there is no p99." in text


@pytest.mark.parametrize(
    "load",
    [
        Load(encode(GRU), "even", max_batch=4, timeout_s=1e-3),
        Load(encode(GRU), "gamma"),
        Load(encode(GRU), "bursty", burst_s=0.05),
        Load(encode(GRU), "day", day_s=5.0),
        Load(encode(GRU), "trace", trace=TRACE),
        Load(encode(PRESETS["node-xlmr"].scenario), max_batch=4, timeout_s=5e-3, sizes="lognormal", buckets=2),
        Load(encode(PRESETS["node-xlmr"].scenario), sizes="uniform", places=20),
        Load(encode(PRESETS["dfx-345m"].scenario), max_batch=4, stream=True),
    ],
)  # fmt: skip
def test_every_way_to_load_it_has_an_answer(load):
    sla = Sla(1.0 if load.stream else 0.1, time="ttft" if load.stream else "latency")
    found = loads.answer(load, sla)
    assert found.capacity.qps > 0
    assert found.headline.qps <= 2 * found.capacity.qps
    assert len(found.curve) >= 10
    spot = loads.point(load, sla, 0.3 * found.capacity.qps, found.capacity)
    assert spot.figures["p50"] <= spot.figures["p99"]


def test_a_long_simulation_counts_stops_and_narrows(gru):
    load, sla, found = gru
    job = Simulation(load, sla, 0.5 * found.capacity.qps, 50_000)
    job.wait(120)
    assert not job.running
    assert not job.cancelled
    assert job.headline.qps == pytest.approx(found.headline.qps, rel=0.2)
    assert job.spot.latency.p99.low <= job.spot.latency.p99.value <= job.spot.latency.p99.high
    assert job.progress.done <= job.progress.total
    assert job.progress.done > 0.8 * job.progress.total
    slow = Simulation(Load(encode(PRESETS["dfx-345m"].scenario), max_batch=8, stream=True), Sla(5.0), 1.0, 1_000_000)
    began = time.monotonic()
    slow.cancel()
    slow.wait(60)
    assert slow.cancelled
    assert slow.headline is None
    assert time.monotonic() - began < 30
    assert "Cancelled" in tables.job_said(slow, 1.0)


# --- tables and figures


def test_a_plan_grows_with_what_it_survives_and_says_what_it_lacks():
    report = evaluate(PRESETS["dfx-1.5b"].scenario)
    sla = Sla(5.0)
    best = loads.answer(Load(report.token), sla).headline
    frame, text, _ = tables.plans(report, best, 10 * best.qps, 0.6, 0.2, "rack", 20, 15_000.0, None)
    nodes = dict(zip(frame["Down"], frame["Nodes"], strict=True))
    assert nodes["nothing"] == 12
    assert nodes["nothing"] <= nodes["one card"] <= nodes["one node"] <= nodes["one rack"]
    assert frame["Down"][0] == "one rack"
    assert f"{nodes['one rack']} nodes" in text
    poor = evaluate(GRU)
    found = tables.plans(poor, best, 10.0, 0.6, 0.2, "node", 20, 15_000.0, None)
    assert found[0] is None
    assert "No price is published" in found[2][0]


def test_files_hold_units_token_and_versions(gru):
    load, sla, found = gru
    report = evaluate(GRU)
    rows = list(csv.DictReader(io.StringIO(tables.curve_csv(report, load, sla, found.curve))))
    assert len(rows) == len(found.curve)
    assert list(rows[0])[:2] == ["id", "token"]
    assert {r["token"] for r in rows} == {encode(GRU)}
    assert float(rows[3]["figure_s"]) == found.curve[3].figure
    assert all(r["engine_version"] and r["catalog_version"] for r in rows)
    spot = loads.point(load, sla, found.curve[3].qps, found.capacity)
    whole = tables.everything(report, load, sla, found.curve[3].qps, found.headline, spot, found.curve, None)
    assert json.loads(json.dumps(whole, allow_nan=False))["here"]["p99_s"] == spot.figures["p99"]


def test_figures_hold_the_numbers(gru):
    load, sla, found = gru
    spot = loads.point(load, sla, 0.5 * found.capacity.qps, found.capacity)
    fig = charts.curve(found.curve, "p99", sla.seconds, found.headline.qps, found.capacity.qps, (1.0, None), False)
    drawn = next(t for t in fig.data if t.mode == "lines+markers")
    assert drawn.y[5] == pytest.approx(1e3 * found.curve[5].figure)
    fig = charts.distribution(spot, sla.seconds, "p99", True)
    assert sum(fig.data[0].y) == pytest.approx(100 * spot.shares.sum())
    assert fig.data[0].x[0] == pytest.approx(np.log10(spot.edges[:2]).mean())
    seen = Timeline(np.array([0.0, 1.0]), {"server": np.array([0.0, 2.0])}, None, np.array([2.0, 4.0]), np.ones(2, int))
    assert tables.waits(seen) == pytest.approx((0.2, 2.5))
    fig = charts.window(seen, False)
    assert list(fig.data[1].x) == [2.0, 2.0]


# --- the page


def test_it_opens_with_an_answer_and_the_slider_moves_it():
    at = opened(s=encode(GRU))
    assert said(at, "**Max ")
    assert said(at, "Closed form M/D/1")
    assert not at.error
    low, high = at.slider(key="w.qps").min, at.slider(key="w.qps").max
    at.slider(key="w.qps").set_value(low).run()
    assert said(alive(at), "inside the limit")
    at.slider(key="w.qps").set_value(high).run()
    assert "grows without limit" in alive(at).error[0].value
    again = opened(s=encode(GRU), qps=str(high))
    assert again.slider(key="w.qps").value == high
    assert again.error[0].value == at.error[0].value


def test_settings_react_and_come_from_an_address():
    at = opened(s=encode(GRU))
    at.selectbox(key="come").set_value("gamma").run()
    at.select_slider(key="together").set_value(4).run()
    assert said(alive(at), "Quick simulation")
    again = opened(s=encode(GRU), come=ARRIVALS["gamma"], together="4")
    assert again.selectbox(key="come").value == "gamma"
    assert again.select_slider(key="together").value == 4
    assert [m.value for m in again.markdown] == [m.value for m in at.markdown]
    at.number_input(key="sla").set_value(0.1).run()
    assert said(alive(at), "No load keeps")


def test_a_bad_address_changes_nothing():
    at = opened(
        s=encode(GRU), qps="-5", come="![x](http://evil.example/x.png)", sla="nan", together="7", survives="moon"
    )
    assert said(at, "Closed form M/D/1")
    assert at.select_slider(key="together").value == 1


def test_a_simulation_runs_on_the_button():
    at = opened(s=encode(GRU))
    at.selectbox(key="t.requests").set_value(50_000).run()
    at.button(key="t.run").click().run()
    job = at.session_state["t.job"]
    job.wait(120)
    alive(at.run())
    assert said(at, "Simulated in")
    assert said(at, "Simulated, 50.0 k requests a point")


def test_what_cannot_run_or_does_not_fit_says_so():
    odd = PRESETS["dfx-1.5b"].scenario
    tight = odd.with_(devices=1, scheme="single", overrides={"devices.0.memory.hbm.capacity": "2 GB"})
    assert "Does not fit" in opened(s=encode(tight)).error[0].value
    other = odd.with_(system="agilio-cx", scheme="on-path", devices=1, tile=(), switches={})
    assert len(opened(s=encode(other)).info) == 1
