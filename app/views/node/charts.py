"""A node drawn: hosts, switch and cards with what crosses each link; and the cores of a card over time. Pure."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

from app.shared import formats as fmt
from app.shared.figures.report import spans_of
from app.shared.figures.style import (
    INK,
    NEUTRAL,
    PALETTE,
    RESOURCE_LABELS,
    TRACK,
    log_ticks,
    rows_axis,
    style,
)
from app.views.node import texts
from engine.analyses.node.at_work import LinkLoad
from engine.analyses.node.load import LoadCurve
from engine.analyses.node.power import LoadPower
from engine.cost.report import LinkRow
from engine.devices.common.contract import RESOURCES, Span

_WIDTHS = (1.5, 9.0)  # px of an idle and of a saturated link
_ROWS = 60  # units drawn one below the other
_ROW = 25  # px of each
_BAR = 0.88  # of a row: room for a number of 11 px
_FORBIDDEN = "rgba(120,132,148,0.18)"


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
    loads: dict[tuple[str, str], LinkLoad] = field(default_factory=dict)  # by role and direction


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
        texts.WIRE_HOVER.format(
            name=row.name,
            bytes_per_request=fmt.si(row.bytes_per_request, "B"),
            used=fmt.percent(used),
            bandwidth=fmt.si(row.bandwidth, "B/s"),
            time=fmt.seconds(row.time_s),
        )
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


def _ways(topology: Topology, role: str) -> str:
    """Bytes and use of a link, each direction on a line: to the cards, and back."""
    lines = []
    for way, arrow in (("in", "→"), ("out", "←")):
        load = topology.loads.get((role, way))
        if load is not None and load.bytes_per_request > 0:
            used = fmt.percent(min(1.0, load.utilisation))
            lines.append(f"{arrow} <b>{fmt.si(load.bytes_per_request, 'B')}</b> {used} busy")
    return "<br>".join(lines)


def _label(x: float, y: float, row: LinkRow | None, ways: str) -> list[dict[str, Any]]:
    """Bytes and use of a link in words above its middle, its name below."""
    if row is None:
        return []
    moved = ways or f"<b>{fmt.si(row.bytes_per_request, 'B')}</b><br>{fmt.percent(row.utilisation)} busy"
    name = "<br>".join(textwrap.wrap(row.name, 13))
    above = {"x": x, "y": y, "text": moved, "yanchor": "bottom", "yshift": 16, "align": "center"}
    below = {"x": x, "y": y, "text": name, "yanchor": "top", "yshift": -14, "align": "center"}
    return [above, below]


def topology(topology: Topology, dark: bool, height: int = 330) -> go.Figure:
    """Network, host, switch and devices from left to right; a link is the wider, the busier."""
    middle = (topology.count - 1) / 2
    at = {"network": 0.0, "host": 1.05, "switch": 2.2, "device": 2.95}
    data: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    chain = [name for name in ("network", "host", "switch") if getattr(topology, name)]
    for left, right in pairwise(chain):
        role = "network" if left == "network" else "host"
        row = topology.links.get(role)
        data.append(_line((at[left], middle, at[right], middle), row, dark))
        notes += _label((at[left] + at[right]) / 2, middle, row, _ways(topology, role))
    top = float(max(topology.count, 2))
    if chain:
        hub = chain[-1]
        row = topology.links.get("peer")
        for i in range(topology.count):
            data.append(_line((at[hub], middle, at["device"], float(i)), row, dark))
        if row is not None:
            many = f", all {topology.count} together" if topology.count > 1 else ""
            moved = _ways(topology, "peer") or (
                f"<b>{fmt.si(row.bytes_per_request, 'B')}</b> {fmt.percent(row.utilisation)} busy"
            )
            text = f"{row.name}{many}<br>{moved}"
            notes.append({"x": at[hub] - 0.1, "y": top - 0.4, "text": text, "yanchor": "top", "align": "center"})
    for name in chain:
        notes.append(_box(at[name], middle, f"<b>{getattr(topology, name)}</b>", dark))
    notes += [_box(at["device"], float(i), f"<b>Card {i + 1}</b>", dark) for i in range(topology.count)]
    notes.append({"x": at["device"], "y": top - 0.4, "text": topology.memory, "yanchor": "bottom", "align": "center"})
    first = at[chain[0]] if chain else at["device"]
    x = {"range": [first - 0.3, at["device"] + 0.4], "showgrid": False, "tickvals": []}
    y = {"range": [-0.6, top + 0.1], "showgrid": False, "tickvals": []}
    return style(data, x, y, height, dark, notes=notes)


def cores(spans: Sequence[Span], card: int, dark: bool) -> go.Figure:
    """Who works for which request: a row a link, a core, or the cores of a card; a bar a turn there, hue by resource.

    Parameters
    ----------
    card : the one whose cores and link are drawn, with what all cards share; 0: every card, its cores together.

    A span's name ends in its request's number, which stands on the bar; every second request is hatched, so that
    neighbours differ without a hue of their own.
    """
    own = (f"card {card},", f"card {card} ")
    kept = [s for s in spans if not card or not s.unit.startswith("card ") or s.unit.startswith(own)]
    units = sorted({s.unit for s in kept}, key=_row)[:_ROWS]
    end = max((s.start_s + s.duration_s for s in kept), default=1.0)
    scale = fmt.scale([end], "s")
    data: list[dict[str, Any]] = []
    named: set[str] = set()  # in the key above the rows
    for resource in RESOURCES:
        for odd in (True, False):
            group = [s for s in kept if s.resource == resource and s.unit in units and (_number(s) % 2 == 1) is odd]
            if not group:
                continue
            hatch = {"shape": "/", "fgcolor": "rgba(127,127,127,0.55)", "size": 5, "solidity": 0.25}
            marker = {"color": PALETTE[resource][dark], "line": {"width": 0.4, "color": INK[1 - dark]}}
            marker |= {} if odd else {"pattern": hatch | {"fillmode": "overlay"}}
            text = [str(_number(s)) if s.duration_s > 0.02 * end else "" for s in group]
            look = {"width": _BAR, "name": RESOURCE_LABELS[resource], "showlegend": resource not in named}
            data.append(spans_of(group, units, resource, text, scale, dark) | look | {"marker": marker})
            named.add(resource)
    x = {"title": texts.TIMELINE_AXIS.format(unit=scale.unit), "range": [0, scale(end) * 1.02], "showgrid": False}
    labels = [unit.removeprefix(f"card {card}, ") if card else unit for unit in units]
    fig = style(data, x, rows_axis(labels, least=1), 104 + _ROW * max(len(units), 3), dark)
    key = {"orientation": "h", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom", "font": {"size": 12}}
    return fig.update_layout(showlegend=True, legend=key | {"itemclick": False, "itemdoubleclick": False})


def _number(span: Span) -> int:
    """The request a bar belongs to."""
    digits = span.name.rpartition(" ")[2]
    return int(digits) if digits.isdigit() else 0


_ORDER = ("network in", "host memory", "host core", "host link in", "card", "host link out", "network out")


def _row(unit: str) -> tuple[int, int, int, int, str]:
    """Order of the rows: what comes in, what the host does, each card's link, cores and link back, what goes out."""
    numbers = [int(word) for word in unit.replace(",", " ").split() if word.isdigit()]
    place = next((i for i, word in enumerate(_ORDER) if unit.startswith(word)), len(_ORDER))
    inside = 0 if unit.endswith("link in") else 2 if unit.endswith("link out") else 1
    first = numbers[0] if numbers else 0
    return place, first, inside, numbers[1] if len(numbers) > 1 else 0, unit


