"""A serving engine under load as figures. Pure: SI in, figures out."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from app.shared import formats as fmt
from app.shared.figures.drawing import Trace, hover, points
from app.shared.figures.report import Share, shares
from app.shared.figures.style import (
    CLOUD,
    INK,
    NEUTRAL,
    PALETTE,
    PICK,
    Figure,
    log_axis,
    rows_axis,
    rows_height,
    span,
    style,
    two_lines,
)
from app.shared.load import ServingLoad
from app.views.traffic.charts import LoadTimes
from app.views.traffic.charts import along as along_load
from app.views.traffic.serving import tables, texts
from engine.traffic.engines.operating_points import LABELS, OperatingPoint

_TALL = 360  # height of the timeline [px]
_LANE = 0.66  # of a row, the height of its largest value


def along(runs: Sequence[OperatingPoint], now: OperatingPoint, load: ServingLoad, dark: bool) -> Figure:
    """TTFT and inter-token latency along the load, p99 and p50, with the limits and the load at hand.

    The shade is the interval of TTFT p99. A gap of 0 s, of tokens that one pass makes, is not drawn."""
    curves = []
    for time, name, colour, symbol in (
        ("ttft", "TTFT", INK[dark], "circle"),
        ("itl", "Inter-token", NEUTRAL, "diamond"),
    ):
        pairs = [(p.level, figures) for p in runs if (figures := p.times(time)) is not None]
        for metric, dash in (("p99", "solid"), ("p50", "dot")):
            values = [(level, s) for level, figures in pairs if (s := getattr(figures, metric).value) > 0.0]
            curves.append(LoadTimes(f"{name} {metric}", values, colour, dash, symbol))
    levels = [p.level for p in runs] + [now.level]
    start, end = min(levels) / 1.15, max(levels) * 1.15
    across = log_axis(start, end, "Clients") if load.loop else span("Load (requests/s)", 0, end, nticks=8)
    first = [(p.level, figures.p99) for p in runs if (figures := p.times("ttft")) is not None]
    sure = [(level, ends.low, ends.high) for level, ends in first if math.isfinite(ends.low)]
    limits = [(f"limit of {LABELS[name]}", seconds) for name, seconds in load.limits]
    return along_load(curves, sure, limits, [("now", now.level)], across, partial(tables.level, load), dark)


def passes(columns: Mapping[str, NDArray[np.float64]], point: OperatingPoint, dark: bool) -> Figure:
    """Passes in time: prefill tokens, decoding sequences, KV blocks and requests left out, each in a row of its own.

    The height of a row is its largest value; crosses mark preemptions.
    """
    end = float(columns["end_s"][-1])
    x = fmt.scale([end], "s")
    lanes = {
        "prefill_tokens": ("Prefill tokens", INK[dark]),
        "decode_rows": ("Decoding sequences", INK[dark]),
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
    rows = np.flatnonzero(columns["preempted"])
    if rows.size:
        says = [hover(f"{fmt.count(columns['preempted'][k])} preempted", f"at {fmt.seconds(middle[k])}") for k in rows]
        at = list(lanes).index("blocks") - _LANE / 2
        data.append(points([x(middle[k]) for k in rows], [at] * rows.size, PICK[dark], says, symbol="x", size=6))
    axis = span(f"Time ({x.unit})", 0, x(end) * 1.01, grid=True)
    return style(data, axis, rows_axis(labels), rows_height(labels, _TALL), dark)


def binds(point: OperatingPoint, dark: bool) -> Figure:
    """Shares of the run's time by what limits it, the largest first."""
    ranking = sorted(point.shares.items(), key=lambda item: -item[1])
    entries = [
        Share(texts.SHARES[name], share, f"{fmt.percent(share)} of the time") for name, share in ranking if share > 0
    ]
    return shares(entries, INK[dark], "Share of time", dark)
