"""Operators on the cores of a card: how long their pieces take and who runs when, eight design points side by side.

A piece of an operator takes a kernel start plus the slowest of its arithmetic, its vector port and its SRAM on one
core, and no piece ends before the operator's traffic has passed the memories all cores share: cache, LPDDR and what
lies behind, at once and double-buffered, one operator after the other. The ready operator with the longest path to the
end goes first, each of its pieces on the core that is free first (list scheduling); or operators go in program order
and their pieces on cores in turn, busy or not. Each point has its own rates and its own demand, as far as operators are
cut into as many pieces; one point is eight times the same.

Which operator goes next and which of two moments comes first depends on the rates, yet seldom differs between points
that lie next to each other. So one point's order is found, the points that share it are scheduled together, and so on
until none is left. Two facts make the order cheap. An operator's path to the end is no shorter than that of what waits
for it and its number is lower, so the ready operator with the longest path is simply the next by path, then number. And
pieces that always take the core that is free first need no names of cores: their free times in order are enough.
Estimates.
"""

import numpy as np

from engine.devices.card import demand as D
from engine.devices.card.supply import S
from engine.devices.common.contract import COMPUTE, HOST, OFFCHIP, ONCHIP, OVERHEAD
from engine.kernels.ir.doubles import FULL, LANES, above, at_least, chosen, larger, load, loads, smaller, spread, store
from engine.kernels.jit import kernel

PIECE, FAR, START, WALL, RANK, WORK, SHARE, PART, BEGIN, END, ROOM = range(11)  # rows of the room for a schedule


@kernel
def _of(demand, j, column):
    """What op j demands at the points of a block, of ``demand`` (n_ops, DEMANDS, LANES), flat."""
    return load(demand, (j * D.DEMANDS + column) * LANES)


@kernel
def _first(demand, j, column):
    """The same at the first of them: of how an op is cut up, at all of them."""
    return demand[(j * D.DEMANDS + column) * LANES]


@kernel
def _outside(demand, rates, j):
    """Seconds of an op on the slower of LPDDR, streams and single lines together, and the memory behind it."""
    far_s, line_s = load(rates, S.far_s * LANES), load(rates, S.line_s * LANES)
    lpddr = _of(demand, j, D.FAR) * far_s + _of(demand, j, D.LINES) * line_s
    return larger(lpddr, _of(demand, j, D.BEYOND) * load(rates, S.beyond_s * LANES))


