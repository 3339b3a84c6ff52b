"""Embedding tables over cards and host: nothing lost, what cards can't hold is served, host memory sets the price."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cli.main import main
from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.resolve.choices import choices, default_scenario
from engine.scenario import ScenarioError, decode, encode
from engine.scenario.fields import field
from engine.sweep import FIGURES, figures_of, price, space_of
from engine.traffic.arrangements import arrangements
from engine.traffic.scenario_load import priced
from model_zoo.ops import LOOKUPS
from tests.effort import examples

DLRM = default_scenario("fb-node", "dlrm-more-complex")
LARGER = DLRM.with_(params={"tables": 240}, host_tables="by-capacity")
SHARES = ("5%", *(f"{n}%" for n in range(10, 101, 10)))


def rows_of(scenario) -> float:
    """Rows that all stages of a request look up. [-]"""
    runs = [run for part in priced(scenario)[2].priced for run in part.runs]
    return sum(
        op.gather_rows.at(scenario.batch) * op.layers for run in runs for op in run.job.ops if op.kind in LOOKUPS
    )


def tables_of(scenario) -> list[int]:
    """Tables of the stages that look up: of the cards, of the host."""
    runs = [run for part in priced(scenario)[2].priced for run in part.runs]
    return [op.layers for run in runs for op in run.job.ops if op.kind in LOOKUPS]


def test_a_model_larger_than_the_cards_is_served_from_both_memories():
    with_cards_alone = evaluate(LARGER.with_(host_tables=None))
    assert not with_cards_alone.fits
    report = evaluate(LARGER)
    assert report.fits
    assert not report.problems
    held = {(m.device, m.level): m for m in report.memory if m.required}
    host = next(m for (device, level), m in held.items() if "host tables" in device)
    cards = next(m for (device, level), m in held.items() if "sparse" in device)
    assert 90e9 < 6 * cards.need_bytes + host.need_bytes < 160e9  # the document's 160 GB, used together
    assert sum(tables_of(LARGER)) == 240
    each = host.need_bytes / tables_of(LARGER)[1]
    most = tables_of(LARGER)[0] + int((host.capacity_bytes - 1e6) // each)
    assert 155e9 < most * each < 160e9
    assert evaluate(LARGER.with_(params={"tables": most})).fits
    refused = evaluate(LARGER.with_(params={"tables": most + 1}))
    assert "DRAM on Xeon D-2191 (host tables)" in refused.problems[0]


@settings(max_examples=examples(25), deadline=None)
@given(
    tables=st.integers(20, 400),
    share=st.sampled_from(("by-capacity", *SHARES)),
    batch=st.sampled_from((1, 8, 48, 512)),
    locality=st.booleans(),
    one=st.booleans(),
    cards=st.integers(1, 6),
)
def test_every_table_lies_somewhere_and_every_row_is_looked_up(tables, share, batch, locality, one, cards):
    on = {**DLRM.switches, "nvm-locality": locality, "one-broadcast": one}
    base = DLRM.with_(params={"tables": tables}, batch=batch, switches=on, devices=cards)
    split = base.with_(host_tables=share)
    assert sum(tables_of(split)) == tables
    assert rows_of(split) == pytest.approx(rows_of(base), rel=1e-12)
    report = evaluate(split)
    told = sum(op.time_s for op in report.ops) + sum(other.time_s for other in report.other)
    assert told == pytest.approx(report.latency_s, rel=1e-12) == sum(report.breakdown.values())
    if share == "by-capacity":  # not one table more than the cards lack room for
        assert all(m.fits for m in report.memory if m.required and "host" not in m.device)
        if len(tables_of(split)) == 2:
            room = {m.device: m.capacity_bytes - m.need_bytes for m in report.memory if m.level == "lpddr"}
            cards_hold = next(m for m in report.memory if m.level == "lpddr" and "sparse" in m.device)
            assert min(room.values()) < 2 * cards_hold.need_bytes / (tables_of(split)[0] / cards)


def test_a_request_waits_for_the_slower_memory_alone():
    """Cards and host look up at once: the request lasts as long as both in a row less the quicker of them."""
    for share in ("10%", "50%"):
        _, plan, times = priced(DLRM.with_(host_tables=share))
        spent = {p.stage.name: p.time_s for p in times.priced}
        hops = sum(seconds for _, seconds in times.hops)
        slower = max(spent["sparse"], spent["host tables"])
        assert times.latency_s == pytest.approx(slower + spent["dense"] + hops, rel=1e-12)
        assert times.interval_s >= max(slower, spent["dense"] / 6) * (1 - 1e-12)
        assert plan.stages[1].device.id == "xeon-d-2191"


def test_host_memory_sets_the_price_of_its_tables_and_pcie_that_of_its_rows():
    half = DLRM.with_(host_tables="50%")
    base = evaluate(half).latency_s
    slow = [
        evaluate(half.with_(overrides={path: value})).latency_s
        for path, value in (
            ("host.memory.dram.bandwidth", "1 GB/s"),
            ("model.dram_latency", 1e-5),
            ("links.peer.bandwidth", "1 GB/s"),
        )
    ]
    assert all(one > 1.05 * base for one in slow)
    alone = {s: evaluate(DLRM.with_(overrides={"model.dram_latency": s})).latency_s for s in (9e-8, 1e-5)}
    assert len(set(alone.values())) == 1  # no table there: nothing looks anything up


def test_rarely_read_tables_on_the_host_are_never_worse_than_any():
    for share in ("10%", "30%", "60%"):
        one = DLRM.with_(host_tables=share)
        any_of_them = one.with_(switches={**one.switches, "nvm-locality": False})
        stages = [{p.stage.name: p.time_s for p in priced(s)[2].priced} for s in (one, any_of_them)]
        assert stages[0]["host tables"] <= stages[1]["host tables"]


def test_nonvolatile_memory_takes_what_the_host_can_not_hold():
    on = {**DLRM.switches, "nvm-tier": True}
    huge = DLRM.with_(params={"tables": 400}, host_tables="by-capacity", switches=on)
    report = evaluate(huge)
    assert report.fits
    held = {m.level: m for m in report.memory if m.required and m.need_bytes > 0}
    assert {"lpddr", "dram", "nvm"} <= set(held)
    assert held["dram"].need_bytes > 0.95 * held["dram"].capacity_bytes
    without = evaluate(huge.with_(host_tables=None))
    assert report.throughput_per_s > without.throughput_per_s  # DRAM of the host is faster than what lies behind


@pytest.mark.parametrize("axis", ["devices.0.memory.lpddr.capacity", "batch", "host.memory.dram.bandwidth", "tables"])
def test_a_sweep_finds_the_same_bits(axis):
    values = {
        "devices.0.memory.lpddr.capacity": ["8 GB", "12 GB", "16 GB", "32 GB"],
        "batch": [1, 16, 48],
        "host.memory.dram.bandwidth": ["20 GB/s", "76.8 GB/s"],
        "tables": [160, 200],
    }[axis]
    path = "params.tables" if axis == "tables" else axis
    axes = {"host_tables": ["none", "by-capacity", "40%"], path: values}
    space = space_of({"scenario": DLRM.model_dump(mode="json"), "axes": axes})
    found, bad, _ = price(space)
    assert not bad.any()
    for number in range(space.size):
        one = figures_of(space, number)
        assert [np.float64(one[name]).tobytes() for name in FIGURES] == [v.tobytes() for v in found[:, number]], number


def test_the_host_works_and_is_no_row_of_stations():
    alone, both = (evaluate(one).power_parts_w["host"] for one in (DLRM, DLRM.with_(host_tables="50%")))
    assert both > 1.5 * alone
    assert "no row of stations" in str(arrangements(DLRM.with_(host_tables="50%"))["stages"])


def test_links_of_before_stay_as_they_are():
    assert "host_tables" not in encode(DLRM)
    assert decode(encode(DLRM)) == DLRM
    assert decode(encode(LARGER)) == LARGER
    assert evaluate(DLRM.with_(host_tables="by-capacity")).latency_s == evaluate(DLRM).latency_s  # all fit


def test_it_is_offered_where_tables_are_dealt_out_and_refused_in_a_sentence_elsewhere(capsys):
    of = field("host_tables")
    assert choices(DLRM).of(of)[:3] == ("none", "by-capacity", "5%")
    for scenario, sentence in (
        (DLRM.with_(host_tables="37%"), "host_tables is '37%'; allowed: none, by-capacity, 5%, 10%"),
        (DLRM.with_(scheme="replicas", host_tables="10%"), "as the scheme is 'replicas', not tables"),
        (default_scenario("fb-node", "resnet50", host_tables="10%"), "allowed here: none"),
        (default_scenario("h100-sxm", "dlrm-rmc1", host_tables="10%"), "has no price for another one"),
    ):
        assert not choices(scenario.with_(host_tables=None)).of(of) or "37%" in sentence
        with pytest.raises((ScenarioError, Unsupported)) as refused:
            evaluate(scenario)
        assert sentence in str(refused.value)
        assert "\n" not in str(refused.value)
    for value in ("half", "-5%", "5"):
        with pytest.raises(ScenarioError, match=f"host_tables is '{value}': by-capacity or a share"):
            DLRM.with_(host_tables=value)
    assert main(["evaluate", "--system", "fb-node", "--workload", "dlrm-more-complex", "--host-tables", "20%"]) == 0
    assert '"host_tables"' not in capsys.readouterr().err
