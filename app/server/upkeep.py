"""What a server does beside its pages: it collects garbage where nobody waits, and ends where a script never would.

Streamlit collects after every script, with all scripts stopped; that is switched off (`runner.postScriptGC`).
"""

import gc
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from app.shared import priority
from engine.kernels.allowance import LIMIT_S, began

HOPELESS_S = 10 * LIMIT_S
"""Of processor time, compiling counted, after which a script that has not ended never will. [s]"""
_LOOK_S = 0.1  # between two looks
_QUIET_S = 0.3  # without a script, and nobody is about to wait
_PATIENCE_S = 20.0  # that garbage may lie where somebody always waits
_WORTH = 40  # collections of the youngest, of 700 objects each, that make a whole one worthwhile
_TASKS = Path("/proc/self/task")  # where the system tells what a thread has computed


def _cpu_time_s(thread: threading.Thread) -> float:
    """Processor time that a thread has taken; 0 where the system does not say or it has ended. [s]"""
    try:
        fields = (_TASKS / str(thread.native_id) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watch(limit: float = HOPELESS_S, end: Callable[[], object] = os.abort) -> None:
    """Ends the server, all stacks written down, where a script computes on and on and never asks for its allowance.

    A script ends itself (`engine.kernels.allowance`); one that can't must not hold a core until somebody looks. Whoever
    serves starts the server again (`app/server/supervise.py`), and an address holds all of a page.
    """
    if any(_cpu_time_s(thread) - before > limit for thread, before in began()):
        end()


class Collector:
    """Collects all garbage once enough of it can have come together and no script runs, or after a while anyway."""

    def __init__(self, busy: Callable[[], bool] = priority.busy, clock: Callable[[], float] = time.monotonic) -> None:
        self._busy, self._clock = busy, clock
        self._seen = self._young()
        self._due: float | None = None
        self._quiet: float | None = None
        self.collections = 0

    @staticmethod
    def _young() -> int:
        return gc.get_stats()[0]["collections"]

    def look(self) -> None:
        """Collect if it is time to."""
        now = self._clock()
        self._quiet = None if self._busy() else self._quiet if self._quiet is not None else now
        if self._young() - self._seen < _WORTH:
            return
        self._due = now if self._due is None else self._due
        if (self._quiet is not None and now - self._quiet >= _QUIET_S) or now - self._due >= _PATIENCE_S:
            gc.collect()
            self.collections += 1
            self._seen, self._due = self._young(), None


def upkeep(stop: threading.Event) -> None:
    """Both, looking ten times a second until told to stop."""
    collector = Collector()
    while not stop.wait(_LOOK_S):
        watch()
        collector.look()
