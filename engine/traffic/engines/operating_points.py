"""A serving engine at one load and along it: what binds it there, and the most it carries inside its limits. Simulated.

Times of passes are estimates, as good as the cost model.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.kernels.events.passes import PASS, Times
from engine.scenario import Scenario
from engine.scenario.sentences import amount
from engine.scenario.token import brief
from engine.traffic.arrivals import Arrivals
from engine.traffic.engines.calendar import ClosedLoop, Figures, ServingReport, serve, usual_requests
from engine.traffic.engines.pass_times import engine_of
from engine.traffic.engines.pools import MOST_REQUESTS, Pools, most_per_s, serve_pools
from engine.traffic.engines.scheduler import Scheduler
from engine.traffic.policies import DecoderServer
from engine.traffic.runs import OUTPUT_STREAM, SIZE_STREAM, full_rate
from engine.traffic.scenario_load import priced
from engine.traffic.service import TrafficError
from engine.traffic.sizes import Fixed, Sizes
from engine.traffic.sla import agreed

LIMITS = {"ttft_s": ("ttft", "p99"), "tpot_s": ("tpot", "p50"), "e2e_s": ("e2e", "p99")}
"""Limits of a serving engine, and the figure that each is about where its name has no percentile, as ``ttft:p90``."""
_CALLED = {"ttft": "TTFT", "tpot": "TPOT", "itl": "Inter-token", "e2e": "End to end"}
LABELS = {name: f"{_CALLED[time]} {metric}" for name, (time, metric) in LIMITS.items()}
"""What each limit is called, with that percentile."""
METRICS = ("mean", "p50", "p90", "p95", "p99")
_FEWEST, _ROWS = 2, 20_000_000  # of each client where a run would make more output tokens than so many
_SHARES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 0.95, 1.05)  # of the saturated rate, the points of a curve
_POINTS = len(_SHARES)
_REACH, _LEAST_REACH = 4, 64  # a curve goes to so many times the clients, and at least to so many of them
_CLIENTS_MOST = 4096
_TURNS = 10  # requests that a run has for each that the engines take in at once
_DRAWN = 1000  # requests whose mean length stands for all
_ROUGH, _PRECISION = 0.05, 0.005  # of a search's load, before and with longer runs [-]
_LONGER, _LONG = 10, 20_000  # times the requests of its first runs that those have, at most so many


def about(name: str) -> tuple[str, str]:
    """The time that a limit is on, and its mean or percentile, of ``ttft:p90`` or a name of `LIMITS`.

    TrafficError for what a serving engine has no figure of.
    """
    time, _, metric = name.partition(":")
    if name in LIMITS:
        return LIMITS[name]
    if time not in _CALLED or metric not in METRICS:
        raise TrafficError(
            f"sla is {brief(name)}; a serving engine has ttft, tpot, itl and e2e, each mean, p50, p90, p95 or p99"
        )
    return time, metric


def label_of(name: str) -> str:
    """What a limit is called, with its mean or percentile: `TTFT p90`."""
    time, metric = about(name)
    return f"{_CALLED[time]} {metric}"


def tightest(limits: Mapping[str, float]) -> dict[str, float]:
    """The times of a request, each by its tightest limit; gaps between tokens are none of them. [s]"""
    times: dict[str, float] = {}
    for name, limit in limits.items():
        time = about(name)[0]
        if time != "itl":
            times[time] = min(limit, times.get(time, limit))
    return times


def limits_of(text: str) -> dict[str, float]:
    """Limits by the names that `about` takes, of ``ttft:p99=300ms,tpot:p90=25ms``. [s]

    TrafficError for a text that is none, a time or a metric that there is none of, and a limit that is there twice.
    """
    limits = dict[str, float]()
    for time, metric, limit in map(agreed, text.split(",")):
        name = ":".join([*about(f"{'e2e' if time == 'latency' else time}:{metric}")])
        if name in limits:
            raise TrafficError(f"sla has {name} twice; give one limit of each")
        limits[name] = limit
    return limits


@dataclass(frozen=True, eq=False)
class OperatingPoint:
    """A serving engine under one load.

    ``level``: clients of a closed loop, or requests a second. ``devices`` serve it, as so many ``engines`` alike.
    ``shares``: of the run's time, by what held requests up (`binds`) [-].
    """

    level: float
    report: ServingReport
    devices: int
    engines: int
    shares: Mapping[str, float]

    @property
    def binds(self) -> str:
        """What most of the time goes to; that there are no requests only where it is more than half of it."""
        busy = {name: share for name, share in self.shares.items() if name != "no requests" or share > 0.5}
        return max(busy, key=lambda name: busy[name])

    @property
    def tokens_per_s_per_device(self) -> float:
        """Output tokens a second of each device. [tokens/s]"""
        return self.report.output_tokens_per_s / self.devices

    @property
    def tokens_per_s_per_user(self) -> float | None:
        """Tokens a sequence receives per second, as its report has it. [tokens/s]"""
        return self.report.output_tokens_per_s_per_user

    @property
    def running(self) -> float:
        """Sequences that decode in a pass of an engine, the mean over its time. [-]"""
        seconds, rows = self.report.log[:, PASS.index("duration_s")], self.report.log[:, PASS.index("decode_rows")]
        return float((seconds * rows).sum() / seconds.sum())

    @property
    def together(self) -> int:
        """The same as a batch of whole sequences. [-]"""
        return max(1, round(self.running))

    def missed(self, limits: Mapping[str, float]) -> list[str]:
        """Names of the ``limits`` that its figures are above, each at its percentile."""
        return [name for name, limit in limits.items() if (self.figure(name) or 0.0) > limit]

    def times(self, time: str) -> Figures | None:
        """Figures of ``ttft``, ``itl``, ``tpot`` or ``e2e``: a closed loop's whole run, the steady part of arrivals."""
        closed = self.report.identity_s is not None
        figures: Figures | None = getattr(self.report, time if closed else f"steady_{time}")
        return figures

    def figure(self, name: str) -> float | None:
        """What a limit is about. [s]"""
        time, metric = about(name)
        figures = self.times(time)
        return None if figures is None else float(getattr(figures, metric).value)


