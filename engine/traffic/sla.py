"""What load a system can carry inside a service-level agreement, and what stops it there.

Simulated, with a confidence interval, or a bound where one is named.
"""

import re
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from engine.scenario.token import brief
from engine.traffic.arrivals import Arrivals
from engine.traffic.limits import capacity
from engine.traffic.policies import DecoderServer, TandemQueue
from engine.traffic.service import TrafficError, positive
from engine.traffic.simulate import LoadReport, latency_curve, simulate
from engine.traffic.sizes import Fixed, Sizes
from hardware_specs.quantity import SpecError, parse

_METRICS = ("mean", "p50", "p95", "p99")
_UNIT = Fixed(1)
_BRACKET_POINTS = 12  # loads scanned first: a tail need not grow with load (a batching timeout shrinks with it)
_SATURATED = 0.95  # carried load over capacity from which the busiest resource is the limit, not the queue
_STEPS_MAX = 40


def agreed(text: str) -> tuple[str, str, float]:
    """Time, metric and seconds [s] of ``p99=20ms`` or ``ttft:p95=300ms``. TrafficError for a text that is none."""
    match = re.fullmatch(r"(?:(\w+):)?(\w+)\s*<?=\s*(\S.*)", text.strip())
    try:
        seconds, dimension = parse(match[3]) if match else (0.0, "")
    except SpecError:
        dimension = ""
    if match is None or dimension != "s":
        raise TrafficError(f"sla is {brief(text)}; write it like p99=20ms or ttft:p95=300ms")
    return match[1] or "latency", match[2], positive("sla", seconds)


@dataclass(frozen=True)
class Sla:
    """``metric`` of the latency at most ``seconds`` [s]; of requests at most ``max_dropped`` are turned away [-]."""

    seconds: float
    metric: str = "p99"
    max_dropped: float = 0.001

    def __post_init__(self) -> None:
        positive("seconds", self.seconds)
        if self.metric not in _METRICS:
            raise TrafficError(f"metric is {brief(self.metric)}; it must be one of {', '.join(_METRICS)}")
        if not 0.0 <= self.max_dropped <= 1.0:
            raise TrafficError(f"max_dropped is {self.max_dropped!r}; it must lie in [0, 1]")

    @classmethod
    def parse(cls, text: str) -> "Sla":
        """``p99=20ms``: a metric and a time with its unit (ns, us, ms, s). TrafficError for a text that is none."""
        time, metric, seconds = agreed(text)
        if time != "latency":
            raise TrafficError(f"time is {brief(time)}; only a language model has one, other systems have latency")
        return cls(seconds, metric)

    def figure(self, report: LoadReport, side: str = "value") -> float | None:
        """The figure the agreement is about, or an end (``low``, ``high``) of its interval. [s]"""
        tail = report.latency
        return None if tail is None else float(getattr(getattr(tail, self.metric), side))

    def met(self, report: LoadReport, side: str = "value") -> bool:
        """Whether the report keeps the agreement, by its estimate or by an end of the interval."""
        figure = self.figure(report, side)
        return figure is not None and figure <= self.seconds and getattr(report.dropped, side) <= self.max_dropped


@dataclass(frozen=True)
class Headline:
    """The answer to "what load can it carry?".

    Attributes
    ----------
    qps : float
        Highest load found to keep the agreement; 0 if none does. [1/s]
    sure_qps, hopeless_qps : float
        Highest simulated load that keeps it by the upper end of the interval, lowest above ``qps`` that breaks it by
        the lower end (capacity where none did). [1/s]
    limit : str
        ``queueing``, ``drops``, ``service time`` (even an idle system is too slow) or a resource that is full.
    report : LoadReport
        The system at ``qps``, or at the lowest load tried.
    """

    qps: float
    sure_qps: float
    hopeless_qps: float
    capacity_qps: float
    limit: str
    message: str
    report: LoadReport
    tried: int


def max_qps(
    system: TandemQueue | DecoderServer,
    sla: Sla,
    arrivals: Arrivals,
    *,
    sizes: Sizes = _UNIT,
    outputs: Sizes = _UNIT,
    requests: int = 200_000,
    precision: float = 0.002,
    seed: int = 0,
    executor: Executor | None = None,
) -> Headline:
    """Highest load that keeps ``sla``, by a scan of loads and bisection above the highest that passes.

    An estimate: ``qps`` goes by the estimates of the figures, and ``sure_qps``/``hopeless_qps`` say how far their
    intervals let it be off. All loads see the same random numbers. ``precision`` is relative to capacity. [1/s]
    """
    positive("precision", precision)
    top = capacity(system, sizes, outputs, seed)
    # a finite buffer has a steady state above capacity too, so look there as well
    reach = min(2.0, 0.999 * top.breaks_qps / top.qps)
    common: dict[str, Any] = {"sizes": sizes, "outputs": outputs, "requests": requests, "seed": seed}
    common["executor"] = executor
    scanned = latency_curve(system, arrivals, points=_BRACKET_POINTS, high=reach, **common)
    by_rate = {report.qps: report for report in scanned}
    passing = [i for i, report in enumerate(scanned) if sla.met(report)]
    if not passing:
        idle = scanned[0]
        limit = "drops" if _only_drops(sla, idle) else "service time"
        figure = sla.figure(idle)
        text = (
            f"No load keeps {sla.metric} <= {sla.seconds:.4g} s: "
            f"at {idle.rho:.0%} of capacity it is {'unknown' if figure is None else f'{figure:.4g} s'}."
        )
        hopeless = min((q for q, r in by_rate.items() if not sla.met(r, "low")), default=top.qps)
        return Headline(0.0, 0.0, hopeless, top.qps, limit, text, idle, len(by_rate))
    best = scanned[passing[-1]]
    above = scanned[passing[-1] + 1] if passing[-1] + 1 < len(scanned) else None
    steps = 0
    while above is not None and above.qps - best.qps > precision * top.qps and steps < _STEPS_MAX:
        middle = simulate(system, arrivals.at(0.5 * (best.qps + above.qps)), ceiling=top, **common)
        by_rate[middle.qps] = middle
        best, above = (middle, above) if sla.met(middle) else (best, middle)
        steps += 1
    limit = _limit(sla, best, above)
    sure = max((q for q, r in by_rate.items() if q <= best.qps and sla.met(r, "high")), default=0.0)
    hopeless = min((q for q, r in by_rate.items() if q > best.qps and not sla.met(r, "low")), default=reach * top.qps)
    text = f"max {best.qps:.4g} QPS at {sla.metric} <= {sla.seconds:.4g} s, limited by {limit}"
    return Headline(best.qps, sure, hopeless, top.qps, limit, text, best, len(by_rate))


def _only_drops(sla: Sla, report: LoadReport) -> bool:
    figure = sla.figure(report)
    return figure is not None and figure <= sla.seconds and report.dropped.value > sla.max_dropped


def _limit(sla: Sla, best: LoadReport, above: LoadReport | None) -> str:
    """Why not more: the resource that is full, dropped requests, or waiting before anything is full."""
    if best.rho >= _SATURATED:
        return best.capacity.limit
    if above is not None and _only_drops(sla, above):
        return "drops"
    return "queueing"
