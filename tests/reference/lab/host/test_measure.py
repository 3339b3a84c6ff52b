"""Measured kernels: right results, whole accounts, honest refusals, and nobody kept waiting."""

import asyncio
import os
import threading
import time
from functools import partial

import numpy as np
import pytest

from engine.lab.host.measure.cases import MeasureError, relative_error
from engine.lab.host.measure.process import MeasuringProcess
from engine.lab.host.measure.run import KERNELS, Bounds, measure_kernel, shape_of
from engine.lab.timing import MeasurementCancelled, Spread, sample

pytestmark = pytest.mark.timeout(300)  # the first call of a kernel compiles it
SMALL = {
    "gemm": (33, 70, 65), "gemv": (130, 70), "conv": (9, 5, 18, 3),
    "embedding-bag": (7, 5, 300, 17), "attention": (3, 20, 2, 16), "lstm": (2, 20, 18), "gru": (2, 20, 18),
    "binary-fc": (3, 64, 33), "softmax": (3, 40), "layer-norm": (3, 40), "gelu": (3, 40), "quantise": (3, 40),
    "hash": (5, 7),
}  # fmt: skip
# Energy of the error over that of the signal that a format leaves on bell-shaped values: half a step of the mantissa or
# of the range over 127 or 15, in both factors, with room for what a sum of few terms adds.
LARGEST = {"fp32": 1e-6, "bf16": 6e-3, "fp16": 6e-4, "int8": 5e-2, "int4": 0.15}


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_computes_what_float64_does(name):
    for precision in KERNELS[name].precisions:
        case = KERNELS[name].make(SMALL[name], precision, 1)
        error = relative_error(case)
        assert error <= (0 if precision == "binary" else LARGEST[precision]), precision
        assert case.flops > 0
        assert case.bytes > 0


def test_a_wrong_kernel_would_be_seen():
    case = KERNELS["gemm"].make((8, 16, 8), "fp32", 1)
    got, exact = case.check(np.asarray(case.run()) * np.float32(1.01))
    assert np.abs(got - exact).max() > 1e-3 * np.abs(exact).max()


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


def test_a_run_given_up_stops_at_its_next_sample():
    samples = []

    def progress(done, of):
        samples.append(done)
        return len(samples) < 3

    with pytest.raises(MeasurementCancelled):
        measure_kernel("gemm", (256, 256, 256), "fp32", repeats=100_000, bounds=Bounds(seconds=120), progress=progress)
    assert len(samples) == 3


def _napping(seconds: float, progress) -> str:
    """A run that only takes time, told of itself."""
    for done in range(20):
        progress(done, 20)
        time.sleep(seconds / 20)
    return f"napped in process {os.getpid()}"


def _refusing(progress) -> None:
    raise MeasureError("shape is 0; allowed: more")


def _dying(progress) -> None:
    os._exit(3)


def test_a_run_apart_answers_refuses_dies_and_goes_on():
    apart, told = MeasuringProcess(), []
    try:
        first = apart.run(_napping, 0.2, progress=lambda done, of: told.append((done, of)))
        assert first.startswith("napped in process ")
        assert not first.endswith(f" {os.getpid()}")
        assert told[-1] == (19, 20)
        with pytest.raises(MeasureError, match="shape is 0"):
            apart.run(_refusing, progress=lambda *_: True)
        assert apart.run(_napping, 0.0, progress=lambda *_: True) == first  # the same process
        with pytest.raises(MeasureError, match=r"ended by itself \(status 3\)"):
            apart.run(_dying, progress=lambda *_: True)
        assert apart.run(_napping, 0.0, progress=lambda *_: True) != first
    finally:
        apart.stop()


def test_a_run_apart_ends_when_it_is_given_up_or_takes_too_long():
    apart = MeasuringProcess(seconds=1.0)
    try:
        with pytest.raises(MeasurementCancelled):
            apart.run(_napping, 600.0, progress=lambda *_: False)
        with pytest.raises(MeasureError, match="longer than 1 s"):
            apart.run(_napping, 600.0, progress=lambda *_: True)
    finally:
        apart.stop()


def test_an_event_loop_beats_on_while_a_kernel_runs():
    """Health is answered by an event loop of this process: it beats on, and has the process to itself.

    How late a beat is says more of who else is on the machine; whether this process computes meanwhile does not.
    A run in a thread of the same process would: making its buffers alone holds the lock.
    """
    beats, stop = [], threading.Event()

    async def heart():
        while not stop.is_set():
            await asyncio.sleep(0.01)
            beats.append((running.is_set(), time.thread_time()))

    running, apart = threading.Event(), MeasuringProcess()
    thread = threading.Thread(target=lambda: asyncio.run(heart()))
    thread.start()
    try:
        bounds = Bounds(bytes=5e8, flops=2e10, seconds=3.0)
        measured = partial(measure_kernel, "gemm", precision="fp32", repeats=1000, bounds=bounds)
        apart.run(measured, (8, 8, 8), progress=lambda *_: True)  # its process has started
        begun = time.process_time()
        running.set()
        found = apart.run(measured, (1024, 2048, 2048), progress=lambda *_: True)
        running.clear()
        used = time.process_time() - begun
    finally:
        stop.set()
        thread.join()
        apart.stop()
    kernels = sum(found.time.samples)
    heard = [spent for meanwhile, spent in beats if meanwhile]
    used -= heard[-1] - heard[0]  # what the loop itself takes, the more the longer others keep the kernel waiting
    print(f"{len(heard)} beats and {used:.2f} s of this process beside them in {kernels:.2f} s of kernels")
    assert len(heard) > 30 * kernels
    assert used < 0.25 * kernels
