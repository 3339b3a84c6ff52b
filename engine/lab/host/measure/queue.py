"""Runs of a shared server, one at a time: each waits for its turn and can be given up.

Two measurements at once would measure each other, so there is one process that measures and one thread that waits
for it; whoever serves pages shares no lock with the run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from engine.lab.host.measure.cases import MeasureError
from engine.lab.host.measure.process import MeasuringProcess
from engine.lab.timing import Progress

_MOST = 16  # runs waiting or under way: beyond, a reader would wait for minutes


class QueuedRun:
    """A run that waits, goes on or is done."""

    def __init__(self, turns: RunQueue) -> None:
        self._turns = turns
        self._stop = threading.Event()
        self.share = 0.0  # of the run that is done
        self.future: Future[Any] | None = None

    @property
    def ahead(self) -> int:
        """Runs before this one; 0: it is this one's turn, or it is done. [-]"""
        return self._turns.ahead(self)

    @property
    def done(self) -> bool:
        """Whether there is a result or a reason why not."""
        return self.future is not None and self.future.done()

    def result(self) -> Any:
        """What the run returned; raises what it raised."""
        assert self.future is not None
        return self.future.result()

    def give_up(self) -> None:
        """Stop at the next sample, or never start."""
        self._stop.set()
        if self.future is not None:
            self.future.cancel()

    def told(self, done: int, of: int) -> bool:
        """Progress of the run; False once it was given up."""
        self.share = done / max(of, 1)
        return not self._stop.is_set()


class RunQueue:
    """A queue with one worker."""

    def __init__(self) -> None:
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="measure")
        self._lock = threading.Lock()
        self._waiting: list[QueuedRun] = []

    def submit(self, run: Callable[[Progress], Any]) -> QueuedRun:
        """Queue ``run``, which gets the progress function to call; MeasureError where too many wait already."""
        ticket = QueuedRun(self)
        with self._lock:
            if len(self._waiting) >= _MOST:
                raise MeasureError(f"runs waiting are {len(self._waiting)}; allowed: {_MOST}, try again in a minute")
            self._waiting.append(ticket)
        ticket.future = self._worker.submit(run, ticket.told)
        ticket.future.add_done_callback(lambda _: self._leave(ticket))
        return ticket

    def _leave(self, ticket: QueuedRun) -> None:
        with self._lock:
            if ticket in self._waiting:
                self._waiting.remove(ticket)

    def ahead(self, ticket: QueuedRun) -> int:
        """Runs before a ticket. [-]"""
        with self._lock:
            return self._waiting.index(ticket) if ticket in self._waiting else 0


_TURNS, _APART = RunQueue(), MeasuringProcess()  # of this process: every session of a server shares them


def queued(job: Callable[..., Any], *args: Any) -> QueuedRun:
    """Queue ``job(*args, progress=...)``, a module's function, for the server's measuring process."""
    return _TURNS.submit(lambda told: _APART.run(job, *args, progress=told))