@dataclass(frozen=True, eq=False)
class Carried:
    """The highest load whose figures keep all limits; ``point`` and ``level`` are None where none does.

    ``qps``, ``capacity_qps``: requests a second there, and of an engine with as many requests as it takes in. [1/s]
    """

    level: float | None
    point: OperatingPoint | None
    qps: float
    capacity_qps: float
    message: str

    @property
    def together(self) -> int | None:
        """Sequences of an engine that decode together there, the mean; None where no load keeps all limits. [-]"""
        return None if self.point is None else self.point.together

    def demand_qps(self, peak: float) -> float:
        """Requests a second of so many clients, or of the rate itself, each as it is at this load. [1/s]"""
        return peak * self.qps / self.level if self.level else peak


@dataclass(frozen=True, eq=False)
class Engine:
    """A scenario as a serving engine: times of its passes, its scheduler, its devices, and what requests are like."""

    times: Times
    scheduler: Scheduler
    devices: int
    inputs: Sizes
    outputs: Sizes
    limits: Mapping[str, float]
    pools: Pools | None = None

    @cached_property
    def lengths(self) -> tuple[int, int]:
        """Tokens of a prompt and of an answer, the means. [-]"""
        prompts, answers = self.inputs.draw(_DRAWN, 0, SIZE_STREAM, 0), self.outputs.draw(_DRAWN, 0, OUTPUT_STREAM, 0)
        return max(1, round(prompts.mean())), max(1, round(answers.mean()))

    @cached_property
    def places(self) -> int:
        """Requests of usual length that all engines take in at once; of pools those that decode. [-]"""
        rules = self.scheduler if self.pools is None else self.pools.decode.rules
        return rules.most_seqs(sum(self.lengths)) * rules.ranks * rules.replicas

    def requests(self, load: ClosedLoop | Arrivals) -> int:
        """Requests of a run: 12 of each client, at least 64, 2,000 of an open load; fewer where they are very long."""
        clients = load.clients if isinstance(load, ClosedLoop) else 0
        return max(min(usual_requests(clients), _ROWS // self.lengths[1]), _FEWEST * clients, 1)

    def at(
        self, load: ClosedLoop | Arrivals, requests: int | None = None, seed: int = 0, **of_requests: Any
    ) -> OperatingPoint:
        """Run a load to its last token. ``of_requests``: ``cached`` and ``priority`` as `serve` has them.

        Where ``requests`` are not given, an open load that leaves many under way is run again with more of them: fewer
        than 10 for each would end before the engines are as full as it fills them. TrafficError for what the engine
        can't serve.
        """
        count = self.requests(load) if requests is None else requests
        point = self._run(load, count, seed, of_requests)
        while requests is None and not isinstance(load, ClosedLoop) and (needed := self._needed(point.report)) > count:
            count = max(needed, min(2 * count, self._longest_run))
            point = self._run(load, count, seed, of_requests)
        return point

    @cached_property
    def _longest_run(self) -> int:
        """Requests of a run that keeps every place full, fewer where they are very long. [-]"""
        return min(_TURNS * self.places, self._bound)

    @property
    def _bound(self) -> int:
        """Requests of a run at most, fewer where they are very long. [-]"""
        return min(_ROWS // self.lengths[1], 10**9 if self.pools is None else MOST_REQUESTS)

    def _needed(self, report: ServingReport) -> int:
        """Requests that a run takes with as many under way as this one had, by Little's law. [-]"""
        return min(self._longest_run, math.ceil(_TURNS * report.requests_per_s * report.e2e.mean.value))

    def _run(
        self, load: ClosedLoop | Arrivals, requests: int, seed: int, of_requests: Mapping[str, Any]
    ) -> OperatingPoint:
        serves = partial(serve, self.times, self.scheduler) if self.pools is None else partial(serve_pools, *self.pools)
        report = serves(
            load,
            self.inputs,
            self.outputs,
            requests,
            limits={f"{time}_s": limit for time, limit in tightest(self.limits).items()},
            seed=seed,
            **of_requests,
        )
        level = float(load.clients) if isinstance(load, ClosedLoop) else load.qps
        if self.pools is not None:
            pools = dict(zip(("pool that prefills", "pool that decodes"), (0.5 * busy for busy in report.pool_busy)))
            shares = pools | {"no requests": max(0.0, 1.0 - sum(pools.values()))}
            engines = self.pools.prefill.engines + self.pools.decode.engines
            return OperatingPoint(level, report, self.pools.devices, engines, shares)
        engines = min(self.scheduler.replicas, round(level) if isinstance(load, ClosedLoop) else report.requests)
        return OperatingPoint(level, report, self.devices, engines, binds(report, self.scheduler, engines))

    @cached_property
    def saturated_qps(self) -> float:
        """Requests a second of engines that somebody always waits for; of pools those of the slower. [1/s]"""
        if self.pools is not None:
            return most_per_s(*self.pools, *self.lengths)
        longest = self.inputs.largest + self.outputs.largest
        return full_rate(DecoderServer(self.times, self.scheduler, longest), self.inputs, self.outputs)

    def along(self, load: ClosedLoop | Arrivals) -> Iterator[ClosedLoop | Arrivals]:
        """Loads of a curve around one: eight, by rising clients or rates."""
        if isinstance(load, ClosedLoop):
            top = min(_CLIENTS_MOST, max(_LEAST_REACH, _REACH * load.clients))
            yield from map(load.at, sorted({round(c) for c in np.geomspace(1, top, _POINTS)}))
        else:
            yield from (load.at(share * self.saturated_qps) for share in _SHARES)

    def highest(self, load: ClosedLoop | Arrivals, requests: int | None = None, seed: int = 0) -> Carried:
        """The highest load like this one that keeps the limits, by bisection; of clients at most 4,096.

        ``requests`` of each run; default what `requests` has for its load, and of a rate several times as many for the
        last steps: near what an engine carries at most its queue takes long to build up.
        """
        full, closed = self.saturated_qps, isinstance(load, ClosedLoop)

        def at(x: float) -> OperatingPoint:
            return self.at(load.at(x), requests, seed)

        def long_run(x: float) -> OperatingPoint:
            count = max(usual, min(_LONGER * usual, _LONG, self._bound))
            return self._run(load.at(x), count, seed, {})

        low, high = (1.0, 2.0) if closed else (0.01 * full, 0.1 * full)
        best = at(low)
        if missed := best.missed(self.limits):
            shown = ", ".join(f"{' '.join(about(n))} is {amount(best.figure(n) or 0.0, 's')}" for n in missed)
            return Carried(None, None, 0.0, full, f"No load keeps the limits: at the lowest {shown}")
        bound = float(_CLIENTS_MOST) if closed else full
        while high < bound and not (point := at(high)).missed(self.limits):
            low, best, high = high, point, 2.0 * high
        once = closed or requests is not None
        low, best, high = self._bisect(at, low, best, min(high, bound), _PRECISION if once else _ROUGH)
        if not once:
            usual = best.report.requests
            while (point := long_run(low)).missed(self.limits) and low > 0.01 * full:
                low, high = (1.0 - _ROUGH) * low, low
            low, best, high = self._bisect(long_run, low, point, high, 2.0 * _PRECISION)
        text = f"{best.level:,.4g} {'clients' if closed else 'requests/s'} inside the limits"
        rate = best.report.requests_per_s if closed else best.level
        return Carried(best.level, best, rate, max(full, rate), text)

    def _bisect(
        self, run: Callable[[float], OperatingPoint], low: float, best: OperatingPoint, high: float, precision: float
    ) -> tuple[float, OperatingPoint, float]:
        """A load that keeps the limits, its point, and one that misses them, so near one another; of clients whole."""
        closed = best.report.identity_s is not None
        while high - low >= precision * high:
            middle = round(0.5 * (low + high)) if closed else 0.5 * (low + high)
            if middle in (low, high):
                break
            point = run(middle)
            low, best, high = (low, best, middle) if point.missed(self.limits) else (middle, point, high)
        return low, best, high


def engine(
    scenario: Scenario,
    scheduler: Scheduler,
    limits: Mapping[str, float],
    inputs: Sizes | None = None,
    outputs: Sizes | None = None,
) -> Engine:
    """A scenario's serving engine with its pass times.

    ``limits``: of `LIMITS` [s]. TrafficError or Unsupported where it can't serve.
    """
    inputs, outputs = inputs or Fixed(scenario.inputs), outputs or Fixed(scenario.outputs)
    times, scheduler = engine_of(scenario, scheduler, inputs.largest + outputs.largest)
    return Engine(times, scheduler, devices_of(scenario), inputs, outputs, dict(limits))


def devices_of(scenario: Scenario) -> int:
    """Devices that serve a scenario. [-]"""
    return max(1, sum(priced(scenario)[1].devices_used))


def binds(report: ServingReport, scheduler: Scheduler, engines: int = 1) -> dict[str, float]:
    """Shares of a run's time by what held requests up, from the log of its passes. [-]

    Where a pass leaves nobody out: ``prefill`` or ``decode``, by whether prompts are in it. Where it does: ``max
    sequences`` if every seat is taken (``machine`` if there is but one), ``token budget`` if its tokens are (or a whole
    prompt does not fit what they leave), else ``KV cache``. ``front end``: at the end of a pass that is not done
    with what it had before, or the engine waits for it. ``no requests``: the engine is idle, or of its ``engines`` some
    are.
    """
    log = dict(zip(PASS, report.log.T, strict=True))
    seconds, prefill = log["duration_s"], log["prefill_tokens"]
    tokens = prefill + log["decode_rows"] * (1 + len(scheduler.acceptance))
    full = (tokens >= scheduler.budget * scheduler.ranks) | (
        np.full(prefill.shape, not scheduler.chunked) & (prefill > 0)
    )
    late = (log["behind_s"] >= seconds) & (log["behind_s"] > 0.0)
    held = (log["refused"] > 0) & ~late
    seats = held & (log["running"] >= scheduler.max_seqs * scheduler.ranks)
    budget = held & ~seats & full & (log["preempted"] == 0)
    parts = {
        "decode": ~held & ~late & (prefill == 0),
        "prefill": ~held & ~late & (prefill > 0),
        "token budget": budget,
        "KV cache": held & ~seats & ~budget,
        "max sequences" if scheduler.max_seqs > 1 else "machine": seats,
    }
    span = max(float((log["start_s"] + seconds).max() - report.arrive.min()) * engines, float(seconds.sum()))
    shares = {name: float(seconds[where].sum()) / span for name, where in parts.items()}
    if scheduler.serial:
        shares["front end"] = float(seconds[late].sum() + log["idle_s"].sum()) / span
    return shares | {"no requests": max(0.0, 1.0 - math.fsum(shares.values()))}


def timeline(report: ServingReport, bars: int = 240) -> dict[str, NDArray[np.float64]]:
    """The log of passes as at most ``bars`` consecutive groups of them, in columns.

    ``start_s``, ``end_s`` from the first arrival [s]; of a group the most ``prefill_tokens``, ``decode_rows``,
    ``blocks`` and ``refused`` of a pass, and all ``preempted``: of one engine where there are several [-].
    """
    log = dict(zip(PASS, report.log.T, strict=True))
    start = log["start_s"] - float(report.arrive.min())
    end = start + log["duration_s"]
    group = np.minimum((start / end.max() * bars).astype(np.int64), bars - 1)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    columns = {"start_s": start[first], "end_s": np.maximum.reduceat(end, first)}
    peaks = ("prefill_tokens", "decode_rows", "blocks", "refused")
    columns |= {name: np.maximum.reduceat(log[name], first) for name in peaks}
    return columns | {"preempted": np.add.reduceat(log["preempted"], first)}
