"""The CPU family's formulas: one compiled function over the flat table of a phase, eight designs side by side."""

from typing import Any

import numpy as np

from engine.devices.common.contract import OVERHEAD
from engine.devices.common.counts import SIZES, own_counts
from engine.devices.cpu.flags import GROUPED, F
from engine.devices.cpu.operator import (
    BLOCK_VECTORS,
    activations,
    cycles_of,
    hidden_by_siblings,
    lookup_lines,
    product_overlap,
    product_seconds,
    vector_seconds,
    weights_at,
    weights_kept,
)
from engine.devices.cpu.share import TILE_PIXELS, R, cycle_share, on_threads, tiled_gain
from engine.devices.cpu.share import field_of as _of
from engine.devices.cpu.streams import ROOF, WIDTH, row_sum, side_by_side, wait_for_others
from engine.kernels.ir.doubles import (
    FULL,
    LANES,
    above,
    at_least,
    chosen,
    larger,
    load,
    loads,
    rounded_up,
    spread,
    store,
)
from engine.kernels.jit import for_points, kernel
from model_zoo import table as T


@kernel
def _price_designs(rows, table, flags, size, ways, rec, room, out):
    """Price the ops ``rows`` of a pass for one stream of each of `LANES` designs; fills those of ``out``, flat
    (n_ops, WIDTH, LANES), layers and steps multiplied in.

    Where threads are fitted, each op runs on as many of the stream's as make it fastest: they are forked and joined
    along a tree, so a power of two or all of them is best. An op is done when the fewer threads of the next lower level
    take longer even without their barrier. ``final`` of an op is the mask of the designs that are done with it.
    """
    part, trial, final, threads = room
    store(threads, 0, _of(rec, R.threads))
    final[:] = 0
    on_threads(threads, rec, part)
    _price_ops(rows, table, flags, size, ways, part, final, out)
    active = above(_of(part, R.barrier) * _of(rec, R.fit_threads), 0.0) & above(load(threads, 0), 1.0)
    while active != 0:
        for lane in range(LANES):
            if active >> lane & 1:
                alone = np.floor(rec[R.cores * LANES + lane])  # threads, one a core
                fewer = 2.0 ** (np.ceil(np.log2(threads[lane])) - 1.0)
                threads[lane] = alone if alone < threads[lane] else fewer
        for j in rows:
            final[j] |= FULL & ~active
        on_threads(threads, rec, part)
        _price_ops(rows, table, flags, size, ways, part, final, trial)
        active = 0
        for j in rows:
            if final[j] == FULL:
                continue
            best, time = row_sum(out, j, OVERHEAD + 1), row_sum(trial, j, OVERHEAD + 1)
            faster = above(best, time) & ~final[j]
            for r in range(WIDTH):
                at = (j * WIDTH + r) * LANES
                store(out, at, chosen(faster, load(trial, at), load(out, at)))
            final[j] |= at_least(row_sum(trial, j, OVERHEAD), best)
            active |= FULL & ~final[j]
        active &= above(load(threads, 0), 1.0)
    if rec[R.inter_op * LANES] > 1.0:
        side_by_side(rows, flags, int(rec[R.inter_op * LANES]), out)
    if above(_of(rec, R.dram_streams) * _of(rec, R.inter_op), 1.0) != 0:
        wait_for_others(rows, rec, out)


