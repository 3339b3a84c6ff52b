"""The GPU family's formulas: one compiled function over the flat table of a phase, with the operator models inside.

Every operator is priced by the model its measured kind is priced by (`engine.devices.gpu.operators`): products over
their tiles and splits, attention as one kernel where it is fused, experts as grouped products, the rest as streams.
What a network adds: where weights and activations lie between its operators, who rides in whose kernel, and the host.
Estimates, for one device of a homogeneous group.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.devices.common.counts import at as _at
from engine.devices.common.counts import parts
from engine.devices.gpu import flags as R
from engine.devices.gpu.operators import attention, gemm, moe, slots, stream
from engine.devices.gpu.operators.terms import hit_share, left_share
from engine.kernels.jit import kernel
from model_zoo import table as T


class Layout(NamedTuple):
    """Where each part of the flat record begins."""

    machine: int = 0  # `slots.MACHINE`
    low: int = 12  # a format as `gemm.FORMAT` has it: that of operators in the scenario's
    wide: int = 22  # and of those that stay wide
    decode: int = 32  # `attention.FORMAT`, of a cache in the scenario's format
    decode16: int = 41  # and of one of 16 bits
    prefill: int = 50  # its first five, of both again
    prefill16: int = 55
    experts: int = 60  # `moe.FORMAT`
    norm: int = 66  # `stream.FORMAT`: of norms and other reductions
    point: int = 69  # of element-wise operators
    lookup: int = 72  # of rows of tables
    rest: int = 75  # `REST`


L = Layout()
REST = ("lanes_s", "act_bytes", "wide_bytes", "graph", "fuse", "issue", "split", "causal", "held")
LANES_S, ACT_BYTES, WIDE_BYTES, GRAPH, FUSE, ISSUE, SPLIT, CAUSAL, HELD = range(L.rest, L.rest + len(REST))
FIELDS = L.rest + len(REST)

# an operator's share of one device, as `_count` fills it: executions, FLOPs, elements by where they lie, extents, bytes
# of an activation
RUNS, FLOPS, READS, WRITES, WEIGHTS, STATE, G, M, N, K, STEPS, ROWS, ACT = range(13)
COUNTED = 13

# columns of the result
COMPUTE, OFFCHIP, ONCHIP, LINKS, HOST, OVERHEAD, WORK, RATE, MOVED, NEAR = range(10)
WIDTH = 10
LOW, WIDE, LANES = map(float, range(3))  # values of RATE: which peak the work is held against
_THIN = 8.0  # filters of a group below which a grouped convolution is no product
_FEW = 8.0  # tokens of a sequence up to which its queries share a pass over the cache
_ROW_SPAN = 64.0  # bytes of a row of a table that go to waste, beside it in its DRAM bursts


@kernel
def _count(table, j, batch, length, context, ways, rec, q):
    """What op j asks of one device of ``ways``, an execution; fills ``q`` (COUNTED)."""
    n = _at(table, j, T.N, batch, length, context)
    part_g, part_m, part_n, part_k, part_e = parts(table, j, n, ways)
    weights = _at(table, j, T.WEIGHTS, batch, length, context)
    if table[j, T.STORED] > 0.0:  # what many items choose is read once
        weights = min(weights, table[j, T.STORED])
    state = _at(table, j, T.STATE_READS, batch, length, context)
    if table[j, R.ROLE] != R.SCORES:
        state += _at(table, j, T.STATE_WRITES, batch, length, context)
    owned = part_n * part_g * part_k * part_e
    q[STEPS] = _at(table, j, T.STEPS, batch, length, context)
    q[RUNS] = table[j, T.LAYERS] * q[STEPS]
    q[FLOPS] = _at(table, j, T.FLOPS, batch, length, context) * owned * part_m
    q[READS] = _at(table, j, T.READS, batch, length, context) * part_g * part_m * part_k * part_e
    q[WRITES] = _at(table, j, T.WRITES, batch, length, context) * part_n * part_g * part_m * part_e
    q[WEIGHTS] = weights * owned
    q[STATE] = state * owned
    q[G] = _at(table, j, T.G, batch, length, context) * part_g
    q[M] = _at(table, j, T.M, batch, length, context) * part_m
    q[N] = n * part_n
    q[K] = _at(table, j, T.K, batch, length, context) * part_k
    q[ROWS] = _at(table, j, T.GATHER_ROWS, batch, length, context) * part_n * part_e
    q[ACT] = rec[ACT_BYTES] if table[j, T.QUANTISABLE] > 0.0 else rec[WIDE_BYTES]


@kernel
def _book(out, j, runs, busy, which, start, launches, rec):
    """Books an execution's seconds: ``busy`` to what bounds it, ``start`` to launching, and what the host is late."""
    if which in (slots.AT_COMPUTE, slots.AT_POWER):
        out[j, COMPUTE] = runs * busy
    elif which == slots.AT_CHIP:
        out[j, ONCHIP] = runs * busy
    else:
        out[j, OFFCHIP] = runs * busy
    out[j, OVERHEAD] = runs * start
    if rec[GRAPH] == 0.0:
        out[j, HOST] = runs * max(launches * rec[ISSUE] - busy - start, 0.0)


