"""Goals of a space: figures of a report, the limits that count on them, and what is to be best; read from text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from engine.cost.layout import METRICS
from engine.scenario import ScenarioError
from engine.scenario.token import brief

FIGURES = tuple(name for name in METRICS if name != "interval_s")
"""Figures of a report that a limit or an objective may name."""
_HIGHER = {"throughput_per_s", "throughput_per_w", "throughput_per_usd"}
_SIGNS = {"min": 1.0, "max": -1.0}


@dataclass(frozen=True)
class Limit:
    """An inequality on a figure: ``figure <= value`` or ``figure >= value``."""

    figure: str
    upper: bool
    value: float

    def excess(self, value: Any) -> Any:
        """How far a figure, or each of an array, lies on the wrong side over the limit; 0 or less where kept. [-]"""
        gap = value - self.value if self.upper else self.value - value
        return gap / (abs(self.value) or 1.0)

    @property
    def exact(self) -> str:
        """The inequality with every digit, as `limits_of` reads it back."""
        return f"{self.figure} {'<=' if self.upper else '>='} {self.value!r}"

    def __str__(self) -> str:
        return f"{self.figure} {'<=' if self.upper else '>='} {self.value:.6g}"


@dataclass(frozen=True)
class Objective:
    """A figure to be small (`sign` 1) or large (`sign` -1)."""

    figure: str
    sign: float

    def __str__(self) -> str:
        return f"{self.figure}:{'min' if self.sign > 0 else 'max'}"


def figure_named(name: Any, where: str) -> str:
    """The name of a figure; ScenarioError, which says where it stands, for one that there is none of."""
    if name not in FIGURES:
        raise ScenarioError(f"{where} is {brief(name)}: figures are {', '.join(FIGURES)}")
    return str(name)


def objectives_of(data: str | Sequence[Any] | Mapping[str, Any]) -> tuple[Objective, ...]:
    """Objectives from ``latency_s:min,throughput_per_w:max``, a list of such parts, or a mapping figure -> min|max.

    ScenarioError for a list that is none, an unknown figure or goal, or more than 4.
    """
    if isinstance(data, Mapping):
        data = [f"{k}:{v}" for k, v in data.items()]
    if not isinstance(data, str | list | tuple):
        raise ScenarioError(f"objectives is {brief(data)}: a list such as [latency_s:min, capex_usd:min] is needed")
    parts: Sequence[Any] = data.split(",") if isinstance(data, str) else data
    objectives = []
    for part in parts:
        if isinstance(part, Objective):
            objectives.append(part)
            continue
        name, _, goal = str(part).strip().partition(":")
        name = figure_named(name.strip(), "objective")
        goal = goal.strip() or ("max" if name in _HIGHER else "min")
        if goal not in _SIGNS:
            raise ScenarioError(f"objective {name} is {goal[:20]!r}: min or max is allowed")
        objectives.append(Objective(name, _SIGNS[goal]))
    if not 1 <= len(objectives) <= 4 or len({o.figure for o in objectives}) < len(objectives):
        raise ScenarioError(f"{len(objectives)} objectives were given: 1 to 4 different figures are allowed")
    return tuple(objectives)


def limits_of(data: Any) -> tuple[bool, tuple[Limit, ...]]:
    """(whether a design must fit, limits) from parts such as ``fits`` or ``latency_s <= 0.02``.

    ScenarioError for a list or a limit that is none.
    """
    if not isinstance(data, str | list | tuple | None):
        raise ScenarioError(f"constraints is {brief(data)}: a list such as [fits, latency_s <= 0.02] is needed")
    parts: Sequence[Any] = [p for p in data.split(",") if p.strip()] if isinstance(data, str) else data or ()
    fits, limits = False, []
    for part in parts:
        if isinstance(part, Limit):
            limits.append(part)
            continue
        text = str(part).strip()
        if text == "fits":
            fits = True
            continue
        sign = next((s for s in ("<=", ">=") if s in text), None)
        if sign is None:
            raise ScenarioError(f"constraint {text[:60]!r}: write fits, figure <= number or figure >= number")
        name, _, number = text.partition(sign)
        try:
            value = float(number)
        except ValueError:
            raise ScenarioError(f"constraint {text[:60]!r}: {number.strip()[:20]!r} is not a number") from None
        if isnan(value):
            raise ScenarioError(f"constraint {text[:60]!r}: nan is not a limit")
        limits.append(Limit(figure_named(name.strip(), "constraint"), sign == "<=", value))
    return fits, tuple(limits)
