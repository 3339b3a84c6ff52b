"""A system under load as figures. Pure: SI in, figures out."""

import math
from collections.abc import Sequence

import numpy as np

from app.shared import formats as fmt
from app.shared.figures.drawing import Bar, Trace, area, bars, hover, line, note, points, ring, rule
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
    rows_height,
    span,
    style,
    two_lines,
)
from app.shared.load import LoadDetail, LoadPoint
from app.views.traffic import texts
from engine.traffic import RequestTimeline

_STEEP = 8.0  # a curve that rises more is drawn on a log axis
_OVER = 3.0  # times the agreement to which a curve is drawn


def _now(x: float, y: float, left: bool) -> Trace:
    """The word at the top of the line that marks the load."""
    return note(x, y, "now", "right top" if left else "left top", (-4 if left else 4, 0))


def curve(
    loads: Sequence[LoadPoint],
    name: str,
    sla_s: float,
    limit_qps: float,
    capacity_qps: float,
    now: tuple[float, float | None],
    dark: bool,
) -> Figure:
    """Latency along the load: the agreement's figure with its interval, the median, the agreement, capacity, and now.

    Parameters
    ----------
    loads : by rising load; `low` and `high` may be infinite or None.
    now : load [1/s] and its figure [s], None where there is no steady state.
    """
    finite = [(p, p.figure) for p in loads if p.figure is not None and math.isfinite(p.figure)]
    low = min([p.p50 or figure or sla_s for p, figure in finite] + [sla_s])
    high = max([sla_s * 1.3, *(figure for _, figure in finite if figure <= _OVER * sla_s)])
    x, y, log = fmt.scale([capacity_qps], "QPS"), fmt.scale([high], "s"), high > _STEEP * low
    right = x(capacity_qps) * 1.12
    bottom, top = (y(low) / 1.6, y(high) * 1.25) if log else (0.0, y(high) * 1.08)

    def height(value: float) -> float:
        return math.log10(value) if log else value

    def drawn(word: str, values: Sequence[tuple[float, float]], colour: str, width: float, size: int = 0) -> Trace:
        says = [hover(word, f"{fmt.seconds(s)} at {fmt.si(q, 'QPS')}") for q, s in values]
        return line([x(q) for q, _ in values], [y(s) for _, s in values], colour, says, width=width, size=size)

    banded = [(x(p.qps), p.low, p.high) for p, _ in finite if p.low is not None and p.high is not None]
    lows, highs = [y(max(a, low / 2)) for _, a, _ in banded], [y(min(b, 10 * high)) for *_, b in banded]
    data = area([at for at, *_ in banded], lows, highs, SHADE) if banded else []
    data.append(drawn("p50", [(p.qps, p.p50) for p, _ in finite if p.p50 is not None], NEUTRAL, 1.4))
    data.append(drawn(name, [(p.qps, figure) for p, figure in finite], INK[dark], 2, 4))
    data.append(rule([0, right], [y(sla_s)] * 2, NEUTRAL))
    data.append(rule([x(capacity_qps)] * 2, [bottom, top], NEUTRAL))
    foot = height(bottom * 1.1 if log else top * 0.04)
    notes = [
        note(0, height(y(sla_s)), f"limit {fmt.seconds(sla_s)}", "left bottom"),
        note(x(capacity_qps), foot, "capacity", "left bottom", textangle=-90),
    ]
    if limit_qps > 0:
        says = texts.LIMIT_HOVER.format(limit_qps=fmt.si(limit_qps, "QPS"))
        data.append(points([x(limit_qps)], [y(sla_s)], INK[dark], says, symbol="diamond", size=10))
    at, figure = now
    if figure is not None and bottom <= y(figure) <= top:
        data.append(ring(x(at), y(figure), dark))
        notes.append(note(x(at), height(y(figure)), "now", shift=(0, 17)))
    elif x(at) <= right:
        data.append(rule([x(at)] * 2, [bottom, top], PICK[dark]))
        notes.append(_now(x(at), height(top), left=True))
    title = f"{name} and p50, grey ({y.unit})"
    up = log_axis(bottom, top, title) if log else span(title, bottom, top, grid=True, nticks=6)
    return style(data, span(f"Load ({x.unit})", 0, right, grid=True), up, 340, dark, notes=notes)


