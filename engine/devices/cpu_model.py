"""The CPU family's formulas and constants: one compiled function over the flat table of a phase."""

from __future__ import annotations

import numpy as np

from engine.devices.counts import at as _at
from engine.devices.family import Parameter, Switch
from engine.kernels.jit import kernel
from model_zoo import table as T
from model_zoo.ops import Op, Phase

FIELDS: tuple[str, ...] = (
    "threads", "low_peak", "wide_peak", "binary_peak", "vector_rate", "lanes_rate", "clock", "gemm_efficiency",
    "binary_efficiency", "short_row", "thin_input", "narrow_group", "lanes", "special_cycles", "dram", "shared_rate",
    "private_rate", "private", "shared_share", "shared", "weights_total", "tables_total", "weight_bytes", "wide_bytes",
    "quantised", "private_latency", "shared_latency", "dram_latency", "misses", "row_cycles", "hash_cycles",
    "op_overhead", "barrier", "fuse", "fuse_requantise", "fuse_gathers", "prune", "preprocess_apart", "dead_ops",
    "dead_cycles", "write_allocate", "window_overhead", "tile_rows", "tile_columns", "lone_vector", "exposed",
    "weight_stream", "pool_cycles", "step_overhead",
)  # fmt: skip
(
    THREADS, LOW_PEAK, WIDE_PEAK, BINARY_PEAK, VECTOR_RATE, LANES_RATE, CLOCK, GEMM_EFFICIENCY,
    BINARY_EFFICIENCY, SHORT_ROW, THIN_INPUT, NARROW_GROUP, LANES, SPECIAL_CYCLES, DRAM, SHARED_RATE,
    PRIVATE_RATE, PRIVATE, SHARED_SHARE, SHARED, WEIGHTS_TOTAL, TABLES_TOTAL, WEIGHT_BYTES, WIDE_BYTES,
    QUANTISED, PRIVATE_LATENCY, SHARED_LATENCY, DRAM_LATENCY, MISSES, ROW_CYCLES, HASH_CYCLES,
    OP_OVERHEAD, BARRIER, FUSE, FUSE_REQUANTISE, FUSE_GATHERS, PRUNE, PREPROCESS_APART, DEAD_OPS,
    DEAD_CYCLES, WRITE_ALLOCATE, WINDOW_OVERHEAD, TILE_ROWS, TILE_COLUMNS, LONE_VECTOR, EXPOSED,
    WEIGHT_STREAM, POOL_CYCLES, STEP_OVERHEAD,
) = range(49)  # fmt: skip

# columns of the result
COMPUTE, OFFCHIP, ONCHIP, LINKS, HOST, OVERHEAD, WORK, ROOF, MOVED, NEAR, BUSY = range(11)
WIDTH = 11

# columns of the flags
SPECIAL, INLINE, QUANTISE, PREPARED, BINARY, WINDOW, CHANNELS, HASHED, FREE, SLIDES, POOLS = range(11)
FLAGS = 11

LINE = 64.0  # bytes of a cache line
HASH = float(T.CODES["Hash"])
THREAD_ROWS, THREAD_COLUMNS = 16.0, 64.0  # of a product's result that one thread takes: a few register tiles

_SPECIAL = {"Softmax": 1.0, "Gelu": 1.0, "Silu": 1.0, "Swish": 1.0, "Sigmoid": 1.0, "Tanh": 1.0, "LRN": 3.0}
"""Transcendental functions an element costs: LRN raises to a power, an exponential of a product with a logarithm."""
_RIDES = frozenset(
    {"Relu", "Clip", "BatchNormalization", "Sign", "HardSwish", "Add", "Mul", "Sigmoid", "Swish", "Silu"}
)
"""Element-wise kinds a product can apply to its result before storing it."""
_NO_WORK = frozenset({"Reshape", "Split"})
"""Views of the same bytes."""
_POOLS = frozenset({"MaxPool", "AveragePool", "GlobalAveragePool"})
PANEL, PANEL_FILL = 64.0, 0.7  # columns of a packed panel, and the share of it that is worth a product
BLOCK_VECTORS = 4.0  # vectors of columns a register tile holds
STREAMED_ROWS = 4.0  # up to here a product streams its weights past each row instead of filling tiles


