"""Timing of a DFX program: units in parallel, each in order, results guarded by a scoreboard.

An instruction starts when its unit is free and its operands are valid. Where `chain` is set it may start as soon as
the first element of an operand of the same kind is out, and ends no sooner than one latency after it.
"""

from __future__ import annotations

import numpy as np

from engine.devices.dfx_isa.program import CHAIN, DEP1, DEP2, HANDOFF, LATENCY, OCCUPY, UNIT
from engine.kernels.jit import kernel

__all__ = ["run"]

N_UNITS = 5


@kernel
def run(code, count, chaining, start, done, push, busy):
    """Run ``count`` instructions; returns the cycle at which the last result is valid. [cycle]

    Parameters
    ----------
    code : (n, COLUMNS)
    chaining : whether dependent vector instructions follow element by element.
    start, done, push : (n,) outputs
        Start of the occupancy, cycle the result is valid, and by how much the instruction moved the end of the
        program: these add up to the total. [cycle]
    busy : (N_UNITS,) output
        Cycles each unit was occupied; the rest of the total is stall. [cycle]
    """
    free = np.zeros(N_UNITS)
    busy[:] = 0.0
    frontier = 0.0
    for i in range(count):
        unit = int(code[i, UNIT])
        ready = 0.0
        floor = 0.0
        follow = chaining and code[i, CHAIN] > 0.0
        for column in (DEP1, DEP2):
            dep = int(code[i, column])
            if dep < 0:
                continue
            if follow and code[dep, CHAIN] > 0.0 and int(code[dep, UNIT]) == unit:
                ready = max(ready, start[dep] + code[dep, LATENCY])
                floor = max(floor, done[dep])
            else:
                ready = max(ready, done[dep])
        begin = max(free[unit], ready + code[i, HANDOFF])
        start[i] = begin
        free[unit] = begin + code[i, OCCUPY]
        busy[unit] += code[i, OCCUPY]
        done[i] = max(begin + code[i, OCCUPY], floor) + code[i, LATENCY]
        ahead = max(done[i] - frontier, 0.0)
        push[i] = ahead
        frontier += ahead
    return frontier
