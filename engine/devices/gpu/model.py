"""The compiled half of :mod:`engine.devices.gpu.family`: what an op demands of a device, and its seconds at what one
supplies.

Demand follows from the network and its mapping, supply from the device's rates; they are apart so that a sweep over
rates prices a demand once. Estimates, for one device of a homogeneous group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from engine.devices.common.contract import WIDTH
from engine.devices.common.counts import at as _at
from engine.devices.common.counts import parts
from engine.kernels.jit import inner, kernel
from model_zoo import table as T

# what the model reads of a device, the model and the switches: a record's fields, what decides a demand first
FIELDS = (
    "units", "weight_bytes", "act_bytes", "wide_bytes", "cache", "fuse", "side", "wide_side", "graph", "split",
    "starts", "matrix_s", "wide_s", "lanes_s", "byte_s", "launch_s", "issue_s",
)  # fmt: skip
UNITS, WEIGHT_BYTES, ACT_BYTES, WIDE_BYTES, CACHE, FUSE, SIDE, WIDE_SIDE, GRAPH, SPLIT, STARTS, SUPPLY = range(12)

# what an op demands of a device, per pass: the columns of a demand array
RATE, EFFORT, BYTES, RUNS, LAUNCHES, WORK, NEAR = range(7)
DEMANDS = 7
SEGMENT = 24  # designs of a block from which a whole one, partly empty, is faster than one at a time
MATRIX, WIDE_MATRIX, LANES = range(3)  # values of RATE: which peak limits the arithmetic

# what a device supplies: fields of a record from SUPPLY on; seconds per FLOP, per byte, per op
MATRIX_S, WIDE_S, LANES_S, BYTE_S, LAUNCH_S, ISSUE_S = range(6)
SUPPLIES = 6

_TRANSPOSE, _CONCAT, _SPLIT, _RESHAPE = (float(T.CODES[k]) for k in ("Transpose", "Concat", "Split", "Reshape"))


@kernel
def _wave_share(g, m, n, k, units, side):
    """Share of a matmul's issue slots that do useful work: partial tiles, partial last wave; K splits to fill units."""
    side_m = min(128.0, max(side, side * np.ceil(m / side)))
    side_n = min(128.0, max(side, side * np.ceil(n / side)))
    tiles = g * np.ceil(m / side_m) * np.ceil(n / side_n)
    inside = (g * m * n) / (tiles * side_m * side_n)
    blocks = min(tiles * max(1.0, np.floor(k / 256.0)), max(tiles, units))
    return inside * blocks / (np.ceil(blocks / units) * units)


@inner
def _in_place(kind):
    """Whether neighbours of a compiled graph write or read an op's result where it belongs, strides and all."""
    return kind in (_TRANSPOSE, _CONCAT, _SPLIT, _RESHAPE)


@inner
def _launches(rec, fused, rate, kernels):
    """Starts of an operator that is no part of another one: in a captured graph, or as kernels of a framework. [-]"""
    if rec[GRAPH] > 0.0:
        return rec[STARTS] if rate != LANES else 1.0
    return 1.0 if fused else 1.0 + rec[SPLIT] * (kernels - 1.0)


@kernel
def demand_ops(rows, table, kernels, batch, length, context, ways, rec, out):
    """What the ops ``rows`` of a phase ask of one device of ``ways``; fills as many rows of ``out`` (n, DEMANDS).

    EFFORT is FLOPs over the share of issue slots that do useful work, BYTES goes off chip, NEAR stays in the cache;
    all are per execution. RUNS is executions a pass. Depends on the mapping and sizes, on no rate; ``rec`` is `record`,
    ``kernels`` (n_ops,) what an eager framework launches for an op.
    """
    for i in range(rows.shape[0]):
        j = rows[i]
        g = _at(table, j, T.G, batch, length, context)
        m = _at(table, j, T.M, batch, length, context)
        n = _at(table, j, T.N, batch, length, context)
        k = _at(table, j, T.K, batch, length, context)
        flops = _at(table, j, T.FLOPS, batch, length, context)
        weights = _at(table, j, T.WEIGHTS, batch, length, context)
        if table[j, T.STORED] > 0.0:  # what many items choose is read once
            weights = min(weights, table[j, T.STORED])
        reads = _at(table, j, T.READS, batch, length, context)
        writes = _at(table, j, T.WRITES, batch, length, context)
        state = _at(table, j, T.STATE_READS, batch, length, context)
        state += _at(table, j, T.STATE_WRITES, batch, length, context)
        part_g, part_m, part_n, part_k, part_e = parts(table, j, n, ways)
        share = part_n * part_g * part_k * part_e
        flops *= share * part_m
        weights *= share
        state *= share
        reads *= part_g * part_m * part_k * part_e
        writes *= part_n * part_g * part_m * part_e
        klass = table[j, T.CLASS]
        low = table[j, T.QUANTISABLE] > 0.0
        act_bytes = rec[ACT_BYTES] if low else rec[WIDE_BYTES]
        weight_bytes = rec[WEIGHT_BYTES] if low else rec[WIDE_BYTES]
        fused = rec[FUSE] > 0.0
        laid = fused and klass == T.MOVEMENT and _in_place(table[j, T.KIND])
        inline = laid or (fused and klass == T.ELEMENTWISE)
        if inline:
            reads = 0.0 if laid else max(reads - writes, 0.0)
            writes = 0.0
        if fused and table[j, T.WRITES + 3] > 0.0:  # as wide as the context: scores stay on chip
            writes = 0.0
        if fused and table[j, T.READS + 3] > 0.0:
            reads = 0.0
        near = 0.0
        activations = (reads + writes) * act_bytes
        if activations <= 0.5 * rec[CACHE]:  # produced and consumed inside the last-level cache
            near = activations
            activations = 0.0
        effort = flops
        rate = LANES
        if klass == T.CONTRACTION:
            rate = MATRIX if low else WIDE_MATRIX
            if flops > 0:
                side = rec[SIDE] if low else rec[WIDE_SIDE]
                effort = flops / _wave_share(g * part_g, m * part_m, n * part_n, k * part_k, rec[UNITS], side)
        out[i, RATE] = rate
        out[i, EFFORT] = effort
        out[i, BYTES] = weights * weight_bytes + state * act_bytes + activations
        out[i, RUNS] = table[j, T.LAYERS] * _at(table, j, T.STEPS, batch, length, context)
        out[i, LAUNCHES] = 0.0 if inline else _launches(rec, fused, rate, kernels[j])
        out[i, WORK] = flops
        out[i, NEAR] = near


