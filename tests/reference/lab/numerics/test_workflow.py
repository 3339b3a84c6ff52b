"""The mixed-precision workflow on kernels: layers equal their definition, plans hold their metric and fit scenarios."""

import json
from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest

from engine.cli.main import main
from engine.evaluate import evaluate
from engine.lab.numerics.metrics import normalised_entropy
from engine.lab.numerics.small_models import LAYER_FORMATS, QuantisedLayer, QuantisedTables, recommender
from engine.lab.numerics.workflow import BOUND, NAME, WORKLOAD, WorkflowResult, in_scenario, study
from engine.numerics.formats import Integer, NumericsError, by_name
from engine.resolve.choices import default_scenario
from engine.scenario import decode

TIGHT = 1e-5
RNG = np.random.default_rng(5)
FEW = partial(recommender, items=6_000)  # a fifth of each split: the network is trained as the page's
pytestmark = pytest.mark.timeout(1800)  # the first run compiles kernels and trains


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr("engine.lab.numerics.workflow.recommender", FEW)


def timed_by_bits(run, clock, repeats):
    """Each operator takes the bits of an element: the order of the search is the same on every host."""
    return SimpleNamespace(median={"int4": 4.0, "int8": 8.0, "fp16": 16.0}[run.args[-1]])


@cache
def found_by(bound: float = BOUND) -> WorkflowResult:
    """What the study finds where times follow the bits: which step comes first must not hang on this host."""
    with patch("engine.lab.numerics.workflow.sample", timed_by_bits):
        return study(bound=bound)


@pytest.mark.parametrize("format", LAYER_FORMATS)
def test_a_layer_on_kernels_is_its_definition(format):
    x, w = RNG.standard_normal((33, 70)).astype(np.float32), RNG.standard_normal((70, 41)).astype(np.float32)
    b = RNG.standard_normal(41).astype(np.float32)
    done = QuantisedLayer(w, b).run(x, format)
    if format == "int8":
        low, high = (np.float32(end) for end in (x.min(), x.max()))
        step = (high - low) / np.float32(255)
        zero = np.rint(-low / step)
        x = (np.clip(np.rint(x / step) + zero, 0, 255) - zero) * step
        w = Integer(8, granularity="channel").apply(w)
        close = 2e-5
    else:
        x, w = by_name(format).apply(x), by_name(format).apply(w)
        close = 2e-3 if format == "fp16" else 1e-4  # the sum itself is rounded to fp16
    want = x.astype(np.float64) @ w + b
    assert np.abs(done - want).max() <= close * np.abs(want).max()


def test_a_static_range_clips_what_was_not_seen():
    layer = QuantisedLayer(np.eye(4, dtype=np.float32), np.zeros(4, np.float32))
    layer.observe(np.array([[0.0, 1.0, -1.0, 0.5]], np.float32))
    far = layer.run(np.array([[9.0, 0.5, -9.0, 0.0]], np.float32), "int8")
    assert far == pytest.approx(np.array([[1, 0.5, -1, 0]]), abs=0.01)


@pytest.mark.parametrize("format", ["int4", "int8", "fp16", "fp32"])
def test_tables_sum_the_rows_they_store(format):
    values = RNG.standard_normal((2, 50, 16)).astype(np.float32)
    index = RNG.integers(0, 50, (7, 3))
    found = QuantisedTables(values).bags(1, index, format)
    bound = {"int4": 0.4, "int8": 0.03, "fp16": 2e-3, "fp32": 1e-6}[format] * 3
    assert np.abs(found - values[1][index].sum(1)).max() <= bound


def test_unknown_formats_studies_and_bounds_are_refused():
    with pytest.raises(NumericsError, match="int8, bf16, fp16, fp32"):
        QuantisedLayer(np.eye(2, dtype=np.float32), np.zeros(2)).run(np.eye(2, dtype=np.float32), "int3")
    for arguments in (("speech",), (NAME, 2.0), (NAME, 0.02, "fp32")):
        with pytest.raises(NumericsError, match="allowed"):
            study(*arguments)


def test_the_networks_have_learnt():
    model, splits = FEW()
    held = splits["held_out"]
    assert normalised_entropy(held.labels, model.run(held, {})) < 0.97


def test_a_plan_holds_the_metric_on_data_no_move_has_seen():
    found = found_by()
    steps = found.plan.steps
    assert found.plan.holds
    assert steps[-1].held_out_loss <= found.bound == BOUND
    assert found.untouched_loss <= found.bound
    assert all(step.tuning_loss > found.bound or step.held_out_loss > found.bound for step in steps[:-1])
    planned = in_scenario(found, default_scenario("fb-node", WORKLOAD)).with_(batch=64)  # where work outweighs starts
    assert planned.layers == found.layers
    low, wide = (evaluate(planned.with_(layers={}, precision=p)).latency_s for p in ("int8", "fp16"))
    assert low * (1 - 1e-9) <= evaluate(planned).latency_s <= wide * (1 + 1e-9)


def test_the_times_of_a_plan_are_measured():
    plan = study(repeats=1).plan
    assert plan.holds
    assert all(0 < step.time_s < 10 for step in plan.steps)


def test_a_tighter_metric_raises_precision():
    loose, tight = found_by(), found_by(TIGHT)
    assert (tight.layers, tight.table_bits) != (loose.layers, loose.table_bits)
    assert len(tight.layers) >= len(loose.layers)
    assert tight.table_bits >= loose.table_bits
    assert abs(tight.untouched_loss) < abs(loose.untouched_loss)
    assert {step.operator for step in tight.plan.steps[1:]} <= set(tight.plan.precision)


def test_a_bound_is_met_on_data_no_step_has_seen_or_it_is_not_met(capsys, monkeypatch):
    """It was "met" at seven times the bound, and every own error was 0."""
    found = found_by(TIGHT)
    assert replace(found, untouched_loss=found.bound).holds
    assert not replace(found, plan=replace(found.plan, holds=False), untouched_loss=0.0).holds
    worse = replace(found, untouched_loss=7 * found.bound)
    assert worse.plan.holds
    assert not worse.holds
    monkeypatch.setattr("engine.lab.numerics.workflow.study", lambda *_: worse)
    assert main(["plan", NAME, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert not data["met"]
    assert data["steps"][0]["own_error"] is None
    assert len(data["steps"]) > 1
    assert all(step["own_error"] > 0 for step in data["steps"][1:])
    assert main(["plan", NAME]) == 0
    assert f"not met; on data no step has seen: {700 * TIGHT:.4g}%" in capsys.readouterr().out


def test_the_command_prints_the_plan_with_errors_and_times(capsys, monkeypatch):
    asked = []

    def noted(*given):
        asked.append(given)
        return found_by() if given[0] == NAME else study(*given)

    monkeypatch.setattr("engine.lab.numerics.workflow.study", noted)
    assert main(["plan", NAME, "--json", "--repeats", "1"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["met"]
    assert data["steps"][0].keys() == {"operator", "precision", "own_error", "tuning_loss", "held_out_loss", "time_s"}
    planned = decode(data["token"])
    assert set(planned.layers) == {op for op, format in data["precision"].items() if format == "fp16"}
    assert main(["plan", "speech"]) == 2
    assert "allowed: recommendation\n" in capsys.readouterr().err
    assert main(["plan", NAME]) == 0
    assert asked == [(NAME, BOUND, "fp16", 1), ("speech", BOUND, "fp16", 5), (NAME, BOUND, "fp16", 5)]
    told = capsys.readouterr().out
    assert "own error" in told
    assert "met; on data no step has seen" in told
