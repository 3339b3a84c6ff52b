"""Tokens guessed ahead by a network's own layers, checked in one pass, and what a pass makes of them."""

import json

import pytest

from engine import evaluate
from engine.cli.main import main
from engine.resolve.bind import bind
from engine.resolve.choices import choices, default_scenario
from engine.resolve.draft import drafted, drafts, with_draft, without_draft
from engine.scenario import Scenario, ScenarioError, encode
from engine.traffic.engines.operating_space import FIGURES
from engine.traffic.engines.serving_sweep import serving_sweep
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


DRAFT = {"draft_layers": 16, "draft_hidden": 2048, "draft_heads": 32, "draft_kv_heads": 8, "draft_ffn": 8192}
"""Llama 3.2 1B."""


def _drafted(guesses: int, acceptance: float, **params: float) -> Scenario:
    base = default_scenario("h200-sxm", "llama3.1-70b", devices=2, scheme="tensor").with_(batch=4)
    return base.with_(inputs=500, outputs=101, params={"guesses": guesses, "acceptance": acceptance} | DRAFT | params)


@pytest.mark.parametrize("scenario", [_guessing("deepseek-r1", 1, 0.85), _drafted(3, 0.8)], ids=["layer", "draft"])
def test_memory_holds_what_guesses(scenario: Scenario) -> None:
    """No phase of the network itself has it, and it was left out."""
    plain = scenario.with_(params=scenario.params | {"guesses": 0})
    graphs = [bind(s).graph for s in (scenario, plain)]
    more = graphs[0].parameters - graphs[1].parameters
    row, before = (evaluate(s).memory[0].need_bytes for s in (scenario, plain))
    assert row - before >= more / scenario.devices, "8 bits each"


def test_a_draft_network_guesses_as_the_network_of_its_sizes_decodes() -> None:
    """As many parameters, as much cache and time of a token as that network by itself; it reads each prompt too."""
    draft = default_scenario("h200-sxm", "llama3.2-1b", devices=2, scheme="tensor", batch=4, inputs=500, outputs=101)
    with_draft, plain = bind(_drafted(4, 1.0)).graph, bind(_drafted(0, 1.0)).graph
    alone = bind(draft).graph
    assert with_draft.parameters - plain.parameters == alone.parameters
    assert with_draft.state_elements.at(1, 1, 900) - plain.state_elements.at(1, 1, 900) == alone.state_elements.at(
        1, 1, 900
    )
    never, single = (evaluate(_drafted(g, 0.0)) for g in (4, 1))
    guess = evaluate(draft.with_(precision=never.scenario.precision, kv_format=never.scenario.kv_format))
    assert 3 * guess.tpot_s < never.tpot_s - single.tpot_s < 4 * guess.tpot_s, "three guesses, and their checks"
    assert never.ttft_s - evaluate(_drafted(0, 0.0)).ttft_s == pytest.approx(guess.ttft_s, rel=0.1)
    assert evaluate(_drafted(4, 0.9)).tpot_s < 0.5 * evaluate(_drafted(0, 0.9)).tpot_s


def test_a_draft_network_of_half_its_sizes_says_what_is_missing() -> None:
    scenario = _drafted(2, 0.5)
    params = {name: value for name, value in scenario.params.items() if name != "draft_heads"}
    with pytest.raises(ScenarioError, match="draft_heads"):
        evaluate(scenario.with_(params=params))
    with pytest.raises(ScenarioError, match=r"params\.draft_layers .* = 0: 1 to 1024"):
        evaluate(_drafted(2, 0.5, draft_layers=0))


def test_what_cannot_guess_says_so() -> None:
    with pytest.raises(ScenarioError, match=r"no layer that guesses .* and no draft network \(draft_layers\)"):
        evaluate(default_scenario("h200-sxm", "llama3.1-8b").with_(params={"guesses": 1, "acceptance": 0.5}))
    with pytest.raises(ScenarioError, match=r"acceptance.* 0 to 1 is allowed"):
        evaluate(_guessing("deepseek-r1", 1, 1.5))


