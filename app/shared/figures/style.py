"""The look all figures share: palette, markers, axes, fonts. The only place that styles.

A hue means a resource and nothing else, and every hue is doubled by a word, a shape or a hatch.
"""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from plotly.basedatatypes import BaseFigure

from app.shared import formats as fmt
from engine.cost.rows import RESOURCE_NAMES
from engine.scenario import sentences

RESOURCE_LABELS = {resource: name[:1].upper() + name[1:] for resource, name in RESOURCE_NAMES.items()}
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
SHADE = "rgba(120,132,148,0.2)"
CHART_TEXT = "#5B6675"  # light theme only; in the dark Streamlit's own is readable
BAR_TEXT = "#0B1220"
_LEGEND = {
    "orientation": "h",
    "x": 0,
    "y": 1.02,
    "xanchor": "left",
    "yanchor": "bottom",
    "traceorder": "normal",
    "font": {"size": 12},
}


class Figure(BaseFigure):
    """A figure as plain data, which a page sends as it is: checking its properties takes fifty times as long.

    Tests check every chart of every page with plotly's validators.
    """

    def __init__(self, data: list[dict[str, Any]], layout: dict[str, Any]) -> None:
        self._plain = {"data": data, "layout": layout}

    def to_dict(self) -> dict[str, Any]:
        """The figure as plotly.js takes it."""
        return self._plain


def style(
    data: list[dict[str, Any]],
    x: dict[str, Any],
    y: dict[str, Any],
    height: int,
    dark: bool,
    *,
    notes: Sequence[dict[str, Any]] = (),
    legend: bool = False,
    **extra: Any,
) -> Figure:
    """A figure of traces, its two axes and its annotations, with the look that all figures of the app share.

    `legend` names the traces in a line above them; `extra` goes into the layout.
    """
    font = {"size": 12} | ({} if dark else {"color": CHART_TEXT})

    def axis(settings: dict[str, Any]) -> dict[str, Any]:
        defaults: dict[str, Any] = {
            "zeroline": False,
            "showline": False,
            "ticks": "outside",
            "ticklen": 5,
            "tickcolor": "rgba(0,0,0,0)",
            "automargin": True,
            "fixedrange": True,
            "tickfont": font,
        }
        title = {"title": {"text": settings["title"], "font": font, "standoff": 10}} if "title" in settings else {}
        return defaults | settings | title

    layout = {
        "height": height,
        "margin": {"l": 4, "r": 8, "t": 6, "b": 4},
        "font": font,
        "showlegend": legend,
        "legend": _LEGEND,
        "barmode": "overlay",
        "bargap": 0.34,
        "dragmode": False,
        "uniformtext": {"minsize": 11, "mode": "hide"},
        "modebar": {"bgcolor": "rgba(0,0,0,0)"},
        "xaxis": axis(x),
        "yaxis": axis(y),
        "annotations": [{"showarrow": False, "font": font} | note for note in notes],
    }
    return Figure(data, layout | extra)


def span(title: str, low: float, high: float, *, grid: bool = False, **attributes: Any) -> dict[str, Any]:
    """A linear axis over a range."""
    return {"title": title, "range": [low, high], "showgrid": grid} | attributes


def log_axis(low: float, high: float, title: str) -> dict[str, Any]:
    """A log axis over a range, with its powers of ten in words."""
    values, text = log_ticks(low, high)
    ticks = {"tickvals": values, "ticktext": text, "title": f"{title}, log"}
    return {"type": "log", "range": [math.log10(low), math.log10(high)]} | ticks


def rows_axis(labels: Sequence[str], min_rows: int = 3) -> dict[str, Any]:
    """A y axis of named rows, first on top, label beside the bar."""
    last = max(len(labels), min_rows) - 0.4  # a lone bar stays a bar
    return {"tickvals": list(range(len(labels))), "ticktext": list(labels), "range": [last, -0.6], "showgrid": False}


def names_axis(names: Sequence[str], spare: float, **attributes: Any) -> dict[str, Any]:
    """An axis of names one step apart, with room before the first and behind the last."""
    ticks = {"tickvals": list(range(len(names))), "ticktext": list(names), "tickangle": 0, "showgrid": False}
    return ticks | {"range": [-spare, len(names) - 1 + spare]} | attributes


def share_axis(title: str, top: float = 100.0) -> dict[str, Any]:
    """An axis of shares from 0 to 100%, or to as much more as there is."""
    step = 50 if top <= 250 else 10 ** math.floor(math.log10(top))
    ticks = [step * i for i in range(int(top / step) + 1)]
    return span(title, 0, top * 1.05, tickvals=ticks, ticktext=[f"{t:,.0f}%" for t in ticks])


def level_name(name: str) -> str:
    """A memory level as people write it: HBM, L3, SRAM and cache."""
    text = sentences.level_name(name)
    return text[:1].upper() + text[1:]


def two_lines(name: str, number: str) -> str:
    """A row's label: name and bold number, broken where one line would take half of a phone."""
    if len(name) + len(number) <= 24:
        return f"{name}  <b>{number}</b>"
    return "<br>".join([*textwrap.wrap(name, 24), f"<b>{number}</b>"])


def rows_height(labels: Sequence[str], min_height: int = 220, min_rows: int = 1) -> int:
    """Height of a figure of rows, at least so high, whose axis has room for so many of the tallest label. [px]"""
    lines = max((label.count("<br>") + 1 for label in labels), default=1)
    return max(min_height, 56 + (20 + 15 * lines) * max(len(labels), min_rows))


def log_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Powers of ten of a log axis, in words: 0.1, 1, 10, 1 k, 10 k, 1 M; with others between where it is short."""
    powers = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    step = max(1, math.ceil(len(powers) / 7))
    values = [10.0**p for p in powers if p % step == 0]
    around = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for between in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
        if len(values) < 3:
            values = [v for p in around for m in between if low <= (v := m * 10.0**p) <= high]
    return values, [_plain_power(v) for v in values]


def _plain_power(value: float) -> str:
    if 1e-4 < value < 1:
        return f"{value:.12f}".rstrip("0").rstrip(".")
    unit_scale = fmt.scale([value], "")
    return f"{unit_scale(value):.3g} {unit_scale.unit}".strip()
