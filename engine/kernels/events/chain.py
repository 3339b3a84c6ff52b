"""Event engine for a chain of stations: queues by bucket, batching, finite buffers, hops. One binary heap.

Every request visits the stations in order. At a station it joins the queue of its bucket, or is dropped when the
waiting places are taken; a free server takes the head of the ready queue whose head has waited longest, and up to
``max_batch - 1`` behind it. A queue is ready when ``max_batch`` wait in it or its head is ``timeout`` old.
The batch is padded to its longest member. A request whose row of the service table is 0 passes the station by, whatever
waits there. Of a closed loop a client's next request comes a think time after the answer to the one before, or after
it was turned away. Ties: arrivals, then servers becoming free, then timers.
"""

import math

import numpy as np

from engine.kernels.jit import kernel

# an event's code, in order of precedence among ties: kind | station | request or queue
_KIND_BIT, _STAGE_BIT = 60, 44
_STAGE_MASK, _ITEM_MASK = (1 << 16) - 1, (1 << 44) - 1
_ARRIVE, _FREE, _TIMER = 0, 1, 2


@kernel
def _push(times, codes, count, time, code):
    """Add an event to the heap of ``count`` events ordered by (time, code)."""
    hole = count
    while hole > 0:
        parent = (hole - 1) >> 1
        if times[parent] < time or (times[parent] == time and codes[parent] <= code):
            break
        times[hole] = times[parent]
        codes[hole] = codes[parent]
        hole = parent
    times[hole] = time
    codes[hole] = code


@kernel
def _replace_top(times, codes, count, time, code):
    """Put an event in the place of the first of ``count`` events."""
    hole = 0
    child = 1
    while child < count:
        right = child + 1
        if right < count and (
            times[right] < times[child] or (times[right] == times[child] and codes[right] < codes[child])
        ):
            child = right
        if times[child] > time or (times[child] == time and codes[child] >= code):
            break
        times[hole] = times[child]
        codes[hole] = codes[child]
        hole = child
        child = 2 * hole + 1
    times[hole] = time
    codes[hole] = code


@kernel
def _asks_again(times, codes, pending, arrive, think, members, fresh, at, hop):
    """The next request of a client that has an answer ``at`` [s]; returns events and requests that have begun."""
    if fresh == arrive.shape[0]:
        return pending, fresh
    arrive[fresh] = at + think[fresh]
    members[fresh] = 1
    _push(times, codes, pending, arrive[fresh] + hop, fresh)
    return pending + 1, fresh + 1


