"""The GPU family's formulas: one compiled function over the flat table of a phase, with the operator models inside.

Every operator is priced by the model its measured kind is priced by (`engine.devices.gpu.operators`): products over
their tiles and splits, attention as one kernel where it is fused, experts as grouped products, the rest as streams.
What a network adds: where weights and activations lie between its operators, who rides in whose kernel, and the host.
Estimates, for one device of a homogeneous group.
"""

import numpy as np

from engine.devices.common.contract import COMPUTE, HOST, LINKS, OFFCHIP, ONCHIP, OVERHEAD
from engine.devices.common.counts import SIZES, own_counts
from engine.devices.gpu import flags as R
from engine.devices.gpu.layout import FIELDS, L
from engine.devices.gpu.operators import attention, gemm, moe, slots, stream
from engine.devices.gpu.operators.gemm import STRIDE
from engine.devices.gpu.operators.terms import hit_share, left_share
from engine.kernels.ir.doubles import (
    FULL,
    LANES,
    above,
    alike,
    at_least,
    chosen,
    first_of,
    larger,
    load,
    loads,
    smaller,
    spread,
    store,
)
from engine.kernels.jit import kernel
from model_zoo import table as T

_MACHINE, _EXPERT, _TOKEN, _PROMPT = map(len, (slots.MACHINE, moe.FORMAT, attention.FORMAT, attention.PROMPT))

# an operator's share of one device, as `_count` has it: executions, FLOPs, elements by where they lie, of its state
# those it writes, extents, bytes of an activation
RUNS, FLOPS, READS, WRITES, WEIGHTS, STATE, KEPT, G, M, N, K, STEPS, ROWS, ACT = range(14)

# columns of the result, behind those of its time by resource; of `LANES` designs side by side, rows
DRAWN, WORK, RATE, MOVED, NEAR = range(OVERHEAD + 1, 11)
WIDTH = 11
LOW, WIDE, LANES_RATE = map(float, range(3))  # values of RATE: which peak the work is held against
_THIN = 8.0  # filters of a group below which a grouped convolution is no product
_SHORT = 8.0  # tokens of a sequence up to which its queries share a pass over the cache
_LATER, _SCORES, _ROUTED, _PASSING = range(4)  # kept for later, an attention, of experts, reads and writes once
_ROW_SPAN = 64.0  # bytes of a row of a table that go to waste, beside it in its DRAM bursts


@kernel
def _count(table, j, size, ways, rec):
    """What op j asks of one device of ``ways``, an execution: its numbers, or as many of `LANES` sizes."""
    steps, flops, reads, writes, weights, state, cache, part, g, m, n, k, rows = own_counts(table, j, size, ways)
    state_out = cache if table[j, R.ROLE] != R.SCORES else alike(cache, 0.0)
    act = alike(n, rec[L.act_bytes] if table[j, T.QUANTISABLE] > 0.0 else rec[L.wide_bytes])
    runs, state = table[j, T.LAYERS] * steps, (state + state_out) * part
    return runs, flops, reads, writes, weights, state, state_out * part, g, m, n, k, steps, rows, act


@kernel
def _spend(gain, runs, busy, term, start, launches, graph, issue):
    """Books the seconds of `LANES` designs: ``busy`` to what bounds it, ``start`` to launching, the host's being late.

    Fills the resources of ``gain`` (WIDTH * LANES).
    """
    took, chip = runs * busy, at_least(term, float(slots.AT_CHIP))
    power = at_least(term, float(slots.AT_POWER))  # the largest of what is booked
    arithmetic = power | at_least(float(slots.AT_COMPUTE), term)
    store(gain, COMPUTE * LANES, chosen(arithmetic, took, 0.0))
    store(gain, ONCHIP * LANES, chosen(chip & ~power, took, 0.0))
    store(gain, OFFCHIP * LANES, chosen(FULL & ~(arithmetic | chip), took, 0.0))
    store(gain, OVERHEAD * LANES, runs * start)
    late = alike(took, 0.0) if graph else larger(launches * issue - busy - start, 0.0)
    store(gain, HOST * LANES, runs * late)


