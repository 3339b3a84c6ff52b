"""A system under load as figures. Pure: SI in, figures out."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.shared import formats as fmt
from app.shared.figures.drawing import Bar, Trace, area, bars, hover, line, note, rule
from app.shared.figures.report import Share, shares
from app.shared.figures.style import (
    CLOUD,
    INK,
    NEUTRAL,
    PALETTE,
    PICK,
    SHADE,
    Figure,
    log_axis,
    span,
    style,
)
from app.shared.load import LoadDetail, LoadPoint
from app.views.traffic import texts
from engine.traffic import RequestTimeline, Sla

_OVER = 3.0  # times the agreement to which a curve is drawn
_TALL = 360  # height of a figure along the load [px]


@dataclass(frozen=True)
class LoadTimes:
    """A time along the load, as (load, seconds) by rising load, and its look."""

    name: str
    values: Sequence[tuple[float, float]]
    colour: str
    dash: str = "solid"
    symbol: str = "circle"


def along(
    curves: Sequence[LoadTimes],
    sure: Sequence[tuple[float, float, float]],
    limits: Sequence[tuple[str, float]],
    marks: Sequence[tuple[str, float]],
    across: dict[str, Any],
    load: Callable[[float], str],
    dark: bool,
    ceiling_s: float = math.inf,
) -> Figure:
    """Times along the load, with limits as rules across and marked loads as rules up, the last one the load at hand.

    Parameters
    ----------
    sure : the 99% interval of the first curve, as (load, low, high); ends may be infinite. [s]
    limits, marks : (name, seconds) and (name, load).
    across : the load's axis, whose unit all loads are in; `load` says one in words.
    ceiling_s : what is drawn at most. [s]
    """
    times_s = [s for curve in curves for _, s in curve.values if s <= ceiling_s] + [s for _, s in limits]
    y, log, (start, end) = fmt.scale([max(times_s)], "s"), "type" in across, across["range"]
    low = y(min(times_s)) / 1.5
    high = y(max(times_s)) * (y(max(times_s)) / low) ** 0.15  # a line of text above a limit and one of a mark's, apart
    data = area(
        [at for at, *_ in sure], [max(y(a), low) for _, a, _ in sure], [min(y(b), high) for *_, b in sure], SHADE
    )
    for curve in curves:
        says = [hover(curve.name, f"{fmt.seconds(s)} at {load(at)}") for at, s in curve.values]
        look: Trace = {"width": 2.0 if curve.dash == "solid" else 1.2, "dash": curve.dash, "symbol": curve.symbol}
        xs, ys = [at for at, _ in curve.values], [y(s) for _, s in curve.values]
        data.append(line(xs, ys, curve.colour, says, size=4, name=curve.name, **look))
    now = math.log10(marks[-1][1]) if log else marks[-1][1]
    free = (end, "right bottom", (0, 0)) if now < (start + end) / 2 else (start, "left bottom", (4, 0))  # of its rule
    notes = []
    for name, seconds in limits:
        data.append(rule([10**start, 10**end] if log else [start, end], [y(seconds)] * 2, NEUTRAL))
        notes.append(note(free[0], math.log10(y(seconds)), name, *free[1:]))
    for name, at in marks:
        data.append(rule([at, at], [low, high], PICK[dark] if name == marks[-1][0] else NEUTRAL))
        notes.append(note(math.log10(at) if log else at, math.log10(high), name, "left top", (4, 0)))
    return style(data, across, log_axis(low, high, f"Time ({y.unit})"), _TALL, dark, notes=notes, legend=True)


def curve(loads: Sequence[LoadPoint], sla: Sla, inside: float, capacity: float, now: float, dark: bool) -> Figure:
    """The agreement's figure and the median along the load, the most inside the agreement, capacity, and now. [1/s]"""
    x = fmt.scale([capacity], "QPS")
    finite = [(p, p.figure) for p in loads if p.figure is not None and math.isfinite(p.figure)]
    sure = [(x(p.qps), p.low, p.high) for p, _ in finite if p.low is not None and p.high is not None]
    curves = [
        LoadTimes(sla.metric, [(x(p.qps), figure) for p, figure in finite], INK[dark]),
        LoadTimes("p50", [(x(p.qps), p.p50) for p, _ in finite if p.p50 is not None], NEUTRAL, "dot"),
        LoadTimes(texts.INSIDE, [(x(inside), sla.seconds)] if inside > 0 else [], INK[dark], "solid", "diamond"),
    ]
    across = span(f"Load ({x.unit})", 0, 1.22 * x(capacity), grid=True)
    limits, marks = [(f"limit {fmt.seconds(sla.seconds)}", sla.seconds)], [("capacity", x(capacity)), ("now", x(now))]
    ceiling_s = _OVER * sla.seconds
    return along(curves, sure, limits, marks, across, lambda at: fmt.si(x.si(at), "QPS"), dark, ceiling_s)


