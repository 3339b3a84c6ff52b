"""The schedule of a card's cores at one point by scans over all operators and cores, as one would write it down."""

import numpy as np

from engine.devices.card.demand import (
    BEYOND,
    CACHE,
    CYCLES,
    FAR,
    HOST_OPS,
    LANE_OPS,
    LINES,
    MACS_LOW,
    MACS_WIDE,
    PIECES,
    PIXELS,
    PORT,
    RUNS,
    SEGMENT,
    SKEW,
    SOLO,
    SRAM,
    STARTS,
)
from engine.devices.card.supply import S
from engine.kernels.jit import kernel


@kernel
def outside(demand, supply, j, point):
    """Seconds of an op on the slower of LPDDR, streams and single lines together, and the memory behind it."""
    lpddr = demand[j, FAR] * supply[S.far_s, point] + demand[j, LINES] * supply[S.line_s, point]
    return max(lpddr, demand[j, BEYOND] * supply[S.beyond_s, point])


@kernel
def piece_seconds(demand, supply, point, piece, far, start):
    """Seconds of a piece on its core, of the op on the slowest shared memory, and of its starts; fills the arrays."""
    for j in range(demand.shape[0]):
        pieces = demand[j, PIECES]
        if pieces == 0.0:
            piece[j] = far[j] = start[j] = 0.0
            continue
        work = (
            demand[j, MACS_LOW] * supply[S.low_s, point]
            + demand[j, MACS_WIDE] * supply[S.wide_s, point]
            + demand[j, LANE_OPS] * supply[S.lane_s, point]
            + demand[j, CYCLES] * supply[S.cycle_s, point]
        )
        start[j] = demand[j, STARTS] * supply[S.start_s, point] + demand[j, SOLO] * supply[S.solo_s, point]
        slower = max(work, demand[j, PORT] * supply[S.port_s, point], demand[j, SRAM] * supply[S.sram_s, point])
        piece[j] = start[j] + slower * demand[j, SKEW] / pieces
        far[j] = max(outside(demand, supply, j, point), demand[j, CACHE] * supply[S.cache_s, point])


@kernel
def list_schedule(
    low, high, demand, piece, far, first, needs, cores, ranked, begin, end, held, free, rank, core_of, bars
):
    """List schedule of ops low..high on the cores; returns the makespan. [s]

    The ready op with the longest path to the end goes first, each of its pieces on the core that is free first
    (`ranked`); otherwise ops go in program order and their pieces on cores in turn, busy or not. LPDDR serves one op
    after the other. Fills begin, end and held (core-seconds) of each op, core_of (n_ops, 2): first core, pieces, and,
    as far as it has room, bars (pieces, 4): op, core, begin and end of every piece.
    """
    drawn = 0
    n = high - low
    for c in range(free.shape[0]):
        free[c] = 0.0
    for j in range(low, high):
        rank[j] = 0.0
        begin[j] = -1.0
        held[j] = 0.0
    for j in range(high - 1, low - 1, -1):
        rank[j] += max(piece[j], far[j])
        for e in range(first[j], first[j + 1]):
            i = needs[e]
            if low <= i < high:
                rank[i] = max(rank[i], rank[j])
    channel = 0.0
    turn = 0
    makespan = 0.0
    for step in range(n):
        chosen = low + step
        if ranked:
            best = -1.0
            for j in range(low, high):
                if begin[j] >= 0.0 or rank[j] < best:
                    continue
                ready = True
                for e in range(first[j], first[j + 1]):
                    if low <= needs[e] < high and begin[needs[e]] < 0.0:
                        ready = False
                        break
                if ready and rank[j] > best:
                    best = rank[j]
                    chosen = j
        j = chosen
        ready_at = 0.0
        for e in range(first[j], first[j + 1]):
            if low <= needs[e] < high:
                ready_at = max(ready_at, end[needs[e]])
        pieces = int(demand[j, PIECES])
        if pieces == 0:
            begin[j] = ready_at
            end[j] = ready_at
            makespan = max(makespan, ready_at)
            continue
        arrived = 0.0
        if far[j] > 0.0:
            channel = max(channel, ready_at) + far[j]
            arrived = channel
        begin[j] = 1e300
        end[j] = 0.0
        core_of[j, 0] = turn % cores
        core_of[j, 1] = pieces
        for _ in range(pieces):
            at = turn % cores
            turn += 1
            if ranked:
                for c in range(cores):
                    if free[c] < free[at]:
                        at = c
            started = max(ready_at, free[at])
            done = max(started + piece[j], arrived)
            free[at] = done
            if drawn < bars.shape[0]:
                bars[drawn, 0], bars[drawn, 1], bars[drawn, 2], bars[drawn, 3] = j, at, started, done
                drawn += 1
            held[j] += done - started
            begin[j] = min(begin[j], started)
            end[j] = max(end[j], done)
        makespan = max(makespan, end[j])
    return makespan


