"""Queues obey their closed forms, conserve requests, and give the same bits on any number of threads."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from engine.kernels.jit import JIT_ENABLED
from engine.traffic import (
    Bursty,
    Deterministic,
    DynamicBatching,
    Fixed,
    LogNormal,
    NoBatching,
    Poisson,
    Resource,
    Service,
    Sla,
    Trace,
    TrafficError,
    capacity,
    closed_forms,
    instant,
    latency_curve,
    max_qps,
    simulate,
    single,
    timeline,
)
from engine.traffic.estimates import student_t
from tests.effort import examples
from tests.laws.traffic.queues import affine, decoder, mm1, mm1n, mmc, on_path_nic, pool_behind_network, sparse_dense

pytestmark = pytest.mark.skipif(not JIT_ENABLED, reason="statistics need the compiled engine's speed")

MS = 1e-3
QUEUES = {
    "M/M/1": (single(Service.constant(MS, cv=1.0)), 700.0, mmc(700.0, MS, 1)),
    "M/M/4": (single(Service.constant(4 * MS, 4, cv=1.0)), 750.0, mmc(750.0, 4 * MS, 4)),
    "M/D/1": (single(Service.constant(MS)), 750.0, instant(single(Service.constant(MS)), Poisson(750.0))),
    "M/M/1/10": (single(Service.constant(MS, cv=1.0), NoBatching(9)), 900.0, mm1n(900.0, MS, 10)),
    "M/M/40": (single(Service.constant(40 * MS, 40, cv=1.0)), 900.0, mmc(900.0, 40 * MS, 40)),
}
BATCHING = single(affine(2 * MS, 0.4 * MS, 16, servers=4), DynamicBatching(16, 5 * MS))
BY_SIZE = np.outer(1 + 0.2 * np.arange(8), [1 * MS, 2 * MS, 4 * MS])
BUCKETED = single(Service(BY_SIZE, sizes=(16, 64, 256)), DynamicBatching(8, 2 * MS, edges=(16, 64)))
DECODER = decoder((1, 512), np.array([1 * MS, 10 * MS]), np.outer(1 + 0.02 * np.arange(16), [1 * MS, 2 * MS]))
WORDS = LogNormal(40, 0.8, 256)


@pytest.mark.parametrize("name", QUEUES)
def test_closed_form_lies_in_the_reported_interval(name: str) -> None:
    """At least 95% of the seeds hold the exact mean, and as many the exact p99 (and the share blocked)."""
    system, qps, law = QUEUES[name]
    assert (law.kind, law.name) == ("exact", name)
    truth = {"mean": law.mean, "p50": law.quantile(0.5), "p99": law.quantile(0.99)}
    held = dict.fromkeys([*truth, "blocked"], 0)
    seeds = examples(500)
    for seed in range(seeds):
        report = simulate(system, Poisson(qps), requests=100_000, seed=seed, parallel=False)
        for figure, value in truth.items():
            held[figure] += getattr(report.latency, figure).holds(value)
        held["blocked"] += report.dropped.holds(getattr(law, "blocked", 0.0))
    assert min(held.values()) >= 0.95 * seeds, held


def test_general_service_meets_pollaczek_khinchine() -> None:
    system = single(Service.constant(MS, cv=0.5))
    law = instant(system, Poisson(800.0))
    assert law is not None
    report = simulate(system, Poisson(800.0), requests=2_000_000, seed=3)
    assert report.latency.mean.holds(law.mean)
    assert report.tight


def test_closed_forms_agree_where_they_meet() -> None:
    assert mmc(700, MS, 1).quantile(0.99) == pytest.approx(mm1(700, MS).quantile(0.99))
    assert mm1n(700, MS, 400).quantile(0.99) == pytest.approx(mm1(700, MS).quantile(0.99))
    assert closed_forms.mgc(700, MS, 1, 0.0).mean == pytest.approx(closed_forms.md1(700, MS).mean)
    assert closed_forms.mgc(700, MS, 1, 1.0).wait == pytest.approx(mm1(700, MS).wait)
    assert mmc(3000, MS, 4).tail(0.0) == pytest.approx(1.0)
    assert mmc(3000.0, MS, 4).quantile(0.9) == pytest.approx(
        mmc(3000.001, MS, 4).quantile(0.9), rel=1e-5
    )  # c mu - lambda = mu: the two branches of the formula meet


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.9, 0.99])
def test_md1_tail_integrates_to_its_mean(rho: float) -> None:
    law = closed_forms.md1(rho, 1.0)
    t = np.linspace(0.0, law.quantile(1 - 1e-9), 20_001)
    assert np.trapezoid([law.tail(x) for x in t], t) == pytest.approx(law.mean, rel=2e-4)
    assert law.tail(1.0) == pytest.approx(rho)  # who waits: PASTA


def test_mm1n_in_the_limits() -> None:
    assert mm1n(2000.0, MS, 1).blocked == pytest.approx(2 / 3)  # Erlang's B with one server
    assert mm1n(1000.0, MS, 9).blocked == pytest.approx(1 / 10)  # rho = 1: uniform
    assert mm1n(1e6, MS, 50).mean == pytest.approx(50 * MS, rel=1e-3)


@pytest.mark.parametrize("rho", [0.5, 0.999, 1.0, 2.0])
@pytest.mark.parametrize("places", [1, 3, 400, 2000])
def test_mm1n_is_a_mixture_of_erlang_stays(rho: float, places: int) -> None:
    """Also beyond 745 services, where exp(-t) is no longer a double."""
    law = mm1n(rho / MS, MS, places)
    seen = np.arange(places)
    found = rho ** (seen - places * (rho > 1.0))
    for share in (0.01, 0.5, 0.99):
        t = law.quantile(share)
        longer = found @ special.gammaincc(seen + 1, t / MS) / found.sum()
        assert law.tail(t) == pytest.approx(longer, rel=1e-9)
        assert longer == pytest.approx(1.0 - share, rel=1e-9)


def _everything(report) -> str:
    return repr(report.as_dict()) + repr(report.samples.tobytes())


@pytest.mark.parametrize(
    ("system", "sizes"),
    [(BATCHING, Fixed(1)), (BUCKETED, WORDS), (single(Service.constant(MS, 3, cv=1.0), NoBatching(5)), Fixed(1))],
)
def test_same_seed_same_bits_on_any_number_of_threads(system, sizes) -> None:
    arrivals = Bursty(900.0, 1.5, 0.3, 0.1)
    kwargs = {"sizes": sizes, "requests": 30_000, "seed": 11, "keep_samples": True}
    alone = _everything(simulate(system, arrivals, parallel=False, **kwargs))
    for threads in (1, 2, 5):
        with ThreadPoolExecutor(threads) as pool:
            assert _everything(simulate(system, arrivals, executor=pool, **kwargs)) == alone
    assert _everything(simulate(system, arrivals, **{**kwargs, "seed": 12})) != alone


def test_curve_and_search_give_the_same_bits_on_any_number_of_threads() -> None:
    found = []
    for threads in (1, 2, 5):
        with ThreadPoolExecutor(threads) as pool:
            curve = latency_curve(BATCHING, Poisson(1.0), points=6, requests=8_000, seed=3, executor=pool)
            best = max_qps(BATCHING, Sla(30 * MS), Poisson(1.0), requests=8_000, seed=3, executor=pool)
            found.append((repr([r.as_dict() for r in curve]), best.qps, best.sure_qps, best.tried))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("system", "sizes", "outputs"),
    [
        (BATCHING, Fixed(1), Fixed(1)),
        (BUCKETED, WORDS, Fixed(1)),
        (DECODER, WORDS, WORDS),
        (single(Service.constant(MS, cv=1.0), NoBatching(9)), Fixed(1), Fixed(1)),
        (pool_behind_network(Service.constant(MS, 4), NoBatching(), 1e-4, 1e-5), Fixed(1), Fixed(1)),
    ],
)
def test_littles_law_and_conservation_on_every_policy(system, sizes, outputs) -> None:
    top = capacity(system, sizes, outputs)
    report = simulate(system, Poisson(0.7 * top.qps), sizes=sizes, outputs=outputs, requests=100_000, seed=4)
    assert report.little_ok
    assert report.little_error < 0.02
    carried = report.served_qps / (1.0 - report.dropped.value)
    assert carried == pytest.approx(report.qps, rel=0.02)
    assert report.in_system == pytest.approx(report.served_qps * report.latency.mean.value, rel=0.02)
    assert all(0.0 <= use <= 1.0 + 1e-9 for use in report.use.values())


@pytest.mark.parametrize("system", [BATCHING, BUCKETED, DECODER])
def test_capacity_is_where_the_queue_starts_to_grow(system) -> None:
    """At 110% of capacity, simulated as if that were stable, latency grows with the run; at 97% it does not."""
    sizes = Fixed(1) if system is BATCHING else WORDS
    top = capacity(system, sizes, WORDS)
    at = {}
    for share in (0.97, 1.1):
        for n in (20_000, 80_000):
            fake = replace(top, breaks_qps=math.inf)
            report = simulate(
                system, Poisson(share * top.qps), sizes=sizes, outputs=WORDS, requests=n, replications=2, ceiling=fake
            )
            at[share, n] = report.latency.p50.value
    assert at[1.1, 80_000] > 2.5 * at[1.1, 20_000]
    assert at[0.97, 80_000] < 2.5 * at[0.97, 20_000]


def test_overload_says_so_instead_of_a_tail() -> None:
    report = simulate(single(Service.constant(MS)), Poisson(1000.0))
    assert not report.stable
    assert report.latency is None
    assert "above capacity" in report.message or "no p99" in report.message
    assert report.as_dict()["latency_s"] is None
    lossy = simulate(single(Service.constant(MS, cv=1.0), NoBatching(4)), Poisson(5000.0), requests=40_000)
    assert lossy.stable
    assert lossy.dropped.holds(mm1n(5000.0, MS, 5).blocked)
    with pytest.raises(TrafficError, match="grows without limit"):
        instant(single(Service.constant(MS)), Poisson(1200.0))


def test_an_unlimited_queue_before_a_small_buffer_can_still_be_overloaded() -> None:
    """The front carries 1000/s and queues, the back carries 500/s and drops: 700/s is steady, 1500/s is not."""
    front, back = Service.constant(MS), Service.constant(2 * MS)
    system = sparse_dense(front, back, NoBatching(), NoBatching(3))
    assert simulate(system, Poisson(700.0), requests=20_000).stable
    assert not simulate(system, Poisson(1500.0), requests=20_000).stable
    guarded = sparse_dense(back, front, NoBatching(3), NoBatching())  # 500/s at most get past the front's buffer
    assert simulate(guarded, Poisson(5000.0), requests=20_000).stable


@pytest.mark.parametrize("slow_first", [True, False])
def test_constant_tandem_waits_as_its_bottleneck_alone(slow_first: bool) -> None:
    """Stages of constant time in a row wait as the slowest alone, in any order (Friedman 1965): why a pipelined
    scenario is one server held for its pace."""
    slow, fast = Service.constant(MS), Service.constant(0.3 * MS)
    stages = (slow, fast) if slow_first else (fast, slow)
    tandem = sparse_dense(*stages, NoBatching(), NoBatching())
    alone = single(Service(np.array([[MS]]), np.array([[1.3 * MS]])))
    a, b = (simulate(s, Poisson(900.0), requests=20_000, keep_samples=True).samples for s in (tandem, alone))
    np.testing.assert_allclose(np.sort(a), np.sort(b), rtol=0, atol=1e-9)


def test_wide_interval_is_said_and_narrowed() -> None:
    system, arrivals = single(Service.constant(MS, cv=1.0)), Poisson(900.0)
    short = simulate(system, arrivals, requests=20_000, seed=1)
    assert not short.tight
    assert any("not tight" in note for note in short.notes)
    long = simulate(system, arrivals, requests=200_000, most=20_000_000, seed=1)
    assert long.tight
    assert long.requests > 200_000
    assert long.latency.p99.holds(mm1(900.0, MS).quantile(0.99))


def test_idle_latency_is_the_service_time() -> None:
    for system, seconds in (
        (single(Service.constant(3 * MS, 2)), 3 * MS),
        (single(Service(np.array([[MS]]), np.array([[5 * MS]]))), 5 * MS),
        (pool_behind_network(Service.constant(MS), NoBatching(), 2e-4, 1e-4), MS + 5e-4),
    ):
        report = simulate(system, Poisson(0.01 * capacity(system).qps), requests=20_000)
        assert report.latency.p50.value == pytest.approx(seconds, rel=1e-9)


def test_trace_replays_its_own_instants() -> None:
    recorded = Poisson(700.0).times(50_000, 9, 0)
    trace = Trace.of(recorded)
    assert np.allclose(np.diff(trace.times(50_000, 0, 0)), np.diff(recorded), atol=1e-12)
    assert np.diff(trace.at(trace.qps / 2).times(100, 0, 0)) == pytest.approx(2 * np.diff(recorded[:100]), abs=1e-12)
    report = simulate(single(Service.constant(MS)), trace, requests=50_000)
    assert report.replications == 1
    assert report.latency.mean.holds(closed_forms.md1(700.0, MS).mean)
    again = simulate(single(Service.constant(MS)), trace, requests=60_000)
    assert any("replayed" in note for note in again.notes)


def test_max_qps_meets_the_closed_form() -> None:
    system = single(Service.constant(MS, cv=1.0))
    best = max_qps(system, Sla.parse("p99=20ms"), Poisson(1.0), requests=1_000_000, seed=2)
    exact = 1 / MS - math.log(100) / (20 * MS)  # -ln(0.01) / (mu - lambda) = 20 ms
    assert best.sure_qps <= exact <= best.hopeless_qps
    assert best.qps == pytest.approx(exact, rel=0.01)
    assert best.limit == "queueing"


def test_the_limit_is_named() -> None:
    hold = np.array([[MS]])
    shared = Service(hold, servers=4, resources={"HBM": Resource(0.2 * hold), "host CPU": Resource(hold, 2)})
    assert capacity(single(shared)).limit == "host CPU"
    full = max_qps(single(Service.constant(MS, 40)), Sla(MS * 3), Poisson(1.0), requests=50_000)
    assert full.limit == "server"
    assert max_qps(single(Service.constant(MS)), Sla(0.5 * MS), Poisson(1.0), requests=5_000).limit == "service time"
    nic, packets = on_path_nic(1e-6, 70e-6, 0.05, executors=32, places=64)
    drop_point = max_qps(nic, Sla(MS, max_dropped=1e-3), Poisson(1.0), sizes=packets, requests=100_000)
    assert drop_point.limit == "drops"
    assert capacity(nic, packets).qps == pytest.approx(32 / 4.5e-6)
    slow_wire = pool_behind_network(Service.constant(MS, 4), NoBatching(), 1e-5, link_s=1e-3)
    assert capacity(slow_wire).limit == "NIC"


def test_a_timeout_makes_latency_fall_with_load_and_the_search_still_finds_the_highest() -> None:
    system = single(affine(0.1 * MS, 0.01 * MS, 8), DynamicBatching(8, 20 * MS))
    sla = Sla(6 * MS)
    curve = latency_curve(system, Poisson(1.0), points=12, high=0.999, requests=50_000)
    assert not sla.met(curve[0])
    best = max_qps(system, sla, Poisson(1.0), requests=50_000)
    assert best.qps >= max(r.qps for r in curve if sla.met(r))


def test_more_servers_and_more_places_never_hurt() -> None:
    p99 = [
        simulate(single(Service.constant(4 * MS, c)), Poisson(600.0), requests=40_000).latency.p99.value
        for c in (3, 4, 8)
    ]
    assert p99 == sorted(p99, reverse=True)
    lost = [
        simulate(single(Service.constant(MS), NoBatching(k)), Poisson(900.0), requests=40_000).dropped.value
        for k in (0, 2, 8, 64)
    ]
    assert lost == sorted(lost, reverse=True)


def test_timeline_is_in_order() -> None:
    two = sparse_dense(affine(1e-4, 1e-5, 8), affine(1e-4, 2e-5, 8), DynamicBatching(8, 1e-4), DynamicBatching(8, 1e-4))
    window = timeline(two, Deterministic(9_000.0), show=100)
    assert (window.arrive <= window.start["sparse"]).all()
    assert (window.start["sparse"] < window.start["dense"]).all()
    assert (window.start["dense"] < window.finish).all()
    np.testing.assert_array_equal(window.came["sparse"], window.arrive)
    np.testing.assert_array_equal(window.left["sparse"], window.came["dense"])
    np.testing.assert_array_equal(window.left["dense"], window.finish)
    held = window.left["dense"] - window.start["dense"]
    assert held.min() >= 1e-4 + 2e-5 - 1e-12
    assert held.max() <= 1e-4 + 8 * 2e-5 + 1e-12
    behind = timeline(pool_behind_network(Service.constant(MS), NoBatching(), 2e-4, 1e-4), Poisson(500.0), show=50)
    assert behind.wires == {"NIC"}
    np.testing.assert_allclose(behind.left["NIC"] - behind.start["NIC"], 1e-4)
    np.testing.assert_allclose(behind.came["pool"] - behind.left["NIC"], 2e-4)
    np.testing.assert_allclose(behind.finish - behind.left["pool"], 2e-4)


@pytest.mark.parametrize("dof", [1, 2, 7, 15, 64])
def test_student_quantile_equals_scipy(dof: int) -> None:
    assert student_t(0.99, dof) == pytest.approx(special.stdtrit(dof, 0.995), rel=1e-10)


def test_an_answer_that_is_on_its_way_longer_than_its_server_is_held_has_a_closed_form() -> None:
    """Copies that overlap arithmetic: a server is held for 1 ms of an answer's 1.6 ms."""
    system = single(Service(np.array([[MS]]), np.array([[1.6 * MS]])))
    law = instant(system, Poisson(800.0))
    assert law is not None
    report = simulate(system, Poisson(800.0), requests=1_000_000, seed=5)
    assert report.latency.mean.holds(law.mean)
    assert report.latency.p99.holds(law.quantile(0.99))
    assert law.quantile(1e-9) == pytest.approx(1.6 * MS)


@pytest.mark.timeout(60)
def test_a_law_at_the_edge_of_capacity_ends() -> None:
    """The exact sum of M/D/1 has a term for each request that waits: a billion of them a hair below capacity."""
    late = [closed_forms.mdc(1.0 - gap, 1.0, 1).quantile(0.99) for gap in (2e-3, 9e-4, 1e-6, 1e-9)]
    assert late == sorted(late)
    heavy = [-math.log(0.01) / (2.0 * gap) for gap in (2e-3, 9e-4, 1e-6, 1e-9)]  # Kingman's limit of M/D/1
    assert late == pytest.approx(heavy, rel=0.01)
