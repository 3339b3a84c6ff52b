"""The smallest change that meets a target: over the grid of a space, exact, with the limit that binds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.scenario import Scenario, ScenarioError
from engine.sweep.axis import Axis
from engine.sweep.pricing.blocks import price
from engine.sweep.space import Space

POINTS_LIMIT = 20_000_000


@dataclass(frozen=True)
class Inverse:
    """The answer. Where `met` is False, the design is the one that misses by least, and `binding` what it misses."""

    met: bool
    scenario: Scenario
    number: int  # of the design in the space
    changes: Mapping[str, tuple[Any, Any]]  # path -> (from, to)
    figures: Mapping[str, float]  # of the design, those that limits name
    binding: str  # the limit that stops a smaller change, or fails: an inequality, or "fits"


def _start(space: Space, start: Mapping[str, Any]) -> list[int]:
    """Digit of the present value on each axis."""
    digits = []
    for axis in space.axes:
        if axis.path not in start:
            raise ScenarioError(f"axis {axis.path[:60]}: say where it starts, as one of its values")
        if start[axis.path] not in axis.values:
            raise ScenarioError(f"axis {axis.path[:60]} starts at {str(start[axis.path])[:40]}: it lacks that value")
        digits.append(axis.values.index(start[axis.path]))
    return digits


def _distance(axis: Axis, start: int) -> np.ndarray:
    """How far each value of an axis lies from the start, 0 to 1: by ratio for positive numbers, else by step."""
    values = axis.values
    if all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in values):
        logs = np.log(np.array(values, dtype=np.float64))
        far = np.abs(logs - logs[start])
    else:
        far = np.abs(np.arange(len(values)) - start).astype(np.float64)
    return np.round(far / (far.max() or 1.0), 9)  # equal ratios are equally far, whatever their logarithms round to


def inverse(space: Space, start: Mapping[str, Any]) -> Inverse:
    """The design nearest to the start that keeps every limit of the space.

    ScenarioError without a limit, for too large a grid, or where no design runs.

    Nearest is: the fewest axes changed, then the smallest sum of distances along them, each 0 to 1 of its axis (by
    ratio for positive numbers, else by step), then the lowest number. Every design of the grid is priced, so the
    answer is exact on it. The binding limit is the one most exceeded by the designs one axis closer to the start.

    Parameters
    ----------
    start : the present value of every axis, which the axis must hold.
    """
    if not space.limits and not space.fits:
        raise ScenarioError("an inverse search needs at least one limit, as latency_s <= 0.02")
    if space.size > POINTS_LIMIT:
        raise ScenarioError(f"the grid has {space.size} designs: at most {POINTS_LIMIT} are allowed here")
    space.check_paths()
    space.check_money()
    at = _start(space, start)
    names = list(dict.fromkeys(limit.figure for limit in space.limits)) or ["latency_s"]
    values, bad, unfit = price(space, names)
    if bad.all():
        raise ScenarioError("no design of this grid runs: every one is refused by its system")
    figures = dict(zip(names, values, strict=True))
    rows = [limit.excess(figures[limit.figure]) for limit in space.limits]
    rows = [np.where(np.isnan(row), np.inf, row) for row in rows]
    if space.fits:
        rows.append(np.where(unfit, np.inf, -np.inf))
    worst, index = np.where(bad, np.inf, np.max(rows, axis=0)), np.argmax(rows, axis=0)  # len(limits) is of fitting
    shifts = far = np.zeros([len(axis) for axis in space.axes])
    for i, axis in enumerate(space.axes):
        shape = [len(axis) if a == i else 1 for a in range(len(space.axes))]
        shifts = shifts + (np.arange(len(axis)) != at[i]).reshape(shape)
        far = far + _distance(axis, at[i]).reshape(shape)
    shifts, far = shifts.reshape(-1), np.round(far.reshape(-1), 9)
    within = np.flatnonzero(worst <= 0)
    feasible = len(within) > 0
    able = within if feasible else np.flatnonzero(~bad)
    keys = (able, far[able], shifts[able]) if feasible else (able, far[able], shifts[able], worst[able])
    number = int(able[np.lexsort(keys)[0]])
    answer = {name: float(row[number]) for name, row in figures.items()}
    digits = zip(space.axes, at, space.digits(number), strict=True)
    changes = {axis.path: (axis.values[a], axis.values[d]) for axis, a, d in digits if a != d}
    binding = _name(space, int(index[number])) if not feasible else _binding(space, at, number, worst, index)
    return Inverse(feasible, space.scenario(number), number, changes, answer, binding)


def _name(space: Space, index: int) -> str:
    return str(space.limits[index]) if index < len(space.limits) else "fits"


def _binding(space: Space, at: list[int], number: int, worst: np.ndarray, index: np.ndarray) -> str:
    """The limit most exceeded one step closer to the start; else that with the least room."""
    closer = []
    for axis, (a, d) in enumerate(zip(at, space.digits(number), strict=True)):
        if a != d:
            near = _distance(space.axes[axis], a)
            between = range(a, d) if a < d else range(d + 1, a + 1)
            step = max((v for v in between if near[v] < near[d]), key=lambda v: near[v], default=a)
            closer.append(number + (step - d) * space.strides[axis])
    failing = [n for n in closer if worst[n] > 0]
    return _name(space, int(index[max(failing, key=lambda n: worst[n], default=number)]))
