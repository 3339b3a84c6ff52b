"""Simulate a system under load: latency distribution with its confidence interval, or why there is none."""

import math
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.kernels.jit import run_chunks
from engine.scenario.sentences import amount
from engine.traffic.arrivals import Arrivals, Bursty, Diurnal, Trace
from engine.traffic.estimates import Estimate, Tail, student_t
from engine.traffic.limits import Capacity, capacity
from engine.traffic.policies import DecoderServer, TandemQueue
from engine.traffic.runs import SimulatedRun, run
from engine.traffic.service import TrafficError, overloaded, whole
from engine.traffic.sizes import Fixed, Sizes

LEVEL = 0.99  # confidence of every interval
TIGHT = 0.05  # an interval within ±5% of its value is called tight
WARMUP = 0.10  # share of each replication that is discarded
_TICK = 2.0**-52  # of a clock that shows 1
_EXACT = 1e-3  # largest rounding of a time over the time a request takes of the capacity
_BURSTS = 2  # that a replication sees at least, with the time to the next: each is of another length
_MOST_REQUESTS = 200_000_000  # their latencies are held until the quantiles are read
_UNIT = Fixed(1)
_NOBODY = Estimate(0.0, 0.0, 0.0)  # is turned away
_LITTLE_EDGE = 4.0  # stays at the edges of the window by which Little's two sides may differ, per replication


@dataclass(frozen=True, eq=False)
class LoadReport:
    """A system under one load. An estimate: each figure has its interval at confidence ``level``.

    ``latency``, ``ttft`` and ``tpot`` are None where the load has no steady state (``stable`` is False; a trace has an
    end instead) or nobody is served. ``passed`` is the latency of requests that only pass a system which looks at a
    share of them, and ``latency`` that of the share; None where all are served alike. ``use`` is the share of time each
    resource is busy.
    ``little_error`` compares the mean number in the system with rate times mean stay, inside the window; ``little_ok``
    says whether edges alone can explain it.
    """

    qps: float
    rho: float
    capacity: Capacity
    stable: bool
    served_qps: float
    use: dict[str, float]
    seed: int
    message: str
    latency: Tail | None = None
    ttft: Tail | None = None
    tpot: Tail | None = None
    dropped: Estimate = _NOBODY
    in_system: float = math.inf
    little_error: float = math.nan
    little_ok: bool = False
    tight: bool = False
    requests: int = 0
    replications: int = 0
    level: float = LEVEL
    events: int = 0
    engine: str = "none"
    notes: tuple[str, ...] = ()
    samples: NDArray[np.float64] | None = None
    passed: Tail | None = None

    def as_dict(self) -> dict[str, object]:
        """Plain numbers, text and None: what JSON can say; times carry their unit in the key."""

        def plain(value: object) -> object:
            if isinstance(value, dict):
                return {k: plain(v) for k, v in value.items()}
            if isinstance(value, float) and not math.isfinite(value):
                return None
            return list(value) if isinstance(value, tuple) else value

        times = {"latency": "latency_s", "ttft": "ttft_s", "tpot": "tpot_s", "passed": "passed_s"}
        fields = asdict(replace(self, samples=None))
        return {times.get(k, k): plain(v) for k, v in fields.items() if k != "samples"}


