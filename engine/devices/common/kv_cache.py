"""A KV cache in a format of its own: for which networks, and how many bytes of it lie in memory and move.

Families count state in elements and price each as they price an activation: in one number of bits where it lies, in
another where an operator moves it. A cache of another format is the same number of keys and values in fewer or more
bits, so the network is priced with its state counted in elements of *those* bits: exact, and the same for memory, for
traffic and for whatever else reads the network.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from engine.devices.common.setting import PricedField
from engine.scenario.formats import BITS, WEIGHT_ONLY
from hardware_specs.schema import Device
from model_zoo.ops import Graph, Op, Sum

CACHE_BITS = "cache_bits"
"""Attribute of an operator that reads or writes such a cache: bits of an element."""
FORMATS = ("fp16", "fp8", "int8")
"""Formats that serving frameworks store keys and values in beside the activations' own."""


def kv_format(moved_bits: Callable[[Device, str], tuple[float, float]]) -> PricedField:
    """The field for a family.

    ``moved_bits`` gives what an element of state has where an operator in the scenario's precision moves it, and where
    one that stays wide does, from a device and that precision. [bit]
    """

    def lower(device: Device, graph: Graph, precision: str, value: str) -> Graph:
        narrow, wide = moved_bits(device, precision)
        low = 16.0 if precision in WEIGHT_ONLY else BITS[precision]
        store = wide if graph.state_is_wide else low  # as `footprint` counts it
        return _with_cache_bits(graph, BITS[value], narrow, wide, store)

    return PricedField(
        needs="KV cache",
        offers=lambda graph, _: FORMATS if graph.state_elements.c else (),
        lower=lower,
        assumption="A KV cache in a format of its own has one scale a tensor, which takes no room; keys and values are "
        "narrowed as they are written and widened as they are read, at no cost of their own.",
    )


@lru_cache(maxsize=256)
def _with_cache_bits(graph: Graph, bits: float, narrow: float, wide: float, store: float) -> Graph:
    """The graph with a cache of so many bits, which its operators name, counted in elements of other bits: those that
    operators in the scenario's precision move, that others move, and that are kept. [bit] State that does not grow with
    the context (of a recurrence) is no cache and stays as it is."""

    def with_cache_bits(op: Op) -> Op:
        if op.state_reads.coef and not op.state_reads.c:
            return op
        factor, attributes = bits / (narrow if op.quantisable else wide), (*op.attributes, (CACHE_BITS, float(bits)))
        counts = {"state_reads": op.state_reads * factor, "state_writes": op.state_writes * factor}
        return replace(op, attributes=attributes, **counts)

    terms = tuple(term * (bits / store) if term.c else term for term in graph.state_elements.terms)
    return replace(graph.map_ops(with_cache_bits), state_elements=Sum(terms))