@kernel
def chain(
    arrive,
    think,
    clients,
    size,
    scale,
    servers,
    max_batch,
    timeout,
    places,
    hop,
    bucket,
    buckets,
    hold,
    latency,
    launches,
    came,
    start,
    finish,
):
    """Run the chain to the last answer; returns the number of events processed.

    Parameters
    ----------
    arrive : (n,)
        Arrival instants at the door, increasing; of a closed loop given for its ``clients``' first requests, and
        receives the others'. [s]
    think : (n,) or empty
        Of a closed loop, seconds from an answer to its client's request. [s]
    clients : int
        Requests in flight of a closed loop; 0: all arrivals are given.
    size : (n,) or empty
        Row of each request in the service tables.
    scale : (stages, n) or (stages, 0)
        Factor on the service time of the batch a request heads.
    servers, max_batch, timeout, places, buckets : (stages,)
        Of each station; ``places`` are waiting places (a negative number: unlimited).
    hop : (stages + 1,)
        Delay before each station, and after the last one. [s]
    bucket : (stages, rows)
        Queue a request of that row joins.
    hold, latency : (stages, batch, rows)
        Seconds a launch holds its server and takes to answer.
    launches : (stages, batch, rows)
        Receives the number of launches.
    came : (stages, n) or (stages, 0)
        Receives the arrival at each station, where wanted. [s]
    start : (stages, n)
        Receives the start of service at each station, nan if never reached. [s]
    finish : (n,)
        Receives the instant of the answer, nan if dropped. [s]
    """
    n = arrive.shape[0]
    stages = servers.shape[0]
    max_buckets = 1
    heap_room = n + 1
    for s in range(stages):
        max_buckets = max(max_buckets, buckets[s])
        heap_room += servers[s] + buckets[s]
    times = np.empty(heap_room)
    codes = np.empty(heap_room, np.int64)
    pending = 0
    idle = servers.copy()
    waiting = np.zeros(stages, np.int64)
    head = np.full((stages, max_buckets), -1, np.int64)
    tail = np.full((stages, max_buckets), -1, np.int64)
    lengths = np.zeros((stages, max_buckets), np.int64)
    timers = np.zeros((stages, max_buckets), np.bool_)
    link = np.empty(n, np.int64)  # behind whom: queue order, then order inside a launched batch
    entry = np.empty(n)
    members = np.empty(n, np.int64)  # size of the batch a request heads
    has_size = size.shape[0] > 0
    has_scale = scale.shape[1] > 0
    trace = came.shape[1] > 0
    events = 0
    upcoming = 0
    arrivals = n if clients == 0 else min(n, clients)
    fresh = arrivals if clients > 0 else n
    for i in range(n):
        finish[i] = math.nan
    while True:
        first = math.inf
        if pending > 0:
            first = times[0]
        external = upcoming < arrivals and arrive[upcoming] + hop[0] <= first
        if not external and pending == 0:
            break
        events += 1
        kind = _ARRIVE
        s = 0
        i = upcoming
        group = 1
        if external:
            now = arrive[upcoming] + hop[0]
            upcoming += 1
        else:
            now = first
            code = codes[0]
            kind = code >> _KIND_BIT
            s = (code >> _STAGE_BIT) & _STAGE_MASK
            i = code & _ITEM_MASK
            pending -= 1
            _replace_top(times, codes, pending, times[pending], codes[pending])
            if kind == _ARRIVE:
                group = members[i]
        if kind == _ARRIVE:
            for _ in range(group):
                behind = link[i]
                if trace:
                    came[s, i] = now
                if has_size and hold[s, 0, size[i]] == 0.0:
                    start[s, i] = now
                    if s + 1 == stages:
                        finish[i] = now + hop[s + 1]
                        pending, fresh = _asks_again(
                            times, codes, pending, arrive, think, members, fresh, finish[i], hop[0]
                        )
                    else:
                        members[i] = 1
                        _push(times, codes, pending, now + hop[s + 1], ((s + 1) << _STAGE_BIT) | i)
                        pending += 1
                    i = behind
                    continue
                room = places[s] < 0 or waiting[s] < places[s] + (idle[s] if max_batch[s] == 1 else 0)
                if room:
                    q = 0
                    if has_size:
                        q = bucket[s, size[i]]
                    entry[i] = now
                    link[i] = -1
                    if lengths[s, q] == 0:
                        head[s, q] = i
                    else:
                        link[tail[s, q]] = i
                    tail[s, q] = i
                    lengths[s, q] += 1
                    waiting[s] += 1
                else:
                    pending, fresh = _asks_again(times, codes, pending, arrive, think, members, fresh, now, hop[0])
                i = behind
            if external:  # all who arrive at this instant are seen before a server chooses
                if upcoming < arrivals and arrive[upcoming] + hop[0] == now:
                    continue
            elif pending > 0 and times[0] == now and codes[0] >> _STAGE_BIT == s:
                continue
        elif kind == _FREE:
            idle[s] += 1
        else:
            timers[s, i] = False
        while idle[s] > 0 and waiting[s] > 0:
            pick = -1
            oldest = math.inf
            for q in range(buckets[s]):
                if lengths[s, q] > 0:
                    since = entry[head[s, q]]
                    if (lengths[s, q] >= max_batch[s] or now >= since + timeout[s]) and (
                        since < oldest or (since == oldest and head[s, q] < head[s, pick])
                    ):
                        pick = q
                        oldest = since
            if pick < 0:
                for q in range(buckets[s]):
                    if lengths[s, q] > 0 and not timers[s, q]:
                        timers[s, q] = True
                        code = (_TIMER << _KIND_BIT) | (s << _STAGE_BIT) | q
                        _push(times, codes, pending, entry[head[s, q]] + timeout[s], code)
                        pending += 1
                break
            lead = head[s, pick]
            count = min(lengths[s, pick], max_batch[s])
            row = 0
            if has_size:
                i = lead
                for _ in range(count):
                    row = max(row, size[i])
                    i = link[i]
            factor = scale[s, lead] if has_scale else 1.0
            launches[s, count - 1, row] += 1
            out = now + latency[s, count - 1, row] * factor + hop[s + 1]
            last = s + 1 == stages
            i = lead
            for _ in range(count):
                start[s, i] = now
                if last:
                    finish[i] = out
                i = link[i]
            head[s, pick] = i
            lengths[s, pick] -= count
            waiting[s] -= count
            idle[s] -= 1
            code = (_FREE << _KIND_BIT) | (s << _STAGE_BIT)
            _push(times, codes, pending, now + hold[s, count - 1, row] * factor, code)
            pending += 1
            if not last:
                members[lead] = count
                _push(times, codes, pending, out, ((s + 1) << _STAGE_BIT) | lead)
                pending += 1
            elif clients > 0:
                for _ in range(count):
                    pending, fresh = _asks_again(times, codes, pending, arrive, think, members, fresh, out, hop[0])
    return events
