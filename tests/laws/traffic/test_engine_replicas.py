"""Which devices serve a language model, and what of its cache they hold."""

import json

import numpy as np
import pytest

from engine import default_scenario
from engine.cli.main import main
from engine.published.measured.compare import _engine
from engine.published.measured.serving import _worker
from engine.traffic import Poisson
from engine.traffic.engines.calendar import ClosedLoop
from engine.traffic.engines.operating_points import engine
from engine.traffic.engines.scheduler import POLICIES, Scheduler
from engine.traffic.engines.serving_sweep import serving_sweep
from hardware_specs import default_catalog
from tests.each import each


def test_each_card_with_the_whole_network_is_a_replica() -> None:
    scenario = default_scenario("fb-node", "gpt2-1.5b", scheme="replicas", devices=6)
    assert engine(scenario, POLICIES["vllm"], {}).scheduler.replicas == 6


def test_a_cache_is_counted_where_short_prompts_lie_on_fewer_devices() -> None:
    """Two FPGAs have the prompt of 127 tokens that one has at a token: the Load page fell over."""
    scenario = default_scenario("brainwave-s10", "gpt2-1.5b", scheme="pinned", devices=2)
    assert engine(scenario, POLICIES["vllm"], {}).at(ClosedLoop(1)).report.requests == 64


LLAMA = default_scenario("h100-sxm", "llama3.1-8b").with_(inputs=1024, outputs=256)
SHARED = {
    "replicas": LLAMA.with_(devices=8, scheme="replicas"),
    "attention ranks": LLAMA.with_(devices=8, scheme="tensor", attention_dp=8),
}


@each("name", SHARED)
def test_full_engines_are_as_full_as_one_alone(name: str) -> None:
    """A closed loop of 1,024 clients was to fill eight engines of 256 sequences: they came out 11% slower each."""
    alone, eight = (engine(scenario, POLICIES["vllm"], {}) for scenario in (LLAMA, SHARED[name]))
    assert eight.places == 8 * alone.places == 8 * 256
    if name == "replicas":
        assert eight.saturated_qps == pytest.approx(8 * alone.saturated_qps)
    full = eight.at(ClosedLoop(eight.places), 3 * eight.places).report.requests_per_s
    assert eight.saturated_qps == pytest.approx(full, rel=0.03)


def test_replicas_carry_as_many_times_what_one_does() -> None:
    """2,000 requests were over before eight engines were full: 184 requests a second, of which 169 were answered, kept
    a TPOT of 21 ms."""
    limits = {"ttft_s": 1.0, "tpot_s": 0.03}
    alone, eight = (engine(scenario, POLICIES["vllm"], limits) for scenario in (LLAMA, SHARED["replicas"]))
    assert eight.highest(Poisson(1.0)).qps / 8 == pytest.approx(alone.highest(Poisson(1.0)).qps, rel=0.08)
    beyond = eight.at(Poisson(1.01 * eight.saturated_qps))
    assert beyond.figure("tpot:p50") == pytest.approx(alone.at(ClosedLoop(256)).figure("tpot:p50"), rel=0.1)


def test_what_can_be_served_does_not_depend_on_how_many_requests_are_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Passes were priced up to as many sequences as there were requests: 20 of them made 50% more of the capacity."""
    command = ["simulate", "--system", "h100-sxm", "--workload", "llama3.1-8b", "--qps", "5", "--policy", "vllm"]
    found = []
    for requests in ("20", "400"):
        assert main([*command, "--requests", requests, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out)["capacity_qps"])
    assert found[0] == found[1]


@each(
    "limits",
    [{"ttft_s": 1.0, "tpot_s": 0.03}, {"e2e_s": 12.0}],
)
def test_the_highest_rate_keeps_its_limits_in_a_run_ten_times_as_long(limits: dict[str, float]) -> None:
    """Runs that began and ended empty gave 21.6 requests a second, of which 14 s were 99% of the times, not 12."""
    subject = engine(LLAMA, POLICIES["vllm"], limits)
    carried = subject.highest(Poisson(1.0))
    assert carried.qps > 0.85 * carried.capacity_qps
    assert subject.at(Poisson(carried.qps), 10 * 2000).missed(limits) == []
    assert subject.at(Poisson(0.96 * carried.qps), 10 * 2000, seed=1).missed(limits) == []
    assert subject.at(Poisson(1.03 * carried.qps), 10 * 2000, seed=1).missed(limits) != []


def test_every_door_knows_one_full_rate(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a policy it was of 80% of the answers, which come in waves (22.63 a second), with one of a run that
    began and ended empty (23.19); over thirty times as many requests it is 23.26."""
    command = ["simulate", "--system", "h100-sxm", "--workload", "llama3.1-8b", "--inputs", "1024", "--outputs", "256"]
    plain, named = (
        said(capsys, *command, "--qps", "5", "--requests", "2000", *more) for more in ([], ["--policy", "vllm"])
    )
    assert plain["capacity"]["qps"] == named["capacity_qps"]
    alone = engine(LLAMA, POLICIES["vllm"], {})
    ends = np.sort(alone.at(ClosedLoop(256), 40 * 256).report.finish)
    steady = 20 * 256 / (ends[30 * 256] - ends[10 * 256])
    assert named["capacity_qps"] == pytest.approx(steady, rel=0.005)


