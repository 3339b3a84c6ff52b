"""A long simulation in the background: progress while it runs, cancel at any time, what is done stays. Pure."""

from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Executor, Future
from typing import Any

from app.shared import formats as fmt
from app.shared import jobs, priority
from app.shared.jobs import Job
from app.shared.load import Load, ServingLoad
from engine import traffic
from engine.traffic import Headline, Sla

_POINTS = 20
_SCAN, _STEPS = 12, 8  # loads `max_qps` scans, and about how many it tries after
_REPLICATIONS = 16  # pieces of work of each of those, and of the load in full


class _Counted(Executor):
    """The server's background threads, each piece of a job's work noted as done, and none begun after a cancel.

    How many loads the search tries is expected, not known.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.count = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        def work() -> Any:
            if self.job.over():
                raise CancelledError
            result = fn(*args, **kwargs)
            self.count += 1
            whole = min(self.count, _POINTS + _SCAN)
            total = _POINTS + _SCAN + _STEPS + 1
            self.job.note(min(total, whole + (self.count - whole) / _REPLICATIONS), total)
            return result

        return priority.background().submit(work)


class SimulationJob(Job):
    """Loads along a curve, and one in full, of so many requests each; ``simulate`` fills it in."""

    def __init__(
        self, simulate: Callable[["SimulationJob"], None], subject: Hashable, requests: int, qps: float = 0.0
    ) -> None:
        super().__init__(jobs.SIMULATIONS, lambda _: simulate(self), self._progress)
        self.subject, self.requests, self.qps = subject, requests, qps
        self.curve: list[Any] = []  # LoadReport, or OperatingPoint of a serving engine
        self.detail: Any = None  # the same, of the load in full
        self.headline: Headline | None = None  # the load inside the agreement

    def _progress(self, share: float) -> str:
        """`24% · 1.20 s left`."""
        remaining = f" · {fmt.seconds((1 - share) * self.seconds / share)} left" if share > 0 else ""
        return f"{fmt.percent(share)}{remaining}"


def serving_simulation(load: ServingLoad, requests: int) -> SimulationJob:
    """A serving engine along its load."""

    def simulate(job: SimulationJob) -> None:
        subject, demand = load.engine, load.demand
        loads = list(subject.along(demand))
        for at, level in enumerate(loads, 1):
            if job.over():
                raise CancelledError
            job.curve.append(subject.at(level, requests))
            job.note(at, len(loads) + 1)
        job.detail = subject.at(demand, requests)
        job.note(1, 1)

    return SimulationJob(simulate, load, requests)


def simulation(load: Load, sla: Sla, qps: float, requests: int) -> SimulationJob:
    """Curve, load inside the agreement, and one load in full."""

    def simulate(job: SimulationJob) -> None:
        system, sizes, outputs = load.system()
        arrivals, top = load.at(qps), traffic.capacity(system, sizes, outputs)
        common: dict[str, Any] = {"sizes": sizes, "outputs": outputs, "requests": requests, "executor": _Counted(job)}

        def until(report: traffic.LoadReport) -> bool:
            job.curve.append(report)
            return job.cancelled

        traffic.latency_curve(system, arrivals, points=_POINTS, until=until, **common)
        if job.cancelled:
            raise CancelledError
        job.headline = traffic.max_qps(system, sla, arrivals, **common)
        job.detail = traffic.simulate(system, arrivals, ceiling=top, keep_samples=True, **common)

    return SimulationJob(simulate, (load, sla), requests, qps)