@kernel
def _passes(gain, far, near):
    """Puts bytes off the chip and on it of `LANES` designs."""
    store(gain, MOVED * LANES, alike(load(gain, 0), far))
    store(gain, NEAR * LANES, alike(load(gain, 0), near))


@kernel
def _latent(form, group):
    """`attention.FORMAT` of a token whose rows are latent: every query head reads the same ones, in one kernel."""
    none, costs = 0.0 * group, form[attention.MOST_PARTS : attention.COPIED]
    return (*form[: attention.MOST_GROUP], group, none, none, *costs, none, none)


@kernel
def _attention(table, j, batch, length, context, q, rec, block, point, gain):
    """Books an attention as one kernel: its products, what is between them, its cache. Returns its FLOPs."""
    machine, causal, keys, queries = loads(block, point, STRIDE, _MACHINE), rec[L.causal] > 0.0, q[N], q[M]
    depth, values, like = q[K], table[j, R.VALUES], machine[0]
    kv_bytes = q[STATE] * (1.0 + table[j, R.CACHED]) * q[ACT]
    if table[j, T.M + 2] == 0.0:  # as many queries however long the pass: an image's
        length, causal = queries, False
    kv_heads = q[G] / batch
    heads = kv_heads * larger(queries / length, 1.0)
    cell = table[j, R.CACHE_BYTES] if table[j, R.CACHE_BYTES] > 0.0 else first_of(q[ACT])
    wide = cell >= 1.5 and table[j, T.STATE_READS] > 0.0  # a kernel follows its cache's format
    seconds, start, term = alike(like, 0.0), alike(like, 0.0), alike(like, 0.0)
    far, near, pairs = alike(like, 0.0), alike(like, 0.0), alike(like, 0.0)
    decode = above(kv_bytes, 0.0) & at_least(_SHORT, length)
    grows = causal and table[j, T.N + 3] > 0.0
    if decode:
        at, span = L.decode16 if wide else L.decode, larger(context, keys) if grows else keys
        form = loads(block, at * STRIDE + point, STRIDE, _TOKEN)
        if table[j, R.CACHED] == 0.0:
            form = _latent(form, alike(like, 1e9))
        row, pair = kv_bytes / (batch * keys * kv_heads * 2.0), 2.0 * (depth + values) * length
        seconds, start, term, _, _ = attention.decode(
            batch, keys, span, heads, kv_heads, row, pair, True, machine, form
        )
        far, pairs = alike(like, q[RUNS] * kv_bytes), alike(like, length * keys)
    if decode != FULL:
        window, whole = alike(keys, 0.0), keys
        if grows:
            whole = context
            window = chosen(above(context, keys), keys, window)
        wide = wide or not rec[L.least_head] <= first_of(depth) <= rec[L.most_head]
        form = loads(block, (L.prefill16 if wide else L.prefill) * STRIDE + point, STRIDE, _PROMPT)
        anew = table[j, T.ANEW] > 0.0
        prompt = attention.prefill(
            batch, length, whole, heads, kv_heads, depth, values, window, anew, causal, (False, False), machine, form
        )
        traffic = batch * length * heads * (depth + values) * q[ACT]
        kv_traffic = batch * keys * kv_heads * (depth + values) * q[ACT]
        traffic = chosen(above(kv_bytes, 0.0), traffic, traffic + kv_traffic)
        hit = hit_share(traffic, 2.0 * machine[slots.L2])
        near = chosen(decode, near, q[RUNS] * traffic * hit)
        far = chosen(decode, far, q[RUNS] * (traffic * (1.0 - hit) + kv_bytes))
        pairs = chosen(decode, pairs, attention.seen_by(length, whole, window, anew, causal))
        seconds = chosen(decode, seconds, prompt[0])
        start, term = chosen(decode, start, prompt[1]), chosen(decode, term, prompt[2])
    _passes(gain, far, near)
    start = smaller(start, seconds)
    term = chosen(above(float(slots.AT_COMPUTE), term), float(slots.AT_MEMORY), term)
    _spend(gain, q[RUNS], seconds - start, term, start, 1.0, rec[L.graph] > 0.0, load(block, L.issue * STRIDE + point))
    return q[RUNS] * 2.0 * q[G] * queries / length * pairs * (depth + values)


