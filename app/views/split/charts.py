"""Figures of the Split page: the parts of every cut's latency, execution points, forwarding, chains. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from app.shared import formats as fmt
from app.shared.figures.style import INK, NEUTRAL, PALETTE, PICK, bar, row_height, rows_axis, rule, style, two_lines
from app.views.split import texts
from engine.analyses.camera import Placement
from engine.analyses.depth_first import DepthFirstComparison
from engine.analyses.edge import Forwarding
from engine.analyses.split import SplitPoint

_PARTS = (
    ("first device", "first_s", "compute", ""),
    ("wire", "link_s", "links", ""),
    ("read into caches", "handover_s", "offchip", ""),
    ("second device", "second_s", "compute", "/"),
    ("in and out", "outside_s", "host", ""),
)
_CHAINS = 8


def cuts(points: Sequence[SplitPoint], best: SplitPoint, dark: bool, height: int = 360) -> go.Figure:
    """Latency of every cut as a stack of its parts; the second executor is hatched, the best cut marked."""
    scale = fmt.scale([max(p.latency_s for p in points)], "s")
    data = []
    for name, field, resource, hatch in _PARTS:
        values = [getattr(p, field) for p in points]
        if not any(values):
            continue
        marker = {"color": PALETTE[resource][dark], "line": {"width": 0}}
        if hatch:
            marker["pattern"] = {
                "shape": hatch,
                "size": 6,
                "solidity": 0.25,
                "fgcolor": INK[1 - dark],
                "fillmode": "overlay",
            }
        data.append(
            {
                "type": "bar",
                "name": name,
                "x": [p.at for p in points],
                "y": [scale(v) for v in values],
                "marker": marker,
                "hovertemplate": [
                    f"<b>{p.place}</b><br>{name}: {fmt.seconds(v)}<br>{fmt.seconds(p.latency_s)} in all, "
                    f"{fmt.si(p.crossing_bytes, 'B')} cross<extra></extra>"
                    for v, p in zip(values, points, strict=True)
                ],
            }
        )
    top = scale(max(p.latency_s for p in points))
    text = f"best: {best.place}"
    note = {
        "x": best.at,
        "y": scale(best.latency_s),
        "text": text,
        "showarrow": True,
        "arrowhead": 2,
        "arrowcolor": PICK[dark],
        "ax": best.at,
        "ay": top * 1.09,
        "axref": "x",
        "ayref": "y",
    }
    left = best.at > (points[0].at + points[-1].at) / 2
    note |= {"xanchor": "right" if left else "left"}
    x = {"title": texts.CUTS_AXIS, "showgrid": False}
    y = {"title": f"Latency ({scale.unit})", "range": [0, top * 1.15]}
    fig = style(data, x, y, height, dark, notes=[note])
    fig.update_layout(
        barmode="stack",
        bargap=0.08,
        showlegend=True,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
    )
    return fig


def placements(cuts: Sequence[Placement], limit_s: float | None, dark: bool) -> go.Figure:
    """From frame to answer at each execution point: travel and compute."""
    scale = fmt.scale([max(p.latency_s for p in cuts)], "s")
    data, labels = [], []
    for at, p in enumerate(cuts):
        cut = f", cut after {p.after}" if p.after else ""
        labels.append(two_lines(f"{p.name}{cut}", fmt.seconds(p.latency_s)))
        for name, value, base, resource in (
            ("compute", p.compute_s, 0.0, "compute"),
            ("travel", p.travel_s, p.compute_s, "links"),
        ):
            hover = f"<b>{p.name}</b><br>{name} {fmt.seconds(value)}<extra></extra>"
            data.append(
                bar(
                    at,
                    scale(value),
                    base=[scale(base)],
                    name=name,
                    showlegend=at == 1,
                    marker={"color": PALETTE[resource][dark]},
                    hovertemplate=hover,
                )
            )
    end = max(p.latency_s for p in cuts)
    notes = []
    if limit_s is not None and limit_s < 2 * end:
        end = max(end, limit_s)
        data.append(rule([scale(limit_s)] * 2, [-0.6, len(cuts) - 0.4], NEUTRAL, 1.6))
        notes = [{"x": scale(limit_s), "y": -0.6, "text": "limit", "xanchor": "right", "yanchor": "bottom"}]
    x = {"title": texts.PLACES_AXIS.format(unit=scale.unit), "range": [0, scale(end) * 1.06], "showgrid": False}
    fig = style(data, x, rows_axis(labels), 90 + row_height(labels) * len(labels), dark, notes=notes)
    fig.update_layout(showlegend=True, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0})
    return fig


def forwarding(forwardings: Sequence[Forwarding], chosen: int, dark: bool) -> go.Figure:
    """Traffic passed on against packet size, a line for each number of executors; the chosen one is coloured."""
    data = []
    for at, one in enumerate(forwardings):
        mine = one.executors == chosen
        line = {
            "color": PICK[dark] if mine else NEUTRAL,
            "width": 2.4 if mine else 1.4,
            "dash": "solid" if mine else ("dot", "dash", "dashdot")[at % 3],
        }
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers" if mine else "lines",
                "name": f"{one.executors} executors",
                "x": list(one.sizes),
                "y": [fmt.GIGABIT(rate) for rate in one.bytes_per_s],
                "line": line,
                "hovertemplate": f"{one.executors} executors<br>%{{x}} B: %{{y:.3g}} Gbit/s<extra></extra>",
            }
        )
    top = fmt.GIGABIT(max(one.line_bytes_per_s for one in forwardings))
    x = {"title": "Packet size (B)", "range": [0, max(forwardings[0].sizes) * 1.02], "showgrid": False}
    fig = style(data, x, {"title": "Forwarded (Gbit/s)", "range": [0, top * 1.1]}, 340, dark)
    fig.update_layout(showlegend=True, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0})
    return fig


def chains(comparison: DepthFirstComparison, batch: int, dark: bool) -> go.Figure:
    """Traffic of the largest chains breadth first (light) and depth first."""
    ranked = sorted(comparison.chains, key=lambda c: c.after.coef - c.before.coef)[:_CHAINS]
    most = max(chain.moved_bytes(batch)[0] for chain in ranked)
    scale = fmt.scale([most], "B")
    data, labels = [], []
    for at, chain in enumerate(ranked):
        before, after = chain.moved_bytes(batch)
        labels.append(two_lines(f"{chain.ops[0]} to {chain.ops[-1]}", fmt.times(before / after)))
        hover = texts.CHAIN_HOVER.format(
            ops=" → ".join(chain.ops)[:200],
            before=fmt.si(before, "B"),
            after=fmt.si(after, "B"),
            rows=chain.rows,
            channels=chain.channels,
            tile=fmt.si(chain.tile_bytes, "B"),
        )
        data.append(bar(at, scale(before), marker={"color": NEUTRAL, "opacity": 0.4}, hovertemplate=hover))
        data.append(bar(at, scale(after), marker={"color": PALETTE["offchip"][dark]}, hovertemplate=hover))
    top = scale(most)
    x = {"title": texts.CHAINS_AXIS.format(unit=scale.unit), "range": [0, top * 1.05], "showgrid": False}
    return style(data, x, rows_axis(labels), 60 + row_height(labels) * len(labels), dark)
