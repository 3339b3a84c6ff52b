"""Figures of the Kernels page: a measured point under this host's roofs, and the runs it comes from. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from app.shared import formats as fmt
from app.shared.figures.labels import BESIDE, Plot
from app.shared.figures.roofs import Level, draw_roofs
from app.shared.figures.style import INK, NEUTRAL, PICK, log_axis, row_height, rows_axis, rule, style, two_lines
from app.views.kernels import texts

if TYPE_CHECKING:
    from engine.lab.host.measure.fused import FusedRun

_LINE = {"type": "scatter", "mode": "lines", "hoverinfo": "skip"}


@dataclass(frozen=True)
class KernelPoint:
    """A point to draw: its rate [FLOP/s] and whether it was measured, predicted or a library's."""

    label: str
    rate: float
    kind: str  # measured, predicted, library


_SYMBOL = {"measured": "circle", "predicted": "diamond-open", "library": "square-open"}


def host_roofline(
    peak: float,
    peak_name: str,
    levels: Sequence[Level],
    intensity: float,
    spots: Sequence[KernelPoint],
    dark: bool,
    width: float = 400.0,
) -> go.Figure:
    """Roofs of this host (a bound, measured) and one kernel under them: filled is measured, hollow is not ours.

    `intensity` is the work over the bytes touched once [FLOP/B]; `width` is the plot area labels are laid out for [px].
    """
    rates = [s.rate for s in spots] + [peak]
    ridges = [peak / level.bandwidth for level in levels]
    plot = Plot(
        (min([intensity, *ridges]) / 8, max([intensity, *ridges]) * 8),
        (min(rates) / 8, max(rates) * 6),
        width,
        250.0,
        240.0,
    )
    for spot in spots:
        plot.mark(intensity, spot.rate)
    draw_roofs(plot, peak, peak_name, levels)
    for spot in sorted(spots, key=lambda one: list(_SYMBOL).index(one.kind)):
        plot.label(intensity, spot.rate, spot.label, BESIDE)
    for spot in spots:
        colour = PICK[dark] if spot.kind == "measured" else INK[dark]
        plot.data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [intensity],
                "y": [spot.rate],
                "marker": {"symbol": _SYMBOL[spot.kind], "size": 12, "color": colour, "line": {"width": 2}},
                "hovertemplate": f"<b>{spot.label}</b>, {spot.kind}<br>{fmt.si(spot.rate, 'FLOP/s')}"
                f"<br>{fmt.si(intensity, 'FLOP/B')}<extra></extra>",
            }
        )
    x = log_axis(*plot.x, "Arithmetic intensity (FLOP/B)") | {"showgrid": False}
    return style(plot.data, x, log_axis(*plot.y, "Performance (FLOP/s)"), 330, dark, notes=plot.notes)


def runs(samples: Sequence[float], quartiles: tuple[float, float], predicted: float | None, dark: bool) -> go.Figure:
    """Each run's time in order, the middle half of them shaded, the prediction dashed. [s]"""
    shown = [*samples, *([predicted] if predicted is not None and predicted < 4 * max(samples) else [])]
    scale = fmt.scale(shown, "s")
    last = len(samples)
    low, high = (scale(q) for q in quartiles)
    ends = [0.5, last + 0.5]
    flat: dict[str, Any] = _LINE | {"x": ends, "line": {"width": 0}}
    data: list[dict[str, Any]] = [
        flat | {"y": [low, low]},
        flat | {"y": [high, high], "fill": "tonexty", "fillcolor": "rgba(120,132,148,0.2)"},
        {
            "type": "scatter",
            "mode": "markers",
            "x": list(range(1, last + 1)),
            "y": [scale(s) for s in samples],
            "marker": {"color": INK[dark], "size": 8},
            "hovertemplate": [f"run {i}<br>{fmt.seconds(s)}<extra></extra>" for i, s in enumerate(samples, 1)],
        },
    ]
    notes = []
    if len(shown) > last and predicted is not None:
        line = {"color": NEUTRAL, "width": 1.6, "dash": "dash"}
        data.append(_LINE | {"x": ends, "y": [scale(predicted)] * 2, "line": line})
        notes.append(
            {
                "x": last + 0.5,
                "y": 0,
                "text": f"dashed: predicted {fmt.seconds(predicted)}",
                "xanchor": "right",
                "yanchor": "bottom",
            }
        )
    x = {"title": "Run", "range": ends, "showgrid": False, "nticks": 8}
    y = {"title": f"Time ({scale.unit})", "range": [0, 1.25 * max(scale(s) for s in shown)], "nticks": 5}
    return style(data, x, y, 330, dark, notes=notes)


def measured(runs: Sequence[FusedRun], dark: bool) -> go.Figure:
    """Gain of blocks depth first: a filled dot measured, an open diamond predicted, and where neither way is faster."""
    data, labels = [], []
    for at, run in enumerate(runs):
        labels.append(two_lines(run.title, fmt.times(run.gain)))
        for value, word, symbol, colour in (
            (run.predicted, "predicted", "diamond-open", NEUTRAL),
            (run.gain, "measured", "circle", INK[dark]),
        ):
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": [value],
                    "y": [at],
                    "name": word,
                    "showlegend": at == 0,
                    "marker": {"symbol": symbol, "size": 11, "color": colour, "line": {"width": 2, "color": colour}},
                    "hovertemplate": f"<b>{run.title}</b><br>{word} {fmt.times(value)}<extra></extra>",
                }
            )
    top = max(max(run.gain, run.predicted) for run in runs)
    data.append(rule([1, 1], [-0.6, len(runs) - 0.4], NEUTRAL))
    x = {"title": texts.GAIN_AXIS, "range": [0, top * 1.08], "showgrid": False}
    fig = style(data, x, rows_axis(labels), 90 + row_height(labels) * len(labels), dark)
    fig.update_layout(showlegend=True, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0})
    return fig
