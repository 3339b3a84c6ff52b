"""Every serving policy, request by request, equals a SimPy twin; the recursions equal the event engine to the bit."""

import heapq
from dataclasses import replace

import numpy as np
import pytest

from engine.kernels.events.recursions import batched
from engine.kernels.jit import JIT_ENABLED
from engine.traffic import (
    DynamicBatching,
    Gamma,
    LogNormal,
    NoBatching,
    Poisson,
    Service,
    Station,
    TandemQueue,
    single,
)
from engine.traffic.runs import run_stations, service_factors
from tests.each import each
from tests.laws.traffic.queues import affine, on_path_nic, pool_behind_network, sparse_dense
from tests.reference.naive_events import TwinStation, simpy_chain

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # 64-bit wrap, uncompiled

N = 10_000 if JIT_ENABLED else 400
SAME = 1e-9  # [s], instants of answers
GRID = (16, 64, 256)
BY_SIZE = np.outer(1 + 0.2 * np.arange(8), [1e-3, 2e-3, 4e-3])
PIPELINED = Service(BY_SIZE, 2.5 * BY_SIZE, servers=2, sizes=GRID)
JITTERY = replace(PIPELINED, cv=0.3)  # whole multiples would tie, and rounding would break the tie
NIC, _ = on_path_nic(1e-6, 40e-6, 0.1, executors=4, places=8)
# system, load [1/s]
SYSTEMS = {
    "fifo, 1 server": (single(Service.constant(1e-3, cv=1.0)), 850.0),
    "fifo, 5 servers, by size": (single(Service(BY_SIZE, servers=5, sizes=GRID)), 2000.0),
    "fifo, 20 servers": (single(Service.constant(20e-3, 20, cv=0.7)), 900.0),
    "fifo, pipelined server": (single(PIPELINED), 700.0),
    "admission control": (single(Service.constant(1e-3, 2, cv=1.0), NoBatching(3)), 2300.0),
    "loss system, no places": (single(Service.constant(1e-3, 3, cv=1.0), NoBatching(0)), 3000.0),
    "dynamic batching": (single(affine(2e-3, 4e-4, 16, servers=4), DynamicBatching(16, 5e-3)), 4000.0),
    "dynamic batching, by size": (single(PIPELINED, DynamicBatching(8, 3e-3)), 2000.0),
    "dynamic batching, finite": (single(affine(2e-3, 4e-4, 8), DynamicBatching(8, 4e-3, places=10)), 1800.0),
    "bucketed batching": (single(PIPELINED, DynamicBatching(8, 2e-3, edges=(16, 64))), 2500.0),
    "sparse, dense": (
        sparse_dense(
            affine(1e-3, 1e-4, 8, servers=2),
            affine(5e-4, 2e-4, 4),
            DynamicBatching(8, 1e-3),
            DynamicBatching(4, 5e-4, places=20),
            hop_s=2e-5,
        ),
        2500.0,
    ),
    "two batching stations in a row": (
        sparse_dense(
            affine(1e-3, 1e-4, 8),
            affine(5e-4, 2e-4, 8),
            DynamicBatching(8, 1e-3),
            DynamicBatching(8, 0.0),
            2e-5,
        ),
        2500.0,
    ),
    "a buffer behind a wire": (
        TandemQueue(
            (Station(Service.constant(2e-4), name="wire"), Station(Service.constant(1e-3, 2, cv=1.0), NoBatching(3)))
        ),
        2300.0,
    ),
    "pool behind network": (pool_behind_network(Service.constant(1e-3, 4, cv=0.5), NoBatching(), 3e-5, 1e-4), 3000.0),
    "on-path NIC": (NIC, 7e5),
    "packets, a share classified": (
        TandemQueue(
            (
                Station(Service(np.array([[1e-6, 1e-6]]), sizes=(16, 64), cv=0.5), NoBatching(8), name="packets"),
                Station(Service(np.array([[0.0, 3e-5]]), servers=24, sizes=(16, 64)), NoBatching(4), 1e-7, "inference"),
            ),
            return_s=2e-7,
        ),
        7e5,
    ),
    "three stations": (
        TandemQueue(
            (
                Station(Service.constant(1e-4, 1, cv=1.0), NoBatching(5), name="host"),
                Station(JITTERY, DynamicBatching(4, 1e-3, places=12, edges=(64,)), 1e-5, "cards"),
                Station(Service.constant(1.87e-4, 1), NoBatching(2), 2e-5, "link"),
            ),
            return_s=5e-5,
        ),
        1500.0,
    ),
}

RECURSIVE = {
    "fifo, 1 server",
    "fifo, 5 servers, by size",
    "fifo, 20 servers",
    "fifo, pipelined server",
    "dynamic batching",
    "dynamic batching, by size",
    "two batching stations in a row",
    "pool behind network",
}


