"""Document 002: the TensorFlow pair fits two constants, the MXNet pair is predicted with them."""

import pytest

from engine.evaluate import evaluate
from engine.published import fit_claims, predictions
from engine.scenario import Scenario


def scenario(framework: str, precision: str) -> Scenario:
    """TensorFlow: 28 batches of 512 in flight, one per core. MXNet: one batch of 1024 over all cores."""
    batch, streams = (512, 28) if framework == "tensorflow" else (1024, 1)
    return Scenario(system="xeon-8280l", workload="wide-deep-criteo", batch=batch, streams=streams, precision=precision)


def test_what_was_fitted_is_calibration():
    assert {id for id in fit_claims() if id.startswith("WD-")} == {"WD-008", "WD-010", "WD-011", "WD-014", "WD-017"}


def test_headline_int8_rate_within_five_percent():
    assert predictions()[0]["WD-011"].value() == pytest.approx(1_210_949, rel=0.05)


def test_the_gain_is_amdahl_s_not_the_units():
    """VNNI is four times FP32 in the products; everything else keeps its time, so the whole gains about two."""
    both = {p: evaluate(scenario("tensorflow", p)) for p in ("fp32", "int8")}
    products = {p: sum(o.time_s for o in r.ops if o.kind == "Gemm") for p, r in both.items()}
    assert products["fp32"] / products["int8"] > 3.5
    assert 1.9 < both["fp32"].latency_s / both["int8"].latency_s < 2.4


def test_little_s_law_gives_the_batch_latency():
    r = evaluate(scenario("tensorflow", "int8"))
    assert r.throughput_per_s * r.latency_s == pytest.approx(28 * 512)


def test_optimisations_of_the_graph_add_up_step_by_step():
    """From the graph as trained to the graph as served: each step may only help."""
    steps = ("preprocess-apart", "prune", "fuse-gathers", "fuse", "fuse-requantise")
    off = dict.fromkeys(steps, False)
    rates = [evaluate(scenario("tensorflow", "int8").with_(switches=off)).throughput_per_s]
    for step in steps:
        off[step] = True
        rates.append(evaluate(scenario("tensorflow", "int8").with_(switches=off)).throughput_per_s)
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(predictions()[0]["WD-011"].value())
    assert rates[-1] > 1.3 * rates[0]
