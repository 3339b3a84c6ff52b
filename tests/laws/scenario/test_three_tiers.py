"""A network cut twice over three executors: a field like others at every door, and one answer with its parts."""

import random

import numpy as np
import pytest

from engine.cli.main import main
from engine.evaluate import evaluate
from engine.resolve.choices import choices, default_scenario
from engine.scenario import ScenarioError, decode, encode
from engine.scenario.configuration import partition
from engine.scenario.overrides import apply
from engine.sweep import FIGURES, figures_of, price, space_of
from tests.each import each

CHAIN = default_scenario("edge-metro-core", "mobilenet-v1", scheme="split", split=20)


def test_a_token_of_before_stays_and_a_second_cut_travels():
    assert "second_split" not in CHAIN.model_dump_json(exclude_none=True)
    cut = apply(CHAIN, "second_split", "40")
    assert decode(encode(cut)) == cut
    assert partition(cut) == "cut at 20 and 40"
    assert apply(apply(cut, "second_split", "none"), "split", 20) == CHAIN
    assert apply(cut, "scheme", "single").second_split is None
    assert choices(CHAIN).second_cuts == tuple(range(20, len(choices(CHAIN).splits) + 1))
    assert choices(default_scenario("edge-core", "mobilenet-v1", scheme="split")).second_cuts == ()


@pytest.mark.parametrize("workload", ["mobilenet-v1", "resnet50", "alexnet"])
def test_each_part_costs_what_it_costs_on_two_executors(workload):
    """Stages, what crosses each link and the whole latency, of cuts at random; none at the third executor is a pair."""
    chain = default_scenario("edge-metro-core", workload, scheme="split")
    pair = default_scenario("edge-tiers", workload, scheme="split")
    last, draw = len(choices(chain).splits), random.Random(workload)
    for _ in range(4):
        first, second = sorted(draw.sample(range(1, last), 2))
        report = evaluate(chain.with_(split=first, second_split=second))
        assert sum(op.time_s for op in report.ops) + sum(row.time_s for row in report.other) == pytest.approx(
            report.latency_s
        )
        near = evaluate(pair.with_(split=first))
        parts = {device: [op for op in report.ops if op.device == device] for device in dict.fromkeys(
            op.device for op in report.ops)}  # fmt: skip
        assert [len(ops) for ops in parts.values()] == [first, second - first, last - second]
        for row in (*parts["arm-edge-cpu"], *parts["xeon-e5-2650"]):
            assert row.time_s == pytest.approx(next(op.time_s for op in near.ops if op.name == row.name))
        sent = {row.role: row.bytes_per_request for row in report.links}
        assert sent["peer"] == next(row.bytes_per_request for row in near.links)
        assert sent["backhaul"] > 0
        assert evaluate(chain.with_(split=first)).latency_s == near.latency_s


def test_a_sweep_over_both_cuts_is_evaluate_to_the_bit():
    axes = {"split": [0, 7, 20, 56], "second_split": ["none", 0, 20, 33, 56], "links.backhaul.bandwidth": [1e8, 1e9]}
    space = space_of({"scenario": CHAIN.model_dump(mode="json"), "axes": axes | {"batch": [1, 8]}, "constraints": []})
    values, bad, _ = price(space)
    ran = 0
    for number in range(space.size):
        try:
            figures = figures_of(space, number)
        except ScenarioError:
            assert bad[number]
            continue
        for name, value in zip(FIGURES, values[:, number], strict=True):
            assert np.float64(figures[name]).tobytes() == np.float64(value).tobytes(), (name, space.values(number))
        ran += 1
    assert ran == 4 * (5 + 4 + 4 + 2)  # one before the first is left out


REFUSED = [
    ({"second_split": 3}, "second_split is 3; allowed: none, 20 to 56"),
    ({"second_split": 57}, "second_split is 57; allowed: none, 20 to 56"),
    ({"split": 57}, "split is 57: MobileNet v1 has 56 operators, so 0 to 56 is allowed"),
    ({"scheme": "single", "split": 0, "second_split": 3}, "allowed here: none, as the scheme cuts no network"),
    ({"system": "edge-tiers", "second_split": 40}, "allowed here: none, as Far edge and metro cabinet has no third"),
]


@each(("changes", "said"), REFUSED)
def test_a_second_cut_that_can_not_be_is_a_sentence(changes, said):
    with pytest.raises(ScenarioError) as refusal:
        evaluate(CHAIN.with_(**changes))
    assert said in str(refusal.value)


def test_the_command_line_takes_it(capsys):
    given = ["evaluate", "--system", "edge-metro-core", "--workload", "mobilenet-v1", "--scheme", "split"]
    assert main([*given, "--split", "20", "--second-split", "40"]) == 0
    assert main([*given, "--split", "20", "--second-split", "4"]) == 2
    assert "allowed: none, 20 to 56" in capsys.readouterr().err
