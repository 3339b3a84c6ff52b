"""The mixed-precision workflow on kernels: layers equal their definition, plans hold their metric and fit scenarios."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from engine.cli.main import main
from engine.evaluate import evaluate
from engine.lab.numerics.metrics import normalised_entropy
from engine.lab.numerics.quantised import LAYER_FORMATS, QuantisedLayer, QuantisedTables
from engine.lab.numerics.small_models import encoder, recommender
from engine.lab.numerics.workflow import STUDIES, WorkflowResult, in_scenario, study
from engine.numerics.formats import Integer, NumericsError, by_name
from engine.resolve.choices import default_scenario
from engine.scenario import decode

RNG = np.random.default_rng(5)
pytestmark = pytest.mark.timeout(1800)  # the first run compiles kernels and trains


@cache
def found_by(name: str, bound: float | None = None) -> WorkflowResult:
    """What a study finds, each timed three times: one wait for a busy machine must not decide."""
    return study(name, bound, repeats=3)


@pytest.mark.parametrize("format", LAYER_FORMATS)
def test_a_layer_on_kernels_is_its_definition(format):
    x, w = RNG.standard_normal((33, 70)).astype(np.float32), RNG.standard_normal((70, 41)).astype(np.float32)
    b = RNG.standard_normal(41).astype(np.float32)
    done = QuantisedLayer(w, b).run(x, format)
    if format == "int8":
        x = Integer(8, symmetric=False).apply(x)
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
    for arguments in (("speech",), ("text", 2.0), ("text", 0.02, "fp32")):
        with pytest.raises(NumericsError, match="allowed"):
            study(*arguments)


def test_the_networks_have_learnt():
    model, splits = recommender()
    held = splits["held_out"]
    assert normalised_entropy(held.labels, model.run(held, {})) < 0.97
    text, sentences = encoder()
    one = text.run(sentences["tuning"], {})
    assert np.isfinite(one).all()
    assert one.shape[0] == 48


@pytest.mark.parametrize("name", STUDIES)
def test_a_plan_holds_the_metric_on_data_no_move_has_seen(name):
    found = found_by(name)
    steps = found.plan.steps
    assert found.plan.met
    assert steps[-1].held_out_loss <= found.bound == STUDIES[name].bound
    assert found.untouched_loss <= found.bound
    assert all(step.time > 0 for step in steps)
    assert all(step.tuning_loss > found.bound or step.held_out_loss > found.bound for step in steps[:-1])
    workload = STUDIES[name].workloads[0]
    system = "fb-node" if "dlrm" in workload else "fb-card"
    planned = in_scenario(found, default_scenario(system, workload)).with_(batch=64)  # where work outweighs starts
    assert planned.layers == found.layers
    low, wide = (evaluate(planned.with_(layers={}, precision=p)).latency_s for p in ("int8", "fp16"))
    assert low * (1 - 1e-9) <= evaluate(planned).latency_s <= wide * (1 + 1e-9)


def test_a_tighter_metric_raises_precision():
    loose, tight = found_by("text"), found_by("text", 2e-3)
    assert len(tight.layers) > len(loose.layers)
    assert tight.untouched_loss < loose.untouched_loss
    assert {step.operator for step in tight.plan.steps[1:]} <= set(tight.plan.precision)


def test_a_bound_is_met_on_data_no_step_has_seen_or_it_is_not_met(capsys, monkeypatch):
    """It was "met" at seven times the bound, and every own error was 0."""
    found = found_by("text", 2e-3)
    assert found.met
    worse = replace(found, untouched_loss=7 * found.bound)
    assert worse.plan.met
    assert not worse.met
    monkeypatch.setattr("engine.lab.numerics.workflow.study", lambda *_: worse)
    assert main(["plan", "text", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert not data["met"]
    assert data["steps"][0]["own_error"] is None
    assert len(data["steps"]) > 1
    assert all(step["own_error"] > 0 for step in data["steps"][1:])
    assert main(["plan", "text"]) == 0
    assert "not met; on data no step has seen: 1.4%" in capsys.readouterr().out


def test_the_command_prints_the_plan_with_errors_and_times(capsys, monkeypatch):
    asked = []
    monkeypatch.setattr("engine.lab.numerics.workflow.study", lambda *given: asked.append(given) or found_by(given[0]))
    assert main(["plan", "text", "--json", "--repeats", "1"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["met"]
    assert data["steps"][0].keys() == {"operator", "precision", "own_error", "tuning_loss", "held_out_loss", "time_s"}
    planned = decode(data["token"])
    assert set(planned.layers) == {op for op, format in data["precision"].items() if format == "fp16"}
    assert main(["plan", "speech"]) == 2
    assert "allowed: recommendation, text\n" in capsys.readouterr().err
    assert main(["plan", "text"]) == 0
    assert asked == [("text", None, "fp16", 1), ("speech", None, "fp16", 5), ("text", None, "fp16", 5)]
    told = capsys.readouterr().out
    assert "own error" in told
    assert "met; on data no step has seen" in told
