"""Figures of the Kernels page: a measured point under this host's roofs. Pure."""

from collections.abc import Mapping, Sequence

from app.shared import formats as fmt
from app.shared.figures.drawing import hover, points
from app.shared.figures.labels import BESIDE, Plot
from app.shared.figures.report import against
from app.shared.figures.roofline import Level, draw_roofs
from app.shared.figures.style import INK, PICK, Figure, log_axis, span, style, two_lines
from app.views.kernels import texts
from engine.lab.host.measure.fused import FusedRun

_SYMBOLS = {"measured": "circle", "predicted": "diamond-open"}  # and of a library


def host_roofline(
    peak: float,
    peak_name: str,
    levels: Sequence[Level],
    intensity: float,
    spots: Mapping[str, float],
    dark: bool,
    width: float = 400.0,
) -> Figure:
    """Roofs of this host (a bound, measured) and one kernel under them: filled is measured, hollow is not ours.

    `intensity` is the work over the bytes touched once [FLOP/B], `spots` are rates by whose they are: measured,
    predicted, a library's [FLOP/s]; `width` is the plot area labels are laid out for [px].
    """
    rates = [*spots.values(), peak]
    xs = [intensity, *(peak / level.bandwidth for level in levels)]
    plot = Plot((min(xs) / 8, max(xs) * 8), (min(rates) / 8, max(rates) * 6), width, 250.0, 240.0)
    for rate in spots.values():
        plot.mark(intensity, rate)
    draw_roofs(plot, peak, peak_name, levels)
    for name, rate in spots.items():
        plot.label(intensity, rate, name, BESIDE)
        colour, symbol = PICK[dark] if name == "measured" else INK[dark], _SYMBOLS.get(name, "square-open")
        says = hover(name, fmt.si(rate, "FLOP/s"), fmt.si(intensity, "FLOP/B"))
        plot.data.append(points([intensity], [rate], colour, says, symbol=symbol, size=12, edge=2))
    x = log_axis(*plot.x, "Arithmetic intensity (FLOP/B)") | {"showgrid": False}
    return style(plot.data, x, log_axis(*plot.y, "Performance (FLOP/s)"), 330, dark, notes=plot.notes)


def speedups(runs: Sequence[FusedRun], dark: bool) -> Figure:
    """Gain of blocks depth first: a filled dot measured, an open diamond predicted, and where neither way is faster."""
    rivals = [
        (word, gains, [hover(run.title, f"{word} {fmt.times(gain)}") for run, gain in zip(runs, gains)])
        for word, gains in (("measured", [r.gain for r in runs]), ("predicted", [r.predicted_gain for r in runs]))
    ]
    x = span(texts.GAIN_AXIS, 0, max(max(gains) for _, gains, _ in rivals) * 1.08)
    return against([two_lines(run.title, fmt.times(run.gain)) for run in runs], rivals, x, dark, start=1)
