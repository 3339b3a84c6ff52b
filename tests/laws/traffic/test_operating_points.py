"""Laws of a serving engine's operating points: alone it is `evaluate`, what binds follows from the log, limits hold."""

import math
from dataclasses import replace

import pytest

from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.resolve.presets import PRESETS
from engine.traffic import Fixed, Poisson
from engine.traffic.engines.calendar import ClosedLoop
from engine.traffic.engines.operating_points import LIMITS, Engine, engine, timeline
from engine.traffic.engines.scheduler import POLICIES, Scheduler
from tests.each import each
from tests.laws.traffic.test_calendar import GPU

DECODERS = {
    "dfx-1.5b": PRESETS["dfx-1.5b"].scenario,
    "dfx-345m to its last position": PRESETS["dfx-345m"].scenario.with_(outputs=961),  # no table may ask beyond it
    "v100-1.5b": PRESETS["v100-1.5b"].scenario,
    "llama 8b": default_scenario("h100-sxm", "llama3.1-8b").with_(inputs=1000, outputs=128),
    "llama 70b on eight": default_scenario("h100-sxm", "llama3.1-70b", devices=8).with_(precision="fp8"),
}


def of_given(scheduler: Scheduler, outputs: int = 64, limits: dict[str, float] | None = None) -> Engine:
    return Engine(GPU, scheduler, 2, Fixed(512), Fixed(outputs), limits or {})


@each("name, policy", [(name, policy) for name in DECODERS for policy in POLICIES])
def test_one_client_alone_is_what_evaluate_says(name: str, policy: str) -> None:
    """TTFT of DFX was 3.4% too short (its head runs for every token of a prompt), of the 70B model 0.7% too long."""
    scenario = DECODERS[name].with_(batch=1)
    rules = POLICIES[policy]
    report, point = evaluate(scenario), engine(scenario, rules, {}).at(ClosedLoop(1))
    front_end_s = rules.read_s * scenario.inputs + rules.write_s  # of a policy that has one: `evaluate` knows of none
    assert point.report.ttft.p50.value == pytest.approx(report.ttft_s + front_end_s, rel=1e-3)
    assert point.report.tpot.p50.value == pytest.approx(report.tpot_s, rel=5e-3)
    assert point.tokens_per_s_per_user == pytest.approx(1 / report.tpot_s, rel=5e-3)
    assert point.devices == scenario.devices


BOUND = {
    "decode": (Scheduler(kv_blocks=9999), ClosedLoop(2)),
    "token budget": (Scheduler(kv_blocks=9999, budget=96), ClosedLoop(64)),
    "KV cache": (Scheduler(kv_blocks=120), ClosedLoop(64)),
    "max sequences": (Scheduler(kv_blocks=9999, max_seqs=4), ClosedLoop(64)),
    "no requests": (Scheduler(kv_blocks=9999), Poisson(0.2)),
}


@each("name", BOUND)
def test_what_binds_is_named_and_its_shares_are_the_whole_run(name: str) -> None:
    scheduler, load = BOUND[name]
    point = of_given(scheduler).at(load)
    assert point.binds == name
    assert math.fsum(point.shares.values()) == pytest.approx(1.0)
    assert min(point.shares.values()) >= 0.0


