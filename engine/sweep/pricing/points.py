"""Figures of many designs at once: gathers what was tabulated, adds up operators, settles; compiled.

Designs of a family are numbered by a mixed radix of their own, the axes that demands depend on first. A block of
`WIDTH` designs is gathered row by row, the operators of the runs that come in halves are priced on it (those whose
price is cheaper than a call; the others were priced beforehand), and the same functions finish it that finish a single
scenario.
"""

from __future__ import annotations

import numpy as np

from engine.cost.figures import N, money_figures, time_figures
from engine.devices.gpu import model
from engine.kernels.jit import kernel

__all__ = ["demand_at", "fill_points", "fill_scattered", "gather_range", "gather_rows"]

WIDTH = 256
SUPPLIES = len(model.SUPPLY)
HALVES_ROWS = SUPPLIES + N
SEGMENT = 24  # designs with one demand from which a block of their own, partly empty, is faster than one point a time


@kernel
def _gather(mem, lo, n, radix, strides, first, width, offset, row, values, digits):
    """Rows of ``n`` designs from ``lo`` on: every column of every table, a stretch of the last axis at a time."""
    axes = radix.shape[0]
    left = lo
    for a in range(axes - 1, -1, -1):
        digits[a] = left % radix[a]
        left //= radix[a]
    last = axes - 1
    at = 0
    while at < n:
        stretch = min(radix[last] - digits[last], n - at)
        for t in range(first.shape[0]):
            base = 0
            for a in range(axes):
                base += strides[t, a] * digits[a]
            step = strides[t, last]
            for c in range(first[t], first[t] + width[t]):
                source = values[offset[c] :]
                target = mem[row[c] * WIDTH + at : row[c] * WIDTH + at + stretch]
                if step == 0:
                    value = source[base]
                    for q in range(stretch):
                        target[q] = value
                elif step == 1:
                    part = source[base : base + stretch]
                    for q in range(stretch):
                        target[q] = part[q]
                else:  # the table's last axis is another one
                    for q in range(stretch):
                        target[q] = source[base + q * step]
        at += stretch
        digits[last] += stretch
        a = last
        while digits[a] >= radix[a] and a > 0:
            digits[a] = 0
            a -= 1
            digits[a] += 1


@kernel
def gather_rows(numbers, radix, strides, offset, values, out):
    """Values of tables at designs: fills ``out`` (rows, n); row r lies at ``values[offset[r]:]``."""
    axes = radix.shape[0]
    digits = np.zeros(axes, dtype=np.int64)
    for q in range(numbers.shape[0]):
        left = numbers[q]
        for a in range(axes - 1, -1, -1):
            digits[a] = left % radix[a]
            left //= radix[a]
        for r in range(out.shape[0]):
            at = offset[r]
            for a in range(axes):
                at += strides[r, a] * digits[a]
            out[r, q] = values[at]


@kernel
def gather_range(lo, radix, strides, offset, values, out):
    """`gather_rows` of the designs from ``lo`` on, a stretch of the last axis at a time."""
    last, n = radix.shape[0] - 1, out.shape[1]
    at = 0
    while at < n:
        stretch = min(radix[last] - (lo + at) % radix[last], n - at)
        for r in range(out.shape[0]):
            base, left = offset[r], lo + at
            for a in range(last, -1, -1):
                base += strides[r, a] * (left % radix[a])
                left //= radix[a]
            step = strides[r, last]
            for q in range(stretch):
                out[r, at + q] = values[base + q * step]
        at += stretch


@kernel
def demand_at(number, radix, strides):
    """Which demand a design has: its place in the table of demands."""
    found = 0
    for a in range(radix.shape[0] - 1, -1, -1):
        found += strides[a] * (number % radix[a])
        number //= radix[a]
    return found


@kernel
def _memory(row, constant_row, constant, block_row, plan_rows):
    """Rows of `WIDTH` designs, flat: those of the plan, what is counted, the blocks; constants are in place."""
    most = plan_rows
    for c in range(row.shape[0]):
        most = max(most, row[c] + 1)
    for c in range(constant_row.shape[0]):
        most = max(most, constant_row[c] + 1)
    for h in range(block_row.shape[0]):
        most = max(most, block_row[h] + HALVES_ROWS)
    mem = np.zeros(most * WIDTH)
    for c in range(constant_row.shape[0]):
        mem[constant_row[c] * WIDTH : (constant_row[c] + 1) * WIDTH] = constant[c]
    return mem


