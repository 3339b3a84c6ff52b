"""Figures of many designs at once: gathers what was tabulated, adds up operators, settles; compiled.

Designs of a family are numbered by a mixed radix of their own. A block of `WIDTH` designs is gathered row by row,
groups of operators are added up in the order in which `engine.cost.figures.column_sums` adds them, and the same
functions finish it that finish a single scenario.
"""

import numpy as np

from engine.cost.figures import money_figures, time_figures
from engine.cost.layout import M
from engine.devices.common.contract import WIDTH
from engine.kernels.jit import kernel


@kernel
def gather(mem, wide, lo, n, numbers, steps, strides, first, width, offset, row, values):
    """Rows of designs, ``wide`` entries apart in ``mem``: arrays that vary, a stretch of the last axis at a time.

    Designs are ``numbers`` where there are any, else the ``n`` from ``lo`` on. ``width`` arrays from ``first`` on lie
    over the same axes; array c begins at ``values[offset[c]]`` and goes to ``row[c]``.
    """
    axes, apart = steps.shape[0], numbers.shape[0] > 0
    digits, last, at = np.zeros(axes, dtype=np.int64), axes - 1, 0
    while at < n:
        index = numbers[at] if apart else lo + at
        for a in range(last, -1, -1):
            digits[a] = index % steps[a]
            index //= steps[a]
        stretch = 1 if apart else min(steps[last] - digits[last], n - at)
        for t in range(first.shape[0]):
            base = 0
            for a in range(axes):
                base += strides[t, a] * digits[a]
            step = strides[t, last]
            for c in range(first[t], first[t] + width[t]):
                source = values[offset[c] :]
                target = mem[row[c] * wide + at : row[c] * wide + at + stretch]
                if step == 0:
                    value = source[base]
                    for q in range(stretch):
                        target[q] = value
                elif step == 1:
                    part = source[base : base + stretch]
                    for q in range(stretch):
                        target[q] = part[q]
                else:  # the array's last axis is another one
                    for q in range(stretch):
                        target[q] = source[base + q * step]
        at += stretch


@kernel
def _add_groups(mem, n, column, sums, place, groups, columns, seconds):
    """Adds the seconds of every group to the rows of its run, one group after the other.

    A row of ``groups``: first row of the run, first row of ``sums`` or -1, and from which to which its places lie in
    memory and its columns in ``columns``: a resource, and where its entries begin in ``seconds``.
    """
    first = last = -1
    for g in range(groups.shape[0]):
        top = groups[g, 0] * WIDTH
        if groups[g, 1] >= 0:
            for r in range(M):
                source = sums[groups[g, 1] + r, column : column + n]
                target = mem[top + r * WIDTH : top + r * WIDTH + n]
                for q in range(n):
                    target[q] += source[q]
            continue
        if groups[g, 2] != first or groups[g, 3] != last:  # else this group lies as the one before it
            first, last = groups[g, 2], groups[g, 3]
            for q in range(n):
                place[q] = 0
            for v in range(first, last):
                step = mem[v * WIDTH : v * WIDTH + n]
                for q in range(n):
                    place[q] += int(step[q])
        for c in range(groups[g, 4], groups[g, 5]):
            source = seconds[columns[c, 1] :]
            target = mem[top + columns[c, 0] * WIDTH : top + columns[c, 0] * WIDTH + n]
            for q in range(n):
                target[q] += source[place[q]]


@kernel
def _misfits(mem, n, unfit, pairs):
    """Marks in row ``unfit`` the designs of which a level does not hold what it must.

    Behind that row lie ``pairs`` of a need and a capacity. [B]
    """
    target = mem[unfit * WIDTH : unfit * WIDTH + n]
    for q in range(n):
        target[q] = 0.0
    for f in range(unfit + 1, unfit + 1 + 2 * pairs, 2):
        need, capacity = mem[f * WIDTH :], mem[(f + 1) * WIDTH :]
        for q in range(n):
            if not need[q] <= capacity[q]:
                target[q] = 1.0


@kernel
def fill_points(lo, numbers, arrays, constants, groups, pairs, height, plan_rows, facts, sums, places, out):
    """Rows ``places`` of the designs from ``lo`` on, or of ``numbers`` where there are any: fills ``out`` (k, n).

    ``sums`` (rows, n) holds what was priced beforehand. Rows of the plan come first in memory, then one that says what
    does not fit, what it follows from, and what else is wanted.
    """
    mem, place = np.zeros(height * WIDTH), np.zeros(WIDTH, np.int64)
    for c in range(constants[0].shape[0]):
        mem[constants[0][c] * WIDTH : (constants[0][c] + 1) * WIDTH] = constants[1][c]
    rows = mem[: plan_rows * WIDTH].reshape((plan_rows, WIDTH))
    for column in range(0, out.shape[1], WIDTH):
        n = min(WIDTH, out.shape[1] - column)
        gather(mem, WIDTH, lo + column, n, numbers[column : column + n], *arrays)
        for g in range(groups[0].shape[0]):
            top = groups[0][g, 0] * WIDTH
            mem[top : top + M * WIDTH] = 0.0
        _add_groups(mem, n, column, sums, place, *groups)
        _misfits(mem, n, plan_rows, pairs)
        time_figures(rows, n, *facts)
        money_figures(rows, n, facts[0])
        for k in range(places.shape[0]):
            source = mem[places[k] * WIDTH : places[k] * WIDTH + n]
            target = out[k, column : column + n]
            for q in range(n):
                target[q] = source[q]
