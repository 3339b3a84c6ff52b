"""Long work gives way to pages: a sweep runs below their priority and waits while another session's script runs.

A page's script takes a fraction of a second and somebody looks at it; a sweep takes seconds and shows its progress. Its
waits are bounded, so that a server that is never idle still finishes its sweeps.
"""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from weakref import WeakKeyDictionary, WeakSet

from engine.kernels.jit import pool_size

SCRIPT = "scriptThread"
"""How Streamlit's names of threads that run a page end."""
_NICE = 10  # a tenth of a page's share where both want a core
_STEP_S = 0.004
_MOST_S = 0.25  # that a piece of work waits for others; pieces take milliseconds
_QUICK_S = 1.5  # after which a script is no page that somebody waits for but work of its own
_AFTER_S = 0.05  # a script's last lines are still to be sent

_LOCK = threading.Lock()
_SEEN: WeakKeyDictionary[threading.Thread, float] = WeakKeyDictionary()  # since when a script has been running
_PATIENT: WeakSet[threading.Thread] = WeakSet()  # scripts that only watch work under way


def _lower() -> None:
    if hasattr(os, "setpriority"):  # a thread's own priority where the system has one
        me = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, me, min(19, os.getpriority(os.PRIO_PROCESS, me) + _NICE))


@cache
def background() -> ThreadPoolExecutor:
    """Threads for work that somebody watches but nobody's next click waits for."""
    return ThreadPoolExecutor(pool_size(), thread_name_prefix="background", initializer=_lower)


@contextmanager
def patient() -> Iterator[None]:
    """Inside, this thread's script watches work under way: nobody waits for it."""
    me = threading.current_thread()
    with _LOCK:
        _PATIENT.add(me)
    try:
        yield
    finally:
        with _LOCK:
            _PATIENT.discard(me)


def scripts() -> list[threading.Thread]:
    """Threads that run a page now."""
    return [thread for thread in threading.enumerate() if thread.name.endswith(SCRIPT)]


def busy() -> bool:
    """Whether a script runs that somebody waits for."""
    now = time.monotonic()
    with _LOCK:
        since = {thread: _SEEN.setdefault(thread, now) for thread in scripts()}
        return any(now - began < _QUICK_S and thread not in _PATIENT for thread, began in since.items())


def give_way() -> None:
    """Waits while a page's script runs, a quarter of a second at most; returns at once where none does."""
    began = time.monotonic()
    if not busy():
        return
    idle = None
    while (now := time.monotonic()) - began < _MOST_S:
        idle = None if busy() else idle or now
        if idle is not None and now - idle >= _AFTER_S:
            return
        time.sleep(_STEP_S)
