"""Every memory level of a card has a price: each binds somewhere, the report says where, and rows are read by line."""

from collections import Counter

import numpy as np
import pytest

from engine.devices.card.embedding_bags import hot_share, lines_of
from engine.devices.card.tiling import passes, readers
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario, ScenarioError
from hardware_specs.catalog import default_catalog

MEMORY = "devices.0.memory."
LPDDR, CACHE, SRAM, HOST = (
    MEMORY + "lpddr.bandwidth",
    MEMORY + "llc.bandwidth",
    MEMORY + "sram.bandwidth",
    "host.memory.dram.bandwidth",
)
MORE, LESS = "dlrm-more-complex", "dlrm-less-complex"


def _node(workload: str = MORE, **changes) -> Scenario:
    return default_scenario("fb-node", workload, **changes)


def _limits(scenario: Scenario) -> Counter:
    """Seconds of a request's operators by what sets the time of each."""
    limits: Counter = Counter()
    for op in evaluate(scenario).ops:
        limits[op.limit] += op.time_s
    return limits


@pytest.mark.parametrize("workload", [MORE, LESS])
def test_half_of_the_lpddr_costs_recommendation_a_third_to_a_half_of_its_rate(workload):
    whole, half = evaluate(_node(workload)), evaluate(_node(workload, overrides={LPDDR: 33.6e9}))
    assert 1.3 <= whole.throughput_per_s / half.throughput_per_s <= 2.0
    assert half.latency_s > whole.latency_s


def test_the_less_complex_model_is_the_faster_one():
    more, less = evaluate(_node(MORE)), evaluate(_node(LESS))
    assert less.latency_s < more.latency_s
    assert less.throughput_per_s > more.throughput_per_s


@pytest.mark.parametrize(("path", "value", "level"), [(LPDDR, 10e9, "lpddr"), (CACHE, 5e9, "llc"), (SRAM, 1e9, "sram")])
@pytest.mark.parametrize("workload", [MORE, "resnext101-32x4d", "xlm-r-large"])
def test_a_level_of_a_card_binds_when_it_is_slow_and_the_report_says_so(workload, path, value, level):
    system = "fb-node" if workload == MORE else "fb-card"
    base = default_scenario(system, workload)
    slow = base.with_(overrides={path: value})
    if level == "lpddr" and workload == "resnext101-32x4d":  # its weights stay on chip
        assert evaluate(slow).latency_s == evaluate(base).latency_s
        return
    assert evaluate(slow).throughput_per_s < evaluate(base).throughput_per_s / 1.5
    named = _limits(slow)
    assert named[level] > _limits(base)[level]
    assert named.most_common(1)[0][0] == level


def test_the_hosts_memory_binds_where_it_is_slow():
    base, slow = evaluate(_node()), evaluate(_node(overrides={HOST: 1e9}))
    assert slow.throughput_per_s < base.throughput_per_s / 3
    row = next(r for r in slow.links if r.role == "memory")
    assert row.name == "Host DRAM"
    assert row.utilisation == pytest.approx(1.0, rel=0.01)
    assert next(r for r in base.links if r.role == "memory").utilisation < 0.2
    through = evaluate(_node(switches={**_node().switches, "peer-to-peer": False}))  # pooled rows go through it twice
    bytes_ = {r.role: r.bytes_per_request for r in through.links}
    assert bytes_["memory"] > 2 * next(r for r in base.links if r.role == "memory").bytes_per_request


def test_bytes_of_every_level_are_in_the_report():
    report = evaluate(default_scenario("fb-card", "xlm-r-large", inputs=32, precision="int8"))
    for op in report.ops:
        assert set(op.levels) == {"sram", "llc", "lpddr", "nvm"}
        assert op.levels["lpddr"] + op.levels["nvm"] == pytest.approx(op.offchip_bytes)
        if op.kind == "Gemm":  # what comes from LPDDR passes the cache, and what the array multiplies passes SRAM
            assert op.levels["sram"] >= op.levels["llc"] >= op.levels["lpddr"] * (1 - 1e-9)


