"""A node drawn: hosts, switch and cards with what crosses each link; and the cores of a card over time. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

from app import format as fmt
from app.look import BAR_TEXT, INK, NEUTRAL, PALETTE, TRACK, rows_axis, style
from engine.devices.family import RESOURCES, Span
from engine.report import LinkRow

__all__ = ["Topology", "cores", "topology"]

_SKIP = {"hoverinfo": "skip"}
_WIDTHS = (1.5, 9.0)  # px of an idle and of a saturated link
_ROWS = 30  # units drawn one below the other
_BAR = 0.8  # of a row of 28 px: room for a number of 11 px


@dataclass(frozen=True)
class Topology:
    """What is drawn: names of the parts, and the links between them by role (None where there is none)."""

    network: str | None
    host: str | None
    switch: str | None
    device: str
    memory: str  # of one device
    count: int
    links: dict[str, LinkRow]


def _box(x: float, y: float, text: str, dark: bool) -> dict[str, Any]:
    """A part as a framed label."""
    frame = {"bgcolor": TRACK[dark], "bordercolor": NEUTRAL, "borderwidth": 1, "borderpad": 6}
    return {"x": x, "y": y, "text": text, "align": "center"} | frame


def _line(ends: tuple[float, float, float, float], row: LinkRow | None, dark: bool) -> dict[str, Any]:
    """A link: the wider, the busier; dashed where nothing crosses it."""
    used = row.utilisation if row else 0.0
    width = _WIDTHS[0] + (_WIDTHS[1] - _WIDTHS[0]) * min(1.0, used)
    colour = PALETTE["links"][dark] if row and row.bytes_per_request > 0 else NEUTRAL
    dash = {} if row and row.bytes_per_request > 0 else {"dash": "dot"}
    x0, y0, x1, y1 = ends
    hover = (
        f"<b>{row.name}</b><br>{fmt.si(row.bytes_per_request, 'B')} a request, {fmt.percent(used)} of "
        f"{fmt.si(row.bandwidth, 'B/s')}<br>{fmt.seconds(row.time_s)} of a request's latency<extra></extra>"
        if row
        else "idle<extra></extra>"
    )
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [x0, (x0 + x1) / 2, x1],
        "y": [y0, (y0 + y1) / 2, y1],
        "line": {"color": colour, "width": width} | dash,
        "hovertemplate": hover,
    }


def _label(x: float, y: float, row: LinkRow | None, many: int = 1) -> list[dict[str, Any]]:
    """Bytes and use of a link in words above its middle, its name below."""
    if row is None:
        return []
    of = f" over {many}" if many > 1 else ""
    moved = f"<b>{fmt.si(row.bytes_per_request, 'B')}</b>{of}<br>{fmt.percent(row.utilisation)} busy"
    name = "<br>".join(textwrap.wrap(row.name, 13))
    above = {"x": x, "y": y, "text": moved, "yanchor": "bottom", "yshift": 9, "align": "center"}
    below = {"x": x, "y": y, "text": name, "yanchor": "top", "yshift": -9, "align": "center"}
    return [above, below]


def topology(found: Topology, dark: bool, height: int = 330) -> go.Figure:
    """Network, host, switch and devices from left to right; a link is the wider, the busier."""
    middle = (found.count - 1) / 2
    at = {"network": 0.0, "host": 1.05, "switch": 2.2, "device": 2.95}
    data: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    chain = [name for name in ("network", "host", "switch") if getattr(found, name)]
    for left, right in pairwise(chain):
        row = found.links.get("network" if left == "network" else "host")
        data.append(_line((at[left], middle, at[right], middle), row, dark))
        notes += _label((at[left] + at[right]) / 2, middle, row)
    top = float(max(found.count, 2))
    if chain:
        hub = chain[-1]
        row = found.links.get("peer")
        for i in range(found.count):
            data.append(_line((at[hub], middle, at["device"], float(i)), row, dark))
        if row is not None:
            text = f"{row.name}<br><b>{fmt.si(row.bytes_per_request, 'B')}</b> over {found.count}<br>"
            text += f"{fmt.percent(row.utilisation)} busy"
            notes.append({"x": at[hub] - 0.1, "y": top - 0.4, "text": text, "yanchor": "top", "align": "center"})
    for name in chain:
        notes.append(_box(at[name], middle, f"<b>{getattr(found, name)}</b>", dark))
    notes += [_box(at["device"], float(i), f"<b>Card {i + 1}</b>", dark) for i in range(found.count)]
    notes.append(
        {"x": at["device"], "y": top - 0.4, "text": found.memory, "yanchor": "bottom", "align": "center"}
    )  # fmt: skip
    first = at[chain[0]] if chain else at["device"]
    x = {"range": [first - 0.3, at["device"] + 0.3], "showgrid": False, "tickvals": []}
    y = {"range": [-0.6, top + 0.1], "showgrid": False, "tickvals": []}
    return style(data, x, y, height, dark, notes=notes)


def cores(spans: Sequence[Span], dark: bool) -> go.Figure:
    """Who works for which request: a row a group of cores or links, a bar a request's turn there, hue by resource.

    A span's name ends in its request's number, which stands on the bar; every second request is hatched, so that
    neighbours differ without a hue of their own.
    """
    units = list(dict.fromkeys(span.unit for span in sorted(spans, key=lambda s: _row(s.unit))))[:_ROWS]
    end = max((s.start_s + s.duration_s for s in spans), default=1.0)
    scale = fmt.scale([end], "s")
    data = []
    for resource in RESOURCES:
        for odd in (False, True):
            group = [s for s in spans if s.resource == resource and s.unit in units and (_number(s) % 2 == 1) is odd]
            if not group:
                continue
            light = not dark and resource in ("offchip", "links", "overhead")
            hatch = {"shape": "/", "fgcolor": "rgba(127,127,127,0.55)", "size": 5, "solidity": 0.25}
            data.append(
                {
                    "type": "bar", "orientation": "h", "width": _BAR,
                    "y": [units.index(s.unit) for s in group], "x": [scale(s.duration_s) for s in group],
                    "base": [scale(s.start_s) for s in group],
                    "marker": {"color": PALETTE[resource][dark], "line": {"width": 0.8, "color": INK[1 - dark]}}
                    | ({} if odd else {"pattern": hatch | {"fillmode": "overlay"}}),
                    "text": [str(_number(s)) if s.duration_s > 0.02 * end else "" for s in group],
                    "textposition": "inside", "insidetextanchor": "middle", "textangle": 0, "constraintext": "inside",
                    "textfont": {"color": "#FFFFFF" if light else BAR_TEXT},
                    "hovertemplate": [
                        f"<b>{s.name}</b> on {s.unit}<br>{fmt.seconds(s.duration_s)} from {fmt.seconds(s.start_s)}"
                        "<extra></extra>"
                        for s in group
                    ],
                }
            )  # fmt: skip
    x = {"title": f"Time ({scale.unit}), numbers are requests", "range": [0, scale(end) * 1.02], "showgrid": False}
    return style(data, x, rows_axis(units, least=1), 64 + 28 * max(len(units), 3), dark)


def _number(span: Span) -> int:
    """The request a bar belongs to."""
    digits = span.name.rpartition(" ")[2]
    return int(digits) if digits.isdigit() else 0


def _row(unit: str) -> tuple[int, str]:
    """Order of the rows: links in, lookups, links between, dense work, links out."""
    kinds = ("links in", "lookup", "between", "dense", "card", "links out")
    return next((i for i, word in enumerate(kinds) if word in unit and (word != "card" or "," not in unit)), 4), unit
