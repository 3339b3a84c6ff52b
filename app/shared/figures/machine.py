"""Figures of a machine with an instruction set: shares of what is there, and peaks by precision. Pure: SI in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from app.shared import formats as fmt
from app.shared.figures.style import (
    INK,
    NEUTRAL,
    PALETTE,
    PICK,
    bar,
    row_height,
    rows_axis,
    rule,
    share_axis,
    style,
    track,
    two_lines,
)
from engine.scenario.formats import LABELS


@dataclass(frozen=True)
class Bar:
    """A share of a whole, 0 to 1, with what to say of it; `weak` is not derived here."""

    name: str
    share: float
    said: str
    weak: bool = False


@dataclass(frozen=True)
class PeakOfPart:
    """Peaks of one part by format, as (format, FLOP/s), and the instance's own format and peak."""

    name: str
    held: Sequence[tuple[str, float]]
    printed: tuple[str, float] | None


def shares(rows: Sequence[Bar], title: str, dark: bool) -> go.Figure:
    """Bars from 0 to 100%; hatched where a number is only printed."""
    data, labels = [track(len(rows), dark)], []
    for at, row in enumerate(rows):
        labels.append(two_lines(row.name, fmt.percent(row.share)))
        marker: dict = {"color": PALETTE["compute"][dark]}
        if row.weak:
            marker["pattern"] = {"shape": "/", "size": 5, "solidity": 0.25}
        data.append(
            bar(at, 100 * row.share, marker=marker, hovertemplate=f"<b>{row.name}</b><br>{row.said}<extra></extra>")
        )
    return style(data, share_axis(title), rows_axis(labels), max(180, 56 + row_height(labels) * len(rows)), dark)


def peaks(parts: Sequence[PeakOfPart], dark: bool) -> go.Figure:
    """Peak against precision: a line a part, told apart by marker and name; a star where its instance stands."""
    formats = [name for name, _ in parts[0].held]
    scale = fmt.scale([max(rate for part in parts for _, rate in part.held)], "FLOP/s")
    looks = (("circle", "solid"), ("square", "dash"), ("diamond", "dot"))
    data = []
    for part, (symbol, dash) in zip(parts, looks):
        values = [scale(rate) for _, rate in part.held]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers+text",
                "x": list(range(len(formats))),
                "y": values,
                "line": {"color": INK[dark], "width": 1.6, "dash": dash},
                "marker": {"symbol": symbol, "size": 8},
                "text": ["" for _ in values[:-1]] + [part.name],
                "textposition": "top left",
                "cliponaxis": False,
                "hovertemplate": [
                    f"<b>{part.name}</b><br>{name}: {fmt.si(rate, 'FLOP/s')} would fit<extra></extra>"
                    for name, rate in part.held
                ],
            }
        )
        if part.printed and part.printed[0] in formats:
            name, rate = part.printed
            hover = f"<b>{part.name}</b>, its instance<br>{name}: {fmt.si(rate, 'FLOP/s')}<extra></extra>"
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": [formats.index(name)],
                    "y": [scale(rate)],
                    "marker": {"symbol": "star", "size": 13, "color": NEUTRAL},
                    "hovertemplate": hover,
                }
            )
    x = {
        "tickvals": list(range(len(formats))),
        "ticktext": [LABELS.get(name, name.upper()) for name in formats],
        "range": [-0.4, len(formats) - 0.6],
        "showgrid": False,
    }
    most = max(scale(rate) for part in parts for _, rate in part.held)
    y = {"title": f"Peak ({scale.unit})", "range": [0, 1.22 * most], "nticks": 5}
    return style(data, x, y, 300, dark)


def waits(curve: Sequence[tuple[int, float]], now: int, dark: bool) -> go.Figure:
    """95th percentile from request to answer along the number of clients; a line marks the number chosen."""
    scale = fmt.scale([seconds for _, seconds in curve], "s")
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "x": [count for count, _ in curve],
            "y": [scale(seconds) for _, seconds in curve],
            "line": {"color": INK[dark], "width": 1.8},
            "marker": {"color": INK[dark], "size": 6},
            "hovertemplate": [
                f"<b>{count:,} clients</b><br>{fmt.seconds(seconds)}<extra></extra>" for count, seconds in curve
            ],
        }
    ]
    most = max(scale(seconds) for _, seconds in curve)
    last = curve[-1][0]
    if now <= last:
        data.append(rule([now, now], [0, 1.1 * most], PICK[dark]))
    x = {"title": "Clients", "range": [0, 1.04 * last], "showgrid": False, "nticks": 8}
    y = {"title": f"95th percentile ({scale.unit})", "range": [0, 1.15 * most], "nticks": 5}
    return style(data, x, y, 260, dark)