@kernel
def _append(q, bus, issue, graph, gain):
    """Books what is kept for later by an operator that another's kernel does, or its neighbours: written, at once."""
    traffic = q[STATE] * q[ACT]
    _passes(gain, q[RUNS] * traffic, 0.0)
    _spend(gain, q[RUNS], traffic / bus, spread(float(slots.AT_MEMORY)), spread(0.0), 0.0, graph, issue)


@kernel
def _experts(table, j, q, rec, block, point, gain):
    """Books a product of experts, its picking or its joining: parts of a routed block as it was measured."""
    machine, form = loads(block, point, STRIDE, _MACHINE), loads(block, L.experts * STRIDE + point, STRIDE, _EXPERT)
    runs, role, like = q[RUNS], table[j, R.ROLE], machine[0]
    rows, far = (q[READS] + q[WRITES]) * q[ACT], alike(like, 0.0)
    near = alike(like, runs * rows)
    seconds, term, start, launches = alike(like, 0.0), alike(like, float(slots.AT_CHIP)), alike(like, 0.0), 1.0
    if role == R.COMBINE:
        traffic = (q[READS] + 2.0 * q[WRITES]) * 2.0 * form[moe.PASSES]  # and the experts' inputs, once as the results
        hit = hit_share(traffic, 2.0 * machine[slots.L2])
        dram = traffic * (1.0 - hit) / (machine[slots.BANDWIDTH] * machine[slots.DRAM_SHARE])
        seconds = dram + traffic * hit / (machine[slots.UNITS] * machine[slots.FEED])
        misses = smaller(rows, traffic) * (1.0 - hit)  # a kernel that passes fewer finds the rest on the chip
        far, near, lanes = runs * misses, runs * (rows - misses), q[FLOPS] * load(block, L.lanes_s * STRIDE + point)
        term = chosen(above(lanes, seconds), alike(like, float(slots.AT_COMPUTE)), float(slots.AT_MEMORY))
        seconds, start, launches = larger(seconds, lanes), form[moe.START], 3.0
    elif role != R.ROUTER:
        tokens, active, per_expert = q[M] / table[j, R.TOPK], np.empty(LANES), np.empty(LANES)
        store(active, 0, tokens)
        for lane in range(LANES):
            active[lane] = moe.met_experts(active[lane], table[j, R.TOPK], table[j, R.EXPERTS])
        store(per_expert, 0, tokens * table[j, R.TOPK] / load(active, 0))
        seconds, term = moe.grouped_seconds(1, active, per_expert, q[N], q[K], 0.0, machine, form)
        term = chosen(above(float(slots.AT_COMPUTE), term), float(slots.AT_MEMORY), term)
        far = runs * load(active, 0) * q[N] * q[K] * form[moe.WEIGHT_BYTES]
        start = 0.5 * moe.sort_seconds(tokens, form)  # of two
    _passes(gain, far, near)
    _spend(gain, runs, seconds, term, start, launches, rec[L.graph] > 0.0, load(block, L.issue * STRIDE + point))


