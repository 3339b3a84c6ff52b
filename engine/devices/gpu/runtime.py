"""What runs a network on a GPU: which kernels it fuses, and what its host takes to launch one."""

from __future__ import annotations

from engine.devices.common.contract import PricedField, Setting
from model_zoo.ops import Graph

SETTINGS: dict[str, Setting] = {
    # PyTorch as it comes: an operator a call, through modules and views
    "eager": Setting({"graph": False, "fuse": False}),
    # torch.compile: fused kernels, each a bare operator of the framework to the host
    "compiled": Setting({"graph": False, "fuse": True}, {"launches_per_op": 1.0}),
    # C++ runtimes (FasterTransformer, TensorRT): a launch of 3 us and its arguments, a quarter of a bare operator
    "native": Setting({"graph": False, "fuse": True}, {"launches_per_op": 0.25}),
    # a serving engine: a pass is one captured graph, whose nodes the device starts by itself
    "captured": Setting({"graph": True, "fuse": True}),
    # engines that capture decoding alone: a prompt's length differs from pass to pass, so a C++ runtime launches it
    "captured-decode": Setting(
        {"graph": True, "fuse": True}, prompts=Setting({"graph": False, "fuse": True}, {"launches_per_op": 0.25})
    ),
    # as captured, with the kernels that TensorRT-LLM, vLLM or SGLang runs experts in
    **{engine: Setting({"graph": True, "fuse": True}, engine=engine) for engine in ("trtllm", "vllm", "sglang")},
}
"""What each sets. What serves one token after another is for networks that make such.

Bare operator: `op_overhead` of a part or the family's `op_issue`, 20 us from a framework as its vendor says. Launch of
a kernel: 3 us, that vendor's forum; that one from C++ takes 5 us with its arguments is assumed.
"""


def _decodes(graph: Graph) -> bool:
    """Whether a network makes its output one by one, in passes of their own."""
    return any(phase.repeat.o for phase in graph.phases)


RUNTIME = PricedField(
    needs="operators",
    offers=lambda graph, _: tuple(n for n, s in SETTINGS.items() if not (s.prompts or s.engine) or _decodes(graph)),
    lower=lambda device, graph, precision, value: graph,
    assumption="The runtime sets which operators are fused and what launching costs, for prompts as for tokens unless "
    "it captures decoding alone; its switches stand back.",
    sets=SETTINGS.__getitem__,
)
