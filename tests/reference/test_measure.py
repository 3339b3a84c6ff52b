"""Measured kernels and networks: right results, whole accounts, honest refusals, and nobody kept waiting."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kernels.operators.combine import COMBINED, combine
from engine.kernels.operators.ranges import KernelError
from engine.measure import KERNELS, Bounds, Cancelled, MeasureError, measure_kernel, measure_workload, shape_of
from engine.measure.cases import relative_error
from engine.measure.lowering import lower
from engine.measure.timing import Spread, sample
from engine.measure.turns import Turns
from model_zoo.catalog import default_zoo

pytestmark = pytest.mark.timeout(300)  # the first call of a kernel compiles it
SMALL = {
    "gemm": (33, 70, 65), "gemv": (130, 70), "conv": (9, 5, 18, 3), "depthwise": (9, 20, 3),
    "embedding-bag": (7, 5, 300, 17), "attention": (3, 20, 2, 16), "lstm": (2, 20, 18), "gru": (2, 20, 18),
    "binary-fc": (3, 64, 33), "batched": (3, 5, 17, 9), "softmax": (3, 40), "layer-norm": (3, 40), "gelu": (3, 40),
    "add": (3, 40), "quantise": (3, 40), "transpose": (2, 9, 20), "reduce-sum": (2, 5, 40), "lrn": (3, 20),
    "hash": (5, 7), "roi-align": (9, 7, 3, 4),
}  # fmt: skip
# Energy of the error over that of the signal that a format leaves on bell-shaped values: half a step of the mantissa or
# of the range over 127 or 15, in both factors, with room for what a sum of few terms adds.
LARGEST = {"fp32": 1e-6, "bf16": 6e-3, "fp16": 6e-4, "int8": 5e-2, "ms-fp9": 6e-2, "ms-fp8": 0.11, "int4": 0.15}
TWINS = {
    "add": lambda x, y: x + y, "mul": lambda x, y: x * y, "copy": lambda x, y: x,
    "clip6": lambda x, y: np.clip(x, 0, 6), "hard_swish": lambda x, y: x * np.clip(x + 3, 0, 6) / np.float32(6),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_computes_what_float64_does(name):
    for precision in KERNELS[name].precisions:
        case = KERNELS[name].make(SMALL[name], precision, 1)
        error = relative_error(case)
        assert error is not None
        assert error <= (0 if precision == "binary" else LARGEST[precision]), precision
        assert case.flops > 0 or name == "transpose"
        assert case.bytes > 0


def test_a_wrong_kernel_would_be_seen():
    case = KERNELS["gemm"].make((8, 16, 8), "fp32", 1)
    got, exact = case.check(np.asarray(case.runs[0]()) * np.float32(1.01))
    assert np.abs(got - exact).max() > 1e-3 * np.abs(exact).max()


@given(st.sampled_from(COMBINED), st.integers(0, 40_000), st.sampled_from((1, 2)))
@settings(max_examples=25, deadline=None)
def test_sums_and_clips_equal_numpy(name, size, threads):
    rng = np.random.default_rng(size)
    x, y = rng.standard_normal((2, size)).astype(np.float32) * np.float32(5)
    got = combine(name, x, y if name in ("add", "mul") else None, threads=threads)
    if name == "hard_swish":
        np.testing.assert_allclose(got, TWINS[name](x, y), rtol=3e-7, atol=0)
    else:
        np.testing.assert_array_equal(got, TWINS[name](x, y))


def test_combine_names_what_is_wrong():
    x = np.ones(4, np.float32)
    with pytest.raises(KernelError, match="name is 'sub'; allowed: add, mul"):
        combine("sub", x)
    with pytest.raises(KernelError, match="y is missing for add"):
        combine("add", x)
    with pytest.raises(KernelError, match="y must be C-contiguous float32"):
        combine("add", x, np.ones(5, np.float32))


def test_a_run_reports_its_samples_and_rates():
    run = measure_kernel("gemm", (64, 64, 64), "fp32", repeats=5)
    low, high = run.time.quartiles
    assert len(run.time.samples) == 5
    assert 0 < run.time.best <= low <= run.time.median <= high
    assert run.rate == pytest.approx(2 * 64**3 / run.time.median)
    assert run.library is not None
    assert run.to_dict()["time_s"] == run.time.median


def test_quartiles_are_those_of_the_samples():
    spread = Spread((4.0, 1.0, 3.0, 2.0, 5.0))
    assert (spread.median, spread.quartiles, spread.best) == (3.0, (2.0, 4.0), 1.0)
    assert spread.scaled(2.0).median == 6.0


def test_sampling_stops_at_its_time_but_not_before_three():
    found = sample(lambda: time.sleep(0.02), time.perf_counter, repeats=100, seconds=0.01)
    assert len(found.samples) == 3


@pytest.mark.parametrize(
    ("name", "shape", "precision", "threads", "sentence"),
    [
        ("gemmm", (1, 1, 1), "fp32", 1, "kernel is 'gemmm'; allowed: gemm"),
        ("gemm", (1, 1, 1), "fp7", 1, "precision is 'fp7'; allowed for gemm: fp32"),
        ("gemm", (1, 1, 1), "fp32", 4096, "threads is 4096; allowed on this host"),
        ("gemm", (65536, 65536, 65536), "fp32", 1, "GB of buffers; allowed: 2 GB"),
        ("attention", (5, 3, 1, 8), "fp32", 1, "at most as many tokens as rows"),
    ],
)
def test_a_run_that_is_not_offered_is_one_sentence(name, shape, precision, threads, sentence):
    with pytest.raises(MeasureError) as error:
        measure_kernel(name, shape, precision, threads)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_shapes_are_read_and_refused():
    gemm = KERNELS["gemm"]
    assert shape_of(gemm, "3x4×5") == (3, 4, 5)
    assert shape_of(gemm, None) == gemm.default
    for text in ("3x4", "axbxc", "3x4x-5", "3x4x5e3"):
        with pytest.raises(MeasureError, match="gemm takes MxKxN"):
            shape_of(gemm, text)
    with pytest.raises(MeasureError, match="N is 0; allowed: 1 to 65,536"):
        shape_of(gemm, "3x4x0")


def test_a_network_accounts_for_every_op():
    zoo = default_zoo()
    run = measure_workload("tp1-gru-cpu", repeats=3, bounds=Bounds(seconds=0.5))
    graph = zoo.graph("tp1-gru-cpu")
    assert [op.name for op in run.ops] == [op.name for phase in graph.phases for op in phase.ops]
    for op in run.ops:
        assert bool(op.kernel) + bool(op.inside) + bool(op.reason) == 1, op.name
        assert (op.time_s is not None) == bool(op.kernel)
    assert run.time.median > 0
    assert run.error is not None
    assert run.error < 1e-5


def test_what_has_no_operator_is_named_in_every_network():
    """Lowering alone, no buffers: each op of each network is run, inside another, or has a reason."""
    zoo, seen = default_zoo(), set()
    for id in zoo.ids():
        graph, request = zoo.graph(id), zoo.workload(id).request
        for phase in graph.phases:
            at = (request.batch, phase.length.at(request.inputs, request.outputs),
                  phase.context.at(request.inputs, request.outputs))  # fmt: skip
            pieces = lower(phase, at, "fp32", 1, 100_000)
            assert [p.op.name for p in pieces] == [op.name for op in phase.ops]
            for piece in pieces:
                assert (piece.make is not None) + bool(piece.inside) + bool(piece.reason) == 1
                seen |= {piece.reason} if piece.reason else set()
                if piece.inside:
                    assert any(p.op.name == piece.inside and p.make for p in pieces)
    assert "no operator for TopK" in seen


def test_int8_networks_quantise_and_say_where_they_do_not():
    run = measure_workload("mlp-mnist", "int8", repeats=3, bounds=Bounds(seconds=0.5))
    kernels = {op.kernel for op in run.ops if op.kernel}
    assert any("gemm_u8" in kernel for kernel in kernels)
    assert run.error is not None
    assert 1e-4 < run.error < LARGEST["int8"]
    with pytest.raises(MeasureError, match="precision is 'int3'; allowed for a workload"):
        measure_workload("mlp-mnist", "int3")


def test_a_large_network_is_scaled_and_says_so():
    run = measure_workload("deepbench-lstm-512", repeats=3, bounds=Bounds(bytes=1e8, seconds=0.3))
    assert any("24 of 25 steps timed" in note for note in run.notes)
    with pytest.raises(MeasureError, match=r"holds .* GB; allowed"):
        measure_workload("mlp-121m", bounds=Bounds(bytes=1e7))


def test_runs_take_turns_and_know_their_place():
    turns, gate, order = Turns(), threading.Event(), []

    def first(progress):
        gate.wait(20)
        order.append("first")
        return 1

    tickets = [turns.submit(first)] + [turns.submit(lambda p, i=i: order.append(i) or i) for i in range(3)]
    assert [t.ahead for t in tickets] == [0, 1, 2, 3]
    tickets[2].give_up()
    assert [tickets[i].ahead for i in (1, 3)] == [1, 2]
    gate.set()
    assert tickets[0].result() == 1
    assert tickets[3].result() == 2
    assert order == ["first", 0, 2]
    assert all(t.ahead == 0 for t in tickets)


def test_too_many_waiting_runs_are_refused():
    turns, gate = Turns(), threading.Event()
    tickets = [turns.submit(lambda p: gate.wait(20)) for _ in range(16)]
    with pytest.raises(MeasureError, match="runs waiting are 16; allowed: 16"):
        turns.submit(lambda p: None)
    gate.set()
    for ticket in tickets:
        ticket.result()


def test_a_run_given_up_stops_at_its_next_sample():
    turns = Turns()
    started = threading.Event()

    def run(progress):
        def told(done, of):
            started.set()
            return progress(done, of)

        return measure_kernel("gemm", (256, 256, 256), "fp32", repeats=100_000, bounds=Bounds(seconds=120),
                              progress=told)  # fmt: skip

    ticket = turns.submit(run)
    assert started.wait(240)
    ticket.give_up()
    with pytest.raises(Cancelled):
        ticket.result()


@pytest.mark.slow
def test_no_thread_waits_while_a_kernel_runs():
    """A kernel gives up the interpreter's lock: another thread's heartbeat is never late by what a call takes.

    One call here is hundreds of milliseconds; with the lock held a beat would be that late. The bound is the goal for
    the server's health answer; on a machine that others load, the scheduler alone may take a slice, so the middle of
    the largest tenth is asked and not the one worst beat.
    """
    case = KERNELS["gemm"].make((2048, 2048, 4096), "fp32", 1)
    case.runs[0]()
    beats, stop = [], threading.Event()

    def heart():
        while not stop.is_set():
            before = time.perf_counter()
            time.sleep(0.005)
            beats.append(time.perf_counter() - before - 0.005)

    thread = threading.Thread(target=heart)
    thread.start()
    until, calls, started = time.perf_counter() + 5.0, 0, time.perf_counter()
    while time.perf_counter() < until:
        case.runs[0]()
        calls += 1
    each = (time.perf_counter() - started) / calls
    stop.set()
    thread.join()
    assert each > 0.05  # else the test could not tell
    late = sorted(beats)[int(0.95 * len(beats))]
    assert len(beats) > 100
    assert late < 0.05
