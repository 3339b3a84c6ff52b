"""A system under load as figures. Pure: SI in, `go.Figure` out."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from app.shared import formats as fmt
from app.shared.figures.style import (
    CLOUD,
    INK,
    NEUTRAL,
    PALETTE,
    PICK,
    bar,
    log_ticks,
    row_height,
    rows_axis,
    rule,
    share_axis,
    style,
    track,
    two_lines,
)
from app.shared.load import LoadDetail, LoadPoint
from app.views.traffic import texts
from engine.traffic import RequestTimeline

_BAND = "rgba(120,132,148,0.22)"
_STEEP = 8.0  # a curve that rises more is drawn on a log axis
_LINE = 2200.0  # percent of the axis times pixels of height that a line of a label takes
_OVER = 3.0  # times the agreement to which a curve is drawn


def curve(
    points: Sequence[LoadPoint],
    name: str,
    sla_s: float,
    limit_qps: float,
    capacity_qps: float,
    now: tuple[float, float | None],
    dark: bool,
) -> go.Figure:
    """Latency along the load: the agreement's figure with its interval, the median, the agreement, capacity, and now.

    Parameters
    ----------
    points : by rising load; `low` and `high` may be infinite or None.
    now : load [1/s] and its figure [s], None where there is no steady state.
    """
    kept = [p for p in points if p.figure is not None and math.isfinite(p.figure)]
    x = fmt.scale([capacity_qps], "QPS")
    low = min([p.p50 or p.figure or sla_s for p in kept] + [sla_s])
    high = max([sla_s * 1.3, *(p.figure for p in kept if p.figure is not None and p.figure <= _OVER * sla_s)])
    log = high > _STEEP * low
    y = fmt.scale([high], "s")
    ink = INK[dark]
    data: list[dict[str, Any]] = []
    banded = [p for p in kept if p.low is not None and p.high is not None]
    if banded:
        ceiling = 10 * high
        edge = {"type": "scatter", "mode": "lines", "x": [x(p.qps) for p in banded], "line": {"width": 0}}
        edge |= {"hoverinfo": "skip"}
        data.append(edge | {"y": [y(min(p.high or 0.0, ceiling)) for p in banded]})
        lows = [y(max(p.low or 0.0, low / 2)) for p in banded]
        data.append(edge | {"y": lows, "fill": "tonexty", "fillcolor": _BAND})
    halves = [p for p in kept if p.p50 is not None]
    data.append(
        {
            "type": "scatter",
            "mode": "lines",
            "x": [x(p.qps) for p in halves],
            "y": [y(p.p50 or 0.0) for p in halves],
            "line": {"color": NEUTRAL, "width": 1.4},
            "hovertemplate": [
                f"<b>p50</b><br>{fmt.seconds(p.p50)} at {fmt.si(p.qps, 'QPS')}<extra></extra>" for p in halves
            ],
        }
    )
    data.append(
        {
            "type": "scatter",
            "mode": "lines+markers",
            "x": [x(p.qps) for p in kept],
            "y": [y(p.figure or 0.0) for p in kept],
            "line": {"color": ink, "width": 2},
            "marker": {"size": 4, "color": ink},
            "hovertemplate": [
                f"<b>{name}</b><br>{fmt.seconds(p.figure)} at {fmt.si(p.qps, 'QPS')}<extra></extra>" for p in kept
            ],
        }
    )
    right = x(capacity_qps) * 1.12
    bottom, top = (y(low) / 1.6, y(high) * 1.25) if log else (0.0, y(high) * 1.08)

    data.append(rule([0, right], [y(sla_s)] * 2, NEUTRAL))
    data.append(rule([x(capacity_qps)] * 2, [bottom, top], NEUTRAL))

    def height(value: float) -> float:
        return math.log10(value) if log else value

    notes = [
        {"x": 0, "y": height(y(sla_s)), "text": f"limit {fmt.seconds(sla_s)}", "xanchor": "left", "yanchor": "bottom"},
        {
            "x": x(capacity_qps),
            "y": height(bottom * 1.1 if log else top * 0.04),
            "text": "capacity",
            "textangle": -90,
            "xanchor": "left",
            "yanchor": "bottom",
        },
    ]
    if limit_qps > 0:
        ends = {"x": [x(limit_qps)], "y": [y(sla_s)]}
        marker = {"symbol": "diamond", "size": 10, "color": ink}
        hover = texts.LIMIT_HOVER.format(limit_qps=fmt.si(limit_qps, "QPS"))
        data.append({"type": "scatter", "mode": "markers", "marker": marker, "hovertemplate": hover} | ends)
    at, figure = now
    if figure is not None and bottom <= y(figure) <= top:
        ring = {"symbol": "circle-open", "size": 15, "color": PICK[dark], "line": {"width": 2.5}}
        ends = {"x": [x(at)], "y": [y(figure)]}
        data.append({"type": "scatter", "mode": "markers", "marker": ring, "hoverinfo": "skip"} | ends)
        notes.append({"x": x(at), "y": height(y(figure)), "text": "now", "yshift": 17})
    elif x(at) <= right:
        data.append(rule([x(at)] * 2, [bottom, top], PICK[dark]))
        notes.append({"x": x(at), "y": height(top), "text": "now", "xanchor": "right", "yanchor": "top", "xshift": -4})
    axis: dict[str, Any] = {"title": f"{name} and p50, grey ({y.unit})", "range": [bottom, top], "nticks": 6}
    if log:
        ticks, text = _ticks(bottom, top)
        axis = {
            "type": "log",
            "range": [math.log10(bottom), math.log10(top)],
            "tickvals": ticks,
            "ticktext": text,
            "title": f"{name} and p50, grey ({y.unit}, log)",
        }
    return style(data, {"title": f"Load ({x.unit})", "range": [0, right]}, axis, 340, dark, notes=notes)


def _ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Ticks of a log axis, at 1, 2 and 5 where powers of ten alone would be too few."""
    values, text = log_ticks(low, high)
    if len(values) >= 3:
        return values, text
    steps = [
        m * 10.0**p for p in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) for m in (1, 2, 5)
    ]
    inside = [v for v in steps if low <= v <= high]
    return inside, [f"{v:.12f}".rstrip("0").rstrip(".") for v in inside]


