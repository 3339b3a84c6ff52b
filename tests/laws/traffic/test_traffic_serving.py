"""Arrangements of a scenario as several queues, sizes of every kind, and systems compared at an equal agreement."""

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from engine.evaluate import evaluate
from engine.kernels.jit import JIT_ENABLED
from engine.resolve.choices import default_scenario
from engine.resolve.presets import PRESETS, preset
from engine.scenario import Scenario
from engine.traffic import (
    Bursty,
    DynamicBatching,
    Fixed,
    LogNormal,
    Poisson,
    SiteFacts,
    Sla,
    TrafficError,
    Uniform,
    capacity,
    max_qps,
    simulate,
    timeline,
)
from engine.traffic.arrangements import ARRANGEMENTS, arrangements, packets, pool, stages
from engine.traffic.plan import CapacityPlan, Demand, capacity_plan
from engine.traffic.scenario_load import node_facts, service_table
from engine.traffic.serving import Serving, compare
from tests.each import each

pytestmark = pytest.mark.skipif(not JIT_ENABLED, reason="statistics need the compiled engine's speed")


@cache
def offered() -> list[tuple[str, str]]:
    """Every preset with the arrangements that it allows."""
    return [(id, name) for id, p in PRESETS.items() for name, no in arrangements(p.scenario).items() if no is None]


def test_every_arrangement_is_offered_somewhere_and_refused_with_a_reason() -> None:
    assert {name for _, name in offered()} == set(ARRANGEMENTS)
    pairs = {("node-dlrm", "stages"), ("nic-coprocessor", "stages"), ("brainwave-gru", "pool"), ("tonic-fc", "packets")}
    assert pairs <= set(offered())
    for id, preset_ in PRESETS.items():
        for name, reason in arrangements(preset_.scenario).items():
            assert ((id, name) in offered()) != bool(reason)
    for make in (stages, pool, lambda s: packets(s, 0.1)):
        with pytest.raises(TrafficError, match="arrangement is"):
            make(preset("wide-deep-int8").scenario)


@each(("id", "name"), lambda: [pair for pair in offered() if pair[1] != "whole"])
def test_idle_latency_and_rate_are_those_of_evaluate(id: str, name: str) -> None:
    scenario = preset(id).scenario
    report = evaluate(scenario)
    system, sizes, _ = Serving(name, services=3, share=1.0, places=None).of(scenario)
    top = capacity(system, sizes)
    idle = simulate(system, Poisson(0.01 * top.qps), sizes=sizes, requests=3_200)
    assert idle.latency.p50.value == pytest.approx(report.latency_s, rel=0.001)
    assert idle.little_ok
    rate = report.throughput_per_s / scenario.batch
    if name == "stages":
        assert top.qps == pytest.approx(rate, rel=1e-9)
    elif name == "packets":
        assert top.qps == pytest.approx(rate, rel=1e-3)
    else:  # copies overlap their answers on the wire with the next request
        assert 3 * rate <= top.qps <= 3 * rate * 1.02
    loaded = simulate(system, Poisson(0.7 * top.qps), sizes=sizes, requests=60_000)
    assert loaded.little_ok
    assert loaded.latency.p99.value > idle.latency.p99.value
    assert max(loaded.use.values()) == pytest.approx(0.7, rel=0.03)
    window = timeline(system, Poisson(0.7 * top.qps), sizes=sizes, show=50)
    assert list(window.start) == [s.name for s in system.stations]


def test_a_nic_forwards_while_it_classifies_a_share() -> None:
    """Packets that are only forwarded pass the executors by; the rate of those asked about is the executors'."""
    scenario = preset("tonic-fc").scenario
    system, sizes = packets(scenario, 0.1, places=64)
    path, executors = system.stations
    assert capacity(system, sizes).qps == pytest.approx(10 * evaluate(scenario).throughput_per_s, rel=0.01)
    assert executors.service.hold_s[0, 0] == 0.0
    report = simulate(system, Poisson(5_000.0), sizes=sizes, requests=100_000, keep_samples=True)
    assert (report.samples >= evaluate(scenario).latency_s * (1 - 1e-9)).all()  # of inferences alone
    assert len(report.samples) == pytest.approx(0.1 * 0.9 * 100_000, rel=0.05)
    assert report.passed.p50.value == pytest.approx(700 / 800e6)  # its cycles, however many pass at once
    assert path.service.hold_s[0, 0] < 700 / 800e6
    assert report.little_ok
    assert report.latency.p50.spread < 0.05
    assert any("the others pass in 875 ns" in note for note in report.notes)
    flooded = simulate(system, Poisson(60_000.0), sizes=sizes, requests=100_000)
    assert flooded.stable
    assert flooded.dropped.value == pytest.approx(0.1 - evaluate(scenario).throughput_per_s / 60_000.0, rel=0.1)


