"""What a number moves, as a tornado. Pure: SI in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from app.shared import formats as fmt
from app.shared.figures.style import INK, NEUTRAL, bar, row_height, rows_axis, style, two_lines


def tornado(rows: Sequence[tuple[str, float, float]], percent: float, metric: str, dark: bool) -> go.Figure:
    """Change of a metric as each value goes down and up: solid for up, hatched for down.

    `rows` are (name, relative change with the value lowered, with it raised); largest first.
    """
    data: list[dict[str, Any]] = []
    labels = []
    for at, (name, down, up) in enumerate(rows):
        labels.append(two_lines(name, f"{fmt.signed(down)} | {fmt.signed(up)}"))
        hatch = {"shape": "/", "fgcolor": NEUTRAL, "bgcolor": "rgba(0,0,0,0)", "size": 6, "solidity": 0.5}
        for change, word, marker in (
            (down, "−", {"color": NEUTRAL, "pattern": hatch}),
            (up, "+", {"color": INK[dark]}),
        ):
            hover = f"<b>{name} {word}{percent:.0%}</b><br>{metric} {fmt.signed(change)}<extra></extra>"
            data.append(bar(at, 100 * change, marker=marker, hovertemplate=hover))
    most = max((100 * max(abs(d), abs(u)) for _, d, u in rows), default=1.0) * 1.08 or 1.0
    x = {"title": f"Change of {metric} (%)", "range": [-most, most], "zeroline": True, "zerolinecolor": NEUTRAL}
    return style(data, x, rows_axis(labels), max(180, 56 + row_height(labels) * len(rows)), dark)
