"""What a CPU's caches hold, and what its threads, tiles and vectors reach of a product: shares of a peak. Estimates."""

import numpy as np

from engine.devices.common.counts import at as _at
from engine.devices.common.counts import places
from engine.kernels.ir.doubles import (
    LANES,
    above,
    at_least,
    chosen,
    larger,
    load,
    root,
    rounded_down,
    rounded_up,
    smaller,
    spread,
    store,
)
from engine.kernels.jit import kernel
from model_zoo import table as T

R = places(
    "threads cores inter_op low_peak wide_peak binary_peak vector_rate clock low_gemm low_conv wide_gemm "
    "wide_conv binary_efficiency short_row thin_input narrow_group lanes low_lanes wide_lanes special_cycles dram "
    "shared_rate private_rate private shared_share shared weights_total tables_total weight_bytes wide_bytes "
    "quantised private_latency shared_latency dram_latency misses row_cycles hash_cycles op_overhead op_issue barrier "
    "fuse fuse_requantise fuse_gathers prune preprocess_apart dead_ops dead_cycles write_allocate window_overhead "
    "tile_rows tile_columns lone_vector exposed weight_stream pool_cycles step_overhead requantise_cycles "
    "unpack_cycles range_cycles width_exponent core_dram dram_streams loose_grouped loose_dense fit_threads "
    "fork_thread score_cycles class_ops power_cycles winograd low_tiles winograd_weights winograd_transform reordered "
    "other_calls static_scales task_filters"
)
"""Where each number that a CPU supplies lies in a row; a sweep has a row for each design."""
BY_CORES = (
    R.cores,
    R.low_peak,
    R.wide_peak,
    R.binary_peak,
    R.vector_rate,
    R.shared_rate,
    R.private_rate,
    R.private,
)
"""Fields that are those of one core times the cores that threads fill."""
LINE = 64.0  # bytes of a cache line
THREAD_ROWS, THREAD_COLUMNS = 16.0, 64.0  # of a product's result that one thread takes: a few register tiles
_TILE_SIDE = 4.0  # pixels of a Winograd tile's side
TILE_PIXELS = _TILE_SIDE * _TILE_SIDE
_STREAMED_ROWS = 4.0  # up to here a product streams its weights past each row instead of filling tiles


@kernel
def field_of(rec, field):
    """A field of the designs' records."""
    return load(rec, field * LANES)


@kernel
def random_share(capacity, need):
    """Part of `need` bytes at random places that a cache of `capacity` holds. [-]"""
    return chosen(at_least(capacity, need), 1.0, capacity / need)


@kernel
def cycle_share(capacity, need):
    """Part of `need` bytes, passed over again and again in order, that is still in a cache of `capacity`. [-]

    All of it while it fits, none from twice the capacity on: a cache keeps what came last and a pass starts with
    what came first; real replacement policies are kinder than LRU, hence the ramp.
    """
    ramp = chosen(above(capacity, 0.0), larger(0.0, 2.0 - need / capacity), 0.0)
    return chosen(at_least(capacity, need), 1.0, ramp)


@kernel
def conv_share(m, n, batch, window, channels, lanes, rec):
    """What a convolution loses against a plain product: short rows of output, few input channels, small groups. [-]"""
    share = spread(1.0)
    if window > 0.0:
        row = root(larger(m / batch, 1.0))
        share = row / (row + field_of(rec, R.short_row))
        if channels < 4.0:
            share = chosen(above(n, 1.0), share * field_of(rec, R.thin_input), share)
        part = above(lanes, n)
        if part != 0:  # a vector filled in part is as fast as a unit of that width, which fills more easily
            fill = np.empty(LANES)
            store(fill, 0, n / lanes)
            for lane in range(LANES):
                fill[lane] **= 1.0 - rec[R.width_exponent * LANES + lane]
            share = chosen(part, share * larger(field_of(rec, R.narrow_group), load(fill, 0)), share)
    return share


@kernel
def tile_share(m, n, slides, lanes, rec):
    """Part of the register tiles that a product's rows and columns fill. [-]

    Rows are rounded up to whole tiles; few rows, or few columns, are no tile: one side streams past the other. Columns
    are rounded up to the packed panel, those of a convolution to whole vectors, where one left over shares its loads
    with no other.
    """
    high, panel = field_of(rec, R.tile_rows), field_of(rec, R.tile_columns)
    rows = rounded_up(m / high) * high
    if slides == 0.0:
        streamed = at_least(_STREAMED_ROWS, m) | at_least(lanes, n)
        return chosen(streamed, 1.0, m / rows * n / (rounded_up(n / panel) * panel))
    vectors = rounded_up(n / lanes)
    vectors += (vectors - 2.0 * rounded_down(vectors / 2.0)) * (1.0 / field_of(rec, R.lone_vector) - 1.0)
    return chosen(above(lanes, n), m / rows, m / rows * n / (lanes * vectors))  # `conv_share` has what groups lose


