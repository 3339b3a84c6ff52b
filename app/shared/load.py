"""A load on a scenario as plain settings, and the instant answers to it: closed forms, else a small simulation. Pure.

A request is what the scenario prices: its batch, at its lengths. Everything here is an estimate as good as the cost
model; `LoadPoint.kind` and `Answer.kind` say whether a queue's law or a simulation made it.
"""

import io
import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from engine import traffic
from engine.scenario import Scenario, decode
from engine.scenario.scenario import Costs
from engine.traffic.engines.calendar import ClosedLoop
from engine.traffic.engines.operating_points import Carried, Engine, OperatingPoint, engine
from engine.traffic.engines.scheduler import Scheduler
from engine.traffic.serving import Serving

# Share of a day's mean rate by hour: a night at half load and an evening peak; a shape to plan with, not a measurement.
DAY = (0.6, 0.5, 0.45, 0.42, 0.45, 0.55, 0.7, 0.9, 1.05, 1.15, 1.2, 1.22,
       1.2, 1.18, 1.15, 1.15, 1.18, 1.25, 1.35, 1.45, 1.5, 1.4, 1.15, 0.85)  # fmt: skip
_ALONE, _POISSON = Serving(max_batch=1), traffic.Poisson(1.0)
_QUICK = 20_000  # requests of an answer at slider speed
_POINTS = 24  # of a curve
_LOWEST, _HIGHEST = 0.02, 0.98  # of capacity, the ends of a curve
_BINS_PER_DECADE = 24
_STEPS = 100  # of a day
_WARM_UP, _WINDOW = 500, 40  # requests before a window, and in it


@lru_cache(maxsize=8)
def _trace(text: str) -> tuple[traffic.Trace, traffic.Listed | None, traffic.Listed | None]:
    return traffic.read_trace(io.StringIO(text, newline=""))


@dataclass(frozen=True)
class Load:
    """Everything a simulation needs but the rate; hashable. Arrivals are at 1 QPS, or those of a ``trace``: a text
    that may say sizes and outputs of the requests as well.
    """

    token: str
    rules: Serving = _ALONE
    arrivals: traffic.Arrivals = _POISSON
    trace: str = ""

    @property
    def scenario(self) -> Scenario:
        """The scenario under this load."""
        return decode(self.token)

    @property
    def process(self) -> str:
        """Name of the arrivals' process, for files."""
        return "trace" if self.trace else type(self.arrivals).__name__.lower()

    def at(self, qps: float) -> traffic.Arrivals:
        """Arrivals at a mean rate. [1/s]"""
        return (_trace(self.trace)[0] if self.trace else self.arrivals).at(qps)

    @property
    def serving(self) -> Serving:
        """How the scenario is put to work."""
        if not self.trace:
            return self.rules
        _, sizes, outputs = _trace(self.trace)
        return replace(self.rules, sizes=sizes, outputs=outputs)

    def system(self) -> tuple[traffic.TandemQueue | traffic.DecoderServer, Any, Any]:
        """The queue the scenario would be, and the sizes and output lengths of its requests."""
        return self.serving.of(self.scenario)


@dataclass(frozen=True)
class ServingLoad:
    """A language model's serving engine, and its load; hashable.

    ``load`` has arrivals and sizes; ``limits`` are `operating_points.LIMITS` and seconds; requests come from the
    clients of a closed ``loop``, else at ``qps`` [1/s]; at most so many ``requests``, where they are given, at that
    load.
    """

    load: Load
    scheduler: Scheduler
    limits: tuple[tuple[str, float], ...] = ()
    loop: ClosedLoop | None = None
    qps: float = 1.0
    requests: int | None = None

    @property
    def demand(self) -> ClosedLoop | traffic.Arrivals:
        """Clients, or arrivals."""
        return self.loop or self.load.at(self.qps)

    @property
    def unit_load(self) -> Self:
        """The same of one client or one request a second: what does not depend on how many there are."""
        return replace(self, qps=1.0, requests=None, loop=self.loop and replace(self.loop, clients=1))

    @property
    def engine(self) -> Engine:
        """The serving engine; the same one for every level of the load."""
        return _engine(self.unit_load)


@lru_cache(maxsize=32)
def _engine(load: ServingLoad) -> Engine:
    serving = load.load.serving
    return engine(load.load.scenario, load.scheduler, dict(load.limits), serving.sizes, serving.outputs)


def serving_points(load: ServingLoad) -> tuple[OperatingPoint, tuple[OperatingPoint, ...]]:
    """A serving engine at its load, and along it."""
    subject, demand = load.engine, load.demand
    asked = load.requests and min(load.requests, subject.requests(demand))
    return subject.at(demand, asked), tuple(map(subject.at, subject.along(demand)))


def serving_capacity(load: ServingLoad) -> Carried:
    """The highest load that keeps all limits."""
    return load.engine.highest(load.demand)


@dataclass(frozen=True, eq=False)
class LoadPoint:
    """One load on the curve; `figure` is what the agreement is about, with its interval where simulated. [s]"""

    qps: float
    figure: float | None
    low: float | None
    high: float | None
    p50: float | None
    use: dict[str, float] = field(default_factory=dict)  # share of time each resource is busy


@dataclass(frozen=True, eq=False)
class Answer:
    """What load a scenario carries inside an agreement, and the curve that says why."""

    capacity: traffic.Capacity
    headline: traffic.Headline
    curve: tuple[LoadPoint, ...]
    kind: str  # the law's name, or "simulation"
    requests: int