@kernel
def share_out(low, high, demand, makespan, cores_there, begin, end, held, wall):
    """Deals the makespan of ops low..high out to them: at each moment by the cores they hold on average. Sums to it.

    None has less than the time in which it would fill all cores: those that have more give it that.
    """
    n = high - low
    marks = np.empty(2 * n)
    for i in range(2 * n):
        moment = end[low + i // 2] if i % 2 else begin[low + i // 2]
        at = i
        while at > 0 and marks[at - 1] > moment:
            marks[at] = marks[at - 1]
            at -= 1
        marks[at] = moment
        wall[low + i // 2] = 0.0
    total = 0.0
    for i in range(2 * n - 1):
        span = marks[i + 1] - marks[i]
        if span <= 0.0:
            continue
        cores = 0.0
        for j in range(low, high):
            if demand[j, PIECES] > 0.0 and begin[j] <= marks[i] and end[j] >= marks[i + 1] and end[j] > begin[j]:
                cores += held[j] / (end[j] - begin[j])
        if cores == 0.0:
            continue
        for j in range(low, high):
            if demand[j, PIECES] > 0.0 and begin[j] <= marks[i] and end[j] >= marks[i + 1] and end[j] > begin[j]:
                wall[j] += span * held[j] / (end[j] - begin[j]) / cores
                total += span * held[j] / (end[j] - begin[j]) / cores
    if total > 0.0:
        for j in range(low, high):
            wall[j] *= makespan / total
    missing = spare = 0.0
    least = np.zeros(high)
    for j in range(low, high):
        if end[j] > begin[j]:
            least[j] = held[j] / cores_there
        missing += max(least[j] - wall[j], 0.0)
        spare += max(wall[j] - least[j], 0.0)
    for j in range(low, high):
        taken = missing / spare if spare > 0.0 else 0.0
        wall[j] = max(wall[j], least[j]) - max(wall[j] - least[j], 0.0) * taken


@kernel
def time_ops(demand, first, needs, cores, ranked, supply, point, out, spans):
    """Times of every op at one design point.

    Fills ``out`` (n_ops, 6) by resource, executions multiplied in, and ``spans`` (n_ops, 5): begin, end, held
    core-seconds, first core and pieces within the op's segment. Returns core-seconds worked, kernel starts and waiting
    for LPDDR left out, and core-seconds there are. [s]
    """
    n = demand.shape[0]
    piece, far, start = np.zeros(n), np.zeros(n), np.zeros(n)
    begin, end, held, rank, wall = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    core_of, no_bars = np.zeros((n, 2)), np.zeros((0, 4))
    free = np.zeros(cores)
    piece_seconds(demand, supply, point, piece, far, start)
    used = 0.0
    offered = 0.0
    low = 0
    while low < n:
        high = low + 1
        while high < n and demand[high, SEGMENT] == demand[low, SEGMENT]:
            high += 1
        makespan = list_schedule(
            low, high, demand, piece, far, first, needs, cores, ranked, begin, end, held, free, rank, core_of, no_bars
        )
        share_out(low, high, demand, makespan, cores, begin, end, held, wall)
        runs = demand[low, RUNS]
        for j in range(low, high):
            used += (piece[j] - start[j]) * demand[j, PIECES] * runs
        offered += makespan * cores * runs
        low = high
    for j in range(n):
        runs = demand[j, RUNS]
        for r in range(6):
            out[j, r] = 0.0
        busy = piece[j] - start[j]
        compute = busy
        port = max(demand[j, PORT] * supply[S.port_s, point], demand[j, SRAM] * supply[S.sram_s, point])
        port = port * demand[j, SKEW] / max(demand[j, PIECES], 1.0)
        longest = max(piece[j], far[j])
        if demand[j, HOST_OPS] > 0.0:
            again = j > 0 and demand[j - 1, HOST_OPS] > 0.0  # still there: it was left for the operator before
            start_s = 0.0 if again else supply[S.host_start_s, point]
            out[j, 4] = runs * (demand[j, HOST_OPS] * supply[S.host_op_s, point] + start_s)
        elif demand[j, PIXELS] > 0.0:
            out[j, 0] = runs * demand[j, PIXELS] * supply[S.pixel_s, point]
        elif longest > 0.0 and far[j] > piece[j]:
            out[j, 1 if outside(demand, supply, j, point) >= far[j] else 2] = runs * wall[j]
        elif longest > 0.0:
            out[j, 5] = runs * wall[j] * start[j] / piece[j]
            out[j, 2 if port >= compute else 0] = runs * wall[j] * busy / piece[j]
        spans[j, 0], spans[j, 1], spans[j, 2] = begin[j], end[j], held[j]
        spans[j, 3], spans[j, 4] = core_of[j, 0], core_of[j, 1]
    return used, offered
