"""A load that vanishes is the scenario alone: latency, TTFT and TPOT of Load are `evaluate`'s."""

from collections.abc import Iterator

import pytest

from app.shared.load import Load, point
from engine import evaluate
from engine.cost.report import Report
from engine.resolve.choices import default_scenario
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario, encode
from engine.traffic import Poisson, TrafficError, capacity, simulate
from engine.traffic.engines.pass_times import decoder_of
from engine.traffic.scenario_load import is_decoder, priced
from engine.traffic.serving import Serving
from tests.effort import examples
from tests.laws.cost.test_views_agree import random_scenarios

WAYS = (Serving(), Serving(max_batch=1, stream=True), Serving(max_batch=4), Serving(arrangement="stages"))


def _alone(scenario: Scenario) -> Report:
    """What `evaluate` says of one request: a decoder's is one sequence, whatever its batch."""
    return evaluate(scenario.with_(batch=1) if is_decoder(scenario) else scenario)


def _differ(scenario: Scenario, serving: Serving) -> Iterator[tuple[str, float, float | None]]:
    """Times of a load of a ten-thousandth of the capacity that are not those of the scenario alone. [s]"""
    try:
        system, sizes, outputs = serving.of(scenario)
        idle = Poisson(1e-4 * capacity(system, sizes, outputs).qps)
        loaded = simulate(system, idle, sizes=sizes, outputs=outputs, requests=800)
    except TrafficError:  # stages that don't overlap are one station; what does not fit carries no load
        return
    alone = _alone(scenario)
    for name in ("latency", "ttft", "tpot") if is_decoder(scenario) else ("latency",):
        tail, expected = getattr(loaded, name), getattr(alone, f"{name}_s")
        if tail is not None and expected is not None and tail.p50.value != pytest.approx(expected, rel=1e-7):
            yield name, tail.p50.value, expected


def test_a_load_that_vanishes_takes_what_evaluate_says_of_every_preset() -> None:
    wrong = [
        (id, serving.arrangement, serving.max_batch, *found)
        for id, preset in PRESETS.items()
        for serving in WAYS
        for found in _differ(preset.scenario, serving)
    ]
    assert wrong == []


def test_a_decoder_that_is_served_token_by_token_takes_what_evaluate_says_at_random() -> None:
    """Its steps are tabled at some contexts alone; those of a pipeline with layers dealt unevenly are as slow as the
    slowest, so it is left out."""
    wrong, seen = [], 0
    for scenario in random_scenarios(examples(400), 6):
        if not is_decoder(scenario) or scenario.outputs == 1 or len(priced(scenario)[1].stages) > 1:
            continue
        seen += 1
        wrong += [(scenario.system, scenario.workload, *found) for found in _differ(scenario, WAYS[1])]
    assert wrong == []
    assert seen > 3


@pytest.mark.parametrize(("inputs", "outputs"), [(32, 64), (1000, 17)])
@pytest.mark.parametrize("system", ["xeon-8280l", "xeon-e5-2650"])
def test_streams_that_wait_for_dram_from_a_context_on_take_what_evaluate_says(system, inputs, outputs) -> None:
    """All operators of a step wait there, those that read no context too."""
    scenario = default_scenario(system, "gpt2-345m").with_(streams=4, inputs=inputs, outputs=outputs)
    assert list(_differ(scenario, WAYS[1])) == []


def test_the_page_names_the_latency_of_evaluate_at_a_load_that_vanishes() -> None:
    for preset in PRESETS.values():
        load = Load(encode(preset.scenario))
        system, sizes, outputs = load.system()
        top = capacity(system, sizes, outputs)
        shown = point(load, 1e-4 * top.qps, top)
        assert shown.figures["p50"] == pytest.approx(_alone(preset.scenario).latency_s, rel=1e-7)


def test_requests_shorter_than_the_scenarios_own_have_a_table_too() -> None:
    scenario = PRESETS["dfx-345m"].scenario
    short = decoder_of(scenario, 1, scenario.inputs // 2)
    usual = decoder_of(scenario)
    assert short.longest == scenario.inputs // 2
    assert short.times.contexts[-1] == short.longest - 1
    step = [engine.times.decode[0] + engine.times.head[0] + engine.times.attention[0, 0] for engine in (short, usual)]
    assert step[0] == pytest.approx(step[1], rel=0.01)
