"""The format of a core's cache of keys and values: the one its matrix unit multiplies, by name."""

from engine.devices.common.contract import PricedField
from engine.scenario import ScenarioError
from engine.scenario.formats import LABELS
from hardware_specs.schema import Device
from model_zoo.ops import Graph

_OF = {"fp16": "fp16", "w8a16": "fp16", "int8": "int8"}
"""Of each precision: keys and values go to the multipliers as weights do, which a core widens from no other format."""


def _lower(device: Device, graph: Graph, precision: str, value: str) -> Graph:
    """The graph as it is; ScenarioError where the core's multipliers take another format."""
    if value != _OF[precision]:
        raise ScenarioError(
            f"kv_format is {value!r}: the matrix unit of {device.name} multiplies keys and values in "
            f"{LABELS[_OF[precision]]} where precision is {precision!r}, so {_OF[precision]!r} is allowed"
        )
    return graph


KV_FORMAT = PricedField(
    needs="KV cache",
    offers=lambda graph, _: ("int8", "fp16") if graph.state_elements.c else (),
    lower=_lower,
    assumption="The cache is in the format that the matrix unit multiplies, which is what it is in by itself.",
)
