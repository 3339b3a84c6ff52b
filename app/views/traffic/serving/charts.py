"""A serving engine under load as figures. Pure: SI in, figures out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from app.shared import formats as fmt
from app.shared.figures.drawing import Trace, area, hover, line, note, points, rule
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
    rows_axis,
    rows_height,
    span,
    style,
    two_lines,
)
from app.shared.load import ServingLoad
from app.views.traffic.serving import tables, texts
from app.views.traffic.serving.controls import LIMITS
from engine.traffic.engines.calendar import Figures
from engine.traffic.engines.operating_points import OperatingPoint

_TALL = 360  # height of the two large figures [px]
_LANE = 0.66  # of a row, the height of its largest value


def along(shown: Sequence[OperatingPoint], now: OperatingPoint, load: ServingLoad, dark: bool) -> Figure:
    """TTFT and inter-token latency along the load, p99 and p50, with the limits and the load at hand.

    The shade is the interval of TTFT p99."""
    ink, quiet = INK[dark], PALETTE["compute"][dark]
    looks = (("ttft", "p99", "TTFT", ink, 2.0), ("ttft", "p50", "TTFT", ink, 1.2))
    looks += (("itl", "p99", "Inter-token", quiet, 2.0), ("itl", "p50", "Inter-token", quiet, 1.2))
    every = {(time, metric): _values(shown, time, metric) for time, metric, *_ in looks}
    known = [seconds for values in every.values() for _, seconds in values] + [most for _, most in load.limits]
    y = fmt.scale([max(known)], "s")
    low, high = y(min(known)) / 1.5, y(max(known)) * 1.5
    levels = [p.level for p in shown] + [now.level]
    left, right = min(levels) / 1.15, max(levels) * 1.15
    across = log_axis(left, right, "Clients") if load.closed else span("Load (requests/s)", 0, right, nticks=8)
    end, at_now = (math.log10(right), math.log10(now.level)) if load.closed else (right, now.level)
    sure = [(p.level, ends) for p in shown if math.isfinite((ends := p.report.ttft.p99).low)]
    bottoms, tops = [max(y(e.low), low) for _, e in sure], [min(y(e.high), high) for _, e in sure]
    data = area([at for at, _ in sure], bottoms, tops, SHADE)
    data += [rule([now.level] * 2, [low, high], PICK[dark])]
    for time, metric, name, colour, width in looks:
        values = every[time, metric]
        says = [hover(f"{name} {metric}", f"{fmt.seconds(s)} at {tables.level(load, at)}") for at, s in values]
        solid = "solid" if metric == "p99" else "dot"
        data.append(
            line(
                [at for at, _ in values],
                [y(s) for _, s in values],
                colour,
                says,
                width=width,
                dash=solid,
                size=4,
                name=f"{name} {metric}",
                symbol="circle" if time == "ttft" else "diamond",
            )
        )
    notes = [note(at_now, math.log10(high), "now", "left top", (4, 0))]
    for name, most in load.limits:
        data.append(rule([left if load.closed else 0.0, right], [y(most)] * 2, NEUTRAL))
        notes.append(note(end, math.log10(y(most)), f"limit of {LIMITS[name]}", "right bottom"))
    up = log_axis(low, high, f"Time ({y.unit})")
    return style(data, across, up, _TALL, dark, notes=notes, legend=True)


def _values(shown: Sequence[OperatingPoint], time: str, metric: str) -> list[tuple[float, float]]:
    """Loads and a figure of theirs, where they have it. [s]"""
    result = []
    for point in shown:
        figures: Figures | None = getattr(point.report, time)
        if figures is not None:
            result.append((point.level, getattr(figures, metric).value))
    return result


def passes(columns: Mapping[str, NDArray[np.float64]], point: OperatingPoint, dark: bool) -> Figure:
    """Passes in time: prefill tokens, decoding sequences, KV blocks and requests left out, each in a row of its own.

    The height of a row is its largest value; crosses mark preemptions.
    """
    end = float(columns["end_s"][-1])
    x = fmt.scale([end], "s")
    lanes = {
        "prefill_tokens": ("Prefill tokens", INK[dark]),
        "decode_rows": ("Decoding sequences", PALETTE["compute"][dark]),
        "blocks": ("KV blocks", PALETTE["offchip"][dark]),
        "refused": ("Waiting requests", CLOUD[dark]),
    }
    data: list[Trace] = []
    labels = []
    middle, width = (columns["start_s"] + columns["end_s"]) / 2, columns["end_s"] - columns["start_s"]
    for row, (column, (name, colour)) in enumerate(lanes.items()):
        values = columns[column]
        peak = float(values.max())
        full = point.report.kv_blocks / point.engines if column == "blocks" else max(peak, 1e-12)
        labels.append(
            two_lines(name, fmt.percent(peak / full) if column == "blocks" else f"≤ {fmt.count(round(peak))}")
        )
        says = [
            hover(f"{name} {fmt.count(round(v))}", f"at {fmt.seconds(t)}") for v, t in zip(values, middle, strict=True)
        ]
        data.append(
            {
                "type": "bar",
                "x": [x(t) for t in middle],
                "y": (-_LANE * values / full).tolist(),
                "base": row + _LANE / 2,
                "width": [x(w) for w in width],
                "marker": {"color": colour, "line": {"width": 0}},
                "hovertemplate": says,
            }
        )
    lost = np.flatnonzero(columns["preempted"])
    if lost.size:
        says = [hover(f"{fmt.count(columns['preempted'][k])} preempted", f"at {fmt.seconds(middle[k])}") for k in lost]
        at = list(lanes).index("blocks") - _LANE / 2
        data.append(points([x(middle[k]) for k in lost], [at] * lost.size, PICK[dark], says, symbol="x", size=6))
    axis = span(f"Time ({x.unit})", 0, x(end) * 1.01, grid=True)
    return style(data, axis, rows_axis(labels), rows_height(labels, _TALL), dark)


def binds(point: OperatingPoint, dark: bool, least: int) -> Figure:
    """Shares of the run's time by what limits it, the largest first; at least so many pixels tall."""
    ordered = sorted(point.shares.items(), key=lambda item: -item[1])
    shown = [
        Share(texts.SHARES[name], share, f"{fmt.percent(share)} of the time") for name, share in ordered if share > 0
    ]
    return shares(shown, INK[dark], "Share of time", dark, least)