def distribution(spot: LoadDetail, sla_s: float, sla_name: str | None, dark: bool, height: int = 300) -> go.Figure:
    """Shares of requests by latency, in bins that are equally wide on the log axis, with p50, p99 and the agreement.

    Drawn over log10 of the time, so that a bin's width is the same everywhere. `sla_name` is None where the agreement
    is about another time than the one drawn.
    """
    edges = np.log10(spot.edges)
    width = float(edges[1] - edges[0])
    centres = (edges[:-1] + edges[1:]) / 2
    tall = 100 * float(spot.shares.max())
    data: list[dict[str, Any]] = [
        {
            "type": "bar",
            "x": centres,
            "y": 100 * spot.shares,
            "width": width * 0.96,
            "marker": {"color": INK[dark]},
            "hovertemplate": [
                f"<b>{fmt.seconds(a)} to {fmt.seconds(b)}</b><br>{100 * s:.3g}% of requests<extra></extra>"
                for a, b, s in zip(spot.edges[:-1], spot.edges[1:], spot.shares, strict=True)
            ],
        }
    ]
    low, high = float(edges[0]), max(float(edges[-1]), math.log10(sla_s) + width)
    notes = []
    marks = [(spot.figures[q], q) for q in ("p50", "p99") if sla_name is not None]
    if sla_name is not None:
        marks.append((sla_s, "limit"))
    for level, (value, name) in enumerate(sorted(marks)):  # lines end below the labels, so none crosses another's
        at = math.log10(value)
        colour = PICK[dark] if name == "limit" and spot.figures.get(sla_name or "", 0.0) > sla_s else NEUTRAL
        data.append(rule([at, at], [0, 1.08 * tall], colour, dash="dash" if name == "limit" else "dot"))
        left = at > low + 0.6 * (high - low)
        beside = {"xanchor": "right", "xshift": 6} if left else {"xanchor": "left", "xshift": -6}
        text = f"{name} {fmt.seconds(value)}"
        notes.append({"x": at, "y": tall * (1.15 + 0.1 * level), "text": text, "yanchor": "middle"} | beside)
    ticks, text = _time_ticks(low, high)
    x = {
        "title": "Latency (log)",
        "tickvals": ticks,
        "ticktext": text,
        "range": [low - width, high + width],
        "showgrid": False,
    }
    y = {"title": "Share of requests (%)", "range": [0, tall * 1.42], "nticks": 5}
    return style(data, x, y, height, dark, notes=notes)


