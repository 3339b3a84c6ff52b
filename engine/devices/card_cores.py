"""Operators on the cores of a card: what each demands, what a card supplies, and who runs when.

An operator is cut into pieces; a piece takes a kernel start plus the slower of its arithmetic and its on-chip
traffic on one core, and no piece ends before the operator's LPDDR traffic has passed the one channel all share. Pieces
are placed on cores by list scheduling. Demand depends on the mapping, supply on rates, so that a sweep over rates
prices a demand once; the schedule itself is made anew for every design point. Estimates.
"""

from __future__ import annotations

import numpy as np

from engine.devices.counts import at as _at
from engine.kernels.jit import kernel
from model_zoo import table as T

__all__ = ["DEMANDS", "SUPPLY", "demand_ops", "list_schedule", "piece_seconds", "share_out", "supply_block"]

# what an op is: columns of a traits array
UNIT, LANE_READ, LANE_WRITE, LANE_FLOP, COPIES, PASSES, RIDES, LOW, WINDOW, HOST, GROUP = range(11)
TRAITS = 11
MATRIX, DEPTHWISE, LANES, COPY, LOOKUP, NOTHING = range(6)  # values of UNIT
ON_HOST, HOST_MOVES, DECODER = 1.0, 2.0, 3.0  # values of HOST: arithmetic, what it moves too, a unit of its own

# what an op demands of the card for one execution: columns of a demand array
(
    MACS_LOW, MACS_WIDE, LANE_OPS, CYCLES, PORT, FAR, STARTS, PIECES, SKEW, RUNS, SEGMENT, WORK, ROOF, NEAR, HOST_OPS,
    SOLO, BEYOND, PIXELS,
) = range(18)  # fmt: skip
DEMANDS = 18

# what a card supplies: rows of a supply array, a column a design point
SUPPLY = (
    "low_s", "wide_s", "lane_s", "cycle_s", "port_s", "far_s", "start_s", "solo_s", "host_op_s", "host_start_s",
    "beyond_s", "pixel_s",
)  # fmt: skip
(
    LOW_S, WIDE_S, LANE_S, CYCLE_S, PORT_S, FAR_S, START_S, SOLO_S, HOST_OP_S, HOST_START_S, BEYOND_S, PIXEL_S,
) = range(12)  # fmt: skip

_FIELDS = (
    "cores", "ways", "low_bytes", "wide_bytes", "low_macs", "wide_macs", "lanes_low", "space", "split", "copy_rate",
    "pool_kernel", "pool_cycles", "density", "matrix_fill", "piece_elements",
)  # fmt: skip
(
    CORES, WAYS, LOW_BYTES, WIDE_BYTES, LOW_MACS, WIDE_MACS, LANES_LOW, SPACE, SPLIT, COPY_RATE,
    POOL_KERNEL, POOL_CYCLES, DENSITY, MATRIX_FILL, PIECE_ELEMENTS,
) = range(15)  # fmt: skip

ARRAY_K = 32.0  # depth of the multiplier array's dot products [elements]
ARRAY_N = 32.0  # filters side by side
TILE = 32.0  # rows and filters that go to a core together
LARGE_WINDOW = 49.0  # pixels: windows up to 7 x 7 had kernels of their own before


@kernel
def _fill(m, n, k, macs):
    """Share of the array's multipliers that a product of those sides keeps busy: partial tiles in each direction."""
    rows = max(1.0, np.floor(macs / (ARRAY_K * ARRAY_N)))
    deep = k / (np.ceil(k / ARRAY_K) * ARRAY_K)
    wide = n / (np.ceil(n / ARRAY_N) * ARRAY_N)
    high = m / (np.ceil(m / rows) * rows)
    return deep * wide * high


@kernel
def _skew(m, columns, pieces, rows):
    """Time of the busiest core over the mean one: whole tiles first, the last, lower row of tiles into what is left.

    The lower tiles count with their own height (in whole passes of the array), so that a row more is never faster:
    work times skew is the larger of an even share and the busiest core's tiles, and neither falls with the rows.
    """
    whole = columns * np.floor(m / TILE)
    high = np.ceil(TILE / rows) * rows
    low = np.ceil((m - np.floor(m / TILE) * TILE) / rows) * rows
    longest = np.ceil(whole / pieces) * high
    if low > 0.0:
        left = columns - (longest / high * pieces - whole) * np.floor(high / low)
        longest += low * np.ceil(max(left, 0.0) / pieces)
    return max(1.0, longest * pieces / (columns * np.ceil(m / rows) * rows))


