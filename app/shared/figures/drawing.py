"""What figures are made of: bars in rows, lines, points, words. Plain data for plotly.js; the look is `style.py`'s."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.shared.figures.style import (
    BAR_TEXT,
    INK,
    NEUTRAL,
    PALETTE,
    PICK,
    TRACK,
    Figure,
    rows_axis,
    rows_height,
    style,
)

Trace = dict[str, Any]
BAR_WIDTH = 0.66  # of a row
_WIDE = 0.005  # of the axis: a bar of a few pixels
_LEGEND = 34  # height of a line of it [px]
_LIGHT = {PALETTE[resource][False] for resource in ("offchip", "links", "overhead")}  # hues that carry white text


def hover(title: str, *lines: str) -> str:
    """What a mark says under the pointer."""
    return "<br>".join([f"<b>{title}</b>", *lines]) + "<extra></extra>"


@dataclass(frozen=True)
class Bar:
    """A horizontal bar: its row, its length and start in the axis's unit, its colour and what it says.

    A hatch of some shape is in its colour, over nothing; `band` is how far its end may lie below and above; bars of a
    `part` are one entry of the legend; `text` stands inside where it fits.
    """

    row: int
    length: float
    colour: str
    says: str
    start: float = 0.0
    hatch: str = ""
    band: tuple[float, float] | None = None
    part: str = ""
    text: str = ""


def bars(marks: Sequence[Bar], dark: bool, *, width: float = BAR_WIDTH, outline: float = 0.0) -> list[Trace]:
    """A trace for each part, in their order; `outline` is the width of the line around a wide bar. [px]"""
    traces: list[Trace] = []
    wide = _WIDE * max((bar.start + bar.length for bar in marks), default=0.0)
    for part in dict.fromkeys(bar.part for bar in marks):
        group = [bar for bar in marks if bar.part == part]
        marker: dict[str, Any] = {"color": [b.colour for b in group]}
        if outline:
            marker["line"] = {"width": [outline * (b.length > wide) for b in group], "color": "rgba(128,128,128,0.35)"}
        if any(b.hatch for b in group):
            marker["pattern"] = {"shape": [b.hatch for b in group], "fillmode": "replace", "size": 6, "solidity": 0.5}
        trace: Trace = {
            "type": "bar",
            "orientation": "h",
            "name": part,
            "y": [b.row for b in group],
            "x": [b.length for b in group],
            "base": [b.start for b in group],
            "width": width,
            "marker": marker,
            "hovertemplate": [b.says for b in group],
        }
        if any(b.band for b in group):
            below, above = zip(*(b.band or (None, None) for b in group))
            ends = {"type": "data", "symmetric": False, "array": list(above), "arrayminus": list(below)}
            trace["error_x"] = ends | {"color": INK[dark], "thickness": 1.5, "width": 5}
        if any(b.text for b in group):
            trace |= {
                "text": [b.text for b in group],
                "textposition": "inside",
                "insidetextanchor": "middle",
                "textangle": 0,
                "textfont": {"color": ["#FFFFFF" if b.colour in _LIGHT else BAR_TEXT for b in group]},
                "constraintext": "inside",
            }
        traces.append(trace)
    return traces


def rows(
    labels: Sequence[str],
    marks: Sequence[Bar],
    x: dict[str, Any],
    dark: bool,
    *,
    with_track: bool = False,
    min_height: int = 220,
    min_rows: int = 3,
    extra: Sequence[Trace] = (),
    height: int | None = None,
    **look: Any,
) -> Figure:
    """Bars in named rows, first on top; `with_track` over a light bar to 100%, with `extra` traces above them.

    `look` goes to `style`.
    """
    track = []
    if with_track:
        whole = {"type": "bar", "orientation": "h", "y": list(range(len(labels))), "x": [100.0] * len(labels)}
        track = [whole | {"width": BAR_WIDTH, "marker": {"color": TRACK[dark]}, "hoverinfo": "skip"}]
    tall = height or rows_height(labels, min_height, min_rows) + (_LEGEND if look.get("legend") else 0)
    return style([*track, *bars(marks, dark), *extra], x, rows_axis(labels, min_rows), tall, dark, **look)


def line(
    x: Sequence[float | None],
    y: Sequence[float | None],
    colour: str,
    says: Sequence[str] | str | None = None,
    *,
    width: float = 1.8,
    dash: str = "solid",
    size: float = 0,
    symbol: str = "circle",
    **attributes: Any,
) -> Trace:
    """A line through points, which are marked where they have a size; silent where it says nothing."""
    marks = {"marker": {"color": colour, "size": size, "symbol": symbol}} if size else {}
    tips = {"hovertemplate": says} if says else {"hoverinfo": "skip", "showlegend": False}
    shape = {"mode": "lines+markers" if size else "lines", "line": {"color": colour, "width": width, "dash": dash}}
    return {"type": "scatter", "x": list(x), "y": list(y)} | shape | marks | tips | attributes


def rule(x: Sequence[float], y: Sequence[float], colour: str, width: float = 1.4, dash: str = "dash") -> Trace:
    """A line from point to point that only marks a place."""
    return line(x, y, colour, width=width, dash=dash)


def area(x: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str) -> list[Trace]:
    """A shade between two lines."""
    edge: Trace = {"width": 0}
    return [line(x, low, colour, **edge), line(x, high, colour, fill="tonexty", fillcolor=colour, **edge)]


def points(
    x: Sequence[float],
    y: Sequence[float],
    colour: str | Sequence[str],
    says: Sequence[str] | str | None = None,
    *,
    symbol: str | Sequence[str] = "circle",
    size: float | Sequence[float] = 8,
    edge: float = 0,
    **attributes: Any,
) -> Trace:
    """Points without a line; silent where they say nothing; `edge` is the width of a hollow one's line. [px]"""
    marker: Trace = {"symbol": symbol, "size": size, "color": colour, "opacity": 0.92}
    marker |= {"line": {"width": edge, "color": colour}}
    tips = {"hovertemplate": says} if says else {"hoverinfo": "skip", "showlegend": False}
    return {"type": "scatter", "mode": "markers", "x": list(x), "y": list(y), "marker": marker} | tips | attributes


def ring(x: float, y: float, dark: bool) -> Trace:
    """A ring around the point that is chosen now."""
    return points([x], [y], PICK[dark], symbol="circle-open", size=15, edge=2.5)


def note(
    x: float, y: float, text: str, at: str = "center middle", shift: tuple[int, int] = (0, 0), **attributes: Any
) -> Trace:
    """Words at a place: which of their corners stands there, and how far off it. [px]"""
    across, up = at.split()
    return {
        "x": x,
        "y": y,
        "text": text,
        "xanchor": across,
        "yanchor": up,
        "xshift": shift[0],
        "yshift": shift[1],
    } | attributes


def limit(at: float, rows: int) -> Trace:
    """A dashed line down through rows."""
    return rule([at, at], [-0.6, rows - 0.4], NEUTRAL)
