"""What a scenario's what-ifs change beside the catalog's own parts, and which settings change nothing.

Ratios and exact differences of estimates.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from engine.cost.assemble import Figures, Schedule, figures_of
from engine.cost.best_plan import make_plan
from engine.cost.error_bands import ErrorBand, error_band
from engine.cost.layout import METRICS, RATE
from engine.devices.common.contract import Unsupported
from engine.plan.schemes import Plan
from engine.resolve.bind import bind
from engine.resolve.bound import Bound
from engine.resolve.check import fixed_lengths
from engine.resolve.setting import label, without_reader
from engine.scenario import Scenario, ScenarioError
from engine.scenario.fields import BY_FAMILY
from hardware_specs.catalog import Catalog
from hardware_specs.schema import Device
from model_zoo.catalog import Zoo

_PACE = METRICS[: RATE + 1]
_MONEY = ("capex_usd", "throughput_per_usd", "usd_per_million")


def plain(scenario: Scenario, catalog: Catalog | None, zoo: Zoo | None) -> tuple[Figures, tuple[Device, ...]] | None:
    """The scenario without its what-ifs, and the devices of its plan's stages; None where it can't run so."""
    return _plain(scenario.with_(overrides={}).model_dump_json(), catalog, zoo)


def shift(
    scenario: Scenario, latency_s: float, units_per_s: float, catalog: Catalog | None, zoo: Zoo | None
) -> float | None:
    """Logarithm by which what-ifs move latency or rate, whichever more; None where nothing runs without them. [-]"""
    if not scenario.overrides:
        return 0.0
    base = plain(scenario, catalog, zoo)
    if base is None:
        return None
    before = base[0]
    return max(abs(math.log(latency_s / before.latency_s)), abs(math.log(units_per_s / before.units_per_s)))


def band_of(bound: Bound, plan: Plan, figures: Figures) -> ErrorBand:
    """Error band of a priced plan, wider by what its what-ifs move. [-]"""
    far = shift(bound.scenario, figures.latency_s, figures.units_per_s, bound.catalog, bound.zoo)
    devices = [stage.device for stage in plan.stages]
    return error_band(bound.scenario, bound.workload.family, bound.graph, devices, figures.bound_by, far)


@lru_cache(maxsize=4096)
def _plain(scenario: str, catalog: Catalog | None, zoo: Zoo | None) -> tuple[Figures, tuple[Device, ...]] | None:
    try:
        bound = bind(Scenario.model_validate_json(scenario), catalog, zoo)
        plan = make_plan(bound)
        return figures_of(bound, plan), tuple(stage.device for stage in plan.stages)
    except (ScenarioError, Unsupported):
        return None


def without_effect(times: Schedule) -> list[str]:
    """A sentence for each setting of a priced scenario that moves no time, rate, power, energy or price.

    Each what-if, network parameter, switch, tile, layer format and field of some families alone is set back to the
    catalog's value or the default, lengths that the network has none of and devices that its plan leaves idle too, and
    the scenario priced again. A part that a what-if changes has no price
    (`engine.scenario.overrides.without_figure`): that alone is no effect of hardware. Cores of a host that has enough
    of them move its power alone, which is a sentence too.
    """
    bound, sentences = times.bound, []
    for path, value, back in _settings(times):
        with_money = path.endswith(".price") or not path.startswith(("devices.", "host.", "links.", "system."))
        names = [name for name in METRICS if with_money or name not in _MONEY]
        try:
            base = bind(back, bound.catalog, bound.zoo)
            plain = figures_of(base, make_plan(base))
        except (ScenarioError, Unsupported):
            continue  # it does not run without
        setting = f"{label(bound, path)} = {f'{value:g}' if isinstance(value, float) else value}"
        changes = {name for name in names if times.figure(name) != plain.figure(name)}
        if changes and path.removeprefix("system.") == "host.cpu.cores" and changes.isdisjoint(_PACE):
            busy = times.draw("host_s") * times.requests_per_s
            enough = f"of its cores, and {math.ceil(busy)} would be enough; no time or rate moves"
            sentences.append(f"Only power follows {setting}: this rate is work for {busy:.2g} {enough}.")
        if not changes:
            why = without_reader(bound, path)
            clause = f"is the same without it{f', as this is {why}' if why else ''}"
            sentences.append(f"No effect here: {setting}; every time, rate, power and price {clause}.")
    return sentences


def _settings(times: Schedule) -> Iterator[tuple[str, Any, Scenario]]:
    """Path and value of each setting that is not the default, and the scenario with it set back."""
    bound, s = times.bound, times.bound.scenario
    usual = {"switches": {switch.name: switch.default for switch in bound.family.switches}}
    usual["layers"] = dict.fromkeys(s.layers, s.precision)
    for field in ("overrides", "params", "switches", "layers"):
        settings = getattr(s, field)
        for name, value in settings.items():
            if value != usual.get(field, {}).get(name):
                path = name if field == "overrides" else f"{field}.{name}"
                text = ("on" if value else "off") if field == "switches" else value
                yield path, text, s.with_(**{field: {k: v for k, v in settings.items() if k != name}})
    plain: dict[str, Any] = {"tile": ()} | dict.fromkeys(of.path for of in BY_FAMILY)
    for path, usual_value in (plain | fixed_lengths(bound.zoo, s.workload)).items():
        if (value := getattr(s, path)) != usual_value:
            text = "x".join(map(str, value)) if path == "tile" else value
            yield path, text, s.with_(**{path: usual_value})
    group = bound.system.devices[0]
    count = min(group.counts or (group.count,))
    if max(count, sum(times.plan.devices_used)) < s.devices:
        yield "devices", s.devices, s.with_(devices=count)
