"""Threads that stay by for the next piece of work: an operator is shared out without waking anybody.

Waking a sleeping thread costs tens of microseconds, a tenth of a short matrix product on two cores. A helper that has
just finished therefore looks out for more for a moment, offering its core to others all the while, before it sleeps;
and a caller whose own share is done looks out for the helpers' rather than sleeping on it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from engine.kernels import jit
from engine.lab.ir.phases import STRIDE, counters, reached

_RESTS = 200  # offers of the core, about a microsecond each, before a helper goes to sleep
_POSTED, _ENDED = 0, STRIDE // 2
Share = Callable[[], None]


class _Helper:
    """One thread; at most one caller at a time posts to it, and takes back what it has not begun."""

    def __init__(self) -> None:
        self._cells = counters(1)
        self._box: deque[tuple[int, Share]] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._asleep = False
        self._failure: BaseException | None = None
        threading.Thread(target=self._run, name="inferscape-helper", daemon=True).start()

    def _run(self) -> None:
        seen = 0
        while True:
            if not reached(self._cells, _POSTED, seen + 1, _RESTS):
                self._asleep = True
                while self._cells[_POSTED] <= seen:
                    self._bell.get()
                self._asleep = False
            seen = int(self._cells[_POSTED])
            try:
                number, share = self._box.popleft()
            except IndexError:
                continue  # taken back
            try:
                share()
            except BaseException as failure:  # the caller's to raise
                self._failure = failure
            del share  # and with it the operands
            self._cells[_ENDED] = number

    def post(self, share: Share) -> None:
        number = int(self._cells[_POSTED]) + 1
        self._failure = None
        self._box.append((number, share))
        self._cells[_POSTED] = number
        if self._asleep:
            self._bell.put(None)

    def ended(self) -> BaseException | None:
        """Wait until the share has ended, if it was begun; what it failed of."""
        try:
            self._box.popleft()
        except IndexError:
            reached(self._cells, _ENDED, self._cells[_POSTED], -1)
            return self._failure
        return None


_free = threading.Lock()
_helpers: list[_Helper] = []


def _forget() -> None:
    """In a forked process there are no helpers yet."""
    global _free, _helpers
    _free, _helpers = threading.Lock(), []


os.register_at_fork(after_in_child=_forget)


def together(share: Share, threads: int) -> None:
    """Run ``share`` on the calling thread and at once on up to ``threads - 1`` others; returns when none runs it.

    A thread that comes too late does not run it at all. While another caller has the helpers, the pool's threads help.
    The first failure is raised.
    """
    free = _free
    if not free.acquire(blocking=False):
        futures = [jit.pool().submit(share) for _ in range(threads - 1)]
        try:
            share()
        finally:
            for future in futures:
                if not future.cancel():
                    future.result()
        return
    try:
        while len(_helpers) < threads - 1:
            _helpers.append(_Helper())
        posted = _helpers[: threads - 1]
        for helper in posted:
            helper.post(share)
        try:
            share()
        finally:
            failures = [helper.ended() for helper in posted]
        for failure in failures:
            if failure is not None:
                raise failure
    finally:
        free.release()