def flags_of(phase: Phase) -> np.ndarray:
    """What the table doesn't say, from the graph's edges and attributes; shape (n_ops, FLAGS)."""
    flags = np.zeros((len(phase.ops), FLAGS))
    by_name = {op.name: op for op in phase.ops}
    riding: set[str] = set()
    for row, op in zip(flags, phase.ops, strict=True):
        producers = [by_name[name] for name in op.inputs if name in by_name]
        produced = [p for p in producers if p.contraction or p.name in riding]
        row[SPECIAL] = _SPECIAL.get(op.kind, 0.0)
        if op.kind in _RIDES and produced and op.layers == produced[0].layers:
            row[INLINE] = 1.0
            riding.add(op.name)
        row[QUANTISE] = op.contraction and op.quantisable and op.stored > 0 and not produced
        row[PREPARED] = op.group == "preprocess"
        row[BINARY] = op.kind == "BinaryGemm"
        row[WINDOW] = op.kind == "Conv" and _attribute(op, "kernel", 1.0) > 1.0
        groups = max(_attribute(op, "groups", 1.0), 1.0)
        row[CHANNELS] = _attribute(op, "channels", 1e9) / groups if op.kind == "Conv" else 1e9
        row[HASHED] = op.kind == "Gather" and any(p.kind == "Hash" for p in producers)
        row[FREE] = op.kind in _NO_WORK
        row[POOLS] = op.kind in _POOLS
        row[SLIDES] = row[POOLS] or (op.kind == "Conv" and row[CHANNELS] > 1.0 and not _is_product(op))
    return flags


def _is_product(op: Op) -> bool:
    """Whether a convolution is a matrix product of its pixels: windows of one pixel, filters that fill panels."""
    if max(_attribute(op, name, 1.0) for name in ("kernel", "kernel_t", "stride", "stride_t", "groups")) > 1.0:
        return False
    filters = op.n.coef
    return filters > PANEL_FILL * np.ceil(filters / PANEL) * PANEL


def _attribute(op: Op, name: str, default: float) -> float:
    return next((value for key, value in op.attributes if key == name), default)


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
def _thread_share(g, m, n, threads):
    """Share of a stream's threads that a product keeps busy: whole tiles of its result are dealt out. [-]"""
    tiles = max(1.0, g * np.ceil(m / THREAD_ROWS) * np.ceil(n / THREAD_COLUMNS))
    return tiles / (np.ceil(tiles / threads) * threads)


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
def price_ops(table, flags, batch, length, context, ways, rec, out):
    """Price every op of a pass for one stream; fills ``out`` (n_ops, WIDTH), layers and steps multiplied in."""
    # how much of what is read every pass stays in cache from one pass to the next
    cached = rec[PRIVATE] + rec[SHARED]
    weight_near = _cycle_share(cached, rec[WEIGHTS_TOTAL])
    weight_private = _cycle_share(rec[PRIVATE], rec[WEIGHTS_TOTAL])
    table_private = _share(rec[PRIVATE], rec[TABLES_TOTAL])
    table_near = _share(cached, rec[TABLES_TOTAL])
    for j in range(table.shape[0]):
        shard = table[j, T.SHARD]
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
        part_n = np.ceil(n / ways) / n if shard == 1.0 and n > 0 else (1.0 / ways if shard == 1.0 else 1.0)
        part_g = np.ceil(g / ways) / g if shard == 2.0 and g > 0 else 1.0
        part_k = 1.0 / ways if shard == 3.0 else 1.0
        part_e = 1.0 / ways if shard == 4.0 else 1.0
        share = part_n * part_g * part_k * part_e
        flops *= share
        weights *= share
        state *= share
        rows *= share
        reads *= part_g * part_k * part_e
        writes *= part_n * part_g * part_e
        n *= part_n
        klass = table[j, T.CLASS]
        binary = flags[j, BINARY] > 0.0
        low = rec[QUANTISED] > 0.0 and klass == T.CONTRACTION and table[j, T.QUANTISABLE] > 0.0 and stored > 0.0
        low = low and not binary
        inline = rec[FUSE] > 0.0 and flags[j, INLINE] > 0.0
        extra_ops = 0.0

        # bytes of activations: what lies in caches, and what crosses levels (a line is fetched before it is written)
        stores = rec[WRITE_ALLOCATE]
        if binary:
            size = (reads + writes) / 8.0
            moved = (reads + stores * writes) / 8.0
        elif low:
            size = reads * rec[WEIGHT_BYTES]
            moved = size
            if flags[j, QUANTISE] > 0.0:  # its input is still wide: measured, scaled, rounded in a pass of its own
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
            size = (reads + writes) * rec[WIDE_BYTES]
            moved = (reads + stores * writes) * rec[WIDE_BYTES]
        if inline:
            size = max(reads - writes, 0.0) * rec[WIDE_BYTES]
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
                useful *= _thread_share(g, m, n, rec[THREADS])
                useful *= _tile_share(m, n, flags[j, SLIDES], rec)
                busy = flops / (roof * rec[GEMM_EFFICIENCY] * useful)
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