def twin_of(chain: TandemQueue) -> list[TwinStation]:
    columns = len(chain.sizes)
    out = []
    for s in chain.stations:
        edges = s.policy.edges
        hold, latency = (np.broadcast_to(t, (t.shape[0], columns)) for t in (s.service.hold_s, s.service.latency_s))
        out.append(
            TwinStation(
                s.service.servers,
                s.policy.max_batch,
                s.policy.timeout_s,
                s.policy.places,
                s.hop_s,
                hold.tolist(),
                latency.tolist(),
                [sum(size > edge for edge in edges) for size in chain.sizes],
            )
        )
    return out


@pytest.mark.parametrize("name", SYSTEMS)
def test_policy_equals_simpy_twin(name: str) -> None:
    chain, qps = SYSTEMS[name]
    arrive = Gamma(qps, cv=1.3).times(N, 7, 0)
    sizes = LogNormal(min(40, chain.sizes[-1]), 1.0, chain.sizes[-1]).draw(N, 7, 2, 0)
    rows = np.searchsorted(chain.sizes, sizes)
    factors = [service_factors(s, i, N, 7, 0) for i, s in enumerate(chain.stations)]
    scale = [f if f.size else np.ones(N) for f in factors]
    ours = run_stations(chain, arrive, sizes, seed=7)
    again = run_stations(chain, arrive, sizes, seed=7, traced=True)
    twin = simpy_chain(arrive, rows.tolist(), scale, twin_of(chain), chain.return_s)
    np.testing.assert_array_equal(np.isnan(ours.finish), np.isnan(twin))
    np.testing.assert_allclose(ours.finish, twin, rtol=0, atol=SAME)
    np.testing.assert_array_equal(ours.finish, again.finish)
    assert ours.busy == pytest.approx(again.busy)
    assert ours.engine == ("recursion" if name in RECURSIVE else "events")


def kiefer_wolfowitz(arrive, hold, latency, servers, places=None):
    """Answers, nan where turned away; free times in a heap, starts of those who had to wait in a list."""
    free, waited, done = [-np.inf] * servers, [], []
    for now, held, stays in zip(arrive, hold, latency):
        if places is not None and free[0] >= now and sum(start >= now for start in waited[-places - 1 :]) >= places:
            done.append(np.nan)
            continue
        start = max(free[0], now)
        waited += [start] if free[0] >= now else []
        heapq.heapreplace(free, start + held)
        done.append(start + stays)
    return np.array(done)


@each("servers", [1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 64, 65, 127, 128, 129])
def test_the_recursion_equals_a_heap_to_the_bit(servers: int) -> None:
    n = 3_000 if JIT_ENABLED else 300
    arrive = np.round(Poisson(1000.0).times(n, 2, 0), 3)  # many at the same instant, and ties with servers that free
    rng = np.random.default_rng(servers)
    hold = servers * np.round(rng.exponential(1e-3, n), 3)
    done, unit, launches = np.empty(n), np.ones((1, 1)), np.zeros((1, 1), np.int64)
    batched(arrive, np.empty(0, np.int64), hold, unit, 1.5 * unit, servers, 1, 0.0, launches, done)
    np.testing.assert_array_equal(done, kiefer_wolfowitz(arrive, hold, 1.5 * hold, servers))
    assert launches[0, 0] == n


@each("servers", [1, 3, 40])
@each("places", [0, 1, 2, 7, 64])
def test_the_event_engine_turns_away_as_a_heap_does(servers: int, places: int) -> None:
    n = 2_000 if JIT_ENABLED else 300
    arrive = np.round(Poisson(1100.0).times(n, 3, 0), 3)  # many at the same instant, and ties with servers that free
    system = single(Service(np.array([[servers * 1e-3]]), servers=servers), NoBatching(places))
    hold, finish = np.full(n, servers * 1e-3), run_stations(system, arrive, np.ones(n, np.int64)).finish
    np.testing.assert_array_equal(finish, kiefer_wolfowitz(arrive, hold, hold, servers, places))
    assert np.isnan(finish).any() or not JIT_ENABLED or places == 64


def test_simultaneous_arrivals_share_a_batch_in_both_engines() -> None:
    arrive = np.repeat(np.arange(1, 40) * 1e-3, 3)
    system = single(affine(1e-3, 1e-4, 8, servers=2), DynamicBatching(8, 0.0))
    sizes = np.ones(arrive.size, np.int64)
    a, b = (run_stations(system, arrive, sizes, traced=e) for e in (False, True))
    np.testing.assert_array_equal(a.finish, b.finish)
    assert np.unique(a.finish[:3]).size == 1
