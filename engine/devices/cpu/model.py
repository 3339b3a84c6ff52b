"""The CPU family's formulas: one compiled function over the flat table of a phase."""

from __future__ import annotations

import numpy as np

from engine.devices.common.counts import at as _at
from engine.devices.common.counts import parts
from engine.devices.cpu.flags import (
    BINARY,
    CHANNELS,
    CONVOLVES,
    FREE,
    HASHED,
    INLINE,
    NARROW,
    POOLS,
    PREPARED,
    QUANTISE,
    SLIDES,
    SPECIAL,
    STORED_NARROW,
    WIDE_INPUT,
    WINDOW,
)
from engine.kernels.jit import kernel
from model_zoo import table as T

FIELDS: tuple[str, ...] = (
    "threads", "low_peak", "wide_peak", "binary_peak", "vector_rate", "lanes_rate", "clock", "gemm_efficiency",
    "binary_efficiency", "short_row", "thin_input", "narrow_group", "lanes", "special_cycles", "dram", "shared_rate",
    "private_rate", "private", "shared_share", "shared", "weights_total", "tables_total", "weight_bytes", "wide_bytes",
    "quantised", "private_latency", "shared_latency", "dram_latency", "misses", "row_cycles", "hash_cycles",
    "op_overhead", "barrier", "fuse", "fuse_requantise", "fuse_gathers", "prune", "preprocess_apart", "dead_ops",
    "dead_cycles", "write_allocate", "window_overhead", "tile_rows", "tile_columns", "lone_vector", "exposed",
    "weight_stream", "pool_cycles", "step_overhead", "conv_efficiency", "requantise_cycles", "core_dram",
    "fit_threads",
)  # fmt: skip
(
    THREADS, LOW_PEAK, WIDE_PEAK, BINARY_PEAK, VECTOR_RATE, LANES_RATE, CLOCK, GEMM_EFFICIENCY,
    BINARY_EFFICIENCY, SHORT_ROW, THIN_INPUT, NARROW_GROUP, LANES, SPECIAL_CYCLES, DRAM, SHARED_RATE,
    PRIVATE_RATE, PRIVATE, SHARED_SHARE, SHARED, WEIGHTS_TOTAL, TABLES_TOTAL, WEIGHT_BYTES, WIDE_BYTES,
    QUANTISED, PRIVATE_LATENCY, SHARED_LATENCY, DRAM_LATENCY, MISSES, ROW_CYCLES, HASH_CYCLES,
    OP_OVERHEAD, BARRIER, FUSE, FUSE_REQUANTISE, FUSE_GATHERS, PRUNE, PREPROCESS_APART, DEAD_OPS,
    DEAD_CYCLES, WRITE_ALLOCATE, WINDOW_OVERHEAD, TILE_ROWS, TILE_COLUMNS, LONE_VECTOR, EXPOSED,
    WEIGHT_STREAM, POOL_CYCLES, STEP_OVERHEAD, CONV_EFFICIENCY, REQUANTISE_CYCLES, CORE_DRAM,
    FIT_THREADS,
) = range(53)  # fmt: skip

# columns of the result
COMPUTE, OFFCHIP, ONCHIP, LINKS, HOST, OVERHEAD, WORK, ROOF, MOVED, NEAR, BUSY = range(11)
WIDTH = 11

LINE = 64.0  # bytes of a cache line
HASH = float(T.CODES["Hash"])
THREAD_ROWS, THREAD_COLUMNS = 16.0, 64.0  # of a product's result that one thread takes: a few register tiles
BY_THREADS = (
    THREADS,
    LOW_PEAK,
    WIDE_PEAK,
    BINARY_PEAK,
    VECTOR_RATE,
    LANES_RATE,
    SHARED_RATE,
    PRIVATE_RATE,
    PRIVATE,
)
"""Fields that are those of one core times the threads."""
BLOCK_VECTORS = 4.0  # vectors of columns a register tile holds
STREAMED_ROWS = 4.0  # up to here a product streams its weights past each row instead of filling tiles


@kernel
def _share(capacity, need):
    """Part of `need` bytes at random places that a cache of `capacity` holds. [-]"""
    return 1.0 if need <= capacity else capacity / need