PARAMETERS: tuple[Parameter, ...] = (
    Parameter("gemm_efficiency", 0.5619, "1", "calibrated",
              "Share of the SIMD peak a product of matrices reaches on an AVX-512 core.", ("WD-010", "WD-011"),
              low=0.01, high=1.0),
    Parameter("sample_overhead", 11.89e-6, "s", "calibrated",
              "Core time of the framework for a sample, beside its operators.", ("WD-010", "WD-011")),
    Parameter("width_exponent", 0.368, "1", "calibrated",
              "Narrower SIMD units fill more easily: efficiency as (64 / FLOP a cycle) to this power.", ("5G-029",)),
    Parameter("efficiency_ceiling", 0.94, "1", "assumed", "Share of the peak that the best products reach.",
              low=0.01, high=1.0),
    Parameter("core_bandwidth", 12.2e9, "B/s", "calibrated",
              "DRAM bandwidth one core draws, where the part gives none.", ("5G-019",), low=1e-3),
    Parameter("binary_efficiency", 0.5205, "1", "calibrated",
              "Share of the population-count peak that xor, count and add reach from L1.", ("5G-045",),
              low=0.01, high=1.0),
    Parameter("handover_line", 339e-9, "s", "calibrated",
              "A cache line that another executor wrote, fetched by the part that reads it first.", ("5G-021",)),
    Parameter("issue_share", 0.8, "1", "calibrated", "Issue slots filled while arithmetic runs.", ("5G-016",),
              low=0.01, high=1.0),
    Parameter("short_row", 6.4, "1", "assumed",
              "A window convolution works w + this many pixels for w of an output row: padding, ragged tiles."),
    Parameter("thin_input", 0.52, "1", "assumed",
              "Share left to a window convolution with fewer than four input channels, the first of a network.",
              low=0.01, high=1.0),
    Parameter("narrow_group", 0.3, "1", "assumed", "Least share left to a grouped or depthwise convolution.",
              low=0.01, high=1.0),
    Parameter("tile_rows", 1.0, "1", "assumed",
              "Rows a register tile is filled up to; 1: what ragged tiles cost lies in the efficiency.", low=1.0),
    Parameter("tile_columns", 1.0, "1", "assumed", "Columns a product's packed panel is filled up to; 1: as above.",
              low=1.0),
    Parameter("lone_vector", 1.0, "1", "assumed",
              "Share left to a convolution's vector of columns without a second one beside it in a tile.",
              low=0.01, high=1.0),
    Parameter("exposed", 0.0, "1", "assumed",
              "Time a convolution waits for rows from the last-level cache, over the time they take to be read."),
    Parameter("weight_stream", 1.0, "1", "assumed",
              "Rate a matrix times a vector draws its weights from the last-level cache, over that of plain reading.",
              low=0.01),
    Parameter("pool_cycles", 1.0, "cycle", "assumed", "Cycles a vector of a pooling window takes for each element."),
    Parameter("special_cycles", 10.0, "cycle", "assumed", "Cycles of a vector of exponentials or their like."),
    Parameter("dram_efficiency", 0.8, "1", "assumed", "Share of the DRAM peak that streams of all cores reach.",
              low=0.01, high=1.0),
    Parameter("remote_share", 0.6, "1", "assumed", "Rate of DRAM behind another socket over that of the own one.",
              low=0.01, high=1.0),
    Parameter("shared_bytes_per_cycle", 12.0, "B/cycle", "assumed", "One core from the last-level cache.", low=1e-3),
    Parameter("private_bytes_per_cycle", 48.0, "B/cycle", "assumed", "One core from its own L2.", low=1e-3),
    Parameter("write_allocate", 2.0, "1", "published", "Bytes that cross a level for each byte stored.",
              source="write-allocate caches: a line is read before it is written (execution-cache-memory model)",
              low=1.0, high=3.0),
    Parameter("private_latency", 5e-9, "s", "assumed", "L2 hit, where the part gives none."),
    Parameter("shared_latency", 22e-9, "s", "assumed", "Last-level hit, where the part gives none."),
    Parameter("dram_latency", 90e-9, "s", "assumed", "DRAM access, where the part gives none."),
    Parameter("misses_in_flight", 10.0, "1", "published", "Line-fill buffers of a core.",
              source="Intel optimization manual: 10 L1 line-fill buffers since Nehalem", low=1e-3),
    Parameter("cold_page_misses", 4.0, "1", "assumed",
              "DRAM latencies a cold 4 KiB page costs: two levels of its walk, two lines ahead of the prefetcher."),
    Parameter("row_cycles", 60.0, "cycle", "assumed", "Instructions around the copy of a table row."),
    Parameter("hash_cycles", 300.0, "cycle", "assumed", "A string hashed to a bucket by the framework."),
    Parameter("op_overhead", 2e-6, "s", "assumed",
              "One operator issued by a graph executor; 1 in C++ to 5 under Python."),
    Parameter("window_overhead", 0.0, "s", "assumed",
              "Added for an operator that slides a window, whose geometry is worked out at every call."),
    Parameter("step_overhead", 0.0, "s", "assumed", "Added for an operator that continues the step before it."),
    Parameter("barrier", 1.4e-6, "s", "assumed",
              "Fork and join of the threads of a stream, times log2 of their number."),
    Parameter("dead_ops", 12.0, "1", "published", "Operators a hashed column carries in the graph as trained.",
              source="document 002, figure 2: emptiness checks, unique values and their reconstruction"),
    Parameter("dead_cycles", 20.0, "cycle", "assumed", "Cycles such an operator spends on a sample."),
    Parameter("host_path", 190e-6, "s", "published", "Request and answer through NIC, PCIe and network stack.",
              source="document 003, section 5.5"),
)  # fmt: skip