def _time_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Ticks over log10 seconds, in words: 100 µs, 1 ms, 10 ms."""
    steps = (1, 2, 5) if high - low < 1.8 else (1,)
    powers = range(math.floor(low), math.ceil(high) + 1)
    values = [m * 10.0**p for p in powers for m in steps if low <= math.log10(m * 10.0**p) <= high]
    while len(values) > 7:
        values = values[::2]
    return [math.log10(v) for v in values], [_short_time(v) for v in values]


def _short_time(value: float) -> str:
    scaled = fmt.scale([value], "s")
    return f"{scaled(value):.6f}".rstrip("0").rstrip(".") + f" {scaled.unit}"


def use(shares: dict[str, float], dark: bool, least: int = 140, over: bool = False) -> go.Figure:
    """How busy each resource is at one load; at least so many pixels tall. Full ones stand out where load is `over`
    capacity: below it, one that batches is at work all the time and still has room."""
    rows = sorted(shares.items(), key=lambda item: -item[1])
    data, labels = [track(len(rows), dark)], []
    for at, (name, share) in enumerate(rows):
        labels.append(two_lines(name[:1].upper() + name[1:], fmt.percent(share)))
        colour = PICK[dark] if over and share >= 1.0 else INK[dark]
        hover = f"<b>{name}</b><br>{fmt.percent(share)} busy<extra></extra>"
        data.append(bar(at, 100 * share, marker={"color": colour}, hovertemplate=hover))
    x = share_axis(texts.SHARE_TIME_BUSY)
    return style(data, x, rows_axis(labels, least=2), use_height(shares, least), dark)


def use_height(shares: dict[str, float], least: int = 140) -> int:
    """Pixels that `use` takes for its rows."""
    labels = [two_lines(name, fmt.percent(share)) for name, share in shares.items()]
    return max(least, 56 + row_height(labels) * max(len(labels), 2))


def along(points: Sequence[LoadPoint], qps: float, dark: bool, height: int = 300, *, named: int = 4) -> go.Figure:
    """Share of time each resource is busy along the load; the ``named`` busiest are named, ``qps`` is now. [1/s]"""
    last = points[-1]
    names = sorted(last.use, key=lambda name: -last.use[name])
    x = fmt.scale([last.qps], "QPS")
    data: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    floor = math.inf
    for at, name in reversed(list(enumerate(names))):
        shown = name[:1].upper() + name[1:]
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [x(p.qps) for p in points],
                "y": [100 * p.use.get(name, 0.0) for p in points],
                "line": {
                    "color": INK[dark] if at == 0 else NEUTRAL,
                    "width": 2 if at == 0 else 1.3,
                    "dash": ("solid", "dash", "dot", "dashdot")[at % 4],
                },
                "hovertemplate": [
                    f"<b>{shown}</b><br>{fmt.percent(p.use.get(name))} busy at {fmt.si(p.qps, 'QPS')}<extra></extra>"
                    for p in points
                ],
            }
        )
    for name in names[:named]:  # from the busiest down; a label keeps clear of the one above it
        text = textwrap.wrap(name[:1].upper() + name[1:], 13)
        middle = min(100 * last.use[name], floor - _LINE * len(text) / 2 / height)
        floor = middle - _LINE * len(text) / 2 / height
        at = {"x": x(last.qps), "y": middle, "xanchor": "left", "yanchor": "middle", "xshift": 4, "align": "left"}
        notes.append(at | {"text": "<br>".join(text)})
    data.append(rule([x(qps)] * 2, [0, 105], PICK[dark]))
    left = x(qps) > 0.5 * x(last.qps)
    notes.append(
        {
            "x": x(qps),
            "y": 105,
            "text": "now",
            "xanchor": "right" if left else "left",
            "yanchor": "top",
            "xshift": -4 if left else 4,
        }
    )
    y = {"title": texts.SHARE_TIME_BUSY, "range": [0, 108], "tickvals": [0, 50, 100], "ticktext": ["0%", "50%", "100%"]}
    return style(
        data,
        {"title": f"Load ({x.unit})", "range": [0, 1.8 * x(last.qps)]},
        y,
        height,
        dark,
        notes=notes,
    )


def _segments(seen: RequestTimeline, most: int) -> list[tuple[str, str, np.ndarray, np.ndarray]]:
    """What requests spend their time on, as (kind, name, begin, end) [s]; kind: wait, wire or serve."""
    if seen.first is not None:
        first = seen.first[:most]
        return [
            ("wait", texts.UNTIL_FIRST, seen.arrive[:most], first),
            ("serve", "further tokens", first, seen.done[:most]),
        ]
    segments = []
    for name, start in seen.start.items():
        kind = "wire" if name in seen.wires else "serve"
        segments.append(("wait", f"waiting for {name}", seen.came[name][:most], start[:most]))
        segments.append((kind, f"in {name}", start[:most], seen.left[name][:most]))
    return segments


def window(seen: RequestTimeline, dark: bool, most: int = 40) -> go.Figure:
    """A window of requests on their way through the resources: one row each.

    Grey while it waits, narrow and violet on a wire, ink while it is served, the second and further stations hatched.
    Where the first token is known (a decoder), grey lasts to it and ink from it to the last.
    """
    arrive, done = seen.arrive[:most], seen.done[:most]
    origin = float(arrive[0])
    scale = fmt.scale([float(np.nanmax(done)) - origin], "s")
    data: list[dict[str, Any]] = []
    looks = {"wait": CLOUD[dark], "wire": PALETTE["links"][dark], "serve": INK[dark]}
    served = 0
    for kind, name, begin, end in _segments(seen, most):
        hatch = (
            {"pattern": {"shape": ("", "/", "x")[served % 3], "fgcolor": CLOUD[dark], "fillmode": "overlay", "size": 6}}
            if kind == "serve"
            else {}
        )
        served += kind == "serve"
        spans = end - begin
        keep = np.isfinite(spans) & (spans > 0)
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "y": np.flatnonzero(keep).tolist(),
                "x": [scale(float(v)) for v in spans[keep]],
                "base": [scale(float(b) - origin) for b in begin[keep]],
                "width": 0.35 if kind == "wire" else 0.8,
                "marker": {"color": looks[kind], "line": {"width": 0}} | hatch,
                "hovertemplate": [
                    f"<b>Request {i + 1}</b>, {name}<br>{fmt.seconds(float(spans[i]))}<extra></extra>"
                    for i in np.flatnonzero(keep)
                ],
            }
        )
    last = arrive.size
    named = [0, *range(9, last, 10)]
    y = {
        "title": texts.TIMELINE_AXIS,
        "range": [last - 0.4, -0.6],
        "showgrid": False,
        "tickvals": named,
        "ticktext": [str(at + 1) for at in named],
    }
    end = scale(float(np.nanmax(done)) - origin)
    return style(data, {"title": f"Time ({scale.unit})", "range": [0, end * 1.02]}, y, 330, dark)
