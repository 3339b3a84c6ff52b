"""A long wire is not a narrow one: what a message waits on its way keeps nothing else from following it."""

import pytest

from engine import default_scenario, evaluate
from engine.cost.best_plan import make_plan
from engine.resolve.bind import bind
from engine.resolve.presets import PRESETS

SPLIT = default_scenario("edge-core", "mobilenet-v1", scheme="split", split=20)
PIPELINED = [SPLIT, *(preset.scenario for preset in PRESETS.values())]


def test_latency_of_a_wire_takes_nothing_of_the_rate() -> None:
    turned = 0
    for scenario in PIPELINED:
        plan = make_plan(bind(scenario))
        shared = {stage.wire.role for stage in plan.stages if stage.wire is not None and stage.ways > 1}
        before = evaluate(scenario)
        for role in {hop.wire.role for hop in plan.hops} - {"memory", "path"} - shared if plan.pipelined else ():
            longer = evaluate(scenario.with_(overrides={**scenario.overrides, f"links.{role}.latency": "1 s"}))
            assert longer.latency_s > before.latency_s + 0.9, (scenario.system, scenario.workload, role)
            assert longer.throughput_per_s == pytest.approx(before.throughput_per_s, rel=1e-12)
            turned += 1
    assert turned > 10


@pytest.mark.parametrize(("system", "path_s"), [("xeon-e5-1630v3", 190e-6), ("agilio-cx", 35e-6)])
def test_a_requests_way_through_the_network_occupies_no_executor(system: str, path_s: float) -> None:
    alone = default_scenario(system, "binary-mlp-mnist")
    without, there = (evaluate(alone.with_(switches={**alone.switches, "network": on})) for on in (False, True))
    assert there.latency_s == pytest.approx(without.latency_s + path_s)
    assert there.throughput_per_s == without.throughput_per_s
