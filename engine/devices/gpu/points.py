"""Designs through the GPU's formulas, in blocks that have in common what a menu of tiles depends on. Estimates."""

import numpy as np

from engine.devices.common.counts import SIZES
from engine.devices.gpu.layout import FIELDS, STEADY, L
from engine.devices.gpu.operators import gemm
from engine.devices.gpu.operators.gemm import STRIDE
from engine.devices.gpu.price import WIDTH, price_ops
from engine.kernels.ir.doubles import LANES
from engine.kernels.jit import kernel


@kernel
def _upto(start, hi, steady, values, sizes):
    """Where designs end that have those fields in common with the one at ``start``, and whether their sizes too."""
    end, extend, uniform = start, True, True
    while extend:
        for r in range(SIZES):
            uniform &= sizes[r, start] == sizes[r, end]
        end += 1
        extend = end < hi and end - start < STRIDE
        for i in steady:
            extend = extend and values[i, start] == values[i, end]
    return end, uniform


@kernel
def _scatter(fields, values, start, end, places, block):
    """Puts fields of the designs start..end side by side, the last one's again on what places are left."""
    for i in range(fields.shape[0]):
        row, source = block[fields[i] * STRIDE :], values[i, start:end]
        for at in range(end - start):
            row[at] = source[at]
        for at in range(end - start, places):
            row[at] = source[end - start - 1]
    gemm.follow(block, L.machine, L.low, FIELDS, places)
    gemm.follow(block, L.machine, L.wide, FIELDS + gemm.RATES, places)


@kernel
def _take_in(start, end, places, designs, rec, here):
    """Puts what the designs start..end have in common, and their sizes, into ``rec`` and ``here``; whether the first
    differs in them from the first of the block before."""
    (steady, varying, values, sizes), differs = designs, False
    for i in steady:
        differs |= rec[varying[i]] != values[i, start]
        rec[varying[i]] = values[i, start]
    for r in range(SIZES):
        row = here[r * STRIDE :]
        differs |= row[0] != sizes[r, start]
        for at in range(places):
            row[at] = sizes[r, min(start + at, end - 1)]
    return differs


@kernel
def price_points(lo, hi, rows, times, table, ways, sizes, record, totals, out):
    """Adds the seconds of the ops ``rows``, so many ``times`` each, at the designs lo..hi: see `Compiled`.

    ``table`` is `flags.phase_table`, a record is as `layout.PARTS` has it. ``out`` (n_ops, WIDTH) keeps the detail of a
    design that is priced alone: seconds by resource, joules, work [FLOP], which roof it is held against, bytes off the
    chip and on it, executions multiplied in. An estimate.
    """
    first, varying, values = record
    steady = np.flatnonzero(STEADY[varying])
    rec, block, here = first.copy(), np.empty((FIELDS + 2 * gemm.RATES) * STRIDE), np.empty(SIZES * STRIDE)
    best, gain, sums = np.empty(gemm.RESULTS * LANES), np.zeros(WIDTH * LANES), np.empty(totals.shape[0] * STRIDE)
    guesses, counts = np.zeros(table.shape[0]), np.zeros(table.shape[0], np.int64)
    menus = np.empty((table.shape[0], gemm.WAYS, len(gemm.MENU)))
    wide, ends = np.empty((gemm.WAYS, len(gemm.MENU) * LANES)), np.empty((2, 2, gemm.RATES * LANES))
    search = menus, wide, counts, guesses, best, gemm.all_ways(), gemm.all_ways(), ends
    room = (block, gain, sums), search
    width = min(-(-(hi - lo) // LANES) * LANES, STRIDE)
    for f in range(FIELDS):
        block[f * STRIDE : f * STRIDE + width] = first[f]
    _scatter(varying, values, lo, lo + 1, width, block)
    start = lo
    while start < hi:
        end, uniform = _upto(start, hi, steady, values, sizes)
        count, places = end - start, -(-(end - start) // LANES) * LANES
        if len(varying):
            _scatter(varying, values, start, end, places, block)
        if _take_in(start, end, places, (steady, varying, values, sizes), rec, here):
            counts[:] = 0  # else the menus of the block before are as good
        sums[:], ends[:, 0, 0] = 0.0, np.nan  # nothing is known of the rates of this block
        price_ops(rows, times, table, ways, here, places, uniform, rec, room, out)
        for r in range(totals.shape[0]):
            into, source = totals[r, start:end], sums[r * STRIDE :]
            for i in range(count):
                into[i] += source[i]
        start = end