def said(capsys: pytest.CaptureFixture[str], *command: str) -> dict:
    assert main([*command, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


TWO = ["--system", "h100-sxm", "--workload", "llama3.1-70b", "--devices", "2", "--scheme", "tensor"]
TWO += ["--inputs", "1024", "--outputs", "256"]
SEVENTY = default_scenario("h100-sxm", "llama3.1-70b", inputs=1024, outputs=256).with_(devices=2, scheme="tensor")


def test_a_share_of_the_memory_leaves_that_much_less_cache(capsys: pytest.CaptureFixture[str]) -> None:
    """A 70B model in BF16 takes 141 of the 160 GB of two H100: of 90% of them a sixth of the cache is left."""
    whole, part = (engine(SEVENTY, Scheduler(memory_share=share), {}).scheduler for share in (1.0, 0.9))
    token_b = 2 * 80 * 8 * 128 * 2 / 2  # keys and values of 80 layers of 8 heads of 128 in BF16, on each of two devices
    assert (whole.kv_blocks - part.kv_blocks) * 16 == pytest.approx(0.1 * 80e9 / token_b, rel=1e-3)
    data = said(capsys, "simulate", *TWO, "--clients", "2")
    assert data["kv_blocks"] == part.kv_blocks
    assert data["engine"]["memory_share"] == 0.9
    axes = {"serving.clients": [2], "serving.memory_share": [0.8, 0.9, 1.0]}
    found = serving_sweep({"scenario": SEVENTY.model_dump(mode="json"), "axes": axes})
    assert [row["serving.memory_share"] for row in found.rows()] == [0.9, 1.0]
    assert sum(found.refused.values()) == 1


def test_every_door_takes_the_share_of_the_memory_that_the_policy_does(capsys: pytest.CaptureFixture[str]) -> None:
    """All of it was taken where nothing was said, but of published runs 90%: a fifth of the full rate."""
    plain, named = (said(capsys, "simulate", *TWO, "--qps", "0.1", *more) for more in ([], ["--policy", "vllm"]))
    assert plain["capacity"]["qps"] == named["capacity_qps"]
    assert named["capacity_qps"] < 0.6 * engine(SEVENTY, Scheduler(memory_share=1.0), {}).saturated_qps
    planned = said(capsys, "capacity", *TWO, "--demand", "0.1", "--sla", "e2e:p99=60s")
    assert planned["engine"] == plain["engine"] == named["engine"]
    assert planned["at_limit"]["kv_blocks"] == named["kv_blocks"]
    cells = {"framework": "vllm", "version": "0.12"}
    pool = _worker(SEVENTY, _engine(cells, SEVENTY), 1, 1280, 8, default_catalog())
    assert pool.scheduler.kv_blocks == named["kv_blocks"]
    small = default_scenario("h100-sxm", "llama3.1-8b", inputs=1024, outputs=256)
    rooms = {name: engine(small, rules, {}).scheduler for name, rules in POLICIES.items()}
    tokens = {name: rules.kv_blocks * rules.block for name, rules in rooms.items()}
    assert tokens["sglang"] < tokens["vllm"] < tokens["trtllm"] < tokens["no-batching"]
    weights_b, token_b = 16.06e9, 2 * 32 * 8 * 128 * 2
    assert tokens["trtllm"] == pytest.approx(0.9 * (80e9 - weights_b) / token_b, rel=0.02)
    assert tokens["sglang"] == pytest.approx((0.85 * 80e9 - weights_b) / token_b, rel=0.02)
    assert "the devices' memory" in text(capsys, "simulate", *TWO, "--clients", "2")


@each("share", ["0", "0.05", "0.88"])
def test_a_share_without_room_is_named_with_what_is_needed(capsys: pytest.CaptureFixture[str], share: str) -> None:
    """The sentence was about the size of a block, and the room for 0 tokens beside the weights."""
    assert main(["simulate", *TWO, "--clients", "2", "--memory-share", share]) == 2
    why = capsys.readouterr().err
    assert f"memory_share is {share};" in why
    least = float(why.split("it must be a number from ")[1].split(" ")[0])
    assert 0.88 < least < 0.9
    assert said(capsys, "simulate", *TWO, "--clients", "2", "--memory-share", f"{least}")["requests"] == 64


def text(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    assert main([*command]) == 0
    return capsys.readouterr().out