@kernel
def _attended(table, j, batch, length, context, q, machine, rec, out, answer):
    """Books an attention as one kernel: its products, what is between them, its cache."""
    causal, keys, queries, depth, values = rec[CAUSAL] > 0.0, q[N], q[M], q[K], table[j, R.VALUES]
    cached = q[STATE] * (1.0 + table[j, R.CACHED]) * q[ACT]
    if table[j, T.M + 2] == 0.0:  # as many queries however long the pass: an image's
        length, causal = queries, False
    kv_heads = q[G] / batch
    heads = kv_heads * max(queries / length, 1.0)
    wide = cached >= 1.5 * batch * keys * kv_heads * (depth + values)  # a kernel follows the format of its cache
    if cached > 0.0 and length <= _FEW:
        row = cached / (batch * keys * kv_heads * 2.0)
        pair, pairs = 2.0 * (depth + values) * length, length * keys
        form = rec[L.decode16 : L.prefill] if wide else rec[L.decode : L.decode16]
        attention.decode_seconds(batch, keys, heads, kv_heads, row, pair, True, machine, form, answer)
        out[j, MOVED] = q[RUNS] * cached
    else:
        window, whole = 0.0, keys
        if causal and table[j, T.N + 3] > 0.0:
            whole = context
            window = keys if keys < context else 0.0
        form = rec[L.prefill16 : L.experts] if wide else rec[L.prefill : L.prefill16]
        attention.prompt_seconds(
            batch, length, whole, heads, kv_heads, depth, values, window, causal, machine, form, answer
        )
        pairs = attention.seen_by(length, whole, window, causal)
        moved = batch * length * heads * (depth + values) * q[ACT]
        if cached == 0.0:
            moved += batch * keys * kv_heads * (depth + values) * q[ACT]
        near = hit_share(moved, 2.0 * machine[slots.L2])
        out[j, NEAR] = q[RUNS] * moved * near
        out[j, MOVED] = q[RUNS] * (moved * (1.0 - near) + cached)
    out[j, WORK] = q[RUNS] * 2.0 * q[G] * queries / length * pairs * (depth + values)
    start = min(answer[slots.START_S], answer[slots.SECONDS])
    _book(out, j, q[RUNS], answer[slots.SECONDS] - start, answer[slots.REGIME], start, 1.0, rec)


@kernel
def _append(j, q, machine, rec, out):
    """Books what is kept for later by an operator that another's kernel does, or its neighbours: written, at once."""
    out[j, MOVED] = q[RUNS] * q[STATE] * q[ACT]
    busy = q[STATE] * q[ACT] / (machine[slots.BANDWIDTH] * machine[slots.DRAM_SHARE])
    _book(out, j, q[RUNS], busy, slots.AT_MEMORY, 0.0, 0.0, rec)


