"""Figures of the Program page. Pure: cycles in."""

from __future__ import annotations

import plotly.graph_objects as go

from app.shared.figures.style import BAR_WIDTH, PALETTE, PICK, TRACK, rows_axis, rule, style
from engine.analyses.programs import Listing

_MOST = 1500  # bars: of a longer program the longest are drawn


def units(listing: Listing, picked: int, dark: bool) -> go.Figure:
    """A row a unit, a bar an instruction; the picked one stands out, and a line says when its result is valid."""
    names = list(dict.fromkeys(unit for unit, *_ in listing.bars))
    text = {row.number: row.text.split("  ")[0] for row in listing.rows}
    least = listing.cycles / 250  # a bar of a cycle is still seen, its outline would hide it
    kept = sorted(sorted(listing.bars, key=lambda bar: -bar[3])[:_MOST], key=lambda bar: bar[2])
    mine = [bar for bar in listing.bars if bar[1] == picked]
    data = []
    for bars, color in ((kept, PALETTE["compute"][dark]), (mine, PICK[dark])):
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "y": [names.index(unit) for unit, *_ in bars],
                "x": [max(cycles, least) for *_, cycles in bars],
                "base": [start for _, _, start, _ in bars],
                "width": BAR_WIDTH,
                "marker": {
                    "color": color,
                    "line": {"width": [0.5 * (bar[3] > 2 * least) for bar in bars], "color": TRACK[dark]},
                },
                "hovertemplate": [
                    f"<b>{number}: {text.get(number, '')}</b><br>{unit}: {cycles:,.0f} cycles from {start:,.0f}"
                    "<extra></extra>"
                    for unit, number, start, cycles in bars
                ],
            }
        )
    valid = next((row.valid for row in listing.rows if row.number == picked), None)
    if valid is not None:
        data.append(rule([valid, valid], [-0.5, len(names) - 0.5], PICK[dark], 1, "dot"))
    x = {"title": "Cycle", "range": [0, listing.cycles * 1.02], "showgrid": False}
    return style(data, x, rows_axis(names, least=1), 72 + 38 * max(len(names), 2), dark)
