"""The timeline of a request goes as the request does: messages between stages, tokens, layers and steps in turn."""

from itertools import pairwise

import pytest

from engine.cost.timeline import SHOWN, TRACED, request
from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.resolve.presets import PRESETS
from engine.traffic.scenario_load import priced

SCENARIOS = {id: preset.scenario for id, preset in PRESETS.items()}
SCENARIOS["four GPUs"] = default_scenario("h100-sxm", "llama3.1-8b", devices=4, scheme="tensor", inputs=64, outputs=8)


@pytest.mark.parametrize("id", SCENARIOS)
def test_what_happens_stands_where_it_happens(id):
    _, plan, times = priced(SCENARIOS[id])
    report = evaluate(SCENARIOS[id])
    for most in (100, SHOWN, TRACED):
        spans = request(times, most)
        assert spans[0].start_s == 0.0
        assert all(a.start_s + a.duration_s == pytest.approx(b.start_s, abs=1e-12) for a, b in pairwise(spans))
        assert spans[-1].start_s + spans[-1].duration_s == pytest.approx(report.latency_s, rel=1e-9)
        for resource, seconds in report.breakdown.items():
            assert sum(s.duration_s for s in spans if s.resource == resource) == pytest.approx(seconds, abs=1e-12)
        assert len(spans) <= max(most, SHOWN) + len(times.hops)
    names, ends, place = [span.name for span in report.lanes], {}, 0
    for at, stage in enumerate(times.priced):  # of each stage where its bars begin and end
        mine = {op.name for run in stage.runs for op in run.job.ops}
        here = [i for i in range(place, len(names)) if names[i].rpartition(", ")[2] in mine or names[i] in mine]
        ends[at] = (here[0], here[-1]) if here else (place, place)
        place = ends[at][1]
    for hop, seconds in times.hops:
        if seconds > 0.0 and hop.name in names and len(plan.stages) == len(times.priced):
            i = names.index(hop.name)
            assert hop.after == 0 or i > ends[hop.after - 1][1], hop.name
            assert hop.after == len(times.priced) or i < ends[hop.after][0], hop.name


def test_tokens_layers_and_exchanges_follow_each_other():
    """A token's layers one after the other, each with its own sums between the operators that need them."""
    _, _, times = priced(SCENARIOS["four GPUs"])
    names = [span.name for span in request(times, TRACED)]
    first = names.index("layer 1, attention-out")
    assert names.index("layer 1, all-reduce after attention-out") in range(first + 1, first + 4)
    assert names.index("layer 1, all-reduce after down") < names.index("layer 2, qkv")
    assert names[0] == "input"
    assert names[-1] == "output"
    tokens = [names.index(f"decode {token}, layer 1, qkv") for token in range(1, 8)]
    assert tokens == sorted(tokens)
    assert tokens[0] > names.index("layer 32, qkv")


def test_dfx_synchronises_inside_its_layers():
    names = [span.name for span in request(priced(SCENARIOS["dfx-1.5b"])[2], TRACED)]
    inside = ("qkv", "context", "ring sync after context", "attention-out", "fc1", "ring sync after fc1")
    order = [names.index(f"decode 2, layer 3, {name}") for name in inside]
    assert order == sorted(order)
    assert names[0] == "input"


def test_steps_of_a_recurrence_follow_each_other():
    names = [span.name for span in request(priced(SCENARIOS["brainwave-gru"])[2], TRACED)]
    steps = [i for i, name in enumerate(names) if name.startswith("step ")]
    assert names[steps[0]].startswith("step 1,")
    assert len({name.split(",")[0] for name in names if name.startswith("step ")}) > 100
