"""GPUs: what runs a network, from a framework that issues operator by operator to a captured graph."""

from __future__ import annotations

import pytest

from engine import ScenarioError, default_scenario, evaluate
from engine.scenario import decode, encode

RUNTIMES = ("eager", "compiled", "native", "captured")


@pytest.mark.parametrize("system", ["h100-sxm", "v100-appliance", "t4", "mi300x", "tpu-v3"])
@pytest.mark.parametrize("workload", ["gpt2-345m", "bert-large", "resnet50"])
def test_each_runtime_launches_for_less_than_the_one_before(system: str, workload: str):
    base = default_scenario(system, workload, inputs=64, batch=1)
    times = [evaluate(base.with_(runtime=runtime)).latency_s for runtime in RUNTIMES]
    assert times == sorted(times, reverse=True)
    assert times[0] > 1.5 * times[-1]


def test_a_runtime_stands_for_its_switches():
    base = default_scenario("h100-sxm", "gpt2-345m", inputs=64, batch=1)
    for runtime, graph, fuse in (("eager", False, False), ("captured", True, True)):
        switched = base.with_(switches=base.switches | {"graph": graph, "fuse": fuse})
        assert evaluate(base.with_(runtime=runtime)).latency_s == evaluate(switched).latency_s


@pytest.mark.parametrize("system", ["h100-sxm", "t4", "mi300x"])
def test_a_runtime_may_capture_decoding_alone(system: str):
    """Its prompts take as long as where nothing is captured, its tokens as where everything is."""
    base = default_scenario(system, "gpt2-345m", inputs=64, outputs=16, batch=1)
    native, captured, mixed = (evaluate(base.with_(runtime=r)) for r in ("native", "captured", "captured-decode"))
    assert mixed.ttft_s == pytest.approx(native.ttft_s, rel=1e-9)
    assert native.ttft_s > captured.ttft_s
    assert mixed.tpot_s == captured.tpot_s < native.tpot_s
    with pytest.raises((ScenarioError, ValueError), match="captured-decode"):
        evaluate(default_scenario(system, "resnet50", runtime="captured-decode"))


def test_a_large_batch_hides_what_a_runtime_launches():
    base = default_scenario("h100-sxm", "resnet50", batch=512)
    compiled, captured = (evaluate(base.with_(runtime=runtime)).latency_s for runtime in ("native", "captured"))
    assert compiled < 1.2 * captured


def test_a_parameter_of_the_scenario_wins_over_the_runtime_s():
    base = default_scenario("h100-sxm", "gpt2-345m", inputs=64, batch=1, runtime="native")
    slow = base.with_(overrides={"model.launches_per_op": 3.376})
    assert evaluate(slow).latency_s > 2.0 * evaluate(base).latency_s


def test_a_token_without_a_runtime_stays_as_it_was():
    base = default_scenario("h100-sxm", "gpt2-345m")
    assert base.runtime is None
    assert "runtime" not in base.model_dump(exclude_none=True)
    assert decode(encode(base.with_(runtime="native"))).runtime == "native"


def test_what_is_no_runtime_is_said_in_a_sentence():
    with pytest.raises(
        ScenarioError, match="runtime is 'tvm': eager, compiled, native, captured, captured-decode and 'as switched'"
    ):
        evaluate(default_scenario("h100-sxm", "gpt2-345m", runtime="tvm"))
    with pytest.raises((ScenarioError, ValueError), match="runtime is 'native': only 'as switched' is allowed"):
        evaluate(default_scenario("xeon-8280l", "gpt2-345m", runtime="native"))