@kernel
def _experts(table, j, q, machine, rec, out, answer):
    """Books a product of experts, its picking or its joining: parts of a routed block as it was measured."""
    form, runs, role = rec[L.experts : L.norm], q[RUNS], table[j, R.ROLE]
    rows = (q[READS] + q[WRITES]) * q[ACT]
    out[j, NEAR] = runs * rows
    if role == R.ROUTER:
        _book(out, j, runs, 0.0, slots.AT_CHIP, 0.0, 1.0, rec)
    elif role == R.COMBINE:
        moved = (q[READS] + q[WRITES]) * 2.0 * form[moe.PASSES]
        near = hit_share(moved, 2.0 * machine[slots.L2])
        seconds = moved * (1.0 - near) / (machine[slots.BANDWIDTH] * machine[slots.DRAM_SHARE])
        seconds += moved * near / (machine[slots.UNITS] * machine[slots.FEED])
        out[j, MOVED], out[j, NEAR] = runs * rows * (1.0 - near), runs * rows * near
        lanes = q[FLOPS] * rec[LANES_S]
        which = slots.AT_COMPUTE if lanes > seconds else slots.AT_MEMORY
        _book(out, j, runs, max(seconds, lanes), which, form[moe.START], 3.0, rec)
    else:
        counts, loads = np.empty(moe.CLASSES), np.empty(moe.CLASSES)
        met = moe.spread_loads(q[M] / table[j, R.TOPK], table[j, R.TOPK], table[j, R.EXPERTS], counts, loads)
        seconds = moe.grouped_seconds(counts, loads, q[N], q[K], 0.0, machine, form, answer)
        out[j, MOVED] = runs * met * q[N] * q[K] * form[moe.WEIGHT_BYTES]
        _book(out, j, runs, seconds, answer[slots.REGIME], 0.0, 1.0, rec)


@kernel
def _product(table, j, q, launches, machine, rec, out, found):
    """Books a matrix product: where its operands lie, the fastest tile, what quantising its input takes."""
    at = L.low if table[j, T.QUANTISABLE] > 0.0 else L.wide
    form, room = rec[at : at + L.wide - L.low], machine[slots.L2_SHARE] * machine[slots.L2]
    m, runs, again, inside, made = q[M], q[RUNS], q[STEPS], q[READS] * q[ACT], q[WRITES] * q[ACT]
    if rec[FUSE] > 0.0 and table[j, R.HOISTS] > 0.0:  # every step's input is known: one product of them all
        m, inside, made, runs, again = m * again, inside * again, made * again, runs / again, 1.0
    read = q[WEIGHTS] * form[gemm.WEIGHT_BYTES] + q[STATE] * q[ACT]
    kept = hit_share(rec[HELD], room)
    cache = q[STATE] > 0.0 and q[WEIGHTS] == 0.0  # of keys and values: it streams past once a pass
    if cache:
        kept = 0.0
    elif again > 1.0:  # a step finds what the step before it read
        kept = max(kept, (1.0 - 1.0 / again) * hit_share(read, room))
    stays = q[WEIGHTS] * form[gemm.WEIGHT_BYTES] + made  # a cache of keys and values streams past, evicted first
    missed = inside * (1.0 - left_share(inside, stays, room)) + made * (1.0 - left_share(made, made, room))
    gemm.best_tile(q[G], m, q[N], q[K], inside, read, made, missed, kept, machine, form, found)
    start = found[gemm.REST_S] + machine[slots.START]
    if q[WEIGHTS] > 0.0:
        start += form[gemm.QUANTISE_S] + 2.0 * q[READS] * m / q[M] * form[gemm.QUANTISE_BYTE_S]
    far = missed + read if q[STATE] > 0.0 and again <= 1.0 else found[gemm.MISSED]  # state is read anew each pass
    out[j, MOVED], out[j, NEAR] = runs * far, runs * max(inside + read + made - far, 0.0)
    _book(out, j, runs, found[gemm.BUSY_S], found[gemm.LARGEST], start, launches, rec)


@kernel
def _riding(j, q, machine, rec, out):
    """Books what rides in a product's kernel: its own arithmetic, and what else it reads; results pass in any case."""
    moved, bus = max(q[READS] - q[WRITES], 0.0) * q[ACT], machine[slots.BANDWIDTH] * machine[slots.DRAM_SHARE]
    near = left_share(moved, q[WRITES] * q[ACT], machine[slots.L2_SHARE] * machine[slots.L2])
    out[j, MOVED], out[j, NEAR] = q[RUNS] * moved * (1.0 - near), q[RUNS] * moved * near
    far, lanes = moved * (1.0 - near) / bus, q[FLOPS] * rec[LANES_S]
    _book(out, j, q[RUNS], max(far, lanes), slots.AT_COMPUTE if lanes > far else slots.AT_MEMORY, 0.0, 0.0, rec)