@kernel
def _price_ops(rows, table, flags, size, ways, rec, final, out):
    """`_price_designs` of the ops that some design is not ``final`` for, on the threads of a record.

    Formats and switches are those of the first design.
    """
    batch = size[0]
    quantised = rec[R.quantised * LANES] > 0.0
    private, shared_share, stores = _of(rec, R.private), _of(rec, R.shared_share), _of(rec, R.write_allocate)
    weight_size, wide_size = _of(rec, R.weight_bytes), _of(rec, R.wide_bytes)
    cycles, none = cycles_of(rec), spread(0.0)
    shared_rate, private_rate, dram = _of(rec, R.shared_rate), _of(rec, R.private_rate), _of(rec, R.dram)
    kept_weights = weights_kept(rec)
    for j in rows:
        if final[j] == FULL:
            continue
        steps, flops, reads, writes, weights, state, adds, part, g, m, n, _, lookups = own_counts(table, j, size, ways)
        steps, state = larger(steps, 1e-30), (state + adds) * part
        if rec[R.fuse * LANES] > 0.0 and flags[j, F.hoists] > 0.0:  # every step's input is known: one product of all
            m, flops, reads, writes, steps = m * steps, flops * steps, reads * steps, writes * steps, spread(1.0)
        klass, product = table[j, T.CLASS], table[j, T.CLASS] == T.CONTRACTION
        binary = flags[j, F.binary] > 0.0
        low = quantised and product and table[j, T.QUANTISABLE] > 0.0 and table[j, T.STORED] > 0.0 and not binary
        inline = rec[R.fuse * LANES] > 0.0 and flags[j, F.inline] > 0.0
        narrow = quantised and rec[R.fuse_requantise * LANES] > 0.0 and flags[j, F.narrow] > 0.0
        element = weight_size if narrow else wide_size

        together = spread(1.0)  # pixels that weights stream past at once
        if flags[j, F.tiled] > 0.0:  # fewer multiplications of transformed tiles, by weights transformed beforehand
            rate, size_ratio = (_of(rec, R.low_tiles), 2.0) if low else (spread(1.0), 1.0)
            gain = tiled_gain(m / batch, flags[j, F.channels], n, rate, rec)
            flops /= gain
            together *= chosen(above(gain, 1.0), TILE_PIXELS, 1.0)
            weights *= chosen(above(gain, 1.0), _of(rec, R.winograd_weights) * size_ratio, 1.0)

        resident, flow, apart, scans, extra_ops = activations(j, flags, reads, writes, low, narrow, rec)
        if binary:
            resident, flow = (reads + writes) / 8.0, (reads + stores * writes) / 8.0
        elif product and flags[j, F.tiled] == 0.0:  # laid out for the product, read back by it
            apart += _of(rec, R.reordered) * reads * (wide_size if not low else weight_size)
        if not quantised and flags[j, F.loose] > 0.0:  # what follows it, where nothing fuses that
            loose = _of(rec, R.loose_grouped) if flags[j, F.loose] == GROUPED else _of(rec, R.loose_dense)
            extra_ops += loose
            apart += loose * (1.0 + stores) * writes * element
        if inline:
            resident = flow = larger(reads - writes, 0.0) * element
        if flags[j, F.free] > 0.0:
            flow = none
        if klass == T.LOOKUP:
            resident = writes * wide_size
            flow = stores * resident
            weight_bytes = none
        elif binary:
            weight_bytes = weights / 8.0
        else:
            weight_bytes = weights * (weight_size if low or (not quantised and product) else wide_size)

        # where they lie
        act_private, act_near = cycle_share(private, resident), cycle_share(private + shared_share, resident)
        dram_w, shared_w, private_w = weights_at(
            table, j, size, ways, steps, weight_bytes, state * wide_size, kept_weights, rec
        )
        dram_a, shared_a, private_a = flow * (1.0 - act_near), flow * (act_near - act_private), flow * act_private
        dram_p, shared_p, private_p = apart * (1.0 - act_near), apart * (act_near - act_private), apart * act_private

        # arithmetic
        lookup = none
        quantising = scans / (_of(rec, R.lanes) * cycles) * (_of(rec, R.range_cycles) + _of(rec, R.requantise_cycles))
        if product and binary:
            roof = _of(rec, R.binary_peak)
            busy = flops / (roof * _of(rec, R.binary_efficiency))
        elif product:
            roof, busy = product_seconds(j, flags, batch, g, m, n, flops, weights, writes, low, rec)
        else:
            roof, busy = _of(rec, R.wide_peak), vector_seconds(j, table, flags, flops, writes, rec)
            extra_ops += flags[j, F.suppresses] * _of(rec, R.class_ops)
        if klass == T.LOOKUP:
            lookup, far, shared_t, private_t = lookup_lines(table, j, lookups, rec)
            busy += lookups * _of(rec, R.row_cycles) / cycles
            dram_a, shared_a, private_a = dram_a + far, shared_a + shared_t, private_a + private_t
        if flags[j, F.hashed] > 0.0:
            columns = table[j, T.GATHER_ROWS]
            if rec[R.fuse_gathers * LANES] == 0.0:
                extra_ops += columns - 1.0
            if rec[R.prune * LANES] == 0.0:
                extra_ops += columns * _of(rec, R.dead_ops)
                busy += columns * _of(rec, R.dead_ops) * batch * _of(rec, R.dead_cycles) / cycles

        # overlap: weights stream while the first row is multiplied; activations stream under the other rows
        far_w, far_a, far_p = dram_w / dram, dram_a / dram, dram_p / dram
        near_w = shared_w / (shared_rate * _of(rec, R.weight_stream)) + private_w / private_rate
        near_a = shared_a / shared_rate + private_a / private_rate
        near_p = shared_p / shared_rate + private_p / private_rate
        if klass == T.LOOKUP:
            passing = far_a + near_a
            stream = larger(lookup, passing)
            at_dram = chosen(above(far_a, 0.0), far_a / passing, 0.0)
            compute, offchip, onchip = busy, stream * at_dram, stream * (1.0 - at_dram)
        elif product:
            # rows are passed over for each block of columns; what of that comes from the shared cache is waited for
            lanes = _of(rec, R.low_lanes) if low or not quantised else _of(rec, R.wide_lanes)
            again = larger(rounded_up(n / (lanes * BLOCK_VECTORS)) - 1.0, 0.0) * reads * wide_size
            exposure = max(flags[j, F.slides], flags[j, F.window]) * _of(rec, R.exposed)
            stall = exposure * (flow + again) * (act_near - act_private) / shared_rate
            compute, offchip, onchip = product_overlap(
                m / together, busy, quantising, binary, far_w, near_w, far_a, near_a, far_p, near_p, stall
            )
        else:
            offchip, onchip = far_w + far_a, near_w + near_a
            compute = larger(busy - offchip - onchip, 0.0)
        siblings = 1.0 - _of(rec, R.cores) / _of(rec, R.threads)
        if above(siblings, 0.0) != 0:
            transfer = far_w + far_a + far_p + (near_w + near_a + shared_p / shared_rate + private_p / private_rate)
            share = hidden_by_siblings(busy + quantising, compute, offchip, onchip, transfer, siblings)
            offchip, onchip = offchip * share, onchip * share
        overhead = none
        if not inline and flags[j, F.free] == 0.0:
            # a library runs a recurrence in a call of its own: what issues it is paid once
            issue = _of(rec, R.op_overhead) + _of(rec, R.op_issue) / larger(steps, 1.0)
            overhead = (1.0 + extra_ops) * issue + _of(rec, R.barrier)
            overhead += flags[j, F.slides] * _of(rec, R.window_overhead)
            if table[j, T.SEQUENTIAL] > 0.0:
                overhead += _of(rec, R.step_overhead)
        runs = table[j, T.LAYERS] * steps
        if flags[j, F.prepared] > 0.0 and rec[R.preprocess_apart * LANES] > 0.0:
            runs = none
        at = j * WIDTH * LANES
        near, far = shared_w + private_w + shared_a + private_a + shared_p + private_p, dram_w + dram_a + dram_p
        columns = compute, offchip, onchip, none, none, overhead, flops, roof, far, near, busy + quantising
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
        _price_designs(rows, table, flags, loads(at_once, 0, LANES, SIZES), ways, rec, room, out)
        for i in range(rows.shape[0]):
            for r in range(6):
                term = times[i] * load(out, (rows[i] * WIDTH + r) * LANES)
                store(sums, r * LANES, load(sums, r * LANES) + term)
        for lane in range(min(LANES, hi - start)):
            for r in range(6):
                totals[r, start + lane] = sums[r * LANES + lane]


def price_points(lo: int, hi: int, rows: np.ndarray, times: np.ndarray, table: np.ndarray, *designs: Any) -> np.ndarray:
    """Times of the ops ``rows`` of a pass at the designs lo..hi: see `engine.devices.common.contract.Compiled`. [s]

    Returns the columns above of every operator at the last design, shape (n_ops, WIDTH); those of ``rows`` are filled.
    [s], [FLOP], [B] An estimate.
    """
    out = np.zeros(table.shape[0] * WIDTH * LANES)
    *arguments, totals = designs
    for_points(_fill, hi - lo)(lo, hi, rows, times, table, *arguments, out, totals)
    return out.reshape(-1, WIDTH, LANES)[:, :, 0]
