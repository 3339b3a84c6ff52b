"""A sweep on its own thread, watched by a page: progress, a way to stop, and what came out as plain designs.

The thread never calls Streamlit. A sweep that is left keeps what it has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from app.shared import cached, jobs, priority
from app.shared import formats as fmt
from app.shared.glossary import Metric
from app.shared.jobs import Job
from app.views.sweep import axes, texts
from app.views.sweep.outcome import Outcome
from app.views.sweep.spaces import PageSpace
from engine.cost.report import Report
from engine.scenario import Scenario, ScenarioError, encode
from engine.sweep import Axis, Limit, Objective, SweepCancelled, SweepResult, search, sweep
from engine.sweep import Space as Designs
from engine.traffic.engines.operating_space import OperatingSpace, tail_limits
from engine.traffic.engines.serving_sweep import serving_sweep
from hardware_specs.quantity import SpecError

_LAST_CHUNKS_S = 2.0  # that a page waits for what a stopped sweep has done
_MIN_PRICES = 100  # prices of a table from which their making is told
_CLOUD = 100_000  # designs of a chart that a browser brushes


def _with_tile(scenario: Scenario, places: set[int]) -> Scenario:
    """A scenario whose tile is set wherever a space does not: to the fastest of its knobs' values, if it is free."""
    if scenario.tile or not places:
        return scenario
    knobs = cached.options(encode(scenario)).knobs
    return scenario.with_(tile=cached.fastest_tile(scenario, {at: knobs[at].values[0] for at in places}))


def _axis(scenario: Scenario, group: Sequence[str], values: Mapping[str, tuple[Any, ...]]) -> Axis:
    """Settings of the page as one axis of the engine's; ScenarioError where they are tied and not equally many."""
    if len(group) == 1:
        return Axis(group[0], values[group[0]])
    if len({len(values[path]) for path in group}) > 1:
        candidates = axes.candidates(scenario)
        counts = ", ".join(f"{candidates[path].label} has {len(values[path])}" for path in group)
        raise ScenarioError(texts.TIED_LENGTHS.format(counts=counts))
    rows = zip(*(values[path] for path in group), strict=True)
    return Axis(" and ".join(group), tuple(dict(zip(group, row, strict=True)) for row in rows))


def designs_of(scenario: Scenario, space: PageSpace, metrics: Mapping[str, Metric]) -> Designs:
    """The engine's space of the page's; ScenarioError where a value is not allowed."""
    tiles = {int(path.removeprefix("tile.")) for path, _ in space.axes if path.startswith("tile.")}
    try:
        values = {path: axes.values_of(values) for path, values in space.axes}
    except SpecError as error:
        raise ScenarioError(str(error)) from None
    grid = tuple(_axis(scenario, group, values) for group in space.groups)
    if space.serving:
        limits = scenario.limits.model_dump(include={"ttft_s", "tpot_s"}, exclude_none=True)
        means = (Limit(name, True, value) for name, value in limits.items())
        return OperatingSpace(scenario, grid, limits=(*means, *tail_limits(space.tails)))
    return Designs(
        _with_tile(scenario, tiles),
        grid,
        tuple(Objective(name, -1.0 if metrics[name].rising else 1.0) for name in space.objectives),
        tuple(Limit(name, True, value) for name, value in scenario.limits.of_figures.items()),
    )


_outcomes: WeakValueDictionary[tuple[str, str, PageSpace, bool], Outcome] = WeakValueDictionary()
"""What a session of this server still has, by what was asked: the next who asks it, or reloads the page, has it too."""


class RunningSweep(Job):
    """One sweep under way, or one that was finished before."""

    def __init__(
        self, report: Report, space: PageSpace, metrics: Mapping[str, Metric], key: str, by_search: bool = False
    ) -> None:
        """`by_search`: a part of the designs is tried, picked on the way."""
        super().__init__(jobs.SWEEPS, lambda _: self._sweep(), self._progress)
        self._designs, self._by_search = designs_of(report.scenario, space, metrics), by_search
        self._context = (key, report, metrics, axes.candidates(report.scenario))
        self._request = key, encode(report.scenario), space, by_search
        self._count = 0
        self._preparation = (0, 0)
        self.outcome: Outcome | None = _outcomes.get(self._request)

    @property
    def size(self) -> int:
        """Designs to try."""
        return min(self._designs.size, axes.EVALUATIONS) if self._by_search else self._designs.size

    def covers(self, scenario: Scenario, space: PageSpace) -> bool:
        """Whether it has tried all designs of a space, for other objectives: they are soon priced again."""
        _, token, swept, by_search = self._request
        whole = self.outcome is not None and not self.outcome.partial and not by_search
        return whole and token == encode(scenario) and replace(swept, objectives=space.objectives) == space != swept

    def finish(self) -> Outcome | None:
        """What it found, after a moment for the last chunks of one that is still under way, which ends."""
        self.cancel()
        if self.outcome is None:
            self.wait(_LAST_CHUNKS_S)
        return self.outcome

    def _progress(self, _: float) -> str:
        """`0.52 of 1.05 M designs · 10.4 M/s · 0.1 s left`; before the first of them, what they are priced from."""
        noun = "points" if isinstance(self._designs, OperatingSpace) else "designs"
        text = f"{fmt.of(self._count, self.size, '')} {noun}".replace("  ", " ")
        elapsed_s = self.seconds
        if noun == "points" and self._count == self.size:
            return texts.SETTLING.format(points=text)
        if not self._count or elapsed_s <= 0:
            at, of = self._preparation
            return f"{text} · {at:,} of {of:,} prices made" if of >= _MIN_PRICES else text
        rate = self._count / elapsed_s
        return f"{text} · {fmt.si(rate)}/s · {fmt.seconds((self.size - self._count) / rate)} left"

    def _sweep(self) -> None:
        try:
            result = self._result()
            partial = isinstance(self._designs, OperatingSpace) and self.over()
        except SweepCancelled as cancelled:
            result, partial = cancelled.result, True
        if result is not None:
            outcome = Outcome(*self._context, result, partial, self.why)
            _ = outcome.designs  # here, where nobody's click waits for them
            self.outcome = outcome
            if not partial:
                _outcomes[self._request] = outcome

    def _result(self) -> SweepResult | None:
        options: dict[str, Any] = {"progress": self._note, "cancelled": self.over}
        if isinstance(self._designs, OperatingSpace):
            points = priority.background().submit(serving_sweep, self._designs, **options).result()
            return points.result if points.numbers else None
        options["cloud"] = _CLOUD
        if self._by_search:
            return priority.background().submit(search, self._designs, self.size, **options).result()
        return sweep(self._designs, preparing=self._prepare, executor=priority.background(), **options)

    def _note(self, amount: int, size: int) -> None:
        self._count = amount
        self.note(amount, self.size)

    def _prepare(self, at: int, of: int) -> None:
        self._preparation = at, of
