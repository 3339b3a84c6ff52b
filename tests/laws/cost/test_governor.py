"""Power follows the work of cards and host, a limit takes clock, and a sweep says what an evaluation says."""

from itertools import pairwise

import pytest

from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.resolve.presets import preset
from engine.scenario import Scenario, ScenarioError, decode, encode
from engine.scenario.overrides import apply_all
from engine.sweep import space_of, table_rows
from tests.each import each

TOP = 457.763671875e6  # highest clock of the card [Hz]
DLRM = preset("node-dlrm").scenario
LIMIT = "devices.0.power.max"


def _copies(workload: str, **changes) -> Scenario:
    return default_scenario("fb-node", workload, scheme="replicas", devices=6, **changes)


def _cards_w(report) -> float:
    return report.power_parts_w["idle"] + report.power_parts_w["work"]


GOVERNED = {
    "products": default_scenario("fb-card", "mlp-121m", precision="int8", batch=4096),
    "products in FP16": default_scenario("fb-card", "mlp-121m", precision="fp16", batch=4096),
    "convolutions": _copies("regnety-128gf", precision="int8", batch=16),
    "convolutions in FP16": _copies("resnet50", precision="fp16"),
    "tables": apply_all(DLRM, [f"{LIMIT}=9 W"]),
    "text": apply_all(_copies("xlm-r-large"), [f"{LIMIT}=9 W"]),
}


@pytest.mark.parametrize(("precision", "low", "high"), [("int8", 30, 45), ("fp16", 4, 6)])
def test_a_full_array_draws_the_published_power_at_the_lowest_clock(precision, low, high):
    """13 W at 30 TOPS of INT8 and at 4 TFLOPS of FP16; the highest clock is left to what keeps the array less busy."""
    full = evaluate(default_scenario("fb-card", "mlp-121m", precision=precision, batch=4096))
    assert _cards_w(full) == pytest.approx(13.0, rel=1e-6)
    assert full.clock_share == pytest.approx(low / high, rel=0.05)


@pytest.mark.parametrize("name", GOVERNED)
def test_a_limit_is_kept_and_takes_no_more_clock_than_it_must(name):
    report = evaluate(GOVERNED[name])
    assert 0.3 < report.clock_share < 1.0
    limit = (9.0 if LIMIT in report.scenario.overrides else 13.0) * report.devices_used
    assert _cards_w(report) == pytest.approx(limit, rel=1e-6)
    assert any("to work without pause" in one.text for one in report.assumptions)


@pytest.mark.parametrize("name", GOVERNED)
def test_a_governed_card_is_as_slow_as_one_of_that_clock(name):
    """Its times are those that the family finds at the clock that is left, but for what hides behind what stretches."""
    governed = evaluate(GOVERNED[name])
    at = max(governed.clock_share * TOP, 305.17578125e6)
    slower = evaluate(GOVERNED[name].with_(overrides={"devices.0.card.clock.max": at, LIMIT: 1000.0}))
    if governed.clock_share >= 305.17578125e6 / TOP:
        assert governed.latency_s == pytest.approx(slower.latency_s, rel=0.012)
        assert governed.throughput_per_s == pytest.approx(slower.throughput_per_s, rel=0.012)
    else:
        assert governed.throughput_per_s < slower.throughput_per_s


@pytest.mark.parametrize("name", ["tables", "convolutions in FP16"])
def test_less_power_is_less_work(name):
    rates = [evaluate(apply_all(GOVERNED[name], [f"{LIMIT}={watts} W"])) for watts in (4, 6, 8, 10, 25)]
    assert all(a.throughput_per_s < b.throughput_per_s and a.power_w < b.power_w for a, b in pairwise(rates))
    assert rates[-1].clock_share == 1.0
    with pytest.raises(ScenarioError, match="draws 3 W while it does nothing"):
        evaluate(apply_all(GOVERNED[name], [f"{LIMIT}=2.5 W"]))


def test_a_clock_above_the_listed_one_costs_voltage():
    """A what-if of the clock is not free: energy goes with the square of the voltage."""
    fast = evaluate(apply_all(DLRM, ["devices.0.card.clock.max=600 MHz", f"{LIMIT}=100 W"]))
    listed = evaluate(apply_all(DLRM, [f"{LIMIT}=100 W"]))
    joules = [report.power_parts_w["work"] / report.throughput_per_s for report in (fast, listed)]
    assert joules[0] > 1.2 * joules[1]


