"""Predictions of the figures in document 002: Wide & Deep on one Cascade Lake socket.

TensorFlow runs 28 batches of 512 in flight, one per core; MXNet one batch of 1024 over all cores.
"""

from collections.abc import Callable, Mapping
from typing import Any

from model_zoo.catalog import default_zoo


def model_bytes(precision: str) -> float:
    """Size of the stored model: products in the precision, tables and the wide part in FP32. [MB]"""
    size = 0.0
    for phase in default_zoo().graph("wide-deep-criteo").phases:
        for op in phase.ops:
            low = op.contraction and precision == "int8" and op.group != "wide"
            size += op.stored * op.layers * (1 if low else 4)
    return size / 1e6


VALUES: Mapping[str, Callable[..., Any]] = {
    "WD-021": lambda: model_bytes("fp32"),
    "WD-022": lambda: model_bytes("int8"),
}
