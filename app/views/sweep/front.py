"""The front over its cloud, and along all axes: a box drawn in either keeps designs in both and in the table below.

And what a number moves, as a tornado.
"""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.shared import formats as fmt
from app.shared.figures.drawing import Bar, Trace, hover, line, note, points, ring, rows, rule
from app.shared.figures.style import CLOUD, INK, NEUTRAL, PICK, SHADE, Figure, names_axis, span, style, two_lines
from app.views.sweep.columns import Column, DesignColumns, Ranges
from app.views.sweep.outcome import Outcome

_CLOUD_SIZE = 3000  # designs of the cloud: more would be slow to draw, and all count
_CLOUD_LINES, _FRONT_LINES = 2, 9  # values that a design of the cloud, and of the front, says under the pointer
_WHOLE = {"unselected": {"marker": {"opacity": 0.92}}}  # the server says what is faint


def chart(
    designs: DesignColumns,
    ranges: Ranges,
    colour: str,
    selection: int,
    outcome: Outcome,
    limits: Mapping[str, float],
    dark: bool,
    height: int,
) -> Figure:
    """The front over its cloud in the first two objectives, coloured by a column; what is left out is faint."""
    x, y = designs.columns[:2]
    column = next((c for c in designs.columns if c.name == colour), None)
    data = [_stair(designs, dark), *_dots(designs, designs.within(ranges), column, dark)]
    across, up = [0.0, 1.0], [0.0, 1.0]
    for c, places in ((x, across), (y, up)):
        places.extend([float(c.place(limits[c.name]))] if c.name in limits else [])
        places.extend([float(c.place(outcome.now[c.name]))] if c.name in outcome.now else [])
    if outcome.now:
        data.append(points(across[-1:], up[-1:], PICK[dark], hover("Current scenario"), symbol="star", size=13))
    x_axis, y_axis = x.axis(across), y.axis(up)
    (left, right), (low, high) = x_axis["range"], y_axis["range"]
    notes = []
    if x.name in limits:
        data.append(rule([across[2]] * 2, [low, high], NEUTRAL))
        notes.append(note(across[2], high, f"limit {x.text(limits[x.name])}", "right top"))
    if y.name in limits:
        data.append(rule([left, right], [up[2]] * 2, NEUTRAL))
        notes.append(note(right, up[2], f"limit {y.text(limits[y.name])}", "right bottom"))
    data += [
        ring(float(x.place(x.values[at])), float(y.place(y.values[at])), dark)
        for at in np.flatnonzero(designs.numbers == selection)
    ]
    shapes = []
    if {x.name, y.name} & set(ranges):
        (x0, x1), (y0, y1) = ranges.get(x.name, (left, right)), ranges.get(y.name, (low, high))
        frame = {"type": "rect", "x0": x0, "x1": x1, "y0": y0, "y1": y1, "fillcolor": SHADE, "layer": "below"}
        shapes = [frame | {"line": {"color": PICK[dark], "width": 1}}]
    return style(data, x_axis, y_axis, height, dark, notes=notes, shapes=shapes)


def _stair(designs: DesignColumns, dark: bool) -> Trace:
    """Steps along the designs that no other beats in the two drawn objectives."""
    x, y = designs.columns[:2]
    front = slice(len(designs.numbers) - designs.front, None)
    xs, ys = x.place(x.values[front]), y.place(y.values[front])
    x_sign, y_sign = (-1 if c.figure and c.figure.rising else 1 for c in (x, y))
    order = np.lexsort((y_sign * ys, x_sign * xs))
    best = np.minimum.accumulate(y_sign * ys[order])
    stair = order[np.r_[True, best[1:] < best[:-1]]]
    trace = line(xs[stair].tolist(), ys[stair].tolist(), INK[dark], width=1.4)
    trace["line"]["shape"] = "hv"
    return trace


def _dots(designs: DesignColumns, inside: np.ndarray, column: Column | None, dark: bool) -> list[Trace]:
    """Designs of the cloud, thinned, and of the front: what is left out, then what is kept."""
    x, y = designs.columns[:2]
    first = len(designs.numbers) - designs.front
    cloud = np.random.default_rng(0).permutation(first)[:_CLOUD_SIZE]
    traces = []
    for group, hue, size, count in (
        (cloud, CLOUD[dark], 4, _CLOUD_LINES),
        (np.arange(first, len(designs.numbers)), INK[dark], 8, _FRONT_LINES),
    ):
        for within in (False, True):
            at = group[inside[group] == within]
            says = [designs.says(int(i), count) for i in at]
            xs, ys = (c.place(c.values[at]).tolist() for c in (x, y))
            trace = points(
                xs, ys, hue if within else CLOUD[dark], says, size=size, customdata=designs.numbers[at].tolist()
            )
            trace["marker"] |= {} if within else {"opacity": 0.25}
            trace["marker"] |= _shades(column, at, size > 4) if within and column else {}
            traces.append(trace | _WHOLE)
    return traces


