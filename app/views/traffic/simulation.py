"""A long simulation in the background: progress while it runs, cancel at any time, what is done stays. Pure."""

from __future__ import annotations

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
_REPLICATIONS = 16


class _Counted(Executor):
    """The server's background threads, with each piece of a job's work counted, and none begun after a cancel."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.done = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        def work() -> Any:
            if self.job.over():
                raise CancelledError
            result = fn(*args, **kwargs)
            self.done += 1
            return result

        return priority.background().submit(work)


class SimulationJob(Job, ABC):
    """Loads along a curve, and one in full, of so many requests each."""

    qps = 0.0

    def __init__(self, asked: Hashable, requests: int) -> None:
        super().__init__(jobs.SIMULATIONS, lambda _: self._simulate(), lambda _: self._progress())
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

    @property
    def done_of_all(self) -> tuple[float, float]:
        """Requests that are simulated, and all of them. [-]"""
        done, total = self._loads()
        return done * self.requests, total * self.requests

    def _progress(self) -> str:
        """`12.0 of 50.0 k requests · 1.20 M requests/s · 0.1 s left`."""
        (done, total), spent = self.done_of_all, self.seconds
        text = f"{fmt.of(done, total, 'requests')} · {fmt.si(done / spent if spent > 0 else 0.0, 'requests/s')}"
        return text + (f" · {fmt.seconds((total - done) * spent / done)} left" if done > 0 else "")

    @abstractmethod
    def _loads(self) -> tuple[float, int]:
        """Loads that are done, and all of them."""

    @abstractmethod
    def _simulate(self) -> None:
        """The work; what it finds are the job's fields."""


class ServingSimulation(SimulationJob):
    """A serving engine along its load."""

    def __init__(self, load: ServingLoad, requests: int) -> None:
        super().__init__(load, requests)
        self.load, self.curve = load, list[OperatingPoint]()
        self.point: OperatingPoint | None = None
        self._total = 0

    def _loads(self) -> tuple[float, int]:
        return len(self.curve) + (self.point is not None), max(1, self._total)

    def _simulate(self) -> None:
        subject = self.load.engine
        loads = list(subject.along(self.load.offered))
        self._total = len(loads) + 1
        for load in loads:
            if self.over():
                raise CancelledError
            self.curve.append(subject.at(load, self.requests))
        self.point = subject.at(self.load.offered, self.requests)


class Simulation(SimulationJob):
    """Curve, load inside the agreement, and one load in full."""

    def __init__(self, load: Load, sla: Sla, qps: float, requests: int) -> None:
        super().__init__((load, sla), requests)
        self.load, self.sla, self.qps = load, sla, qps
        self.headline: Headline | None = None
        self.spot: LoadReport | None = None
        self._scan, self._search, self._last = (_Counted(self) for _ in range(3))

    def _loads(self) -> tuple[float, int]:
        """The search's share is expected, not known."""
        whole = self._scan.done + min(self._search.done, _SCAN)
        parts = max(0, self._search.done - _SCAN) + self._last.done
        total = _POINTS + _SCAN + _STEPS + 1
        return min(total, whole + parts / _REPLICATIONS), total

    def _simulate(self) -> None:
        system, sizes, outputs = self.load.system()
        arrivals = self.load.at(self.qps)
        top = capacity(system, sizes, outputs)
        common: dict[str, Any] = {"sizes": sizes, "outputs": outputs}

        def kept(report: LoadReport) -> bool:
            self.curve.append(report)
            return self.cancelled

        latency_curve(
            system, arrivals, points=_POINTS, requests=self.requests, executor=self._scan, until=kept, **common
        )
        if self.cancelled:
            raise CancelledError
        self.headline = max_qps(system, self.sla, arrivals, requests=self.requests, executor=self._search, **common)
        self.spot = simulate(
            system, arrivals, requests=self.requests, ceiling=top, executor=self._last, keep_samples=True, **common
        )
