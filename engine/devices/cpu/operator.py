"""Parts of an operator's time on a CPU: what it moves, where that lies, its arithmetic, and what of it overlaps.

Estimates, for `LANES` designs side by side; bytes and seconds are those of a step of a layer.
"""

from engine.devices.cpu.flags import FLOP_A_SCORE, STORED_NARROW, WIDE_INPUT, F
from engine.devices.cpu.share import (
    LINE,
    THREAD_ROWS,
    R,
    cell_bytes,
    conv_share,
    cycle_share,
    filter_share,
    random_share,
    thread_share,
    tile_share,
)
from engine.devices.cpu.share import field_of as _of
from engine.kernels.ir.doubles import LANES, above, chosen, larger, root, rounded_up, smaller, spread
from engine.kernels.jit import kernel
from model_zoo import table as T

HASH = float(T.CODES["Hash"])
BLOCK_VECTORS = 4.0  # vectors of columns a register tile holds


@kernel
def cycles_of(rec):
    """Cycles a second of a stream's cores together. [1/s]"""
    return _of(rec, R.clock) * _of(rec, R.cores)


@kernel
def activations(j, flags, reads, writes, low, narrow, rec):
    """Bytes of an operator's activations, and what quantising them takes where it is not part of another operator.

    Returns bytes that lie in caches, and bytes that cross levels: a line is fetched before it is written. [B]
    Then bytes of passes of their own [B], elements that these quantise, and operators of their own. [-]
    """
    stores, weight_size, wide_size = _of(rec, R.write_allocate), _of(rec, R.weight_bytes), _of(rec, R.wide_bytes)
    apart, scans, extra_ops = spread(0.0), spread(0.0), spread(0.0)
    if not low:
        element = weight_size if narrow else wide_size
        return (reads + writes) * element, (reads + stores * writes) * element, apart, scans, extra_ops
    requantises, measured = rec[R.fuse_requantise * LANES] > 0.0, 1.0 - _of(rec, R.static_scales)
    resident, flow = reads * weight_size, reads * weight_size
    stored_wide = flags[j, F.quantise] == STORED_NARROW and not requantises
    if flags[j, F.quantise] == WIDE_INPUT or stored_wide:  # measured, scaled, rounded in a pass of its own
        resident += reads * (wide_size + weight_size)
        apart += reads * (wide_size + stores * weight_size)
        scans += reads
        extra_ops += measured
    resident += writes * weight_size
    flow += stores * writes * weight_size
    if not requantises:  # 32-bit sums stored, read for their range unless that is known, read to requantise
        resident += writes * 4.0
        flow += stores * writes * 4.0
        apart += writes * (4.0 + 4.0 * measured)
        scans += writes
        extra_ops += 2.0 * measured
    return resident, flow, apart, scans, extra_ops


@kernel
def weights_kept(rec):
    """Parts of what is read every pass that all of a stream's caches, and its private ones, keep until the next. [-]"""
    private = _of(rec, R.private)
    total = _of(rec, R.weights_total)
    return cycle_share(private + _of(rec, R.shared), total), cycle_share(private, total)


@kernel
def weights_at(table, j, size, ways, steps, weight_bytes, state_bytes, resident, rec):
    """Bytes of weights and state from DRAM, shared and private caches, which keep what `weights_kept` says. [B]"""
    private = _of(rec, R.private)
    capacity, shared_share = private + _of(rec, R.shared), _of(rec, R.shared_share)
    near, nearest = resident
    reread = above(steps, 1.0) & above(weight_bytes, 0.0)
    if reread != 0:  # a step finds what the step before it read
        again = (steps - 1.0) / steps
        cell = cell_bytes(table, j, size, ways, reread, rec)
        near = chosen(reread, larger(near, again * cycle_share(capacity, cell)), near)
        nearest = chosen(reread, larger(nearest, again * cycle_share(private, cell)), nearest)
    state_near = cycle_share(shared_share + private, state_bytes * table[j, T.LAYERS])
    return (
        weight_bytes * (1.0 - near) + state_bytes * (1.0 - state_near),
        weight_bytes * (near - nearest) + state_bytes * state_near,
        weight_bytes * nearest,
    )