@kernel
def _fill(
    mem,
    digits,
    lo,
    hi,
    radix,
    strides,
    first,
    width,
    offset,
    row,
    values,
    demand,
    demand_first,
    ops,
    demand_strides,
    run_of,
    block_row,
    same,
    plan_rows,
    facts,
    given_row,
    given,
    wanted,
    out,
    into,
):
    """Wanted rows of designs lo..hi in a memory: fills ``out``, and takes ``given``, from column ``into`` on."""
    rows = mem[: plan_rows * WIDTH].reshape((plan_rows, WIDTH))
    start, n = lo, 0
    while start < hi:
        n = min(WIDTH, hi - start)
        if same >= SEGMENT:  # long enough to keep blocks within one demand
            n = min(n, same - start % same)
        _gather(mem, start, n, radix, strides, first, width, offset, row, values, digits)
        for h in range(block_row.shape[0]):
            block = mem[block_row[h] * WIDTH : (block_row[h] + HALVES_ROWS) * WIDTH]
            block[SUPPLIES * WIDTH :] = 0.0
            at = 0
            while at < n:
                upto = min(n, at + same - (start + at) % same)
                d = demand_first[h] + ops[h] * demand_at(start + at, radix, demand_strides[h])
                whole = at == 0 and upto == n and n > SEGMENT
                model.supply_block(demand[d : d + ops[h]], block, at, WIDTH if whole else upto)
                at = upto
            for r in range(N):
                rows[N * run_of[h] + r, :] = block[(SUPPLIES + r) * WIDTH : (SUPPLIES + r + 1) * WIDTH]
        column = into + start - lo
        for g in range(given_row.shape[0]):
            target = rows[given_row[g], :n]
            source = given[g, column : column + n]
            for q in range(n):
                target[q] = source[q]
        time_figures(rows, n, *facts)
        money_figures(rows, n, facts[1])
        for k in range(wanted.shape[0]):
            source = mem[wanted[k] * WIDTH : wanted[k] * WIDTH + n]
            target = out[k, column : column + n]
            for q in range(n):
                target[q] = source[q]
        start += n


@kernel
def fill_points(
    lo,
    hi,
    radix,
    strides,
    first,
    width,
    offset,
    row,
    values,
    constant_row,
    constant,
    demand,
    demand_first,
    ops,
    demand_strides,
    run_of,
    block_row,
    same,
    plan_rows,
    facts,
    given_row,
    given,
    wanted,
    out,
):
    """Wanted rows of designs lo..hi: fills ``out`` (len(wanted), hi - lo).

    ``same`` designs in a row share their demands; ``given`` (rows, hi - lo) holds what was priced beforehand and goes
    to the rows ``given_row``. Rows of the plan come first in memory, then those that count what is refused or does not
    fit, then the blocks of the runs that come in halves.
    """
    mem = _memory(row, constant_row, constant, block_row, plan_rows)
    _fill(
        mem,
        np.zeros(radix.shape[0], dtype=np.int64),
        lo,
        hi,
        radix,
        strides,
        first,
        width,
        offset,
        row,
        values,
        demand,
        demand_first,
        ops,
        demand_strides,
        run_of,
        block_row,
        same,
        plan_rows,
        facts,
        given_row,
        given,
        wanted,
        out,
        0,
    )


@kernel
def fill_scattered(
    numbers,
    radix,
    strides,
    first,
    width,
    offset,
    row,
    values,
    constant_row,
    constant,
    demand,
    demand_first,
    ops,
    demand_strides,
    run_of,
    block_row,
    same,
    plan_rows,
    facts,
    given_row,
    given,
    wanted,
    out,
):
    """The same of designs here and there, each by itself: fills ``out`` (len(wanted), n)."""
    mem, digits = _memory(row, constant_row, constant, block_row, plan_rows), np.zeros(radix.shape[0], dtype=np.int64)
    for i in range(numbers.shape[0]):
        _fill(
            mem,
            digits,
            numbers[i],
            numbers[i] + 1,
            radix,
            strides,
            first,
            width,
            offset,
            row,
            values,
            demand,
            demand_first,
            ops,
            demand_strides,
            run_of,
            block_row,
            same,
            plan_rows,
            facts,
            given_row,
            given,
            wanted,
            out,
            i,
        )
