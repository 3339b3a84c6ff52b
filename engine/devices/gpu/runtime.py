"""What runs a network on a GPU: which kernels it fuses, and what its host takes to launch one."""

from engine.devices.common.model_file import runtimes
from engine.devices.common.setting import PricedField
from model_zoo.ops import Graph

SETTINGS = runtimes(__file__)
"""What each sets. What serves one token after another is for networks that make such."""


def _decodes(graph: Graph) -> bool:
    """Whether a network makes its output one by one, in passes of their own."""
    return any(phase.repeat.o for phase in graph.phases)


RUNTIME = PricedField(
    needs="operators",
    settings=SETTINGS,
    offers=lambda graph, _: tuple(n for n, s in SETTINGS.items() if not (s.prompts or s.engine) or _decodes(graph)),
    assumption="The runtime sets which operators are fused and what launching costs, for prompts as for tokens unless "
    "it captures decoding alone; its switches stand back.",
)