def power(points: Sequence[LoadPower], dark: bool, height: int = 300) -> go.Figure:
    """Power of cards and switch, of the host above it, and the cards' clock along the load."""
    x = [100 * p.load for p in points]
    clock = fmt.scale([max(p.clock_hz for p in points)], "Hz")
    bands = (
        ("cards and switch", [p.cards_w for p in points], PALETTE["compute"][dark]),
        ("host", [p.host_w for p in points], PALETTE["host"][dark]),
    )
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": x,
            "y": watts,
            "name": name,
            "stackgroup": "power",
            "line": {"color": ink, "width": 1.5},
            "hovertemplate": texts.POWER_HOVER.format(name=name),
        }
        for name, watts, ink in bands
    ]
    data.append(
        {
            "type": "scatter",
            "mode": "lines",
            "x": x,
            "y": [clock(p.clock_hz) for p in points],
            "name": "clock",
            "yaxis": "y2",
            "line": {"color": INK[dark], "width": 2.2, "dash": "dot"},
            "hovertemplate": texts.CLOCK_HOVER.format(unit=clock.unit),
        }
    )
    x_axis = {"title": texts.POWER_AXIS, "range": [0, 100]}
    fig = style(data, x_axis, {"title": "Power (W)", "rangemode": "tozero"}, height, dark)
    second = {"title": f"Clock ({clock.unit})", "overlaying": "y", "side": "right", "rangemode": "tozero"}
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
    fig.update_layout(yaxis2=second | {"showgrid": False, "tickmode": "auto"}, showlegend=True, legend=legend)
    return fig


