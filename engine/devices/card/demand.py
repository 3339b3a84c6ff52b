"""What operators demand of a card of cores: work by unit, bytes by memory level, kernel starts, how they are cut up.

A product is cut over the cores in rows and columns and goes through a core in blocks (`engine.devices.card.tiling`),
which says how often its operands pass the shared cache and a core's SRAM. A demand depends on the mapping and on
capacities; `engine.devices.card.points` times and schedules it. Estimates.
"""

import numpy as np

from engine.devices.card import tiling
from engine.devices.card.embedding_bags import busiest
from engine.devices.card.tiling import TILE
from engine.devices.common.counts import at as _at
from engine.devices.common.counts import places
from engine.devices.common.counts import seen as _seen
from engine.kernels.jit import kernel
from model_zoo import table as T

# what an op is: columns of a traits array
UNIT, LANE_READ, LANE_WRITE, LANE_FLOP, COPIES, PASSES, RIDES, LOW, WINDOW, HOST, GROUP, WINDOWS = range(12)
TRAITS = WINDOWS + tiling.AXES * tiling.AXIS  # the last of them as in `tiling.WINDOWS`
MATRIX, DEPTHWISE, LANES, COPY, LOOKUP, NOTHING = range(6)  # values of UNIT
ON_HOST, HOST_MOVES, DECODER = 1.0, 2.0, 3.0  # values of HOST: arithmetic, what it moves too, a unit of its own

# what an op demands of the card for one execution: columns of a demand array
(
    MACS_LOW, MACS_WIDE, LANE_OPS, CYCLES, PORT, FAR, STARTS, PIECES, SKEW, RUNS, SEGMENT, WORK, ROOF, NEAR, HOST_OPS,
    SOLO, BEYOND, PIXELS, SRAM, CACHE, LINES,
) = range(21)  # fmt: skip
DEMANDS = 21

F = places(
    "cores ways low_bytes wide_bytes low_macs wide_macs lanes_low space split copy_rate pool_kernel pool_cycles "
    "density matrix_fill piece_elements sram_room keep room own_room aware single start list_cycles ranked barrier "
    "lanes_wide sram_byte search search_low_s search_wide_s search_sram_s search_cache_s search_far_s array_depth "
    "array_filters low_j wide_j lane_j core_j cache_j far_j far_line"
)
"""What the demand reads of a mapping: a record's fields; behind them so many of each operator that looks up, then the
supply."""
LOOKUPS = len(F)
ROW_CYCLES, MOST_CYCLES, SINGLE_ROW, LINE, BEYOND_SHARE, BEYOND_LINE, PER_LOOKUP = range(7)

LARGE_WINDOW = 49.0  # pixels: windows up to 7 x 7 had kernels of their own before


@kernel
def _fill(m, n, k, rows, filters, depth):
    """Share of the array's multipliers that a product of those sides keeps busy: partial tiles in each direction."""
    deep = k / (np.ceil(k / depth) * depth)
    wide = n / (np.ceil(n / filters) * filters)
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
        remainder = columns - (longest / high * pieces - whole) * np.floor(high / low)
        longest += low * np.ceil(max(remainder, 0.0) / pieces)
    return max(1.0, longest * pieces / (columns * np.ceil(m / rows) * rows))


@kernel
def _search(rec, low, effort, skew, side):
    """Completes what a search of tilings reads of a product, see `engine.devices.card.tiling.SIDES`."""
    even = skew / side[tiling.PIECES]
    side[tiling.WORK_S] = effort * (rec[F.search_low_s] if low else rec[F.search_wide_s]) * even
    side[tiling.SRAM_S] = rec[F.search_sram_s] * even
    side[tiling.CACHE_S], side[tiling.FAR_S] = rec[F.search_cache_s], rec[F.search_far_s]
    side[tiling.NEAR_J], side[tiling.FAR_J] = rec[F.cache_j] + rec[F.core_j], rec[F.far_j]
    work_j = effort * (rec[F.low_j] if low else rec[F.wide_j])
    side[tiling.FIXED_J] = work_j + side[tiling.FEED] * rec[F.core_j]