@kernel
def _op_seconds(effort, rate_s, moved, byte_s, launches, launch_s, issue_s):
    """Seconds of one execution: (arithmetic-bound, memory-bound, waiting for the host, launching).

    A captured graph has no issue cost. Eager hosts issue ahead, so an op lasts as long as the slower of issuing it
    and running it.
    """
    compute = effort * rate_s
    memory = moved * byte_s
    busy = max(compute, memory)
    launch = launches * launch_s
    wait = max(launches * issue_s - busy - launch, 0.0)
    bound = compute >= memory
    return (busy if bound else 0.0), (0.0 if bound else busy), wait, launch


@kernel
def supply_ops(demand, rec, out):
    """Times of every op of a record; fills ``out`` (n_ops, 6) by resource, executions multiplied in."""
    for j in range(demand.shape[0]):
        rate_s = rec[SUPPLY + int(demand[j, RATE])]
        compute, memory, wait, launch = _op_seconds(
            demand[j, EFFORT],
            rate_s,
            demand[j, BYTES],
            rec[SUPPLY + BYTE_S],
            demand[j, LAUNCHES],
            rec[SUPPLY + LAUNCH_S],
            rec[SUPPLY + ISSUE_S],
        )
        runs = demand[j, RUNS]
        out[j, 0] = runs * compute
        out[j, 1] = runs * memory
        out[j, 2] = 0.0
        out[j, 3] = 0.0
        out[j, 4] = runs * wait
        out[j, 5] = runs * launch


def _block_of(rate: int, eager: bool) -> Callable[..., Any]:
    """A compiled function that adds one op's seconds at every point of a block to the block's totals.

    The block is one flat array and every row begins at a constant, so that the compiler sees that no row overlaps
    another and works on several points at once.
    """
    rates, moves, launching, issuing = rate * WIDTH, BYTE_S * WIDTH, LAUNCH_S * WIDTH, ISSUE_S * WIDTH
    compute_s, memory_s, wait_s, start_s = (row * WIDTH for row in (6, 7, 10, 11))

    @inner
    def add(block, effort, moved, launches, runs):
        for p in range(WIDTH):
            compute, memory, wait, launch = _op_seconds(
                effort, block[rates + p], moved, block[moves + p], launches, block[launching + p], block[issuing + p]
            )
            block[compute_s + p] += runs * compute
            block[memory_s + p] += runs * memory
            if eager:
                block[wait_s + p] += runs * wait
            block[start_s + p] += runs * launch

    return add


@kernel
def _add_some(block, rate, effort, moved, launches, runs, lo, hi):
    """The same for the points lo..hi."""
    for p in range(lo, hi):
        compute, memory, wait, launch = _op_seconds(
            effort,
            block[rate * WIDTH + p],
            moved,
            block[BYTE_S * WIDTH + p],
            launches,
            block[LAUNCH_S * WIDTH + p],
            block[ISSUE_S * WIDTH + p],
        )
        block[6 * WIDTH + p] += runs * compute
        block[7 * WIDTH + p] += runs * memory
        block[10 * WIDTH + p] += runs * wait
        block[11 * WIDTH + p] += runs * launch