@each("policy", [name for name, rules in POLICIES.items() if rules.max_seqs > 1])
def test_no_policy_is_said_to_wait_for_a_cache_or_seats_that_are_free(policy: str) -> None:
    free = replace(POLICIES[policy], kv_blocks=10**6, max_seqs=4096)
    shares = of_given(free).at(ClosedLoop(48)).shares
    assert shares["KV cache"] == shares["max sequences"] == 0.0
    tight = replace(POLICIES[policy], kv_blocks=8192 // POLICIES[policy].block)
    assert of_given(tight, 400).at(ClosedLoop(48)).binds == "KV cache"


@each("load", [ClosedLoop(1), Poisson(1.0)])
def test_the_most_an_engine_carries_keeps_the_limits_and_a_tenth_more_does_not(load: ClosedLoop | Poisson) -> None:
    limits = {"ttft_s": 0.5, "tpot_s": 0.03}
    subject = of_given(Scheduler(kv_blocks=16384), limits=limits)
    most = subject.highest(load)
    assert most.level is not None
    assert most.point.missed(limits) == []
    more = math.ceil(1.1 * most.level) if isinstance(load, ClosedLoop) else 1.1 * most.level
    assert subject.at(replace(load, clients=more) if isinstance(load, ClosedLoop) else load.at(more)).missed(limits)
    assert most.qps <= most.capacity_qps


def test_limits_that_nothing_keeps_are_said_with_the_figure_that_misses() -> None:
    most = of_given(Scheduler(kv_blocks=16384), limits={"tpot_s": 1e-4}).highest(ClosedLoop(8))
    assert most.level is None
    assert "No load keeps the limits: at the lowest tpot p50 is" in most.message


@each("load", [ClosedLoop(100), Poisson(3.0)])
def test_a_curve_has_six_to_eight_loads_that_rise(load: ClosedLoop | Poisson) -> None:
    subject = of_given(Scheduler(kv_blocks=16384))
    points = [subject.at(each) for each in subject.along(load)]
    assert 6 <= len(points) <= 8
    assert [p.level for p in points] == sorted({p.level for p in points})
    assert all(set(LIMITS) >= set(p.missed(dict.fromkeys(LIMITS, 0.0))) for p in points)


def test_a_timeline_loses_no_peak_and_no_preemption() -> None:
    report = of_given(Scheduler(kv_blocks=120), 400).at(ClosedLoop(64)).report
    shown = timeline(report, 50)
    assert report.preemptions > 0
    assert shown["preempted"].sum() == report.preemptions
    for at, name in ((3, "prefill_tokens"), (4, "decode_rows"), (5, "blocks")):  # means of 20,000 requests were 1 token
        assert shown[name].max() == report.log[:, at].max()
    assert (shown["end_s"] > shown["start_s"]).all()
    assert (shown["start_s"][1:] >= shown["end_s"][:-1] - 1e-9).all()
    assert len(shown["start_s"]) <= 50 < len(report.log)


def test_very_long_answers_are_bounded_work() -> None:
    assert of_given(Scheduler(), outputs=1_000_000).requests(ClosedLoop(100)) == 200
    assert of_given(Scheduler(), outputs=64).requests(ClosedLoop(100)) == 1200


@each(
    "ways",
    [
        {"attention_dp": 4},
        {"attention_dp": 4, "expert_parallel": 4},
        {"pipeline_parallel": 2},
        {"expert_parallel": 2},
        {"context_parallel": 4, "expert_parallel": 4},
    ],
)
def test_one_client_of_each_rank_is_what_evaluate_says_of_all_together(ways: dict[str, int]) -> None:
    scenario = default_scenario("h200-sxm", "qwen3-30b-a3b", devices=4, inputs=1000, outputs=64).with_(**ways)
    ranks = scenario.attention_dp or 1
    report, point = evaluate(scenario.with_(batch=ranks)), engine(scenario, POLICIES["vllm"], {}).at(ClosedLoop(ranks))
    assert point.report.ttft.p50.value == pytest.approx(report.ttft_s, rel=0.02)
    assert point.report.tpot.p50.value == pytest.approx(report.tpot_s, rel=0.02)
    assert point.devices == 4
    held = engine(scenario.with_(attention_dp=None), POLICIES["vllm"], {}).scheduler.kv_blocks
    assert engine(scenario, POLICIES["vllm"], {}).scheduler.kv_blocks <= held


def test_a_prompt_on_one_rank_is_not_billed_to_all() -> None:
    """Sixteen ranks carried 9% of their capacity within limits of many passes: each prompt cost one of every rank."""
    for ranks in (8, 16):
        ways = {"devices": ranks, "attention_dp": ranks, "expert_parallel": ranks}
        scenario = default_scenario("h200-sxm", "qwen3-30b-a3b", devices=ranks, inputs=1024, outputs=64).with_(**ways)
        subject = engine(scenario, POLICIES["vllm"], {"ttft:p99": 1.0, "tpot:p50": 0.03})
        carried = subject.highest(Poisson(1.0))
        assert carried.qps > 0.8 * subject.highest(ClosedLoop(1)).qps
        assert carried.qps > 0.55 * carried.capacity_qps  # which keeps no limit


def test_clients_that_think_and_begin_apart_are_more() -> None:
    """Beginning together, the first requests of all clients are the p99 of every run, however long they think after."""
    subject = of_given(Scheduler(), limits={"ttft_s": 0.5})
    busy, stampede, idle = (
        subject.highest(ClosedLoop(1, *each, True)) for each in ((0.0, 0.0), (60.0, 0.0), (60.0, 60.0))
    )
    assert idle.level > 20 * max(busy.level, stampede.level)
    report = subject.at(ClosedLoop(64)).report
    assert report.steady_e2e.mean.value < report.e2e.mean.value, "the first wave apart"


def test_engines_alike_share_the_time_of_their_run() -> None:
    scenario = PRESETS["dfx-1.5b"].scenario.with_(scheme="replicas", devices=2)
    point = engine(scenario, POLICIES["vllm"], {}).at(ClosedLoop(2))
    assert point.engines == point.devices == 2
    assert math.fsum(point.shares.values()) == pytest.approx(1.0)
    assert point.shares["no requests"] < 0.01