def point_of(report: traffic.LoadReport, sla: traffic.Sla) -> LoadPoint:
    """A simulated load as a point of the curve."""
    figure, low, high = (sla.figure(report, side) for side in ("value", "low", "high"))
    tail = report.latency
    return LoadPoint(report.qps, figure, low, high, None if tail is None else tail.p50.value, report.use)


def answer(load: Load, sla: traffic.Sla) -> Answer:
    """Capacity, the load inside the agreement and the curve, at slider speed."""
    system, sizes, outputs = load.system()
    top = traffic.capacity(system, sizes, outputs)
    best = traffic.max_qps(system, sla, load.at(1.0), sizes=sizes, outputs=outputs, requests=_QUICK)
    loads = np.linspace(_LOWEST, _HIGHEST, _POINTS) * min(top.qps, top.breaks_qps)
    laws = [(qps, law) for qps in loads.tolist() if (law := traffic.instant(system, load.at(qps))) is not None]
    if laws:
        share = None if sla.metric == "mean" else float(sla.metric[1:]) / 100
        figures = [law.mean if share is None else law.quantile(share) for _, law in laws]
        curve = tuple(
            LoadPoint(qps, figure, None, None, law.quantile(0.5), _use(top, qps))
            for (qps, law), figure in zip(laws, figures, strict=True)
        )
        return Answer(top, best, curve, laws[0][1].name, 0)
    reports = traffic.latency_curve(
        system, load.at(1.0), sizes=sizes, outputs=outputs, points=_POINTS, low=_LOWEST, high=_HIGHEST, requests=_QUICK
    )
    return Answer(top, best, tuple(point_of(r, sla) for r in reports if r.stable), "simulation", _QUICK)


@dataclass(frozen=True, eq=False)
class LoadDetail:
    """One load in full: figures, its distribution, and how busy everything is."""

    message: str | None  # why there is no steady state
    kind: str
    use: dict[str, float]
    report: traffic.LoadReport | None = None
    drop_share: float = 0.0
    figures: dict[str, float] = field(default_factory=dict)  # mean, p50, p95, p99 of the agreement's time [s]
    edges: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))  # of equally wide bins on a log axis [s]
    shares: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))  # of requests in each [-]


def _use(top: traffic.Capacity, qps: float) -> dict[str, float]:
    return {name: min(1.0, seconds * qps) for name, seconds in top.busy_s.items()}


def point(load: Load, qps: float, top: traffic.Capacity) -> LoadDetail:
    """The system at one load: by its law where it has one, else by a small simulation."""
    system, sizes, outputs = load.system()
    use = _use(top, qps)
    if qps >= top.breaks_qps and not load.trace:  # a trace ends, and its queue with it
        return LoadDetail("overload", "", use)
    law = traffic.instant(system, load.at(qps))
    if law is not None:
        figures = {"mean": law.mean} | {f"p{q}": law.quantile(q / 100) for q in (50, 95, 99)}
        edges = log_edges(0.9 * law.quantile(0.001), law.quantile(0.9999))
        above = np.array([law.tail(float(t)) for t in edges])
        return LoadDetail(None, law.name, use, None, 0.0, figures, edges, above[:-1] - above[1:])
    report = traffic.simulate(
        system, load.at(qps), sizes=sizes, outputs=outputs, requests=_QUICK, ceiling=top, keep_samples=True
    )
    return detail_of(report)


def detail_of(report: traffic.LoadReport) -> LoadDetail:
    """A simulated load in full; its histogram is always of the whole latency."""
    tail, common = report.latency, ("simulation", report.use, report, report.dropped.value)
    if tail is None or report.samples is None or report.samples.size == 0:
        return LoadDetail(report.message, *common)
    samples = report.samples
    edges = log_edges(0.9 * float(samples.min()), 1.1 * float(samples.max()))
    shares = np.histogram(samples, edges)[0] / samples.size
    figures = {name: getattr(tail, name).value for name in ("mean", "p50", "p95", "p99")}
    return LoadDetail(None, *common, figures, edges, shares)


@dataclass(frozen=True)
class Site:
    """Demand and site of a plan, as the sidebar has them. [1/s], [-], [W], [$]"""

    peak_qps: float
    mean_share: float
    headroom: float
    survives: str
    slots: int
    rack_w: float
    node_usd: float | None
    idle_w: float | None

    @property
    def demand(self) -> traffic.Demand:
        """A day of that peak and mean. Power is linear in load, so only those two count: a hundredth of the day at the
        peak, the rest level."""
        base_qps = self.peak_qps * max(0.0, self.mean_share * _STEPS - 1) / (_STEPS - 1)
        return traffic.Demand((self.peak_qps, *[base_qps] * (_STEPS - 1)))

    def facts(self, costs: Costs) -> traffic.SiteFacts:
        """The site with a scenario's own costs."""
        return traffic.SiteFacts(self.slots, self.rack_w, 0.0, costs.pue, costs.energy_usd_per_kwh, costs.years)


def log_edges(low: float, high: float) -> NDArray[np.float64]:
    """Edges of bins that are equally wide on a log axis. [s]"""
    bins = max(12, math.ceil(_BINS_PER_DECADE * math.log10(high / low)))
    return np.geomspace(low, high, bins + 1)


def window(load: Load, qps: float) -> traffic.RequestTimeline:
    """Forty requests on their way, after the queue has settled."""
    system, sizes, _ = load.system()
    assert isinstance(system, traffic.TandemQueue)
    return traffic.timeline(system, load.at(qps), sizes=sizes, after=_WARM_UP, show=_WINDOW)