_matrix, _wide, _lanes = (_block_of(rate, False) for rate in (MATRIX_S, WIDE_S, LANES_S))
_matrix_eager, _wide_eager, _lanes_eager = (_block_of(rate, True) for rate in (MATRIX_S, WIDE_S, LANES_S))


@kernel
def supply_block(demand, block, lo, hi):
    """Times of a pass at the points lo..hi of a block: adds what `supply_ops` finds, op by op, to the block's totals.

    ``block`` is flat: rows of `WIDTH` points, six of `SUPPLY`, then six of seconds by resource. Where no host issues
    operators one by one, an op never waits for it, and that row stays as it is.
    """
    eager = False
    for p in range(lo, hi):
        eager = eager or block[ISSUE_S * WIDTH + p] > 0.0
    for j in range(demand.shape[0]):
        rate, effort, moved = int(demand[j, RATE]), demand[j, EFFORT], demand[j, BYTES]
        launches, runs = demand[j, LAUNCHES], demand[j, RUNS]
        if lo > 0 or hi < WIDTH:
            _add_some(block, rate, effort, moved, launches, runs, lo, hi)
        elif eager:
            if rate == MATRIX:
                _matrix_eager(block, effort, moved, launches, runs)
            elif rate == WIDE_MATRIX:
                _wide_eager(block, effort, moved, launches, runs)
            else:
                _lanes_eager(block, effort, moved, launches, runs)
        elif rate == MATRIX:
            _matrix(block, effort, moved, launches, runs)
        elif rate == WIDE_MATRIX:
            _wide(block, effort, moved, launches, runs)
        else:
            _lanes(block, effort, moved, launches, runs)


@kernel
def _alike(matrix, rows, lo, hi):
    """Whether the first rows of a matrix hold one value each in the columns lo..hi."""
    for r in range(rows):
        apart, first = 0, matrix[r, lo]
        for p in range(lo + 1, hi):
            apart += 1 if matrix[r, p] != first else 0
        if apart > 0:
            return False
    return True


@kernel
def _segment(sizes, record, lo, hi):
    """Up to which design of lo..hi all ask the same of their devices; a block of them at most."""
    if lo + 1 < hi and _alike(sizes, 3, lo, lo + 2):
        whole = min(lo + WIDTH, hi)
        if _alike(sizes, 3, lo, whole) and _alike(record, SUPPLY, lo, whole):
            return whole
    end = lo + 1
    while end < min(lo + WIDTH, hi) and _alike(sizes, 3, end - 1, end + 1) and _alike(record, SUPPLY, end - 1, end + 1):
        end += 1
    return end


@kernel
def _add_one(demand, rec, point, totals):
    """Adds the times of ops at one design to its column of ``totals``, first to last."""
    compute_s, memory_s, wait_s, start_s = totals[0, point], totals[1, point], totals[4, point], totals[5, point]
    for j in range(demand.shape[0]):
        compute, memory, wait, launch = _op_seconds(
            demand[j, EFFORT],
            rec[SUPPLY + int(demand[j, RATE])],
            demand[j, BYTES],
            rec[SUPPLY + BYTE_S],
            demand[j, LAUNCHES],
            rec[SUPPLY + LAUNCH_S],
            rec[SUPPLY + ISSUE_S],
        )
        runs = demand[j, RUNS]
        compute_s += runs * compute
        memory_s += runs * memory
        wait_s += runs * wait
        start_s += runs * launch
    totals[0, point], totals[1, point], totals[4, point], totals[5, point] = compute_s, memory_s, wait_s, start_s


@kernel
def price_points(lo, hi, rows, table, kernels, ways, sizes, record, totals):
    """Times of the ops ``rows`` of a pass at the designs lo..hi: see `engine.devices.common.contract.Compiled`.

    Designs in a row that ask the same of their devices are priced together, up to a block of them.
    """
    demand, block, rec = np.empty((rows.shape[0], DEMANDS)), np.zeros(12 * WIDTH), np.empty(record.shape[0])
    start = lo
    while start < hi:
        end = _segment(sizes, record, start, hi)
        for f in range(record.shape[0]):
            rec[f] = record[f, start]
        demand_ops(rows, table, kernels, sizes[0, start], sizes[1, start], sizes[2, start], ways, rec, demand)
        n = end - start
        if n == 1:
            _add_one(demand, rec, start, totals)
        else:
            for f in range(SUPPLIES):
                block[f * WIDTH : f * WIDTH + n] = record[SUPPLY + f, start:end]
                block[(SUPPLIES + f) * WIDTH : (SUPPLIES + f) * WIDTH + n] = totals[f, start:end]
            supply_block(demand, block, 0, WIDTH if n > SEGMENT else n)
            for f in range(SUPPLIES):
                totals[f, start:end] = block[(SUPPLIES + f) * WIDTH : (SUPPLIES + f) * WIDTH + n]
        start = end
