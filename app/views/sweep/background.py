"""A sweep on its own thread, watched by a page: progress, a way to stop, and what came out as plain designs.

The thread never calls Streamlit. A sweep that is left keeps what it has.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from app.shared import cached, jobs, priority
from app.shared import formats as fmt
from app.shared.glossary import Metric
from app.shared.jobs import Job
from app.views.sweep import axes, texts
from app.views.sweep.axes import Candidate
from app.views.sweep.columns import DesignColumns
from app.views.sweep.spaces import PageSpace
from engine.cost.report import Report
from engine.scenario import Scenario, ScenarioError, encode
from engine.sweep import Axis, Limit, Objective, SweepCancelled, SweepResult, search, sweep
from engine.sweep import Space as Designs
from engine.sweep.search import Figures
from engine.traffic.engines.serving_sweep import OperatingSpace, serving_sweep
from hardware_specs.quantity import SpecError

_LAST_CHUNKS_S = 2.0  # that a page waits for what a stopped sweep has done
_TOLD = 100  # prices of a table from which their making is told
_CLOUD = 100_000  # designs of a chart that a browser brushes
_FRONT_DRAWN = 1500


@dataclass(frozen=True)
class SweptDesign:
    """One design: its number in the space, the figures that are known of it, and how many others reach the same."""

    number: int
    figures: Mapping[str, float]
    alike: int = 1


def _with_tile(scenario: Scenario, turned: set[int]) -> Scenario:
    """A scenario whose tile is set wherever a space does not: to the fastest of its knobs' values, if it is free."""
    if scenario.tile or not turned:
        return scenario
    knobs = cached.options(encode(scenario)).knobs
    return scenario.with_(tile=cached.fastest_tile(scenario, {at: knobs[at].values[0] for at in turned}))


def _axis(scenario: Scenario, group: Sequence[str], values: Mapping[str, tuple[Any, ...]]) -> Axis:
    """Settings of the page as one axis of the engine's; ScenarioError where they are tied and not equally many."""
    if len(group) == 1:
        return Axis(group[0], values[group[0]])
    if len({len(values[path]) for path in group}) > 1:
        candidates = axes.candidates(scenario)
        told = ", ".join(f"{candidates[path].label} has {len(values[path])}" for path in group)
        raise ScenarioError(texts.TIED_LENGTHS.format(counts=told))
    rows = zip(*(values[path] for path in group), strict=True)
    return Axis(" and ".join(group), tuple(dict(zip(group, row, strict=True)) for row in rows))


def designs_of(scenario: Scenario, space: PageSpace, metrics: Mapping[str, Metric]) -> Designs:
    """The engine's space of the page's; ScenarioError where a value is not allowed."""
    tiles = {int(path.removeprefix("tile.")) for path, _ in space.axes if path.startswith("tile.")}
    try:
        values = {path: axes.values_of(values) for path, values in space.axes}
    except SpecError as error:
        raise ScenarioError(str(error)) from None
    turned = tuple(_axis(scenario, group, values) for group in space.groups)
    if space.serving:
        most = scenario.limits.model_dump(include={"ttft_s", "tpot_s"}, exclude_none=True)
        return OperatingSpace(scenario, turned, limits=tuple(Limit(name, True, value) for name, value in most.items()))
    return Designs(
        _with_tile(scenario, tiles),
        turned,
        tuple(Objective(name, -1.0 if metrics[name].rising else 1.0) for name in space.objectives),
        tuple(Limit(name, True, value) for name, value in scenario.limits.of_figures.items()),
    )


