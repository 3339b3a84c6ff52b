"""Exact recursions for first-come-first-served queues of identical servers: no event list at all.

All take arrival instants in increasing order and write ``finish``, the instant [s] at which each request's answer is
out. A server is held for ``hold`` and answers after ``latency``: the two differ on pipelined hardware, where the
next request enters before the last one has left. Conventions shared with the event engine and its twin:
an arrival at the very instant a server frees is seen before that server frees.
"""

import math

import numpy as np

from engine.kernels.jit import kernel

_SORTED = 128  # servers up to which a pass over all free times beats a heap


@kernel
def _sift(free, value):
    """Replace the least entry of the heap ``free`` by ``value``."""
    size = free.shape[0]
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and free[child + 1] < free[child]:
            child += 1
        if free[child] >= value:
            break
        free[hole] = free[child]
        hole = child
    free[hole] = value


@kernel
def _replace_least(free, value):
    """Replace free[0], the least entry, keeping ``free`` sorted (few servers) or a heap (many).

    In order, place j becomes ``max(free[j], min(free[j + 1], value))``: no search and no branch, several at once.
    """
    last = free.shape[0] - 1
    if last >= _SORTED:
        _sift(free, value)
        return
    for j in range(last):
        low = free[j + 1] if free[j + 1] < value else value
        free[j] = free[j] if free[j] > low else low
    free[last] = free[last] if free[last] > value else value


@kernel
def _exchange(free, value):
    """The lesser of the two, and the greater: one step of an insertion without branches."""
    return (free, value) if free < value else (value, free)


@kernel
def _fifo_to_4(arrive, hold, latency, servers, finish):
    """At most four servers, their free times in registers in order; absent ones are never free."""
    a = -math.inf
    b = -math.inf if servers > 1 else math.inf
    c = -math.inf if servers > 2 else math.inf
    d = -math.inf if servers > 3 else math.inf
    for i in range(arrive.shape[0]):
        start = a if a > arrive[i] else arrive[i]
        finish[i] = start + latency[i]
        a, rest = _exchange(b, start + hold[i])
        b, rest = _exchange(c, rest)
        c, d = _exchange(d, rest)


@kernel
def fifo(arrive, hold, latency, servers, finish):
    """Kiefer-Wolfowitz (Lindley for one server): start = max(arrival, earliest free server). Exact."""
    if servers == 1:
        at = -math.inf
        for i in range(arrive.shape[0]):
            start = max(at, arrive[i])
            at = start + hold[i]
            finish[i] = start + latency[i]
        return
    if servers <= 4:
        _fifo_to_4(arrive, hold, latency, servers, finish)
        return
    free = np.full(servers, -math.inf)
    for i in range(arrive.shape[0]):
        start = max(free[0], arrive[i])
        finish[i] = start + latency[i]
        _replace_least(free, start + hold[i])


@kernel
def fifo_constant(arrive, hold, latency, servers, finish):
    """As ``fifo`` where all hold their server equally long: servers free in order, so request i meets i - servers."""
    n = arrive.shape[0]
    for i in range(min(servers, n)):
        finish[i] = arrive[i]
    if servers == 1:
        at = -math.inf
        for i in range(n):
            start = max(at, arrive[i])
            at = start + hold
            finish[i] = start
    else:
        for i in range(servers, n):
            finish[i] = max(finish[i - servers] + hold, arrive[i])
    for i in range(n):
        finish[i] += latency


@kernel
def batched(arrive, size, scale, hold, latency, servers, max_batch, timeout, launches, finish):
    """Dynamic batching: a free server takes the queue's head when ``max_batch`` wait or the head is ``timeout`` old.

    Launch = max(earliest free server, min(arrival of the batch's last member, head's arrival + timeout)); it takes
    all who have arrived by then, at most ``max_batch``. Exact for identical servers and one queue.

    Parameters
    ----------
    size, scale
        Row of each request in the service tables, and a factor on its batch's service time (the head's counts);
        an empty array means 0 and 1.
    hold, latency
        Seconds a launch of n+1 requests padded to row k holds its server and takes to answer, ``[n, k]``.
    launches
        Receives the number of launches, ``[n, k]``.
    """
    n = arrive.shape[0]
    free = np.full(servers, -math.inf)
    head = 0
    while head < n:
        launch = arrive[head] + timeout
        if head + max_batch <= n:
            launch = min(launch, arrive[head + max_batch - 1])
        launch = max(launch, free[0])
        end = min(head + max_batch, n)
        stop = head + 1
        if end - head == max_batch and arrive[end - 1] <= launch:
            stop = end
        else:
            while stop < end and arrive[stop] <= launch:
                stop += 1
        row = 0
        if size.shape[0] > 0:
            for i in range(head, stop):
                row = max(row, size[i])
        factor = scale[head] if scale.shape[0] > 0 else 1.0
        count = stop - head - 1
        out = launch + latency[count, row] * factor
        for i in range(head, stop):
            finish[i] = out
        launches[count, row] += 1
        _replace_least(free, launch + hold[count, row] * factor)
        head = stop
