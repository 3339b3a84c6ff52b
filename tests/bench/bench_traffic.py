"""How fast queues are simulated, beside SimPy on the same requests. Single-thread rates are per second of CPU time."""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from engine.kernels.events.chain import chain
from engine.kernels.events.recursions import batched
from engine.kernels.events.rng import fill_exponential, stream_key
from engine.traffic import (
    DynamicBatching,
    Fixed,
    LogNormal,
    NoBatching,
    Poisson,
    Service,
    Station,
    TandemQueue,
    capacity,
    latency_curve,
    single,
)
from engine.traffic.engines.calendar import serve
from engine.traffic.engines.scheduler import Scheduler
from engine.traffic.runs import launch_tables, run_decoder, run_stations
from tests.bench.timing import Row, row
from tests.laws.traffic.queues import affine, decoder, pool_behind_network, sparse_dense
from tests.laws.traffic.test_calendar import GPU
from tests.reference.naive_events import TwinStation, simpy_chain

_REQUESTS = 1_000_000
_TWIN_REQUESTS = 10_000
_ROUNDS = 7
_EVENT_GOAL = 20e6
_REQUEST_GOAL = 150e6
_CURVE_GOAL_S = 2.0
_TIMEOUT_S = 5e-3
_TRACE_REQUESTS, _TRACE_GOAL_S = 12_000, 0.3


def _best(run: Callable[[], object], clock: Callable[[], float], rounds: int = _ROUNDS) -> float:
    run()
    best = float("inf")
    for _ in range(rounds):
        start = clock()
        run()
        best = min(best, clock() - start)
    return best


def _systems() -> dict[str, tuple[object, float]]:
    batching = single(affine(2e-3, 4e-4, 16, servers=4), DynamicBatching(16, _TIMEOUT_S))
    return {
        "1 server, no batching": (single(Service.constant(1e-3)), 0.8),
        "4 servers, no batching": (single(Service.constant(4e-3, 4)), 0.8),
        "4 servers, batch <= 16, timeout": (batching, 0.8),
    }


def _event_run(station, arrive: np.ndarray) -> Callable[[], int]:
    hold, latency = launch_tables(station, 1)
    n = arrive.size
    launches, start, done = np.zeros((1, *hold.shape), np.int64), np.empty((1, n)), np.empty(n)
    policy = station.policy
    whole = [np.array([v], np.int64) for v in (station.service.servers, policy.max_batch, -1, 1)]
    wait, hops, bucket = np.array([policy.timeout_s]), np.zeros(2), np.zeros((1, 1), np.int64)
    none = np.empty(0), 0, np.empty(0, np.int64), np.empty((1, 0))
    return lambda: chain(
        arrive,
        *none,
        whole[0],
        whole[1],
        wait,
        whole[2],
        hops,
        bucket,
        whole[3],
        hold[None],
        latency[None],
        launches,
        np.empty((1, 0)),
        start,
        done,
    )


def _recursion_run(station, arrive: np.ndarray) -> Callable[[], None]:
    hold, latency = launch_tables(station, 1)
    done = np.empty(arrive.size)
    servers, policy = station.service.servers, station.policy
    launches, none = np.zeros(hold.shape, np.int64), (np.empty(0, np.int64), np.empty(0))
    limits = (servers, policy.max_batch, policy.timeout_s)
    return lambda: batched(arrive, *none, hold, latency, *limits, launches, done)


def _simpy_seconds(station, arrive: np.ndarray) -> float:
    twin = TwinStation(
        station.service.servers,
        station.policy.max_batch,
        station.policy.timeout_s,
        None,
        0.0,
        station.service.hold_s.tolist(),
        station.service.latency_s.tolist(),
        [0],
    )
    start = time.thread_time()
    simpy_chain(arrive, [0] * arrive.size, [np.ones(arrive.size)], [twin], 0.0)
    return time.thread_time() - start


def _uneven(servers: int) -> float:
    """CPU seconds of Kiefer-Wolfowitz over requests of random length."""
    arrive, hold, done = Poisson(0.8).times(_REQUESTS, 1, 0), np.empty(_REQUESTS), np.empty(_REQUESTS)
    fill_exponential(stream_key(1, 9), 0, hold)
    hold *= servers
    unit, launches, sizes = np.ones((1, 1)), np.zeros((1, 1), np.int64), np.empty(0, np.int64)
    call = partial(batched, arrive, sizes, hold, unit, unit, servers, 1, 0.0, launches, done)
    return _best(call, time.thread_time)


def _several() -> dict[str, tuple[TandemQueue, object]]:
    """Systems of several queues, and the sizes of their requests."""
    table = np.outer(1 + 0.2 * np.arange(8), [1e-3, 2e-3, 4e-3])
    buckets = Station(Service(table, servers=2, sizes=(16, 64, 256)), DynamicBatching(8, 2e-3, edges=(16, 64)))
    rule = DynamicBatching(8, 1e-3)
    stages = sparse_dense(affine(1e-3, 1e-4, 8, 2), affine(5e-4, 2e-4, 8, 6), rule, rule, 2e-5)
    pool = pool_behind_network(Service.constant(1e-3, 4, cv=1.0), NoBatching(), 3e-5, 1e-4)
    return {
        "3 length buckets": (TandemQueue((buckets,)), LogNormal(40, 1.0, 256)),
        "sparse and dense, both batched": (stages, Fixed(1)),
        "4 servers behind a NIC, exponential service": (pool, Fixed(1)),
    }


