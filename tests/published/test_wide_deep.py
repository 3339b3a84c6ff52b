"""Document 002: TensorFlow's INT8 rate is that of calls that take turns; the other rates are predicted with it."""

from itertools import pairwise, product

import pytest

from engine.evaluate import evaluate
from engine.published import fit_claims, predictions
from engine.scenario import Scenario


def scenario(framework: str, precision: str) -> Scenario:
    """TensorFlow: 28 batches of 512 in flight, one per core. MXNet's oneDNN: one batch of 1024 over all cores."""
    batch, streams = (512, 28) if framework == "tensorflow" else (1024, 1)
    size = {"batch": batch, "streams": streams, "precision": precision, "runtime": framework}
    return Scenario(system="xeon-8280l", workload="wide-deep-criteo", **size)


def test_what_was_fitted_is_calibration():
    """All four printed rates were in view when the call's time was chosen; the rest follows from them."""
    rates, follow = {f"WD-{number:03}" for number in range(10, 14)}, {"WD-008", "WD-014", "WD-015", "WD-017"}
    assert {id for id in fit_claims() if id.startswith("WD-")} == rates | follow


def test_headline_int8_rate_within_five_percent():
    assert predictions()["WD-011"].value() == pytest.approx(1_210_949, rel=0.05)


def test_the_gain_is_amdahl_s_not_the_units():
    """VNNI is four times FP32 in the products; calls take turns, so the whole gains about two."""
    both = {p: evaluate(scenario("tensorflow", p)) for p in ("fp32", "int8")}
    products = {p: sum(o.time_s - o.resources["overhead"] for o in r.ops if o.kind == "Gemm") for p, r in both.items()}
    assert products["fp32"] / products["int8"] > 3.5
    assert 1.9 < both["fp32"].latency_s / both["int8"].latency_s < 2.4


def test_little_s_law_gives_the_batch_latency():
    r = evaluate(scenario("tensorflow", "int8"))
    assert r.throughput_per_s * r.latency_s == pytest.approx(28 * 512)


def test_a_batch_that_waits_for_calls_says_so():
    """In INT8 the calls of 28 streams last longer than a batch computes; in FP32, and of one stream, they do not."""
    reports = {
        (framework, precision): evaluate(scenario(framework, precision))
        for framework, precision in product(("tensorflow", "onednn-graph"), ("fp32", "int8"))
    }
    for says in ("calls of all other streams", "calls of the interpreter"):
        waiting = [k for k, r in reports.items() if says in r.limited_by or any(says in str(a) for a in r.assumptions)]
        assert waiting == [("tensorflow", "int8")], says


def test_what_binds_a_batch_that_waits_for_calls_is_what_the_verdict_says():
    """A tenth off the call brings what the verdict says, and a tenth off products brings nothing."""
    batches = scenario("tensorflow", "int8")
    now, quicker = (evaluate(batches.with_(overrides=o)) for o in ({}, {"model.call_time": 0.9 * 4.4e-4}))
    assert (
        "bound by **calls of the interpreter, which take turns**: 10% less time there cuts latency by 10%"
        in now.verdict
    )
    assert quicker.latency_s == pytest.approx(0.9 * now.latency_s, rel=1e-3)
    faster = evaluate(batches.with_(overrides={"devices.0.cpu.flop_per_cycle.int8": "300 OP/cycle"}))
    assert faster.latency_s == pytest.approx(now.latency_s)


def test_processes_of_their_own_do_not_wait_for_each_other_s_calls():
    """28 of them pay a call each, at once; what an interpreter's lock took from INT8 is gone."""
    threads = evaluate(scenario("tensorflow", "int8"))
    processes = evaluate(scenario("tensorflow", "int8").with_(overrides={"model.shared_interpreter": 0.0}))
    assert processes.limited_by == "compute"
    assert processes.latency_s < 0.7 * threads.latency_s
    alone = scenario("tensorflow", "int8").with_(streams=1)
    assert evaluate(alone).latency_s == evaluate(alone.with_(overrides={"model.shared_interpreter": 0.0})).latency_s


def test_optimisations_of_the_graph_add_up_step_by_step():
    """From the graph as trained to the graph as served: each step may only help."""
    steps = ("preprocess-apart", "prune", "fuse-gathers", "fuse", "fuse-requantise")
    off = dict.fromkeys(steps, False)
    rates = [evaluate(scenario("tensorflow", "int8").with_(switches=off)).throughput_per_s]
    for step in steps:
        off[step] = True
        rates.append(evaluate(scenario("tensorflow", "int8").with_(switches=off)).throughput_per_s)
    assert all(later >= rate * (1 - 1e-12) for rate, later in pairwise(rates))
    assert rates[-1] == pytest.approx(predictions()["WD-011"].value())
    assert rates[-1] > 1.3 * rates[0]


def test_a_batch_pays_one_call_whatever_its_size_and_calls_take_turns():
    """What the framework takes was a time of each sample on each core: 5.98 ms of a batch that takes 0.83 alone."""
    call_s = 4.4e-4
    for batch in (64, 512, 2048):
        one = evaluate(scenario("onednn-graph", "int8").with_(batch=batch))
        called = next(row.time_s for row in one.other if row.name == "framework called")
        assert called == pytest.approx(call_s, rel=0.02)
        for streams in (2, 7, 28):
            several = evaluate(scenario("onednn-graph", "int8").with_(batch=batch, streams=streams))
            assert several.latency_s >= streams * call_s
    assert several.latency_s > 28 * call_s * 1.05  # 28 batches of 2048 compute for longer than they are called
    few = evaluate(scenario("tensorflow", "int8"))
    assert few.latency_s == pytest.approx(28 * call_s, rel=0.01)
    bare = evaluate(scenario("tensorflow", "int8").with_(switches={"framework": False}))
    assert bare.latency_s < 0.6 * few.latency_s


def test_the_log_of_one_batch_on_16_threads_is_met():
    """wide_deep_logs.csv: 0.8285 ms a batch of 512, from which the time of a call was found."""
    one = evaluate(scenario("onednn-graph", "int8").with_(batch=512, tile=(16,)))
    assert one.latency_s == pytest.approx(0.8285e-3, rel=0.02)