@pytest.mark.parametrize(
    ("id", "override", "limit"),
    [
        ("node-dlrm", {}, "dense"),
        ("node-dlrm", {"links.peer.bandwidth": "0.5 GB/s"}, "PCIe 3.0 x4, in"),
        ("node-dlrm", {"links.network.bandwidth": "2 Gbps"}, "50 Gbit/s multi-host NIC, in"),
        ("nic-coprocessor", {}, "Xeon E5-1630 v3"),
        ("brainwave-gru", {"links.network.bandwidth": "0.1 Gbps"}, "NIC"),
    ],
)
def test_the_limit_is_named_card_link_nic_or_host(id: str, override: dict, limit: str) -> None:
    scenario = preset(id).scenario.with_(overrides=override)
    system, sizes, _ = Serving("pool" if id == "brainwave-gru" else "stages").of(scenario)
    assert capacity(system, sizes).limit == limit
    best = max_qps(system, Sla(100 * evaluate(scenario).latency_s), Poisson(1.0), requests=20_000)
    assert best.limit == limit
    assert max_qps(system, Sla(1.3 * evaluate(scenario).latency_s), Poisson(1.0), requests=20_000).limit == "queueing"


def test_stages_batch_at_the_first_and_take_what_waits_at_the_next() -> None:
    system = stages(preset("node-dlrm").scenario, DynamicBatching(4, 1e-3))
    rules = {s.name: s.policy for s in system.stations}
    assert rules["sparse"] == DynamicBatching(4, 1e-3)
    assert rules["dense"] == DynamicBatching(4, 0.0)
    assert {p.max_batch for name, p in rules.items() if name not in ("sparse", "dense")} == {1}


@pytest.mark.parametrize(("are", "law"), [("items", Uniform(1, 128)), ("lookups", LogNormal(8, 0.5, 32))])
def test_sizes_may_be_items_or_lookups(are: str, law) -> None:
    scenario = preset("node-dlrm").scenario
    for name in ("whole", "stages"):
        system, sizes, _ = Serving(name, sizes=law, sizes_are=are).of(scenario)
        few = simulate(system, Poisson(100.0), sizes=Fixed(1), requests=2_000)
        many = simulate(system, Poisson(100.0), sizes=Fixed(sizes.largest), requests=2_000)
        assert many.latency.p50.value > 1.05 * few.latency.p50.value
        path = {"items": {"batch": 128}, "lookups": {"params": {"lookups": 32}}}[are]
        assert many.latency.p50.value == pytest.approx(evaluate(scenario.with_(**path)).latency_s, rel=1e-6)
    with pytest.raises(TrafficError, match="sizes_are"):
        service_table(scenario, sizes_are="colours")


def test_length_buckets_pad_less() -> None:
    scenario, law = preset("node-xlmr").scenario, Uniform(8, 128)
    rates = []
    for buckets in (1, 4):
        system, sizes, _ = Serving(max_batch=8, timeout_s=0.02, buckets=buckets, sizes=law).of(scenario)
        rates.append(capacity(system, sizes).qps)
    assert rates[1] > 1.05 * rates[0]


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"arrangement": "heap"}, "arrangement"),
        ({"buckets": 2}, "buckets"),
        ({"max_batch": 0}, "max_batch"),
        ({"arrangement": "packets", "max_batch": 2}, "packets"),
        ({"arrangement": "pool", "sizes": Fixed(2)}, "alike"),
        ({"outputs": Fixed(2)}, "tokens"),
        ({"arrangement": "packets", "share": 0.0}, "share"),
    ],
)
def test_settings_that_do_not_go_together_say_so(setting: dict, says: str) -> None:
    home = {"packets": "tonic-fc", "pool": "brainwave-gru"}.get(setting.get("arrangement"), "node-dlrm")
    with pytest.raises(TrafficError, match=says):
        Serving(**setting).of(preset(home).scenario)


def test_a_site_that_says_nothing_costs_what_a_scenario_does() -> None:
    site, costs = SiteFacts(), default_scenario("h100-sxm", "resnet50").costs
    assert (site.pue, site.usd_per_kwh, site.years) == (costs.pue, costs.energy_usd_per_kwh, costs.years)


def test_systems_are_compared_at_equal_agreement_and_inferences() -> None:
    fast, slow = preset("wide-deep-int8").scenario, preset("wide-deep-fp32").scenario.with_(batch=256)
    demand = Demand((5e5, 1e6))
    site = SiteFacts(pue=1.3)
    scenarios = {"int8": fast, "fp32": slow, "lost": preset("dfx-1.5b").scenario}
    offers = compare(
        scenarios, Serving(), Sla(0.1), demand, Bursty(1.0, 2.0, 0.2, 0.01), site=site, requests=20_000, idle_w=50.0
    )
    ours, theirs, lost = offers
    assert lost.problem
    assert lost.plan is None
    for offer in (ours, theirs):
        carried = offer.plan.carried_qps * offer.scenario.batch
        assert carried >= 1.2e6
        assert offer.plan.degraded_qps == pytest.approx((offer.plan.nodes - 1) * offer.headline.qps)
        # power over inferences, idle power and the site's overhead included
        assert offer.plan.inferences_per_joule == pytest.approx(7.5e5 / offer.plan.mean_w)
    assert ours.plan.usd_per_million < theirs.plan.usd_per_million
    assert not ours.notes
    assert "draws 72 W when idle: that part of its power follows no work" in theirs.notes[0]
    busy = 1e6 / ours.scenario.batch / (ours.plan.nodes * ours.headline.capacity_qps)
    assert ours.plan.peak_use == pytest.approx(busy)
    assert ours.plan.peak_w == pytest.approx(
        ours.plan.nodes * (50.0 + (evaluate(fast).power_w - 50.0) * busy) * 1.3, rel=1e-9
    )


