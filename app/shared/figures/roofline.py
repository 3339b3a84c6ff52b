"""The roofline: roofs of a device, with their names, and operators under them. Pure, like `charts`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from app.shared import formats as fmt
from app.shared.figures.drawing import Trace, hover
from app.shared.figures.drawing import points as points_at
from app.shared.figures.labels import BESIDE, Plot
from app.shared.figures.style import (
    MARKERS,
    NEUTRAL,
    PALETTE,
    RESOURCE_LABELS,
    Figure,
    level_name,
    log_axis,
    style,
)
from engine.cost.report import Report
from engine.cost.rows import OpRow, Roofline, totals
from engine.scenario.formats import LABELS

EDGE = 30.0  # times the furthest ridge: where stands what takes next to nothing through a roof that is drawn
_BESIDE_SLOPE = (("left", "top", 8, -4), ("right", "bottom", -8, 4))
_ON_RIDGE = (("center", "bottom", 0, 2),)
_ON_PEAK = (("right", "bottom", 0, 2), ("right", "top", 0, -4), ("right", "bottom", 0, 18), ("right", "top", 0, -20))


@dataclass(frozen=True)
class Level:
    """A memory level, the rate it is read at [B/s], and whether it is the main memory: its roof is a solid line."""

    name: str
    bandwidth: float
    main: bool


def draw_roofs(plot: Plot, peak: float, name: str, levels: Sequence[Level], unit: str = "FLOP") -> None:
    """Draw and name the roofs under a peak rate [FLOP/s, or OP/s by `unit`], after all points were marked. A bound."""
    far, slopes = plot.x[1], []
    for level in sorted(levels, key=lambda item: item.bandwidth):
        start, ridge = max(plot.x[0], plot.y[0] / level.bandwidth), min(peak / level.bandwidth, far)
        top = min(peak, far * level.bandwidth)
        plot.line((start, ridge, far), (start * level.bandwidth, min(peak, ridge * level.bandwidth), top), level.main)
        slopes.append((level, start, ridge))
    if not levels:
        plot.line((plot.x[0], far), (peak, peak), True)
    plot.label(far, peak, f"{name} {fmt.si(peak, f'{unit}/s')}", _ON_PEAK)
    for level, start, ridge in slopes:
        text = f"{level.name} {fmt.si(level.bandwidth, 'B/s')}"
        for part in (0.5, 0.25, 0.75, 0.1, 1.0):
            at = start * (ridge / start) ** part
            if plot.label(at, at * level.bandwidth, text, _BESIDE_SLOPE if part < 1 else _ON_RIDGE):
                break


@dataclass(frozen=True)
class RooflinePoint:
    """One operator: intensity [FLOP/B] against the memory level it is drawn for, and the rate that its device achieves,
    all streams in flight together, as the roofs are those of the whole device [FLOP/s].

    The level is, of those with a roof, the one whose roof over it is lowest; "" where none matters. What was fetched
    while operators before it ran stands on that roof, though its own time is less than its bytes took; so does what
    streams that take turns at a memory could not all do at once.
    """

    op: OpRow
    intensity: float
    rate: float
    level: str

    @classmethod
    def of(cls, op: OpRow, streams: int, roof: Roofline) -> Self | None:
        """None for an operator without arithmetic: a roofline has no place for it."""
        if op.flops <= 0 or op.time_s <= 0:
            return None
        by_role = {"offchip": op.offchip_bytes, "onchip": op.onchip_bytes}
        fastest: dict[str, tuple[float, str]] = {}  # level, or the fastest one where only the role's bytes are known
        for name, role, rate in roof.levels:
            key = name if op.levels else role
            fastest[key] = max(fastest.get(key, (0.0, "")), (rate, name))
        passing = {key: (op.levels or by_role).get(key, 0.0) / rate for key, (rate, _) in fastest.items() if rate > 0}
        level = max(passing, key=lambda key: passing[key], default="")
        edge = EDGE * roof.peak_flops_per_s / min((rate for *_, rate in roof.levels if rate > 0), default=1.0)
        size, rate = (op.levels or by_role).get(level, 0.0), streams * op.rate
        if size * edge <= op.flops:
            return cls(op, edge, rate, "")
        return cls(op, op.flops / size, min(rate, op.flops / passing[level]), fastest[level][1])


def points(report: Report) -> list[RooflinePoint]:
    """Operators of the device whose roofs are drawn: the one that spends most of the time."""
    times = totals((op.device, op.time_s) for op in report.ops)
    busiest = max(times, key=lambda device: times[device], default="")
    dots = (RooflinePoint.of(op, report.scenario.streams, report.roofline) for op in report.ops if op.device == busiest)
    return [p for p in dots if p]


def _operators(operators: list[RooflinePoint], unit: str, dark: bool) -> Trace:
    slowest = max((p.op.time_s for p in operators), default=1.0)
    says = [
        hover(
            p.op.name,
            p.op.phase,
            f"{fmt.si(p.rate, f'{unit}/s')}, {fmt.percent(p.op.peak_used)} of peak",
            f"{'' if p.level else 'above '}{fmt.si(p.intensity, f'{unit}/B')} of what passes "
            f"{level_name(p.level) if p.level else 'any roof drawn'}",
            f"limited by {RESOURCE_LABELS[p.op.bound].lower()}",
        )
        for p in operators
    ]
    sizes = [8 + 9 * math.sqrt(p.op.time_s / slowest) for p in operators]
    xs, ys, bounds = [p.intensity for p in operators], [p.rate for p in operators], [p.op.bound for p in operators]
    hues, symbols = [PALETTE[bound][dark] for bound in bounds], [MARKERS[bound] for bound in bounds]
    return points_at(xs, ys, hues, says, symbol=symbols, size=sizes, customdata=[p.op.name for p in operators])


def roofline(report: Report, dark: bool, baseline: Report | None = None, width: float = 400.0) -> Figure:
    """Roofs of one device and its operators: size is time, shape and hue are what each is limited by.

    `width` is the plot area labels are laid out for. [px]
    An operator stands at its intensity against the level whose roof is the lowest over it. Hollow points are those of
    the baseline.
    A bound (the roofs) beside an estimate (the points).
    """
    roof = report.roofline
    operators, unit, peak = points(report), fmt.work(roof.format), roof.peak_flops_per_s
    hollow = points(baseline) if baseline else []
    xs = [p.intensity for p in operators + hollow] + [peak / level[2] for level in roof.levels if level[2] > 0]
    ys = [p.rate for p in operators + hollow] + [peak]
    plot = Plot((min(xs, default=0.1) / 8, max(xs, default=100.0) * 6), (min(ys) / 3, max(ys) * 4), width, 220.0)
    for p in operators:
        plot.mark(p.intensity, p.rate)
    levels = [Level(level_name(name), rate, role == "offchip") for name, role, rate in roof.levels if rate > 0]
    draw_roofs(plot, peak, f"{LABELS.get(roof.format, roof.format)} peak", levels, unit)
    if hollow:
        says = [hover(p.op.name, "baseline", fmt.si(p.rate, f"{unit}/s")) for p in hollow]
        open_ = [f"{MARKERS[p.op.bound]}-open" for p in hollow]
        xs, ys = [p.intensity for p in hollow], [p.rate for p in hollow]
        plot.data.append(points_at(xs, ys, NEUTRAL, says, symbol=open_))
    by_name: dict[str, RooflinePoint] = {}
    for p in sorted(operators, key=lambda p: -p.op.time_s):
        by_name.setdefault(p.op.name, p)  # the same operator of two phases is named once
    for name, p in list(by_name.items())[:3]:
        plot.label(p.intensity, p.rate, name, BESIDE)
    x = log_axis(*plot.x, f"Arithmetic intensity ({unit}/B)") | {"showgrid": False}
    y = log_axis(*plot.y, f"Performance ({unit}/s{', all streams' if report.scenario.streams > 1 else ''})")
    return style([*plot.data, _operators(operators, unit, dark)], x, y, 300, dark, notes=plot.notes)