def test_a_row_touches_the_lines_it_lies_on():
    lpddr = next(m for m in default_catalog().device("m2-card").memory if m.name == "lpddr")
    for row in (36, 52, 64, 68, 260):
        starts = np.arange(0, 4096, 4)
        counted = ((starts + row - 1) // 64 - starts // 64 + 1).mean()
        assert lines_of(float(row), lpddr) == pytest.approx(counted)


def test_narrow_rows_take_fewer_lines_and_wide_tables_are_slower():
    def lookups(**changes) -> float:
        scenario = _node(tile=(4,), **changes)
        return next(op for op in evaluate(scenario).ops if op.kind == "EmbeddingBag").offchip_bytes

    by_bits = [lookups(overrides={"model.table_bits": bits}) for bits in (4, 6, 8)]
    assert by_bits == sorted(by_bits)
    assert by_bits[0] < by_bits[2] / 1.3  # 36 B rows touch 1.5 lines, 68 B rows two


def test_rows_read_often_are_found_in_the_cores():
    assert hot_share(1e7, 0.0, 1.0) == 0.0
    assert hot_share(1e7, 1e7, 0.7) == pytest.approx(1.0)
    assert hot_share(1e7, 1e4, 0.0) == pytest.approx(1e-3)
    for skew in (0.6, 1.0, 1.2):
        sums = np.cumsum(np.arange(1.0, 1e6 + 1) ** -skew)
        assert hot_share(1e6, 1e4, skew) == pytest.approx(sums[9999] / sums[-1], rel=0.1)
    alike = _node(overrides={LPDDR: 33.6e9})
    skewed = alike.with_(overrides={**alike.overrides, "model.row_skew": 1.0})
    assert evaluate(skewed).throughput_per_s > 1.2 * evaluate(alike).throughput_per_s


def test_more_requests_outstanding_are_never_slower_and_one_is_much_slower():
    rates = [evaluate(_node(overrides={"model.outstanding": n})).throughput_per_s for n in (1, 2, 4, 8, 16, 64)]
    assert rates == sorted(rates)
    assert rates[0] < rates[-1] / 3


@pytest.mark.parametrize("pieces", [1.0, 5.0, 12.0])
def test_the_cut_over_cores_moves_the_fewest_bytes_of_all(pieces):
    draw = np.random.default_rng(7)
    for _ in range(200):
        a, b = draw.lognormal(10, 2, 2)
        groups, wide, high = (float(v) for v in draw.integers(1, 9, 3))
        n = min(pieces, groups * wide * high)
        halo = 1.0 + np.cumsum(draw.random(10)) * draw.integers(0, 2)
        row, column = readers(a, b, groups, wide, high, n, halo)
        every = [
            a * max(1.0, c / groups) * halo[int(np.ceil(n / c))] + b * np.ceil(n / c)
            for c in np.arange(1.0, min(n, groups * wide) + 1)
            if np.ceil(n / c) <= high
        ]
        assert a * row * halo[int(column)] + b * column == min(every)


def test_blocks_pass_a_memory_no_less_often_than_they_must():
    assert passes(10.0, 1e9, 20.0) == (1.0, 1.0)  # the smaller operand stays, the other streams once
    assert passes(30.0, 100.0, 20.0) == (1.0, 3.0)
    assert passes(100.0, 30.0, 20.0) == (3.0, 1.0)
    for memory in (4.0, 16.0, 64.0, 256.0):
        a, b = passes(100.0, 70.0, memory)
        c, d = passes(100.0, 70.0, 2 * memory)
        assert 100 * a + 70 * b >= 100 * c + 70 * d


@pytest.mark.parametrize("field", ["lpddr.bandwidth", "llc.bandwidth", "sram.bandwidth", "lpddr.row_cycle"])
def test_a_level_that_moves_nothing_is_refused_in_a_sentence(field):
    with pytest.raises(ScenarioError, match=f"{field} = 0.0: .*more than 0"):
        evaluate(_node(overrides={MEMORY + field: 0.0}))


def test_a_core_too_small_for_a_block_and_a_card_too_small_for_a_net_say_so():
    tiny = {MEMORY + "sram.capacity": "1 KiB", MEMORY + "tcm.capacity": "1 KiB"}
    report = evaluate(default_scenario("fb-card", "resnet50", overrides=tiny))
    assert not report.fits
    assert report.problems[0].startswith("Does not fit: core memory on M.2 inference card")
    assert evaluate(default_scenario("fb-card", "resnet50")).fits
    alone = evaluate(default_scenario("fb-card", MORE))
    assert "Does not fit: LPDDR" in alone.problems[0]


@pytest.mark.parametrize("system", ["fb-node", "fb-card", "h100-sxm", "xeon-8280l", "mi300x"])
@pytest.mark.parametrize("network", ["dlrm-more-complex", "dlrm-less-complex", "dlrm-mlperf-v1"])
def test_fewer_lookups_of_a_table_never_cost_more(system, network):
    """Of one lookup neither: a table of single lookups is a table, in the format and on the card of any other."""
    base = default_scenario(system, network)
    reports = [evaluate(base.with_(params={"lookups": n})) for n in (1, 1.5, 2, 3, 6, 12, 24, 48)]
    assert len({r.fits for r in reports}) == 1
    times = [r.latency_s for r in reports]
    assert times == sorted(times)
    rates = [r.throughput_per_s for r in reports]
    assert rates == sorted(rates, reverse=True)


def test_all_tables_of_single_lookups_leave_none_to_take_the_mean_s_rest():
    with pytest.raises(ScenarioError, match=r"^model.single_share is 1.* 0.9 is allowed"):
        evaluate(default_scenario("fb-node", "dlrm-more-complex").with_(overrides={"model.single_share": 1.0}))
