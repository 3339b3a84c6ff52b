"""What a sweep's page asks beside its front: what moves a figure most, the smallest change that does.

Each is an engine call turned into rows; the page draws them.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from app.shared import glossary, specs
from app.shared.glossary import Metric
from app.views.sweep import axes, texts
from app.views.sweep import background as sweep_run
from app.views.sweep.axes import Candidate
from app.views.sweep.columns import settings_of
from app.views.sweep.spaces import PageSpace
from app.views.sweep.tables import setting
from engine.cost.report import Report
from engine.scenario import Scenario, ScenarioError
from engine.sweep import Axis, Inverse, inverse, sensitivity
from engine.sweep import Space as Designs

SHARE = 0.2  # by which a tornado lowers and raises each number
_MOST_SWINGS = 10
_MOST_DESIGNS = 300_000  # of the grid on which the smallest change is looked for

Ask = Callable[[Callable[[], Any]], Any]
"""What runs a call of the engine that takes as long as a sweep, and gives its answer: a page waits for its turn."""


def swings(scenario: Scenario, metric: Metric, ask: Ask) -> list[tuple[str, float, float]]:
    """(name, change where the number is lowered by `SHARE`, where it is raised), the widest first."""
    candidates = axes.candidates(scenario)
    rows = []
    for swing in ask(lambda: sensitivity(scenario, metric.name, SHARE))[:_MOST_SWINGS]:
        name = (
            candidates[swing.path].label if swing.path in candidates else glossary.tidy(swing.path.rpartition(".")[2])
        )
        ends = [0.0 if end is None else end / swing.base - 1.0 for end in (swing.low, swing.high)]
        if any(abs(e) > 5e-4 for e in ends):
            rows.append((name[:1].upper() + name[1:], ends[0], ends[1]))
    return rows


def smallest_change(
    report: Report, space: PageSpace, metrics: Mapping[str, Metric], ask: Ask
) -> tuple[Inverse, list[tuple[str, str, str]]]:
    """Over the space's grid with the scenario's own values put in: fewest axes changed, then least far. Exact on it.

    With every setting that changes, its value before and after. ScenarioError where the grid is too large or nothing of
    it runs.
    """
    scenario = report.scenario
    candidates = axes.candidates(scenario)
    designs = sweep_run.designs_of(scenario, space, metrics)
    size = math.prod(1 + len(axis) for axis in designs.axes)
    if size > _MOST_DESIGNS:
        raise ScenarioError(texts.TOO_MANY_DESIGNS.format(size=size, most=_MOST_DESIGNS))
    before: dict[str, Any] = {}
    start: dict[str, Any] = {}
    grid = []
    for axis in designs.axes:
        present = {path: _now(designs.base, candidates[path]) for path, _ in axis.settings(0)}
        now = start[axis.path] = present.get(axis.path, present)  # of axes that are tied, all
        before |= present
        values = axis.values if now in axis.values else (now, *axis.values)
        ranged = axis.path in candidates and candidates[axis.path].ranged
        grid.append(Axis(axis.path, tuple(sorted(values)) if ranged else values))
    looked = Designs(designs.base, tuple(grid), designs.objectives, designs.limits)
    answer = ask(lambda: inverse(looked, start))
    after = settings_of(looked, answer.number)
    changes = [
        (candidates[path].label, setting(candidates[path], before[path]), setting(candidates[path], value))
        for path, value in after.items()
        if before[path] != value
    ]
    return answer, changes


def _now(base: Scenario, candidate: Candidate) -> Any:
    """The value an axis has in the scenario that a space turns about."""
    if candidate.row is not None:
        return specs.at_present(base, candidate.path)
    if candidate.path.startswith("tile."):
        return base.tile[int(candidate.path.removeprefix("tile."))]
    return candidate.now
