"""What a sweep found, as plain designs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from app.shared.glossary import Metric
from app.views.sweep import texts
from app.views.sweep.axes import Candidate
from app.views.sweep.columns import Column, DesignColumns, settings_along
from engine.cost.report import Report
from engine.sweep import Space as Designs
from engine.sweep import SweepResult
from engine.sweep.search import Figures
from engine.traffic.engines.operating_space import OperatingSpace
from engine.traffic.engines.serving_sweep import HOW

_FRONT_DRAWN = 1500


@dataclass(frozen=True)
class SweptDesign:
    """One design: its number in the space, the figures that are known of it, and how many others reach the same."""

    number: int
    figures: Mapping[str, float]
    alike: int = 1


@dataclass(frozen=True)
class Outcome:
    """What a sweep found, as far as it came. `key` names the axes and the scenario it was asked for."""

    key: str
    report: Report  # of the scenario it was asked for
    metrics: Mapping[str, Metric]
    candidates: Mapping[str, Candidate]
    result: SweepResult
    partial: bool
    why: str = ""  # the server stopped it, not its reader

    @property
    def space(self) -> Designs:
        """The engine's space."""
        return self.result.space

    @property
    def objectives(self) -> tuple[str, ...]:
        """Figures that were to be best; the first two are drawn."""
        return tuple(o.figure for o in self.space.objectives)

    @property
    def serving(self) -> bool:
        """Whether its designs are operating points of a serving engine, some of them simulated."""
        return isinstance(self.space, OperatingSpace)

    @cached_property
    def now(self) -> dict[str, float]:
        """Objectives of the scenario it was asked for, where it has them."""
        if self.serving or not self.report.fits:
            return {}
        return {name: getattr(self.report, name) for name in self.objectives}

    @cached_property
    def front(self) -> tuple[SweptDesign, ...]:
        """Designs that no other beats, best first in the first objective; equal ones count as one."""
        values, numbers = self.result.front.values, self.result.front.numbers
        if not len(numbers):
            return ()
        _, first, counts = np.unique(values, axis=1, return_index=True, return_counts=True)
        order = np.argsort(self.space.objectives[0].sign * values[0, first], kind="stable")
        designs = []
        for at, count in zip(first[order].tolist(), counts[order].tolist(), strict=True):
            number, figures = int(numbers[at]), dict(zip(self.objectives, values[:, at].tolist(), strict=True))
            designs.append(SweptDesign(number, self._swept(number) if self.serving else figures, count))
        return tuple(designs)

    @cached_property
    def front_numbers(self) -> np.ndarray:
        """Numbers of the front's designs, (n,), thinned evenly where it is too long to draw."""
        step = max(1, math.ceil(len(self.front) / _FRONT_DRAWN))
        return np.array([d.number for d in self.front[::step]], dtype=np.int64)

    def _swept(self, number: int) -> dict[str, float]:
        """All figures of a design of the cloud. [SI]"""
        at = int(np.searchsorted(self.result.cloud_numbers, number))
        return dict(zip(self.result.figures, map(float, self.result.cloud[:, at]), strict=True))

    @cached_property
    def _cloud(self) -> np.ndarray:
        rows = [self.result.figures.index(name) for name in self.objectives]
        usable = (self.result.cloud_state == 0) & np.isfinite(self.result.cloud[rows]).all(axis=0)
        return np.flatnonzero(usable & (self.result.cloud[rows] > 0).all(axis=0))

    @cached_property
    def cloud_numbers(self) -> np.ndarray:
        """Numbers of designs drawn evenly from the space that fit and have the objectives, ascending, (n,)."""
        return self.result.cloud_numbers[self._cloud]

    @cached_property
    def cloud_figures(self) -> np.ndarray:
        """All figures of those, (figures, n). [SI]"""
        return self.result.cloud[:, self._cloud]

    @cached_property
    def designs(self) -> DesignColumns:
        """Cloud and front with all that they may be brushed by and coloured by."""
        behind = ~np.isin(self.cloud_numbers, self.front_numbers)
        numbers = np.concatenate([self.cloud_numbers[behind], self.front_numbers])
        price = Figures(self.space)
        of = (lambda n: [*self._swept(n).values()]) if self.serving else (lambda n: price.of(n)[0])
        front = np.array([of(number) for number in self.front_numbers.tolist()]).T.reshape(len(self.result.figures), -1)
        figures = np.concatenate([self.cloud_figures[:, behind], front], axis=1)
        columns, figure_names = list[Column](), self.result.figures
        for name in dict.fromkeys((*self.objectives, *self.metrics)):
            values, metric = figures[figure_names.index(name)], self.metrics[name]
            if name in self.objectives or np.isfinite(values).any():
                columns.append(Column(name, metric.label, metric.unit, values, figure=metric))
        if self.serving:
            columns.append(Column("simulated", texts.FOUND_BY, "", figures[figure_names.index("simulated")], HOW))
        for path, options, stride in settings_along(self.space):
            candidate, digits = self.candidates[path], numbers // stride % len(options)
            label = candidate.label[:1].upper() + candidate.label[1:]
            if candidate.row is not None:
                values = np.array(options, dtype=np.float64)[digits]
                columns.append(Column(path, label, candidate.row.unit, values))
            else:
                names = tuple(map(candidate.text, options))
                columns.append(Column(path, label, "", digits.astype(np.float64), names))
        return DesignColumns(numbers, tuple(columns), len(self.front_numbers), len(self.objectives))

    def design(self, number: int | None) -> SweptDesign | None:
        """A design of the front or the cloud by its number; the front's own where both reach the same."""
        on_front = next((d for d in self.front if d.number == number), None)
        if on_front is not None or number is None or number not in self.cloud_numbers:
            return on_front
        figures = self._swept(number)
        twins = (d for d in self.front if all(d.figures[n] == figures[n] for n in self.objectives))
        return next(twins, SweptDesign(number, figures))

    @cached_property
    def knee(self) -> SweptDesign:
        """The design of the front nearest to the best of both drawn objectives, each from best to worst on a log scale.

        A choice for a start, not an optimum.
        """
        figures = np.array([[d.figures[n] for n in self.objectives[:2]] for d in self.front])
        cost = np.log(figures) * [o.sign for o in self.space.objectives[:2]]
        low, high = cost.min(axis=0), cost.max(axis=0)
        away = (cost - low) / np.where(high > low, high - low, 1.0)
        return self.front[int(np.argmin((away**2).sum(axis=1)))]

    @cached_property
    def failures(self) -> list[tuple[float, str]]:
        """Share of the designs by what they fail, the largest first: refused, no room in memory, each limit among those
        that run and fit.
        """
        c = self.result.counts
        limits = {limit.figure: int(n) for limit, n in zip(self.space.limits, c.missed, strict=True)}
        counts = {"refused": c.refused, "fits": c.unfit} | limits
        return sorted(((n / c.done, name) for name, n in counts.items() if n), reverse=True)

    @cached_property
    def closest(self) -> SweptDesign | None:
        """Of the sampled designs that run and fit, the one that misses its limits by least; None where none does."""
        limits, figures = self.space.limits, self.cloud_figures
        if not limits or not figures.size:
            return None
        over = np.max([limit.excess(figures[self.result.figures.index(limit.figure)]) for limit in limits], axis=0)
        over = np.where(np.isnan(over), np.inf, over)  # what no run tells of a point in closed form
        return self.design(int(self.cloud_numbers[int(np.argmin(over))]))
