"""Figures of the Kernels page: a measured point under this host's roofs, and the runs it comes from. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.shared import formats as fmt
from app.shared.figures.drawing import area, hover, note, points, rule
from app.shared.figures.labels import BESIDE, Plot
from app.shared.figures.report import against
from app.shared.figures.roofs import Level, draw_roofs
from app.shared.figures.style import INK, NEUTRAL, PICK, SHADE, Figure, log_axis, span, style, two_lines
from app.views.kernels import texts

if TYPE_CHECKING:
    from engine.lab.host.measure.fused import FusedRun


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
) -> Figure:
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
    for spot in sorted(spots, key=lambda item: list(_SYMBOL).index(item.kind)):
        plot.label(intensity, spot.rate, spot.label, BESIDE)
    for spot in spots:
        colour = PICK[dark] if spot.kind == "measured" else INK[dark]
        says = hover(spot.label, spot.kind, fmt.si(spot.rate, "FLOP/s"), fmt.si(intensity, "FLOP/B"))
        plot.data.append(points([intensity], [spot.rate], colour, says, symbol=_SYMBOL[spot.kind], size=12, edge=2))
    x = log_axis(*plot.x, "Arithmetic intensity (FLOP/B)") | {"showgrid": False}
    return style(plot.data, x, log_axis(*plot.y, "Performance (FLOP/s)"), 330, dark, notes=plot.notes)


def runs(samples: Sequence[float], quartiles: tuple[float, float], predicted: float | None, dark: bool) -> Figure:
    """Each run's time in order, the middle half of them shaded, the prediction dashed. [s]"""
    near = predicted is not None and predicted < 4 * max(samples)
    shown = [*samples, *([predicted] if near and predicted else [])]
    scale = fmt.scale(shown, "s")
    last, ends = len(samples), [0.5, len(samples) + 0.5]
    low, high = (scale(q) for q in quartiles)
    says = [hover(f"run {i}", fmt.seconds(s)) for i, s in enumerate(samples, 1)]
    data = area(ends, [low, low], [high, high], SHADE)
    data.append(points(range(1, last + 1), [scale(s) for s in samples], INK[dark], says))
    notes = []
    if len(shown) > last:
        data.append(rule(ends, [scale(shown[-1])] * 2, NEUTRAL, 1.6))
        notes.append(note(last + 0.5, 0, f"dashed: predicted {fmt.seconds(predicted)}", "right bottom"))
    y = span(f"Time ({scale.unit})", 0, 1.25 * max(map(scale, shown)), grid=True, nticks=5)
    return style(data, span("Run", *ends, nticks=8), y, 330, dark, notes=notes)


def measured(runs: Sequence[FusedRun], dark: bool) -> Figure:
    """Gain of blocks depth first: a filled dot measured, an open diamond predicted, and where neither way is faster."""
    rivals = [
        (word, gains, [hover(run.title, f"{word} {fmt.times(gain)}") for run, gain in zip(runs, gains)])
        for word, gains in (("measured", [r.gain for r in runs]), ("predicted", [r.predicted for r in runs]))
    ]
    x = span(texts.GAIN_AXIS, 0, max(max(gains) for _, gains, _ in rivals) * 1.08)
    return against([two_lines(run.title, fmt.times(run.gain)) for run in runs], rivals, x, dark, start=1)
