"""A long simulation in the background: progress while it runs, cancel at any time, what is done stays. Pure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import dataclass
from typing import Any

from app.shared.load import Load
from engine.kernels.jit import pool
from engine.traffic import Headline, LoadReport, Sla, capacity, latency_curve, max_qps, simulate
from engine.traffic.service import TrafficError

_POINTS = 20
_SCAN, _STEPS = 12, 8  # loads `max_qps` scans, and about how many it tries after
_REPLICATIONS = 16


class _Counted(Executor):
    """The process's pool, with each piece of work counted, and none begun after a cancel."""

    def __init__(self, stop: threading.Event) -> None:
        self.stop = stop
        self.done = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        def work() -> Any:
            if self.stop.is_set():
                raise CancelledError
            result = fn(*args, **kwargs)
            self.done += 1
            return result

        return pool().submit(work)


@dataclass(frozen=True)
class Progress:
    """Requests simulated and expected, and seconds since the start."""

    done: float
    total: float
    elapsed_s: float


class Simulation:
    """Curve, load inside the agreement, and one load in full; started on a thread of its own."""

    def __init__(self, load: Load, sla: Sla, qps: float, requests: int) -> None:
        self.load, self.sla, self.qps, self.requests = load, sla, qps, requests
        self.curve: list[LoadReport] = []
        self.headline: Headline | None = None
        self.spot: LoadReport | None = None
        self.problem: str | None = None
        self.cancelled = False
        self._stop = threading.Event()
        self._scan, self._search, self._last = (_Counted(self._stop) for _ in range(3))
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether it still works."""
        return self._thread.is_alive()

    def cancel(self) -> None:
        """Stop at the next piece of work; what is done stays."""
        self._stop.set()

    def wait(self, seconds: float) -> None:
        """Wait for the end, at most so long. [s]"""
        self._thread.join(seconds)

    @property
    def progress(self) -> Progress:
        """How far it is; the search's share is expected, not known."""
        whole = self._scan.done + min(self._search.done, _SCAN)
        parts = max(0, self._search.done - _SCAN) + self._last.done
        total = _POINTS + _SCAN + _STEPS + 1
        done = min(total, whole + parts / _REPLICATIONS)
        return Progress(done * self.requests, total * self.requests, time.monotonic() - self._began)

    def _work(self) -> None:
        try:
            self._simulate()
        except CancelledError:
            self.cancelled = True
        except TrafficError as error:
            self.problem = str(error)

    def _simulate(self) -> None:
        system, sizes, outputs = self.load.system()
        arrivals = self.load.at(self.qps)
        top = capacity(system, sizes, outputs)
        common: dict[str, Any] = {"sizes": sizes, "outputs": outputs}

        def kept(report: LoadReport) -> bool:
            self.curve.append(report)
            return self._stop.is_set()

        latency_curve(
            system, arrivals, points=_POINTS, requests=self.requests, executor=self._scan, until=kept, **common
        )
        if self._stop.is_set():
            raise CancelledError
        self.headline = max_qps(system, self.sla, arrivals, requests=self.requests, executor=self._search, **common)
        self.spot = simulate(
            system, arrivals, requests=self.requests, ceiling=top, executor=self._last, keep_samples=True, **common
        )
