"""A report offers the count of streams that answers more, and what it says is what an evaluation finds."""

import re

import pytest

from engine.cli.main import main
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.resolve.presets import preset
from engine.scenario import Scenario, encode

OFFER = re.compile(r"(\d+) streams?: (?:([\d.]+)× the|the same) throughput at ([\d.]+)× the latency")
MANY = {
    "tables": preset("node-dlrm").scenario.with_(streams=6),
    "images": default_scenario("fb-node", "resnet50", devices=6, streams=8),
    "clips": preset("node-video").scenario.with_(streams=12),
}


def _offer(scenario: Scenario) -> re.Match[str] | None:
    return next((found for text in evaluate(scenario).better if (found := OFFER.match(text))), None)


@pytest.mark.parametrize("name", MANY)
def test_too_many_streams_are_told_of_fewer(name, capsys):
    scenario, now = MANY[name], evaluate(MANY[name])
    offer = _offer(scenario)
    assert offer is not None
    assert int(offer[1]) < scenario.streams
    better = evaluate(scenario.with_(streams=int(offer[1])))
    assert better.throughput_per_s / now.throughput_per_s == pytest.approx(float(offer[2] or 1), rel=0.006)
    assert better.latency_s / now.latency_s == pytest.approx(float(offer[3]), rel=0.006)
    assert _offer(scenario.with_(streams=int(offer[1]))) is None or name == "images"
    assert any(offer[0] in assumption.text for assumption in now.assumptions)
    assert main(["evaluate", encode(scenario)]) == 0
    assert offer[0] in capsys.readouterr().out


def test_fewer_streams_that_answer_as_much_sooner_are_offered():
    """Calls that take turns leave 28 streams the rate of four, whose batches are done in a seventh of the time."""
    scenario = preset("wide-deep-int8").scenario
    offer = _offer(scenario)
    assert offer is not None
    assert offer[2] is None, "the same throughput, not 1 times it"
    few, now = (evaluate(s) for s in (scenario.with_(streams=int(offer[1])), scenario))
    assert few.throughput_per_s >= 0.999 * now.throughput_per_s
    assert few.latency_s < 0.2 * now.latency_s
    assert few.better == ()
    assert now.better[0].endswith("; 28 streams wait for calls of the interpreter, which take turns.")


def test_what_runs_best_is_offered_nothing():
    assert evaluate(preset("node-dlrm").scenario.with_(streams=4)).better == ()
    assert evaluate(default_scenario("h100-sxm", "bert-large")).better == ()