def test_a_workload_is_a_draft_by_its_name_if_it_has_the_vocabulary() -> None:
    base = default_scenario("h200-sxm", "llama3.1-70b")
    assert DRAFT.items() <= with_draft(base, "llama3.2-1b").params.items()
    for id in ("deepseek-r1", "resnet50", "gpt2-345m"):
        with pytest.raises(ScenarioError, match=f"draft is '{id}'; a dense decoder of Llama 3.1 70B's vocabulary"):
            with_draft(base, id)
    with pytest.raises(ScenarioError, match="workload 'nothing' is not in the catalog"):
        with_draft(base, "nothing")
    for draft in ("llama3.2-1b", "resnet50"):
        with pytest.raises(ScenarioError, match=f"draft is '{draft}'; ResNet-50 makes no tokens"):
            with_draft(default_scenario("h200-sxm", "resnet50"), draft)


def test_drafts_are_the_smaller_networks_that_may_guess_and_one_takes_the_place_of_another() -> None:
    base = default_scenario("h200-sxm", "llama3.1-70b").with_(params={"layers": 40})
    assert list(drafts(base)) == ["llama3.1-8b", "llama3.2-1b", "llama3.2-3b"]
    assert not list(drafts(default_scenario("h200-sxm", "resnet50")))
    first = with_draft(base, "llama3.1-8b")
    assert (drafted(base), drafted(first)) == (None, "llama3.1-8b")
    assert with_draft(first, "llama3.2-1b") == with_draft(base, "llama3.2-1b")
    assert drafted(first.with_(params=first.params | {"draft_layers": 5})) is None
    assert without_draft(first.with_(params=first.params | {"guesses": 2, "acceptance": 0.5})) == base
    asked = {p.name: p.default for p in choices(first.with_(params=first.params | {"guesses": 2})).params}
    assert asked["guesses"] == 2
    assert "acceptance" in asked
    assert "guesses" not in {p.name for p in choices(base).params}


def test_a_draft_pays_for_few_clients_and_not_for_many(capsys: pytest.CaptureFixture[str]) -> None:
    """While weights are read for few tokens guesses are checked for nothing; where arithmetic binds they cost."""
    base = "simulate --system h200-sxm --workload llama3.1-70b --devices 2 --scheme tensor --inputs 512 --outputs 64"
    rates = {}
    for clients in (1, 256):
        for draft in ("", " --draft llama3.2-1b --accept 0.8,0.7,0.6"):
            assert main(f"{base} --json --clients {clients} --requests {4 * clients}{draft}".split()) == 0
            rates[clients, bool(draft)] = json.loads(capsys.readouterr().out)["output_tokens_per_s"]
    assert rates[1, True] > 1.8 * rates[1, False]
    assert rates[256, True] < rates[256, False]


@pytest.mark.parametrize("scenario", [_guessing("deepseek-r1", 1, 0.85), _drafted(3, 0.8)], ids=["layer", "draft"])
def test_a_serving_engine_makes_as_many_tokens_of_a_pass_as_a_report(scenario: Scenario, capsys) -> None:
    """It paid for the guesses of a scenario and took none of them: 9.6 ms per token where the report has 5.2."""
    alone = scenario.with_(batch=1)
    report = evaluate(alone)
    assert main(f"simulate {encode(alone)} --clients 1 --requests 64 --json".split()) == 0
    assert json.loads(capsys.readouterr().out)["tpot_s"]["mean"] == pytest.approx(report.tpot_s, rel=0.05)
    found = serving_sweep({"scenario": alone, "axes": {"serving.clients": [1, 2]}, "constraints": ["tpot_s <= 1e-6"]})
    gaps = found.values[FIGURES.index("tpot_s")]
    assert not any(found.simulated), "no point keeps the limit, so that none is simulated"
    assert gaps[0] == pytest.approx(report.tpot_s, rel=0.05)


def test_what_a_draft_may_leave_out_is_no_field_of_other_scenarios() -> None:
    offered = {param.name for param in choices(default_scenario("h200-sxm", "llama3.1-70b")).params}
    assert not [name for name in offered if name.startswith("draft")]
