"""Figures of a sweep: Pareto front over its cloud, parallel coordinates, tile heat map, tornado. Pure: SI in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from app.shared import formats as fmt
from app.shared.figures.heat import ObjectiveAxis
from app.shared.figures.labels import BESIDE, Plot
from app.shared.figures.style import CLOUD, INK, NEUTRAL, PICK, bar, row_height, rows_axis, style, two_lines

__all__ = ["MarkedDesign", "ParallelAxis", "parallel", "pareto", "ticks", "tornado"]

_SKIP = {"hoverinfo": "skip"}
_STEADY = {"selected": {"marker": {"opacity": 1}}, "unselected": {"marker": {"opacity": 1}}}
_CLICK = 5.0  # px around a point of the front that are its own
_PLOT = (640.0, 330.0)  # px of the plot area that labels are laid out for


@dataclass(frozen=True)
class MarkedDesign:
    """A design to point out: where it lies, in SI, and which it is, `selected` (ringed) or `current` (a star)."""

    x: float
    y: float
    word: str


@dataclass(frozen=True)
class ParallelAxis:
    """One upright axis of the parallel coordinates; `names` where its values are positions in a list."""

    label: str
    values: Sequence[float]
    names: Sequence[str] | None = None


def ticks(low: float, high: float) -> list[float]:
    """Round values of a log axis: even steps where it is short, else 1, 2, 5, else powers of ten."""
    decades = math.log10(high / low)
    if decades < 0.6:
        step = 10.0 ** math.floor(math.log10(high - low))
        step *= next((m for m in (0.2, 0.5, 1.0, 2.0) if (high - low) / (step * m) <= 6), 5.0)
        first = math.ceil(low / step - 1e-9)
        return [round(step * i, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps: tuple[float, ...] = (1, 1.5, 2, 3, 5, 7) if decades <= 1.2 else (1, 2, 5) if decades <= 3.2 else (1,)
    every = max(1, math.ceil(len(powers) / 7)) if steps == (1,) else 1
    values = [m * 10.0**p for p in powers if p % every == 0 for m in steps]
    return [v for v in values if low <= v <= high]


def _shown(value: float) -> str:
    """A tick in words: `0.05`, `20`, `1.5 k`."""
    if abs(value) >= 10_000:
        found = fmt.scale([value], "")
        return f"{found(value):g} {found.unit}".strip()
    return f"{value:,.10f}".rstrip("0").rstrip(".")


def _log_axis(axis: ObjectiveAxis, values: Sequence[float]) -> tuple[dict[str, Any], float, float]:
    """Axis over positive values with 5% to spare, and its ends as plotted."""
    low, high = min(values), max(values)
    spare = max((high / low) ** 0.06, 1.02)
    low, high = low / spare, high * spare
    at = ticks(low, high)
    drawn = {
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickvals": at,
        "ticktext": [_shown(t) for t in at],
        "title": f"{axis.label} ({axis.scale.unit}), log" if axis.scale.unit else f"{axis.label}, log",
    }
    return drawn, low, high


def _stairs(points: list[tuple[float, float]], less_x: bool, less_y: bool) -> tuple[list[float], list[float]]:
    """The line under which nothing lies: from the best x to the best y, with a corner before every step."""
    ordered = sorted(points, key=lambda p: (p[0] if less_x else -p[0], p[1] if less_y else -p[1]))
    xs: list[float] = []
    ys: list[float] = []
    for x, y in ordered:
        if ys and not (y < ys[-1] if less_y else y > ys[-1]):
            continue
        if xs:
            xs.append(x)
            ys.append(ys[-1])
        xs.append(x)
        ys.append(y)
    return xs, ys


def _apart(
    cloud: Sequence[tuple[float, float, int]],
    front: Sequence[tuple[float, float, int, str]],
    plot: Plot,
    x: ObjectiveAxis,
    y: ObjectiveAxis,
) -> list[tuple[float, float, int]]:
    """The cloud without what lies under the front's markers, where a click would take it for them."""

    def cell(a: float, b: float) -> tuple[int, int]:
        across, up = plot.pixel(x.scale(a), y.scale(b))
        return int(across // _CLICK), int(up // _CLICK)

    covered = set()
    for a, b, *_ in front:
        i, j = cell(a, b)
        covered |= {(i + di, j + dj) for di in (-1, 0, 1) for dj in (-1, 0, 1)}
    return [p for p in cloud if cell(p[0], p[1]) not in covered]


def pareto(
    cloud: Sequence[tuple[float, float, int]],
    front: Sequence[tuple[float, float, int, str]],
    marks: Sequence[MarkedDesign],
    x: ObjectiveAxis,
    y: ObjectiveAxis,
    dark: bool,
    height: int = 420,
    drag: bool = False,
) -> go.Figure:
    """Front over a grey cloud of what else was tried; every point carries its design's number.

    Parameters
    ----------
    cloud : (x, y, number) of other designs, SI. front : the same with a name for hover.
    drag : whether a drag draws a box; a click selects a point only where it does not.
    """
    px, py = [p[0] for p in cloud], [p[1] for p in cloud]
    fx, fy = [p[0] for p in front], [p[1] for p in front]
    limits = [a.limit for a in (x, y)]
    drawn_x, low_x, high_x = _log_axis(
        x, [x.scale(v) for v in [*px, *fx, *(m.x for m in marks), *([limits[0]] if limits[0] else [])]]
    )
    drawn_y, low_y, high_y = _log_axis(
        y, [y.scale(v) for v in [*py, *fy, *(m.y for m in marks), *([limits[1]] if limits[1] else [])]]
    )
    hover = "%{customdata[1]}<extra></extra>"
    plot = Plot((low_x, high_x), (low_y, high_y), *_PLOT)
    cloud = _apart(cloud, front, plot, x, y)
    px, py = [p[0] for p in cloud], [p[1] for p in cloud]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [x.scale(v) for v in px],
            "y": [y.scale(v) for v in py],
            "marker": {"color": CLOUD[dark], "size": 4 if len(cloud) > 400 else 6, "line": {"width": 0}},
            "customdata": [[p[2], f"{fmt.si(p[0], x.unit)}<br>{fmt.si(p[1], y.unit)}"] for p in cloud],
            "hovertemplate": hover,
        }
        | _STEADY
    ]
    for limit, axis, across in ((limits[0], x, True), (limits[1], y, False)):
        if limit is None:
            continue
        at = axis.scale(limit)
        line = {"type": "scatter", "mode": "lines", "line": {"color": NEUTRAL, "width": 1.4, "dash": "dash"}} | _SKIP
        data.append(line | ({"x": [at, at], "y": [low_y, high_y]} if across else {"x": [low_x, high_x], "y": [at, at]}))
        spot = (at, low_y * (high_y / low_y) ** 0.04) if across else (low_x * (high_x / low_x) ** 0.02, at)
        plot.label(*spot, f"limit {fmt.si(limit, axis.unit)}", (("left", "bottom", 5, 0), ("right", "bottom", -5, 0)))
    if front:
        xs, ys = _stairs([(x.scale(a), y.scale(b)) for a, b in zip(fx, fy)], x.less, y.less)
        data.append(
            {"type": "scatter", "mode": "lines", "x": xs, "y": ys, "line": {"color": INK[dark], "width": 1.6}} | _SKIP
        )
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [x.scale(v) for v in fx],
                "y": [y.scale(v) for v in fy],
                "marker": {"color": INK[dark], "size": 8, "line": {"width": 0}},
                "customdata": [[p[2], p[3]] for p in front],
                "hovertemplate": hover,
            }
            | _STEADY
        )
    looks = {
        "selected": {"symbol": "circle-open", "size": 17, "color": PICK[dark], "line": {"width": 2.5}},
        "current": {"symbol": "star", "size": 13, "color": PICK[dark], "line": {"width": 0}},
    }
    for mark in marks:
        look = looks[mark.word]
        at = {"x": [x.scale(mark.x)], "y": [y.scale(mark.y)]}
        data.append({"type": "scatter", "mode": "markers", "marker": look} | at | _SKIP | _STEADY)
        plot.mark(at["x"][0], at["y"][0])
    for a, b in zip(fx, fy):
        plot.mark(x.scale(a), y.scale(b))
    spots = (("center", "bottom", 0, 12), ("center", "top", 0, -12), *BESIDE)
    for mark in marks:
        where = (x.scale(mark.x), y.scale(mark.y))
        if not plot.label(*where, mark.word, spots):
            plot.notes.append(
                {
                    "x": math.log10(where[0]),
                    "y": math.log10(where[1]),
                    "text": mark.word,
                    "yanchor": "top",
                    "yshift": -10,
                }
            )
    fig = style(data, drawn_x | {"showgrid": False}, drawn_y, height, dark, notes=plot.notes, select=True)
    fig.update_xaxes(fixedrange=True)
    fig.update_yaxes(fixedrange=True)
    fig.layout.dragmode = "select" if drag else False  # where a drag selects, Streamlit turns clicks off
    return fig