def distribution(spot: LoadDetail, sla_s: float, sla_name: str, dark: bool, height: int = 300) -> Figure:
    """Shares of requests by latency, in bins that are equally wide on the log axis, with p50, p99 and the agreement.

    Drawn over log10 of the time, so that a bin's width is the same everywhere.
    """
    edges = np.log10(spot.edges)
    width = float(edges[1] - edges[0])
    tall = 100 * float(spot.shares.max())
    bins = zip(spot.edges[:-1], spot.edges[1:], spot.shares, strict=True)
    says = [hover(f"{fmt.seconds(a)} to {fmt.seconds(b)}", f"{100 * s:.3g}% of requests") for a, b, s in bins]
    ends = {"x": ((edges[:-1] + edges[1:]) / 2).tolist(), "y": (100 * spot.shares).tolist(), "width": width * 0.96}
    data: list[Trace] = [{"type": "bar", "marker": {"color": INK[dark]}, "hovertemplate": says} | ends]
    low, high = float(edges[0]), max(float(edges[-1]), math.log10(sla_s) + width)
    marks = [(spot.figures["p50"], "p50"), (spot.figures["p99"], "p99"), (sla_s, "limit")]
    notes = []
    for level, (value, name) in enumerate(sorted(marks)):  # lines end below the labels, so none crosses another's
        at = math.log10(value)
        missed = name == "limit" and spot.figures.get(sla_name, 0.0) > sla_s
        dash = "dash" if name == "limit" else "dot"
        data.append(rule([at, at], [0, 1.08 * tall], PICK[dark] if missed else NEUTRAL, dash=dash))
        corner, shift = ("right middle", 6) if at > low + 0.6 * (high - low) else ("left middle", -6)
        notes.append(note(at, tall * (1.15 + 0.1 * level), f"{name} {fmt.seconds(value)}", corner, (shift, 0)))
    ticks, text = _time_ticks(low, high)
    x = span("Latency (log)", low - width, high + width, tickvals=ticks, ticktext=text)
    y = span("Share of requests (%)", 0, tall * 1.42, grid=True, nticks=5)
    return style(data, x, y, height, dark, notes=notes)


def _time_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Ticks over log10 seconds, in words: 100 µs, 1 ms, 10 ms."""
    steps = (1, 2, 5) if high - low < 1.8 else (1,)
    powers = range(math.floor(low), math.ceil(high) + 1)
    values = [m * 10.0**p for p in powers for m in steps if low <= math.log10(m * 10.0**p) <= high]
    while len(values) > 7:
        values = values[::2]
    return [math.log10(v) for v in values], [fmt.seconds(v).replace(".00 ", " ").replace(".0 ", " ") for v in values]


def use(busy: dict[str, float], dark: bool, least: int = 140, over: bool = False) -> Figure:
    """How busy each resource is at one load; at least so many pixels tall. Full ones stand out where load is `over`
    capacity: below it, one that batches is at work all the time and still has room."""
    drawn = [
        Share(_upper(name), share, f"{fmt.percent(share)} busy", hue=PICK[dark] if over and share >= 1.0 else None)
        for name, share in sorted(busy.items(), key=lambda item: -item[1])
    ]
    return shares(drawn, INK[dark], texts.SHARE_TIME_BUSY, dark, use_height(busy, least))


def use_height(busy: dict[str, float], least: int = 140) -> int:
    """Pixels that `use` takes for its rows."""
    return rows_height([two_lines(name, fmt.percent(share)) for name, share in busy.items()], least)


def _upper(name: str) -> str:
    return name[:1].upper() + name[1:]


def _segments(requests: RequestTimeline, most: int) -> list[tuple[str, str, np.ndarray, np.ndarray]]:
    """What requests spend their time on, as (kind, name, begin, end) [s]; kind: wait, wire or serve."""
    segments = []
    for name, start in requests.start.items():
        kind = "wire" if name in requests.wires else "serve"
        segments.append(("wait", f"waiting for {name}", requests.came[name][:most], start[:most]))
        segments.append((kind, f"in {name}", start[:most], requests.left[name][:most]))
    return segments


def window(requests: RequestTimeline, dark: bool, most: int = 40) -> Figure:
    """A window of requests on their way through the resources: one row each.

    Grey while it waits, narrow and violet on a wire, ink while it is served, the second and further stations hatched.
    """
    origin, last = float(requests.arrive[0]), requests.arrive[:most].size
    end = float(np.nanmax(requests.finish[:most])) - origin
    scale = fmt.scale([end], "s")
    looks = {"wait": CLOUD[dark], "wire": PALETTE["links"][dark], "serve": INK[dark]}
    data, served = [], 0
    for kind, name, begin, until in _segments(requests, most):
        hatch = ("", "/", "x")[served % 3] if kind == "serve" else ""
        served += kind == "serve"
        spans = until - begin
        shown = [
            Bar(
                int(i),
                scale(float(spans[i])),
                looks[kind],
                hover(f"Request {i + 1}", f"{name}: {fmt.seconds(float(spans[i]))}"),
                scale(float(begin[i]) - origin),
                hatch=hatch,
                over=bool(hatch),
            )
            for i in np.flatnonzero(np.isfinite(spans) & (spans > 0))
        ]
        data += bars(shown, dark, width=0.35 if kind == "wire" else 0.8)
    ticks = [0, *range(9, last, 10)]
    y = span(texts.TIMELINE_AXIS, last - 0.4, -0.6, tickvals=ticks, ticktext=[str(at + 1) for at in ticks])
    return style(data, span(f"Time ({scale.unit})", 0, scale(end) * 1.02, grid=True), y, 330, dark)