@kernel
def _seconds(demand, rates, piece, far, start):
    """Seconds of a piece on its core, of the op on the slowest shared memory, and of its starts; fills the arrays.

    ``rates`` (len(S), LANES) is flat, as are all arrays of points here.
    """
    low_s, wide_s, lane_s, cycle_s, port_s = loads(rates, 0, LANES, 5)  # the first of `S`
    start_s, solo_s = load(rates, S.start_s * LANES), load(rates, S.solo_s * LANES)
    sram_s, cache_s = load(rates, S.sram_s * LANES), load(rates, S.cache_s * LANES)
    for j in range(demand.shape[0] // (D.DEMANDS * LANES)):
        at = j * LANES
        if _first(demand, j, D.PIECES) == 0.0:
            for array in (piece, far, start):
                store(array, at, spread(0.0))
            continue
        work = (
            _of(demand, j, D.MACS_LOW) * low_s
            + _of(demand, j, D.MACS_WIDE) * wide_s
            + _of(demand, j, D.LANE_OPS) * lane_s
            + _of(demand, j, D.CYCLES) * cycle_s
        )
        first = _of(demand, j, D.STARTS) * start_s + _of(demand, j, D.SOLO) * solo_s
        slower = larger(larger(work, _of(demand, j, D.PORT) * port_s), _of(demand, j, D.SRAM) * sram_s)
        store(start, at, first)
        store(piece, at, first + slower * _of(demand, j, D.SKEW) / _of(demand, j, D.PIECES))
        store(far, at, larger(_outside(demand, rates, j), _of(demand, j, D.CACHE) * cache_s))


@kernel
def _ranks(low, high, piece, far, first, needs, rank):
    """Longest path to the end from each of the ops low..high."""
    for j in range(low, high):
        store(rank, j * LANES, spread(0.0))
    for j in range(high - 1, low - 1, -1):
        path = load(rank, j * LANES) + larger(load(piece, j * LANES), load(far, j * LANES))
        store(rank, j * LANES, path)
        for e in range(first[j], first[j + 1]):
            i = needs[e]
            if low <= i < high:
                store(rank, i * LANES, larger(load(rank, i * LANES), path))


@kernel
def _by_rank(low, high, rank, lane, order):
    """Puts ``order[low:high]`` in the order in which a point takes its ops, from one that is nearly right."""
    for i in range(low + 1, high):
        j = order[i]
        path = rank[j * LANES + lane]
        at = i
        while at > low:
            before = order[at - 1]
            rival = rank[before * LANES + lane]
            if rival > path or (rival == path and before < j):
                break
            order[at] = before
            at -= 1
        order[at] = j


@kernel
def _same_order(low, high, rank, order):
    """Mask of the points that take their ops in that order."""
    mask = FULL
    for at in range(low, high - 1):
        i, j = order[at], order[at + 1]
        a, b = load(rank, i * LANES), load(rank, j * LANES)
        mask &= at_least(a, b) if i < j else above(a, b)
    return mask


@kernel
def _place(low, high, order, mask, demand, piece, far, first, needs, cores, sort, marks, work, free, makespan):
    """Places ops low..high in that order, of the points in the mask; LPDDR serves one op after the other.

    Fills ``marks``, begin and end of each op, ``work`` and ``makespan``. ``free`` is a ring: where `sort` says so,
    their free times in order from ``head`` on; else each core's own.
    """
    zero = spread(0.0)
    for c in range(cores):
        store(free, c * LANES, zero)
    channel, longest = zero, zero
    head = 0
    for step in range(low, high):
        j = order[step]
        ready = zero
        for e in range(first[j], first[j + 1]):
            if low <= needs[e] < high:
                ready = larger(ready, load(marks, (2 * needs[e] + 1) * LANES))
        begin, end, total = ready, ready, zero
        pieces = int(_first(demand, j, D.PIECES))
        if pieces > 0:
            length, arrival = load(piece, j * LANES), zero
            wait = load(far, j * LANES)
            reads = above(wait, zero)
            if reads != 0:
                channel = chosen(reads, larger(channel, ready) + wait, channel)
                arrival = chosen(reads, channel, zero)
            begin = larger(ready, load(free, head * LANES))
            end = larger(begin + length, arrival)
            last = load(free, (head - 1 if head > 0 else cores - 1) * LANES)
            if not sort or (pieces <= cores and (at_least(end, last) & mask) == mask):
                # in turn; of cores in order who goes first is free last again
                total = end - begin
                store(free, head * LANES, end)
                head = head + 1 if head + 1 < cores else 0
                for _ in range(1, pieces):
                    start = larger(ready, load(free, head * LANES))
                    finish = larger(start + length, arrival)
                    store(free, head * LANES, finish)
                    head = head + 1 if head + 1 < cores else 0
                    total = total + (finish - start)
                    begin, end = smaller(begin, start), larger(end, finish)
            else:
                for _ in range(pieces):
                    start = larger(ready, load(free, head * LANES))
                    finish = larger(start + length, arrival)
                    total = total + (finish - start)
                    end = larger(end, finish)
                    at = head
                    for _ in range(1, cores):
                        beyond = at + 1 if at + 1 < cores else 0
                        later = load(free, beyond * LANES)
                        store(free, at * LANES, smaller(later, finish))
                        finish = larger(later, finish)
                        at = beyond
                    store(free, at * LANES, finish)
        longest = larger(longest, end)
        store(marks, 2 * j * LANES, chosen(mask, begin, load(marks, 2 * j * LANES)))
        store(marks, (2 * j + 1) * LANES, chosen(mask, end, load(marks, (2 * j + 1) * LANES)))
        store(work, j * LANES, chosen(mask, total, load(work, j * LANES)))
    store(makespan, 0, chosen(mask, longest, load(makespan, 0)))


@kernel
def _by_time(low, high, marks, lane, events):
    """Puts begins and ends of ops low..high, ``events[2 * low : 2 * high]``, in a point's order of time."""
    for i in range(2 * low + 1, 2 * high):
        event = events[i]
        moment = marks[event * LANES + lane]
        at = i
        while at > 2 * low and marks[events[at - 1] * LANES + lane] > moment:
            events[at] = events[at - 1]
            at -= 1
        events[at] = event


@kernel
def _same_time(low, high, marks, events):
    """Mask of the points where begins and ends follow each other in that order."""
    mask = FULL
    for at in range(2 * low, 2 * high - 1):
        mask &= at_least(load(marks, events[at + 1] * LANES), load(marks, events[at] * LANES))
    return mask


@kernel
def _share(low, high, events, mask, demand, marks, work, makespan, cores, share, lasting, active, part, wall):
    """Deals the makespan of ops low..high out to them, of the points in the mask: fills ``wall``, which sums to it.

    At each moment, one of ``events`` to the next, ops share the time by the cores they hold on average: an op then has
    at least the time in which its work fills all cores, of which there are ``cores``, or the others give it that.
    """
    zero = spread(0.0)
    for j in range(low, high):
        begin, end = load(marks, 2 * j * LANES), load(marks, (2 * j + 1) * LANES)
        lasting[j] = above(end, begin)
        store(share, j * LANES, chosen(lasting[j], load(work, j * LANES) / (end - begin), zero))
        store(part, j * LANES, zero)
    total = zero
    running = 0
    for at in range(2 * low, 2 * high - 1):
        j = events[at] >> 1
        if _first(demand, j, D.PIECES) > 0.0:
            place = running
            if events[at] & 1:  # it ends
                running -= 1
                while active[place - 1] != j:
                    place -= 1
                for q in range(place, running + 1):
                    active[q - 1] = active[q]
            else:
                running += 1
                while place > 0 and active[place - 1] > j:
                    active[place] = active[place - 1]
                    place -= 1
                active[place] = j
        if running == 0:
            continue
        span = load(marks, events[at + 1] * LANES) - load(marks, events[at] * LANES)
        lanes = above(span, zero) & mask
        if lanes == 0:
            continue
        busy = zero
        for q in range(running):
            busy = busy + load(share, active[q] * LANES)
        lanes &= above(busy, zero)
        for q in range(running):
            j = active[q]
            use = span * load(work, j * LANES) / (load(marks, (2 * j + 1) * LANES) - load(marks, 2 * j * LANES)) / busy
            use = chosen(lanes & lasting[j], use, zero)
            store(part, j * LANES, load(part, j * LANES) + use)
            total = total + use
    scale = chosen(above(total, zero), load(makespan, 0) / total, zero)
    missing, spare = zero, zero
    for j in range(low, high):
        use = load(part, j * LANES) * scale
        floor = chosen(lasting[j], load(work, j * LANES) / spread(float(cores)), zero)
        missing = missing + larger(floor - use, zero)
        spare = spare + larger(use - floor, zero)
        store(part, j * LANES, use)
        store(share, j * LANES, floor)
    cut = chosen(above(spare, zero), missing / spare, zero)
    for j in range(low, high):
        use, floor = load(part, j * LANES), load(share, j * LANES)
        use = larger(use, floor) - larger(use - floor, zero) * cut
        store(wall, j * LANES, chosen(mask, use, load(wall, j * LANES)))


@kernel
def _add_up(low, high, demand, rates, piece, far, start, wall, sums):
    """Adds the seconds of ops low..high by resource, first to last, to ``sums`` (6, LANES), flat."""
    zero = spread(0.0)
    compute, offchip, onchip = load(sums, COMPUTE * LANES), load(sums, OFFCHIP * LANES), load(sums, ONCHIP * LANES)
    host, overhead = load(sums, HOST * LANES), load(sums, OVERHEAD * LANES)
    for j in range(low, high):
        runs = _of(demand, j, D.RUNS)
        if _first(demand, j, D.HOST_OPS) > 0.0:
            again = j > 0 and _first(demand, j - 1, D.HOST_OPS) > 0.0  # left there for the operator before
            begin = zero if again else load(rates, S.host_start_s * LANES)
            host = host + runs * (_of(demand, j, D.HOST_OPS) * load(rates, S.host_op_s * LANES) + begin)
        elif _first(demand, j, D.PIXELS) > 0.0:
            compute = compute + runs * _of(demand, j, D.PIXELS) * load(rates, S.pixel_s * LANES)
        elif _first(demand, j, D.PIECES) > 0.0:
            at = j * LANES
            length, began, whole = load(piece, at), load(start, at), runs * load(wall, at)
            busy = length - began
            port = _of(demand, j, D.PORT) * load(rates, S.port_s * LANES)
            port = larger(port, _of(demand, j, D.SRAM) * load(rates, S.sram_s * LANES))
            port = port * _of(demand, j, D.SKEW) / spread(max(_first(demand, j, D.PIECES), 1.0))
            late = above(load(far, at), length)
            lanes = above(length, zero) & ~late
            port_bound = at_least(port, busy)
            beyond = at_least(_outside(demand, rates, j), load(far, at))
            offchip = offchip + chosen(late & beyond, whole, zero)
            onchip = onchip + chosen(late & ~beyond, whole, zero)
            overhead = overhead + chosen(lanes, whole * began / length, zero)
            working = whole * busy / length
            onchip = onchip + chosen(lanes & port_bound, working, zero)
            compute = compute + chosen(lanes & ~port_bound, working, zero)
    store(sums, COMPUTE * LANES, compute)
    store(sums, OFFCHIP * LANES, offchip)
    store(sums, ONCHIP * LANES, onchip)
    store(sums, HOST * LANES, host)
    store(sums, OVERHEAD * LANES, overhead)


@kernel
def _lowest(mask):
    """The first lane of a mask that is not empty."""
    lane = 0
    while mask >> lane & 1 == 0:
        lane += 1
    return lane


@kernel
def _spread_demand(demands, start, demand):
    """Puts the demands of eight points side by side, the last one's again where there are fewer."""
    last = demands.shape[0] - 1
    for j in range(demands.shape[1]):
        for c in range(D.DEMANDS):
            at = (j * D.DEMANDS + c) * LANES
            store(demand, at, spread(demands[last, j, c]))
            for lane in range(min(LANES, last - start)):
                demand[at + lane] = demands[start + lane, j, c]


@kernel
def supply_block(lo, hi, demands, first, needs, cores, sort, supply, totals, room, out):
    """Times of a pass at design points lo..hi: adds the seconds of all ops by resource to ``totals`` (6, n_points).

    ``demands`` (1 or hi - lo, n_ops, DEMANDS) are those of all of them, or of each; they are cut up alike. ``room``
    (ROOM, n_ops * LANES) has the schedule of the last points, see `CoreSchedule`; ``out`` (n_ops or 0, 6) takes the
    seconds of each op at the last point, executions multiplied in. [s]
    """
    n = demands.shape[1]
    demand = np.empty(n * D.DEMANDS * LANES)
    piece, far, start, wall, rank = room[PIECE], room[FAR], room[START], room[WALL], room[RANK]
    work, share, part, marks = room[WORK], room[SHARE], room[PART], np.empty(2 * n * LANES)
    free, makespan = np.empty(cores * LANES), np.empty(LANES)
    rates, sums = np.empty(supply.shape[0] * LANES), np.empty(6 * LANES)
    order, events = np.empty(n, np.int64), np.empty(2 * n, np.int64)
    lasting, active = np.empty(n, np.int64), np.empty(n + 1, np.int64)
    for j in range(2 * n):
        order[j >> 1] = j >> 1
        events[j] = j
    for point in range(lo, hi, LANES):
        if point == lo or demands.shape[0] > 1:
            _spread_demand(demands, point - lo, demand)
        for lane in range(LANES):
            at = min(point + lane, hi - 1)  # the last point once more where there are fewer
            for r in range(supply.shape[0]):
                rates[r * LANES + lane] = supply[r, at]
            for r in range(6):
                sums[r * LANES + lane] = totals[r, at]
        _seconds(demand, rates, piece, far, start)
        low = 0
        while low < n:
            high = low + 1
            while high < n and demands[0, high, D.SEGMENT] == demands[0, low, D.SEGMENT]:
                high += 1
            if sort:
                _ranks(low, high, piece, far, first, needs, rank)
            pending = FULL
            while pending != 0:
                mask, lane = pending, _lowest(pending)
                if sort:
                    _by_rank(low, high, rank, lane, order)
                    mask = 1 << lane | pending & _same_order(low, high, rank, order)
                _place(
                    low, high, order, mask, demand, piece, far, first, needs, cores, sort, marks, work, free, makespan
                )
                pending &= ~mask
            pending = FULL
            while pending != 0:
                lane = _lowest(pending)
                _by_time(low, high, marks, lane, events)
                mask = 1 << lane | pending & _same_time(low, high, marks, events)
                _share(
                    low, high, events, mask, demand, marks, work, makespan, cores, share, lasting, active, part, wall
                )
                pending &= ~mask
            low = high
        _add_up(0, n, demand, rates, piece, far, start, wall, sums)
        for lane in range(min(LANES, hi - point)):
            for r in range(6):
                totals[r, point + lane] = sums[r * LANES + lane]
    last = LANES - 1
    for j in range(out.shape[0]):
        room[BEGIN, j * LANES + last] = marks[2 * j * LANES + last]
        room[END, j * LANES + last] = marks[(2 * j + 1) * LANES + last]
        for at in range(6 * LANES):
            sums[at] = 0.0
        _add_up(j, j + 1, demand, rates, piece, far, start, wall, sums)
        for r in range(6):
            out[j, r] = sums[r * LANES + last]