@kernel
def _cycle_share(capacity, need):
    """Part of `need` bytes, passed over again and again in order, that is still in a cache of `capacity`. [-]

    All of it while it fits, none from twice the capacity on: a cache keeps what came last and a pass starts with
    what came first; real replacement policies are kinder than LRU, hence the ramp.
    """
    if need <= capacity:
        return 1.0
    return max(0.0, 2.0 - need / capacity) if capacity > 0.0 else 0.0


@kernel
def _conv_share(m, n, batch, window, channels, rec):
    """What a convolution loses against a plain product: short rows of output, few input channels, small groups. [-]"""
    share = 1.0
    if window > 0.0:
        row = np.sqrt(max(m / batch, 1.0))
        share *= row / (row + rec[SHORT_ROW])
        if channels < 4.0 and n > 1.0:
            share *= rec[THIN_INPUT]
        if n < rec[LANES]:
            share *= max(rec[NARROW_GROUP], n / rec[LANES])
    return share


@kernel
def _tile_share(m, n, slides, rec):
    """Part of the register tiles that a product's rows and columns fill. [-]

    Rows are rounded up to whole tiles; few rows, or few columns, are no tile: one side streams past the other. Columns
    are rounded up to the packed panel, those of a convolution to whole vectors, where one left over shares its loads
    with no other.
    """
    if slides == 0.0 and (m <= STREAMED_ROWS or n <= rec[LANES]):
        return 1.0
    rows = np.ceil(m / rec[TILE_ROWS]) * rec[TILE_ROWS]
    if slides == 0.0:
        return m / rows * n / (np.ceil(n / rec[TILE_COLUMNS]) * rec[TILE_COLUMNS])
    if n < rec[LANES]:  # groups: `_conv_share` has what they lose
        return m / rows
    vectors = np.ceil(n / rec[LANES])
    vectors += (vectors - 2.0 * np.floor(vectors / 2.0)) * (1.0 / rec[LONE_VECTOR] - 1.0)
    return m / rows * n / (rec[LANES] * vectors)


@kernel
def _thread_share(g, m, n, threads, rows):
    """Share of a stream's threads that a product keeps busy: whole tiles of its result are dealt out. [-]

    The thread with most to do sets the time. A ragged tile counts as a whole one there, or a row more, which makes
    another tile to deal out, would be faster. A tile of a convolution is a row of its output, which costs what
    `_conv_share` says however short it is: tiles of several rows would make a longer row cheaper.
    """
    whole = g * m * n
    tiles = g * np.ceil(m / rows) * np.ceil(n / THREAD_COLUMNS)
    most = np.ceil(tiles / threads) * min(m, rows) * min(n, THREAD_COLUMNS)
    return whole / (min(whole, most) * threads) if whole > 0.0 else 1.0 / threads


@kernel
def _cell_bytes(table, j, batch, length, context, ways, rec):
    """Weights that one step of op j's recurrence reads, all ops of the cell together. [B]

    A cell begins with the product that needs no step before it, its input's, and its steps take turns over all of it:
    what the next step finds in a cache is decided by the whole, not by one op of it.
    """
    first = j
    while first > 0 and table[first, T.SEQUENTIAL] > 0.0:
        first -= 1
    total, i = 0.0, first
    while i < table.shape[0] and _at(table, i, T.STEPS, batch, length, context) > 1.0:
        if i > first and table[i, T.STORED] > 0.0 and table[i, T.SEQUENTIAL] == 0.0:
            break
        narrow = table[i, T.CLASS] == T.CONTRACTION and table[i, T.QUANTISABLE] > 0.0
        total += table[i, T.STORED] / ways * (rec[WEIGHT_BYTES] if narrow else rec[WIDE_BYTES])
        i += 1
    return total


@kernel
def _on_threads(threads, rec, out):
    """The record of a stream that uses so many of its threads; fills ``out``. Its memory stays where it lies."""
    out[:] = rec
    for field in BY_THREADS:
        out[field] *= threads / rec[THREADS]
    out[DRAM] = min(rec[DRAM], threads * rec[CORE_DRAM])
    out[BARRIER] = rec[BARRIER] * np.ceil(np.log2(threads))


