"""Several networks on one node: load adds up, a network by itself stays itself, and what can't be is one sentence."""

from __future__ import annotations

import json

import pytest

from engine.analyses.node.shared_load import Load, share_node, usual
from engine.cli.main import main
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario import ScenarioError
from engine.scenario import encode as token_of

DLRM = default_scenario("fb-node", "dlrm-more-complex")
NETS = ("dlrm-less-complex", "xlm-r-large", "resnet50", "fbnetv3-detection", "resnext3d-101")


def carried(scenario) -> float:
    """Requests of the scenario's batch that the node carries of it alone. [1/s]"""
    return evaluate(scenario).throughput_per_s / scenario.batch


@pytest.mark.parametrize("workload", ["dlrm-more-complex", *NETS])
def test_a_network_by_itself_is_what_evaluate_says(workload):
    scenario = usual(DLRM, workload)
    (alone,) = share_node([Load(scenario, carried(scenario) / 1e4)]).networks
    report = evaluate(scenario)
    assert alone.idle_s == report.latency_s
    assert alone.p50_s == pytest.approx(report.latency_s, rel=1e-9)
    full = share_node([Load(scenario, 0.5 * carried(scenario))])
    assert full.room == pytest.approx(2.0, rel=1e-9)  # the busiest unit sets the pace that `evaluate` reports


@pytest.mark.parametrize("workload", NETS)
def test_uses_add_up_and_the_node_refuses_what_is_above_its_capacity(workload):
    loads = [Load(one, 0.3 * carried(one)) for one in (DLRM.with_(params={"tables": 60}), usual(DLRM, workload))]
    both = share_node(loads)
    for unit, used in both.use.items():
        assert used == pytest.approx(sum(one.use.get(unit, 0.0) for one in both.networks), rel=1e-12)
    assert not both.problem
    for one in both.networks:
        assert one.idle_s <= one.p50_s * (1 + 1e-9) <= one.p99_s * (1 + 1e-9)
    more = share_node([Load(one.scenario, one.qps * both.room * 1.001) for one in loads])
    assert f"{both.busiest} would be busy 100% of the time" in more.problem
    assert all(one.p99_s is None for one in more.networks)


def test_a_neighbour_lengthens_the_tail_and_two_halves_are_the_whole():
    small = usual(DLRM, "resnet50")
    small = small.with_(switches=small.switches | {"on-chip-weights": False})  # which two copies would compete for
    qps = carried(small)
    (whole,) = share_node([Load(small, 0.8 * qps)]).networks
    halves = share_node([Load(small, 0.4 * qps), Load(small, 0.4 * qps)])
    for half in halves.networks:
        assert half.p99_s == pytest.approx(whole.p99_s, rel=0.05)
    (quiet,) = share_node([Load(small, 0.4 * qps)]).networks
    assert halves.networks[0].p99_s > 1.05 * quiet.p99_s
    large = usual(DLRM, "xlm-r-large")
    beside = share_node([Load(small, 0.4 * qps), Load(large, 0.4 * carried(large))]).networks[0]
    assert beside.p99_s > 2.0 * quiet.p99_s  # a short request waits behind long ones


def test_memory_is_shared_on_the_chip_and_off_it():
    two = [Load(DLRM, 10.0), Load(usual(DLRM, "dlrm-less-complex"), 10.0)]
    assert share_node(two).problem.startswith("LPDDR of M.2 inference card (Facebook node) holds 16.0 GB: all networks")
    away = [Load(one.scenario.with_(host_tables="40%"), 10.0) for one in two]
    served = share_node(away)
    assert not served.problem  # in 160 GB there is room
    assert {level.split()[0] for level, *_ in served.memory} == {"LPDDR", "DRAM"}
    need, room = served.together
    assert room == 160e9  # six cards of 16 GB and the host's 64, as the document counts them
    assert need == pytest.approx(sum(share_node([one]).together[0] for one in away), rel=1e-12)
    kept = share_node([Load(DLRM, 10.0), Load(usual(DLRM, "regnety-128gf"), 1.0)]).networks
    assert [one.scenario.switches["on-chip-weights"] for one in kept].count(False) == 1  # 0.1 GB of chip, 0.7 GB asked
    small = [Load(usual(DLRM, id).with_(precision="int8"), 10.0) for id in ("resnet50", "mlp-mnist")]
    both = share_node(small).networks
    assert all(one.scenario.switches["on-chip-weights"] for one in both)


def test_what_can_not_share_is_one_sentence(capsys):
    card = default_scenario("fb-card", "resnet50")
    for loads, sentence in (
        ([], "networks on the node are 0: 1 to 8 are allowed"),
        ([Load(DLRM, 1.0), Load(card, 1.0)], "networks that share a node name the same"),
        ([Load(DLRM, 1.0), Load(DLRM.with_(devices=4), 1.0)], "networks that share a node name the same"),
        ([Load(card, 1.0)], "only a node of cards behind a switch"),
        ([Load(default_scenario("h100-sxm", "resnet50"), 1.0)], "only a node of cards behind a switch"),
        ([Load(DLRM, 0.0)], "requests a second of dlrm-more-complex are 0: a number above 0"),
        ([Load(DLRM, float("nan"))], "requests a second of dlrm-more-complex are nan"),
    ):
        with pytest.raises(ScenarioError) as refused:
            share_node(loads)
        assert sentence in str(refused.value)
    for text in ("preset:node-dlrm", "preset:node-dlrm@fast", "@3", "nothing@3"):
        assert main(["node", text]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_the_command_line_tells_every_network(capsys):
    assert main(["node", "preset:node-dlrm@2000", "xlm-r-large@60", f"{token_of(DLRM)}@10", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert [one["qps"] for one in value["networks"]] == [2000, 60, 10]
    assert "LPDDR" in value["problem"]  # two recommenders are more than its memory
    assert main(["node", "preset:node-dlrm@2000", "xlm-r-large@60"]) == 0
    text = capsys.readouterr().out
    assert "limit 200 ms met" in text
    assert "cards is the busiest" in text
