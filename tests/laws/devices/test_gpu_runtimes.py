"""GPUs: what runs a network, from a framework that issues operator by operator to a captured graph."""

import pytest

from engine import ScenarioError, default_scenario, evaluate
from engine.devices.gpu.operators.kinds import KINDS
from engine.devices.gpu.operators.predict import predict
from engine.devices.gpu.operators.record import facts
from engine.devices.gpu.operators.rows import parse_columns
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


ENGINES = ("trtllm", "vllm", "sglang")


@pytest.mark.parametrize("system", ["h100-sxm", "b300-sxm"])
def test_an_engine_s_runtime_is_a_captured_graph_with_its_own_experts(system: str):
    """What has no experts takes the same time to the bit; what has takes its engine's kernel, which is named."""
    dense = default_scenario(system, "llama3.1-8b", inputs=64, outputs=4)
    assert {evaluate(dense.with_(runtime=r)).latency_s for r in ("captured", *ENGINES)} == {evaluate(dense).latency_s}
    mixture = default_scenario(system, "mixtral-8x7b", inputs=64, outputs=4, precision="bf16")
    reports = {r: evaluate(mixture.with_(runtime=r)) for r in ("captured", *ENGINES)}
    kernels = {}
    for runtime, report in reports.items():
        (kernels[runtime],) = {a.text.split()[5] for a in report.assumptions if a.text.startswith("Experts run in")}
    own = "flashinfer-trtllm," if system == "b300-sxm" else "triton,"
    assert kernels == {"captured": "trtllm,", "trtllm": "trtllm,", "vllm": f"vllm-{own}", "sglang": f"sglang-{own}"}
    assert reports["captured"].latency_s == reports["trtllm"].latency_s
    assert len({report.latency_s for report in reports.values()}) == 3


@pytest.mark.parametrize(("system", "kernel"), [("h200-sxm", "vllm-marlin"), ("b200-sxm", "vllm-flashinfer-trtllm")])
def test_weights_of_4_bits_alone_run_in_the_kernel_that_the_engine_has_on_the_part(system: str, kernel: str):
    """VLLM takes Marlin for such weights on Hopper, the slower of its kernels where prompts are long."""
    base = default_scenario(system, "gpt-oss-120b").with_(precision="w4a16", inputs=8192, outputs=2, batch=1)
    reports = [evaluate(base.with_(runtime=runtime)) for runtime in ("vllm", "trtllm")]
    assert f"Experts run in the kernel {kernel}," in " ".join(a.text for a in reports[0].assumptions)
    if system == "h200-sxm":
        assert reports[0].ttft_s > 1.3 * reports[1].ttft_s


def test_an_engine_without_a_kernel_of_its_own_takes_the_part_s():
    """No kernel of a format with scales of blocks was measured on an L40S: its plain one serves, unscaled."""
    mixture = default_scenario("l40s", "mixtral-8x7b", inputs=64, outputs=4, precision="fp8")
    reports = [evaluate(mixture.with_(runtime=runtime)) for runtime in ("trtllm", "vllm")]
    assert reports[0].latency_s == reports[1].latency_s
    assert "Experts run in the kernel trtllm, as measured on l40s." in {a.text for a in reports[1].assumptions}


@pytest.mark.parametrize("tokens", [1, 4096])
@pytest.mark.parametrize(("system", "precision"), [("b200-sxm", "nvfp4"), ("h100-sxm", "bfloat16")])
def test_a_network_s_experts_take_what_the_operator_takes(tokens: int, system: str, precision: str):
    """The parts of a block add up to the operator, scales of its weights included; less the gap between two replays of
    a graph that holds it alone, and where every expert that can be met is."""
    usual = default_scenario(system, "qwen3-235b-a22b", inputs=tokens, outputs=1, batch=1, devices=1)
    block = {"device": [system], "dtype": [precision], "tokens": [str(tokens)], "hidden": ["4096"], "inter": ["1536"]}
    block |= {"topk": ["8"], "experts": ["128"]}
    for engine in ENGINES:
        report = evaluate(usual.with_(runtime=engine, precision={"nvfp4": "fp4", "bfloat16": "bf16"}[precision]))
        ours = [op for op in report.ops if op.phase == "prefill" and op.group == "feed-forward"]
        spent = sum(op.time_s / op.count for op in ours if op.name != "router")
        alone = predict(KINDS["moe"], *parse_columns(KINDS["moe"], block | {"framework": [engine]}), cold=True).seconds[
            0
        ]
        assert spent + facts()["replay_gap"] == pytest.approx(alone, rel=1e-9)


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
    allowed = "custom, eager, compiled, native, captured, captured-decode, trtllm, vllm, sglang"
    with pytest.raises(ScenarioError, match=f"runtime is 'tvm'; allowed: {allowed}"):
        evaluate(default_scenario("h100-sxm", "gpt2-345m", runtime="tvm"))
    with pytest.raises((ScenarioError, ValueError), match=r"runtime is 'native'; allowed: custom, eager, tensorflow, "):
        evaluate(default_scenario("xeon-8280l", "gpt2-345m", runtime="native"))
