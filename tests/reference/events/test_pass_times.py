"""Pass times of a device priced as columns against their slow twin, one scenario after the other."""

import numpy as np
import pytest

import engine.cost.columns
from engine.devices.common.contract import Unsupported
from engine.resolve.choices import default_scenario
from engine.scenario import ScenarioError
from engine.traffic.engines.pass_times import device_times
from tests.each import each
from tests.reference import naive_pass_times


@each(
    ("system", "workload", "settings"),
    [
        ("h100-sxm", "llama3.1-70b", {"devices": 4, "scheme": "tensor"}),
        ("h200-sxm", "qwen3-30b-a3b", {"devices": 4, "scheme": "tensor", "attention_dp": 4, "expert_parallel": 4}),
        ("h200-sxm", "qwen3-30b-a3b", {"devices": 4, "scheme": "tensor", "context_parallel": 4}),
        ("h200-sxm", "llama3.1-8b", {"devices": 4, "scheme": "tensor", "pipeline_parallel": 2}),
        ("h200-sxm", "deepseek-r1", {"devices": 8, "scheme": "tensor", "params": {"guesses": 1}}),
        ("b200-sxm", "llama4-scout", {"devices": 2, "scheme": "tensor"}),  # attends in chunks
        ("trainium-2", "whisper-large-v3", {}),  # reads its input again in each pass
        ("xeon-8380", "llama3.1-8b", {}),  # operators in company
        ("dfx-u280", "gpt2-1.5b", {}),  # a machine with a program
        ("npu-rtl", "gpt2-345m", {}),
        ("fb-card", "llama3.2-1b", {}),
    ],
)
def test_columns_are_the_scenarios_one_by_one(system: str, workload: str, settings: dict[str, object]) -> None:
    scenario = default_scenario(system, workload).with_(**settings)
    longest = scenario.inputs + scenario.outputs
    columns, twin = (of(scenario, 2048, 16, longest) for of in (device_times, naive_pass_times.device_times))
    for name, ours, theirs in zip(columns._fields, columns, twin, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12 * max(twin.linear), err_msg=name)


def test_an_engine_takes_a_few_designs(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine of Llama 3.1 70B took 70 scenarios one by one."""
    designs = []

    def counting(*arguments: object) -> object:
        designs.append(arguments)
        return one(*arguments)

    one = engine.cost.columns.Design
    monkeypatch.setattr(engine.cost.columns, "Design", counting)
    device_times(default_scenario("h100-sxm", "llama3.1-70b").with_(devices=4, scheme="tensor"), 8192, 256, 2048)
    assert len(designs) <= 6


@each(
    ("system", "workload", "settings", "error"),
    [("h100-sxm", "resnet50", {}, Unsupported), ("h100-sxm", "gpt2-345m", {"scheme": "pinned"}, ScenarioError)],
)
def test_what_the_twin_refuses_is_refused_alike(
    system: str, workload: str, settings: dict[str, str], error: type[Exception]
) -> None:
    scenario = default_scenario(system, workload).with_(**settings)
    sentences = []
    for of in (device_times, naive_pass_times.device_times):
        with pytest.raises(error) as refused:
            of(scenario, 2048, 16, 4096)
        sentences.append(str(refused.value))
    assert sentences[0] == sentences[1]
