"""Labels beside points on log axes, placed where they cover nothing. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

__all__ = ["BESIDE", "Plot"]

_CHARACTER = 6.2  # width of a 12 px character in Source Sans [px]
_LINE = 15.0  # height of a line of it [px]

Box = tuple[float, float, float, float]
BESIDE = (
    ("left", "middle", 12, 0),
    ("right", "middle", -12, 0),
    ("center", "bottom", 0, 11),
    ("center", "top", 0, -11),
)


@dataclass
class Plot:
    """Ranges of two log axes, the plot's size [px], what is drawn so far, and the boxes that labels have taken."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: float
    height: float
    data: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    taken: list[Box] = field(default_factory=list)

    def pixel(self, x: float, y: float) -> tuple[float, float]:
        """Where a point lies, from the lower left corner. [px]"""
        across = math.log10(x / self.x[0]) / math.log10(self.x[1] / self.x[0])
        up = math.log10(y / self.y[0]) / math.log10(self.y[1] / self.y[0])
        return across * self.width, up * self.height

    def free(self, box: Box) -> bool:
        """Whether a box lies inside the plot and on nothing."""
        inside = box[0] >= 0 and box[2] <= self.width and box[1] >= 0 and box[3] <= self.height
        return inside and all(box[0] >= t[2] or box[2] <= t[0] or box[1] >= t[3] or box[3] <= t[1] for t in self.taken)

    def mark(self, x: float, y: float) -> None:
        """Keep labels off a point."""
        px, py = self.pixel(x, y)
        self.taken.append((px - 6, py - 6, px + 6, py + 6))

    def label(self, x: float, y: float, text: str, spots: tuple[tuple[str, str, int, int], ...]) -> bool:
        """Write a label at the first free spot beside a point; False where all are taken."""
        px, py = self.pixel(x, y)
        width = len(text) * _CHARACTER
        for xanchor, yanchor, dx, dy in spots:
            left = px + dx - {"left": 0.0, "right": width, "center": width / 2}[xanchor]
            low = py + dy - {"middle": _LINE / 2, "bottom": 0.0, "top": _LINE}[yanchor]
            box = (left, low, left + width, low + _LINE)
            if self.free(box):
                self.taken.append(box)
                spot = {"xanchor": xanchor, "yanchor": yanchor, "xshift": dx, "yshift": dy}
                self.notes.append({"x": math.log10(x), "y": math.log10(y), "text": text} | spot)
                return True
        return False