def load(curves: Sequence[tuple[str, LoadCurve]], limit_s: float | None, dark: bool, height: int = 340) -> go.Figure:
    """Latency along the load of several systems on log axes, 99th percentiles bold, beyond the limit shaded."""
    drawn = [(name, c) for name, c in curves if c.qps]
    loads = [q for _, c in drawn for q in (c.qps[0], c.capacity_qps)] or [1.0, 10.0]
    times = [t for _, c in drawn for t in (*c.p50_s, *c.p99_s)] + ([limit_s] if limit_s else [])
    x, y = fmt.scale([max(loads)], "QPS"), fmt.scale([max(times, default=1.0)], "s")
    low, high = y(min(times, default=0.1)) / 1.5, y(max(times, default=1.0)) * 1.6
    left, right = x(min(loads)) / 1.3, x(max(loads)) * 1.6
    data: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    if limit_s:
        edge = {"type": "scatter", "mode": "lines", "x": [left, right], "hoverinfo": "skip", "showlegend": False}
        data.append(edge | {"y": [y(limit_s)] * 2, "line": {"color": NEUTRAL, "width": 1.3, "dash": "dash"}})
        data.append(edge | {"y": [high] * 2, "line": {"width": 0}, "fill": "tonexty", "fillcolor": _FORBIDDEN})
        notes.append(
            {
                "x": math.log10(left),
                "y": math.log10(y(limit_s)),
                "text": f"limit {fmt.seconds(limit_s)}",
                "xanchor": "left",
                "yanchor": "bottom",
            }
        )
    for at, (name, c) in enumerate(drawn):
        ink = INK[dark] if at == 0 else NEUTRAL
        line = {"type": "scatter", "x": [x(q) for q in c.qps]}
        for label, seconds, width, mode in (("p50", c.p50_s, 1.0, "lines"), ("p99", c.p99_s, 2.2, "lines+markers")):
            data.append(
                line
                | {
                    "y": [y(t) for t in seconds],
                    "mode": mode,
                    "showlegend": False,
                    "line": {"color": ink, "width": width, "dash": "solid" if at == 0 else "dot"},
                    "marker": {"size": 5, "color": ink, "symbol": "circle" if at == 0 else "square"},
                    "hovertemplate": [
                        f"<b>{name}</b>, {label}<br>{fmt.seconds(t)} at {fmt.si(q, 'QPS')}<extra></extra>"
                        for q, t in zip(c.qps, seconds, strict=True)
                    ],
                }
            )
        middle = len(c.qps) // 3
        notes.append(
            {
                "x": math.log10(x(c.qps[middle])),
                "y": math.log10(y(c.p99_s[middle])),
                "text": name,
                "yshift": 12,
                "xanchor": "center" if at == 0 else "left",
            }
        )
    vertical, horizontal = log_ticks(low, high), log_ticks(left, right)
    axis = {
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickvals": vertical[0],
        "ticktext": vertical[1],
        "title": f"Latency ({y.unit}, log)",
    }
    across = {
        "type": "log",
        "range": [math.log10(left), math.log10(right)],
        "tickvals": horizontal[0],
        "ticktext": horizontal[1],
        "title": texts.LOAD_AXIS.format(unit=x.unit),
    }
    return style(data, across, axis, height, dark, notes=notes)