def simulate(
    system: TandemQueue | DecoderServer,
    arrivals: Arrivals,
    *,
    sizes: Sizes = _UNIT,
    outputs: Sizes = _UNIT,
    requests: int = 200_000,
    replications: int = 16,
    most: int | None = None,
    seed: int = 0,
    ceiling: Capacity | None = None,
    executor: Executor | None = None,
    parallel: bool = True,
    keep_samples: bool = False,
) -> LoadReport:
    """Latency distribution of ``system`` under ``arrivals``.

    TrafficError for too few or too many requests, or a rate too low to simulate.

    ``requests`` are split over independent ``replications``; the first tenth of each is discarded. When the interval
    of a mean or quantile is wider than ±5%, replications are added until it is not or ``most`` requests have been
    simulated. A trace is replayed once and its interval comes from consecutive batches. A daily curve is run over whole
    periods, bursts over two or more; what is too long for its requests is squeezed, and carries nothing whose peak is
    above capacity. Same seed, same bits, whatever the number of threads.

    Parameters
    ----------
    sizes, outputs
        Size of each request [items]; for a decoder its prompt and how many tokens it wants [tokens].
    ceiling
        The system's `capacity`, if already known.
    parallel
        Spread the replications over the pool; off when the caller itself runs in it.
    """
    once = isinstance(arrivals, Trace)
    whole("requests", requests, 50 * (2 if once else whole("replications", replications, 2)))
    if max(requests, most or 0) > _MOST_REQUESTS:
        raise TrafficError(f"requests is {max(requests, most or 0)}; at most {_MOST_REQUESTS} are allowed")
    if most is not None and most < requests:
        raise TrafficError(f"most is {most}; it must be at least the {requests} requests it starts with")
    whole("seed", seed, 0)
    length = requests if once else requests // replications
    top = ceiling or capacity(system, sizes, outputs, seed)
    rho = arrivals.qps / top.qps
    skip = int(length * WARMUP)
    lowest = length * _TICK * top.qps / _EXACT
    if not once and arrivals.qps < lowest:
        raise TrafficError(
            f"qps is {arrivals.qps:g}; at least {lowest:.2g} is needed for {length} arrivals at a time, or the clock "
            "would grow beyond the digits that tell a request's time"
        )
    drained = isinstance(arrivals, Trace) and arrivals.qps >= top.breaks_qps
    if arrivals.qps >= top.breaks_qps and not drained:
        return _overload(arrivals.qps, rho, top, seed, overloaded(arrivals.qps, top.breaks_qps, top.breaks))
    notes: tuple[str, ...] = ()
    if isinstance(arrivals, Trace) and drained:
        length, skip = min(arrivals.instants.size, _MOST_REQUESTS), 0
        notes = (_drained(arrivals, top),)
    if isinstance(arrivals, Bursty | Diurnal):
        period = arrivals.qps * arrivals.period_s
        count = (length - skip) / (_BURSTS if isinstance(arrivals, Bursty) else 1)
        if count < period:
            if arrivals.peak_qps >= top.breaks_qps:
                text = f"{_peak(arrivals, top.breaks_qps)} ({top.breaks}): the queue grows until that is over"
                return _overload(arrivals.qps, rho, top, seed, f"{text}, after this run, so there is no p99.")
            arrivals, notes = _squeezed(arrivals, count)
        elif isinstance(arrivals, Diurnal):  # whole periods, for every hour to count alike
            length = skip + math.ceil(math.floor(count / period) * period)

    def replicate(replication: int) -> SimulatedRun:
        return run(system, arrivals, sizes, outputs, length, skip, seed, replication, drained=drained)

    runs: list[SimulatedRun] = []
    limit = max(most or requests, requests)
    while True:
        wanted = range(len(runs), len(runs) + (1 if once else replications))
        runs += list(run_chunks(replicate, wanted, executor)) if parallel and not once else map(replicate, wanted)
        report = _report(runs, arrivals, rho, top, replications, length, seed, once, keep_samples, notes)
        if report.tight or once or (len(runs) + replications) * length > limit:
            return report


def _squeezed(arrivals: Bursty | Diurnal, count: float) -> tuple[Bursty | Diurnal, tuple[str, ...]]:
    """The same rates in a period of ``count`` arrivals: they pass sooner and stay as they are, which leaves the
    queue as it was while it follows them (pointwise stationary; Green and Kolesar, Management Sci. 37(1), 1991).

    An estimate, too low near capacity, where a queue takes long to build up.
    """
    text = (
        f"A period of {arrivals.period_s:,.6g} s is squeezed to {count:,.0f} arrivals, each part of it in its share; a "
        "queue that builds up over a whole one is longer."
    )
    if isinstance(arrivals, Bursty):
        return replace(arrivals, burst_s=arrivals.share * count / arrivals.qps), (text,)
    return replace(arrivals, period_s=count / arrivals.qps), (text,)


def _drained(arrivals: Trace, top: Capacity) -> str:
    return (
        f"The trace brings {amount(arrivals.qps, 'QPS')}, above capacity {amount(top.breaks_qps, 'QPS')} "
        f"({top.breaks}): its {arrivals.instants.size:,} requests are served once, from an empty system to the last "
        "answer. A longer trace waits longer: there is no steady state."
    )


def _peak(arrivals: Bursty | Diurnal, capacity_qps: float) -> str:
    when = "In a burst" if isinstance(arrivals, Bursty) else "At the peak of the day"
    return f"{when} {amount(arrivals.peak_qps, 'QPS')} arrive, above capacity {amount(capacity_qps, 'QPS')}"


def _overload(qps: float, rho: float, top: Capacity, seed: int, text: str) -> LoadReport:
    use = {name: min(1.0, seconds * top.qps) for name, seconds in top.busy_s.items()}
    return LoadReport(qps, rho, top, False, top.qps, use, seed, text)


def _tail(parts: Iterable[NDArray[np.float64] | None], groups: int, once: bool) -> Tail | None:
    """Of replications, or of consecutive batches of one long run. [s]"""
    samples = [part for part in parts if part is not None]
    if once and samples:
        samples = [batch.copy() for batch in np.array_split(samples[0], groups)]
    return Tail.of(samples, LEVEL)


