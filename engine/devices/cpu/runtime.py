"""What runs a network on a CPU: costs of its operators and calls, and which algorithms its library has."""

from engine.devices.common.contract import PricedField
from engine.devices.common.model_file import runtimes

SETTINGS = runtimes(__file__)
"""What each sets; `runtimes.yaml` says which of it was fitted, and on what."""

RUNTIME = PricedField(
    needs="operators",
    offers=lambda graph, _: () if any(op.kind == "BinaryGemm" for op in graph.ops) else tuple(SETTINGS),
    assumption="The runtime sets what an operator, a fork of threads and a call cost, and how its library multiplies.",
    sets=SETTINGS.__getitem__,
)
