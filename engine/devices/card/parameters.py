"""For which networks the switches of the many-core inference card can matter, and what its model rests on."""

from engine.devices.common.host_work import PARSING
from engine.devices.common.model_file import model_file
from model_zoo.ops import Graph

COMPILED_LENGTHS = (32.0, 64.0, 128.0, 512.0)
"""Padded lengths that networks are compiled for; document 000, section VI-A. [tokens]"""


def _tables(graph: Graph) -> bool:
    return any(op.kind == "EmbeddingBag" for op in graph.ops)


def _text(graph: Graph) -> bool:
    """Requests of varying length, looked up in a vocabulary, answered in one pass."""
    ops = graph.ops
    return not graph.causal and graph.phases[0].length.i > 0 and any(op.kind == "Gather" for op in ops)


def _clips(graph: Graph) -> bool:
    return graph.unit == "clip"


def _detector(graph: Graph) -> bool:
    return any(op.kind == "NonMaxSuppression" for op in graph.ops)


def partitioned(graph: Graph) -> bool:
    """Whether parts of a network may have cores of their own: lookups, or the first of two nets."""
    return _tables(graph) or _detector(graph)


def _pools(graph: Graph) -> bool:
    return any(op.kind == "GlobalAveragePool" for op in graph.ops)


def _adds(graph: Graph) -> bool:
    ops = graph.ops
    return any(op.kind == "Add" for op in ops) and any(op.kind == "Conv" for op in ops)


def _overlaps(graph: Graph) -> bool:
    return _tables(graph) or _text(graph) or _clips(graph)


MODEL = model_file(
    __file__,
    after=PARSING,
    tables=_tables,
    text=_text,
    clips=_clips,
    detector=_detector,
    pools=_pools,
    adds=_adds,
    overlaps=_overlaps,
)
