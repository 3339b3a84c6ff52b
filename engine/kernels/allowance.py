"""How long a thread may still compute: who waits for it sets a bound, and every long loop asks whether it is reached.

A thread ends itself, at a place of its own choice, so that none is stopped while it holds a lock. What is counted is
processor time, of the thread and of those that compute for it: waiting for a busy host is no fault of it.
"""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

LIMIT_S = 60.0
"""Of computing that a page's script may take, compiling and waiting not counted. [s]"""


class Overdue(Exception):
    """A thread computed for too long and ended."""

    def __init__(self, limit: float = LIMIT_S) -> None:
        super().__init__(f"It had computed for more than {limit:.0f} s and was ended")


class _Account(threading.local):
    limit = until = math.inf
    beside = 0.0  # computed by others for this thread, less what does not count


_account = _Account()
_BEGAN: dict[threading.Thread, float] = {}  # read by another thread, in one step


@contextmanager
def allowance(seconds: float = LIMIT_S) -> Iterator[None]:
    """Inside, `beat` raises once this thread has computed for so long; one inside another only shortens it. [s]"""
    before, me = (_account.limit, _account.until), threading.current_thread()
    first = _BEGAN.setdefault(me, time.thread_time()) if before[1] == math.inf else None
    until = time.thread_time() + _account.beside + seconds
    if until < _account.until:
        _account.limit, _account.until = seconds, until
    try:
        yield
    finally:
        _account.limit, _account.until = before
        if first is not None:
            _BEGAN.pop(me, None)


def beat(seconds: float = 0.0) -> None:
    """Raises `Overdue` where this thread's allowance is used up; every long loop calls it as it goes round.

    ``seconds`` is what other threads computed for this one since the last time, negative for what does not count. [s]
    """
    _account.beside += seconds
    if seconds >= 0.0 and _account.until < math.inf and time.thread_time() + _account.beside > _account.until:
        raise Overdue(_account.limit)


def began() -> list[tuple[threading.Thread, float]]:
    """Threads inside an allowance, each with the processor time that it had taken before. [s]"""
    return list(_BEGAN.items())
