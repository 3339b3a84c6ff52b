"""Figures of many designs at once: gathers what was tabulated, adds up operators, settles; compiled.

Designs of a family are numbered by a mixed radix of their own. A block of `WIDTH` designs is gathered row by row,
groups of operators are added up in the order in which `engine.cost.figures.column_totals` adds them, and the same
functions finish it that finish a single scenario.
"""

from __future__ import annotations

import numpy as np

from engine.cost.figures import M, money_figures, time_figures
from engine.devices.common.contract import WIDTH
from engine.kernels.jit import kernel


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
def _add_groups(mem, n, column, given, place, groups, place_of, columns, seconds):
    """Adds the seconds of every group to the rows of its run, one group after the other.

    A row of ``groups``: first row of the run, first row of ``given`` or -1, and where its places and its columns begin
    and end. A row of ``columns``: a resource, and where its entries begin in ``seconds``.
    """
    first = last = -1
    for g in range(groups.shape[0]):
        top = groups[g, 0] * WIDTH
        if groups[g, 1] >= 0:
            for r in range(M):
                source = given[groups[g, 1] + r, column : column + n]
                target = mem[top + r * WIDTH : top + r * WIDTH + n]
                for q in range(n):
                    target[q] += source[q]
            continue
        if groups[g, 2] != first or groups[g, 3] != last:  # else this group lies as the one before it
            first, last = groups[g, 2], groups[g, 3]
            for q in range(n):
                place[q] = 0
            for v in range(first, last):
                step = mem[place_of[v] * WIDTH : place_of[v] * WIDTH + n]
                for q in range(n):
                    place[q] += int(step[q])
        for c in range(groups[g, 4], groups[g, 5]):
            source = seconds[columns[c, 1] :]
            target = mem[top + columns[c, 0] * WIDTH : top + columns[c, 0] * WIDTH + n]
            for q in range(n):
                target[q] += source[place[q]]


@kernel
def _misfits(mem, n, fits, unfit):
    """Marks the designs of which a level does not hold what it must: rows of ``fits`` are need and capacity."""
    target = mem[unfit * WIDTH : unfit * WIDTH + n]
    for q in range(n):
        target[q] = 0.0
    for f in range(fits.shape[0]):
        need, capacity = mem[fits[f, 0] * WIDTH :], mem[fits[f, 1] * WIDTH :]
        for q in range(n):
            if not need[q] <= capacity[q]:
                target[q] = 1.0


@kernel
def fill_points(lo, hi, numbers, tables, constants, groups, fits, height, plan_rows, facts, given, wanted, out):
    """Wanted rows of the designs lo..hi, or of ``numbers`` where there are any: fills ``out`` (len(wanted), n).

    ``given`` (rows, n) holds what was priced beforehand. Rows of the plan come first in memory, then those that say
    what is refused or does not fit.
    """
    radix, strides, first, width, offset, row, values = tables
    mem, digits, place = np.zeros(height * WIDTH), np.zeros(radix.shape[0], np.int64), np.zeros(WIDTH, np.int64)
    for c in range(constants[0].shape[0]):
        mem[constants[0][c] * WIDTH : (constants[0][c] + 1) * WIDTH] = constants[1][c]
    rows = mem[: plan_rows * WIDTH].reshape((plan_rows, WIDTH))
    apart = numbers.shape[0] > 0
    start, column = lo, 0
    while column < out.shape[1]:
        if apart:
            start = numbers[column]
        n = 1 if apart else min(WIDTH, hi - start)
        _gather(mem, start, n, radix, strides, first, width, offset, row, values, digits)
        for g in range(groups[0].shape[0]):
            top = groups[0][g, 0] * WIDTH
            mem[top : top + M * WIDTH] = 0.0
        _add_groups(mem, n, column, given, place, groups[0], groups[1], groups[2], groups[3])
        _misfits(mem, n, fits, plan_rows)
        time_figures(rows, n, *facts)
        money_figures(rows, n, facts[1])
        for k in range(wanted.shape[0]):
            source = mem[wanted[k] * WIDTH : wanted[k] * WIDTH + n]
            target = out[k, column : column + n]
            for q in range(n):
                target[q] = source[q]
        start += n
        column += n
