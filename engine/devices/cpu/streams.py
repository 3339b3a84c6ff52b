"""Operators of a stream beside each other, and streams beside streams: what each has to wait for. Estimates."""

import numpy as np

from engine.devices.common.contract import OFFCHIP, OVERHEAD
from engine.devices.cpu.flags import F
from engine.devices.cpu.share import R
from engine.devices.cpu.share import field_of as _of
from engine.kernels.ir.doubles import LANES, above, chosen, larger, load, spread, store
from engine.kernels.jit import kernel

# columns of the result, behind those of its time by resource
WORK, ROOF, MOVED, NEAR, BUSY = range(OVERHEAD + 1, 11)
WIDTH = 11
SOURCES = len(F)  # column of the flags with which the operators that each reads from begin


@kernel
def row_sum(table, j, upto):
    """Columns of a row before another one, added up."""
    total = spread(0.0)
    for r in range(upto):
        total = total + load(table, (j * WIDTH + r) * LANES)
    return total


@kernel
def side_by_side(rows, flags, executors, out):
    """Starts each op of ``out`` when what it reads is there and an executor is free, dealt in the graph's order.

    An op keeps the time by which the pass ends later with it: together they take as long as the schedule.
    """
    for lane in range(LANES):
        ends, free, last = np.zeros(flags.shape[0]), np.zeros(executors), 0.0
        for j in rows:
            took = 0.0
            for r in range(OVERHEAD + 1):
                took += out[(j * WIDTH + r) * LANES + lane]
            ready = 0.0
            for i in flags[j, SOURCES:]:
                ready = max(ready, ends[int(i)]) if i >= 0.0 else ready
            at = np.argmin(free)
            for executor in range(executors):  # that waits least for it, so that what comes next finds one free
                at = executor if free[at] < free[executor] <= ready else at
            start = max(free[at], ready)
            ends[j] = start + took
            free[at] = ends[j]
            if start < last:
                for r in range(OVERHEAD + 1):
                    out[(j * WIDTH + r) * LANES + lane] *= max(0.0, ends[j] - last) / max(took, 1e-30)
            last = max(last, ends[j])


@kernel
def wait_for_others(rows, rec, out):
    """Streams draw on DRAM at different times; where all of theirs takes longer than a pass, each op of ``out`` waits.

    A pass of each of N streams of B bytes takes N * B / bandwidth at least, and the calls of the others.
    """
    total, traffic = spread(0.0), spread(0.0)
    for j in rows:
        total += row_sum(out, j, OVERHEAD + 1)
        traffic += load(out, (j * WIDTH + MOVED) * LANES)
    contention = above(_of(rec, R.dram_streams) * _of(rec, R.inter_op), 1.0)
    minimum = traffic * _of(rec, R.dram_streams) / _of(rec, R.dram)
    longer = chosen(contention, larger(minimum - total, 0.0) / larger(traffic, 1.0), 0.0)
    total = larger(total, minimum)
    late = larger(_of(rec, R.other_calls) - total, 0.0) / larger(total, 1e-30)
    for j in rows:
        at = j * WIDTH * LANES
        waits = load(out, at + OFFCHIP * LANES) + longer * load(out, at + MOVED * LANES)
        store(out, at + OFFCHIP * LANES, waits)
        called = load(out, at + OVERHEAD * LANES) + late * row_sum(out, j, OVERHEAD + 1)
        store(out, at + OVERHEAD * LANES, called)