@kernel
def _stream(table, j, q, launches, machine, rec, out, answer):
    """Books an operator that reads and writes once; rows of tables that lie anywhere fill whole bursts."""
    klass, bus = table[j, T.CLASS], machine[slots.BANDWIDTH] * machine[slots.DRAM_SHARE]
    at = L.lookup if klass == T.LOOKUP else L.norm if klass == T.REDUCTION else L.point
    form, runs, many = rec[at : at + 3], q[RUNS], 1.0
    weight_bytes = rec[(L.low if table[j, T.QUANTISABLE] > 0.0 else L.wide) + gemm.WEIGHT_BYTES]
    moved = (q[READS] + q[WRITES] + q[STATE]) * q[ACT] + q[WEIGHTS] * weight_bytes
    near, wasted = hit_share(moved, 2.0 * machine[slots.L2_SHARE] * machine[slots.L2]), 0.0
    if klass == T.LOOKUP:
        near, wasted = 0.0, q[ROWS] * _ROW_SPAN
        if rec[FUSE] > 0.0:  # alike tables are one call's
            many = table[j, R.TABLES]
    stream.stream_seconds((moved + wasted) * many, machine, form, answer)
    busy = max(answer[slots.SECONDS] - form[stream.START], (moved * (1.0 - near) + wasted) * many / bus)
    which = slots.AT_CHIP if answer[slots.REGIME] == slots.AT_CHIP else slots.AT_MEMORY
    lanes = q[FLOPS] * many * rec[LANES_S]
    if lanes > busy:
        busy, which = lanes, slots.AT_COMPUTE
    out[j, MOVED], out[j, NEAR] = runs * (moved * (1.0 - near) + wasted), runs * moved * near
    _book(out, j, runs / many, busy, which, form[stream.START] * launches, launches, rec)


@kernel
def price_ops(rows, table, batch, length, context, ways, rec, out):
    """Cost of the ops ``rows`` of a phase on one device of ``ways``; fills their rows of ``out`` (n_ops, WIDTH).

    ``table`` is `flags.lowered`, ``rec`` the record that `Layout` describes. Seconds by resource, work [FLOP], which
    roof it is held against, bytes off the chip and on it, executions multiplied in. An estimate.
    """
    machine, fused = rec[L.machine : L.low], rec[FUSE] > 0.0
    answer, found, q = np.empty(slots.ANSWER), np.empty(gemm.FOUND), np.empty(COUNTED)
    for j in rows:
        out[j, :] = 0.0
        role, product = table[j, R.ROLE], table[j, T.CLASS] == T.CONTRACTION
        _count(table, j, batch, length, context, ways, rec, q)
        if fused and role >= R.ATTENDED:
            if table[j, T.STATE_READS] == 0.0:  # what it reads is the kernel's
                _append(j, q, machine, rec, out)
            continue
        launches = table[j, R.KERNELS] if rec[SPLIT] > 0.0 else 1.0
        out[j, WORK] = q[RUNS] * q[FLOPS]
        out[j, RATE] = LANES if not product else LOW if table[j, T.QUANTISABLE] > 0.0 else WIDE
        if fused and role == R.SCORES:
            _attended(table, j, batch, length, context, q, machine, rec, out, answer)
        elif R.EXPERT <= role < R.ATTENDED:
            _experts(table, j, q, machine, rec, out, answer)
        elif product and (q[G] <= 1.0 or q[N] >= _THIN or q[WEIGHTS] == 0.0):
            _product(table, j, q, launches, machine, rec, out, found)
        elif fused and table[j, R.RIDES] > 0.0:
            _riding(j, q, machine, rec, out)
        else:
            _stream(table, j, q, launches, machine, rec, out, answer)


@kernel
def price_points(lo, hi, rows, table, ways, sizes, record, totals):
    """Times of the ops ``rows`` of a pass at the designs lo..hi: see `engine.devices.common.contract.Compiled`."""
    rec, out = np.empty(FIELDS), np.empty((table.shape[0], WIDTH))
    for point in range(lo, hi):
        for f in range(FIELDS):
            rec[f] = record[f, point]
        price_ops(rows, table, sizes[0, point], sizes[1, point], sizes[2, point], ways, rec, out)
        for j in rows:
            for r in range(6):
                totals[r, point] += out[j, r]
