"""Figures of the Numerics page: error against bits, values before and after, layers; words for formats. Pure."""

import re
from collections.abc import Sequence

import numpy as np

from app.shared import formats as fmt
from app.shared.figures.drawing import line, note, points, ring, rule
from app.shared.figures.report import against
from app.shared.figures.style import CLOUD, INK, NEUTRAL, PICK, Figure, span, style, two_lines
from app.views.numerics import texts
from engine.lab.numerics.study import TENSORS, FormatLoss
from engine.lab.numerics.trained import Quality

_SYMBOLS = ("circle", "circle-open", "diamond", "square", "x")
_BINS = 81


def label(format: str) -> str:
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


def answer(tensor: str, target_db: float, best: FormatLoss | None) -> str:
    """What a tensor takes at a signal-to-noise ratio."""
    if best is None:
        return texts.NO_FORMAT_SENTENCE.format(wanted_db=target_db, tensor=_tensor(tensor))
    value = "per weight" if "weight" in TENSORS[tensor].lower() else "per value"
    return texts.FORMAT_SENTENCE.format(
        format=label(best.format),
        wanted_db=target_db,
        bits=fmt.digits3(best.bits),
        value=value,
        tensor=_tensor(tensor),
    )


def error_curve(losses: Sequence[FormatLoss], choice: FormatLoss, target_db: float, dark: bool) -> Figure:
    """SQNR of each format against the bits it stores a value in; the target is dashed."""
    finite = [p for p in losses if np.isfinite(p.sqnr_db)]
    high = max([p.sqnr_db for p in finite] + [target_db]) * 1.08
    low = min(0.0, *(p.sqnr_db for p in finite)) - 2
    data = []
    for at, family in enumerate(dict.fromkeys(p.family for p in losses)):
        group = sorted((p for p in finite if p.family == family), key=lambda p: p.bits)
        says = [
            texts.CURVE_HOVER.format(format=label(p.format), bits=fmt.digits3(p.bits), sqnr=fmt.digits3(p.sqnr_db))
            for p in group
        ]
        ends, name = ([p.bits for p in group], [p.sqnr_db for p in group]), texts.FAMILIES[family]
        if family.startswith(("Integer", "Shared")):
            data.append(rule(*ends, NEUTRAL, 1.2, "dot" if at % 2 else "solid"))
        data.append(points(*ends, INK[dark], says, symbol=_SYMBOLS[at % len(_SYMBOLS)], name=name))
    right = max(p.bits for p in finite) + 1
    data += [ring(choice.bits, choice.sqnr_db, dark), rule([0, right], [target_db] * 2, NEUTRAL, 1.6)]
    notes = [
        note(right, target_db, f"target {fmt.digits3(target_db)} dB", "right bottom"),
        note(choice.bits, choice.sqnr_db, label(choice.format), "left top", (12, 0)),
    ]
    x = span(texts.CURVE_AXIS, 0, right)
    return style(data, x, span("SQNR (dB)", low, high, grid=True), 380, dark, notes=notes, legend=True)


def distribution(before: np.ndarray, after: np.ndarray, dark: bool) -> Figure:
    """Values before a format (filled) and after it (outline), the farthest 0.1% at the edges."""
    edge = float(np.percentile(np.abs(before), 99.9)) * 1.05
    bins = np.linspace(-edge, edge, _BINS)
    middle = ((bins[:-1] + bins[1:]) / 2).tolist()
    was, now = (
        (np.histogram(np.clip(values, -edge, edge), bins)[0] / values.size * 100).tolist() for values in (before, after)
    )
    says = "{}: %{{y:.3g}}% near %{{x:.3g}}<extra></extra>"
    steps = {"line": {"width": 0, "shape": "hvh"}, "fill": "tozeroy", "fillcolor": CLOUD[dark]}
    outline = {"line": {"color": PICK[dark], "width": 1.8, "shape": "hvh"}}
    data = [line(middle, was, CLOUD[dark], says.format("before"), name="before") | steps]
    data.append(line(middle, now, PICK[dark], says.format("after"), name="after") | outline)
    top = max(was + now)
    notes = [note(0.02, top, texts.BEFORE_AFTER_KEY, "left auto", xref="paper")]
    y = span("Share of values (%)", 0, top * 1.1, grid=True)
    return style(data, span("Value", -edge, edge, nticks=7), y, 356, dark, notes=notes)


def layer_errors(qualities: Sequence[Quality], dark: bool) -> Figure:
    """Signal over error of what each deep layer is given, one row a layer and a marker a scheme."""
    first = qualities[0].layers_db
    names = ["embeddings and numbers", *(f"after layer {i}" for i in range(1, len(first)))]
    says = "%{x:.1f} dB<extra>"
    rivals = [(q.precision, q.layers_db, [f"{says}{q.precision}</extra>"] * len(first)) for q in qualities]
    labels = [two_lines(name, f"{fmt.digits3(db)} dB") for name, db in zip(names, first, strict=True)]
    return against(
        labels, rivals, span("SQNR against FP32 (dB)", 0, max(max(q.layers_db) for q in qualities) * 1.08), dark
    )