SWITCHES: tuple[Switch, ...] = (
    Switch("framework", "Framework", "A framework issues operators and handles samples; off: bare kernels."),
    Switch("fuse", "Fused activations", "Bias, normalisation and activation are applied before a product is stored."),
    Switch("fuse-requantise", "Fused requantise", "INT8 products store INT8; off: 32-bit sums, rescaled apart."),
    Switch("fuse-gathers", "Fused lookups", "All columns in one lookup; off: one operator for each column."),
    Switch("prune", "Dead operators removed", "Checks the data never needs are cut from the graph."),
    Switch("preprocess-apart", "Preprocessing apart", "Hashing and normalising run in a session of their own."),
    Switch("cold", "Cold caches", "Weights start in DRAM and their pages are not in the TLB.", False),
    Switch("network", "Network path", "A request arrives from another server through the host's network stack.", False),
)  # fmt: skip

ASSUMPTIONS: tuple[str, ...] = (
    "Streams share cores, last-level cache and DRAM bandwidth evenly; each runs the same network on its own batch.",
    "On several sockets a stream keeps to as few as hold its threads, its memory spread over those.",
    "Weights are streamed and packed while the first row is multiplied; the remaining rows run from cache.",
    "INT8 covers products with stored weights; lookups, normalisation and state stay wide. The zero point of the first "
    "layer's asymmetric inputs folds into its bias, so asymmetric and symmetric cost the same time.",
)
