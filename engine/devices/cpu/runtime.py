"""What runs a network on a CPU: costs of its operators and calls, and which algorithms its library has."""

from __future__ import annotations

from pathlib import Path

from engine.devices.common.contract import PricedField, Setting
from entries.files import load_yaml

SETTINGS: dict[str, Setting] = {
    name: Setting(entry["switches"], entry["parameters"])
    for name, entry in load_yaml((Path(__file__).parent / "runtimes.yaml").read_bytes())["runtimes"].items()
}
"""What each sets; `runtimes.yaml` says which of it was fitted, and on what."""

RUNTIME = PricedField(
    needs="operators",
    offers=lambda graph, _: (
        () if any(op.kind == "BinaryGemm" for p in graph.phases for op in p.ops) else tuple(SETTINGS)
    ),
    lower=lambda device, graph, precision, value: graph,
    assumption="The runtime sets what an operator, a fork of threads and a call cost, and how its library multiplies.",
    sets=SETTINGS.__getitem__,
)