@kernel
def demand_ops(table, traits, bags, stay, batch, length, context, rec, out):
    """What each op asks of one card; fills ``out`` (n_ops, DEMANDS), an execution each.

    Parameters
    ----------
    table : (n_ops, COLUMNS) of `model_zoo.table.lower`; traits : (n_ops, TRAITS).
    bags : (n_ops, 4) of lookups on the busiest card: cycles and kernel starts of its busiest core, bytes of its rows
        in LPDDR and in the tier behind it.
    stay : (n_ops,) share of each op's weights that lies on chip.
    """
    cores, ways = rec[CORES], rec[WAYS]
    for j in range(table.shape[0]):
        unit = traits[j, UNIT]
        shard = table[j, T.SHARD]
        share = 1.0 if shard == 0.0 else 1.0 / ways
        low = traits[j, LOW] > 0.0
        size = rec[LOW_BYTES] if low else rec[WIDE_BYTES]
        g = max(1.0, _at(table, j, T.G, batch, length, context))
        m = _at(table, j, T.M, batch, length, context)
        n = _at(table, j, T.N, batch, length, context)
        k = _at(table, j, T.K, batch, length, context)
        flops = _at(table, j, T.FLOPS, batch, length, context) * share
        weights = _at(table, j, T.WEIGHTS, batch, length, context)
        if table[j, T.STORED] > 0.0:  # what many items choose is read once
            weights = min(weights, table[j, T.STORED])
        weights *= share
        reads = _at(table, j, T.READS, batch, length, context) * (1.0 if shard == 1.0 else share)
        writes = _at(table, j, T.WRITES, batch, length, context) * (1.0 if shard == 3.0 else share)
        for c in range(DEMANDS):
            out[j, c] = 0.0
        out[j, RUNS] = table[j, T.LAYERS] * _at(table, j, T.STEPS, batch, length, context) / traits[j, COPIES]
        out[j, WORK] = flops * traits[j, COPIES]
        out[j, ROOF] = 2.0
        out[j, SEGMENT] = traits[j, GROUP]
        if traits[j, RIDES] > 0.0 and traits[j, LANE_READ] == 0.0:
            out[j, PIECES] = 0.0
            continue
        if traits[j, HOST] > 0.0:
            if traits[j, HOST] == DECODER:
                out[j, PIXELS] = flops
            else:
                out[j, HOST_OPS] = flops + (reads + writes if traits[j, HOST] == HOST_MOVES else 0.0)
            out[j, PIECES] = 0.0
            out[j, ROOF] = 3.0
            continue
        pieces = cores
        skew = 1.0
        if unit == MATRIX:
            n_own = np.ceil(n / ways) if shard == 1.0 else n
            g_own = np.ceil(g / ways) if shard == 2.0 else g
            k_own = np.ceil(k / ways) if shard == 3.0 else k
            macs = rec[LOW_MACS] if low else rec[WIDE_MACS]
            effort = (flops / 2.0) / (_fill(m, n_own, k_own, macs) * rec[MATRIX_FILL])
            columns = g_own * np.ceil(n_own / TILE)
            tiles = columns * np.ceil(m / TILE)
            pieces = min(cores, tiles)
            skew = _skew(m, columns, pieces, max(1.0, np.floor(macs / (ARRAY_K * ARRAY_N))))
            out[j, MACS_LOW if low else MACS_WIDE] = effort
            out[j, ROOF] = 0.0 if low else 1.0
        elif unit == DEPTHWISE:
            per_lane = rec[LANES_LOW] if low else 1.0
            out[j, LANE_OPS] = flops / 2.0 / per_lane
            pieces = min(cores, g)
            skew = np.ceil(g / pieces) * pieces / g
        elif unit == LOOKUP:
            out[j, CYCLES] = bags[j, 0] * cores
            out[j, WORK] = flops * traits[j, COPIES]
        else:
            elements = max(reads, writes) * traits[j, COPIES]
            pieces = min(cores, np.ceil(elements / rec[PIECE_ELEMENTS]))
            if unit == COPY:
                out[j, CYCLES] = elements / rec[COPY_RATE]
            elif traits[j, WINDOW] > LARGE_WINDOW and rec[POOL_KERNEL] == 0.0:
                out[j, CYCLES] = reads * rec[POOL_CYCLES]
            else:
                out[j, LANE_OPS] = (
                    flops * traits[j, LANE_FLOP] + reads * traits[j, LANE_READ] + writes * traits[j, LANE_WRITE]
                )
        if rec[SPLIT] == 0.0 and unit != LOOKUP:
            pieces = 1.0
            skew = 1.0
        near = (reads + writes) * size * traits[j, COPIES]
        far = 0.0
        if near > rec[SPACE]:  # more than the cores' memories and the cache hold
            far = near
        weight_bytes = weights * size * rec[DENSITY]
        if unit == LOOKUP:
            far += bags[j, 2]
            out[j, BEYOND] = bags[j, 3]
        else:
            near += weight_bytes
            far += weight_bytes * (1.0 - stay[j])
        out[j, PORT] = near
        out[j, NEAR] = near
        out[j, FAR] = far
        out[j, PIECES] = max(1.0, pieces)
        if traits[j, RIDES] > 0.0:  # a sum in a convolution's kernel: its lane work, no start of its own
            out[j, STARTS] = 0.0
        elif unit == LOOKUP:
            out[j, SOLO] = bags[j, 1]
        elif traits[j, COPIES] > 1.0:  # many small ones, dealt out over the cores
            out[j, SOLO] = np.ceil(traits[j, COPIES] * share / cores)
        elif out[j, PIECES] == 1.0:
            out[j, SOLO] = traits[j, PASSES]
        else:
            out[j, STARTS] = traits[j, PASSES]
        out[j, SKEW] = skew


