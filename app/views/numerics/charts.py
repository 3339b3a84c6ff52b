"""Figures of the Numerics page: error against bits, values before and after, and a network's plan. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from app.shared import formats as fmt
from app.shared.figures.style import CLOUD, INK, NEUTRAL, PICK, row_height, rows_axis, rule, style, two_lines
from app.views.numerics import texts
from app.views.numerics.labels import called
from engine.lab.numerics.study import FormatLoss
from engine.lab.numerics.trained import Quality

_SYMBOLS = ("circle", "circle-open", "diamond", "square", "x")
_BINS = 81


def error_curve(points: Sequence[FormatLoss], chosen: FormatLoss, wanted_db: float, dark: bool) -> go.Figure:
    """SQNR of each format against the bits it stores a value in; the target is dashed."""
    families = list(dict.fromkeys(p.family for p in points))
    finite = [p for p in points if np.isfinite(p.sqnr_db)]
    high = max([p.sqnr_db for p in finite] + [wanted_db]) * 1.08
    low = min(0.0, *(p.sqnr_db for p in finite)) - 2
    data = []
    for at, family in enumerate(families):
        group = sorted((p for p in finite if p.family == family), key=lambda p: p.bits)
        joined = family.startswith(("Integer", "Shared"))
        data.append(
            {
                "type": "scatter",
                "name": texts.FAMILIES[family],
                "mode": "lines+markers" if joined else "markers",
                "x": [p.bits for p in group],
                "y": [p.sqnr_db for p in group],
                "line": {"color": NEUTRAL, "width": 1.2, "dash": "solid" if at % 2 == 0 else "dot"},
                "marker": {"symbol": _SYMBOLS[at % len(_SYMBOLS)], "color": INK[dark], "size": 8},
                "hovertemplate": [
                    texts.CURVE_HOVER.format(
                        format=called(p.format), bits=fmt.digits3(p.bits), sqnr=fmt.digits3(p.sqnr_db)
                    )
                    for p in group
                ],
            }
        )
    ring = {"symbol": "circle-open", "size": 16, "color": PICK[dark], "line": {"width": 2.5}}
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "x": [chosen.bits],
            "y": [chosen.sqnr_db],
            "marker": ring,
            "hoverinfo": "skip",
            "showlegend": False,
        }
    )
    right = max(p.bits for p in finite) + 1
    data.append(rule([0, right], [wanted_db] * 2, NEUTRAL, 1.6))
    notes = [
        {
            "x": right,
            "y": wanted_db,
            "text": f"target {fmt.digits3(wanted_db)} dB",
            "xanchor": "right",
            "yanchor": "bottom",
        },
        {
            "x": chosen.bits,
            "y": chosen.sqnr_db,
            "text": called(chosen.format),
            "xanchor": "left",
            "xshift": 12,
            "yanchor": "top",
        },
    ]
    x = {"title": texts.CURVE_AXIS, "range": [0, right], "showgrid": False}
    y = {"title": "SQNR (dB)", "range": [low, high]}
    fig = style(data, x, y, 380, dark, notes=notes)
    fig.update_layout(showlegend=True, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0})
    return fig


def distribution(before: np.ndarray, after: np.ndarray, dark: bool) -> go.Figure:
    """Values before a format (filled) and after it (outline), the farthest 0.1% at the edges."""
    edge = float(np.percentile(np.abs(before), 99.9)) * 1.05
    bins = np.linspace(-edge, edge, _BINS)
    middle = (bins[:-1] + bins[1:]) / 2
    data, top = [], 0.0
    for values, name in ((before, "before"), (after, "after")):
        counts = np.histogram(np.clip(values, -edge, edge), bins)[0] / values.size * 100
        top, first = max(top, float(counts.max())), name == "before"
        look = (
            {"fill": "tozeroy", "fillcolor": CLOUD[dark], "line": {"width": 0, "shape": "hvh"}}
            if first
            else {"line": {"color": PICK[dark], "width": 1.8, "shape": "hvh"}}
        )
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": middle,
                "y": counts,
                "hovertemplate": f"{name}: %{{y:.3g}}% near %{{x:.3g}}<extra></extra>",
            }
            | look
        )
    notes = [
        {"x": 0.02, "xref": "paper", "y": top, "text": texts.BEFORE_AFTER_KEY, "xanchor": "left"},
    ]
    x = {"title": "Value", "range": [-edge, edge], "showgrid": False, "nticks": 7}
    return style(data, x, {"title": "Share of values (%)", "range": [0, top * 1.1]}, 356, dark, notes=notes)


def layer_errors(qualities: Sequence[Quality], dark: bool) -> go.Figure:
    """Signal over error of what each deep layer is given, one row a layer and a marker a scheme."""
    names = ["embeddings and numbers", *(f"after layer {i}" for i in range(1, len(qualities[0].layers_db)))]
    data = []
    for quality, symbol in zip(qualities, ("circle", "diamond-open"), strict=True):
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": quality.precision,
                "x": list(quality.layers_db),
                "y": list(range(len(names))),
                "hovertemplate": "%{x:.1f} dB<extra>" + quality.precision + "</extra>",
                "marker": {"symbol": symbol, "size": 11, "color": INK[dark], "line": {"width": 2, "color": INK[dark]}},
            }
        )
    top = max(max(q.layers_db) for q in qualities)
    labels = [two_lines(name, f"{fmt.digits3(db)} dB") for name, db in zip(names, qualities[0].layers_db, strict=True)]
    x = {"title": "SQNR against FP32 (dB)", "range": [0, top * 1.08], "showgrid": False}
    fig = style(data, x, rows_axis(labels), 90 + row_height(labels) * len(labels), dark)
    fig.update_layout(showlegend=True, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0})
    return fig
