"""The CPU family's formulas: one compiled function over the flat table of a phase, eight designs side by side."""

from typing import Any

import numpy as np

from engine.devices.common.counts import SIZES, own_counts
from engine.devices.cpu.flags import FLOP_A_SCORE, GROUPED, STORED_NARROW, WIDE_INPUT, F
from engine.devices.cpu.share import (
    LINE,
    THREAD_ROWS,
    R,
    cell_bytes,
    conv_share,
    cycle_share,
    on_threads,
    random_share,
    thread_share,
    tile_share,
    tiled_gain,
)
from engine.devices.cpu.share import field_of as _of
from engine.devices.cpu.streams import OVERHEAD, ROOF, WIDTH, side_by_side, summed, wait_for_others
from engine.kernels.ir.doubles import (
    ALL,
    LANES,
    above,
    at_least,
    chosen,
    larger,
    load,
    loads,
    root,
    rounded_up,
    smaller,
    spread,
    store,
)
from engine.kernels.jit import kernel
from model_zoo import table as T

HASH = float(T.CODES["Hash"])
BLOCK_VECTORS = 4.0  # vectors of columns a register tile holds


@kernel
def _priced(rows, table, flags, size, ways, rec, room, out):
    """Price the ops ``rows`` of a pass for one stream of each of `LANES` designs; fills those of ``out``, flat
    (n_ops, WIDTH, LANES), layers and steps multiplied in.

    Where threads are fitted, each op runs on as many of the stream's as make it fastest: they are forked and joined
    along a tree, so a power of two or all of them is best. An op is done when the fewer threads of the next lower level
    take longer even without their barrier. ``priced`` of an op is the mask of the designs that are done with it.
    """
    part, tried, priced, threads = room
    store(threads, 0, _of(rec, R.threads))
    priced[:] = 0
    on_threads(threads, rec, part)
    _price_ops(rows, table, flags, size, ways, part, priced, out)
    left = above(_of(part, R.barrier) * _of(rec, R.fit_threads), 0.0) & above(load(threads, 0), 1.0)
    while left != 0:
        for lane in range(LANES):
            if left >> lane & 1:
                alone = np.floor(rec[R.cores * LANES + lane])  # threads, one a core
                fewer = 2.0 ** (np.ceil(np.log2(threads[lane])) - 1.0)
                threads[lane] = alone if alone < threads[lane] else fewer
        for j in rows:
            priced[j] |= ALL & ~left
        on_threads(threads, rec, part)
        _price_ops(rows, table, flags, size, ways, part, priced, tried)
        left = 0
        for j in rows:
            if priced[j] == ALL:
                continue
            best, time = summed(out, j, OVERHEAD + 1), summed(tried, j, OVERHEAD + 1)
            less = above(best, time) & ~priced[j]
            for r in range(WIDTH):
                at = (j * WIDTH + r) * LANES
                store(out, at, chosen(less, load(tried, at), load(out, at)))
            priced[j] |= at_least(summed(tried, j, OVERHEAD), best)
            left |= ALL & ~priced[j]
        left &= above(load(threads, 0), 1.0)
    if rec[R.inter_op * LANES] > 1.0:
        side_by_side(rows, flags, int(rec[R.inter_op * LANES]), out)
    if above(_of(rec, R.dram_streams) * _of(rec, R.inter_op), 1.0) != 0:
        wait_for_others(rows, rec, out)


