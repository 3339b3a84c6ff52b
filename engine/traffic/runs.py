"""One seeded run of a system: choose the recursion or the event engine, and measure. Deterministic, any thread."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.cost.rows import totals
from engine.kernels.events.chain import chain as run_chain
from engine.kernels.events.measure import measure
from engine.kernels.events.recursions import batched
from engine.kernels.events.rng import fill_exponential, fill_gamma, stream_key
from engine.traffic.arrivals import Arrivals
from engine.traffic.engines.pass_run import requests_of, run_passes
from engine.traffic.policies import DecoderServer, Station, TandemQueue
from engine.traffic.service import TrafficError
from engine.traffic.sizes import Sizes

SIZE_STREAM, OUTPUT_STREAM, SERVICE_STREAM = 2, 3, 16  # station s draws service times from SERVICE_STREAM + s
_NO_ROWS = np.empty(0, np.int64)
_NO_SCALE = np.empty(0)
_LEAST_RUN, _ROUNDS, _FEWEST_ROUNDS = 2_000, 12, 4  # requests of a full engine's run; of each of its seats
_TOKENS_MOST = 20_000_000  # output tokens of that run, unless those are fewer than its fewest rounds


@dataclass(frozen=True, eq=False)
class RawRun:
    """What an engine returns: instants of first and last answer [s], busy seconds per resource [s], events [-]."""

    arrive: NDArray[np.float64]
    first: NDArray[np.float64] | None
    finish: NDArray[np.float64]
    busy: dict[str, float]  # per copy
    events: int
    engine: str
    start: NDArray[np.float64] | None = None  # (stations, n), the event engine alone
    came: NDArray[np.float64] | None = None  # the same, where traced


@dataclass(frozen=True, eq=False)
class SimulatedRun:
    """A measured run: latencies after warm-up [s] and what Little's law needs."""

    latency: NDArray[np.float64]
    ttft: NDArray[np.float64] | None
    tpot: NDArray[np.float64] | None
    answered: int
    dropped: int
    mean_s: float
    window_s: float
    in_system: float  # area under the number in the system over the window
    busy: dict[str, float]  # share of time busy, per resource
    events: int
    engine: str
    passed: NDArray[np.float64] | None = None  # latencies of those that only pass


def _rows(sizes: NDArray[np.int64], grid: tuple[int, ...]) -> NDArray[np.int64]:
    """Row of the first grid size that is no smaller, where a request is padded to; empty if there is but one. [-]"""
    if sizes.size and sizes.max() > grid[-1]:
        raise TrafficError(f"sizes go above the largest in the service table, {grid[-1]}: one is {int(sizes.max())}")
    if len(grid) == 1:
        return _NO_ROWS
    return np.searchsorted(np.asarray(grid), sizes, side="left").astype(np.int64)


