"""The Numerics page's words for formats, and its answer in one sentence. Pure."""

import re

from app.shared import formats as fmt
from app.views.numerics import texts
from engine.lab.numerics.study import TENSORS, FormatLoss


def called(format: str) -> str:
    """A format as people write it: `INT6 (per-row scale)`, `BFP (128 values, 4-bit mantissa)`, `MS-FP9`."""
    if format == "binary":
        return "Binary"
    if block := re.fullmatch(r"block of (\d+), (\d+) bit", format):
        return f"BFP ({block[1]} values, {block[2]}-bit mantissa)"
    kind, row, _ = format.partition(" by row")
    return kind.upper() + (" (per-row scale)" if row else "")


def _tensor(name: str) -> str:
    """A tensor within a sentence; a name in it stays one: `Gaussian weights`."""
    label = TENSORS[name]
    return label if label.startswith("Gaussian") else label[:1].lower() + label[1:]


def answer(tensor: str, wanted_db: float, best: FormatLoss | None) -> str:
    """What a tensor takes at a signal-to-noise ratio."""
    if best is None:
        return texts.NO_FORMAT_SENTENCE.format(wanted_db=wanted_db, tensor=_tensor(tensor))
    value = "per weight" if "weight" in TENSORS[tensor].lower() else "per value"
    return texts.FORMAT_SENTENCE.format(
        format=called(best.format),
        wanted_db=wanted_db,
        bits=fmt.digits3(best.bits),
        value=value,
        tensor=_tensor(tensor),
    )
