"""One figure over two lists of values, as a heat map; and what an objective is as an axis. Pure: SI in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from app.shared import formats as fmt
from app.shared.figures.style import PICK, style

_SKIP = {"hoverinfo": "skip"}
_MANY_CELLS = 150  # of a heat map: beyond, numbers in cells would overlap


@dataclass(frozen=True)
class ObjectiveAxis:
    """One objective as an axis: what it is called, its prefix, and whether less is better."""

    label: str
    unit: str  # of SI values
    scale: fmt.Scale
    less: bool
    limit: float | None = None  # a constraint on it, SI


def heat(
    columns: Sequence[str],
    rows: Sequence[str],
    values: Sequence[Sequence[float | None]],
    best: tuple[int, int] | None,
    now: tuple[int, int] | None,
    titles: tuple[str, str],
    axis: ObjectiveAxis,
    dark: bool,
) -> go.Figure:
    """One figure over two lists of values: the best cell ringed, the selected one starred; empty where nothing fits.

    `values[row][column]` in SI; `best` and `now` are (row, column).
    """
    shown = [[None if v is None else axis.scale(v) for v in row] for row in values]
    cells = len(rows) * len(columns)
    text = [["" if v is None else fmt.digits3(v) for v in row] for row in shown]
    hover = [
        [
            f"<b>{titles[0]} {c} × {titles[1]} {r}</b><br>"
            + ("does not fit" if v is None else f"{axis.label} {fmt.digits3(v)} {axis.scale.unit}")
            for c, v in zip(columns, row)
        ]
        for r, row in zip(rows, shown)
    ]
    known = [v for row in shown for v in row if v is not None]
    data: list[dict[str, Any]] = [
        {
            "type": "heatmap",
            "z": shown,
            "x": list(range(len(columns))),
            "y": list(range(len(rows))),
            "colorscale": "Cividis",
            "reversescale": axis.less,
            "hovertext": hover,
            "hoverinfo": "text",
            "hoverongaps": True,
            "xgap": 1,
            "ygap": 1,
            "zmin": min(known, default=0),
            "zmax": max(known, default=1),
            "colorbar": {
                "thickness": 10,
                "outlinewidth": 0,
                "ticks": "",
                "tickfont": {"size": 12},
                "title": {"text": axis.scale.unit, "font": {"size": 12}},
            },
        }
        | ({"text": text, "texttemplate": "%{text}", "textfont": {"size": 12}} if cells <= _MANY_CELLS else {})
    ]
    for cell, look in (
        (best, {"symbol": "square-open", "size": 28, "color": PICK[dark], "line": {"width": 2.5}}),
        (now, {"symbol": "star", "size": 9, "color": PICK[dark]}),
    ):
        if cell is not None:
            shift = 0.0 if look["symbol"] != "star" or cells > _MANY_CELLS else -0.32
            at = {"x": [cell[1]], "y": [cell[0] + shift]}
            data.append({"type": "scatter", "mode": "markers", "marker": look} | at | _SKIP)
    x = {
        "tickvals": list(range(len(columns))),
        "ticktext": list(columns),
        "title": titles[0],
        "showgrid": False,
        "range": [-0.5, len(columns) - 0.5],
        "tickangle": 0,
    }
    y = {
        "tickvals": list(range(len(rows))),
        "ticktext": list(rows),
        "title": titles[1],
        "showgrid": False,
        "range": [-0.5, len(rows) - 0.5],
    }
    return style(data, x, y, max(220, 70 + 44 * len(rows)), dark)