def _chained(system: TandemQueue, sizes: object) -> tuple[int, float]:
    """Events of a chain at 80% of capacity, and the CPU seconds of a whole run: the tables and factors it needs too."""
    arrive = Poisson(0.8 * capacity(system, sizes).qps).times(_REQUESTS, 1, 0)
    drawn = sizes.draw(_REQUESTS, 1, 2, 0)
    events = run_stations(system, arrive, drawn, seed=1, traced=True).events
    return events, _best(lambda: run_stations(system, arrive, drawn, seed=1, traced=True), time.thread_time)


def _decoder() -> tuple[int, float]:
    """Events (iterations and arrivals) of a decoder at 80% of capacity, and the CPU seconds they take."""
    steps = np.outer(1 + 0.02 * np.arange(16), [1e-3, 2e-3])
    system, sizes = decoder((1, 512), np.array([1e-3, 2e-2]), steps, 2), LogNormal(64, 0.5, 256)
    n = _REQUESTS // 20
    tokens = sizes.draw(n, 1, 2, 0), sizes.draw(n, 1, 3, 0)
    arrive = Poisson(0.8 * capacity(system, sizes, sizes).qps).times(n, 1, 0)
    events = run_decoder(system, arrive, *tokens).events
    return events, _best(lambda: run_decoder(system, arrive, *tokens), time.thread_time)


def _trace() -> Row:
    """A trace of 12,000 requests of a language model's engine to the last token, with every figure of its report."""
    scheduler = Scheduler(kv_blocks=40_000)

    def run() -> object:
        lengths = LogNormal(1024, 0.8, 8000), LogNormal(200, 0.8, 2000)
        return serve(GPU, scheduler, Poisson(20.0), *lengths, _TRACE_REQUESTS)

    wall = _best(run, time.perf_counter)
    given = (wall, "s", f"goal of {_TRACE_GOAL_S:g} s", wall / _TRACE_GOAL_S, "<= 1", wall <= _TRACE_GOAL_S)
    return row(f"calendar of passes, a trace of {_TRACE_REQUESTS:,} requests", *given)


def _rate(name: str, value: float, unit: str, goal: float, against: str, ratio: float | None = None) -> Row:
    """A rate held to its goal, beside a rival or that goal."""
    return row(
        name, value, unit, against, value / goal if ratio is None else ratio, f">= {goal:g} {unit}", value >= goal
    )


def rows() -> list[Row]:
    """Events and requests a second and a whole latency curve, against their goals and against SimPy."""
    result = []
    for name, (system, load) in _systems().items():
        station = system.stations[0]
        arrive = Poisson(load * capacity(system).qps).times(_REQUESTS, 1, 0)
        twin = _TWIN_REQUESTS / _simpy_seconds(station, arrive[:_TWIN_REQUESTS])
        events_run = _event_run(station, arrive)
        events, against = events_run(), "SimPy twin, requests/s"
        seconds = _best(events_run, time.thread_time)
        recursion = _REQUESTS / _best(_recursion_run(station, arrive), time.thread_time)
        ratio = _REQUESTS / seconds / twin
        result += [
            _rate(f"event engine, {name}", events / seconds, "events/s", _EVENT_GOAL, against, ratio),
            _rate(f"exact recursion, {name}", recursion, "requests/s", _REQUEST_GOAL, against, recursion / twin),
        ]
    for servers in (1, 4, 16, 64, 128):
        rate, name = _REQUESTS / _uneven(servers), f"exact recursion, {servers} servers, exponential service"
        result.append(_rate(name, rate, "requests/s", _REQUEST_GOAL, "goal of the recursion"))
    runs = {name: _chained(*given) for name, given in _several().items()}
    runs["continuous batching of 16 on 2 replicas"] = _decoder()
    for name, (events, seconds) in runs.items():
        given = (events / seconds, "events/s", _EVENT_GOAL, "goal of the event engine")
        result.append(_rate(f"event engine, {name}", *given))
    result.append(_trace())
    curves = {name: (system, Fixed(1)) for name, (system, _) in _systems().items()}
    curves["64 servers, exponential service"] = (single(Service.constant(64e-3, 64, cv=1.0)), Fixed(1))
    for name, (system, sizes) in (curves | _several()).items():

        def curve(system=system, sizes=sizes) -> object:
            return latency_curve(system, Poisson(1.0), sizes=sizes, points=20, requests=_REQUESTS)

        wall, busy = _best(curve, time.perf_counter, 2), _best(curve, time.process_time, 1)
        against = f"goal of {_CURVE_GOAL_S:g} s; {busy:.2f} s of CPU time"
        given = (wall, "s", against, wall / _CURVE_GOAL_S, "<= 1", wall <= _CURVE_GOAL_S)
        result.append(row(f"curve of 20 x 10^6 requests, {name}", *given))
    return result