@kernel
def _twin(sides, j):
    """The first op whose product is that of op j in every number: j where none is before it."""
    for i in range(j):
        s = 0
        while s < sides.shape[1] and sides[i, s] == sides[j, s]:
            s += 1
        if s == sides.shape[1]:
            return i
    return j


@kernel
def _on_one(need, rec, passes, skew, pieces):
    """Whether an op that has no piece for every core ends sooner on one of them, which waits for no other."""
    work = need[MACS_LOW] / rec[F.low_macs] + need[MACS_WIDE] / rec[F.wide_macs] + need[LANE_OPS] / rec[F.lanes_wide]
    port = max(need[PORT] / (2.0 * rec[F.lanes_wide]), need[SRAM] * rec[F.sram_byte])
    cycles = max(work + need[CYCLES], port)
    return passes * rec[F.start] + cycles < passes * rec[F.barrier] + cycles * skew / pieces


@kernel
def _aside(traits, j):
    """Whether op j takes none of the cores: it rides along without arithmetic of its own, or is the host's."""
    return traits[j, HOST] > 0.0 or (traits[j, RIDES] > 0.0 and traits[j, LANE_READ] == 0.0)


@kernel
def _product(j, extents, operands, stay, traits, rec, ways, shard, low, sides):
    """Op j, a product, as tilings read it: fills its row of ``sides``. Returns pieces, skew and effort [MAC].

    ``extents`` are groups, rows, columns, depth, the products that rows choose among and FLOPs; ``operands`` [B] are
    what is read, weights, what is written, what the chip can't hold of activations, and whether it has weights;
    ``stay`` as in `demand_ops`.
    """
    g, m, n, k, experts, flops = extents
    a, b, c, spill, weighs = operands
    side, size = sides[j], rec[F.low_bytes] if low else rec[F.wide_bytes]
    n_own = np.ceil(n / ways) if shard == 1.0 else n
    g_own = np.ceil(g / ways) if shard == 2.0 else g
    k_own = np.ceil(k / ways) if shard == 3.0 else k
    macs = rec[F.low_macs] if low else rec[F.wide_macs]
    rows = max(1.0, np.floor(macs / (rec[F.array_depth] * rec[F.array_filters])))
    fill = _fill(m, n_own, k_own, rows, rec[F.array_filters], rec[F.array_depth])
    effort = (flops / 2.0) / (fill * rec[F.matrix_fill])
    columns = g_own * np.ceil(n_own / TILE)
    pieces = min(rec[F.cores], columns * np.ceil(m / TILE))
    skew = _skew(m, columns, pieces, rows)
    if rec[F.split] == 0.0:
        pieces = 1.0
    side[tiling.WEIGHTS], side[tiling.SPILLED] = b * (1.0 - stay[0, j]), spill
    comes = 1.0 - stay[1, j] if weighs else 1.0  # what does not lie in the cores themselves
    if not weighs:  # a product of activations: the second operand is among what it reads
        b = min(a, g_own * k_own * n_own * size)
        a -= b
    feed = g_own * size * (m * k_own * np.ceil(n_own / rec[F.array_filters]) + n_own * k_own * np.ceil(m / TILE))
    side[tiling.ROWS], side[tiling.COLUMNS], side[tiling.DEPTH] = m / experts, n_own, k_own
    side[tiling.GROUPS], side[tiling.A], side[tiling.B], side[tiling.C] = g_own * experts, a, b, c
    side[tiling.COMES], side[tiling.FEED], side[tiling.PIECES] = comes, feed, pieces
    side[tiling.SRAM], side[tiling.SPACE], side[tiling.DEEP] = rec[F.sram_room], rec[F.space], rec[F.array_depth]
    for axis in range(TRAITS - WINDOWS if traits[j, WINDOWS] > 0.0 else 0):
        side[tiling.WINDOWS + axis] = traits[j, WINDOWS + axis]
    if rec[F.search] > 0.0:
        _search(rec, low, effort, skew, side)
    return pieces, skew, effort


