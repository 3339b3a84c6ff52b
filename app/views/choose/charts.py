"""Throughput per device against what one user sees, one curve per system. Pure: SI in."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from app.shared import formats as fmt
from app.shared.figures.labels import BESIDE, Plot
from app.shared.figures.style import CLOUD, INK, PICK, log_axis, style
from app.views.choose import texts
from engine.choose import Row
from engine.scenario.configuration import configuration

_NAMED = 3  # systems beside the picked one whose curves are named
_HEIGHT = 380  # px
_WIDTH = (500.0, 260.0)  # px of the plot area that labels are laid out for, at a desk and on a phone


def front(rows: Sequence[Row], picked: str, unit: str, user: str, dark: bool, phone: bool = False) -> go.Figure:
    """Curves of the systems that meet the limits; the picked one, the best ranked and the fastest are named."""
    drawn = [row for row in rows if row.front]
    xs = [one.speed for row in drawn for one in row.front]
    ys = [one.rate_per_device for row in drawn for one in row.front]
    x = log_axis(min(xs) / 1.3, max(xs) * 1.5, f"Speed a user ({user}/s)")
    y = log_axis(min(ys) / 1.5, max(ys) * 2.0, f"Throughput per device ({unit}/s)")
    plot = Plot((min(xs) / 1.3, max(xs) * 1.5), (min(ys) / 1.5, max(ys) * 2.0), _WIDTH[phone], _HEIGHT - 60.0)
    fast = max(drawn, key=lambda row: max(one.speed for one in row.front), default=None)
    named = {row.system for row in drawn if row is fast or (row.rank is not None and row.rank <= _NAMED)}
    data = []
    order = sorted(drawn, key=lambda row: (row.system == picked, row.system in named))
    for row in order:
        one = row.system == picked
        colour = PICK[dark] if one else INK[dark] if row.system in named else CLOUD[dark]
        line = {"color": colour, "width": 2.4 if one else 1.4}
        marker = {"color": colour, "size": 8 if one else 5, "symbol": "circle" if row.rank else "circle-open"}
        hover = [
            texts.FRONT_HOVER.format(
                label=row.label,
                configuration=configuration(p.scenario),
                rate=fmt.si(p.rate_per_device, f"{unit}/s"),
                speed=fmt.si(p.speed, f"{user}/s"),
            )
            for p in row.front
        ]
        data.append(
            {"type": "scatter", "mode": "lines+markers", "x": [p.speed for p in row.front],
             "y": [p.rate_per_device for p in row.front], "line": line, "marker": marker, "hovertemplate": hover}
        )  # fmt: skip
        if one or row.system in named:
            plot.keep_off([p.speed for p in row.front], [p.rate_per_device for p in row.front])
    for row in reversed(order):
        if row.system == picked or row.system in named:
            any(plot.label(p.speed, p.rate_per_device, row.label, BESIDE) for p in row.front)
    return style(data, x, y, _HEIGHT, dark, notes=plot.notes)
