"""Arrivals and sizes are what they say: rates, variations, curves and shares."""

import numpy as np
import pytest

from engine.kernels.jit import JIT_ENABLED
from engine.traffic import (
    Bursty,
    Diurnal,
    DynamicBatching,
    Fixed,
    Gamma,
    Listed,
    LogNormal,
    Mixed,
    NoBatching,
    Poisson,
    Service,
    Sla,
    Trace,
    Uniform,
    capacity,
    instant,
    max_qps,
    simulate,
    single,
)
from tests.effort import examples
from tests.laws.traffic.queues import affine

pytestmark = pytest.mark.skipif(not JIT_ENABLED, reason="statistics need the compiled engine's speed")

MS = 1e-3


@pytest.mark.parametrize("cv", [0.3, 1.0, 2.5])
def test_gamma_gaps_have_the_stated_variation(cv: float) -> None:
    gaps = np.diff(Gamma(1000.0, cv).times(400_000, 5, 0))
    assert gaps.mean() == pytest.approx(MS, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.02)


def test_poisson_gaps_have_variation_one_and_are_exponential() -> None:
    gaps = np.diff(Poisson(1000.0).times(400_000, 5, 0))
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.01)
    from scipy import stats  # a second to import, for this test alone

    assert stats.kstest(gaps, stats.expon(scale=MS).cdf).pvalue > 0.001
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 0.01


def test_bursts_have_the_stated_variation_and_rate() -> None:
    process = Bursty(1000.0, peak=4.0, share=0.2, burst_s=0.02)
    gaps = np.diff(process.times(2_000_000, 5, 0))
    assert process.cv > 1.5
    assert gaps.std() / gaps.mean() == pytest.approx(process.cv, rel=0.03)
    assert 1.0 / gaps.mean() == pytest.approx(1000.0, rel=0.03)


def test_diurnal_curve_is_followed() -> None:
    day = Diurnal(1000.0, (1.0, 3.0, 2.0), period_s=30.0)
    times = day.times(300_000, 2, 0)
    counts, edges = np.histogram(times[times < 270.0] % 30.0, bins=60, range=(0.0, 30.0))
    middle = (edges[1:] + edges[:-1]) / 2
    expected = np.interp(middle, [0, 10, 20, 30], [1.0, 3.0, 2.0, 1.0]) / 2.0
    assert counts / counts.mean() == pytest.approx(expected, abs=0.06)
    assert day.peak_qps == pytest.approx(1500.0)
    assert (np.diff(day.times(10_000, 2, 0)) >= 0).all()


@pytest.mark.parametrize(
    "sizes", [Fixed(7), Mixed((1, 5, 9), (0.2, 0.0, 0.8)), Uniform(3, 12), LogNormal(40, 0.8, 256), Listed([4, 4, 9])]
)
def test_drawn_sizes_have_the_share_they_say(sizes) -> None:
    drawn = sizes.draw(60_000, 1, 2, 0)
    for bound in (1, 4, 7, 9, 40, 300):
        assert (drawn <= bound).mean() == pytest.approx(sizes.share(bound), abs=0.01)


# --- a day that is longer than a run

_DAY = (0.6, 0.5, 0.45, 0.42, 0.45, 0.55, 0.7, 0.9, 1.05, 1.15, 1.2, 1.22,
        1.2, 1.18, 1.15, 1.15, 1.18, 1.25, 1.35, 1.45, 1.5, 1.4, 1.15, 0.85)  # fmt: skip
_SYSTEMS = {
    "one": single(Service.constant(1e-3), NoBatching()),
    "four": single(Service.constant(4e-3, servers=4), NoBatching()),
    "batches": single(affine(8e-4, 2e-4, 8), DynamicBatching(8, 1e-3)),
}


@pytest.mark.parametrize("period_s", [0.5, 7.0, 60.0, 3_600.0, 86_400.0])
@pytest.mark.parametrize("name", _SYSTEMS)
def test_a_promise_over_a_day_holds_at_its_peak(name: str, period_s: float) -> None:
    system = _SYSTEMS[name]
    best = max_qps(system, Sla(20e-3), Diurnal(1.0, _DAY, period_s), requests=20_000)
    day = Diurnal(best.qps, _DAY, period_s)
    assert best.qps > 0
    if period_s > 100.0:  # a queue that grows for an hour outlasts every promise
        assert day.peak_qps < best.capacity_qps
    truth = simulate(system, day.at(0.8 * best.qps), requests=2_000_000, replications=4)
    assert truth.latency is not None
    assert truth.latency.p99.value <= 20e-3


