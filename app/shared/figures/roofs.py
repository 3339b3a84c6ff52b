"""The roofs of a roofline: what a device computes and what each memory level feeds it, with their names. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.shared import formats as fmt
from app.shared.figures.labels import Plot

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
