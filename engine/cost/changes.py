"""What a scenario's what-ifs move: its pace beside that of the catalog's own parts."""

from __future__ import annotations

import math
from functools import lru_cache

from engine.cost.best_plan import make_plan
from engine.cost.schedule import Schedule, schedule
from engine.devices.common.contract import Unsupported
from engine.resolve.bind import bind
from engine.scenario import Scenario, ScenarioError
from hardware_specs.catalog import Catalog
from model_zoo.catalog import Zoo

__all__ = ["moved"]


def moved(scenario: Scenario, times: Schedule, catalog: Catalog | None, zoo: Zoo | None) -> float | None:
    """Logarithm by which what-ifs move latency or rate, whichever more; None where nothing runs without them. [-]"""
    if not scenario.overrides:
        return 0.0
    plain = _paces(scenario.with_(overrides={}).model_dump_json(), catalog, zoo)
    if plain is None:
        return None
    return max(abs(math.log(now / before)) for now, before in zip(_pace(times), plain, strict=True))


def _pace(times: Schedule) -> tuple[float, float]:
    return times.latency_s, times.units_per_s


@lru_cache(maxsize=64)
def _paces(scenario: str, catalog: Catalog | None, zoo: Zoo | None) -> tuple[float, float] | None:
    """Latency [s] and rate [1/s] of a scenario; None where it can't run."""
    try:
        bound = bind(Scenario.model_validate_json(scenario), catalog, zoo)
        return _pace(schedule(bound, make_plan(bound)))
    except (ScenarioError, Unsupported):
        return None