@pytest.mark.parametrize("burst_s", [0.02, 0.3, 2.0, 30.0])
@pytest.mark.parametrize("name", _SYSTEMS)
def test_a_promise_over_bursts_holds_inside_them(name: str, burst_s: float) -> None:
    """Whether a run of that many requests sees a burst or none; 0.2 s of four times the rate are a long queue."""
    system = _SYSTEMS[name]
    best = max_qps(system, Sla(20e-3), Bursty(1.0, 4.0, 0.1, burst_s), requests=20_000)
    bursts = Bursty(0.8 * best.qps, 4.0, 0.1, burst_s)
    assert best.qps > 0
    if burst_s > 1.0:
        assert best.qps * 4.0 < best.capacity_qps
    assert instant(system, bursts) is None  # its gaps depend on each other
    truth = simulate(system, bursts, requests=2_000_000, replications=4)
    assert truth.latency is not None
    assert truth.latency.p99.value <= 20e-3


def test_what_a_burst_brings_is_said_in_the_fields_units() -> None:
    run = simulate(single(Service.constant(1e-4), NoBatching()), Bursty(5_000.0, 4.0, 0.1, 0.001))
    assert "In a burst 20.0 kQPS arrive, above capacity 10.0 kQPS: the queue grows until that is over." in run.notes


@pytest.mark.parametrize("load", [0.05, 0.3, 0.5, 0.58])
@pytest.mark.parametrize("name", _SYSTEMS)
def test_a_run_sees_every_hour_of_a_day_in_its_share(name: str, load: float) -> None:
    """Busy all day as its mean rate says, whatever part of a day its requests would reach."""
    system = _SYSTEMS[name]
    top = capacity(system)
    for period_s in (0.3, 5.0, 86_400.0):
        day = Diurnal(load * top.qps, _DAY, period_s)
        short = simulate(system, day, requests=20_000)
        assert short.stable
        assert short.served_qps == pytest.approx(day.qps, rel=0.05)
    long = simulate(system, day, requests=examples(20_000_000), replications=4)
    assert short.latency is not None
    assert long.latency is not None
    for figure in ("mean", "p50", "p95", "p99"):
        seen, true = getattr(short.latency, figure), getattr(long.latency, figure)
        assert abs(seen.value - true.value) <= max(0.15 * true.value, seen.high - seen.value, seen.value - seen.low)


@pytest.mark.parametrize("places", [None, 16])
def test_a_day_whose_peak_is_above_capacity_is_carried_by_none_but_a_buffer(places: int | None) -> None:
    system = single(Service.constant(1e-3), NoBatching(places))
    found = simulate(system, Diurnal(800.0, _DAY), requests=20_000)
    assert found.stable is (places is not None)
    if places is None:
        assert found.message.startswith("At the peak of the day 1.20 kQPS arrive, above capacity 1.00 kQPS")
        assert found.latency is None
    else:
        assert found.dropped.value > 0.01


@pytest.mark.parametrize("count", [2, 7, 300, 4000])
@pytest.mark.parametrize("load", [1.0, 1.5, 40.0])
def test_a_trace_above_capacity_is_drained(count: int, load: float) -> None:
    """Its end is known, so every wait is: at a constant service, request i leaves (i + 1) services after the first."""
    service_s, gap = 1e-3, 1e-3 / load
    trace = Trace.of(np.arange(count) * gap)
    report = simulate(single(Service.constant(service_s)), trace, requests=10_000)
    waits = np.arange(count) * (service_s - gap) + service_s
    assert report.latency is not None
    assert report.latency.mean.value == pytest.approx(waits.mean(), rel=1e-9)
    assert report.requests == count
    assert report.served_qps == pytest.approx(count / (waits[-1] + (count - 1) * gap), rel=1e-9)
    assert report.served_qps <= 1 / service_s * (1 + 1e-9)
    assert report.use["server"] == pytest.approx(1.0)
    assert any("served once, from an empty system" in note for note in report.notes)
    assert not [note for note in report.notes if "Little" in note or "replayed" in note]