@kernel
def demand_ops(table, traits, bags, stay, sizes, rec, out, sides):
    """What each op asks of one card before products are tiled; fills ``out`` (n_ops, DEMANDS), and ``sides`` of those.

    An execution each. `tile` and then `cut_ops` complete it.

    Parameters
    ----------
    table : (n_ops, COLUMNS) of `model_zoo.table.lower`; traits : (n_ops, TRAITS).
    bags : (n_ops, 4) of lookups on the busiest card: cycles and kernel starts of its busiest core, lines it reads in
        LPDDR and bytes in the tier behind it.
    stay : (2, n_ops) share of each op's weights that lies on chip, and in the cores' own memories.
    sides : zeros at first: of one network every row is always the same operator's.
    """
    cores, ways, batch, length = rec[F.cores], rec[F.ways], sizes[0], sizes[1]
    for j in range(table.shape[0]):
        unit, context = traits[j, UNIT], _seen(table, j, sizes[2], sizes[3])
        shard, copies = table[j, T.SHARD], traits[j, COPIES]
        share = 1.0 if shard == 0.0 else 1.0 / ways
        low = traits[j, LOW] > 0.0
        size = rec[F.low_bytes] if low else rec[F.wide_bytes]
        g = max(1.0, _at(table, j, T.G, batch, length, context))
        n = _at(table, j, T.N, batch, length, context)
        k = _at(table, j, T.K, batch, length, context)
        flops = _at(table, j, T.FLOPS, batch, length, context) * share
        weights = _at(table, j, T.WEIGHTS, batch, length, context)
        if table[j, T.STORED] > 0.0:  # what many items choose is read once
            weights = min(weights, table[j, T.STORED])
        experts = max(1.0, np.floor(weights / max(g * n * k, 1.0)))  # each has rows and weights of its own
        weights *= share
        reads = _at(table, j, T.READS, batch, length, context) * (1.0 if shard == 1.0 else share)
        writes = _at(table, j, T.WRITES, batch, length, context) * (1.0 if shard == 3.0 else share)
        for c in range(DEMANDS):
            out[j, c] = 0.0
        out[j, RUNS] = table[j, T.LAYERS] * _at(table, j, T.STEPS, batch, length, context) / copies
        out[j, WORK] = flops * copies
        out[j, ROOF] = 2.0
        out[j, SEGMENT] = traits[j, GROUP]
        if _aside(traits, j):
            if traits[j, HOST] > 0.0 and (traits[j, RIDES] == 0.0 or traits[j, LANE_READ] > 0.0):
                out[j, ROOF] = 3.0
                moved = reads + writes if traits[j, HOST] == HOST_MOVES else 0.0
                out[j, PIXELS if traits[j, HOST] == DECODER else HOST_OPS] = flops + moved
            continue
        pieces, skew = cores, 1.0
        near = (reads + writes) * size * copies
        weight_bytes = weights * size * rec[F.density]
        spill = max(0.0, near - rec[F.space])
        far = weight_bytes * (1.0 - stay[0, j]) + spill
        if unit == MATRIX:
            extents = g, _at(table, j, T.M, batch, length, context), n, k, experts, flops
            operands = reads * size, weight_bytes, writes * size, spill, weights > 0.0
            pieces, skew, effort = _product(j, extents, operands, stay, traits, rec, ways, shard, low, sides)
            out[j, MACS_LOW if low else MACS_WIDE] = effort
            out[j, ROOF] = 0.0 if low else 1.0
        elif unit == DEPTHWISE:
            out[j, LANE_OPS] = flops / 2.0 / (rec[F.lanes_low] if low else 1.0)
            pieces = min(cores, g)
            skew = np.ceil(g / pieces) * pieces / g
        elif unit == LOOKUP:
            out[j, CYCLES], out[j, LINES], out[j, BEYOND] = bags[j, 0] * cores, bags[j, 2], bags[j, 3]
            out[j, SOLO], far = bags[j, 1] if traits[j, RIDES] == 0.0 else 0.0, spill
        else:
            elements = max(reads, writes) * copies
            pieces = min(cores, np.ceil(elements / rec[F.piece_elements]))
            if unit == COPY:
                out[j, CYCLES] = elements / rec[F.copy_rate]
            elif traits[j, WINDOW] > LARGE_WINDOW and rec[F.pool_kernel] == 0.0:
                out[j, CYCLES] = reads * rec[F.pool_cycles]
            else:
                out[j, LANE_OPS] = (
                    flops * traits[j, LANE_FLOP] + reads * traits[j, LANE_READ] + writes * traits[j, LANE_WRITE]
                )
        if unit != LOOKUP:
            near += weight_bytes
            if rec[F.split] == 0.0:
                pieces, skew = 1.0, 1.0
        if unit != MATRIX:
            out[j, PORT] = out[j, SRAM] = near
            out[j, CACHE] = near if unit == COPY else max(0.0, near - rec[F.sram_room] * cores)
        out[j, NEAR], out[j, FAR], out[j, PIECES], out[j, SKEW] = near, far, pieces, skew


