"""How much each figure moves when one number of the scenario moves: a tornado, and elasticities.

Exact differences of the estimates they compare.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, log

from engine.cost.report import Report
from engine.devices import family
from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.resolve.bind import Bound, bind
from engine.resolve.setting import settable
from engine.scenario import Scenario, ScenarioError
from engine.scenario.overrides import apply
from engine.sweep.goals import figure_named

_COSTS = ("energy_usd_per_kwh", "pue", "years", "utilisation")


@dataclass(frozen=True)
class Sensitivity:
    """What a figure does when one number falls and rises by a share; None where the changed scenario is refused."""

    path: str
    value: float  # of the number, SI
    base: float  # of the figure
    low: float | None
    high: float | None
    elasticity: float | None  # d ln(figure) / d ln(number), central difference [-]

    @property
    def width(self) -> float:
        """Largest relative change of the figure. [-]"""
        moved = [abs(v - self.base) for v in (self.low, self.high) if v is not None]
        return max(moved, default=0.0) / abs(self.base) if self.base else 0.0


def _numbers(bound: Bound) -> dict[str, float]:
    """Every number of a bound scenario that a setting reaches: specs, links, model parameters, prices. [SI]"""
    numbers = {f"{part}.{path}": quantity.si for part, path, quantity in settable(bound)}
    for device in bound.devices:
        for name, value in family(device.kind).model(device, {}).items():
            numbers.setdefault(f"model.{name}", bound.model.get(name, value))
    costs = bound.scenario.costs.model_dump()
    return numbers | {f"costs.{name}": costs[name] for name in _COSTS}


def knobs_of(scenario: Scenario) -> dict[str, float]:
    """Paths of the numbers that may be varied around a scenario, with their values. [SI]"""
    return {k: v for k, v in _numbers(bind(scenario)).items() if v > 0 and isfinite(v)}


def sensitivity(
    scenario: Scenario,
    figures: Sequence[str] = ("latency_s", "throughput_per_s", "throughput_per_w", "usd_per_million"),
    paths: Sequence[str] | None = None,
    share: float = 0.1,
) -> dict[str, tuple[Sensitivity, ...]]:
    """A tornado for each figure: numbers multiplied by 1 - share and 1 + share one at a time, widest swing first.

    The share in [-]. ScenarioError for a share that is not between 0 and 1, an unknown figure or a path that is no
    positive number.

    Parameters
    ----------
    paths : numbers to move, each a path of `engine.scenario.overrides.apply`; every one that moves a figure when left
    out. share : above 0 and below 1.

    Each swing is exact (both ends are evaluated); an elasticity is a local estimate from them.
    """
    if not 0 < share < 1:
        raise ScenarioError(f"share is {share:g}: above 0 and below 1 is allowed")
    for name in figures:
        figure_named(name, "figure")
    base, known = evaluate(scenario), knobs_of(scenario)
    for path in paths or ():
        if path not in known:
            raise ScenarioError(f"{path[:80]}: not a positive number of this scenario")
    by_figure: dict[str, list[Sensitivity]] = {name: [] for name in figures}
    for path in paths or known:
        ends: list[Report | None] = []
        for factor in (1 - share, 1 + share):
            try:
                ends.append(evaluate(apply(scenario, path, known[path] * factor)))
            except (ScenarioError, Unsupported):
                ends.append(None)
        for name in figures:
            start = base.figure(name)
            if start is None:
                continue
            low, high = (None if end is None else end.figure(name) for end in ends)
            slope = None
            if low is not None and high is not None and low > 0 and high > 0:
                slope = (log(high) - log(low)) / (log(1 + share) - log(1 - share))
            swing = Sensitivity(path, known[path], start, low, high, slope)
            if paths or swing.width > 0:
                by_figure[name].append(swing)
    return {name: tuple(sorted(swings, key=lambda s: (-s.width, s.path))) for name, swings in by_figure.items()}
