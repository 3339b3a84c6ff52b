"""Figures of a machine with an instruction set: peaks by precision, and a pool's waits. Pure: SI in."""

from collections.abc import Sequence

from app.shared import formats as fmt
from app.shared.figures.drawing import hover, line, points, rule
from app.shared.figures.style import INK, NEUTRAL, PICK, Figure, names_axis, span, style
from engine.analyses.machine import Generation
from engine.scenario.formats import LABELS


def peaks(parts: Sequence[Generation], dark: bool) -> Figure:
    """Peak against precision: a line a part, told apart by marker and name; a star where its instance stands."""
    formats = [density.format for density in parts[0].densities]
    most = max(density.flops_per_s for part in parts for density in part.densities)
    scale = fmt.scale([most], "FLOP/s")
    looks = (("circle", "solid"), ("square", "dash"), ("diamond", "dot"))
    data = []
    for part, (symbol, dash) in zip(parts, looks):
        says = [hover(part.name, f"{d.format}: {fmt.si(d.flops_per_s, 'FLOP/s')} would fit") for d in part.densities]
        ys = [scale(d.flops_per_s) for d in part.densities]
        drawn = line(range(len(formats)), ys, INK[dark], says, width=1.6, dash=dash, size=8, symbol=symbol)
        text = {"text": [""] * (len(ys) - 1) + [part.name], "textposition": "top left", "cliponaxis": False}
        data.append(drawn | text | {"mode": "lines+markers+text"})
        name, rate = part.printed
        if name in formats:
            tip = hover(f"{part.name}, its instance", f"{name}: {fmt.si(rate, 'FLOP/s')}")
            data.append(points([formats.index(name)], [scale(rate)], NEUTRAL, tip, symbol="star", size=13))
    x = names_axis([LABELS.get(name, name.upper()) for name in formats], 0.4)
    return style(data, x, span(f"Peak ({scale.unit})", 0, 1.22 * scale(most), grid=True, nticks=5), 300, dark)


def waits(curve: Sequence[tuple[int, float]], now: int, dark: bool) -> Figure:
    """95th percentile from request to answer along the number of clients; a line marks the number chosen."""
    scale = fmt.scale([seconds for _, seconds in curve], "s")
    ys = [scale(seconds) for _, seconds in curve]
    says = [hover(f"{count:,} clients", fmt.seconds(seconds)) for count, seconds in curve]
    data = [line([count for count, _ in curve], ys, INK[dark], says, size=6)]
    last = curve[-1][0]
    if now <= last:
        data.append(rule([now, now], [0, 1.1 * max(ys)], PICK[dark]))
    y = span(f"95th percentile ({scale.unit})", 0, 1.15 * max(ys), grid=True, nticks=5)
    return style(data, span("Clients", 0, 1.04 * last, nticks=8), y, 260, dark)