@kernel
def tile(sides, rec, out, search):
    """Puts bytes that pass the cache and LPDDR of every product, of the tiling that its sizes suggest, or of the one
    that takes least time where the record asks for a ``search``; None: a search is not compiled."""
    for j in range(sides.shape[0]):
        if sides[j, tiling.PIECES] == 0.0:
            continue
        twin = _twin(sides, j)  # networks repeat their layers
        if twin < j:
            out[j, CACHE], out[j, FAR] = out[twin, CACHE], out[twin, FAR]
        elif search is not None and rec[F.search] > 0.0:
            out[j, CACHE], out[j, FAR] = tiling.fastest_traffic(sides[j])
        else:
            out[j, CACHE], again = tiling.by_size(sides[j])
            out[j, FAR] += again


@kernel
def cut_ops(table, traits, rec, sides, out):
    """Completes what `demand_ops` asks for once products are tiled: pieces, and the starts of their kernels."""
    cores = rec[F.cores]
    for j in range(table.shape[0]):
        if _aside(traits, j):
            continue
        unit, copies, pieces = traits[j, UNIT], traits[j, COPIES], out[j, PIECES]
        if unit == MATRIX:
            out[j, SRAM] = out[j, CACHE] + sides[j, tiling.FEED]
        alone = pieces < cores and unit != LOOKUP and traits[j, RIDES] == 0.0 and copies == 1.0
        if alone and _on_one(out[j], rec, traits[j, PASSES], out[j, SKEW], pieces):
            pieces, out[j, SKEW] = 1.0, 1.0
        out[j, PIECES] = max(1.0, pieces)
        if traits[j, RIDES] > 0.0 or unit == LOOKUP:  # a sum in a convolution's kernel has no start of its own
            continue
        if copies > 1.0:  # many small ones, dealt out over the cores
            share = 1.0 if table[j, T.SHARD] == 0.0 else 1.0 / rec[F.ways]
            out[j, SOLO] = np.ceil(copies * share / cores)
        elif out[j, PIECES] == 1.0:
            out[j, SOLO] = traits[j, PASSES]
        else:
            out[j, STARTS] = traits[j, PASSES]


@kernel
def _stay(tensor_bytes, copies, often, space, core_room, stay):
    """Share of each op's weights kept on chip, and in the cores' own memories; fills ``stay`` (2, n_ops).

    Whole tensors, most often read, then largest first; of ``space`` bytes the first ``core_room`` are the cores'.
    """
    order, n = np.empty(tensor_bytes.shape[0], np.int64), 0
    for j in range(tensor_bytes.shape[0]):
        if tensor_bytes[j] > 0.0:
            at = n
            while at > 0:
                before = order[at - 1]
                if often[before] > often[j] or (often[before] == often[j] and tensor_bytes[before] >= tensor_bytes[j]):
                    break
                order[at] = before
                at -= 1
            order[at] = j
            n += 1
    for j in order[:n]:
        resident = min(copies[j], np.floor(space / tensor_bytes[j]))
        local = min(resident * tensor_bytes[j], core_room)
        stay[0, j] = resident / copies[j]
        stay[1, j] = local / (tensor_bytes[j] * copies[j])
        space -= resident * tensor_bytes[j]
        core_room -= local