@kernel
def piece_seconds(demand, supply, point, piece, far, start):
    """Seconds of a piece on its core, of the op's LPDDR traffic, and of its kernel starts; fills the three arrays."""
    for j in range(demand.shape[0]):
        pieces = demand[j, PIECES]
        if pieces == 0.0:
            piece[j] = far[j] = start[j] = 0.0
            continue
        work = (
            demand[j, MACS_LOW] * supply[LOW_S, point]
            + demand[j, MACS_WIDE] * supply[WIDE_S, point]
            + demand[j, LANE_OPS] * supply[LANE_S, point]
            + demand[j, CYCLES] * supply[CYCLE_S, point]
        )
        start[j] = demand[j, STARTS] * supply[START_S, point] + demand[j, SOLO] * supply[SOLO_S, point]
        piece[j] = start[j] + max(work, demand[j, PORT] * supply[PORT_S, point]) * demand[j, SKEW] / pieces
        far[j] = max(demand[j, FAR] * supply[FAR_S, point], demand[j, BEYOND] * supply[BEYOND_S, point])


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
def share_out(low, high, demand, makespan, begin, end, held, wall):
    """Deals the makespan of ops low..high out to them: at each moment by the cores they hold. Sums to it exactly."""
    n = high - low
    marks = np.empty(2 * n)
    for j in range(n):
        marks[2 * j] = begin[low + j]
        marks[2 * j + 1] = end[low + j]
        wall[low + j] = 0.0
    marks.sort()
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
        share_out(low, high, demand, makespan, begin, end, held, wall)
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
        port = demand[j, PORT] * supply[PORT_S, point] * demand[j, SKEW] / max(demand[j, PIECES], 1.0)
        longest = max(piece[j], far[j])
        if demand[j, HOST_OPS] > 0.0:
            again = j > 0 and demand[j - 1, HOST_OPS] > 0.0  # still there: it was left for the operator before
            start_s = 0.0 if again else supply[HOST_START_S, point]
            out[j, 4] = runs * (demand[j, HOST_OPS] * supply[HOST_OP_S, point] + start_s)
        elif demand[j, PIXELS] > 0.0:
            out[j, 0] = runs * demand[j, PIXELS] * supply[PIXEL_S, point]
        elif longest > 0.0 and far[j] > piece[j]:
            out[j, 1] = runs * wall[j]
        elif longest > 0.0:
            out[j, 5] = runs * wall[j] * start[j] / piece[j]
            out[j, 2 if port >= compute else 0] = runs * wall[j] * busy / piece[j]
        spans[j, 0], spans[j, 1], spans[j, 2] = begin[j], end[j], held[j]
        spans[j, 3], spans[j, 4] = core_of[j, 0], core_of[j, 1]
    return used, offered


@kernel
def supply_block(lo, hi, demand, first, needs, cores, ranked, supply, totals):
    """Times of a pass at design points lo..hi: adds to ``totals`` (6, n_points) the sums of what `time_ops` gives."""
    out = np.zeros((demand.shape[0], 6))
    spans = np.zeros((demand.shape[0], 5))
    for point in range(lo, hi):
        time_ops(demand, first, needs, cores, ranked, supply, point, out, spans)
        for j in range(demand.shape[0]):
            for r in range(6):
                totals[r, point] += out[j, r]
