"""What a scenario's what-ifs change: its pace beside that of the catalog's own parts. Ratios of estimates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from engine.cost.assemble import assemble
from engine.cost.best_plan import make_plan
from engine.devices.common.contract import Unsupported
from engine.resolve.bind import bind
from engine.scenario import Scenario, ScenarioError
from hardware_specs.catalog import Catalog
from hardware_specs.schema import Device
from model_zoo.catalog import Zoo


@dataclass(frozen=True)
class Plain:
    """A scenario without its what-ifs: its pace, and the devices its plan uses."""

    latency_s: float
    units_per_s: float
    devices: tuple[Device, ...]


def plain(scenario: Scenario, catalog: Catalog | None, zoo: Zoo | None) -> Plain | None:
    """The scenario without its what-ifs; None where it can't run so."""
    return _plain(scenario.with_(overrides={}).model_dump_json(), catalog, zoo)


def moved(
    scenario: Scenario, latency_s: float, units_per_s: float, catalog: Catalog | None, zoo: Zoo | None
) -> float | None:
    """Logarithm by which what-ifs move latency or rate, whichever more; None where nothing runs without them. [-]"""
    if not scenario.overrides:
        return 0.0
    before = plain(scenario, catalog, zoo)
    if before is None:
        return None
    return max(abs(math.log(latency_s / before.latency_s)), abs(math.log(units_per_s / before.units_per_s)))


@lru_cache(maxsize=4096)
def _plain(scenario: str, catalog: Catalog | None, zoo: Zoo | None) -> Plain | None:
    try:
        bound = bind(Scenario.model_validate_json(scenario), catalog, zoo)
        times = assemble(bound, make_plan(bound))
    except (ScenarioError, Unsupported):
        return None
    return Plain(times.latency_s, times.units_per_s, tuple(p.stage.device for p in times.priced))