def _shades(column: Column, group: np.ndarray, bar: bool) -> Trace:
    """Colours of designs by a column's places, and once the bar that explains them."""
    low, high = column.ends
    values = range(len(column.names)) if column.names else (low, high)
    ticks = {"tickvals": [float(column.place(v)) for v in values], "ticktext": [column.text(v) for v in values]}
    key = {"colorbar": {"thickness": 10, "outlinewidth": 0, "title": {"text": column.label, "side": "right"}} | ticks}
    shades = {"color": np.nan_to_num(column.place(column.values[group])).tolist(), "colorscale": "Viridis"}
    return shades | {"cmin": 0, "cmax": 1, "showscale": bar} | (key if bar else {})


def upright(designs: DesignColumns, ranges: Ranges, selection: int, dark: bool) -> Figure:
    """The front along all axes at once, a line for each design."""
    columns, first = designs.upright(), len(designs.numbers) - designs.front
    levels = np.array([c.place(c.values[first:]) for c in columns]).T
    numbers, within = designs.numbers[first:], designs.within(ranges)[first:]
    corners = len(columns) + 1  # of a design's line, and the gap behind it
    data: list[Trace] = []
    for group, hue, opacity, width in (
        (np.flatnonzero(~within), CLOUD[dark], 0.25, 1.0),
        (np.flatnonzero(within), INK[dark], 0.6, 1.0),
        (np.flatnonzero(numbers == selection), PICK[dark], 1.0, 2.5),
    ):
        xs = [*range(len(columns)), None] * len(group)
        ys = [level for at in group for level in (*levels[at].tolist(), None)]
        says = [designs.says(first + int(at), _FRONT_LINES) for at in group for _ in range(corners)]
        names = [int(numbers[at]) for at in group for _ in range(corners)]
        data.append(line(xs, ys, hue, says, size=4, width=width, customdata=names, opacity=opacity) | _WHOLE)
    notes = []
    for k, column in enumerate(columns):
        data.append(rule([k, k], [0, 1], NEUTRAL, 1, "solid"))
        notes += [note(k, end, column.text(column.ends[end]), f"center {('top', 'bottom')[end]}") for end in (0, 1)]
        if column.name in ranges:
            data.append(line([k, k], ranges[column.name], PICK[dark], width=6))
    x = names_axis(["<br>".join(textwrap.wrap(column.label, 14)) for column in columns], 0.45, side="top")
    y = {"range": [-0.12, 1.12], "showgrid": False, "tickvals": []}
    return style(data, x, y, 260, dark, notes=notes)


def design_number(event: Mapping[str, Any]) -> int | None:
    """Number of the design that a click picked; None where a box was drawn or nothing hit."""
    hit = event["selection"]
    return int(hit["points"][0]["customdata"]) if hit["points"] and not hit["box"] else None


def box_ranges(event: Mapping[str, Any], columns: Sequence[Column], along: bool) -> dict[str, tuple[float, float]]:
    """Ranges that a box keeps: of the two columns drawn, or of those that stand upright inside it (`along`)."""
    ranges = {}
    for box in event["selection"]["box"]:
        xs, ys = ((float(min(box[side])), float(max(box[side]))) for side in ("x", "y"))
        if along:
            ranges |= {c.name: ys for k, c in enumerate(columns) if xs[0] <= k <= xs[1]}
        else:
            ranges |= {columns[0].name: xs, columns[1].name: ys}
    return ranges


def tornado(swings: Sequence[tuple[str, float, float]], percent: float, metric: str, dark: bool) -> Figure:
    """Change of a metric as each value goes down and up: solid for up, hatched for down.

    `swings` are (name, relative change with the value lowered, with it raised); largest first.
    """
    marks = []
    for at, (name, down, up) in enumerate(swings):
        for change, word, colour, hatch in ((down, "−", NEUTRAL, "/"), (up, "+", INK[dark], "")):
            says = hover(f"{name} {word}{percent:.0%}", f"{metric} {fmt.deviation(change)}")
            marks.append(Bar(at, 100 * change, colour, says, hatch=hatch))
    labels = [two_lines(name, f"{fmt.deviation(down)} | {fmt.deviation(up)}") for name, down, up in swings]
    extent = max((abs(bar.length) for bar in marks), default=1.0) * 1.08 or 1.0
    x = span(f"Change of {metric} (%)", -extent, extent, grid=True, zeroline=True, zerolinecolor=NEUTRAL)
    return rows(labels, marks, x, dark, min_height=180)