@kernel
def stay_ops(table, traits, length, rec, tensor_bytes, stay):
    """Bytes of an op's weights on one card (0 of tables that are looked up in), and what part stays on chip.

    Fills ``tensor_bytes`` [B], (n_ops,), and ``stay`` [-], (2, n_ops): on chip, and of that in the cores' own memories.
    """
    often = np.empty(table.shape[0])
    for j in range(table.shape[0]):
        size = (rec[F.low_bytes] if traits[j, LOW] > 0.0 else rec[F.wide_bytes]) * rec[F.density]
        share = 1.0 if table[j, T.SHARD] == 0.0 else 1.0 / rec[F.ways]
        tensor_bytes[j] = 0.0 if traits[j, UNIT] == LOOKUP else table[j, T.STORED] * size * share
        often[j] = table[j, T.STEPS] * (length if table[j, T.STEPS + 2] > 0.0 else 1.0)
        stay[0, j] = stay[1, j] = 0.0
    if rec[F.keep] > 0.0:
        _stay(tensor_bytes, table[:, T.LAYERS], often, rec[F.room], rec[F.own_room], stay)


@kernel
def look_up(table, lookups, lists, size, rec, bags):
    """Lookups of the busiest card and core: fills the rows of ``bags`` (n_ops, 4) that look up; see `demand_ops`."""
    batch, length, context = size[0], size[1], size[2]
    for i in range(lookups.shape[0]):
        j, fields = lookups[i, 0], rec[LOOKUPS + PER_LOOKUP * i : LOOKUPS + PER_LOOKUP * (i + 1)]
        if lookups[i, 1] == 0:
            share = 1.0 if table[j, T.SHARD] == 0.0 else 1.0 / rec[F.ways]
            read = _at(table, j, T.GATHER_ROWS, batch, length, context) * share * table[j, T.LAYERS]
            bags[j, 0], bags[j, 1] = np.ceil(read / rec[F.cores]) * fields[ROW_CYCLES], 1.0
            bags[j, 2], bags[j, 3] = read * fields[LINE], 0.0
            continue
        busiest(
            lists[:, lookups[i, 2] : lookups[i, 3]],
            int(rec[F.aware] * (1.0 + rec[F.ranked])),
            int(rec[F.ways]),
            int(rec[F.cores]),
            fields[MOST_CYCLES],
            fields[ROW_CYCLES],
            rec[F.list_cycles],
            fields[SINGLE_ROW],
            rec[F.single] > 0.0,
            rec[F.start],
            batch,
            bags[j],
        )
        bags[j, 3] = fields[BEYOND_SHARE] * bags[j, 2] * fields[BEYOND_LINE]
        bags[j, 2] *= (1.0 - fields[BEYOND_SHARE]) * fields[LINE]


@kernel
def ask(table, traits, lookups, lists, size, rec, out, sides, search):
    """What each op asks of one card, see `demand_ops`: lookups dealt out, and weights kept on chip, first.

    A row of ``lookups``: an op that looks up, whether it pools lists, and where those begin and end in ``lists`` (2,
    all of them), see `engine.devices.card.embedding_bags.busiest`. ``search`` is None where no design has its tilings
    searched: then a search is not compiled.
    """
    n = table.shape[0]
    bags, stay = np.zeros((n, 4)), np.zeros((2, n))
    if lookups.shape[0] > 0:
        look_up(table, lookups, lists, size, rec, bags)
    if rec[F.keep] > 0.0:
        stay_ops(table, traits, size[1], rec, np.empty(n), stay)
    demand_ops(table, traits, bags, stay, size, rec, out, sides)
    tile(sides, rec, out, search)
    cut_ops(table, traits, rec, sides, out)
