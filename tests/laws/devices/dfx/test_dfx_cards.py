"""Cards of a DFX appliance: layers cut over them or dealt to them, clusters, and any number of them."""

from dataclasses import replace

import numpy as np
import pytest

from engine.cost.assemble import assemble
from engine.evaluate import evaluate
from engine.plan.schemes import open_plan
from engine.resolve.bind import bind
from engine.resolve.choices import default_scenario
from engine.scenario import ScenarioError
from engine.traffic.engines.pass_times import decoder_of
from engine.traffic.runs import run_decoder


@pytest.mark.parametrize("scheme", ["tensor", "pipelined", "replicas"])
def test_any_number_of_cards_up_to_eight_runs_and_more_never_give_less(scheme):
    base = default_scenario("dfx-u280", "gpt2-1.5b", scheme=scheme, inputs=8, outputs=8)
    reports = [evaluate(base.with_(devices=n)) for n in range(2, 9)]
    rates = [one.throughput_per_s for one in reports]
    assert rates == sorted(rates)
    assert [one.devices_used for one in reports] == list(range(2, 9))


def test_layers_dealt_over_cards_take_a_lone_cards_time_and_requests_start_as_often_as_the_fullest_can():
    """What a pipeline adds is its messages; weights, cache and bytes are a lone card's, once."""
    for model, cards in (("345m", 2), ("345m", 8), ("1.5b", 3)):
        lone = evaluate(default_scenario("dfx-u280", f"gpt2-{model}", devices=1, scheme="single"))
        dealt = evaluate(default_scenario("dfx-u280", f"gpt2-{model}", devices=cards, scheme="pipelined"))
        sent = sum(row.time_s for row in dealt.other if row.name.startswith("ring"))
        assert dealt.latency_s - sent == pytest.approx(lone.latency_s, rel=1e-9)
        assert 0 < sent < 0.01 * lone.latency_s
        assert 0.75 * cards < dealt.throughput_per_s / lone.throughput_per_s < cards
        for of in ("offchip_bytes", "flops"):
            once, shared = (sum(getattr(op, of) for op in report.ops) for report in (lone, dealt))
            assert shared == pytest.approx(once, rel=1e-12)
        once, shared = (sum(row.need_bytes for row in report.memory if row.level == "hbm") for report in (lone, dealt))
        assert shared == pytest.approx(once, rel=1e-12)
        (wire,) = {row.bytes_per_request for row in dealt.links if row.role == "peer"}
        width, passes = {"345m": 1024, "1.5b": 1536}[model], 127
        assert wire == 2 * (width * passes * (cards - 1) + 63)  # a vector a token and cut, a token made goes back
        served = decoder_of(dealt.scenario)
        held = run_decoder(served, np.zeros(1), *np.full((2, 1), 64)).finish[0]  # under load requests start as often
        assert 64 * served.scheduler.replicas / held == pytest.approx(dealt.throughput_per_s, rel=5e-3)


def test_no_other_deal_of_layers_lets_requests_start_more_often():
    """A layer moved from the slowest card to any other leaves that one slower still."""
    for model, cards in (("gpt2-345m", 4), ("llama2-7b", 8)):
        bound = bind(default_scenario("dfx-u280", model, devices=cards, scheme="pipelined"))
        plan = open_plan(bound)
        held = [stage.layers for stage in plan.stages]
        times = assemble(bound, plan)
        now, each = times.interval_s, [stage.time_s for stage in times.priced]
        one = each.index(max(each))
        for other in {*range(cards)} - {one}:
            moved = list(held)
            moved[one], moved[other] = moved[one] - 1, moved[other] + 1
            stages = tuple(replace(s, layers=n) for s, n in zip(plan.stages, moved, strict=True))
            if min(moved):
                assert assemble(bound, replace(plan, stages=stages)).interval_s >= now * (1 - 1e-9)


def test_cutting_layers_answers_sooner_than_dealing_them_and_by_the_same_more_with_every_layer():
    """Section IV-B: pipelined, the difference in latency grows linearly with the layers."""
    for cards in (2, 4, 8):
        gaps = []
        for layers in (12, 24, 36):
            base = default_scenario("dfx-u280", "gpt2-345m", devices=cards, params={"layers": layers})
            cut, dealt = (evaluate(base.with_(scheme=scheme)).latency_s for scheme in ("tensor", "pipelined"))
            gaps.append(dealt - cut)
        assert 0 < gaps[0] < gaps[1] < gaps[2]
        assert gaps[2] - gaps[1] == pytest.approx(gaps[1] - gaps[0], rel=1e-9)


def test_two_clusters_are_two_rings_of_half_the_cards():
    base = default_scenario("dfx-u280", "gpt2-1.5b", devices=8)
    half, one, two = (
        evaluate(base.with_(devices=cards, scheme=scheme))
        for cards, scheme in ((4, "tensor"), (8, "tensor"), (8, "clusters"))
    )
    assert two.latency_s == half.latency_s > one.latency_s
    assert two.throughput_per_s == pytest.approx(2 * half.throughput_per_s, rel=1e-12)
    assert two.throughput_per_s > one.throughput_per_s
    assert (two.power_w, two.capex_usd, two.devices_used) == (2 * half.power_w, 2 * half.capex_usd, 8)
    with pytest.raises(ScenarioError, match=r"^devices is 3: .* 2 clusters of them, so a multiple of 2 is allowed$"):
        evaluate(base.with_(devices=3, scheme="clusters"))


def test_a_card_without_a_layer_is_refused_in_one_sentence():
    base = default_scenario("dfx-u280", "gpt2-345m", devices=8, scheme="pipelined", params={"layers": 4})
    with pytest.raises(ScenarioError, match=r"^devices is 8: .* has 4, so 1 to 4 are allowed$"):
        evaluate(base)
