"""The CPU family's formulas: one compiled function over the flat table of a phase."""

from __future__ import annotations

from typing import NamedTuple

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


class Record(NamedTuple):
    """Where each number that a CPU supplies lies in an array; an array, since a sweep has a column for each design."""

    threads: int
    low_peak: int
    wide_peak: int
    binary_peak: int
    vector_rate: int
    lanes_rate: int
    clock: int
    gemm_efficiency: int
    binary_efficiency: int
    short_row: int
    thin_input: int
    narrow_group: int
    lanes: int
    special_cycles: int
    dram: int
    shared_rate: int
    private_rate: int
    private: int
    shared_share: int
    shared: int
    weights_total: int
    tables_total: int
    weight_bytes: int
    wide_bytes: int
    quantised: int
    private_latency: int
    shared_latency: int
    dram_latency: int
    misses: int
    row_cycles: int
    hash_cycles: int
    op_overhead: int
    barrier: int
    fuse: int
    fuse_requantise: int
    fuse_gathers: int
    prune: int
    preprocess_apart: int
    dead_ops: int
    dead_cycles: int
    write_allocate: int
    window_overhead: int
    tile_rows: int
    tile_columns: int
    lone_vector: int
    exposed: int
    weight_stream: int
    pool_cycles: int
    step_overhead: int
    conv_efficiency: int
    requantise_cycles: int
    core_dram: int
    fit_threads: int


R = Record(*range(len(Record._fields)))

# columns of the result
COMPUTE, OFFCHIP, ONCHIP, LINKS, HOST, OVERHEAD, WORK, ROOF, MOVED, NEAR, BUSY = range(11)
WIDTH = 11

