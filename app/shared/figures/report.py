"""Reports and tables as figures. Pure: SI in, `go.Figure` out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from app.shared import formats as fmt
from app.shared.figures.labels import BESIDE, Plot
from app.shared.figures.style import (
    BAR_TEXT,
    BAR_WIDTH,
    CLOUD,
    INK,
    NEUTRAL,
    PALETTE,
    PICK,
    RESOURCE_LABELS,
    bar,
    level_name,
    log_axis,
    row_height,
    rows_axis,
    rule,
    share_axis,
    style,
    track,
    two_lines,
)
from engine.cost.report import LinkRow, MemoryRow
from engine.devices.common.contract import RESOURCES, Span

_SKIP = {"hoverinfo": "skip"}


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
    data, labels, start = [], [], 0.0
    for at, (name, time) in enumerate(shown):
        share = fmt.percent(time / total)
        labels.append(f"{RESOURCE_LABELS[name]}  <b>{scale.text(time)}</b> · {share}")
        hover = f"<b>{RESOURCE_LABELS[name]}</b><br>{fmt.seconds(time)}, {share}<extra></extra>"
        colour = {"color": PALETTE[name][dark]}
        data.append(bar(at, scale(time), base=[scale(start)], marker=colour, hovertemplate=hover))
        start += time
    labels.append(f"Total  <b>{scale.text(total)}</b> {fmt.band(relative_band)}")
    whole = bar(
        len(shown),
        scale(total),
        marker={"color": NEUTRAL},
        hovertemplate=f"<b>Total</b><br>{fmt.seconds(total)} {fmt.band(relative_band)}<extra></extra>",
    )
    if relative_band is not None:
        error = {
            "type": "data",
            "array": [scale(total * relative_band)],
            "arrayminus": [scale(total * relative_band / (1 + relative_band))],
            "symmetric": False,
            "color": INK[dark],
            "thickness": 1.5,
            "width": 5,
        }
        whole["error_x"] = error
    data.append(whole)
    widest = scale(total) * (1 + (relative_band or 0.0)) * 1.05
    x = {"title": f"Time per {per} ({scale.unit})", "range": [0, widest or 1]}
    return style(data, x, rows_axis(labels), 300, dark)


def fits(rows: Sequence[MemoryRow], dark: bool) -> go.Figure:
    """What fits where: a bar per memory level against its capacity, hatched where it does not fit."""
    alike = _alike({row.device for row in rows})
    data, labels, most = [track(len(rows), dark)], [], 100.0
    for at, row in enumerate(rows):
        used = 100 * row.need_bytes / row.capacity_bytes
        drawn = used if not row.fits else min(used, 100.0)
        most = max(most, drawn)
        name = f"{level_name(row.level)}{', ' + row.device[alike:].strip(' ()') if alike is not None else ''}"
        amount = fmt.of(row.need_bytes, row.capacity_bytes)
        labels.append(two_lines(name, amount))
        marker: dict[str, Any] = {"color": PALETTE[row.role][dark]}
        if not row.fits:
            marker["pattern"] = {
                "shape": "/",
                "fgcolor": marker["color"],
                "bgcolor": "rgba(0,0,0,0)",
                "size": 6,
                "solidity": 0.5,
            }
        streams = " (a cache: the rest streams through)" if not row.required and used > 100 else ""
        hover = f"<b>{name}</b><br>{amount}{streams}<br>{row.holds}<extra></extra>"
        data.append(bar(at, drawn, marker=marker, hovertemplate=hover))
    notes = []
    if any(not row.fits for row in rows):
        data.append(rule([100, 100], [-0.5, len(rows) - 0.5], PICK[dark], 2, "solid"))
        notes.append(
            {"x": 100, "y": len(rows) - 0.5, "text": "capacity", "xanchor": "left", "yanchor": "middle", "xshift": 5}
        )
    step = 50 if most <= 250 else 10 ** math.floor(math.log10(most))
    ticks = [step * i for i in range(int(most / step) + 2)]
    x = {
        "title": "Share of capacity, per device",
        "range": [0, most * 1.05],
        "showgrid": False,
        "tickvals": ticks,
        "ticktext": [f"{t:,.0f}%" for t in ticks],
    }
    return style(data, x, rows_axis(labels), max(220, 56 + row_height(labels) * len(rows)), dark, notes=notes)


def _alike(names: set[str]) -> int | None:
    """How many leading characters all of several names share; None for a single name."""
    if len(names) < 2:
        return None
    first, last = min(names), max(names)
    return next((at for at, (a, b) in enumerate(zip(first, last)) if a != b), min(len(first), len(last)))


def links(rows: Sequence[LinkRow], dark: bool) -> go.Figure:
    """How busy each wire is at the reported throughput."""
    data, labels = [track(len(rows), dark)], []
    for at, row in enumerate(rows):
        labels.append(two_lines(row.name, fmt.percent(row.utilisation)))
        hover = (
            f"<b>{row.name}</b><br>{fmt.si(row.bytes_per_request, 'B')} a request at {fmt.si(row.bandwidth, 'B/s')}"
            f"<br>{fmt.seconds(row.time_s)}, {fmt.percent(row.utilisation)} busy<extra></extra>"
        )
        data.append(bar(at, 100 * row.utilisation, marker={"color": PALETTE["links"][dark]}, hovertemplate=hover))
    x = share_axis("Share of usable bandwidth")
    return style(data, x, rows_axis(labels), max(220, 56 + row_height(labels) * len(rows)), dark)


def spans_of(
    group: Sequence[Span], units: Sequence[str], resource: str, text: Sequence[str], scale: fmt.Scale, dark: bool
) -> dict[str, Any]:
    """Bars of one resource in a Gantt chart, a row a unit, each with its words inside."""
    light = not dark and resource in ("offchip", "links", "overhead")
    return {
        "type": "bar",
        "orientation": "h",
        "y": [units.index(s.unit) for s in group],
        "x": [scale(s.duration_s) for s in group],
        "base": [scale(s.start_s) for s in group],
        "text": text,
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"color": "#FFFFFF" if light else BAR_TEXT},
        "constraintext": "inside",
        "hovertemplate": [
            f"<b>{s.name}</b> on {s.unit}<br>{fmt.seconds(s.duration_s)} from {fmt.seconds(s.start_s)}<extra></extra>"
            for s in group
        ],
    }


def timeline(spans: Sequence[Span], dark: bool) -> go.Figure:
    """A Gantt chart: one row a unit, one bar an operation, hue by resource."""
    units = list(dict.fromkeys(span.unit for span in spans))
    end = max((s.start_s + s.duration_s for s in spans), default=1.0)
    scale = fmt.scale([end], "s")
    data = []
    for resource in RESOURCES:
        group = [s for s in spans if s.resource == resource]
        if not group:
            continue
        text = [s.name if s.duration_s > 0.05 * end else "" for s in group]
        marker = {"color": PALETTE[resource][dark], "line": {"width": 0.6, "color": "rgba(128,128,128,0.35)"}}
        data.append(spans_of(group, units, resource, text, scale, dark) | {"width": BAR_WIDTH, "marker": marker})
    x = {"title": f"Time ({scale.unit})", "range": [0, scale(end) * 1.02], "showgrid": False}
    return style(data, x, rows_axis(units, least=1), 64 + 34 * max(len(units), 2), dark)


def knob(
    values: Sequence[str], metric: Sequence[float], now: int | None, axis: str, unit: str, dark: bool
) -> go.Figure:
    """One metric along one knob, the current point ringed."""
    scale = fmt.scale(metric, unit)
    shown = [scale(m) for m in metric]
    ink = INK[dark]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "x": list(range(len(values))),
            "y": shown,
            "mode": "lines+markers",
            "line": {"color": ink, "width": 1.8},
            "marker": {"color": ink, "size": 7},
            "hovertemplate": [f"<b>{axis} {v}</b><br>{fmt.si(m, unit)}<extra></extra>" for v, m in zip(values, metric)],
        }
    ]
    low, high = min(shown, default=1.0), max(shown, default=1.0)
    log = low > 0 and high > 30 * low
    y = {"title": f"Throughput ({scale.unit})", "range": [0, high * 1.22], "nticks": 5}
    if log:
        y = log_axis(low / 2, high * 3, f"Throughput ({scale.unit})")
    notes = []
    if now is not None:
        ring = {"symbol": "circle-open", "size": 15, "color": PICK[dark], "line": {"width": 2.5}}
        data.append({"type": "scatter", "x": [now], "y": [shown[now]], "mode": "markers", "marker": ring} | _SKIP)
        notes.append({"x": now, "y": math.log10(shown[now]) if log else shown[now], "text": "now", "yshift": 17})
    x = {
        "tickvals": list(range(len(values))),
        "ticktext": _thinned(values, now),
        "tickangle": 0,
        "title": axis,
        "showgrid": False,
        "range": [-0.35, len(values) - 0.65],
    }
    return style(data, x, y, 220, dark, notes=notes)


def _thinned(values: Sequence[str], now: int | None) -> list[str]:
    """Every second label where many would touch, always keeping the current one."""
    if len(values) <= 8:
        return list(values)
    keep = (now or 0) % 2
    return [value if at % 2 == keep else "" for at, value in enumerate(values)]


def predicted(
    rows: Sequence[dict[str, Any]],
    dark: bool,
    named: Sequence[str] = (),
    width: float = 560.0,
    title: str = "Published (each in its own unit)",
) -> go.Figure:
    """Predicted against published, both as printed, on log axes: filled is validation, hollow is calibration, grey
    is neither.

    `rows` are rows of `validate` whose `published` and `predicted` are positive numbers; those `named` carry their id
    where there is room. `width` is the plot area labels are laid out for [px], `title` the horizontal axis's.
    """
    said = title.split(maxsplit=1)[0].strip(",").lower()
    values = [v for row in rows for v in (row["published"], row["predicted"])]
    low, high = min(values, default=0.1) / 3, max(values, default=10.0) * 3
    ends = [low, high]
    line = {"type": "scatter", "mode": "lines", "x": ends, "line": {"width": 0}} | _SKIP
    data: list[dict[str, Any]] = [
        line | {"y": [v * 1.1 for v in ends]},
        line | {"y": [v / 1.1 for v in ends], "fill": "tonexty", "fillcolor": "rgba(120,132,148,0.15)"},
        line | {"y": ends, "line": {"color": NEUTRAL, "width": 1.4}},
    ]
    roles = ("validation", "calibration")
    for role, hollow in (("", ""), (roles[0], ""), (roles[1], "-open")):
        for met in (True, False):
            known = [row for row in rows if row["within"] is met]
            group = [row for row in known if (row["role"] if row["role"] in roles else "") == role]
            if not group:
                continue
            data.append(
                {
                    "type": "scatter",
                    "x": [row["published"] for row in group],
                    "y": [row["predicted"] for row in group],
                    "mode": "markers",
                    "marker": {
                        "symbol": ("circle" if met else "diamond") + hollow,
                        "color": PICK[dark] if not met else INK[dark] if role else CLOUD[dark],
                        "size": 7 if met else 9,
                    },
                    "customdata": [row["id"] for row in group],
                    "hovertemplate": [
                        f"<b>{row['id']}</b>, {row.get('evidence', row['role'])}"
                        f"<br>{said} {fmt.digits4(row['published'])} {row['unit'] or ''}"
                        f"<br>predicted {fmt.digits4(row['predicted'])}, {fmt.signed(row['error'])}<extra></extra>"
                        for row in group
                    ],
                }
            )
    plot = Plot((low, high), (low, high), width, 300.0)
    for row in rows:
        plot.mark(row["published"], row["predicted"])
    for row in rows:
        if row["id"] in named:
            plot.label(row["published"], row["predicted"], row["id"], BESIDE)
    x = log_axis(low, high, title) | {"showgrid": False}
    y = log_axis(low, high, f"Predicted ({title.partition('(')[2]}")
    return style(data, x, y, 380, dark, notes=plot.notes)
