"""Answers of a load, without a page: closed forms, simulations, plans, files, and charts that hold the numbers."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from app.shared import formats as fmt
from app.shared import load as loads
from app.shared.load import Load, Site
from app.views.traffic import charts, tables
from app.views.traffic.simulation import simulation
from engine.evaluate import evaluate
from engine.resolve.presets import PRESETS
from engine.scenario import ScenarioError, encode
from engine.traffic import (
    Bursty,
    Deterministic,
    Diurnal,
    Gamma,
    LogNormal,
    RequestTimeline,
    Sla,
    Uniform,
    capacity,
    capacity_plan,
)
from engine.traffic.closed_forms import md1
from engine.traffic.scenario_load import node_facts
from engine.traffic.serving import Serving
from tests.app.valid import valid

GRU = PRESETS["brainwave-gru"].scenario
XLMR = encode(PRESETS["node-xlmr"].scenario)
DLRM = encode(PRESETS["node-dlrm"].scenario)
SITE = Site(100.0, 0.6, 0.2, "node", 20, 15_000.0, None, None)
TRACE = "time_s\n" + "\n".join(f"{i * 0.01 + (i % 3) * 0.002:.4f}" for i in range(400))
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def gru():
    """A load with a closed form, its agreement and its answer."""
    load, sla = Load(encode(GRU)), Sla(5e-3)
    return load, sla, loads.answer(load, sla)


def test_the_closed_form_is_that_of_the_service_time(gru):
    load, _, found = gru
    service = evaluate(GRU).latency_s
    assert found.kind == "M/D/1"
    assert found.capacity.qps == pytest.approx(1 / service, rel=0.05)
    for p in found.curve[::6]:
        law = md1(p.qps, 1 / found.capacity.qps).later(service - 1 / found.capacity.qps)
        assert p.figure == pytest.approx(law.quantile(0.99), rel=1e-6)
    assert load.at(3.0).qps == 3.0


def test_a_law_and_a_simulation_agree_and_bins_hold_everybody(gru):
    load, _, found = gru
    qps = 0.5 * found.capacity.qps
    law = loads.point(load, qps, found.capacity)
    assert law.shares.sum() == pytest.approx(1.0, abs=2e-3)
    assert np.diff(np.log(law.edges)).std() < 1e-9
    batched = loads.point(Load(encode(GRU), Serving(places=10_000)), qps, found.capacity)
    assert batched.kind == "simulation"
    assert batched.shares.sum() == pytest.approx(1.0)
    assert batched.figures["p99"] == pytest.approx(law.figures["p99"], rel=0.15)


def test_overload_has_no_tail_but_a_sentence(gru):
    load, _, found = gru
    detail = loads.point(load, 1.1 * found.capacity.qps, found.capacity)
    assert detail.message
    assert not detail.figures
    text = tables.overload(1.1 * found.capacity.qps, found.capacity)
    assert "the queue grows without limit, so there is no p99." in text


@pytest.mark.parametrize(
    "load",
    [
        Load(encode(GRU), Serving(max_batch=4, timeout_s=1e-3), Deterministic(1.0)),
        Load(encode(GRU), arrivals=Gamma(1.0, 2.0)),
        Load(encode(GRU), arrivals=Bursty(1.0, 4.0, 0.1, 0.05)),
        Load(encode(GRU), arrivals=Diurnal(1.0, loads.DAY, 5.0)),
        Load(encode(GRU), trace=TRACE),
        Load(XLMR, Serving(max_batch=4, timeout_s=5e-3, sizes=LogNormal(32, 0.5, 64), buckets=2)),
        Load(XLMR, Serving(sizes=Uniform(1, 63), places=20)),
        Load(DLRM, Serving("stages", max_batch=2, timeout_s=1e-4)),
        Load(DLRM, Serving(sizes=LogNormal(8, 0.5, 16), sizes_are="lookups")),
        Load(DLRM, Serving("stages", sizes=Uniform(1, 95), sizes_are="items")),
        Load(encode(PRESETS["nic-coprocessor"].scenario), Serving("stages")),
        Load(encode(GRU), Serving("pool", services=4)),
        Load(encode(PRESETS["tonic-fc"].scenario), Serving("packets", share=0.1, places=64)),
    ],
)
def test_every_way_to_load_it_has_an_answer(load):
    sla = Sla(0.1)
    answer = loads.answer(load, sla)
    assert answer.capacity.qps > 0
    assert answer.headline.qps <= 2 * answer.capacity.qps
    assert len(answer.curve) >= 10
    assert all(0.0 <= share <= 1.0 + 1e-9 for p in answer.curve for share in p.use.values())
    assert max(answer.curve[-1].use.values()) > (0.5 if load.process == "diurnal" else 0.85)  # a quick run is not a day
    detail = loads.point(load, 0.3 * answer.capacity.qps, answer.capacity)
    assert detail.figures["p50"] <= detail.figures["p99"]


def test_a_long_simulation_counts_stops_and_narrows(gru):
    load, sla, found = gru
    job = simulation(load, sla, 0.5 * found.capacity.qps, 50_000)
    job.submit()
    job.wait(120)
    assert job.done
    assert not job.cancelled
    assert job.headline.qps == pytest.approx(found.headline.qps, rel=0.2)
    assert job.detail.latency.p99.low <= job.detail.latency.p99.value <= job.detail.latency.p99.high
    assert 0.8 < job.share <= 1.0
    tokens = Load(encode(PRESETS["dfx-345m"].scenario), Serving(max_batch=8))
    capacity(*tokens.system())  # compiled, tables priced: what is left can be cancelled
    slow = simulation(tokens, Sla(5.0), 1.0, 1_000_000)
    slow.submit()
    slow.cancel()
    slow.wait(240)
    assert slow.cancelled
    assert slow.headline is None
    assert slow.share < 1.0
    assert "Cancelled" in tables.job_said(slow, 1.0)


def test_a_trace_brings_its_sizes_and_a_bad_one_a_sentence():
    rows = "".join(f"{0.01 * i:.2f},{64 if i % 2 else 8}\n" for i in range(400))
    load = Load(XLMR, trace="time_s,size\n" + rows)
    system, sizes, _ = load.system()
    assert sizes.draw(4, 0, 0, 0).tolist() == [8, 64, 8, 64]
    found = loads.point(load, 20.0, capacity(system, sizes))
    assert found.figures["p99"] > 1.02 * found.figures["p50"] or found.figures["p95"] > found.figures["p50"]
    for text, says in {"time_s\n1\n\0": "line 3", "when\n1": "time_s", "time_s\n2\n1": "line 3"}.items():
        with pytest.raises(ScenarioError, match=says) as caught:
            loads.answer(Load(XLMR, trace=text), Sla(1.0))
        assert "\n" not in str(caught.value)
    with pytest.raises(ScenarioError, match="tokens"):
        loads.answer(Load(XLMR, trace="time_s,output\n1,4\n2,5\n"), Sla(1.0))


# --- tables and figures


@pytest.mark.parametrize(
    ("low", "value", "high", "said"),
    [
        (43.9, 43.9, 43.9, "simulated to within 1%"),
        (43.2, 43.9, 44.5, "simulated to within 2%"),
        (400.0, 420.0, 450.0, "99% confidence: 400 to 450 QPS"),
        (631.0, 928.0, 1_004.0, "99% confidence: 631 to 1,000 QPS"),  # in the unit of what it is about
        (0.7, 2.0, 14.0, "at least 0.700 QPS at 99% confidence; simulate more"),
        (0.0656, 6.55, 14.0, "too few requests were simulated for a 99% confidence interval; simulate more"),
        (0.0, 2.0, 14.0, "too few requests were simulated for a 99% confidence interval; simulate more"),
    ],
)
def test_an_uncertainty_is_said_as_people_read_it(low, value, high, said):
    assert tables._sure(low, value, high) == said


def test_the_lowest_load_of_a_curve_is_named_and_not_called_idle():
    """Its p99 of 1.81 s was said to be that of an idle machine, which answers in 907 ms."""
    figures = ((0.05, 1.81), (0.5, 3.0), (1.0, 9.0))
    points = [loads.LoadPoint(qps, seconds, seconds, seconds, seconds, {}) for qps, seconds in figures]
    said = tables.knee(points, Sla(5.0))
    assert said == "1.81 s at 0.0500 QPS, 3.00 s at 0.500 QPS; limit 5.00 s"


def test_a_plan_grows_with_what_it_survives_and_says_what_it_lacks():
    report = evaluate(PRESETS["dfx-1.5b"].scenario)
    sla = Sla(5.0)
    best = loads.answer(Load(report.token), sla).headline
    frame, text, notes = tables.plans(report, best, replace(SITE, peak_qps=10 * best.qps, survives="rack"))
    rows = zip(frame["Failures tolerated"], frame["Nodes"], strict=True)
    nodes = {domain: count for names, count in rows for domain in names.split(" or ")}
    assert nodes["none"] == 12
    assert nodes["none"] <= nodes["one card"] <= nodes["one node"] <= nodes["one rack"]
    assert frame["Failures tolerated"][0].startswith("one rack")
    assert frame["Nodes"].is_unique, "a row for each number of nodes: no failure that changes nothing"
    assert f"{nodes['one rack']} nodes" in text
    assert "W when idle: that part of its power follows no work" in notes[0]
    thrifty, _, none = tables.plans(report, best, replace(SITE, peak_qps=10 * best.qps, idle_w=10.0))
    assert not none
    (made,) = (name for name in frame if name.startswith("Requests/J"))
    assert made in thrifty
    assert thrifty[made].max() > frame[made].max()
    poor = evaluate(GRU)
    few, said, notes = tables.plans(poor, loads.answer(Load(poor.token), Sla(5e-3)).headline, SITE)
    assert few["Nodes"].min() >= 1
    assert few["$ / M sequences"].isna().all()
    assert "$" not in said
    assert "No price is published" in notes[0]
    none, _, why = tables.plans(poor, loads.answer(Load(poor.token), Sla(1e-6)).headline, SITE)
    assert none is None
    assert "No load keeps" in why[0]


@pytest.mark.parametrize("each", [1.19e-5, 0.0042, 0.5, 3.0, 4.2e7])
def test_no_column_of_a_plan_counts_zeros(each):
    """0.0000119 sequences/J is 11.9 µ of them."""
    best = loads.answer(Load(encode(GRU)), Sla(5e-3)).headline
    node, _ = node_facts(GRU, best)
    plan = capacity_plan(SITE.demand, node, SITE.facts(GRU.costs))
    columns = tables.columns([replace(plan, inferences_per_joule=each, energy_j_per_inference=1 / each)], "sequence")
    for name, values in columns.items():
        if name.startswith(("Sequences/J", "Energy")):
            assert 1e-3 <= values[0] < 1000, name  # a count has no m for a thousandth


def test_only_an_overloaded_part_stands_out():
    """A decoder's server is at work all the time at 80% of what it carries: its batches still grow."""
    load = Load(encode(PRESETS["v100-1.5b"].scenario), Serving(max_batch=16))
    system, sizes, outputs = load.system()
    top = capacity(system, sizes, outputs)
    for share, over in ((0.8, False), (1.3, True)):
        detail = loads.point(load, share * top.qps, top)
        assert max(detail.use.values()) >= 0.995
        assert (detail.message is not None) == over
        fig = valid(charts.use(detail.use, False, over=detail.message is not None))
        colours = fig.data[1].marker.color
        assert (charts.PICK[False] in colours) == over


