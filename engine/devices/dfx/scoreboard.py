"""Timing of a DFX program: units in parallel, each in order, results guarded by a scoreboard.

The scoreboard knows of every register who writes it last and until when others read it. An instruction starts when its
unit is free, its sources are valid, and nobody on another unit still reads or writes its target; where it waited for a
result it is issued then (`WAIT`). Where `CHAIN` is set it may start as soon as the first element of a source of the
same kind is out, and ends no sooner than one latency after it.
"""

import numpy as np

from engine.devices.common.contract import COMPUTE, LINKS, OFFCHIP, OVERHEAD
from engine.devices.dfx import program as isa
from engine.kernels.jit import kernel

N_UNITS, _REGISTERS = len(isa.UNITS), len(isa.REGISTERS)


@kernel
def _drain(code, count, valid, push, frontier):
    """When the last write to HBM is done too; one that others hide takes none of their time. [cycle]"""
    for i in range(count):
        if int(code[i, isa.UNIT]) == isa.WRITE and valid[i] > frontier:
            push[i] = valid[i] - frontier
            frontier = valid[i]
    return frontier


@kernel
def _free_of(code, i, writer, reader, read_until, valid):
    """From when on instruction i may write its target: nobody on another unit reads or writes it. [cycle]"""
    target, unit = int(code[i, isa.DST]), int(code[i, isa.UNIT])
    ready = 0.0
    if target > 0 and writer[target] >= 0 and int(code[writer[target], isa.UNIT]) != unit:
        ready = valid[writer[target]]
    if target > 0 and reader[target] >= 0 and int(code[reader[target], isa.UNIT]) != unit:
        ready = max(ready, read_until[target])
    return ready


@kernel
def run(code, count, chaining, start, valid, push):
    """Run ``count`` instructions; returns the cycle at which the last result is valid. [cycle]

    Parameters
    ----------
    code : (n, COLUMNS)
    chaining : whether dependent vector instructions follow element by element.
    start, valid, push : (n,) outputs
        Start of the occupancy, cycle the result is valid, and by how much the instruction moved the end of the
        program: these add up to the total. [cycle]
    """
    free = np.zeros(N_UNITS)
    writer = np.full(_REGISTERS, -1)
    reader = np.full(_REGISTERS, -1)  # the last one on another unit than the register's next writer may be
    read_until = np.zeros(_REGISTERS)
    frontier = 0.0
    for i in range(count):
        unit, target = int(code[i, isa.UNIT]), int(code[i, isa.DST])
        ready = _free_of(code, i, writer, reader, read_until, valid)
        floor = 0.0
        follow = chaining and code[i, isa.CHAIN] > 0.0
        for column in (isa.SRC1, isa.SRC2):
            dep = writer[int(code[i, column])]
            if dep < 0:
                continue
            if follow and code[dep, isa.CHAIN] > 0.0 and int(code[dep, isa.UNIT]) == unit:
                ready = max(ready, start[dep] + code[dep, isa.LATENCY])
                floor = max(floor, valid[dep])
            else:
                ready = max(ready, valid[dep] + code[i, isa.WAIT])
        begin = max(free[unit], ready)
        start[i] = begin
        free[unit] = begin + code[i, isa.OCCUPY]
        valid[i] = max(begin + code[i, isa.OCCUPY], floor) + code[i, isa.LATENCY]
        for column in (isa.SRC1, isa.SRC2):
            source = int(code[i, column])
            if source > 0 and free[unit] >= read_until[source]:
                reader[source], read_until[source] = i, free[unit]
        if target > 0:
            writer[target] = i
        push[i] = max(valid[i] - frontier, 0.0) if unit != isa.WRITE else 0.0
        frontier += push[i]
    return _drain(code, count, valid, push, frontier)


@kernel
def book(code, chaining, fill, start, valid, push, roles):
    """`run` a program and book its cycles in ``roles`` (roles, resources); returns all cycles. [cycle]

    ``fill`` is the share of the memory port that a beat uses. A tile narrower than the port, or a memory faster than
    a beat: the matrix unit is what the stream waits for.
    """
    cycles = run(code, code.shape[0], chaining, start, valid, push)
    roles[:] = 0.0
    for i in range(code.shape[0]):
        role, unit, ahead = int(code[i, isa.ROLE]), int(code[i, isa.UNIT]), push[i]
        stream = min(ahead, code[i, isa.OCCUPY]) if unit == isa.MPU else 0.0
        computing = stream if code[i, isa.OCCUPY] <= code[i, isa.BEATS] else stream * (1.0 - fill)
        link = min(ahead, code[i, isa.LATENCY]) if unit == isa.ROUTER else 0.0
        vector = ahead if unit == isa.VPU else 0.0
        store = ahead if unit in (isa.WRITE, isa.DDR) else 0.0
        roles[role, COMPUTE] += vector + computing
        roles[role, OFFCHIP] += stream - computing + store
        roles[role, LINKS] += link
        roles[role, OVERHEAD] += ahead - stream - vector - link - store
    return cycles


@kernel
def book_many(code, rows, columns, index, values, fills, chaining, out):
    """`book` one program for many cores: fills ``out`` (roles, resources, cores).

    Number v of ``code`` that differs between them lies at ``code[rows[v], columns[v]]`` and is ``values[which[v]]`` of
    each core; ``fills`` is the fill of each.
    """
    n = code.shape[0]
    start, valid, push, roles = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(out.shape[:2])
    for p in range(out.shape[2]):
        for v in range(rows.shape[0]):
            code[rows[v], columns[v]] = values[index[v], p]
        book(code, chaining, fills[p], start, valid, push, roles)
        for role in range(out.shape[0]):
            for r in range(out.shape[1]):
                out[role, r, p] = roles[role, r]