@kernel
def _price_ops(rows, table, flags, size, ways, rec, priced, out):
    """`_priced` of the ops that some design is not ``priced`` for, on the threads of a record.

    Formats and switches are those of the first design.
    """
    batch = size[0]
    quantised, requantised = rec[R.quantised * LANES] > 0.0, rec[R.fuse_requantise * LANES] > 0.0
    private, shared_share = _of(rec, R.private), _of(rec, R.shared_share)
    weight_size, wide_size, stores = _of(rec, R.weight_bytes), _of(rec, R.wide_bytes), _of(rec, R.write_allocate)
    cycles = _of(rec, R.clock) * _of(rec, R.cores)
    # how much of what is read every pass stays in cache from one pass to the next
    cached = private + _of(rec, R.shared)
    weight_near = cycle_share(cached, _of(rec, R.weights_total))
    weight_private = cycle_share(private, _of(rec, R.weights_total))
    table_private = random_share(private, _of(rec, R.tables_total))
    table_near = random_share(cached, _of(rec, R.tables_total))
    for j in rows:
        if priced[j] == ALL:
            continue
        steps, flops, reads, writes, weights, state, kept, owned, g, m, n, _, looked = own_counts(table, j, size, ways)
        steps, state, stored = larger(steps, 1e-30), (state + kept) * owned, table[j, T.STORED]
        klass = table[j, T.CLASS]
        binary = flags[j, F.binary] > 0.0
        low = quantised and klass == T.CONTRACTION and table[j, T.QUANTISABLE] > 0.0 and stored > 0.0
        low = low and not binary
        inline = rec[R.fuse * LANES] > 0.0 and flags[j, F.inline] > 0.0
        narrow = quantised and requantised and flags[j, F.narrow] > 0.0
        element = weight_size if narrow else wide_size
        extra_ops, ranged = spread(0.0), spread(0.0)  # operators of their own, and the elements they quantise

        if flags[j, F.tiled] > 0.0:  # fewer multiplications of transformed tiles, by weights transformed beforehand
            gain = tiled_gain(m / batch, flags[j, F.channels], n, rec)
            flops /= gain
            weights *= chosen(above(gain, 1.0), _of(rec, R.winograd_weights), 1.0)

        # bytes of activations: what lies in caches, and what crosses levels (a line is fetched before it is written),
        # beside the product or in a pass of its own
        apart = spread(0.0)
        if binary:
            resident = (reads + writes) / 8.0
            moved = (reads + stores * writes) / 8.0
        elif low:
            resident, moved = reads * weight_size, reads * weight_size
            stored_wide = flags[j, F.quantise] == STORED_NARROW and not requantised
            if flags[j, F.quantise] == WIDE_INPUT or stored_wide:  # measured, scaled, rounded in a pass of its own
                resident += reads * (wide_size + weight_size)
                apart += reads * (wide_size + stores * weight_size)
                ranged += reads
                extra_ops += 1.0
            resident += writes * weight_size
            moved += stores * writes * weight_size
            if not requantised:  # 32-bit sums stored, read for their range, read again to requantise
                resident += writes * 4.0
                moved += stores * writes * 4.0
                apart += writes * (4.0 + 4.0)
                ranged += writes
                extra_ops += 2.0
        else:
            resident = (reads + writes) * element
            moved = (reads + stores * writes) * element
        if (
            klass == T.CONTRACTION and not binary and flags[j, F.tiled] == 0.0
        ):  # laid out for the product, read back by it
            apart += _of(rec, R.reordered) * reads * (wide_size if not low else weight_size)
        if not quantised and flags[j, F.loose] > 0.0:  # what follows it, where nothing fuses that
            loose = _of(rec, R.loose_grouped) if flags[j, F.loose] == GROUPED else _of(rec, R.loose_dense)
            extra_ops += loose
            apart += loose * (1.0 + stores) * writes * element
        if inline:
            resident = larger(reads - writes, 0.0) * element
            moved = resident
        if flags[j, F.free] > 0.0:
            moved = spread(0.0)
        state_bytes = state * wide_size
        if klass == T.LOOKUP:
            resident = writes * wide_size
            moved = stores * resident
            weight_bytes = spread(0.0)
        elif binary:
            weight_bytes = weights / 8.0
        elif low or (not quantised and klass == T.CONTRACTION):
            weight_bytes = weights * weight_size
        else:
            weight_bytes = weights * wide_size

        # where they lie
        act_private = cycle_share(private, resident)
        act_near = cycle_share(private + shared_share, resident)
        kept_w, kept_private = weight_near, weight_private
        reread = above(steps, 1.0) & above(weight_bytes, 0.0)
        if reread != 0:  # a step finds what the step before it read
            again = (steps - 1.0) / steps
            cell = cell_bytes(table, j, size, ways, reread, rec)
            kept_w = chosen(reread, larger(kept_w, again * cycle_share(cached, cell)), kept_w)
            kept_private = chosen(reread, larger(kept_private, again * cycle_share(private, cell)), kept_private)
        state_near = cycle_share(shared_share + private, state_bytes * table[j, T.LAYERS])
        dram_w = weight_bytes * (1.0 - kept_w) + state_bytes * (1.0 - state_near)
        dram_a = moved * (1.0 - act_near)
        dram_p, shared_p, private_p = apart * (1.0 - act_near), apart * (act_near - act_private), apart * act_private
        shared_w = weight_bytes * (kept_w - kept_private) + state_bytes * state_near
        private_w = weight_bytes * kept_private
        shared_a = moved * (act_near - act_private)
        private_a = moved * act_private

        # arithmetic
        lookup = spread(0.0)
        vector = _of(rec, R.lanes) * cycles
        quantising = ranged / vector * (_of(rec, R.range_cycles) + _of(rec, R.requantise_cycles))
        lanes = _of(rec, R.low_lanes) if low or not quantised else _of(rec, R.wide_lanes)
        if klass == T.CONTRACTION:
            if binary:
                roof = _of(rec, R.binary_peak)
                busy = flops / (roof * _of(rec, R.binary_efficiency))
            else:
                roof = _of(rec, R.low_peak) if low or not quantised else _of(rec, R.wide_peak)
                useful = conv_share(m, n, batch, flags[j, F.window], flags[j, F.channels], lanes, rec)
                tile = root(larger(m / batch, 1.0)) if flags[j, F.window] > 0.0 else spread(THREAD_ROWS)
                useful *= thread_share(g, m, n, larger(_of(rec, R.cores), 1.0), tile)
                useful *= tile_share(m, n, flags[j, F.slides], lanes, rec)
                convolves = flags[j, F.convolves] > 0.0
                if low or not quantised:
                    reached = _of(rec, R.low_conv) if convolves else _of(rec, R.low_gemm)
                else:
                    reached = _of(rec, R.wide_conv) if convolves else _of(rec, R.wide_gemm)
                busy = flops / (roof * reached * useful)
                busy += weights / vector * _of(rec, R.unpack_cycles)
                if low and requantised:
                    busy += writes / vector * _of(rec, R.requantise_cycles)
        else:
            roof = _of(rec, R.wide_peak)
            busy = flops / _of(rec, R.vector_rate)
            if flags[j, F.pools] > 0.0:
                busy *= _of(rec, R.pool_cycles)
            busy += flags[j, F.special] * writes * _of(rec, R.special_cycles) / _of(rec, R.lanes_rate)
            if flags[j, F.suppresses] > 0.0:
                busy += flops / FLOP_A_SCORE * _of(rec, R.score_cycles) / _of(rec, R.clock)
                extra_ops += flags[j, F.suppresses] * _of(rec, R.class_ops)
            busy += flags[j, F.powers] * writes * _of(rec, R.power_cycles) / _of(rec, R.clock)
            if table[j, T.KIND] == HASH:
                busy += writes * _of(rec, R.hash_cycles) / cycles
        if klass == T.LOOKUP:
            lines = rounded_up(table[j, T.ROW_ELEMENTS] * wide_size / LINE)
            waiting = (
                table_private * _of(rec, R.private_latency)
                + (table_near - table_private) * _of(rec, R.shared_latency)
                + (1.0 - table_near) * _of(rec, R.dram_latency)
            )
            lookup = looked * lines * waiting / (_of(rec, R.misses) * _of(rec, R.cores))
            busy += looked * _of(rec, R.row_cycles) / cycles
            far = looked * lines * LINE * (1.0 - table_near)
            lookup = larger(lookup, far / _of(rec, R.dram))
            dram_a += far
            shared_a += looked * lines * LINE * (table_near - table_private)
            private_a += looked * lines * LINE * table_private
        if flags[j, F.hashed] > 0.0:
            columns = table[j, T.GATHER_ROWS]
            if rec[R.fuse_gathers * LANES] == 0.0:
                extra_ops += columns - 1.0
            if rec[R.prune * LANES] == 0.0:
                extra_ops += columns * _of(rec, R.dead_ops)
                busy += columns * _of(rec, R.dead_ops) * batch * _of(rec, R.dead_cycles) / cycles

        # overlap: weights stream while the first row is multiplied; activations stream under the other rows
        far_w, far_a = dram_w / _of(rec, R.dram), dram_a / _of(rec, R.dram)
        shared_rate, private_rate = _of(rec, R.shared_rate), _of(rec, R.private_rate)
        near_w = shared_w / (shared_rate * _of(rec, R.weight_stream)) + private_w / private_rate
        near_a = shared_a / shared_rate + private_a / private_rate
        passing = far_a + near_a
        if klass == T.LOOKUP:
            stream = larger(lookup, passing)
            at_dram = chosen(above(far_a, 0.0), far_a / passing, 0.0)
            compute, offchip, onchip = busy, stream * at_dram, stream * (1.0 - at_dram)
        elif klass == T.CONTRACTION:
            # xor-and-count fills the issue slots that loads would need: nothing of it hides a wait
            first = spread(0.0) if binary else smaller(far_w + near_w, busy / larger(m, 1.0))
            compute = busy - first
            late = chosen(above(passing, 0.0), larger(1.0 - compute / passing, 0.0), 0.0)
            # rows are passed over for each block of columns; what of that comes from the shared cache is waited for
            again = larger(rounded_up(n / (lanes * BLOCK_VECTORS)) - 1.0, 0.0) * reads * wide_size
            waited = (
                max(flags[j, F.slides], flags[j, F.window])
                * _of(rec, R.exposed)
                * (moved + again)
                * (act_near - act_private)
                / shared_rate
            )
            far_p, near_p = dram_p / _of(rec, R.dram), shared_p / shared_rate + private_p / private_rate
            offchip = far_w + late * far_a + far_p
            onchip = near_w + larger(late * near_a, waited) + near_p
            compute += larger(quantising - far_p - near_p, 0.0)
        else:
            offchip, onchip = far_w + far_a, near_w + near_a
            compute = larger(busy - offchip - onchip, 0.0)
        siblings = 1.0 - _of(rec, R.cores) / _of(rec, R.threads)
        if above(siblings, 0.0) != 0:  # a thread waits while the other one of its core computes, but all lines pass
            waits = larger(offchip + onchip, 1e-30)
            passed = near_w + near_a + shared_p / shared_rate + private_p / private_rate
            least = smaller(far_w + far_a + dram_p / _of(rec, R.dram) + passed - compute, waits)
            left_over = larger(1.0 - 2.0 * siblings * compute / (compute + waits), least / waits)
            offchip *= left_over
            onchip *= left_over
        overhead = spread(0.0)
        if not inline and flags[j, F.free] == 0.0:
            # a library runs a recurrence in a call of its own: what issues it is paid once
            issued = _of(rec, R.op_overhead) + _of(rec, R.op_issue) / larger(steps, 1.0)
            overhead = (1.0 + extra_ops) * issued + _of(rec, R.barrier)
            overhead += flags[j, F.slides] * _of(rec, R.window_overhead)
            if table[j, T.SEQUENTIAL] > 0.0:
                overhead += _of(rec, R.step_overhead)
        runs = table[j, T.LAYERS] * steps
        if flags[j, F.prepared] > 0.0 and rec[R.preprocess_apart * LANES] > 0.0:
            runs = spread(0.0)
        at = j * WIDTH * LANES
        near, none = shared_w + private_w + shared_a + private_a + shared_p + private_p, spread(0.0)
        far, busy = dram_w + dram_a + dram_p, busy + quantising
        columns = compute, offchip, onchip, none, none, overhead, flops, roof, far, near, busy
        for r in range(WIDTH):
            store(out, at + r * LANES, columns[r] if r == ROOF else runs * columns[r])