@kernel
def tiled_gain(pixels, channels, filters, rate, rec):
    """Multiplications of a 3 x 3 convolution over those of its transformed 4 x 4 tiles, their transforms beside. [-]

    The last tiles of a row and a column are filled up. A tile is transformed once for each channel and each filter,
    and multiplied for each pair of them, at a ``rate`` over that of windows: sums of INT8 pixels need 16 bits. No less
    than 1: the library multiplies windows where tiles are no faster.
    """
    side = root(larger(pixels, 1.0))
    fill = side / (rounded_up(side / _TILE_SIDE) * _TILE_SIDE)
    apart = 1.0 + field_of(rec, R.winograd_transform) * (1.0 / channels + 1.0 / larger(filters, 1.0))
    return larger(1.0, field_of(rec, R.winograd) * rate * fill * fill / apart)


@kernel
def thread_share(g, m, n, threads, rows):
    """Share of a stream's threads that a product keeps busy: whole tiles of its result are dealt out. [-]

    The thread with most to do sets the time. A ragged tile counts as a whole one there, or a row more, which makes
    another tile to deal out, would be faster. A tile of a convolution is a row of its output, which costs what
    `conv_share` says however short it is: tiles of several rows would make a longer row cheaper.
    """
    whole = g * m * n
    tiles = g * rounded_up(m / rows) * rounded_up(n / THREAD_COLUMNS)
    slowest = rounded_up(tiles / threads) * smaller(m, rows) * smaller(n, THREAD_COLUMNS)
    return chosen(above(whole, 0.0), whole / (smaller(whole, slowest) * threads), 1.0 / threads)


@kernel
def filter_share(filters, threads, rec):
    """The same of a convolution whose filters are dealt out, so many to a task, and each task takes all pixels. [-]"""
    task = field_of(rec, R.task_filters)
    slowest = smaller(rounded_up(rounded_up(filters / task) / threads) * task, filters)
    return filters / (slowest * threads)


@kernel
def cell_bytes(table, j, size, ways, mask, rec):
    """Weights that one step of op j's recurrence reads, all ops of the cell together, at designs of a mask. [B]

    A cell begins with the product that needs no step before it, its input's, and its steps take turns over all of it,
    or over what follows where one product has the inputs of all steps: what the next step finds in a cache is decided
    by the whole, not by one op of it.
    """
    first = j
    while first > 0 and table[first, T.SEQUENTIAL] > 0.0:
        first -= 1
    if rec[R.fuse * LANES] > 0.0 and table[first, T.SEQUENTIAL] == 0.0:
        first += 1
    total, i, inside = spread(0.0), first, mask
    while i < table.shape[0] and inside != 0:
        inside &= above(_at(table, i, T.STEPS, size[0], size[1], size[2]), 1.0)
        if i > first and table[i, T.STORED] > 0.0 and table[i, T.SEQUENTIAL] == 0.0:
            break
        narrow = table[i, T.CLASS] == T.CONTRACTION and table[i, T.QUANTISABLE] > 0.0
        weights = table[i, T.STORED] / ways * (field_of(rec, R.weight_bytes) if narrow else field_of(rec, R.wide_bytes))
        total = chosen(inside, total + weights, total)
        i += 1
    return total


@kernel
def on_threads(threads, rec, out):
    """The records of streams that use so many of their threads; fills ``out``. Their memory stays where it lies."""
    out[:] = rec
    active = load(threads, 0)
    cores = smaller(active, field_of(rec, R.cores))
    store(out, R.threads * LANES, field_of(out, R.threads) * (active / field_of(rec, R.threads)))
    for field in BY_CORES:
        store(out, field * LANES, field_of(out, field) * (cores / field_of(rec, R.cores)))
    store(out, R.dram * LANES, smaller(field_of(rec, R.dram), cores * field_of(rec, R.core_dram)))
    for lane in range(LANES):
        tree = rec[R.barrier * LANES + lane] * np.ceil(np.log2(threads[lane]))
        out[R.barrier * LANES + lane] = tree + rec[R.fork_thread * LANES + lane] * (threads[lane] - 1.0)
