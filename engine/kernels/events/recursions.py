"""Exact recursions for first-come-first-served queues of identical servers: no event list at all.

All take arrival instants in increasing order and write ``finish``, the instant [s] at which each request's answer is
out. A server is held for ``hold`` and answers after ``latency``: the two differ on pipelined hardware, where the
next request enters before the last one has left. Conventions shared with the event engine and its twin:
an arrival at the very instant a server frees is seen before that server frees.
"""

import math

import numpy as np

from engine.kernels.jit import kernel


@kernel
def _replace_least(free, value):
    """Replace free[0], the least entry, keeping ``free`` sorted.

    Place j becomes ``max(free[j], min(free[j + 1], value))``: no search and no branch, several at once.
    """
    last = free.shape[0] - 1
    for j in range(last):
        low = free[j + 1] if free[j + 1] < value else value
        free[j] = free[j] if free[j] > low else low
    free[last] = free[last] if free[last] > value else value


@kernel
def batched(arrive, size, scale, hold, latency, servers, max_batch, timeout, launches, finish):
    """Dynamic batching: a free server takes the queue's head when ``max_batch`` wait or the head is ``timeout`` old.

    Batches of one at no timeout are Kiefer and Wolfowitz's recursion: start = max(arrival, earliest free server).

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
