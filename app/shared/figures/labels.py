"""Labels beside points on log axes, placed where they cover nothing. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from app.shared.figures.drawing import note, rule
from app.shared.figures.style import NEUTRAL

_CHARACTER = 6.2  # width of a 12 px character in Source Sans [px]
_LINE = 15.0  # height of a line of it [px]
_STEP = 3.0  # between the points of a drawn line that labels keep off [px]

Box = tuple[float, float, float, float]
BESIDE = (
    ("left", "middle", 12, 0),
    ("right", "middle", -12, 0),
    ("center", "bottom", 0, 11),
    ("center", "top", 0, -11),
    ("left", "top", 9, -4),
    ("left", "bottom", 9, 4),
    ("right", "top", -9, -4),
    ("right", "bottom", -9, 4),
)


@dataclass
class Plot:
    """Ranges of two log axes, the plot's size and its width under a zoom [px], what is drawn, what labels avoid."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: float
    height: float
    narrow: float | None = None
    data: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    obstacles: list[tuple[float, float]] = field(default_factory=list)

    def pixel(self, x: float, y: float) -> tuple[float, float]:
        """Where a point lies, from the lower left corner. [px]"""
        across = math.log10(x / self.x[0]) / math.log10(self.x[1] / self.x[0])
        up = math.log10(y / self.y[0]) / math.log10(self.y[1] / self.y[0])
        return across * self.width, up * self.height

    def free(self, box: Box) -> bool:
        """Whether a box lies inside the plot and on nothing."""
        inside = box[0] >= 0 and box[2] <= self.width and box[1] >= 0 and box[3] <= self.height
        apart = all(box[0] >= t[2] or box[2] <= t[0] or box[1] >= t[3] or box[3] <= t[1] for t in self.boxes)
        return inside and apart and not any(box[0] < x < box[2] and box[1] < y < box[3] for x, y in self.obstacles)

    def mark(self, x: float, y: float) -> None:
        """Keep labels off a point."""
        px, py = self.pixel(x, y)
        self.boxes.append((px - 6, py - 6, px + 6, py + 6))

    def line(self, xs: Sequence[float], ys: Sequence[float], solid: bool) -> None:
        """Draw a bent line, solid or dotted, and keep labels off it."""
        self.data.append(rule(list(xs), list(ys), NEUTRAL, 1.6, "solid" if solid else "dot"))
        self.keep_off(xs, ys)

    def keep_off(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        """Keep labels off a bent line."""
        corners = [self.pixel(x, y) for x, y in zip(xs, ys, strict=True)]
        self.obstacles += corners
        for (x0, y0), (x1, y1) in pairwise(corners):
            steps = 1 + int(math.hypot(x1 - x0, y1 - y0) / _STEP)
            self.obstacles += [(x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps) for i in range(steps + 1)]

    def label(self, x: float, y: float, text: str, spots: tuple[tuple[str, str, int, int], ...], **look: Any) -> bool:
        """Write a label at the first free spot beside a point; False where all are taken."""
        px, py = self.pixel(x, y)
        width = len(text) * _CHARACTER
        for xanchor, yanchor, dx, dy in spots:
            left = px + dx - {"left": 0.0, "right": width, "center": width / 2}[xanchor]
            low = py + dy - {"middle": _LINE / 2, "bottom": 0.0, "top": _LINE}[yanchor]
            box = (left, low, left + width, low + _LINE)
            narrow = self.narrow or self.width
            near = left + px * (narrow / self.width - 1.0)  # shifts are px at any width
            if self.free(box) and near >= 0 and near + width <= narrow:
                self.boxes.append(box)
                self.notes.append(note(math.log10(x), math.log10(y), text, f"{xanchor} {yanchor}", (dx, dy), **look))
                return True
        return False