@kernel
def price_ops(table, flags, batch, length, context, ways, rec, out):
    """Price every op of a pass for one stream; fills ``out`` (n_ops, WIDTH), layers and steps multiplied in.

    Where threads are fitted, each op runs on as many of the stream's as make it fastest: they are forked and joined
    along a tree, so a power of two or all of them is best. An op is done when the fewer threads of the next lower level
    take longer even without their barrier.
    """
    n = table.shape[0]
    part, found, done = np.empty(rec.shape[0]), np.empty((n, WIDTH)), np.zeros(n)
    threads = rec[THREADS]
    _on_threads(threads, rec, part)
    _price_ops(table, flags, batch, length, context, ways, part, done, out)
    left = n if part[BARRIER] * rec[FIT_THREADS] > 0.0 else 0
    while left > 0 and threads > 1.0:
        threads = 2.0 ** (np.ceil(np.log2(threads)) - 1.0)
        _on_threads(threads, rec, part)
        _price_ops(table, flags, batch, length, context, ways, part, done, found)
        left = 0
        for j in range(n):
            if done[j] > 0.0:
                continue
            best, time, work = 0.0, 0.0, 0.0
            for r in range(OVERHEAD + 1):
                best += out[j, r]
                time += found[j, r]
                work += found[j, r] if r < OVERHEAD else 0.0
            if time < best:
                out[j] = found[j]
            if work >= best:
                done[j] = 1.0
            else:
                left += 1


