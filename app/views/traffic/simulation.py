"""A long simulation in the background: progress while it runs, cancel at any time, what is done stays. Pure."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Executor, Future
from typing import Any

from app.shared import formats as fmt
from app.shared import jobs, priority
from app.shared.jobs import Job
from app.shared.load import Load, ServingLoad
from engine.traffic import Headline, LoadReport, Sla, capacity, latency_curve, max_qps, simulate
from engine.traffic.engines.operating_points import OperatingPoint
from engine.traffic.service import TrafficError

_POINTS = 20
_SCAN, _STEPS = 12, 8  # loads `max_qps` scans, and about how many it tries after
_REPLICATIONS = 16  # pieces of work of each of those, and of the load in full


class _Counted(Executor):
    """The server's background threads, each piece of a job's work noted as done, and none begun after a cancel.

    How many loads the search tries is expected, not known.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.done = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        def work() -> Any:
            if self.job.over():
                raise CancelledError
            result = fn(*args, **kwargs)
            self.done += 1
            whole = min(self.done, _POINTS + _SCAN)
            total = _POINTS + _SCAN + _STEPS + 1
            self.job.note(min(total, whole + (self.done - whole) / _REPLICATIONS), total)
            return result

        return priority.background().submit(work)


class SimulationJob(Job, ABC):
    """Loads along a curve, and one in full, of so many requests each."""

    qps = 0.0

    def __init__(self, asked: Hashable, requests: int) -> None:
        super().__init__(jobs.SIMULATIONS, lambda _: self._simulate(), self._progress)
        self.asked, self.requests = asked, requests
        self.curve: list[Any] = []

    @property
    def problem(self) -> str | None:
        """Why the load can't be simulated, once that is known; raises what nobody expected."""
        if not self.done or self.cancelled:
            return None
        try:
            return self.result()
        except TrafficError as error:
            return str(error)

    def _progress(self, share: float) -> str:
        """`24% · 1.20 s left`."""
        left = f" · {fmt.seconds((1 - share) * self.seconds / share)} left" if share > 0 else ""
        return f"{fmt.percent(share)}{left}"

    @abstractmethod
    def _simulate(self) -> None:
        """The work; what it finds are the job's fields."""


class ServingSimulation(SimulationJob):
    """A serving engine along its load."""

    def __init__(self, load: ServingLoad, requests: int) -> None:
        super().__init__(load, requests)
        self.load, self.curve = load, list[OperatingPoint]()
        self.point: OperatingPoint | None = None

    def _simulate(self) -> None:
        subject, offered = self.load.engine, self.load.offered
        loads = list(subject.along(offered))
        for at, load in enumerate(loads, 1):
            if self.over():
                raise CancelledError
            self.curve.append(subject.at(load, self.requests))
            self.note(at, len(loads) + 1)
        self.point = subject.at(offered, self.requests)
        self.note(1, 1)


class Simulation(SimulationJob):
    """Curve, load inside the agreement, and one load in full."""

    def __init__(self, load: Load, sla: Sla, qps: float, requests: int) -> None:
        super().__init__((load, sla), requests)
        self.load, self.sla, self.qps = load, sla, qps
        self.headline: Headline | None = None
        self.spot: LoadReport | None = None

    def _simulate(self) -> None:
        system, sizes, outputs = self.load.system()
        arrivals = self.load.at(self.qps)
        top = capacity(system, sizes, outputs)
        common: dict[str, Any] = {"sizes": sizes, "outputs": outputs, "requests": self.requests}
        common["executor"] = _Counted(self)

        def noted(report: LoadReport) -> bool:
            self.curve.append(report)
            return self.cancelled

        latency_curve(system, arrivals, points=_POINTS, until=noted, **common)
        if self.cancelled:
            raise CancelledError
        self.headline = max_qps(system, self.sla, arrivals, **common)
        self.spot = simulate(system, arrivals, ceiling=top, keep_samples=True, **common)
