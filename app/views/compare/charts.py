"""Scenarios side by side as figures. Pure: SI in, `go.Figure` out."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from app.shared import formats as fmt
from app.shared.figures.style import (
    BAR_WIDTH,
    CLOUD,
    INK,
    NEUTRAL,
    PALETTE,
    RESOURCE_LABELS,
    bar,
    row_height,
    rows_axis,
    rule,
    style,
    two_lines,
)
from app.views.compare import texts
from app.views.compare.tables import Difference
from engine.devices.common.contract import RESOURCES

_APART = 20.0  # times that differ by more are drawn as shares: the short ones would have no parts to see
_LEGEND_ROW = 21  # [px]
_EXTRA = 96  # [px]; what pills and a line of help take of the card beside it
_NAME = 26  # characters of a line on a tick


def _name(letter: str, name: str) -> str:
    """A scenario on a tick: its system, and its configuration beneath."""
    system, comma, rest = name.partition(", ")
    return "<br>".join((*textwrap.wrap(f"{letter} · {system}{comma.strip()}", _NAME), *textwrap.wrap(rest, _NAME)))


def metric_bars(
    rows: Sequence[tuple[str, str, float | None, float | None]], base: int, label: str, unit: str, dark: bool
) -> go.Figure:
    """One metric, a bar a scenario, with its error band; the baseline is grey with a line down at its value.

    `rows` are (letter, name, value [SI], relative half width of the error band) in the order of the comparison.
    """
    known = [v for _, _, v, _ in rows if v is not None]
    scale = fmt.dollars(known) if unit == "$" else fmt.scale(known, unit)
    shown_unit = f"${' ' + scale.unit if scale.unit else ''}" if unit == "$" else scale.unit
    data: list[dict[str, Any]] = []
    labels = []
    widest = 0.0
    for at, (letter, name, v, band) in enumerate(rows):
        text = scale.text(v)
        labels.append(f"{_name(letter, name)}<br><b>{text}</b>")
        if v is None:
            continue
        widest = max(widest, scale(v) * (1 + (band or 0.0)))
        one = bar(
            at,
            scale(v),
            marker={"color": NEUTRAL if at == base else INK[dark]},
            hovertemplate=f"<b>{letter} · {name}</b><br>{text} {shown_unit} {fmt.band(band)}<extra></extra>",
        )
        if band is not None:
            colour = NEUTRAL if at != base else INK[dark]
            ends = {"array": [scale(v) * band], "arrayminus": [scale(v) * band / (1 + band)], "symmetric": False}
            one["error_x"] = {"type": "data", "color": colour, "thickness": 1.5, "width": 5} | ends
        data.append(one)
    if 0 <= base < len(rows) and rows[base][2] is not None:
        level = scale(rows[base][2] or 0.0)
        data.append(rule([level, level], [-0.5, len(rows) - 0.5], NEUTRAL))
    x = {"title": f"{label} ({shown_unit})", "range": [0, widest * 1.05 or 1]}
    return style(data, x, rows_axis(labels, 2), max(220, 56 + row_height(labels) * len(rows)), dark)


def breakdowns(
    rows: Sequence[tuple[str, str, dict[str, float]]], dark: bool, phone: bool = False
) -> tuple[go.Figure, bool]:
    """Where each scenario's time goes: a bar a scenario, a part a resource; whether shares are drawn, not times.

    `rows` are (letter, name, resource -> time [s]).
    """
    totals = [sum(parts.values()) for _, _, parts in rows]
    shares = max(totals, default=0.0) > _APART * min(totals, default=1.0)
    scale = fmt.scale(totals, "s")
    labels = [f"{_name(letter, name)}<br><b>{fmt.seconds(t)}</b>" for (letter, name, _), t in zip(rows, totals)]
    data = []
    for resource in RESOURCES:
        times = [parts.get(resource, 0.0) for _, _, parts in rows]
        if not any(t > 0.005 * total for t, total in zip(times, totals)):
            continue
        before = [sum(parts.get(r, 0.0) for r in RESOURCES[: RESOURCES.index(resource)]) for _, _, parts in rows]
        unit = [100 / total if shares else scale.factor for total in totals]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": RESOURCE_LABELS[resource],
                "y": list(range(len(rows))),
                "x": [t * u for t, u in zip(times, unit)],
                "base": [b * u for b, u in zip(before, unit)],
                "width": BAR_WIDTH,
                "marker": {"color": PALETTE[resource][dark]},
                "hovertemplate": [
                    f"<b>{letter} · {RESOURCE_LABELS[resource]}</b><br>{fmt.seconds(t)}, {fmt.percent(t / total)}"
                    "<extra></extra>"
                    for (letter, _, _), t, total in zip(rows, times, totals)
                ],
            }
        )
    title = "Share of time (%)" if shares else f"Time ({scale.unit})"
    x = {"title": title, "range": [0, 100 if shares else scale(max(totals, default=1.0)) * 1.02]}
    legend_px = _LEGEND_ROW * math.ceil(len(data) / (1 if phone else 2)) + 8
    height = max(220, 56 + row_height(labels) * len(rows)) + (legend_px if phone else _EXTRA)
    fig = style(data, x, rows_axis(labels, 2), height, dark)
    legend = {
        "orientation": "h",
        "x": 0,
        "xref": "container",
        "y": 1.0,
        "yref": "container",
        "yanchor": "top",
        "traceorder": "normal",
        "font": {"size": 12},
    }
    fig.update_layout(showlegend=True, legend=legend, margin_t=legend_px)
    return fig, shares


def operator_bars(rows: Sequence[Difference], base: str, other: str, dark: bool, most: int = 8) -> go.Figure:
    """Time each operator saves (right) or costs (left) in `other` against `base`, the largest first."""
    drawn = [d for d in rows if d.gained_s][:most]
    scale = fmt.scale([d.gained_s for d in drawn], "s")
    labels = [two_lines(d.name, scale.text(d.gained_s)) for d in drawn]
    data = [
        bar(
            at,
            scale(d.gained_s),
            marker={"color": INK[dark] if d.gained_s > 0 else CLOUD[dark]},
            hovertemplate=f"<b>{d.name}</b><br>{base} {fmt.seconds(d.base_s)}, {other} {fmt.seconds(d.other_s)}"
            "<extra></extra>",
        )
        for at, d in enumerate(drawn)
    ]
    ends = [scale(d.gained_s) for d in drawn]
    low, high = min(0.0, *ends, 0.0), max(0.0, *ends, 0.0)
    pad = 0.05 * (high - low or 1.0)
    x = {
        "title": texts.SAVED_AXIS.format(other=other, base=base, unit=scale.unit),
        "range": [low - pad if low else 0, high + pad if high else 0],
        "zeroline": True,
        "zerolinecolor": NEUTRAL,
    }
    return style(data, x, rows_axis(labels), max(220, 56 + row_height(labels) * len(drawn)), dark)


def attribution(
    ends: tuple[str, str],
    values: tuple[float, float],
    shares: Sequence[tuple[str, float]],
    unit: str,
    title: str,
    rising: bool,
    dark: bool,
) -> go.Figure:
    """From one scenario's figure to another's: a bar a kind of change, each from where the last one ended.

    Changes for the better are ink, for the worse hatched; `rising` says whether more is better. `shares` add up to
    the difference of `values`. [SI]
    """
    reach = [values[0]]
    for _, share in shares:
        reach.append(reach[-1] + share)
    scale = fmt.scale(reach, "" if unit == "$" else unit)
    shown = f"${' ' + scale.unit if scale.unit else ''}" if unit == "$" else scale.unit
    labels = [f"{ends[0]}  <b>{scale.text(values[0])}</b>"]
    data = [bar(0, scale(values[0]), marker={"color": NEUTRAL}, hoverinfo="skip")]
    for at, ((name, share), start) in enumerate(zip(shares, reach), 1):
        better = (share > 0) == rising
        sign = "+" if share > 0 else ""
        labels.append(two_lines(name, f"{sign}{scale.text(share)}"))
        marker: dict[str, Any] = {"color": INK[dark]}
        if not better:
            marker = {
                "color": NEUTRAL,
                "pattern": {"shape": "/", "fgcolor": INK[dark], "bgcolor": CLOUD[dark], "size": 6},
            }
        word = "better" if better else "worse"
        hover = f"<b>{name}</b><br>{sign}{scale.text(share)} {shown}, {word}<extra></extra>"
        data.append(bar(at, scale(share), base=[scale(start)], marker=marker, hovertemplate=hover))
    labels.append(f"{ends[1]}  <b>{scale.text(values[1])}</b>")
    data.append(bar(len(shares) + 1, scale(values[1]), marker={"color": NEUTRAL}, hoverinfo="skip"))
    low, high = min(0.0, *(scale(v) for v in reach)), max(scale(v) for v in reach)
    pad = 0.04 * (high - low or 1.0)
    x = {"title": f"{title} ({shown})", "range": [low - pad if low < 0 else 0, high + pad]}
    return style(data, x, rows_axis(labels), max(220, 56 + row_height(labels) * len(labels)), dark)