def distribution(detail: LoadDetail, sla_s: float, sla_name: str, dark: bool) -> Figure:
    """Shares of requests by latency, in bins that are equally wide on the log axis, with p50, p99 and the agreement."""
    start, second, *_, last = detail.edges.tolist()
    ratio, tall = second / start, 100 * float(detail.shares.max())
    bins = zip(detail.edges[:-1], detail.edges[1:], detail.shares, strict=True)
    says = [hover(f"{fmt.seconds(a)} to {fmt.seconds(b)}", f"{100 * s:.3g}% of requests") for a, b, s in bins]
    end = max(last, ratio * sla_s)
    scale, middle = fmt.scale([end], "s"), math.sqrt(start * end)
    edges = scale.factor * detail.edges
    ends = {"x": ((edges[:-1] + edges[1:]) / 2).tolist(), "width": (0.96 * np.diff(edges)).tolist()}
    data: list[Trace] = [{"type": "bar", "marker": {"color": INK[dark]}, "hovertemplate": says} | ends]
    data[0]["y"] = (100 * detail.shares).tolist()
    marks = [(detail.figures["p50"], "p50"), (detail.figures["p99"], "p99"), (sla_s, "limit")]
    notes = []
    for level, (value, name) in enumerate(sorted(marks)):  # lines end below the labels, so none crosses another's
        is_late = name == "limit" and detail.figures.get(sla_name, 0.0) > sla_s
        dash = "dash" if name == "limit" else "dot"
        data.append(rule([scale(value)] * 2, [0, 1.08 * tall], PICK[dark] if is_late else NEUTRAL, dash=dash))
        corner, shift = ("right middle", 6) if value > middle else ("left middle", -6)
        at, text = math.log10(scale(value)), f"{name} {fmt.seconds(value)}"
        notes.append(note(at, tall * (1.15 + 0.1 * level), text, corner, (shift, 0)))
    x = log_axis(scale(start / ratio), scale(ratio * end), f"Latency ({scale.unit})") | {"showgrid": False}
    y = span("Share of requests (%)", 0, tall * 1.42, grid=True, nticks=5)
    return style(data, x, y, _TALL, dark, notes=notes)


def use(busy: dict[str, float], dark: bool, over: bool = False) -> Figure:
    """How busy each resource is at one load. Full ones stand out where load is `over` capacity: below it, one that
    batches is at work all the time and still has room."""
    entries = []
    for name, share in sorted(busy.items(), key=lambda item: -item[1]):
        hue = PICK[dark] if over and share >= 1.0 else None
        entries.append(Share(name[:1].upper() + name[1:], share, f"{fmt.percent(share)} busy", hue=hue))
    return shares(entries, INK[dark], texts.SHARE_TIME_BUSY, dark)


def window(requests: RequestTimeline, dark: bool) -> Figure:
    """A window of requests on their way through the resources: one row each.

    Grey while it waits, narrow and violet on a wire, ink while it is served, the second and further stations hatched.
    """
    origin, last = float(requests.arrive[0]), requests.arrive.size
    end = float(np.nanmax(requests.finish)) - origin
    scale = fmt.scale([end], "s")
    looks = {"wait": CLOUD[dark], "wire": PALETTE["links"][dark], "serve": INK[dark]}
    data, stations, segments = [], 0, []
    for name, start in requests.start.items():
        kind = "wire" if name in requests.wires else "serve"
        segments.append(("wait", f"waiting for {name}", requests.came[name], start))
        segments.append((kind, f"in {name}", start, requests.left[name]))
    for kind, name, begin, until in segments:
        hatch = ("", "/", "x")[stations % 3] if kind == "serve" else ""
        stations += kind == "serve"
        spans = until - begin
        marks = []
        for i in np.flatnonzero(np.isfinite(spans) & (spans > 0)):
            says = hover(f"Request {i + 1}", f"{name}: {fmt.seconds(float(spans[i]))}")
            start = scale(float(begin[i]) - origin)
            marks.append(Bar(int(i), scale(float(spans[i])), looks[kind], says, start, hatch))
        data += bars(marks, dark, width=0.35 if kind == "wire" else 0.8)
    ticks = [0, *range(9, last, 10)]
    y = span(texts.TIMELINE_AXIS, last - 0.4, -0.6, tickvals=ticks, ticktext=[str(at + 1) for at in ticks])
    return style(data, span(f"Time ({scale.unit})", 0, scale(end) * 1.02, grid=True), y, 330, dark)