def parallel(columns: Sequence[ParallelAxis], picked: int | None, dark: bool) -> go.Figure:
    """All axes at once: a line a design, the picked one in colour; an axis keeps the range dragged on it.

    `picked` is a position in the columns' values.
    """
    order = [i for i in range(len(columns[0].values)) if i != picked] + ([picked] if picked is not None else [])
    ink = "#E6EAF1" if dark else "#5B6675"
    dimensions = []
    for column in columns:
        values = [column.values[i] for i in order]
        shown: dict[str, Any] = {"label": column.label, "values": values}
        if column.names is not None:
            used = sorted({round(v) for v in values})
            keep = used if len(used) <= 8 else used[:: math.ceil(len(used) / 8)]
            shown |= {"tickvals": keep, "ticktext": [column.names[i] for i in keep]}
            shown["range"] = [min(used) - (len(used) == 1), max(used) + (len(used) == 1)]
        else:
            low, high = min(values), max(values)
            even = low == high
            at = [low] if even else _even(low, high)
            shown["range"] = [0.9 * low, 1.1 * low or 1.0] if even else [low, high]
            shown |= {"tickvals": at, "ticktext": [fmt.digits3(v) for v in at]}
        dimensions.append(shown)
    colour = [0.0] * len(order)
    if picked is not None:
        colour[-1] = 1.0
    data = [
        {
            "type": "parcoords",
            "dimensions": dimensions,
            "line": {
                "color": colour,
                "colorscale": [[0, NEUTRAL], [1, PICK[dark]]],
                "cmin": 0,
                "cmax": 1,
                "showscale": False,
            },
            "labelfont": {"size": 12, "color": ink},
            "tickfont": {"size": 12, "color": ink},
            "rangefont": {"size": 12, "color": ink},
            "unselected": {"line": {"color": CLOUD[dark], "opacity": 0.35}},
        }
    ]
    fig = style(data, {}, {}, 300, dark)
    fig.layout.margin = {"l": 64, "r": 64, "t": 44, "b": 18}
    return fig


def _even(low: float, high: float, count: int = 5) -> list[float]:
    """Both ends and even steps between them."""
    return [low + (high - low) * i / (count - 1) for i in range(count)]


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
