"""Tokens guessed ahead by a network's own layers, checked in one pass, and what a pass makes of them."""

import pytest

from engine import evaluate
from engine.resolve.bind import bind
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario, ScenarioError
from model_zoo.catalog import default_zoo

ZOO = default_zoo()
GUESSING = [id for id in ZOO.ids() if "guess_layers" in ZOO.workload(id).params]


def _guessing(id: str, guesses: int, acceptance: float) -> Scenario:
    base = default_scenario("h200-sxm", id, devices=8)
    return base.with_(batch=4, inputs=500, outputs=101, params={"guesses": guesses, "acceptance": acceptance})


@pytest.mark.parametrize("id", GUESSING)
def test_a_pass_makes_its_own_token_and_the_guesses_that_hold(id: str) -> None:
    """E tokens, the sum of powers of the acceptance: so many passes fewer, which check 1 + g tokens each."""
    for guesses, kept in ((1, 0.0), (1, 0.85), (3, 0.5), (2, 1.0)):
        made = sum(kept**i for i in range(guesses + 1))
        graph = bind(_guessing(id, guesses, kept)).graph
        phases = {phase.name: phase for phase in graph.phases}
        assert phases["decode"].repeat.at(500, 101) == pytest.approx(100 / made)
        assert phases["guess"].repeat.at(500, 101) == pytest.approx(guesses * 100 / made)
        head = next(op for op in phases["decode"].ops if op.name == "lm-head")
        assert head.m.at(4, phases["decode"].length.at(500, 101)) == pytest.approx(4 * (1 + guesses))


@pytest.mark.parametrize("id", GUESSING)
def test_time_per_token_follows_from_what_holds(id: str) -> None:
    plain = evaluate(_guessing(id, 0, 0.85))
    never, often, always = (evaluate(_guessing(id, 2, kept)) for kept in (0.0, 0.8, 1.0))
    assert never.tpot_s > plain.tpot_s  # guesses that never hold are paid for
    assert never.tpot_s == pytest.approx(3 * always.tpot_s, rel=1e-12)
    assert never.tpot_s == pytest.approx((1 + 0.8 + 0.64) * often.tpot_s, rel=1e-12)
    for report in (plain, never, often, always):
        assert report.latency_s == pytest.approx(report.ttft_s + 100 * report.tpot_s, rel=1e-12)


def test_no_guesses_are_the_network_as_it_is() -> None:
    base = default_scenario("h200-sxm", "deepseek-r1", devices=8).with_(batch=4)
    assert evaluate(base).latency_s == evaluate(base.with_(params={"guesses": 0, "acceptance": 0.5})).latency_s


def test_the_guessing_layer_is_held_with_a_cache_of_its_own() -> None:
    """The checkpoint's 14 billion, with the embedding and the head that it stores again; one layer's keys more."""
    plain, guessing = (bind(_guessing("deepseek-r1", g, 0.85)).graph for g in (0, 1))
    again = 2 * 129280 * 7168
    assert guessing.parameters - plain.parameters + again == pytest.approx(14e9, rel=0.05)
    assert guessing.state_elements.at(1, 1, 1000) == pytest.approx(plain.state_elements.at(1, 1, 1000) * 62 / 61)


def test_what_cannot_guess_says_so() -> None:
    with pytest.raises(ScenarioError, match="no layer that guesses"):
        evaluate(default_scenario("h200-sxm", "llama3.1-8b").with_(params={"guesses": 1, "acceptance": 0.5}))
    with pytest.raises(ScenarioError, match=r"acceptance.* 0 to 1 is allowed"):
        evaluate(_guessing("deepseek-r1", 1, 1.5))