@kernel
def _fill(lo, hi, rows, times, table, flags, ways, sizes, record, out, totals):
    """Adds the times of the ops ``rows`` at the designs lo..hi; ``out``, flat (n_ops, WIDTH, LANES), has the last's."""
    first, fields, values = record
    rec, sums, at_once = np.empty(first.shape[0] * LANES), np.empty(6 * LANES), np.empty(SIZES * LANES)
    room = np.empty(rec.shape), np.zeros(out.shape), np.empty(table.shape[0], np.int64), np.empty(LANES)
    for f in range(first.shape[0]):
        store(rec, f * LANES, spread(first[f]))
    for start in range(lo, hi, LANES):
        for lane in range(LANES):
            point = min(start + lane, hi - 1)  # the last design once more where there are fewer
            for i in range(fields.shape[0]):
                rec[fields[i] * LANES + lane] = values[i, point]
            for r in range(SIZES):
                at_once[r * LANES + lane] = sizes[r, point]
            for r in range(6):
                sums[r * LANES + lane] = totals[r, point]
        _priced(rows, table, flags, loads(at_once, 0, LANES, SIZES), ways, rec, room, out)
        for i in range(rows.shape[0]):
            for r in range(6):
                own = times[i] * load(out, (rows[i] * WIDTH + r) * LANES)
                store(sums, r * LANES, load(sums, r * LANES) + own)
        for lane in range(min(LANES, hi - start)):
            for r in range(6):
                totals[r, start + lane] = sums[r * LANES + lane]


def price_points(lo: int, hi: int, rows: np.ndarray, times: np.ndarray, table: np.ndarray, *designs: Any) -> np.ndarray:
    """Times of the ops ``rows`` of a pass at the designs lo..hi: see `engine.devices.common.contract.Compiled`. [s]

    Returns the columns above of every operator at the last design, shape (n_ops, WIDTH); those of ``rows`` are filled.
    [s], [FLOP], [B] An estimate.
    """
    out = np.zeros(table.shape[0] * WIDTH * LANES)
    *rest, totals = designs
    _fill(lo, hi, rows, times, table, *rest, out, totals)
    return out.reshape(-1, WIDTH, LANES)[:, :, 0]