@kernel
def _layout(table, j, q, rec):
    """Where a product's operands lie: executions, rows, bytes in, read, passing and missed, share of weights held."""
    at, room = L.low if table[j, T.QUANTISABLE] > 0.0 else L.wide, rec[slots.L2_SHARE] * rec[slots.L2]
    m, runs, again, inside, output = q[M], q[RUNS], q[STEPS], q[READS] * q[ACT], q[WRITES] * q[ACT]
    if rec[L.fuse] > 0.0 and table[j, R.HOISTS] > 0.0:  # every step's input is known: one product of them all
        m, inside, output, runs, again = m * again, inside * again, output * again, runs / again, alike(again, 1.0)
    weights, state = q[WEIGHTS] * rec[at + gemm.WEIGHT_BYTES], (q[STATE] - q[KEPT]) * q[ACT]
    read = weights + state
    step = (1.0 - 1.0 / again) * hit_share(read, room)  # a step finds what the step before it read
    hit = weights * larger(step, hit_share(rec[L.held], room)) + state * step  # and a pass weights, but no state
    hit = chosen(above(read, 0.0), hit / read, 0.0)
    stays = weights + output  # a cache of keys and values streams past, evicted first
    misses = inside * (1.0 - left_share(inside, stays, room)) + output * (1.0 - left_share(output, output, room))
    misses = misses + q[KEPT] * q[ACT]  # what it keeps for later streams out
    return runs, m, inside, read, inside + read + output + q[KEPT] * q[ACT], misses, hit


