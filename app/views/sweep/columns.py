"""Designs of a sweep as columns that its charts draw, colour and keep by. Pure: SI in."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.shared import formats as fmt
from app.shared.figures.drawing import hover
from app.shared.figures.style import log_ticks, span
from app.shared.glossary import Metric
from app.views.sweep import spaces
from engine.sweep import Space as Designs

Ranges = Mapping[str, tuple[float, float]]
"""What is kept: by a column's name, the places between which a design lies."""

_LOG = 20.0  # times that a setting's values differ by from which its axis is logarithmic
_UPRIGHT = 8  # axes side by side that stay readable


def settings_along(designs: Designs) -> list[tuple[str, tuple[Any, ...], int]]:
    """Every setting that a space turns, with its values along its axis and that axis's stride; tied ones share both."""
    return [
        (path, tuple(dict(axis.settings(at))[path] for at in range(len(axis))), stride)
        for axis, stride in zip(designs.axes, designs.strides, strict=True)
        for path, _ in axis.settings(0)
    ]


def settings_of(designs: Designs, number: int) -> dict[str, Any]:
    """What a design sets, by path."""
    return {path: values[number // stride % len(values)] for path, values, stride in settings_along(designs)}


@dataclass(frozen=True)
class Column:
    """One figure or setting of every design: values (n,) in SI, or places in `names`."""

    name: str
    label: str
    unit: str
    values: np.ndarray
    names: tuple[str, ...] = ()
    figure: Metric | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """Least and largest value; the least twice where only rounding parts them."""
        low, high = float(np.nanmin(self.values)), float(np.nanmax(self.values))
        return low, low if math.isclose(low, high) else high

    def place(self, value: Any) -> Any:
        """Where values lie between the least, 0, and the largest, 1; figures and wide ranges on a log scale. [-]"""
        low, high = self.ends
        if low == high:
            return value * 0.0 + 0.5
        if not self.names and low > 0 and (self.figure or high > _LOG * low):
            return np.log(value / low) / np.log(high / low)
        return (value - low) / (high - low)

    def text(self, value: float) -> str:
        """A value as people write it."""
        if self.names:
            return self.names[int(value)]
        return self.figure.text(value) if self.figure else fmt.si(value, self.unit)

    def axis(self, places: Sequence[float]) -> dict[str, Any]:
        """A log axis that shows some places, in the prefix that suits its values."""
        low, high = self.ends
        scale = spaces.scale(self.figure, (low, high)) if self.figure else fmt.scale([high], self.unit)
        spare, grow = 0.06 * (max(places) - min(places) or 1.0), np.log(high / low)
        first, last = min(places) - spare, max(places) + spare
        ticks, text = log_ticks(*(scale(low * np.exp(grow * place)) for place in (first, last)))
        at = [float(self.place(scale.si(tick))) for tick in ticks] if high > low else [0.5]
        text = text if high > low else [scale.text(low)]
        return span(f"{self.label} ({scale.unit}), log", first, last, grid=True, tickvals=at, ticktext=text)


@dataclass(frozen=True)
class DesignColumns:
    """Every design that is drawn or counted: its number, its columns (figures first), the front's at the end."""

    numbers: np.ndarray
    columns: tuple[Column, ...]
    front: int  # how many are on it
    goals: int  # columns that are objectives, at the beginning

    def within(self, ranges: Ranges) -> np.ndarray:
        """Which designs lie inside every range, (n,)."""
        inside = np.ones(len(self.numbers), dtype=bool)
        for column in self.columns:
            if column.name in ranges:
                places, (low, high) = column.place(column.values), ranges[column.name]
                inside &= (places >= low - 1e-9) & (places <= high + 1e-9)
        return inside

    def upright(self) -> list[Column]:
        """Axes to draw side by side: the objectives, then settings on which the front's designs differ."""
        last = len(self.numbers) - self.front
        settings = [c for c in self.columns if c.figure is None and len(set(c.values[last:])) > 1]
        return [*self.columns[: self.goals], *settings][:_UPRIGHT]

    def says(self, at: int, count: int) -> str:
        """A design under the pointer."""
        columns = [c for c in self.columns if c.figure is None or c in self.columns[:2]]
        count += any(c.name == "simulated" for c in columns)
        first, *lines = (f"{c.label} {c.text(c.values[at])}" for c in columns[:count])
        return hover(first, *lines)
