"""A node drawn: hosts, switch and cards with what crosses each link. Pure."""

import textwrap
from dataclasses import dataclass, field
from itertools import pairwise

from app.shared import formats as fmt
from app.shared.figures.drawing import Trace, line, note
from app.shared.figures.style import (
    NEUTRAL,
    PALETTE,
    TRACK,
    Figure,
    style,
)
from app.views.node import texts
from engine.analyses.node.at_work import LinkLoad
from engine.cost.report import LinkRow

_WIDTHS = (1.5, 9.0)  # px of an idle and of a saturated link


@dataclass(frozen=True)
class Topology:
    """What is drawn: names of the parts, and the links between them by role (None where there is none)."""

    network: str | None
    host: str | None
    switch: str | None
    device: str
    memory: str  # of one device
    count: int
    links: dict[str, LinkRow]
    loads: dict[tuple[str, str], LinkLoad] = field(default_factory=dict)  # by role and direction


def _box(x: float, y: float, text: str, dark: bool) -> Trace:
    """A part as a framed label."""
    frame: Trace = {"bgcolor": TRACK[dark], "bordercolor": NEUTRAL, "borderwidth": 1, "borderpad": 6}
    return note(x, y, text, align="center", **frame)


def _line(ends: tuple[float, float, float, float], row: LinkRow | None, dark: bool) -> Trace:
    """A link: the wider, the busier; dotted where nothing crosses it."""
    used, says = 0.0, "idle<extra></extra>"
    look: Trace = {"colour": NEUTRAL, "dash": "dot"}
    if row:
        used = row.utilisation
        says = texts.WIRE_HOVER.format(
            name=row.name,
            bytes_per_request=fmt.si(row.bytes_per_request, "B"),
            used=fmt.percent(used),
            bandwidth=fmt.si(row.bandwidth, "B/s"),
            time=fmt.seconds(row.time_s),
        )
        look = {"colour": PALETTE["links"][dark]} if row.bytes_per_request > 0 else look
    x0, y0, x1, y1 = ends
    width = _WIDTHS[0] + (_WIDTHS[1] - _WIDTHS[0]) * min(1.0, used)
    return line([x0, (x0 + x1) / 2, x1], [y0, (y0 + y1) / 2, y1], says=says, width=width, **look)


def _ways(topology: Topology, role: str, gap: str) -> str:
    """Bytes and use of a link, each direction on a line: to the cards, and back; both at once where not told apart."""
    lines = []
    for way, arrow in (("in", "→"), ("out", "←")):
        load = topology.loads.get((role, way))
        if load is not None and load.bytes_per_request > 0:
            used = fmt.percent(min(1.0, load.utilisation))
            lines.append(f"{arrow} <b>{fmt.si(load.bytes_per_request, 'B')}</b> {used} busy")
    row = topology.links[role]
    text = f"<b>{fmt.si(row.bytes_per_request, 'B')}</b>{gap}{fmt.percent(row.utilisation)} busy"
    return "<br>".join(lines) or text


def topology(topology: Topology, dark: bool, height: int = 330) -> Figure:
    """Network, host, switch and devices from left to right; a link is the wider, the busier."""
    middle, top = (topology.count - 1) / 2, float(max(topology.count, 2))
    at = {"network": 0.0, "host": 1.05, "switch": 2.2, "device": 2.95}
    data, notes = [], []
    chain = [name for name in ("network", "host", "switch") if getattr(topology, name)]
    for left, right in pairwise(chain):
        role = "network" if left == "network" else "host"
        row = topology.links.get(role)
        data.append(_line((at[left], middle, at[right], middle), row, dark))
        if row is not None:  # bytes and use above the middle of the link, its name below
            x = (at[left] + at[right]) / 2
            notes.append(note(x, middle, _ways(topology, role, "<br>"), "center bottom", (0, 16), align="center"))
            name = "<br>".join(textwrap.wrap(row.name, 13))
            notes.append(note(x, middle, name, "center top", (0, -14), align="center"))
    if chain:
        hub, row = at[chain[-1]], topology.links.get("peer")
        data += [_line((hub, middle, at["device"], float(i)), row, dark) for i in range(topology.count)]
        if row is not None:
            many = f", all {topology.count} together" if topology.count > 1 else ""
            text = f"{row.name}{many}<br>{_ways(topology, 'peer', ' ')}"
            notes.append(note(hub - 0.1, top - 0.4, text, "center top", align="center"))
    notes += [_box(at[name], middle, f"<b>{getattr(topology, name)}</b>", dark) for name in chain]
    notes += [_box(at["device"], float(i), f"<b>Card {i + 1}</b>", dark) for i in range(topology.count)]
    notes.append(note(at["device"], top - 0.4, topology.memory, "center bottom", align="center"))
    first = at[chain[0]] if chain else at["device"]
    x, y = (
        {"range": ends, "showgrid": False, "tickvals": []}
        for ends in ([first - 0.3, at["device"] + 0.4], [-0.6, top + 0.1])
    )
    return style(data, x, y, height, dark, notes=notes)
