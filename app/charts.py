"""Reports and tables as figures. Pure: SI in, `go.Figure` out; the only place that styles.

A hue means a resource and nothing else, and every hue is doubled by a word, a shape or a hatch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from app import format as fmt
from engine.devices.family import RESOURCES, Span
from engine.report import LinkRow, MemoryRow, OpRow, Report

__all__ = ["PALETTE", "RESOURCE_LABELS", "Point", "breakdown", "fits", "knob", "links", "roofline", "style", "timeline"]

RESOURCE_LABELS = {
    "compute": "Compute",
    "offchip": "Off-chip memory",
    "onchip": "On-chip memory",
    "links": "Links",
    "host": "Host",
    "overhead": "Overhead",
}
PALETTE = {
    "compute": ("#358BFF", "#327DE9"),
    "offchip": ("#A94411", "#FD9623"),
    "onchip": ("#008376", "#15CE9C"),
    "links": ("#720D92", "#D9479B"),
    "host": ("#A58F15", "#8D7D00"),
    "overhead": ("#333D49", "#DAE5F3"),
}
MARKERS = {
    "compute": "circle",
    "offchip": "square",
    "onchip": "diamond",
    "links": "triangle-up",
    "host": "cross",
    "overhead": "x",
}
INK = ("#1B2430", "#E4E9F0")
CLOUD = ("#C3CBD6", "#465162")
TRACK = ("#E9EDF2", "#252C36")
PICK = ("#C2185B", "#FF6FA5")
NEUTRAL = "#788494"
CHART_TEXT = "#5B6675"  # light theme only; in the dark Streamlit's own is readable
BAR_TEXT = "#0B1220"
_CHARACTER = 6.2  # width of a 12 px character in Source Sans [px]


def style(fig: go.Figure, height: int, dark: bool, *, select: bool = False) -> go.Figure:
    """Axes, fonts, margins and height that every figure of the app shares."""
    ink = None if dark else CHART_TEXT
    axis: dict[str, Any] = {
        "zeroline": False,
        "showline": False,
        "ticks": "outside",
        "ticklen": 5,
        "tickcolor": "rgba(0,0,0,0)",
        "automargin": True,
        "fixedrange": not select,
        "tickfont": {"size": 12, "color": ink},
        "title_font": {"size": 12, "color": ink},
        "title_standoff": 10,
    }
    fig.update_xaxes(**axis)
    fig.update_yaxes(**axis)
    fig.update_annotations(font={"size": 12, "color": ink})
    fig.update_layout(
        height=height,
        margin={"l": 4, "r": 8, "t": 6, "b": 4},
        font={"size": 12, "color": ink},
        showlegend=False,
        barmode="overlay",
        bargap=0.34,
        dragmode="select" if select else False,
        uniformtext={"minsize": 11, "mode": "hide"},
        modebar={"bgcolor": "rgba(0,0,0,0)"},
    )
    return fig


def _rows(fig: go.Figure, labels: Sequence[str]) -> None:
    """A y axis of named rows, first on top, label beside the bar."""
    last = max(len(labels), 3) - 0.4  # a lone bar stays a bar
    fig.update_yaxes(tickvals=list(range(len(labels))), ticktext=list(labels), range=[last, -0.6], showgrid=False)


def breakdown(parts: dict[str, float], relative_band: float | None, per: str, dark: bool) -> go.Figure:
    """Where the time goes: one bar a resource, each from where the last one ended, and the total with its band.

    Parameters
    ----------
    parts : resource -> time. [s]
    relative_band : half width of the band on the total, as a share of it; None: none known. [-]
    per : what one time belongs to, e.g. "output token".
    """
    total = sum(parts.values())
    shown = sorted(((name, s) for name, s in parts.items() if s > 0), key=lambda item: -item[1])
    scale = fmt.scale([total], "s")
    fig = go.Figure()
    labels, start = [], 0.0
    for at, (name, time) in enumerate(shown):
        share = fmt.percent(time / total)
        labels.append(f"{RESOURCE_LABELS[name]}  <b>{scale.text(time)}</b> · {share}")
        fig.add_bar(
            orientation="h",
            y=[at],
            x=[scale(time)],
            base=[scale(start)],
            marker_color=PALETTE[name][dark],
            hovertemplate=f"<b>{RESOURCE_LABELS[name]}</b><br>{fmt.seconds(time)}, {share}<extra></extra>",
        )
        start += time
    band = None
    if relative_band is not None:
        band = {
            "type": "data",
            "array": [scale(total * relative_band)],
            "color": INK[dark],
            "thickness": 1.5,
            "width": 5,
        }
    labels.append(f"Total  <b>{scale.text(total)}</b> {fmt.band(relative_band)}")
    fig.add_bar(
        orientation="h",
        y=[len(shown)],
        x=[scale(total)],
        error_x=band,
        marker_color=NEUTRAL,
        hovertemplate=f"<b>Total</b><br>{fmt.seconds(total)} {fmt.band(relative_band)}<extra></extra>",
    )
    _rows(fig, labels)
    widest = scale(total) * (1 + (relative_band or 0.0)) * 1.05
    fig.update_xaxes(title=f"Time per {per} ({scale.unit})", range=[0, widest or 1])
    return style(fig, 300, dark)


@dataclass(frozen=True)
class Point:
    """One operator on the roofline: intensity [FLOP/B], achieved rate [FLOP/s], and against which level it is drawn."""

    op: OpRow
    intensity: float
    rate: float
    level: str

    @classmethod
    def of(cls, op: OpRow) -> Point | None:
        """None for an operator without arithmetic or without any traffic: a roofline has no place for it."""
        if op.flops <= 0 or op.time_s <= 0:
            return None
        if op.offchip_bytes > 0:
            return cls(op, op.flops / op.offchip_bytes, op.flops / op.time_s, "offchip")
        if op.onchip_bytes > 0:
            return cls(op, op.flops / op.onchip_bytes, op.flops / op.time_s, "onchip")
        return None


def _ticks(low: float, high: float, every: int = 1) -> tuple[list[float], list[str]]:
    """Powers of ten of a log axis, in words: 0.1, 1, 10, 1 k, 10 k, 1 M."""
    powers = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    step = max(every, math.ceil(len(powers) / 7))
    values = [10.0**p for p in powers if p % step == 0]
    return values, [_plain_power(v) for v in values]


def _plain_power(value: float) -> str:
    if value < 1:
        return f"{value:.12f}".rstrip("0")
    found = fmt.scale([value], "")
    return f"{round(found(value)):d} {found.unit}".strip()


def _place(x: float, y: float, text: str, taken: list[tuple[float, float, float, float]]) -> tuple[str, str, int, int]:
    """Where a label goes beside a mark without covering another: anchors and shift. Boxes in pixels of the plot."""
    width, height = len(text) * _CHARACTER, 14.0
    plot_width, plot_height = 400.0, 220.0
    options = (("left", "middle", 12, 0), ("right", "middle", -12, 0), ("center", "bottom", 0, 12))
    for xanchor, yanchor, dx, dy in (*options, ("center", "top", 0, -12)):
        left = x + dx - {"left": 0.0, "right": width, "center": width / 2}[xanchor]
        bottom = y + dy - {"middle": height / 2, "bottom": 0.0, "top": height}[yanchor]
        box = (left, bottom, left + width, bottom + height)
        inside = box[0] >= 0 and box[2] <= plot_width and box[1] >= 0 and box[3] <= plot_height
        clear = all(box[0] >= t[2] or box[2] <= t[0] or box[1] >= t[3] or box[3] <= t[1] for t in taken)
        if inside and clear:
            taken.append(box)
            return xanchor, yanchor, dx, dy
    return "", "", 0, 0


def roofline(report: Report, dark: bool, baseline: Report | None = None) -> go.Figure:
    """Roofs of one device and its operators: size is time, shape and hue are what each is limited by.

    Hollow points are the baseline's operators against their own traffic.
    """
    roof = report.roofline
    points = [p for p in map(Point.of, report.ops) if p and (p.op.device == roof.device or len(report.rooflines) == 1)]
    hollow = [p for p in map(Point.of, baseline.ops) if p] if baseline else []
    peak = roof.peak_flops_per_s
    levels = [level for level in roof.levels if level[2] > 0]
    ridges = [peak / bandwidth for _, _, bandwidth in levels]
    xs = [p.intensity for p in points + hollow] + ridges
    ys = [p.rate for p in points + hollow] + [peak]
    x_low, x_high = min(xs, default=0.1) / 4, max(xs, default=100) * 6
    y_low, y_high = min(ys) / 3, max(ys) * 2.5
    span_x, span_y = math.log10(x_high / x_low), math.log10(y_high / y_low)

    def pixel(x: float, y: float) -> tuple[float, float]:
        return math.log10(x / x_low) / span_x * 400, math.log10(y / y_low) / span_y * 220

    fig = go.Figure()
    taken: list[tuple[float, float, float, float]] = []
    for name, role, bandwidth in sorted(levels, key=lambda level: level[2]):
        start = max(x_low, y_low / bandwidth)
        ridge = min(peak / bandwidth, x_high)
        solid = role == "offchip"
        fig.add_scatter(
            x=[start, ridge, x_high],
            y=[start * bandwidth, min(peak, ridge * bandwidth), peak],
            mode="lines",
            line={"color": NEUTRAL, "width": 1.6, "dash": "solid" if solid else "dot"},
            hoverinfo="skip",
        )
        text = f"{name.upper() if len(name) < 6 else name} {fmt.si(bandwidth, 'B/s')}"
        at = math.sqrt(start * ridge)
        px, py = pixel(at, at * bandwidth)
        box = (px + 8, py - 18, px + 8 + len(text) * _CHARACTER, py - 4)
        if (
            box[2] < 400
            and box[1] > 0
            and all(box[0] >= t[2] or box[2] <= t[0] or box[1] >= t[3] or box[3] <= t[1] for t in taken)
        ):
            taken.append(box)
            fig.add_annotation(
                x=math.log10(at), y=math.log10(at * bandwidth), text=text, showarrow=False,
                xanchor="left", yanchor="top", xshift=8, yshift=-3,
            )  # fmt: skip
    if not levels:
        fig.add_scatter(
            x=[x_low, x_high], y=[peak, peak], mode="lines", line={"color": NEUTRAL, "width": 1.6}, hoverinfo="skip"
        )
    fig.add_annotation(
        x=math.log10(x_high), y=math.log10(peak), text=f"{roof.format.upper()} peak {fmt.si(peak, 'FLOP/s')}",
        showarrow=False, xanchor="right", yanchor="bottom",
    )  # fmt: skip
    taken.append((230, pixel(x_low, peak)[1], 400, pixel(x_low, peak)[1] + 16))
    taken += [(a - 7, b - 7, a + 7, b + 7) for a, b in (pixel(p.intensity, p.rate) for p in points)]
    if hollow:
        fig.add_scatter(
            x=[p.intensity for p in hollow], y=[p.rate for p in hollow], mode="markers",
            marker={"symbol": [f"{MARKERS[p.op.bound]}-open" for p in hollow], "color": NEUTRAL, "size": 8},
            hovertemplate=[f"<b>{p.op.name}</b>, baseline<br>{fmt.si(p.rate, 'FLOP/s')}<extra></extra>" for p in hollow],
        )  # fmt: skip
    slowest = max((p.op.time_s for p in points), default=1.0)
    for resource in RESOURCES:
        group = [p for p in points if p.op.bound == resource]
        if group:
            fig.add_scatter(
                x=[p.intensity for p in group],
                y=[p.rate for p in group],
                mode="markers",
                marker={
                    "symbol": MARKERS[resource],
                    "color": PALETTE[resource][dark],
                    "size": [8 + 9 * math.sqrt(p.op.time_s / slowest) for p in group],
                    "opacity": 0.92,
                    "line": {"width": 0},
                },
                customdata=[p.op.name for p in group],
                hovertemplate=[
                    f"<b>{p.op.name}</b><br>{fmt.si(p.rate, 'FLOP/s')}, {fmt.percent(p.op.peak_used)} of peak"
                    f"<br>{fmt.si(p.intensity, 'FLOP/B')} of {RESOURCE_LABELS[p.level].lower()}"
                    f"<br>limited by {RESOURCE_LABELS[resource].lower()}<extra></extra>"
                    for p in group
                ],
            )
    for p in sorted(points, key=lambda p: -p.op.time_s)[:3]:
        px, py = pixel(p.intensity, p.rate)
        xanchor, yanchor, dx, dy = _place(px, py, p.op.name, taken)
        if xanchor:
            fig.add_annotation(
                x=math.log10(p.intensity), y=math.log10(p.rate), text=p.op.name, showarrow=False,
                xanchor=xanchor, yanchor=yanchor, xshift=dx, yshift=dy,
            )  # fmt: skip
    x_values, x_text = _ticks(x_low, x_high)
    y_values, y_text = _ticks(y_low, y_high)
    fig.update_xaxes(
        type="log", range=[math.log10(x_low), math.log10(x_high)], tickvals=x_values, ticktext=x_text, showgrid=False,
        title="Arithmetic intensity (FLOP/B), log",
    )  # fmt: skip
    fig.update_yaxes(
        type="log", range=[math.log10(y_low), math.log10(y_high)], tickvals=y_values, ticktext=y_text,
        title="Performance (FLOP/s), log",
    )  # fmt: skip
    return style(fig, 300, dark)


def fits(rows: Sequence[MemoryRow], dark: bool) -> go.Figure:
    """What fits where: a bar per memory level against its capacity, hatched where it does not fit."""
    several = len({row.device for row in rows}) > 1
    fig = go.Figure()
    fig.add_bar(
        orientation="h", y=list(range(len(rows))), x=[100.0] * len(rows), marker_color=TRACK[dark], hoverinfo="skip"
    )
    labels, most = [], 100.0
    for at, row in enumerate(rows):
        used = 100 * row.need_bytes / row.capacity_bytes
        drawn = used if not row.fits else min(used, 100.0)
        most = max(most, drawn)
        name = f"{row.level.upper()}{', ' + row.device if several else ''}"
        labels.append(f"{name}  <b>{fmt.of(row.need_bytes, row.capacity_bytes)}</b>")
        colour = PALETTE[row.role][dark]
        pattern = None
        if not row.fits:
            pattern = {"shape": "/", "fgcolor": colour, "bgcolor": "rgba(0,0,0,0)", "size": 6, "solidity": 0.5}
        streams = " (a cache: the rest streams through)" if not row.required and used > 100 else ""
        fig.add_bar(
            orientation="h",
            y=[at],
            x=[drawn],
            marker={"color": colour, "pattern": pattern},
            hovertemplate=f"<b>{name}</b><br>{fmt.of(row.need_bytes, row.capacity_bytes)}{streams}"
            f"<br>{row.holds}<extra></extra>",
        )
    if any(not row.fits for row in rows):
        fig.add_scatter(
            x=[100, 100],
            y=[-0.5, len(rows) - 0.5],
            mode="lines",
            line={"color": PICK[dark], "width": 2},
            hoverinfo="skip",
        )
        fig.add_annotation(
            x=100, y=len(rows) - 0.5, text="capacity", showarrow=False, xanchor="left", yanchor="bottom", xshift=5
        )
    _rows(fig, labels)
    step = 50 if most <= 250 else 10 ** math.floor(math.log10(most))
    ticks = [step * i for i in range(int(most / step) + 2)]
    fig.update_xaxes(
        title="Share of capacity used, per device", range=[0, most * 1.05], showgrid=False,
        tickvals=ticks, ticktext=[f"{t:,.0f}%" for t in ticks],
    )  # fmt: skip
    return style(fig, max(220, 56 + 36 * len(rows)), dark)


def links(rows: Sequence[LinkRow], dark: bool) -> go.Figure:
    """How busy each wire is at the reported throughput."""
    fig = go.Figure()
    fig.add_bar(
        orientation="h", y=list(range(len(rows))), x=[100.0] * len(rows), marker_color=TRACK[dark], hoverinfo="skip"
    )
    labels, most = [], 100.0
    for at, row in enumerate(rows):
        used = 100 * row.utilisation
        most = max(most, used)
        labels.append(f"{row.name}  <b>{fmt.percent(row.utilisation)}</b>")
        fig.add_bar(
            orientation="h",
            y=[at],
            x=[used],
            marker_color=PALETTE["links"][dark],
            hovertemplate=f"<b>{row.name}</b><br>{fmt.si(row.bytes_per_request, 'B')} a request at "
            f"{fmt.si(row.bandwidth, 'B/s')}<br>{fmt.seconds(row.time_s)}, {fmt.percent(row.utilisation)} busy"
            "<extra></extra>",
        )
    _rows(fig, labels)
    fig.update_xaxes(
        title="Share of usable bandwidth, one direction", range=[0, most * 1.05], showgrid=False,
        tickvals=[0, 50, 100], ticktext=["0%", "50%", "100%"],
    )  # fmt: skip
    return style(fig, max(220, 56 + 36 * len(rows)), dark)


def timeline(spans: Sequence[Span], of: str, dark: bool) -> go.Figure:
    """A Gantt chart: one row a unit, one bar an operation, hue by resource."""
    units = list(dict.fromkeys(span.unit for span in spans))
    scale = fmt.scale([max((s.start_s + s.duration_s for s in spans), default=0.0)], "s")
    end = max((s.start_s + s.duration_s for s in spans), default=1.0)
    fig = go.Figure()
    for resource in RESOURCES:
        group = [s for s in spans if s.resource == resource]
        if group:
            fig.add_bar(
                orientation="h",
                y=[units.index(s.unit) for s in group],
                x=[scale(s.duration_s) for s in group],
                base=[scale(s.start_s) for s in group],
                marker={"color": PALETTE[resource][dark], "line": {"width": 0.6, "color": "rgba(128,128,128,0.35)"}},
                text=[s.name if s.duration_s > 0.05 * end else "" for s in group],
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                textfont={"color": BAR_TEXT if resource in ("compute", "onchip", "host") or dark else "#FFFFFF"},
                constraintext="inside",
                hovertemplate=[
                    f"<b>{s.name}</b> on {s.unit}<br>{fmt.seconds(s.duration_s)} from {fmt.seconds(s.start_s)}<extra></extra>"
                    for s in group
                ],
            )
    _rows(fig, units)
    fig.update_xaxes(title=f"Time within {of} ({scale.unit})", range=[0, scale(end) * 1.02], showgrid=False)
    return style(fig, max(220, 56 + 32 * len(units)), dark)


def knob(
    values: Sequence[str], metric: Sequence[float], now: int | None, axis: str, unit: str, dark: bool
) -> go.Figure:
    """One metric along one knob, the current point ringed."""
    scale = fmt.scale(metric, unit)
    shown = [scale(m) for m in metric]
    fig = go.Figure()
    fig.add_scatter(
        x=list(range(len(values))),
        y=shown,
        mode="lines+markers",
        line={"color": INK[dark], "width": 1.8},
        marker={"color": INK[dark], "size": 7},
        hovertemplate=[f"<b>{axis} {v}</b><br>{fmt.si(m, unit)}<extra></extra>" for v, m in zip(values, metric)],
    )
    if now is not None:
        fig.add_scatter(
            x=[now], y=[shown[now]], mode="markers", hoverinfo="skip",
            marker={"symbol": "circle-open", "size": 15, "color": PICK[dark], "line": {"width": 2.5}},
        )  # fmt: skip
        fig.add_annotation(x=now, y=shown[now], text="now", showarrow=False, yshift=16)
    fig.update_xaxes(
        tickvals=list(range(len(values))), ticktext=list(values), title=axis, showgrid=False,
        range=[-0.35, len(values) - 0.65],
    )  # fmt: skip
    low, high = min(shown, default=1.0), max(shown, default=1.0)
    if low > 0 and high > 30 * low:
        values_y, text_y = _ticks(low / 2, high * 2)
        fig.update_yaxes(
            type="log", range=[math.log10(low / 2), math.log10(high * 2)], tickvals=values_y, ticktext=text_y,
            title=f"Throughput ({scale.unit}), log",
        )  # fmt: skip
        fig.update_annotations(y=math.log10(shown[now]) if now is not None else None)
    else:
        fig.update_yaxes(title=f"Throughput ({scale.unit})", range=[0, high * 1.18], nticks=5)
    return style(fig, 220, dark)
