"""Power comes from activity: parts sum up, the cap takes clock, published points come out, and the host is counted."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from engine.analyses.node.power import against_load, sustained
from engine.cost.report import Report
from engine.devices.card.energy import voltage
from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.resolve.presets import preset
from engine.scenario import Scenario

LOADS = (0.0, 0.25, 0.5, 0.75, 1.0)


def _copies(workload: str, **changes) -> Scenario:
    return default_scenario("fb-node", workload, scheme="replicas", devices=6, **changes)


def _tops(scenario: Scenario, rate: float) -> float:
    report: Report = evaluate(scenario)
    return sum(op.flops for op in report.ops) * rate / scenario.batch / 1e12


@pytest.mark.parametrize(("precision", "low", "high"), [("int8", 30, 45), ("fp16", 4, 6)])
def test_a_full_array_draws_the_published_power_at_the_lowest_clock(precision, low, high):
    """13 W at 30 TOPS of INT8 and at 4 TFLOPS of FP16; the highest clock is left to what keeps the array less busy."""
    full = sustained(default_scenario("fb-card", "mlp-121m", precision=precision, batch=4096))
    assert full.governed
    assert full.card_w == pytest.approx(13.0, rel=0.01)
    assert full.clock_hz == pytest.approx(457.763671875e6 * low / high, rel=0.05)


def test_the_clock_follows_the_workload():
    clocks = {
        name: sustained(s).clock_hz
        for name, s in {
            "mlp": default_scenario("fb-card", "mlp-121m", precision="int8", batch=4096),
            "regnet": _copies("regnety-128gf", precision="int8", batch=16),
            "dlrm": preset("node-dlrm").scenario,
        }.items()
    }
    assert clocks["mlp"] < clocks["regnet"] < clocks["dlrm"]


@pytest.mark.parametrize("workload", ["dlrm-more-complex", "xlm-r-large", "regnety-128gf"])
def test_power_rises_with_load_and_stays_under_the_cap(workload):
    scenario = default_scenario("fb-node", workload) if "dlrm" in workload else _copies(workload)
    full, points = sustained(scenario), against_load(scenario, LOADS)
    assert points[0].cards_w == pytest.approx(6 * 3.0 + 13.0)
    assert points[-1].cards_w == pytest.approx(full.cards_w, rel=1e-3)
    assert points[-1].clock_hz == pytest.approx(full.clock_hz, rel=1e-3)
    assert all(a.cards_w < b.cards_w and a.host_w <= b.host_w for a, b in pairwise(points))
    assert all(a.clock_hz >= b.clock_hz for a, b in pairwise(points))
    assert full.cards_w <= 91.0 * (1 + 1e-9)
    assert math.fsum(full.parts.values()) == pytest.approx(full.cards * full.card_w)


def test_energy_by_part_follows_what_is_done():
    wide, low = (evaluate(_copies("regnety-128gf", precision=p)).energy for p in ("fp16", "int8"))
    assert low["arrays"] < wide["arrays"] / 3
    assert low["LPDDR"] < wide["LPDDR"] / 1.5
    assert all(value >= 0 for value in low.values())
    lookups = evaluate(default_scenario("fb-node", "dlrm-more-complex")).energy
    rows = evaluate(default_scenario("fb-node", "dlrm-more-complex", params={"lookups": 24})).energy
    assert rows["LPDDR"] == pytest.approx(2 * lookups["LPDDR"], rel=0.2)  # of the busiest card, and nothing else


def test_a_lower_clock_saves_energy_and_takes_rate():
    base = _copies("regnety-128gf", precision="int8", batch=16)
    capped = base.with_(overrides={"devices.0.power.max": 9.0})
    a, b = sustained(base), sustained(capped)
    assert b.card_w == pytest.approx(9.0, rel=0.01)
    assert b.throughput_per_s < a.throughput_per_s
    assert b.throughput_per_s / b.card_w / b.cards > a.throughput_per_s / a.card_w / a.cards * 0.95
    assert voltage(0.6, 1.0) == 1.0 > voltage(0.6, 0.5) > 0


def test_a_host_that_works_counts():
    video, elsewhere = preset("node-video").scenario, _copies("resnext3d-101")
    busy, idle = sustained(video), sustained(elsewhere)
    assert busy.host_w == pytest.approx(86.0, rel=0.02)  # all of its cores decode
    assert idle.host_w < 45
    assert busy.node_w - busy.cards_w == pytest.approx(busy.host_w)


@pytest.mark.parametrize("workload", ["resnext101-32x4d", "regnety-128gf", "xlm-r-large"])
def test_the_node_does_more_a_joule_than_its_host_alone_hosts_counted_on_both_sides(workload):
    node = sustained(_copies(workload))
    alone = evaluate(default_scenario("xeon-d-2191", workload))
    assert node.per_joule > 2 * alone.throughput_per_s / alone.power_w


def test_what_counts_no_energy_is_refused_in_a_sentence():
    with pytest.raises(Unsupported, match="counts no energy by part"):
        sustained(default_scenario("h100-sxm", "bert-base"))
