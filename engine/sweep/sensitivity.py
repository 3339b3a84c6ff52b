"""How much a figure moves when one number of the scenario moves: a tornado.

Exact differences of the estimates they compare.
"""

from dataclasses import dataclass
from math import isfinite

from engine.devices import family
from engine.evaluate import evaluate
from engine.resolve.bind import bind
from engine.resolve.setting import settable
from engine.scenario import Scenario, ScenarioError
from engine.scenario.overrides import apply
from engine.sweep.goals import figure_named
from entries.schema import InputError

_COSTS = ("energy_usd_per_kwh", "pue", "years", "utilisation")


@dataclass(frozen=True)
class Sensitivity:
    """What a figure does when one number falls and rises by a share; None where the changed scenario is refused."""

    path: str
    value: float  # of the number, SI
    base: float  # of the figure
    low: float | None
    high: float | None

    @property
    def width(self) -> float:
        """Largest relative change of the figure. [-]"""
        shifts = [abs(v - self.base) for v in (self.low, self.high) if v is not None]
        return max(shifts, default=0.0) / abs(self.base) if self.base else 0.0


def knobs_of(scenario: Scenario) -> dict[str, float]:
    """Paths of the numbers that may be varied around a scenario, with their values: of specs, links, the cost model and
    prices. [SI]
    """
    bound, costs = bind(scenario), scenario.costs.model_dump()
    numbers = {f"{part}.{path}": quantity.si for part, path, quantity in settable(bound)}
    for device in bound.devices:
        for name, value in family(device.kind).model(device, {}).items():
            numbers.setdefault(f"model.{name}", bound.model.get(name, value))
    numbers |= {f"costs.{name}": costs[name] for name in _COSTS}
    return {path: value for path, value in numbers.items() if value > 0 and isfinite(value)}


def sensitivity(scenario: Scenario, figure: str = "latency_s", share: float = 0.1) -> tuple[Sensitivity, ...]:
    """A tornado of a figure: each number that moves it multiplied by 1 - share and by 1 + share, widest first.

    Exact: both ends are evaluated. The share in [-]. Empty where the scenario has no such figure. ScenarioError for
    a share that is not between 0 and 1 and for an unknown figure.
    """
    if not 0 < share < 1:
        raise ScenarioError(f"share is {share:g}: above 0 and below 1 is allowed")
    base, swings = evaluate(scenario).figure(figure_named(figure, "figure")), []
    if base is None:
        return ()
    for path, value in knobs_of(scenario).items():
        ends: list[float | None] = []
        for factor in (1 - share, 1 + share):
            try:
                ends.append(evaluate(apply(scenario, path, value * factor)).figure(figure))
            except InputError:
                ends.append(None)
        swings.append(Sensitivity(path, value, base, *ends))
    return tuple(sorted((s for s in swings if s.width > 0), key=lambda s: (-s.width, s.path)))