def test_files_hold_units_token_and_versions(gru):
    load, sla, found = gru
    report = evaluate(GRU)
    rows = list(csv.DictReader(io.StringIO(fmt.csv_text(tables.curve_rows(report, load, sla, found.curve)))))
    assert len(rows) == len(found.curve)
    assert list(rows[0])[:2] == ["id", "token"]
    assert {r["token"] for r in rows} == {encode(GRU)}
    assert float(rows[3]["figure_s"]) == found.curve[3].figure
    assert all(r["engine_version"] and r["catalog_version"] for r in rows)
    detail = loads.point(load, found.curve[3].qps, found.capacity)
    here = tables.here(report, load, sla, found.curve[3].qps, found.headline, detail)
    assert json.loads(json.dumps(here, allow_nan=False))["p99_s"] == detail.figures["p99"]


def test_figures_hold_the_numbers(gru):
    load, sla, found = gru
    detail = loads.point(load, 0.5 * found.capacity.qps, found.capacity)
    fig = valid(charts.curve(found.curve, sla, found.headline.qps, found.capacity.qps, 1.0, False))
    drawn = next(t for t in fig.data if t.mode == "lines+markers")
    assert drawn.y[5] == pytest.approx(1e3 * found.curve[5].figure)
    fig = valid(charts.distribution(detail, sla.seconds, "p99", True))
    assert sum(fig.data[0].y) == pytest.approx(100 * detail.shares.sum())
    assert fig.data[0].x[0] == pytest.approx(1e3 * detail.edges[:2].mean())
    came, done = np.array([0.0, 1.0]), np.array([2.0, 4.0])
    start = {"server": np.array([0.0, 2.0])}
    seen = RequestTimeline(came, {"server": came}, start, {"server": done}, done, np.ones(2, int))
    assert tables.waits(seen) == pytest.approx((0.2, 2.5))
    fig = valid(charts.window(seen, False))
    assert list(fig.data[1].x) == [2.0, 2.0]


def test_a_window_of_several_stations_shows_waits_wires_and_services():
    load = Load(encode(PRESETS["nic-coprocessor"].scenario), Serving("stages"))
    seen = loads.window(load, 150.0)
    fig = valid(charts.window(seen, False))
    looks = {colour for bars in fig.data for colour in bars.marker.color}
    assert looks == {charts.CLOUD[False], charts.PALETTE["links"][False], charts.INK[False]}
    assert {bars.width for bars in fig.data} == {0.35, 0.8}
    drawn = sum(sum(t.x) for t in fig.data)
    assert drawn == pytest.approx(1e3 * (seen.finish - seen.arrive)[:40].sum(), rel=1e-9)
    assert "narrow: on a link" in tables.window_key(seen)
    assert "hatched: Agilio" in tables.window_key(seen)