@kernel
def product_seconds(j, flags, batch, g, m, n, flops, weights, writes, low, rec):
    """Peak of a product's arithmetic [FLOP/s], and its time at what of that it reaches [s], with what is unpacked."""
    vector = _of(rec, R.lanes) * cycles_of(rec)
    quantised = rec[R.quantised * LANES] > 0.0
    plain = low or not quantised
    convolves = flags[j, F.convolves] > 0.0
    if plain:
        roof, lanes = _of(rec, R.low_peak), _of(rec, R.low_lanes)
        efficiency = _of(rec, R.low_conv) if convolves else _of(rec, R.low_gemm)
    else:
        roof, lanes = _of(rec, R.wide_peak), _of(rec, R.wide_lanes)
        efficiency = _of(rec, R.wide_conv) if convolves else _of(rec, R.wide_gemm)
    useful = conv_share(m, n, batch, flags[j, F.window], flags[j, F.channels], lanes, rec)
    threads = larger(_of(rec, R.cores), 1.0)
    if convolves and rec[R.task_filters * LANES] > 0.0:
        useful *= filter_share(g * n, threads, rec)
    else:
        tile = root(larger(m / batch, 1.0)) if flags[j, F.window] > 0.0 else spread(THREAD_ROWS)
        useful *= thread_share(g, m, n, threads, tile)
    useful *= tile_share(m, n, flags[j, F.slides], lanes, rec)
    busy = flops / (roof * efficiency * useful)
    busy += weights / vector * _of(rec, R.unpack_cycles)
    if low and rec[R.fuse_requantise * LANES] > 0.0:
        busy += writes / vector * _of(rec, R.requantise_cycles)
    return roof, busy


@kernel
def vector_seconds(j, table, flags, flops, writes, rec):
    """Time of arithmetic that is no product, in vectors and special functions. [s]"""
    busy = flops / _of(rec, R.vector_rate)
    if flags[j, F.pools] > 0.0:
        busy *= _of(rec, R.pool_cycles)
    busy += flags[j, F.special] * writes * _of(rec, R.special_cycles) / _of(rec, R.vector_rate)
    if flags[j, F.suppresses] > 0.0:
        busy += flops / FLOP_A_SCORE * _of(rec, R.score_cycles) / _of(rec, R.clock)
    busy += flags[j, F.powers] * writes * _of(rec, R.power_cycles) / _of(rec, R.clock)
    if table[j, T.KIND] == HASH:
        busy += writes * _of(rec, R.hash_cycles) / cycles_of(rec)
    return busy


@kernel
def lookup_lines(table, j, lookups, rec):
    """Seconds that rows of a table wait for, and bytes of them from DRAM, shared and private caches. [s], [B]"""
    private, total = _of(rec, R.private), _of(rec, R.tables_total)
    nearest, near = random_share(private, total), random_share(private + _of(rec, R.shared), total)
    lines = rounded_up(table[j, T.ROW_ELEMENTS] * _of(rec, R.wide_bytes) / LINE)
    waiting = (
        nearest * _of(rec, R.private_latency)
        + (near - nearest) * _of(rec, R.shared_latency)
        + (1.0 - near) * _of(rec, R.dram_latency)
    )
    seconds = lookups * lines * waiting / (_of(rec, R.misses) * _of(rec, R.cores))
    far = lookups * lines * LINE * (1.0 - near)
    seconds = larger(seconds, far / _of(rec, R.dram))
    return seconds, far, lookups * lines * LINE * (near - nearest), lookups * lines * LINE * nearest


@kernel
def product_overlap(m, busy, quantising, binary, far_w, near_w, far_a, near_a, far_p, near_p, stall):
    """Times in which a product computes, waits for DRAM, and waits for caches. [s]

    Weights stream while the first row is multiplied, activations under the other rows, and ``stall`` of them at least
    is not hidden; passes of their own (``_p``) hide what they quantise. Xor-and-count fills the issue slots that loads
    would need: nothing of it hides a wait.
    """
    passing = far_a + near_a
    first = spread(0.0) if binary else smaller(far_w + near_w, busy / larger(m, 1.0))
    compute = busy - first
    late = chosen(above(passing, 0.0), larger(1.0 - compute / passing, 0.0), 0.0)
    offchip = far_w + late * far_a + far_p
    onchip = near_w + larger(late * near_a, stall) + near_p
    compute += larger(quantising - far_p - near_p, 0.0)
    return compute, offchip, onchip


@kernel
def hidden_by_siblings(busy, compute, offchip, onchip, transfer, siblings):
    """Part of its waits that a thread keeps where another of its core computes meanwhile. [-]

    A core's units are ``busy`` for both threads, which is ``compute`` and what lies beneath waits already: the rest of
    the waits alone can be hidden. All lines pass all the same, in ``transfer``. [s]
    """
    waits = larger(offchip + onchip, 1e-30)
    idle = larger(compute + waits - busy, 1e-30)
    minimum = smaller(transfer - busy, idle)
    remainder = idle * larger(1.0 - 2.0 * siblings * busy / (busy + idle), minimum / idle)
    return chosen(above(siblings, 0.0), smaller(1.0, larger(busy + remainder - compute, 0.0) / waits), 1.0)