@pytest.mark.parametrize("axes", [{LIMIT: [5.0, 6.0, 9.0, 13.0]}, {"devices.0.card.clock.max": [3.2e8, TOP, 6e8]},
                                  {"host.cpu.cores": [1, 12, 24], "batch": [16, 64]}])  # fmt: skip
def test_a_sweep_governs_as_an_evaluation_does(axes):
    space = space_of({"scenario": encode(DLRM), "axes": axes, "objectives": ["power_w:min"]})
    rows = list(table_rows(space))
    assert len(rows) >= 3
    for row in rows:
        alone = evaluate(decode(row["token"]))
        assert (row["power_w"], row["throughput_per_s"], row["latency_s"]) == (
            alone.power_w, alone.throughput_per_s, alone.latency_s)  # fmt: skip


def test_energy_by_part_follows_what_is_done():
    wide, low = (
        evaluate(apply_all(_copies("regnety-128gf", precision=p), [f"{LIMIT}=100 W"])).energy for p in ("fp16", "int8")
    )
    assert low["arrays"] < wide["arrays"] / 3
    assert low["LPDDR"] < wide["LPDDR"] / 1.5
    assert all(value >= 0 for value in low.values())
    lookups = evaluate(default_scenario("fb-node", "dlrm-more-complex")).energy
    rows = evaluate(default_scenario("fb-node", "dlrm-more-complex", params={"lookups": 24})).energy
    assert rows["LPDDR"] == pytest.approx(2 * lookups["LPDDR"], rel=0.2)  # of the busiest card, and nothing else


def test_a_host_that_works_counts():
    video, elsewhere = evaluate(preset("node-video").scenario), evaluate(_copies("resnext3d-101"))
    assert video.power_parts_w["host"] == pytest.approx(86.0, rel=0.02)  # all of its cores decode
    assert elsewhere.power_parts_w["host"] < 45
    assert sum(video.power_parts_w.values()) == pytest.approx(video.power_w)


def test_a_larger_host_draws_more_and_a_small_one_holds_back():
    """Cores of a host leak whether they work or not; what networks leave to them goes no faster than they do."""
    watts = [evaluate(apply_all(DLRM, [f"host.cpu.cores={n}"])).power_w for n in (6, 12, 18, 24)]
    assert all(a < b for a, b in pairwise(watts))
    slow = apply_all(_copies("fbnetv3-detection"), ["host.cpu.clock=0.1 GHz"])  # two cores' work at the rate of 18
    rates = [evaluate(apply_all(slow, [f"host.cpu.cores={n}"])).throughput_per_s for n in (1, 2, 18, 64)]
    assert rates[0] < rates[-1]
    assert all(a <= b for a, b in pairwise(rates))


@pytest.mark.parametrize("workload", ["resnext101-32x4d", "regnety-128gf", "xlm-r-large"])
def test_the_node_does_more_a_joule_than_its_host_alone_hosts_counted_on_both_sides(workload):
    node, alone = evaluate(_copies(workload)), evaluate(default_scenario("xeon-d-2191", workload))
    assert node.throughput_per_w > 2 * alone.throughput_per_w


@each("workload", ["dlrm-more-complex", "xlm-r-large", "fbnetv3-detection", "wide-deep-criteo"])
def test_cores_of_a_host_move_the_rate_or_are_said_to_be_more_than_it_needs(workload):
    base = default_scenario("fb-node", workload)
    usual = evaluate(base)
    for cores in (1, 6, 64):
        report = evaluate(apply_all(base, [f"host.cpu.cores={cores}"]))
        same = (report.latency_s, report.throughput_per_s) == (usual.latency_s, usual.throughput_per_s)
        assert same == any(text.startswith("Only power follows host: cpu cores = ") for text in report.without_effect)
        slow = evaluate(apply_all(base, [f"host.cpu.cores={cores}", "host.cpu.clock=0.5 GHz"]))
        assert slow.latency_s > report.latency_s
