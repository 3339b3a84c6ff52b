"""Time by kind of operator adds up to the request, and an optimisation that is turned over moves what it should."""

import json
import math

import pytest

from engine.analyses.node.at_work import by_kind
from engine.cli.main import main
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario


@pytest.mark.parametrize(
    ("system", "workload"), [("fb-node", "dlrm-more-complex"), ("fb-card", "resnet50"), ("h100-sxm", "bert-base")]
)
def test_kinds_add_up_to_the_request_in_every_column(system, workload):
    scenario = default_scenario(system, workload)
    columns = by_kind(scenario)
    assert columns[0].latency_s == evaluate(scenario).latency_s
    for column in columns:
        assert math.fsum(column.seconds.values()) == pytest.approx(column.latency_s, rel=1e-9)
    changes = [abs(c.latency_s - columns[0].latency_s) for c in columns[1:]]
    assert changes == sorted(changes, reverse=True)


def test_fused_sums_take_time_from_sums_and_pools_from_pools():
    resnet = {c.switch: c for c in by_kind(default_scenario("fb-card", "resnet50", precision="int8"))}
    assert resnet["fuse-sums"].on
    assert resnet["fuse-sums"].seconds["Add"] < 0.6 * resnet[""].seconds["Add"]
    pools = {c.switch: c for c in by_kind(default_scenario("fb-card", "regnety-128gf"))}
    assert not pools["large-pools"].on
    assert pools["large-pools"].share("GlobalAveragePool") > 4 * pools[""].share("GlobalAveragePool")


def test_the_command_says_the_same(capsys):
    assert main(["kinds", "preset:node-resnext", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["columns"]
    assert found[0]["switch"] == ""
    assert found[0]["seconds"]["Conv"] > 0
    assert main(["kinds", "preset:node-resnext"]) == 0
    told = capsys.readouterr().out
    assert "Conv" in told
    assert "Residual sums in convolutions on" in told