@kernel
def _price_ops(table, flags, batch, length, context, ways, rec, done, out):
    """`price_ops` with all ops that are not ``done`` on the threads of a record."""
    # how much of what is read every pass stays in cache from one pass to the next
    cached = rec[PRIVATE] + rec[SHARED]
    weight_near = _cycle_share(cached, rec[WEIGHTS_TOTAL])
    weight_private = _cycle_share(rec[PRIVATE], rec[WEIGHTS_TOTAL])
    table_private = _share(rec[PRIVATE], rec[TABLES_TOTAL])
    table_near = _share(cached, rec[TABLES_TOTAL])
    for j in range(table.shape[0]):
        if done[j] > 0.0:
            continue
        g = _at(table, j, T.G, batch, length, context)
        m = _at(table, j, T.M, batch, length, context)
        n = _at(table, j, T.N, batch, length, context)
        flops = _at(table, j, T.FLOPS, batch, length, context)
        weights = _at(table, j, T.WEIGHTS, batch, length, context)
        reads = _at(table, j, T.READS, batch, length, context)
        writes = _at(table, j, T.WRITES, batch, length, context)
        state = _at(table, j, T.STATE_READS, batch, length, context)
        state += _at(table, j, T.STATE_WRITES, batch, length, context)
        rows = _at(table, j, T.GATHER_ROWS, batch, length, context)
        steps = max(_at(table, j, T.STEPS, batch, length, context), 1e-30)
        stored = table[j, T.STORED]
        if stored > 0.0:
            weights = min(weights, stored)
        part_g, part_m, part_n, part_k, part_e = parts(table, j, n, ways)
        share = part_n * part_g * part_k * part_e
        flops *= share * part_m
        weights *= share
        state *= share
        rows *= share
        reads *= part_g * part_m * part_k * part_e
        writes *= part_n * part_g * part_m * part_e
        m *= part_m
        n *= part_n
        klass = table[j, T.CLASS]
        binary = flags[j, BINARY] > 0.0
        low = rec[QUANTISED] > 0.0 and klass == T.CONTRACTION and table[j, T.QUANTISABLE] > 0.0 and stored > 0.0
        low = low and not binary
        inline = rec[FUSE] > 0.0 and flags[j, INLINE] > 0.0
        narrow = rec[QUANTISED] > 0.0 and rec[FUSE_REQUANTISE] > 0.0 and flags[j, NARROW] > 0.0
        element = rec[WEIGHT_BYTES] if narrow else rec[WIDE_BYTES]
        extra_ops = 0.0

        # bytes of activations: what lies in caches, and what crosses levels (a line is fetched before it is written)
        stores = rec[WRITE_ALLOCATE]
        if binary:
            size = (reads + writes) / 8.0
            moved = (reads + stores * writes) / 8.0
        elif low:
            size = reads * rec[WEIGHT_BYTES]
            moved = size
            stored_wide = flags[j, QUANTISE] == STORED_NARROW and rec[FUSE_REQUANTISE] == 0.0
            if flags[j, QUANTISE] == WIDE_INPUT or stored_wide:  # measured, scaled, rounded in a pass of its own
                size += reads * (rec[WIDE_BYTES] + rec[WEIGHT_BYTES])
                moved += reads * (rec[WIDE_BYTES] + stores * rec[WEIGHT_BYTES])
                extra_ops += 1.0
            size += writes * rec[WEIGHT_BYTES]
            moved += stores * writes * rec[WEIGHT_BYTES]
            if rec[FUSE_REQUANTISE] == 0.0:  # 32-bit sums stored, read for their range, read again to requantise
                size += writes * 4.0
                moved += writes * (stores * 4.0 + 4.0 + 4.0)
                extra_ops += 2.0
        else:
            size = (reads + writes) * element
            moved = (reads + stores * writes) * element
        if inline:
            size = max(reads - writes, 0.0) * element
            moved = size
        if flags[j, FREE] > 0.0:
            moved = 0.0
        state_bytes = state * rec[WIDE_BYTES]
        if klass == T.LOOKUP:
            size = writes * rec[WIDE_BYTES]
            moved = stores * size
            weight_bytes = 0.0
        elif binary:
            weight_bytes = weights / 8.0
        elif low or (rec[QUANTISED] == 0.0 and klass == T.CONTRACTION):
            weight_bytes = weights * rec[WEIGHT_BYTES]
        else:
            weight_bytes = weights * rec[WIDE_BYTES]

        # where they lie
        act_private = _cycle_share(rec[PRIVATE], size)
        act_near = _cycle_share(rec[PRIVATE] + rec[SHARED_SHARE], size)
        kept_w, kept_private = weight_near, weight_private
        if steps > 1.0 and weight_bytes > 0.0:  # a step finds what the step before it read
            again = (steps - 1.0) / steps
            cell = _cell_bytes(table, j, batch, length, context, ways, rec)
            kept_w = max(kept_w, again * _cycle_share(cached, cell))
            kept_private = max(kept_private, again * _cycle_share(rec[PRIVATE], cell))
        state_near = _cycle_share(rec[SHARED_SHARE] + rec[PRIVATE], state_bytes * table[j, T.LAYERS])
        dram_w = weight_bytes * (1.0 - kept_w) + state_bytes * (1.0 - state_near)
        dram_a = moved * (1.0 - act_near)
        shared_w = weight_bytes * (kept_w - kept_private) + state_bytes * state_near
        private_w = weight_bytes * kept_private
        shared_a = moved * (act_near - act_private)
        private_a = moved * act_private

        # arithmetic
        lookup = 0.0
        if klass == T.CONTRACTION:
            if binary:
                roof = rec[BINARY_PEAK]
                busy = flops / (roof * rec[BINARY_EFFICIENCY])
            else:
                roof = rec[LOW_PEAK] if low or rec[QUANTISED] == 0.0 else rec[WIDE_PEAK]
                useful = _conv_share(m, n, batch, flags[j, WINDOW], flags[j, CHANNELS], rec)
                tile = np.sqrt(max(m / batch, 1.0)) if flags[j, WINDOW] > 0.0 else THREAD_ROWS
                useful *= _thread_share(g, m, n, rec[THREADS], tile)
                useful *= _tile_share(m, n, flags[j, SLIDES], rec)
                reached = rec[CONV_EFFICIENCY] if flags[j, CONVOLVES] > 0.0 else rec[GEMM_EFFICIENCY]
                busy = flops / (roof * reached * useful)
                if low and rec[FUSE_REQUANTISE] > 0.0:
                    busy += writes / rec[LANES] * rec[REQUANTISE_CYCLES] / (rec[CLOCK] * rec[THREADS])
        else:
            roof = rec[WIDE_PEAK]
            busy = flops / rec[VECTOR_RATE] * (rec[POOL_CYCLES] if flags[j, POOLS] > 0.0 else 1.0)
            busy += flags[j, SPECIAL] * writes * rec[SPECIAL_CYCLES] / rec[LANES_RATE]
            if table[j, T.KIND] == HASH:
                busy += writes * rec[HASH_CYCLES] / (rec[CLOCK] * rec[THREADS])
        if klass == T.LOOKUP and rows > 0.0:
            lines = np.ceil(table[j, T.ROW_ELEMENTS] * rec[WIDE_BYTES] / LINE)
            waiting = (
                table_private * rec[PRIVATE_LATENCY]
                + (table_near - table_private) * rec[SHARED_LATENCY]
                + (1.0 - table_near) * rec[DRAM_LATENCY]
            )
            lookup = rows * lines * waiting / (rec[MISSES] * rec[THREADS])
            busy += rows * rec[ROW_CYCLES] / (rec[CLOCK] * rec[THREADS])
            far = rows * lines * LINE * (1.0 - table_near)
            lookup = max(lookup, far / rec[DRAM])
            dram_a += far
            shared_a += rows * lines * LINE * (table_near - table_private)
            private_a += rows * lines * LINE * table_private
        if flags[j, HASHED] > 0.0:
            columns = table[j, T.GATHER_ROWS]
            if rec[FUSE_GATHERS] == 0.0:
                extra_ops += columns - 1.0
            if rec[PRUNE] == 0.0:
                extra_ops += columns * rec[DEAD_OPS]
                busy += columns * rec[DEAD_OPS] * batch * rec[DEAD_CYCLES] / (rec[CLOCK] * rec[THREADS])

        # overlap: weights stream while the first row is multiplied; activations stream under the other rows
        far_w, far_a = dram_w / rec[DRAM], dram_a / rec[DRAM]
        near_w = shared_w / (rec[SHARED_RATE] * rec[WEIGHT_STREAM]) + private_w / rec[PRIVATE_RATE]
        near_a = shared_a / rec[SHARED_RATE] + private_a / rec[PRIVATE_RATE]
        if klass == T.LOOKUP:
            stream = max(lookup, far_a + near_a)
            at_dram = far_a / (far_a + near_a) if far_a > 0.0 else 0.0
            compute, offchip, onchip = busy, stream * at_dram, stream * (1.0 - at_dram)
        elif klass == T.CONTRACTION:
            # xor-and-count fills the issue slots that loads would need: nothing of it hides a wait
            first = 0.0 if binary else min(far_w + near_w, busy / max(m, 1.0))
            compute = busy - first
            late = max(1.0 - compute / (far_a + near_a), 0.0) if far_a + near_a > 0.0 else 0.0
            # rows are passed over for each block of columns; what of that comes from the shared cache is waited for
            again = max(np.ceil(n / (rec[LANES] * BLOCK_VECTORS)) - 1.0, 0.0) * reads * rec[WIDE_BYTES]
            waited = (
                max(flags[j, SLIDES], flags[j, WINDOW])
                * rec[EXPOSED]
                * (moved + again)
                * (act_near - act_private)
                / rec[SHARED_RATE]
            )
            offchip = far_w + late * far_a
            onchip = near_w + max(late * near_a, waited)
        else:
            offchip, onchip = far_w + far_a, near_w + near_a
            compute = max(busy - offchip - onchip, 0.0)
        overhead = 0.0
        if not inline and flags[j, FREE] == 0.0:
            overhead = (1.0 + extra_ops) * rec[OP_OVERHEAD] + rec[BARRIER]
            overhead += flags[j, SLIDES] * rec[WINDOW_OVERHEAD]
            if table[j, T.SEQUENTIAL] > 0.0:
                overhead += rec[STEP_OVERHEAD]
        runs = table[j, T.LAYERS] * steps
        if flags[j, PREPARED] > 0.0 and rec[PREPROCESS_APART] > 0.0:
            runs = 0.0
        out[j, COMPUTE] = runs * compute
        out[j, OFFCHIP] = runs * offchip
        out[j, ONCHIP] = runs * onchip
        out[j, LINKS] = 0.0
        out[j, HOST] = 0.0
        out[j, OVERHEAD] = runs * overhead
        out[j, WORK] = runs * flops
        out[j, ROOF] = roof
        out[j, MOVED] = runs * (dram_w + dram_a)
        out[j, NEAR] = runs * (shared_w + private_w + shared_a + private_a)
        out[j, BUSY] = runs * busy


@kernel
def price_points(lo, hi, table, flags, ways, supply, totals):
    """Seconds of a pass at the columns lo..hi of ``supply``: adds what `price_ops` finds to ``totals`` (6, n).

    Rows of ``supply``: the record's `FIELDS`, then batch, length and context.
    """
    fields = supply.shape[0] - 3
    rec, out = np.empty(fields), np.zeros((table.shape[0], WIDTH))
    for point in range(lo, hi):
        for f in range(fields):
            rec[f] = supply[f, point]
        batch, length, context = supply[fields, point], supply[fields + 1, point], supply[fields + 2, point]
        price_ops(table, flags, batch, length, context, ways, rec, out)
        for j in range(table.shape[0]):
            for r in range(6):
                totals[r, point] += out[j, r]