def _report(
    runs: list[SimulatedRun],
    arrivals: Arrivals,
    rho: float,
    top: Capacity,
    groups: int,
    length: int,
    seed: int,
    once: bool,
    keep_samples: bool,
    known: tuple[str, ...],
) -> LoadReport:
    samples = np.concatenate([r.latency for r in runs]) if keep_samples else None
    latency, passed = (_tail(parts, groups, once) for parts in ((r.latency for r in runs), (r.passed for r in runs)))
    answered, dropped = sum(r.answered for r in runs), sum(r.dropped for r in runs)
    shares = np.array([r.dropped / max(1, r.dropped + r.answered) for r in runs])
    spread = float(shares.std(ddof=1)) if len(runs) > 1 else math.inf
    half = student_t(LEVEL, max(1, len(runs) - 1)) * spread / math.sqrt(len(runs))
    lost = dropped / max(1, dropped + answered)
    window = sum(r.window_s for r in runs)
    area = sum(r.in_system for r in runs)
    stays = sum(r.mean_s * r.answered for r in runs)
    error = abs(area - stays) / area if area > 0 else 0.0
    figures = [] if latency is None else [latency.mean, latency.p50, latency.p95, latency.p99]
    tight = bool(figures) and all(f.spread <= TIGHT for f in figures)
    # those in the system at an edge stay about a p99 each: how much of the area they can be
    edge = _LITTLE_EDGE * len(runs) * (latency.p99.value if latency else 0.0) * max(1.0, area / max(window, 1e-300))
    notes = [*known, *_notes(arrivals, top, length)]
    if passed is not None:
        middle, late = (amount(e.value, "s") for e in (passed.p50, passed.p99))
        notes.append(f"Latency is that of requests that are looked at; the others pass in {middle}, 99% within {late}.")
    if not tight and figures:
        worst = max(figures, key=lambda f: f.spread)
        wide = f"±{worst.spread:.1%}" if math.isfinite(worst.spread) else "it has no upper end"
        notes.append(f"The interval is not tight: {wide}; simulate more requests.")
    settled = abs(area - stays) <= edge
    if not settled:
        notes.append(f"Little's law is off by {error:.1%}: the run has not settled; simulate more requests.")
    use = {name: float(sum(r.busy[name] for r in runs)) / len(runs) for name in runs[0].busy}
    return LoadReport(
        qps=arrivals.qps,
        rho=rho,
        capacity=top,
        stable=True,
        latency=latency,
        ttft=_tail((r.ttft for r in runs), groups, once),
        tpot=_tail((r.tpot for r in runs), groups, once),
        dropped=Estimate(lost, max(0.0, lost - half), min(1.0, lost + half)),
        served_qps=answered / window if window > 0 else 0.0,
        use=use,
        in_system=area / window if window > 0 else 0.0,
        little_error=error,
        little_ok=settled,
        tight=tight,
        requests=len(runs) * length,
        replications=len(runs),
        events=sum(r.events for r in runs),
        engine=runs[0].engine,
        seed=seed,
        message=f"{arrivals.qps:.4g} QPS is {rho:.0%} of capacity {top.qps:.4g} QPS ({top.limit})."
        + (f" {lost:.2%} are turned away." if lost > 0 else ""),
        notes=tuple(notes),
        samples=samples,
        passed=passed,
    )


def _notes(arrivals: Arrivals, top: Capacity, length: int) -> Iterable[str]:
    if isinstance(arrivals, Bursty | Diurnal) and arrivals.peak_qps > top.qps:
        yield f"{_peak(arrivals, top.qps)}: the queue grows until that is over."
    if isinstance(arrivals, Trace) and length > arrivals.instants.size:
        yield f"The trace has {arrivals.instants.size} arrivals and was replayed from its start again."


def latency_curve(
    system: TandemQueue | DecoderServer,
    arrivals: Arrivals,
    *,
    sizes: Sizes = _UNIT,
    outputs: Sizes = _UNIT,
    points: int = 20,
    low: float = 0.01,
    high: float = 0.97,
    requests: int = 1_000_000,
    seed: int = 0,
    executor: Executor | None = None,
    until: Callable[[LoadReport], bool] | None = None,
) -> tuple[LoadReport, ...]:
    """Reports at ``points`` equally spaced loads from ``low`` to ``high`` of capacity, each on the same random numbers.

    ``until`` ends the curve early (a page that was left). Loads as shares of capacity [-].
    """
    whole("points", points, 2)
    top = capacity(system, sizes, outputs, seed)

    def point(share: float) -> LoadReport:
        at = arrivals.at(share * top.qps)
        return simulate(
            system, at, sizes=sizes, outputs=outputs, requests=requests, seed=seed, ceiling=top, parallel=False
        )

    reports = []
    for report in run_chunks(point, np.linspace(low, high, points).tolist(), executor):
        reports.append(report)
        if until is not None and until(report):
            break
    return tuple(reports)
