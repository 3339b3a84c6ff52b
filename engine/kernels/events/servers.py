"""Kiefer and Wolfowitz's recursion with the servers' free times in vector registers, in order; up to 128 servers.

With free times w[0] <= w[1] <= ..., the request that takes the earliest server and frees it at x leaves
``max(w[j], min(w[j + 1], x))`` in place j: no search and no branch, every place at once. Who is turned away leaves all
as it was, which is x = w[0]. Exact: comparisons and the two sums of the scalar recursion, hence the same bits on any
vector width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.kernels.ir.free_times import loop
from engine.kernels.jit import kernel

_to_8: Any = loop(1)
_to_16: Any = loop(2)
_to_32: Any = loop(4)
_to_64: Any = loop(8)
_to_128: Any = loop(16)
MOST = 128
"""Servers whose free times fit the registers."""


@kernel
def _run(arrive, hold, latency, servers, places, waited, done):
    if servers <= 8:
        return _to_8(arrive, hold, latency, servers, places, waited, done)
    if servers <= 16:
        return _to_16(arrive, hold, latency, servers, places, waited, done)
    if servers <= 32:
        return _to_32(arrive, hold, latency, servers, places, waited, done)
    if servers <= 64:
        return _to_64(arrive, hold, latency, servers, places, waited, done)
    return _to_128(arrive, hold, latency, servers, places, waited, done)


@kernel
def in_registers(arrive, hold, latency, servers, done):
    """Answers of requests served first come, first served by 1 to ``MOST`` servers; see `recursions.fifo`. [s]"""
    _run(arrive, hold, latency, servers, 0, np.empty(0), done)


@kernel
def finite_in_registers(arrive, hold, latency, servers, places, waited, done):
    """As `in_registers` with ``places`` waiting places; returns how many were let in.

    ``waited`` is a ring of a power of two above ``places`` entries, minus infinity at first. It receives the starts of
    those let in who had to wait, each ``places`` entries on. Starts are in order of arrival, hence all places are taken
    just when the one let in ``places`` before still waits: the entry of the number let in so far is not yet over.
    Without places the ring holds plus infinity: who would have to wait is turned away. An arrival is seen before a
    server that frees at that instant.
    """
    return _run(arrive, hold, latency, servers, places, waited, done)
