"""What a server does beside its pages: it collects garbage where nobody waits, and ends scripts that never would.

Streamlit collects after every script, with all scripts stopped; that is switched off (`runner.postScriptGC`).
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from weakref import WeakKeyDictionary

from app.shared import priority

LIMIT_S = 60.0
"""Of computing that a page's script may take, compiling and waiting not counted. [s]"""
_LOOK_S = 0.1  # between two looks
_QUIET_S = 0.3  # without a script, and nobody is about to wait
_PATIENCE_S = 20.0  # that garbage may lie where somebody always waits
_WORTH = 40  # collections of the youngest, of 700 objects each, that make a whole one worthwhile


class Overdue(Exception):
    """A page's script computed for too long and was ended."""

    def __init__(self, limit: float = LIMIT_S) -> None:
        super().__init__(f"It had computed for more than {limit:.0f} s and was ended")


_TASKS = Path("/proc/self/task")
_CLOCKS = _TASKS.is_dir()  # whether the system tells what a thread has computed


def _spent(thread: threading.Thread) -> float | None:
    """Processor time a thread has taken where the system says so, else the clock's; None of one that has ended. [s]"""
    if not _CLOCKS:
        return time.monotonic() if thread.is_alive() else None
    try:
        fields = (_TASKS / str(thread.native_id) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _compiles(frame: FrameType | None) -> bool:
    """Whether a thread is inside the compiler: that is long the first time, ends, and must not be cut short."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("numba.core."):
            return True
        frame = frame.f_back
    return False


class Watchdog:
    """Ends scripts that computed for too long: none may hold a core until the server is started anew."""

    def __init__(self, limit: float = LIMIT_S) -> None:
        self._limit = limit
        self._since: WeakKeyDictionary[threading.Thread, float] = WeakKeyDictionary()
        self.ended = 0

    def look(self) -> None:
        """One look at every script that runs."""
        frames = sys._current_frames()
        for thread in priority.scripts():
            spent, me = _spent(thread), thread.ident
            if spent is None or me is None:
                continue
            since = self._since.setdefault(thread, spent)
            if _compiles(frames.get(me)):
                self._since[thread] = spent
            elif spent - since > self._limit and thread.is_alive():  # its number is the next one's once it has ended
                self._since[thread] = spent  # where it went on all the same it is ended again, later
                self.ended += 1
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(me), ctypes.py_object(Overdue))


class Collector:
    """Collects all garbage once enough of it can have come together and no script runs, or after a while anyway."""

    def __init__(self, busy: Callable[[], bool] = priority.busy, clock: Callable[[], float] = time.monotonic) -> None:
        self._busy, self._clock = busy, clock
        self._seen = self._young()
        self._due: float | None = None
        self._quiet: float | None = None
        self.done = 0

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
            self.done += 1
            self._seen, self._due = self._young(), None


class Upkeep:
    """Both, looking ten times a second from a thread of their own."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="upkeep", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, within a moment."""
        self._stop.set()
        self._thread.join(1.0)

    def _work(self) -> None:
        tasks = (Watchdog(), Collector())
        while not self._stop.wait(_LOOK_S):
            for task in tasks:
                task.look()