LINE = 64.0  # bytes of a cache line
HASH = float(T.CODES["Hash"])
THREAD_ROWS, THREAD_COLUMNS = 16.0, 64.0  # of a product's result that one thread takes: a few register tiles
BY_THREADS = (
    R.threads,
    R.low_peak,
    R.wide_peak,
    R.binary_peak,
    R.vector_rate,
    R.lanes_rate,
    R.shared_rate,
    R.private_rate,
    R.private,
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
        share *= row / (row + rec[R.short_row])
        if channels < 4.0 and n > 1.0:
            share *= rec[R.thin_input]
        if n < rec[R.lanes]:
            share *= max(rec[R.narrow_group], n / rec[R.lanes])
    return share


@kernel
def _tile_share(m, n, slides, rec):
    """Part of the register tiles that a product's rows and columns fill. [-]

    Rows are rounded up to whole tiles; few rows, or few columns, are no tile: one side streams past the other. Columns
    are rounded up to the packed panel, those of a convolution to whole vectors, where one left over shares its loads
    with no other.
    """
    if slides == 0.0 and (m <= STREAMED_ROWS or n <= rec[R.lanes]):
        return 1.0
    rows = np.ceil(m / rec[R.tile_rows]) * rec[R.tile_rows]
    if slides == 0.0:
        return m / rows * n / (np.ceil(n / rec[R.tile_columns]) * rec[R.tile_columns])
    if n < rec[R.lanes]:  # groups: `_conv_share` has what they lose
        return m / rows
    vectors = np.ceil(n / rec[R.lanes])
    vectors += (vectors - 2.0 * np.floor(vectors / 2.0)) * (1.0 / rec[R.lone_vector] - 1.0)
    return m / rows * n / (rec[R.lanes] * vectors)


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
        total += table[i, T.STORED] / ways * (rec[R.weight_bytes] if narrow else rec[R.wide_bytes])
        i += 1
    return total


@kernel
def _on_threads(threads, rec, out):
    """The record of a stream that uses so many of its threads; fills ``out``. Its memory stays where it lies."""
    out[:] = rec
    for field in BY_THREADS:
        out[field] *= threads / rec[R.threads]
    out[R.dram] = min(rec[R.dram], threads * rec[R.core_dram])
    out[R.barrier] = rec[R.barrier] * np.ceil(np.log2(threads))


@kernel
def price_ops(rows, table, flags, batch, length, context, ways, rec, out):
    """Price the ops ``rows`` of a pass for one stream; fills those of ``out`` (n_ops, WIDTH), layers and steps
    multiplied in.

    Where threads are fitted, each op runs on as many of the stream's as make it fastest: they are forked and joined
    along a tree, so a power of two or all of them is best. An op is done when the fewer threads of the next lower level
    take longer even without their barrier.
    """
    n = table.shape[0]
    part, found, done = np.empty(rec.shape[0]), np.empty((n, WIDTH)), np.zeros(n)
    threads = rec[R.threads]
    _on_threads(threads, rec, part)
    _price_ops(rows, table, flags, batch, length, context, ways, part, done, out)
    left = n if part[R.barrier] * rec[R.fit_threads] > 0.0 else 0
    while left > 0 and threads > 1.0:
        threads = 2.0 ** (np.ceil(np.log2(threads)) - 1.0)
        _on_threads(threads, rec, part)
        _price_ops(rows, table, flags, batch, length, context, ways, part, done, found)
        left = 0
        for j in rows:
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
def _price_ops(rows, table, flags, batch, length, context, ways, rec, done, out):
    """`price_ops` with all ops that are not ``done`` on the threads of a record."""
    # how much of what is read every pass stays in cache from one pass to the next
    cached = rec[R.private] + rec[R.shared]
    weight_near = _cycle_share(cached, rec[R.weights_total])
    weight_private = _cycle_share(rec[R.private], rec[R.weights_total])
    table_private = _share(rec[R.private], rec[R.tables_total])
    table_near = _share(cached, rec[R.tables_total])
    for j in rows:
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
        looked = _at(table, j, T.GATHER_ROWS, batch, length, context)
        steps = max(_at(table, j, T.STEPS, batch, length, context), 1e-30)
        stored = table[j, T.STORED]
        if stored > 0.0:
            weights = min(weights, stored)
        part_g, part_m, part_n, part_k, part_e = parts(table, j, n, ways)
        share = part_n * part_g * part_k * part_e
        flops *= share * part_m
        weights *= share
        state *= share
        looked *= share
        reads *= part_g * part_m * part_k * part_e
        writes *= part_n * part_g * part_m * part_e
        m *= part_m
        n *= part_n
        klass = table[j, T.CLASS]
        binary = flags[j, BINARY] > 0.0
        low = rec[R.quantised] > 0.0 and klass == T.CONTRACTION and table[j, T.QUANTISABLE] > 0.0 and stored > 0.0
        low = low and not binary
        inline = rec[R.fuse] > 0.0 and flags[j, INLINE] > 0.0
        narrow = rec[R.quantised] > 0.0 and rec[R.fuse_requantise] > 0.0 and flags[j, NARROW] > 0.0
        element = rec[R.weight_bytes] if narrow else rec[R.wide_bytes]
        extra_ops = 0.0

        # bytes of activations: what lies in caches, and what crosses levels (a line is fetched before it is written)
        stores = rec[R.write_allocate]
        if binary:
            size = (reads + writes) / 8.0
            moved = (reads + stores * writes) / 8.0
        elif low:
            size = reads * rec[R.weight_bytes]
            moved = size
            stored_wide = flags[j, QUANTISE] == STORED_NARROW and rec[R.fuse_requantise] == 0.0
            if flags[j, QUANTISE] == WIDE_INPUT or stored_wide:  # measured, scaled, rounded in a pass of its own
                size += reads * (rec[R.wide_bytes] + rec[R.weight_bytes])
                moved += reads * (rec[R.wide_bytes] + stores * rec[R.weight_bytes])
                extra_ops += 1.0
            size += writes * rec[R.weight_bytes]
            moved += stores * writes * rec[R.weight_bytes]
            if rec[R.fuse_requantise] == 0.0:  # 32-bit sums stored, read for their range, read again to requantise
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
        state_bytes = state * rec[R.wide_bytes]
        if klass == T.LOOKUP:
            size = writes * rec[R.wide_bytes]
            moved = stores * size
            weight_bytes = 0.0
        elif binary:
            weight_bytes = weights / 8.0
        elif low or (rec[R.quantised] == 0.0 and klass == T.CONTRACTION):
            weight_bytes = weights * rec[R.weight_bytes]
        else:
            weight_bytes = weights * rec[R.wide_bytes]

        # where they lie
        act_private = _cycle_share(rec[R.private], size)
        act_near = _cycle_share(rec[R.private] + rec[R.shared_share], size)
        kept_w, kept_private = weight_near, weight_private
        if steps > 1.0 and weight_bytes > 0.0:  # a step finds what the step before it read
            again = (steps - 1.0) / steps
            cell = _cell_bytes(table, j, batch, length, context, ways, rec)
            kept_w = max(kept_w, again * _cycle_share(cached, cell))
            kept_private = max(kept_private, again * _cycle_share(rec[R.private], cell))
        state_near = _cycle_share(rec[R.shared_share] + rec[R.private], state_bytes * table[j, T.LAYERS])
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
                roof = rec[R.binary_peak]
                busy = flops / (roof * rec[R.binary_efficiency])
            else:
                roof = rec[R.low_peak] if low or rec[R.quantised] == 0.0 else rec[R.wide_peak]
                useful = _conv_share(m, n, batch, flags[j, WINDOW], flags[j, CHANNELS], rec)
                tile = np.sqrt(max(m / batch, 1.0)) if flags[j, WINDOW] > 0.0 else THREAD_ROWS
                useful *= _thread_share(g, m, n, rec[R.threads], tile)
                useful *= _tile_share(m, n, flags[j, SLIDES], rec)
                reached = rec[R.conv_efficiency] if flags[j, CONVOLVES] > 0.0 else rec[R.gemm_efficiency]
                busy = flops / (roof * reached * useful)
                if low and rec[R.fuse_requantise] > 0.0:
                    busy += writes / rec[R.lanes] * rec[R.requantise_cycles] / (rec[R.clock] * rec[R.threads])
        else:
            roof = rec[R.wide_peak]
            busy = flops / rec[R.vector_rate] * (rec[R.pool_cycles] if flags[j, POOLS] > 0.0 else 1.0)
            busy += flags[j, SPECIAL] * writes * rec[R.special_cycles] / rec[R.lanes_rate]
            if table[j, T.KIND] == HASH:
                busy += writes * rec[R.hash_cycles] / (rec[R.clock] * rec[R.threads])
        if klass == T.LOOKUP and looked > 0.0:
            lines = np.ceil(table[j, T.ROW_ELEMENTS] * rec[R.wide_bytes] / LINE)
            waiting = (
                table_private * rec[R.private_latency]
                + (table_near - table_private) * rec[R.shared_latency]
                + (1.0 - table_near) * rec[R.dram_latency]
            )
            lookup = looked * lines * waiting / (rec[R.misses] * rec[R.threads])
            busy += looked * rec[R.row_cycles] / (rec[R.clock] * rec[R.threads])
            far = looked * lines * LINE * (1.0 - table_near)
            lookup = max(lookup, far / rec[R.dram])
            dram_a += far
            shared_a += looked * lines * LINE * (table_near - table_private)
            private_a += looked * lines * LINE * table_private
        if flags[j, HASHED] > 0.0:
            columns = table[j, T.GATHER_ROWS]
            if rec[R.fuse_gathers] == 0.0:
                extra_ops += columns - 1.0
            if rec[R.prune] == 0.0:
                extra_ops += columns * rec[R.dead_ops]
                busy += columns * rec[R.dead_ops] * batch * rec[R.dead_cycles] / (rec[R.clock] * rec[R.threads])

        # overlap: weights stream while the first row is multiplied; activations stream under the other rows
        far_w, far_a = dram_w / rec[R.dram], dram_a / rec[R.dram]
        near_w = shared_w / (rec[R.shared_rate] * rec[R.weight_stream]) + private_w / rec[R.private_rate]
        near_a = shared_a / rec[R.shared_rate] + private_a / rec[R.private_rate]
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
            again = max(np.ceil(n / (rec[R.lanes] * BLOCK_VECTORS)) - 1.0, 0.0) * reads * rec[R.wide_bytes]
            waited = (
                max(flags[j, SLIDES], flags[j, WINDOW])
                * rec[R.exposed]
                * (moved + again)
                * (act_near - act_private)
                / rec[R.shared_rate]
            )
            offchip = far_w + late * far_a
            onchip = near_w + max(late * near_a, waited)
        else:
            offchip, onchip = far_w + far_a, near_w + near_a
            compute = max(busy - offchip - onchip, 0.0)
        overhead = 0.0
        if not inline and flags[j, FREE] == 0.0:
            overhead = (1.0 + extra_ops) * rec[R.op_overhead] + rec[R.barrier]
            overhead += flags[j, SLIDES] * rec[R.window_overhead]
            if table[j, T.SEQUENTIAL] > 0.0:
                overhead += rec[R.step_overhead]
        runs = table[j, T.LAYERS] * steps
        if flags[j, PREPARED] > 0.0 and rec[R.preprocess_apart] > 0.0:
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
def price_points(lo, hi, rows, table, flags, ways, sizes, record, totals):
    """Times of the ops ``rows`` of a pass at the designs lo..hi: see `engine.devices.common.contract.Compiled`."""
    rec, out = np.empty(record.shape[0]), np.empty((table.shape[0], WIDTH))
    for point in range(lo, hi):
        for f in range(record.shape[0]):
            rec[f] = record[f, point]
        price_ops(rows, table, flags, sizes[0, point], sizes[1, point], sizes[2, point], ways, rec, out)
        for j in rows:
            for r in range(6):
                totals[r, point] += out[j, r]