@dataclass(frozen=True)
class Outcome:
    """What a sweep found, as far as it came. `key` names the axes and the scenario it was asked for."""

    key: str
    report: Report  # of the scenario it was asked for
    metrics: Mapping[str, Metric]
    candidates: Mapping[str, Candidate]
    result: SweepResult
    stopped: bool
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
        _, first, many = np.unique(values, axis=1, return_index=True, return_counts=True)
        sign = self.space.objectives[0].sign
        order = np.argsort(sign * values[0, first], kind="stable")
        return tuple(
            SweptDesign(
                int(numbers[first[i]]),
                self._swept(int(numbers[first[i]]))
                if self.serving
                else dict(zip(self.objectives, map(float, values[:, first[i]]), strict=True)),
                int(many[i]),
            )
            for i in order
        )

    @cached_property
    def drawn_numbers(self) -> np.ndarray:
        """Numbers of the front's designs, (n,), thinned evenly where it is too long to draw."""
        step = max(1, math.ceil(len(self.front) / _FRONT_DRAWN))
        return np.array([d.number for d in self.front[::step]], dtype=np.int64)

    @cached_property
    def drawn_figures(self) -> np.ndarray:
        """All figures of those, (figures, n). [SI]"""
        price = Figures(self.space)
        of = (lambda n: [*self._swept(n).values()]) if self.serving else (lambda n: price.of(n)[0])
        return np.array([of(number) for number in self.drawn_numbers.tolist()]).T.reshape(len(self.result.figures), -1)

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
        return DesignColumns.of(self)

    def design(self, number: int | None) -> SweptDesign | None:
        """A design of the front or the cloud by its number; the front's own where both reach the same."""
        own = next((d for d in self.front if d.number == number), None)
        at = np.flatnonzero(self.cloud_numbers == number) if number is not None and own is None else []
        if own is not None or not len(at):
            return own
        figures = self._swept(int(self.cloud_numbers[at[0]]))
        same = (d for d in self.front if all(d.figures[n] == figures[n] for n in self.objectives))
        return next(same, SweptDesign(int(self.cloud_numbers[at[0]]), figures))

    @cached_property
    def knee(self) -> SweptDesign:
        """The design of the front nearest to the best of both drawn objectives, each from best to worst on a log scale.

        A choice for a start, not an optimum.
        """
        logs = np.log(np.array([[d.figures[n] for n in self.objectives[:2]] for d in self.front]))
        signs = np.array([o.sign for o in self.space.objectives[:2]])
        cost = logs * signs
        low, high = cost.min(axis=0), cost.max(axis=0)
        away = (cost - low) / np.where(high > low, high - low, 1.0)
        return self.front[int(np.argmin((away**2).sum(axis=1)))]

    def place(self, design: SweptDesign) -> int | None:
        """Where a design stands on the front; None where it does not."""
        return next((i for i, d in enumerate(self.front) if d.number == design.number), None)

    @cached_property
    def failed(self) -> list[tuple[float, str]]:
        """Share of the designs by what they fail, the largest first: refused, no room in memory, each limit among those
        that run and fit.
        """
        c = self.result.counts
        limits = {limit.figure: int(n) for limit, n in zip(self.space.limits, c.missed, strict=True)}
        every = {"refused": c.refused, "fits": c.unfit} | limits
        return sorted(((n / c.done, name) for name, n in every.items() if n), reverse=True)

    @cached_property
    def closest(self) -> SweptDesign | None:
        """Of the sampled designs that run and fit, the one that misses its limits by least; None where none does."""
        limits, figures = self.space.limits, self.cloud_figures
        if not limits or not figures.size:
            return None
        over = np.max([limit.excess(figures[self.result.figures.index(limit.figure)]) for limit in limits], axis=0)
        return self.design(int(self.cloud_numbers[int(np.argmin(over))]))


_finished: WeakValueDictionary[tuple[str, str, PageSpace, bool], Outcome] = WeakValueDictionary()
"""What a session of this server still has, by what was asked: the next who asks it, or reloads the page, has it too."""


class RunningSweep(Job):
    """One sweep under way, or one that was finished before."""

    def __init__(
        self, report: Report, space: PageSpace, metrics: Mapping[str, Metric], key: str, searched: bool = False
    ) -> None:
        """`searched`: a part of the designs is tried, picked on the way."""
        super().__init__(jobs.SWEEPS, lambda _: self._sweep(), self._progress)
        self._designs, self._searched = designs_of(report.scenario, space, metrics), searched
        self._made = (key, report, metrics, axes.candidates(report.scenario))
        self._asked = key, encode(report.scenario), space, searched
        self._done = 0
        self._prepared = (0, 0)
        self.outcome: Outcome | None = _finished.get(self._asked)

    @property
    def size(self) -> int:
        """Designs to try."""
        return min(self._designs.size, axes.EVALUATIONS) if self._searched else self._designs.size

    def settled(self) -> Outcome | None:
        """What it found, after a moment for the last chunks of one that is still under way, which ends.

        Whoever asks has left the loop over it: a rerun may come before Python has closed that loop's iterator.
        """
        self.cancel()
        if self.outcome is None:
            self.wait(_LAST_CHUNKS_S)
        return self.outcome

    def _progress(self, _: float) -> str:
        """`0.52 of 1.05 M designs · 10.4 M/s · 0.1 s left`; before the first of them, what they are priced from."""
        noun = "points" if isinstance(self._designs, OperatingSpace) else "designs"
        text = f"{fmt.of(self._done, self.size, '')} {noun}".replace("  ", " ")
        spent = self.seconds
        if noun == "points" and self._done == self.size:
            return texts.SETTLING.format(points=text)
        if not self._done or spent <= 0:
            at, of = self._prepared
            return f"{text} · {at:,} of {of:,} prices made" if of >= _TOLD else text
        rate = self._done / spent
        return f"{text} · {fmt.si(rate)}/s · {fmt.seconds((self.size - self._done) / rate)} left"

    def _sweep(self) -> None:
        try:
            result = self._result()
            stopped = isinstance(self._designs, OperatingSpace) and self.over()
        except SweepCancelled as cancelled:
            result, stopped = cancelled.result, True
        if result is not None:
            outcome = Outcome(*self._made, result, stopped, self.why)
            _ = outcome.designs  # here, where nobody's click waits for them
            self.outcome = outcome
            if not stopped:
                _finished[self._asked] = outcome

    def _result(self) -> SweepResult | None:
        watched: dict[str, Any] = {"progress": self._note, "cancelled": self.over}
        if isinstance(self._designs, OperatingSpace):
            points = priority.background().submit(serving_sweep, self._designs, **watched).result()
            return points.result if points.numbers else None
        if self._searched:
            return priority.background().submit(search, self._designs, self.size, cloud=_CLOUD, **watched).result()
        return sweep(
            self._designs,
            preparing=self._prepare,
            executor=priority.background(),
            cloud=_CLOUD,
            **watched,
        )

    def _note(self, done: int, size: int) -> None:
        self._done = done
        self.note(done, self.size)

    def _prepare(self, at: int, of: int) -> None:
        self._prepared = at, of
