"""Two numbers of a part of which the lesser never exceeds the greater: what is refused, and beside what it is not."""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest
from pydantic import BaseModel

from engine import default_scenario, evaluate
from engine.resolve.bind import named
from engine.resolve.choices import why_not
from engine.scenario import Scenario, ScenarioError
from engine.scenario.overrides import apply
from engine.sweep import price, space_of
from hardware_specs import default_catalog
from model_zoo.catalog import default_zoo

CLOCK = "devices.0.card.clock"


def _pairs(node: object, path: str) -> Iterator[tuple[str, str, str]]:
    """Every pair below a spec of which both numbers are there: its record's path, the lesser and the greater."""
    if isinstance(node, tuple):
        for item in node:
            yield from _pairs(item, f"{path}.{getattr(item, 'name', '')}")
    elif isinstance(node, BaseModel):
        for low, high in getattr(node, "order", ()):
            if None not in (getattr(node, low), getattr(node, high)):
                yield path, low, high
        for name in type(node).model_fields:
            yield from _pairs(getattr(node, name), f"{path}.{name}")


def test_what_is_least_above_what_is_most_is_refused_in_one_sentence_on_every_part() -> None:
    seen, loose = set(), []
    for system in default_catalog().ids("systems"):
        workload = next((id for id in default_zoo().ids() if why_not(system, id) is None), None)
        if workload is None:
            continue
        scenario = default_scenario(system, workload)
        for path, low, high in _pairs(named(scenario).device, "devices.0"):
            seen.add((path.rpartition(".")[0], low, high))
            least, most = (_si(scenario, path, name) for name in (low, high))
            for turned, value in [(low, 2 * most + 1)] + [(high, least / 2)] * (least > 0):
                with suppress(ScenarioError):
                    named(apply(scenario, f"{path}.{turned}", value))
                    loose.append((system, path, turned, value))
    assert loose == []
    assert {("devices.0.card", "min", "max"), ("devices.0", "idle", "max")} <= seen


def _si(scenario: Scenario, path: str, name: str) -> float:
    """A number of the scenario's first device. [SI]"""
    node = named(scenario).device
    for step in path.split(".")[2:]:
        node = next(i for i in node if i.name == step) if isinstance(node, tuple) else getattr(node, step)
    return getattr(node, name).si


def test_a_clock_below_its_minimum_is_refused_by_name_and_a_lower_minimum_makes_room() -> None:
    scenario = default_scenario("fb-node", "resnet50")
    slow = scenario.with_(overrides={f"{CLOCK}.max": "100 MHz"})
    with pytest.raises(ScenarioError, match=r"clock\.max = 100 MHz: `min` is 305.* and exceeds `max`.* 100 MHz"):
        evaluate(slow)
    assert evaluate(slow.with_(overrides={f"{CLOCK}.max": "100 MHz", f"{CLOCK}.min": "80 MHz"})).fits


@pytest.mark.parametrize("lows", [[1e8, 4e8], [3.5e8, 4e8]])
def test_a_sweep_refuses_the_crossed_designs_of_two_axes_and_prices_the_others(lows: list[float]) -> None:
    highs = [3.5e8, 8e8]
    scenario = {"system": "fb-node", "workload": "resnet50"}
    space = space_of({"scenario": scenario, "axes": {f"{CLOCK}.min": lows, f"{CLOCK}.max": highs}})
    refused = price(space)[1]
    assert refused.reshape(2, 2).tolist() == (np.array(lows)[:, None] > np.array(highs)).tolist()
