"""Tilings of a card's products: what is found is legal, no worse than a given one, and above what none goes below."""

import json

import numpy as np
import pytest

from engine.analyses.node.tilings import block_map, pinned, products, tilings_of
from engine.cli.main import main
from engine.devices.card import tiling as C
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario, ScenarioError, decode
from engine.sweep import sweep
from model_zoo.catalog import default_zoo

MEMORY = "devices.0.memory."
SMALL = {MEMORY + "sram.capacity": 128 * 1024.0, MEMORY + "llc.capacity": 1e6, MEMORY + "llc.bandwidth": 1e11}
NEAR = {MEMORY + "sram.capacity": 128 * 1024.0, MEMORY + "tcm.capacity": 1024.0}


def _card(workload: str, **overrides: float) -> Scenario:
    return default_scenario("fb-card", workload).with_(overrides=overrides)


def _searched(scenario: Scenario) -> Scenario:
    return scenario.with_(switches={**scenario.switches, "search-tilings": True})


@pytest.mark.parametrize("overrides", [{}, SMALL, NEAR], ids=["as it is", "small", "small cores"])
@pytest.mark.parametrize("workload", ["resnet50", "xlm-r-large", "fbnetv3-detection", "resnext3d-101"])
def test_no_tiling_goes_below_the_bound_and_each_aim_is_met_best_by_its_own(workload, overrides):
    above = 0
    for job, op, side in products(_card(workload, **overrides)):
        one = tilings_of(job, op, side, 0.0)
        for tiling in one.best.values():
            assert tiling.near_bytes >= one.bounds[0] * (1 - 1e-9)
            assert tiling.far_bytes >= one.bounds[1] * (1 - 1e-9)
        above += one.best["traffic"].near_bytes > one.bounds[0] * 1.01
        for aim, figure in (("latency", "seconds"), ("energy", "joules"), ("traffic", "far_bytes")):
            least = getattr(one.best[aim], figure)
            assert all(least <= getattr(other, figure) for other in (*one.best.values(), *one.front))
            assert least in [getattr(other, figure) for other in one.front]
    assert above or overrides is not NEAR or workload == "xlm-r-large"  # what cores hold, they read once


def test_a_search_pays_where_memory_is_what_binds_and_never_changes_a_card_whose_memory_does_not():
    ungoverned = {"devices.0.power.max": 100.0}  # bytes cost power, and a limit takes clock for it
    for workload in ("resnet50", "xlm-r-large"):
        base = _card(workload, **ungoverned)
        assert evaluate(_searched(base)).latency_s == evaluate(base).latency_s
    tight = _card("resnet50", **{MEMORY + "llc.bandwidth": 4e10}, **ungoverned)
    assert evaluate(_searched(tight)).latency_s < 0.9 * evaluate(tight).latency_s


def test_a_sweep_with_searched_tilings_equals_evaluate_to_the_bit():
    base = _searched(_card("resnet50", **SMALL))
    axes = {MEMORY + "llc.bandwidth": [4e10, 1e11, 6.8e11], "batch": [1, 4]}
    rows = list(sweep({"scenario": base.model_dump(), "axes": axes, "constraints": []}).top.rows())
    assert len(rows) == 6
    for row in rows:
        at = decode(row["token"])
        assert at.switches["search-tilings"]
        assert evaluate(at).latency_s == row["latency_s"]


def test_the_best_tiling_pinned_costs_what_the_search_says_and_no_pinned_one_costs_less():
    rng = np.random.default_rng(5)
    for job, op, side in products(_card("resnet50", **NEAR))[::9]:
        best = tilings_of(job, op, side, 0.0).best["latency"]
        if best.outer_last >= 0:
            continue
        again = pinned(side, best.inner, best.cores, {-1: "", 0: "b", 1: "a", 2: "c"}[best.inner_last])
        assert (again.seconds, again.near_bytes) == (best.seconds, best.near_bytes)
        rows, columns, bytes_ = block_map(side, best.cores)
        assert bytes_.shape == (len(rows), len(columns))
        assert np.nanmin(bytes_) >= tilings_of(job, op, side, 0.0).best["traffic"].near_bytes * (1 - 1e-9)
        for _ in range(5):
            block = (int(rng.choice(rows[:3])), int(rng.choice(columns[:3])), 32)
            assert pinned(side, block, best.cores).seconds >= best.seconds


@pytest.mark.parametrize("workload", ["resnet50", "resnext3d-101", "regnety-32gf"])
def test_a_convolution_with_windows_moves_no_fewer_bytes_than_a_product_of_its_sides_and_others_as_many(workload):
    more, alike = [], 0
    for _, op, side in products(_card(workload, **NEAR)):
        plain = side.copy()
        plain[C.WINDOWS :] = 0.0
        windows = op.kind == "Conv" and max(op.attribute("kernel"), op.attribute("kernel_t")) > op.attribute("stride")
        pairs = list(
            zip(C.fastest_traffic(side) + C.by_size(side), C.fastest_traffic(plain) + C.by_size(plain), strict=True)
        )
        if windows:
            assert all(one >= other for one, other in pairs)
            more.append(pairs[0][0] > pairs[0][1])
        else:
            assert all(one == other for one, other in pairs)
            alike += 1
    assert sum(more) > len(more) / 3
    assert alike > 10


def test_a_tiling_that_is_none_gets_one_sentence():
    side = next(row for _, op, row in products(_card("resnet50", **NEAR)) if op.name == "s4b1-conv2")
    cores = (int(side[C.PIECES]), 1)
    for block, of, told in (
        ((50, 32, 33), cores, "rows of a block are 50|depth of a block are 33"),
        ((32, 32, 0), cores, "depth of a block are 0"),
        ((32, 32, 32), (1, 1), "cores are 1 x 1"),
        ((10_000, 10_000, 100_000), cores, "do not fit a core's"),
    ):
        with pytest.raises(ScenarioError, match=told) as raised:
            pinned(side, block, of)
        assert str(raised.value).count(". ") == 0
    with pytest.raises(ScenarioError, match="many-core cards"):
        products(default_scenario("h100-sxm", "resnet50"))


def test_the_command_says_how_many_there_are_and_refuses_in_a_sentence(capsys):
    command = ["tile", "--system", "fb-card", "--workload", "resnet50", "--op", "s4b1-conv2"]
    assert main([*command, "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["products"]
    assert one["legal"] > one["tried"] > 0
    assert set(one["best"]) == {"latency", "energy", "traffic"}
    assert one["best"]["latency"]["near_bytes"] >= one["near_bytes_least"]
    assert main(command) == 0
    assert "at least" in capsys.readouterr().out
    assert main([*command, "--block", "32x32x64"]) == 0
    assert "best" in capsys.readouterr().out
    assert main([*command[:-1], "nothing"]) == 2
    assert main([*command, "--block", "32x32"]) == 2
    assert "--block is '32x32'" in capsys.readouterr().err


def test_every_network_of_the_zoo_that_a_card_runs_has_tilings():
    zoo, seen = default_zoo(), 0
    for id in ("dlrm-more-complex", "mobilenet-v2", "rnnt", "efficientnet-b0", "unet3d-kits19"):
        assert id in zoo.ids()
        for job, op, side in products(default_scenario("fb-card", id))[:40]:
            one = tilings_of(job, op, side, 0.0)
            assert one.best, op.name
            seen += 1
    assert seen > 50
