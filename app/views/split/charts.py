"""Figures of the Split page: the parts of every cut's latency, execution points, forwarding, chains. Pure."""

from collections.abc import Sequence

from app.shared import formats as fmt
from app.shared.figures.drawing import Bar, Trace, hover, limit, line, note, rows
from app.shared.figures.style import CLOUD, INK, NEUTRAL, PALETTE, PICK, Figure, span, style, two_lines
from app.views.split import texts
from engine.analyses.cuts import SplitPoint
from engine.analyses.depth_first import DepthFirstComparison
from engine.analyses.edge import Forwarding
from engine.analyses.placement import Placement

_PARTS = (
    ("first device", "first_s", "compute", ""),
    ("wire", "link_s", "links", ""),
    ("read into caches", "handover_s", "offchip", ""),
    ("second device", "second_s", "compute", "/"),
    ("third device", "third_s", "compute", "x"),
    ("in and out", "outside_s", "host", ""),
)
_CHAINS = 8


def cuts(
    points: Sequence[SplitPoint], best: SplitPoint, now: SplitPoint | None, dark: bool, height: int = 360
) -> Figure:
    """Latency of every cut as a stack of its parts; executors are told by hatches, the best and present are marked."""
    scale = fmt.scale([max(p.latency_s for p in points)], "s")
    data = []
    for name, field, resource, shape in _PARTS:
        values = [getattr(p, field) for p in points]
        says = [
            hover(
                p.place,
                f"{name}: {fmt.seconds(v)}",
                f"{fmt.seconds(p.latency_s)} in all, {fmt.si(p.crossing_bytes, 'B')} cross",
            )
            for v, p in zip(values, points, strict=True)
        ]
        hatch = {"shape": shape, "size": 6, "solidity": 0.25, "fgcolor": INK[1 - dark], "fillmode": "overlay"}
        marker = {"color": PALETTE[resource][dark], "line": {"width": 0}, "pattern": hatch}
        ends = {"x": [p.at for p in points], "y": [scale(v) for v in values]}
        data += [{"type": "bar", "name": name, "marker": marker, "hovertemplate": says} | ends] if any(values) else []
    top = scale(max(p.latency_s for p in points))
    marks = [(best, f"best: {best.place}", PICK[dark], 1.12)]
    if now is not None and now.at != best.at:
        marks.append((now, "now", NEUTRAL, 1.06))
    notes = []
    for point, text, colour, high in marks:
        side = "right" if point.at > (points[0].at + points[-1].at) / 2 else "left"
        arrow: Trace = {"showarrow": True, "arrowhead": 2, "arrowcolor": colour, "axref": "x", "ayref": "y"}
        arrow |= {"ax": point.at, "ay": top * high}
        notes.append(note(point.at, scale(point.latency_s), text, f"{side} auto", **arrow))
    y = span(f"Latency ({scale.unit})", 0, top * 1.15, grid=True)
    x = {"title": texts.CUTS_AXIS, "showgrid": False}
    return style(data, x, y, height, dark, notes=notes, legend=True, barmode="stack", bargap=0.08)


def placements(places: Sequence[Placement], limit_s: float | None, dark: bool) -> Figure:
    """From frame to answer at each execution point: travel and compute."""
    end = max(p.latency_s for p in places)
    scale = fmt.scale([end], "s")
    marks, labels = [], []
    for at, p in enumerate(places):
        cut = f", cut after {p.after}" if p.after else ""
        labels.append(two_lines(f"{p.name}{cut}", fmt.seconds(p.latency_s)))
        for name, value, start, hue in (
            ("compute", p.compute_s, 0.0, "compute"),
            ("travel", p.travel_s, p.compute_s, "links"),
        ):
            says = hover(p.name, f"{name} {fmt.seconds(value)}")
            marks.append(Bar(at, scale(value), PALETTE[hue][dark], says, scale(start), part=name))
    extra, notes = [], []
    if limit_s is not None and limit_s < 2 * end:
        end = max(end, limit_s)
        extra = [limit(scale(limit_s), len(places))]
        notes = [note(scale(limit_s), -0.6, "limit", "right bottom")]
    x = span(texts.PLACES_AXIS.format(unit=scale.unit), 0, scale(end) * 1.06)
    return rows(labels, marks, x, dark, min_height=56, extra=extra, notes=notes, legend=True)


def forwarding(forwardings: Sequence[Forwarding], dark: bool) -> Figure:
    """Traffic passed on against packet size, a line for each load of inference; that of full load is coloured."""
    data = []
    for at, f in enumerate(forwardings):
        look: Trace = {"width": 1.4, "dash": ("dot", "dash", "dashdot", "longdash")[at % 4]}
        if f.busy == 1.0:
            look = {"width": 2.4, "size": 6}
        name, rates = f"executors {f.busy:.0%} busy", [fmt.GIGABIT(rate) for rate in f.bytes_per_s]
        says = f"{name}<br>%{{x}} B: %{{y:.3g}} Gbit/s<extra></extra>"
        data.append(line(f.sizes, rates, PICK[dark] if f.busy == 1.0 else NEUTRAL, says, name=name, **look))
    top = fmt.GIGABIT(max(f.line_bytes_per_s for f in forwardings))
    x = span("Packet size (B)", 0, max(forwardings[0].sizes) * 1.02)
    return style(data, x, span("Forwarded (Gbit/s)", 0, top * 1.1, grid=True), 340, dark, legend=True)


def chains(comparison: DepthFirstComparison, batch: int, dark: bool) -> Figure:
    """Traffic of the largest chains breadth first (light) and depth first."""
    ranking = sorted(comparison.chains, key=lambda c: c.after.coef - c.before.coef)[:_CHAINS]
    largest = max(chain.moved_bytes(batch)[0] for chain in ranking)
    scale = fmt.scale([largest], "B")
    marks, labels = [], []
    for at, chain in enumerate(ranking):
        before, after = chain.moved_bytes(batch)
        labels.append(two_lines(f"{chain.ops[0]} to {chain.ops[-1]}", fmt.times(before / after)))
        says = texts.CHAIN_HOVER.format(
            ops=" → ".join(chain.ops)[:200],
            before=fmt.si(before, "B"),
            after=fmt.si(after, "B"),
            rows=chain.rows,
            channels=chain.channels,
            tile=fmt.si(chain.tile_bytes, "B"),
        )
        marks += [Bar(at, scale(before), CLOUD[dark], says), Bar(at, scale(after), PALETTE["offchip"][dark], says)]
    x = span(texts.CHAINS_AXIS.format(unit=scale.unit), 0, scale(largest) * 1.05)
    return rows(labels, marks, x, dark, min_height=60)
