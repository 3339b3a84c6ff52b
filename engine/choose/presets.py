"""Questions worth asking first: one for each document, and today's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from engine.choose.question import Question, question_of
from engine.scenario import ScenarioError


@dataclass(frozen=True)
class PresetQuestion:
    """A named question; `document` is the one whose workload it asks about, empty for today's."""

    id: str
    title: str
    document: str
    fields: Mapping[str, Any]

    @property
    def question(self) -> Question:
        """The full question."""
        return question_of(self.fields)


def _listed(*presets: PresetQuestion) -> Mapping[str, PresetQuestion]:
    return MappingProxyType({preset.id: preset for preset in presets})


QUESTIONS = _listed(
    PresetQuestion("llama-70b", "Llama 3.1 70B, 1k in and out, TPOT 25 ms (40 tokens/s per user)", "",
          {"workload": "llama3.1-70b", "inputs": 1024, "outputs": 1024, "tpot_s": 0.025}),
    PresetQuestion("dlrm", "DLRM at 50 k QPS, p99 100 ms", "000",
          {"workload": "dlrm-mlperf-v1", "latency_s": 0.1, "qps": 50_000}),
    PresetQuestion("resnet", "ResNet-50, p99 7 ms", "", {"workload": "resnet50", "latency_s": 0.007}),
    PresetQuestion("resnet-edge", "ResNet-50 at the edge: 100 images/s, p99 50 ms, 75 W", "",
          {"workload": "resnet50", "latency_s": 0.05, "qps": 100, "power_w": 75}),
    PresetQuestion("gru", "A large GRU at batch 1 under 1 ms", "001",
          {"workload": "gru-3200x2400", "batch": 1, "latency_s": 0.001}),
    PresetQuestion("gpt2", "GPT-2 1.5B for one user, 40 tokens/s", "004",
          {"workload": "gpt2-1.5b", "inputs": 64, "outputs": 64, "users": 1, "tpot_s": 0.025}),
    PresetQuestion("binary", "Binary digits beside line-rate forwarding: 500 QPS, p99 10 ms", "003",
          {"workload": "binary-mlp-mnist", "qps": 500, "latency_s": 0.01}),
    PresetQuestion("xlmr", "XLM-R, p99 200 ms", "000", {"workload": "xlm-r-large", "latency_s": 0.2}),
    PresetQuestion("wide-deep", "Wide & Deep at 1 M QPS, p99 10 ms", "002",
          {"workload": "wide-deep-criteo", "qps": 1_000_000, "latency_s": 0.01}),
)  # fmt: skip


def question(id: str) -> Question:
    """Question of that id; ScenarioError lists the known ones."""
    if id not in QUESTIONS:
        raise ScenarioError(f"question {id[:60]!r} is not known; known: {', '.join(QUESTIONS)}")
    return QUESTIONS[id].question