def launch_tables(station: Station, rows: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Hold and latency tables of a station, cut at its policy's batch and with ``rows`` columns. [s]"""
    batch = station.policy.max_batch
    service = station.service
    assert service.latency_s is not None
    hold, latency = (np.broadcast_to(table[:batch], (batch, rows)) for table in (service.hold_s, service.latency_s))
    return np.ascontiguousarray(hold), np.ascontiguousarray(latency)


def _busy(station: Station, launches: NDArray[np.int64]) -> dict[str, float]:
    """Busy seconds of each resource of a station, per copy. [s]"""
    batch = station.policy.max_batch
    service = station.service
    out = {station.name: float((launches * service.hold_s[:batch]).sum()) / service.servers}
    for name, resource in service.resources.items():
        out[name] = float((launches * np.asarray(resource.busy_s)[:batch]).sum()) / resource.copies
    return out


def service_factors(station: Station, index: int, n: int, seed: int, replication: int) -> NDArray[np.float64]:
    """Random factor on each service time, mean 1. [-]"""
    if station.service.cv == 0.0:
        return _NO_SCALE
    out = np.empty(n)
    key = stream_key(seed, SERVICE_STREAM + index, replication)
    if station.service.cv == 1.0:
        fill_exponential(key, 0, out)
    else:
        fill_gamma(key, station.service.cv**-2, out)
    return out


def _has_recursion(station: Station) -> bool:
    """Whether one queue, first come first served, takes in all it is sent."""
    policy = station.policy
    return policy.places is None and not policy.edges and bool(station.service.hold_s.all())


def _recursions(
    chain: TandemQueue,
    arrive: NDArray[np.float64],
    rows: NDArray[np.int64],
    columns: int,
    scales: list[NDArray[np.float64]],
) -> RawRun | None:
    """The chain station by station, each fed with the answers of the one before; None where requests overtake.

    Exact, and the event engine's bits: who leaves a station in order of arrival joins the next queue in that order.
    """
    came, events = arrive, 0
    busy: list[tuple[str, float]] = []
    for at, station in enumerate(chain.stations):
        if at and not bool((came[1:] >= came[:-1]).all()):
            return None
        hold, latency = launch_tables(station, columns)
        joined = came + station.hop_s if station.hop_s else came
        came, launches = np.empty(arrive.size), np.zeros(hold.shape, np.int64)
        limits = (station.service.servers, station.policy.max_batch, station.policy.timeout_s)
        batched(joined, rows, scales[at], hold, latency, *limits, launches, came)
        events += int(launches.sum()) + arrive.size
        busy += _busy(station, launches).items()
    if chain.return_s:
        came += chain.return_s
    return RawRun(arrive, None, came, totals(busy), events, "recursion")


def run_stations(
    chain: TandemQueue,
    arrive: NDArray[np.float64],
    sizes: NDArray[np.int64],
    *,
    seed: int = 0,
    replication: int = 0,
    varied: bool = True,
    traced: bool = False,
    clients: int = 0,
    think: NDArray[np.float64] = _NO_SCALE,
) -> RawRun:
    """Send requests of ``sizes`` [items] that arrive at ``arrive`` [s] through a chain.

    Of a closed loop ``arrive`` receives what comes after the first requests of its ``clients``, each ``think`` [s]
    after an answer.

    ``varied`` off takes every service time at its mean; ``traced`` keeps arrivals at each station, for which the event
    engine runs where a recursion would do (both give the same bits).
    """
    n = arrive.size
    stations = chain.stations
    columns = len(chain.sizes)
    rows = _rows(sizes, chain.sizes)
    scales = [service_factors(s, i, n, seed, replication) if varied else _NO_SCALE for i, s in enumerate(stations)]
    if not (traced or clients) and all(_has_recursion(station) for station in stations):
        result = _recursions(chain, arrive, rows, columns, scales)
        if result is not None:
            return result
    count = len(stations)
    batch = max(s.policy.max_batch for s in stations)
    hold, latency = np.ones((2, count, batch, columns))
    bucket = np.zeros((count, columns), np.int64)
    buckets = np.ones(count, np.int64)
    for i, station in enumerate(stations):
        cut = station.policy.max_batch
        hold[i, :cut], latency[i, :cut] = launch_tables(station, columns)
        if station.policy.edges:
            bucket[i] = np.searchsorted(np.asarray(station.policy.edges), np.asarray(chain.sizes), side="left")
            buckets[i] = len(station.policy.edges) + 1
    scale = np.ones((count, n)) if any(s.size for s in scales) else np.empty((count, 0))
    for i, factors in enumerate(scales):
        if factors.size:
            scale[i] = factors
    launches = np.zeros(hold.shape, np.int64)
    came, start = np.full((count, n if traced else 0), np.nan), np.full((count, n), np.nan)
    finish = np.empty(n)
    events = run_chain(
        arrive,
        think,
        clients,
        rows,
        scale,
        np.array([s.service.servers for s in stations], np.int64),
        np.array([s.policy.max_batch for s in stations], np.int64),
        np.array([s.policy.timeout_s for s in stations], np.float64),
        np.array([-1 if s.policy.places is None else s.policy.places for s in stations], np.int64),
        np.array([*(s.hop_s for s in stations), chain.return_s], np.float64),
        bucket,
        buckets,
        hold,
        latency,
        launches,
        came,
        start,
        finish,
    )
    busy = [of for i, s in enumerate(stations) for of in _busy(s, launches[i, : s.policy.max_batch]).items()]
    return RawRun(arrive, None, finish, totals(busy), int(events), "events", start, came if traced else None)


def run_decoder(
    decoder: DecoderServer,
    arrive: NDArray[np.float64],
    inputs: NDArray[np.int64],
    outputs: NDArray[np.int64],
    decodes: bool = False,
) -> RawRun:
    """Send prompts of ``inputs`` that want ``outputs`` tokens through a decoder; what its cache can't hold is dropped.

    ``decodes``: prompts come with their keys and values. TrafficError for a request longer than the longest context
    tabled.
    """
    scheduler, need = decoder.scheduler, inputs + outputs
    if int(need.max()) > decoder.longest:
        raise TrafficError(
            f"a request of {int(need.max())} tokens is above the longest context tabled, {decoder.longest}"
        )
    fit = np.full(need.shape, True)
    if scheduler.kv_blocks is not None:
        fit = -(-need // scheduler.block) <= scheduler.kv_blocks
    cached = inputs - 1 if decodes else scheduler.cached_tokens(inputs)
    asked = requests_of(*(np.ascontiguousarray(values[fit]) for values in (arrive, inputs, outputs, cached)))
    first, finish = np.full((2, arrive.size), np.nan)
    events, busy_s = arrive.size, 0.0
    if fit.any():
        ran = run_passes(decoder.times, scheduler, asked, places=decoder.places, decodes=decodes)
        first[fit], finish[fit] = asked.first, asked.finish
        events, busy_s = events + ran.passes, ran.busy_s
    return RawRun(arrive, first, finish, {"server": busy_s / scheduler.replicas}, events, "events")


def run(
    system: TandemQueue | DecoderServer,
    arrivals: Arrivals,
    sizes: Sizes,
    outputs: Sizes,
    n: int,
    skip: int,
    seed: int,
    replication: int,
    drained: bool = False,
) -> SimulatedRun:
    """Simulate ``n`` requests and measure those from ``skip`` on, to the last arrival or, where ``drained``, answer."""
    arrive = arrivals.times(n, seed, replication)
    size = sizes.draw(n, seed, SIZE_STREAM, replication)
    want = size
    if isinstance(system, DecoderServer):
        want = outputs.draw(n, seed, OUTPUT_STREAM, replication)
        raw = run_decoder(system, arrive, size, want)
    else:
        raw = run_stations(system, arrive, size, seed=seed, replication=replication)
    latency = np.empty(n - skip)
    answered, dropped, total, area, last = measure(arrive, raw.finish, skip, latency)
    ttft = tpot = passed = None
    counted = latency[:answered]
    if isinstance(system, TandemQueue) and system.judged:
        judged = size[skip:][~np.isnan(raw.finish[skip:])] >= system.judged
        counted, passed = counted[judged], counted[~judged]
    if raw.first is not None:
        served = slice(skip, None)
        ended = ~np.isnan(raw.finish[served])
        ttft = (raw.first[served] - arrive[served])[ended]
        longer = ended & (want[served] > 1)
        tpot = ((raw.finish[served] - raw.first[served]) / np.maximum(want[served] - 1, 1))[longer]
    span = max(last - arrive[0], 1e-300)
    return SimulatedRun(
        latency=counted,
        ttft=ttft,
        tpot=tpot,
        answered=int(answered),
        dropped=int(dropped),
        mean_s=total / max(answered, 1),
        window_s=float((last if drained else arrive[-1]) - arrive[skip]),
        in_system=total if drained else area,  # everybody has left
        busy={name: seconds / span for name, seconds in raw.busy.items()},
        events=raw.events,
        engine=raw.engine,
        passed=passed,
    )


def saturated(system: TandemQueue, sizes: Sizes, outputs: Sizes, n: int, seed: int) -> tuple[float, dict[str, float]]:
    """Throughput [1/s] with everybody at the door at time 0, and busy seconds per request of each resource.

    Buffers are taken as unlimited and service times at their means. Estimated on the middle 80% of the answers.
    """
    stations = tuple(replace(s, policy=replace(s.policy, places=None)) for s in system.stations)
    size = sizes.draw(n, seed, SIZE_STREAM, 0)
    raw = run_stations(replace(system, stations=stations), np.zeros(n), size, varied=False)
    ends = np.sort(raw.finish)
    lo, hi = ends.size // 10, ends.size - 1 - ends.size // 10
    if ends[hi] > ends[lo]:
        # whole launches only: answers come in lumps, so count from one lump's end to another's
        lo, hi = np.searchsorted(ends, ends[[lo, hi]], side="right") - 1
    rate = (hi - lo) / (ends[hi] - ends[lo]) if ends[hi] > ends[lo] else ends.size / ends[-1]
    return float(rate), {name: seconds / ends.size for name, seconds in raw.busy.items()}


def full_rate(decoder: DecoderServer, inputs: Sizes, outputs: Sizes, seed: int = 0, decodes: bool = False) -> float:
    """Requests a second of serving engines for each of which somebody always waits. Simulated. [1/s]

    All requests of one engine are at its door at time 0; its rate is the slope of the line through the answers between
    its first filling and its last, which lies the same wherever in a wave of answers it begins. A front end takes its
    own time beside the passes. ``decodes``: prompts come with their keys and values. TrafficError where none fits.
    """
    rules = decoder.scheduler
    passes = replace(rules, replicas=1, read_s=0.0, write_s=0.0, repeat_s=0.0)

    def requests_of_run(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return inputs.draw(count, seed, SIZE_STREAM, 0), outputs.draw(count, seed, OUTPUT_STREAM, 0)

    prompts, answers = requests_of_run(_LEAST_RUN)
    seats = rules.ranks * rules.most_seqs(round(prompts.mean() + answers.mean()))
    usual = min(max(_LEAST_RUN, _ROUNDS * seats), int(_TOKENS_MOST / answers.mean()))
    prompts, answers = requests_of_run(count := max(usual, _FEWEST_ROUNDS * seats))
    lone = replace(decoder, scheduler=passes, places=None)
    ends = np.sort(run_decoder(lone, np.zeros(count), prompts, answers, decodes).finish)
    ends = ends[~np.isnan(ends)]
    if ends.size == 0:
        raise TrafficError("no request fits the system: each needs more cache tokens than a replica has")
    cut = min(seats, ends.size // 4)
    inner = ends[cut : ends.size - cut] - ends.mean()
    slope = float(np.polyfit(inner, np.arange(inner.size), 1)[0]) if np.ptp(inner) > 0.0 else ends.size / ends[-1]
    front_end_s = float(rules.front_end_s(prompts, answers).mean())
    return rules.replicas * (min(slope, 1.0 / front_end_s) if front_end_s > 0.0 else slope)
