"""Background work: a page submits a job, shows its place in the queue and its progress, and takes its result.

Jobs of one kind share a queue of this server: few work at once, the others wait in the order they came, none takes all
memory or all day. Whatever ends the page that follows a job cancels it: a click, the session's end. Its thread never
calls Streamlit.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import streamlit as st

from app.shared import priority
from engine.scenario import ScenarioError
from engine.scenario.sentences import counted

_MAX_WAITING = 16  # jobs that wait: beyond, the last would wait for minutes
_SHOW_S = 0.1  # between two drawings of a job's progress
_PATIENCE_S = 0.3  # that a page waits for a job it cancelled


def resident() -> float:
    """Memory of this process; 0 where the system does not say. [byte]"""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * float(os.sysconf("SC_PAGE_SIZE"))
    except (OSError, IndexError, ValueError):
        return 0.0


class Queue:
    """Which jobs of one kind work and which wait.

    Parameters
    ----------
    noun : what a job of it is called.
    at_once : jobs that work at the same time. [-]
    share_s : that one works on while others wait. [s]
    room : that all of them may add to the memory of the process. [byte]
    """

    def __init__(
        self,
        noun: str,
        at_once: int = 2,  # a short one passes a long one
        share_s: float = math.inf,
        room: float = math.inf,
        memory: Callable[[], float] = resident,
    ) -> None:
        self.noun, self._share_s, self._room, self._memory = noun, share_s, room, memory
        self._workers = ThreadPoolExecutor(at_once, thread_name_prefix=noun)
        self._lock = threading.Lock()
        self._jobs: dict[Job, float | None] = {}  # in their order, since when each works; None while it waits
        self._before = 0.0

    def ahead(self, job: Job) -> int:
        """Jobs that work or wait before one that waits; 0 where it does not wait. [-]"""
        with self._lock:
            return list(self._jobs).index(job) if self._jobs.get(job, 0.0) is None else 0

    def submit(self, job: Job) -> Future[Any]:
        """Queue a job; ScenarioError where too many wait already."""
        with self._lock:
            if list(self._jobs.values()).count(None) >= _MAX_WAITING:
                raise ScenarioError(f"{_MAX_WAITING} {self.noun}s wait on this server already; try again in a minute")
            self._jobs[job] = None
        future = self._workers.submit(self._turn, job)
        future.add_done_callback(lambda _: self._leave(job))
        return future

    def over(self, job: Job) -> str:
        """Why a job that works should stop now, keeping what it has; empty where it may go on."""
        now = time.monotonic()
        with self._lock:
            if self._memory() - self._before > self._room:
                return f"{self.noun}s may take {self._room / 1e6:,.0f} MB of this server together, and that is taken"
            if None in self._jobs.values() and now - (self._jobs.get(job) or now) > self._share_s:
                return f"others wait, and it had {self._share_s:.0f} s"
        return ""

    def _turn(self, job: Job) -> Any:
        with self._lock:
            if not any(self._jobs.values()):
                self._before = self._memory()
            self._jobs[job] = time.monotonic()
        return job.run()

    def _leave(self, job: Job) -> None:
        with self._lock:
            self._jobs.pop(job, None)


SWEEPS = Queue("sweep", share_s=60.0, room=float(os.environ.get("INFERSCAPE_SWEEP_MB", "800")) * 1e6)
SIMULATIONS = Queue("simulation")
RUNS = Queue("run", at_once=1)  # two measurements at once would measure each other
"""Of this process: every session of a server shares them."""


class Job:
    """Work that waits for its turn, goes on or is over."""

    def __init__(self, queue: Queue, work: Callable[[Job], Any], words: Callable[[float], str] = lambda _: "") -> None:
        """`work` gets the job, to note its progress; `words` say what is done of it, of the share that is."""
        self.queue, self._work, self._words = queue, work, words
        self.share = 0.0  # that is done
        self.why = ""  # the server stopped it, not its reader
        self._stop = threading.Event()
        self._future: Future[Any] | None = None
        self._start_s, self._end_s = time.monotonic(), math.inf

    def submit(self) -> None:
        """Queue it. ScenarioError where too many wait already."""
        self._future = self.queue.submit(self)

    def run(self) -> Any:
        """Do the work, on the queue's thread."""
        if self._stop.is_set():
            raise CancelledError
        self._start_s = time.monotonic()
        try:
            return self._work(self)
        finally:
            self._end_s = time.monotonic()

    @property
    def done(self) -> bool:
        """Whether there is a result, or a reason why not."""
        return self._future is not None and self._future.done()

    @property
    def cancelled(self) -> bool:
        """Whether whoever asked for it left before its end."""
        return self._stop.is_set()

    @property
    def seconds(self) -> float:
        """Since its turn came, or until it was over. [s]"""
        return min(self._end_s, time.monotonic()) - self._start_s

    def status(self) -> str:
        """Before its turn, how many are ahead of it; then what is done of it."""
        if ahead := self.queue.ahead(self):
            return f"Waiting: {counted(ahead, self.queue.noun)} ahead of yours"
        return self._words(self.share)

    def note(self, amount: float, of: float) -> bool:
        """Progress of the work; False once it is cancelled."""
        self.share = amount / max(of, 1)
        return not self._stop.is_set()

    def over(self) -> bool:
        """Whether the work has to stop. Where it may go on, pages of other sessions go first."""
        if not self._stop.is_set() and not self.why:
            self.why = self.queue.over(self)
            if not self.why:
                priority.give_way()
        return bool(self.why) or self._stop.is_set()

    def cancel(self) -> None:
        """Stop at the next look, or never start; what is over stays as it is."""
        if not self.done:
            self._stop.set()
        if self._future is not None:
            self._future.cancel()

    def wait(self, seconds: float) -> None:
        """Wait for its end, at most so long. [s]"""
        if self._future is not None:
            wait([self._future], seconds)

    def result(self) -> Any:
        """What the work returned; raises what it raised, CancelledError where it never began."""
        assert self._future is not None, "a job is submitted first"
        return self._future.result()


@contextmanager
def line(key: str) -> Iterator[Any]:
    """A progress bar with a button that cancels, gone afterwards: the rerun that a click causes leaves the loop."""
    place = st.empty()
    with place.container(horizontal=True, vertical_alignment="center", gap="small"):
        bar = st.progress(0.0, "Queued")
        st.button("Cancel", key=f"{key}.cancel", icon=":material/stop_circle:")
    yield bar
    place.empty()


def follow(job: Job, bar: Any, share: Callable[[float], float] = lambda part: part) -> Any:
    """Result of a job that is submitted, its progress drawn in `bar`; raises what it raised. None of one cancelled.

    Whatever leaves this before the end cancels the job: a click on anything does as the next line is drawn.
    """
    job.submit()
    try:
        with priority.patient():
            while not job.done:
                bar.progress(min(share(job.share), 1.0), job.status())
                job.wait(_SHOW_S)
    finally:
        job.cancel()
        job.wait(_PATIENCE_S)
    return None if job.cancelled else job.result()
