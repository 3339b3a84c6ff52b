"""The look all figures share: palette, markers, axes, fonts. The only place that styles.

A hue means a resource and nothing else, and every hue is doubled by a word, a shape or a hatch.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from app.shared import formats as fmt
from engine.scenario import sentences

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
BAR_WIDTH = 0.66  # of a row
BAR_TEXT = "#0B1220"


def style(
    data: list[dict[str, Any]],
    x: dict[str, Any],
    y: dict[str, Any],
    height: int,
    dark: bool,
    *,
    notes: Sequence[dict[str, Any]] = (),
    select: bool = False,
) -> go.Figure:
    """A figure of traces, its two axes and its annotations, with the look that all figures of the app share.

    Built from plain data in one go: changing a `go.Figure` afterwards costs ten times as much.
    """
    ink = {} if dark else {"color": CHART_TEXT}
    font = {"size": 12} | ink

    def axis(given: dict[str, Any]) -> dict[str, Any]:
        shared: dict[str, Any] = {
            "zeroline": False,
            "showline": False,
            "ticks": "outside",
            "ticklen": 5,
            "tickcolor": "rgba(0,0,0,0)",
            "automargin": True,
            "fixedrange": not select,
            "tickfont": font,
        }
        title = {"title": {"text": given["title"], "font": font, "standoff": 10}} if "title" in given else {}
        return shared | given | title

    layout = {
        "height": height,
        "margin": {"l": 4, "r": 8, "t": 6, "b": 4},
        "font": font,
        "showlegend": False,
        "barmode": "overlay",
        "bargap": 0.34,
        "dragmode": "select" if select else False,
        "uniformtext": {"minsize": 11, "mode": "hide"},
        "modebar": {"bgcolor": "rgba(0,0,0,0)"},
        "xaxis": axis(x),
        "yaxis": axis(y),
        "annotations": [{"showarrow": False, "font": font} | note for note in notes],
    }
    return go.Figure({"data": data, "layout": layout})


def log_axis(low: float, high: float, title: str) -> dict[str, Any]:
    """A log axis over a range, with its powers of ten in words."""
    values, text = log_ticks(low, high)
    return {
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickvals": values,
        "ticktext": text,
        "title": f"{title}, log",
    }


def rows_axis(labels: Sequence[str], least: int = 3) -> dict[str, Any]:
    """A y axis of named rows, first on top, label beside the bar."""
    last = max(len(labels), least) - 0.4  # a lone bar stays a bar
    return {"tickvals": list(range(len(labels))), "ticktext": list(labels), "range": [last, -0.6], "showgrid": False}


def level_name(name: str) -> str:
    """A memory level as people write it: HBM, Last-level cache, SRAM and cache."""
    text = sentences.level_name(name)
    return text[:1].upper() + text[1:]


def two_lines(name: str, number: str) -> str:
    """A row's label: name and bold number, broken where one line would take half of a phone."""
    if len(name) + len(number) <= 24:
        return f"{name}  <b>{number}</b>"
    return "<br>".join([*textwrap.wrap(name, 24), f"<b>{number}</b>"])


def row_height(labels: Sequence[str]) -> int:
    """Pixels a row needs for the tallest of its labels."""
    return 20 + 15 * max((label.count("<br>") + 1 for label in labels), default=1)


def bar(at: int, length: float, **more: Any) -> dict[str, Any]:
    """One horizontal bar in row `at`."""
    return {"type": "bar", "orientation": "h", "y": [at], "x": [length], "width": BAR_WIDTH} | more


def rule(x: Sequence[float], y: Sequence[float], colour: str, width: float = 1.4, dash: str = "dash") -> dict[str, Any]:
    """A line from point to point that only marks a place."""
    line = {"color": colour, "width": width, "dash": dash}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "hoverinfo": "skip", "showlegend": False, "line": line}


def share_axis(title: str) -> dict[str, Any]:
    """An x axis from 0 to 100%."""
    ticks = {"tickvals": [0, 50, 100], "ticktext": ["0%", "50%", "100%"]}
    return {"title": title, "range": [0, 105], "showgrid": False} | ticks


def track(rows: int, dark: bool) -> dict[str, Any]:
    """The light bar from 0 to 100% that others are drawn on."""
    return {
        "type": "bar",
        "orientation": "h",
        "y": list(range(rows)),
        "x": [100.0] * rows,
        "width": BAR_WIDTH,
        "marker": {"color": TRACK[dark]},
        "hoverinfo": "skip",
    }


def log_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Powers of ten of a log axis, in words: 0.1, 1, 10, 1 k, 10 k, 1 M; with 2 and 5 between where it is short."""
    powers = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    step = max(1, math.ceil(len(powers) / 7))
    values = [10.0**p for p in powers if p % step == 0]
    if len(values) < 3:
        around = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        values = [v for p in around for m in (1, 2, 5) if low <= (v := m * 10.0**p) <= high]
    return values, [_plain_power(v) for v in values]


def _plain_power(value: float) -> str:
    if 1e-4 < value < 1:
        return f"{value:.12f}".rstrip("0").rstrip(".")
    scaled = fmt.scale([value], "")
    return f"{round(scaled(value)):d} {scaled.unit}".strip()
