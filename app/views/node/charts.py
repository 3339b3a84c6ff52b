"""A node drawn: hosts, switch and cards with what crosses each link; the waits of a pool. Pure."""

import textwrap
from collections.abc import Sequence
from itertools import pairwise

from app.shared import formats as fmt
from app.shared.figures.drawing import Trace, hover, line, note, rule
from app.shared.figures.style import INK, NEUTRAL, PALETTE, PICK, TRACK, Figure, span, style
from app.views.node import texts
from engine.analyses.node import at_work
from engine.analyses.node.at_work import LinkLoad
from engine.cost.report import Report
from engine.cost.rows import LinkRow
from engine.resolve.bind import bind

_WIDTHS = (1.5, 9.0)  # px of an idle and of a saturated link


def _box(x: float, y: float, text: str, dark: bool) -> Trace:
    frame: Trace = {"bgcolor": TRACK[dark], "bordercolor": NEUTRAL, "borderwidth": 1, "borderpad": 6}
    return note(x, y, text, align="center", **frame)


def _line(ends: tuple[float, float, float, float], row: LinkRow | None, dark: bool) -> Trace:
    """A link: the wider, the busier; dotted where nothing crosses it."""
    utilisation, says = 0.0, "idle<extra></extra>"
    look: Trace = {"colour": NEUTRAL, "dash": "dot"}
    if row:
        utilisation = row.utilisation
        says = texts.WIRE_HOVER.format(
            name=row.name,
            bytes_per_request=fmt.si(row.bytes_per_request, "B"),
            used=fmt.percent(utilisation),
            bandwidth=fmt.si(row.bandwidth, "B/s"),
            time=fmt.seconds(row.time_s),
        )
        look = {"colour": PALETTE["links"][dark]} if row.bytes_per_request > 0 else look
    x0, y0, x1, y1 = ends
    width = _WIDTHS[0] + (_WIDTHS[1] - _WIDTHS[0]) * min(1.0, utilisation)
    return line([x0, (x0 + x1) / 2, x1], [y0, (y0 + y1) / 2, y1], says=says, width=width, **look)


def _ways(row: LinkRow, loads: Sequence[LinkLoad], gap: str) -> str:
    """Bytes and use of a link, each direction on a line: to the cards, and back; both at once where not told apart."""
    lines = []
    for way, arrow in (("in", "→"), ("out", "←")):
        load = next((load for load in loads if (load.role, load.way) == (row.role, way)), None)
        if load is not None:
            busy = fmt.percent(load.utilisation)
            lines.append(f"{arrow} <b>{fmt.si(load.bytes_per_request, 'B')}</b> {busy} busy")
    text = f"<b>{fmt.si(row.bytes_per_request, 'B')}</b>{gap}{fmt.percent(row.utilisation)} busy"
    return "<br>".join(lines) or text


def topology(report: Report, dark: bool) -> Figure:
    """Network, host, switch and devices from left to right; a link is the wider, the busier."""
    bound, loads, count = bind(report.scenario), at_work.links(report.scenario), report.scenario.devices
    links = {row.role: row for row in report.links}
    names = {"network": "Network" if bound.wire("network") else None, "host": bound.host and bound.host.name}
    names |= {"switch": "Switch" if bound.wire("switch") or bound.wire("peer") else None}
    middle, top = (count - 1) / 2, float(max(count, 2))
    at = {"network": 0.0, "host": 1.05, "switch": 2.2, "device": 2.95}
    data, notes = [], []
    chain = [part for part, name in names.items() if name]
    for left, right in pairwise(chain):
        role = "network" if left == "network" else "host"
        row = links.get(role)
        data.append(_line((at[left], middle, at[right], middle), row, dark))
        if row is not None:  # bytes and use above the middle of the link, its name below
            x = (at[left] + at[right]) / 2
            notes.append(note(x, middle, _ways(row, loads, "<br>"), "center bottom", (0, 16), align="center"))
            name = "<br>".join(textwrap.wrap(row.name, 13))
            notes.append(note(x, middle, name, "center top", (0, -14), align="center"))
    if chain:
        hub, row = at[chain[-1]], links.get("peer")
        data += [_line((hub, middle, at["device"], float(i)), row, dark) for i in range(count)]
        if row is not None:
            suffix = f", all {count} together" if count > 1 else ""
            text = f"{row.name}{suffix}<br>{_ways(row, loads, ' ')}"
            notes.append(note(hub - 0.1, top - 0.4, text, "center top", align="center"))
    notes += [_box(at[part], middle, f"<b>{names[part]}</b>", dark) for part in chain]
    notes += [_box(at["device"], float(i), f"<b>Card {i + 1}</b>", dark) for i in range(count)]
    level = next((level for level in bound.device.memory if level.role == "offchip"), bound.device.memory[0])
    memory = f"{fmt.si(level.capacity.si, 'B')} {level.name.upper()}"
    notes.append(note(at["device"], top - 0.4, memory, "center bottom", align="center"))
    first = at[chain[0]] if chain else at["device"]
    x, y = (
        {"range": ends, "showgrid": False, "tickvals": []}
        for ends in ([first - 0.3, at["device"] + 0.4], [-0.6, top + 0.1])
    )
    return style(data, x, y, 330, dark, notes=notes)


def waits(curve: Sequence[tuple[int, float]], now: int, dark: bool) -> Figure:
    """95th percentile from request to answer along the number of clients; a line marks the number chosen."""
    scale = fmt.scale([seconds for _, seconds in curve], "s")
    ys = [scale(seconds) for _, seconds in curve]
    says = [hover(fmt.counted(count, "client"), fmt.seconds(seconds)) for count, seconds in curve]
    data = [line([count for count, _ in curve], ys, INK[dark], says, size=6)]
    last = curve[-1][0]
    if now <= last:
        data.append(rule([now, now], [0, 1.1 * max(ys)], PICK[dark]))
    y = span(f"95th percentile ({scale.unit})", 0, 1.15 * max(ys), grid=True, nticks=5)
    return style(data, span("Clients", 0, 1.04 * last, nticks=8), y, 260, dark)