def test_a_gap_in_prices_leaves_the_machines() -> None:
    scenario = preset("brainwave-gru").scenario
    (offer,) = compare({"one": scenario}, Serving(), Sla(4e-3), Demand((5_000.0,)), Poisson(1.0), requests=20_000)
    assert offer.plan.nodes >= 6
    assert offer.plan.capex_usd is None
    assert offer.plan.usd_per_million is None
    assert "No price is published" in " ".join(offer.notes)
    assert np.isfinite(offer.plan.energy_j_per_inference)


def _sequences(scenario: Scenario, **serving: int) -> CapacityPlan:
    """The plan for one sequence a second."""
    sla, demand = Sla(200.0), Demand((1.0,))
    (offer,) = compare({"": scenario}, Serving(**serving), sla, demand, Poisson(1.0), node_usd=1e5, requests=2_000)
    assert offer.plan is not None, offer.problem
    return offer.plan


@pytest.mark.parametrize(
    ("workload", "serving"),
    [
        ("llama3.1-8b", {"max_batch": 64}),
        ("llama3.1-8b", {"max_batch": 1}),
        ("resnet50", {"max_batch": 32}),
        ("resnet50", {"max_batch": 32, "request": "item"}),
        ("resnet50", {"request": "item"}),
    ],
)
def test_a_full_node_draws_what_evaluate_says_of_as_many_requests_together(workload, serving) -> None:
    """64 sequences under way on an H100 were billed the 363 W of one, where they draw 520 W."""
    scenario = default_scenario("h100-sxm", workload, devices=1, scheme="single", batch=4)
    scenario = scenario.with_(inputs=256, outputs=32) if workload != "resnet50" else scenario
    (offer,) = compare(
        {"": scenario},
        Serving(**serving),
        Sla(100.0),
        Demand((1.0,)),
        Poisson(1.0),
        site=SiteFacts(pue=1.0),
        requests=2_000,
    )
    own = 1 if "request" in serving or workload != "resnet50" else scenario.batch
    together = evaluate(scenario.with_(batch=own * serving.get("max_batch", scenario.batch))).power_w
    node = offer.plan
    idle = 0.2 * 700.0
    assert node.peak_w == pytest.approx(node.nodes * (idle + (together - idle) * node.peak_use), rel=1e-9)
    if serving.get("max_batch", 1) > 1:
        assert together > 1.05 * evaluate(scenario.with_(batch=1)).power_w


class Full(NamedTuple):
    """A load that a machine carries, which is all that it can."""

    qps: float
    capacity_qps: float
    message: str = ""


@each("id", lambda: PRESETS)
def test_a_plan_and_a_report_bill_a_machine_alike(id: str) -> None:
    """One node that works for the share of the year that the scenario's costs say, and waits for the rest."""
    scenario = preset(id).scenario.with_(costs={"utilisation": 0.3})
    report, costs = evaluate(scenario), scenario.costs
    if report.usd_per_million is None:
        return
    node, _ = node_facts(scenario, Full(report.throughput_per_s, report.throughput_per_s))
    site = SiteFacts(20, 1e6, 0.0, costs.pue, costs.energy_usd_per_kwh, costs.years)
    demand = Demand((costs.utilisation * report.throughput_per_s,))
    plan = capacity_plan(demand, node, site, headroom=0.0, survives="none")
    assert plan.nodes == 1
    made = costs.utilisation * report.throughput_per_s * 365.25 * 86400
    assert report.usd_per_million == pytest.approx(plan.usd_per_year / made * 1e6, rel=1e-9)


def test_a_million_sequences_cost_what_they_take_whatever_the_scenarios_batch() -> None:
    """A decoder's request is one sequence: its batch is how many share a pass, and divides no cost by itself."""
    alone = default_scenario("h100-sxm", "llama3.1-70b", inputs=1024, outputs=1024, devices=4, precision="fp8")
    costs = []
    for batch in (1, 8, 64):
        plan = _sequences(alone, max_batch=batch)
        made = plan.usd_per_year / plan.usd_per_million * 1e6
        assert made == pytest.approx(365.25 * 86400, rel=1e-9)  # one sequence a second, and no other number of them
        costs.append(plan.usd_per_million)
    assert costs == sorted(costs, reverse=True)
    assert _sequences(alone.with_(batch=8)) == _sequences(alone) == _sequences(alone, max_batch=256)