@kernel
def _products(table, j, times, q, launches, places, mask, rec, room, search, out):
    """Books a matrix product: where its operands lie, the fastest tile, what quantising its input takes."""
    (block, gain, sums), (menus, wide, counts, guesses, best, every_way, ways, ends) = room, search
    first, upto, uniform = places
    common = upto > first + LANES  # else there are too few designs for what many of them have in common
    at, row = (L.low, FIELDS) if table[j, T.QUANTISABLE] > 0.0 else (L.wide, FIELDS + gemm.RATES)
    runs, m, inside, read, passing, misses, hit = _layout(table, j, q, rec)
    flops, machine, form = 2.0 * q[G] * m * q[N] * q[K], rec[L.machine : L.low], rec[at : at + L.wide - L.low]
    count, menu = counts[j], menus[j]
    if not uniform:
        count = gemm.menu_of(q[G], m, q[N], q[K], inside, read, misses, hit, machine, form, wide)
    elif count == 0:
        extents, share = (first_of(q[G]), first_of(m), first_of(q[N]), first_of(q[K])), first_of(hit)
        count = gemm.menu_of(*extents, first_of(inside), first_of(read), first_of(misses), share, machine, form, menu)
        count = counts[j] = gemm.thin(menu, count) if common else count
    some_ways = every_way
    if common:
        span = ends[0] if at == L.low else ends[1]
        if np.isnan(span[0, 0]):
            gemm.spans(block, upto, row, span)
        bits, guess = (1 << -(-upto // gemm.SPAN)) - 1, min(int(guesses[j]), count - 1)
        count, some_ways = gemm.in_question(menu, count, first_of(flops), span, bits, guess, ways), ways
    for point in range(first, upto, LANES):
        bit = 1 << point // gemm.SPAN if common else FULL
        if uniform:
            way = gemm.best_of(menu, count, first_of(flops), block, point, row, some_ways, bit, best)
        else:
            way = gemm.best_of(wide, count, flops, block, point, row, some_ways, bit, best)
        start = load(best, gemm.REST_S * LANES) + load(block, slots.START * STRIDE + point)
        if above(q[WEIGHTS], 0.0):
            quantise_s = 2.0 * q[READS] * m / q[M] * load(block, (at + gemm.QUANTISE_BYTE_S) * STRIDE + point)
            start = start + (load(block, (at + gemm.QUANTISE_S) * STRIDE + point) + quantise_s)
        far = load(best, gemm.MISSED * LANES)
        _passes(gain, runs * far, runs * larger(passing - far, 0.0))
        busy, term = load(best, gemm.BUSY_S * LANES), load(best, gemm.LARGEST * LANES)
        issue = load(block, L.issue * STRIDE + point)
        _spend(gain, runs, busy, term, start, launches, rec[L.graph] > 0.0, issue)
        _tally(gain, mask, q[RUNS] * q[FLOPS], times, block, out, j, point, sums)
        guesses[j] = way


@kernel
def _riding(q, rec, bus, lanes_s, issue, gain):
    """Books what rides in a product's kernel: its own arithmetic, and what else it reads; results pass in any case."""
    traffic, room = larger(q[READS] - q[WRITES], 0.0) * q[ACT], rec[slots.L2_SHARE] * rec[slots.L2]
    near = left_share(traffic, q[WRITES] * q[ACT], room)
    _passes(gain, q[RUNS] * traffic * (1.0 - near), q[RUNS] * traffic * near)
    far, lanes = traffic * (1.0 - near) / bus, q[FLOPS] * lanes_s
    term = chosen(above(lanes, far), spread(float(slots.AT_COMPUTE)), float(slots.AT_MEMORY))
    _spend(gain, q[RUNS], larger(far, lanes), term, spread(0.0), 0.0, rec[L.graph] > 0.0, issue)


@kernel
def _stream(table, j, q, launches, rec, block, point, gain):
    """Books an operator that reads and writes once; rows of tables that lie anywhere fill whole bursts."""
    klass, runs, tables = table[j, T.CLASS], q[RUNS], 1.0
    at = L.lookup if klass == T.LOOKUP else L.norm if klass == T.REDUCTION else L.point
    weight_bytes = rec[(L.low if table[j, T.QUANTISABLE] > 0.0 else L.wide) + gemm.WEIGHT_BYTES]
    traffic = (q[READS] + q[WRITES] + q[STATE]) * q[ACT] + q[WEIGHTS] * weight_bytes
    near, waste = hit_share(traffic, 2.0 * rec[slots.L2_SHARE] * rec[slots.L2]), alike(traffic, 0.0)
    if klass == T.LOOKUP:
        near, waste = alike(traffic, 0.0), q[ROWS] * _ROW_SPAN
        if rec[L.fuse] > 0.0:  # alike tables are one call's
            tables = table[j, R.TABLES]
    first = load(block, (at + stream.START) * STRIDE + point)
    bandwidth, units = load(block, slots.BANDWIDTH * STRIDE + point), load(block, slots.UNITS * STRIDE + point)
    share, rate = load(block, (at + stream.SHARE) * STRIDE + point), load(block, (at + stream.RATE) * STRIDE + point)
    total = (traffic + waste) * tables
    dram, chip = stream.terms_of(total, rec[slots.L2], rec[slots.L2_SHARE], bandwidth, units, share, rate)
    seconds = larger(larger(dram, chip) + first, stream.bound_of(total, rec[slots.L2], bandwidth))
    bus = load(block, FIELDS * STRIDE + point)
    busy = larger(seconds - first, (traffic * (1.0 - near) + waste) * tables / bus)
    on_chip = above(larger(dram, chip), first) & above(chip, dram)
    term = chosen(on_chip, spread(float(slots.AT_CHIP)), float(slots.AT_MEMORY))
    lanes = q[FLOPS] * tables * load(block, L.lanes_s * STRIDE + point)
    term = chosen(above(lanes, busy), float(slots.AT_COMPUTE), term)
    _passes(gain, runs * (traffic * (1.0 - near) + waste), runs * traffic * near)
    issue, start = load(block, L.issue * STRIDE + point), first * launches
    _spend(gain, runs / tables, larger(busy, lanes), term, start, launches, rec[L.graph] > 0.0, issue)


@kernel
def _tally(gain, mask, work, times, block, out, j, point, sums):
    """Adds what the designs ``mask`` of `LANES` spend on so many operators to ``sums``; keeps the detail of
    the one at place 0."""
    work = alike(load(gain, 0), work)
    store(gain, WORK * LANES, work)
    flop_j = L.low_j if out[j, RATE] == LOW else L.wide_j if out[j, RATE] == WIDE else L.lanes_j
    joules = work * load(block, flop_j * STRIDE + point)
    joules = joules + load(gain, MOVED * LANES) * load(block, L.far_j * STRIDE + point)
    joules = joules + load(gain, NEAR * LANES) * load(block, L.near_j * STRIDE + point)
    store(gain, DRAWN * LANES, joules)
    for r in range(sums.shape[0] // STRIDE):
        at = r * STRIDE + point
        if r != LINKS:  # operators send nothing
            store(sums, at, load(sums, at) + times * chosen(mask, load(gain, r * LANES), 0.0))
    for r in range(WIDTH if point == 0 and mask & 1 else 0):
        if r != RATE:
            out[j, r] = gain[r * LANES]


@kernel
def _together(table, j, times, q, size, launches, kind, places, mask, rec, room, out):
    """Books what is kept for later, an attention, what experts do, or what reads and writes once, alone or riding."""
    (block, gain, sums), (first, upto, _) = room, places
    for point in range(first, upto, LANES):
        bus, issue = load(block, FIELDS * STRIDE + point), load(block, L.issue * STRIDE + point)
        work = alike(bus, q[RUNS] * q[FLOPS])
        if kind == _LATER:
            work = alike(bus, 0.0)
            _append(q, bus, issue, rec[L.graph] > 0.0, gain)
        elif kind == _ROUTED:
            _experts(table, j, q, rec, block, point, gain)
        elif kind == _SCORES:
            work = _attention(table, j, size[0], size[1], size[2], q, rec, block, point, gain)
        elif rec[L.fuse] > 0.0 and table[j, R.RIDES] > 0.0:
            _riding(q, rec, bus, load(block, L.lanes_s * STRIDE + point), issue, gain)
        else:
            _stream(table, j, q, launches, rec, block, point, gain)
        _tally(gain, mask, work, times, block, out, j, point, sums)


@kernel
def price_ops(rows, times, table, ways, sizes, upto, uniform, rec, room, out):
    """Adds up the times of the ops ``rows`` at the designs of ``block``, which have `STEADY` in common.

    ``sizes`` are batch, pass length, context and span, a row of `STRIDE` each; ``uniform``: all as the first.
    Places ``upto`` a multiple of `LANES` are filled.
    """
    fused = rec[L.fuse] > 0.0
    for i in range(rows.shape[0]):
        j = rows[i]
        out[j, :] = 0.0
        role, product = table[j, R.ROLE], table[j, T.CLASS] == T.CONTRACTION
        inside = fused and role >= R.ATTENDED
        if inside and table[j, T.STATE_READS] != 0.0:  # what it reads is the kernel's
            continue
        if not inside:
            out[j, RATE] = LANES_RATE if not product else LOW if table[j, T.QUANTISABLE] > 0.0 else WIDE
        launches = table[j, R.KERNELS] if rec[L.split] > 0.0 else 1.0
        kind = _ROUTED if R.EXPERT <= role < R.ATTENDED else _PASSING
        kind = _LATER if inside else _SCORES if fused and role == R.SCORES else kind
        for at in range(0, upto, upto if uniform else LANES):
            places = at, upto if uniform else at + LANES, uniform
            size = loads(sizes, at, STRIDE, SIZES)
            q = _count(table, j, size, ways, rec)
            dense = 0  # designs to which it is a product
            if product and kind == _PASSING:
                dense = at_least(1.0, q[G]) | at_least(q[N], _THIN) | at_least(0.0, q[WEIGHTS])
            if dense:
                _products(table, j, times[i], q, launches, places, dense, rec, room[0], room[1], out)
            if dense != FULL:
                _together(table, j, times[i], q, size, launches, kind, places, FULL & ~dense, rec, room[0], out)
