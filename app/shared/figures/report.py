"""Reports and tables as figures. Pure: SI in, figures out."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from app.shared import formats as fmt
from app.shared.figures.drawing import Bar, area, bars, hover, limit, line, note, points, ring, rows
from app.shared.figures.labels import BESIDE, Plot
from app.shared.figures.style import (
    CLOUD,
    INK,
    NEUTRAL,
    PALETTE,
    PICK,
    RESOURCE_LABELS,
    SHADE,
    Figure,
    level_name,
    log_axis,
    names_axis,
    rows_axis,
    share_axis,
    span,
    style,
    two_lines,
)
from engine.cost.rows import LinkRow, MemoryRow
from engine.devices.common.contract import Span

_FAR = 8.0  # predicted over published, either way: beyond it a claim is drawn at the edge
_ROLES = {"validation": "", "calibration": "-open"}  # and the end of their symbols
_RATIOS = {0.125: "−88%", 0.25: "−75%", 0.5: "−50%", 1.0: "0", 2.0: "+100%", 4.0: "+300%", 8.0: "+700%"}


def breakdown(parts: dict[str, float], relative_band: float | None, per: str, dark: bool) -> Figure:
    """Where the time goes: one bar a resource, each from where the last one ended, and the total with its band.

    Parameters
    ----------
    parts : resource -> time. [s]
    relative_band : half width of the band on the total, as a share of it; None: none known. [-]
    per : what one time belongs to, e.g. "output token".
    """
    total = sum(parts.values())
    scale = fmt.scale([total], "s")
    marks, labels, start = [], [], 0.0
    for at, (name, time) in enumerate(sorted(((n, s) for n, s in parts.items() if s > 0), key=lambda item: -item[1])):
        share = fmt.percent(time / total)
        labels.append(f"{RESOURCE_LABELS[name]}  <b>{scale.text(time)}</b> · {share}")
        says = hover(RESOURCE_LABELS[name], f"{fmt.seconds(time)}, {share}")
        marks.append(Bar(at, scale(time), PALETTE[name][dark], says, scale(start)))
        start += time
    wide, band = relative_band or 0.0, fmt.band(relative_band)
    ends = (scale(total * wide / (1 + wide)), scale(total * wide)) if relative_band is not None else None
    says = hover("Total", f"{fmt.seconds(total)} {band}")
    labels.append(f"Total  <b>{scale.text(total)}</b> · {band}")
    marks.append(Bar(len(marks), scale(total), NEUTRAL, says, band=ends))
    x = span(f"Time per {per} ({scale.unit})", 0, scale(total) * (1 + wide) * 1.05 or 1, grid=True)
    return rows(labels, marks, x, dark, height=300)


def fits(levels: Sequence[MemoryRow], dark: bool) -> Figure:
    """What fits where: a bar per memory level against its capacity, hatched where it does not fit."""
    devices = {row.device for row in levels}
    alike = next((at for at, (a, *b) in enumerate(zip(*devices)) if set(b) - {a}), 0)
    marks, labels = [], []
    for at, row in enumerate(levels):
        percent, amount = 100 * row.need_bytes / row.capacity_bytes, fmt.of(row.need_bytes, row.capacity_bytes)
        device = row.device[alike:].strip(" ()") if alike else row.device
        name = level_name(row.level) + (f", {device}" if len(devices) > 1 else "")
        labels.append(two_lines(name, amount))
        streams = " (a cache: the rest streams through)" if not row.required and percent > 100 else ""
        size, says = min(percent, 100.0) if row.fits else percent, hover(name, f"{amount}{streams}", row.holds)
        marks.append(Bar(at, size, PALETTE[row.role][dark], says, hatch="" if row.fits else "/"))
    x = share_axis("Share of capacity, per device", max(100.0, *(bar.length for bar in marks)))
    if all(row.fits for row in levels):
        return rows(labels, marks, x, dark, with_track=True)
    edge = [line([100, 100], [-0.5, len(levels) - 0.5], PICK[dark], width=2)]
    words = [note(100, len(levels) - 0.5, "capacity", "left middle", (5, 0))]
    return rows(labels, marks, x, dark, with_track=True, extra=edge, notes=words)


class Share(NamedTuple):
    """A share of a whole, 0 to 1, with what to say of it; `weak` is hatched; a hue of its own stands out."""

    name: str
    share: float
    says: str
    weak: bool = False
    hue: str | None = None


def shares(use: Sequence[Share], hue: str, title: str, dark: bool, min_height: int = 180) -> Figure:
    """Bars from 0 to 100%."""
    labels = [two_lines(name, fmt.percent(share)) for name, share, *_ in use]
    marks = [
        Bar(at, 100 * s.share, s.hue or hue, hover(s.name, s.says), hatch="/" if s.weak else "")
        for at, s in enumerate(use)
    ]
    return rows(labels, marks, share_axis(title), dark, with_track=True, min_height=min_height)


def links(wires: Sequence[LinkRow], dark: bool) -> Figure:
    """How busy each wire is at the reported throughput."""
    uses = []
    for row in wires:
        traffic = f"{fmt.si(row.bytes_per_request, 'B')} per request at {fmt.si(row.bandwidth, 'B/s')}"
        busy = f"{fmt.seconds(row.time_s)}, {fmt.percent(row.utilisation)} busy"
        uses.append(Share(row.name, row.utilisation, f"{traffic}<br>{busy}"))
    return shares(uses, PALETTE["links"][dark], "Share of usable bandwidth", dark, 220)


def timeline(spans: Sequence[Span], dark: bool) -> Figure:
    """A Gantt chart: one row a unit, one bar an operation, hue by resource."""
    units = list(dict.fromkeys(span.unit for span in spans))
    end = max((s.start_s + s.duration_s for s in spans), default=1.0)
    scale = fmt.scale([end], "s")
    marks = []
    for s in spans:
        says = hover(s.name, f"{s.unit}: {fmt.seconds(s.duration_s)} from {fmt.seconds(s.start_s)}")
        text, hue = s.name if s.duration_s > 0.05 * end else "", PALETTE[s.resource][dark]
        marks.append(Bar(units.index(s.unit), scale(s.duration_s), hue, says, scale(s.start_s), text=text))
    x = span(f"Time ({scale.unit})", 0, scale(end) * 1.02)
    return style(bars(marks, dark, outline=0.6), x, rows_axis(units, 1), 64 + 34 * max(len(units), 2), dark)


def knob(values: Sequence[str], metric: Sequence[float], now: int | None, axis: str, unit: str, dark: bool) -> Figure:
    """One metric along one knob, the current point ringed."""
    scale = fmt.scale(metric, unit)
    ys = [scale(m) for m in metric]
    says = [hover(f"{axis} {v}", fmt.si(m, unit)) for v, m in zip(values, metric)]
    data = [line(range(len(values)), ys, INK[dark], says, size=7)]
    low, high = min(ys, default=1.0), max(ys, default=1.0)
    log, title = low > 0 and high > 30 * low, f"Throughput ({scale.unit})"
    y = log_axis(low / 2, high * 3, title) if log else span(title, 0, high * 1.22, grid=True, nticks=5)
    notes = []
    if now is not None:
        data.append(ring(now, ys[now], dark))
        notes.append(note(now, math.log10(ys[now]) if log else ys[now], "now", shift=(0, 17)))
    step = math.ceil(len(values) / 9)  # fewer labels where many would touch, always the current one
    ticks = [value if (at - (now or 0)) % step == 0 else "" for at, value in enumerate(values)]
    return style(data, names_axis(ticks, 0.35, title=axis), y, 220, dark, notes=notes)


def prediction_errors(
    claims: Sequence[dict[str, Any]],
    dark: bool,
    label_ids: Sequence[str] = (),
    width: float = 560.0,
    title: str = "Published (each in its own unit)",
) -> Figure:
    """Error of each prediction over what was published, on log axes: filled is validation, hollow is calibration, grey
    is neither; the band is within 10%.

    `claims` are rows of `validate` whose `published` and `predicted` are positive; those of `label_ids` carry their id
    where there is room. `width` is the plot area labels are laid out for [px], `title` the horizontal axis's. An error
    of more than `_FAR` times either way is a triangle at the edge.
    """
    verb = title.split(maxsplit=1)[0].strip(",").lower()
    values = [row["published"] for row in claims]
    low, high = min(values, default=0.1) / 3, max(values, default=10.0) * 3
    ratios = {row["id"]: row["predicted"] / row["published"] for row in claims}
    far = min(max([2.0, *ratios.values(), *(1 / ratio for ratio in ratios.values())]), _FAR)
    marks = {id: min(max(ratio, 1 / far), far) for id, ratio in ratios.items()}
    data = area([low, high], [1 / 1.1] * 2, [1.1] * 2, SHADE)
    data.append(line([low, high], [1.0, 1.0], NEUTRAL, width=1.4))
    order = sorted(claims, key=lambda row: (row["role"] in _ROLES, not row["within"]))  # the last drawn lie on top
    says, symbols, colours = [], [], []
    for row in order:
        measured = f"{verb} {fmt.digits4(row['published'])} {row['unit'] or ''}"
        predicted = f"predicted {fmt.digits4(row['predicted'])}, {fmt.deviation(row['error'])}"
        says.append(hover(row["id"], str(row.get("evidence", row["role"])), measured, predicted))
        ratio, within = ratios[row["id"]], row["within"]
        edge = "triangle-up" if ratio > 1 else "triangle-down"
        symbol = edge if marks[row["id"]] != ratio else "circle" if within else "diamond"
        symbols.append(symbol + _ROLES.get(row["role"], ""))
        colours.append(PICK[dark] if not within else INK[dark] if row["role"] in _ROLES else CLOUD[dark])
    xs, ys = [row["published"] for row in order], [marks[row["id"]] for row in order]
    sizes, ids = [7 if row["within"] else 9 for row in order], [row["id"] for row in order]
    data.append(points(xs, ys, colours, says, customdata=ids, symbol=symbols, size=sizes))
    ends = (1 / (1.3 * far), 1.3 * far)
    plot = Plot((low, high), ends, width, 300.0)
    for row in claims:
        plot.mark(row["published"], marks[row["id"]])
    for row in claims:
        if row["id"] in label_ids:
            plot.label(row["published"], marks[row["id"]], row["id"], BESIDE)
    x = log_axis(low, high, title) | {"showgrid": False}
    ticks = {"tickvals": list(_RATIOS), "ticktext": list(_RATIOS.values())}
    y = log_axis(*ends, "Error of the prediction") | ticks
    return style(data, x, y, 380, dark, notes=plot.notes)


def document_figure(labels: Sequence[str], claims: Sequence[dict[str, Any]], unit: str, dark: bool) -> Figure:
    """What a document prints in a figure or table beside what is predicted, a row for each claim, on a log axis."""
    values = [row[key] for row in claims for key in ("predicted", "published")]
    rivals = []
    for name in ("Predicted", "Published"):
        xs = [row[name.lower()] for row in claims]
        says = [hover(row["id"], f"{name} {fmt.digits4(value)} {unit}") for row, value in zip(claims, xs, strict=True)]
        rivals.append((name, xs, says))
    names = [two_lines(label, f"{fmt.deviation(row['error'])}") for label, row in zip(labels, claims, strict=True)]
    return against(
        names, rivals, log_axis(min(values) / 1.5, max(values) * 1.5, f"Value ({unit})" if unit else "Ratio"), dark
    )


def against(
    labels: Sequence[str],
    rivals: Sequence[tuple[str, Sequence[float], Sequence[str]]],
    x: dict[str, Any],
    dark: bool,
    start: float | None = None,
) -> Figure:
    """Rows of points: the first rival's filled, the second's hollow, as (name, values, what each says).

    `start` is ruled.
    """
    looks = ((INK[dark], "circle"), (NEUTRAL, "diamond-open"))
    data = [
        points(values, range(len(values)), colour, says, symbol=symbol, size=11, edge=2, name=name)
        for (name, values, says), (colour, symbol) in zip(rivals, looks, strict=True)
    ]
    data += [limit(start, len(labels))] if start is not None else []
    return rows(labels, [], x, dark, min_height=56, extra=data, legend=True)
