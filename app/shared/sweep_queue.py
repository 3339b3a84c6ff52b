"""Sweeps share a server: few work at once, others wait in the order they came, none takes all memory or all day."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.scenario import ScenarioError

_AT_ONCE = 2  # a short one passes a long one
_MOST = 16  # that wait: beyond, the last would wait for minutes
_SHARE_S = 60.0  # that one works on while others wait
_ROOM = float(os.environ.get("INFERSCAPE_SWEEP_MB", "800")) * 1e6  # bytes that all of them may add to the process
_LOOK_S = 0.1  # between two looks at the memory


def resident() -> float:
    """Memory of this process; 0 where the system does not say. [byte]"""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * float(os.sysconf("SC_PAGE_SIZE"))
    except (OSError, IndexError, ValueError):
        return 0.0


class SweepQueue:
    """Who works and who waits, by any object that stands for a sweep."""

    def __init__(
        self,
        at_once: int = _AT_ONCE,
        share_s: float = _SHARE_S,
        room: float = _ROOM,
        memory: Callable[[], float] = resident,
    ) -> None:
        self._at_once, self._share_s, self._room, self._memory = at_once, share_s, room, memory
        self._changed = threading.Condition()
        self._waiting: list[object] = []
        self._working: dict[object, float] = {}  # since when
        self._before = self._now = self._looked = 0.0

    def ahead(self, who: object) -> int:
        """Sweeps that work or wait before one that waits; 0 where it does not wait. [-]"""
        with self._changed:
            return len(self._working) + self._waiting.index(who) if who in self._waiting else 0

    def queue(self, who: object) -> None:
        """Stand at the end; ScenarioError where too many wait already."""
        with self._changed:
            if len(self._waiting) >= _MOST:
                raise ScenarioError(f"{_MOST} sweeps wait on this server already; try again in a minute")
            self._waiting.append(who)

    @contextmanager
    def turn(self, who: object, gone: threading.Event) -> Iterator[bool]:
        """Inside, it is the turn of one that queued; False where it went before its turn came."""
        with self._changed:
            while not gone.is_set() and (self._waiting[0] is not who or len(self._working) >= self._at_once):
                self._changed.wait(0.1)
            self._waiting.remove(who)
            mine = not gone.is_set()
            if mine:
                if not self._working:
                    self._before = self._memory()
                self._working[who] = time.monotonic()
            self._changed.notify_all()
        try:
            yield mine
        finally:
            with self._changed:
                self._working.pop(who, None)
                self._changed.notify_all()

    def over(self, who: object) -> str | None:
        """Why one that works should stop now, keeping what it has; None where it may go on."""
        now = time.monotonic()
        with self._changed:
            if now - self._looked >= _LOOK_S:
                self._looked, self._now = now, self._memory()
            if self._now - self._before > self._room:
                return f"sweeps may take {self._room / 1e6:,.0f} MB of this server together, and that is taken"
            if self._waiting and now - self._working.get(who, now) > self._share_s:
                return f"others wait, and it had {self._share_s:.0f} s"
        return None


QUEUE = SweepQueue()
"""Of this process: every session of a server shares it."""
