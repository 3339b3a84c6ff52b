"""A program of the NPU timed on an instance, chain by chain.

A decoupled instance runs ahead: only depths lie on the path from a state to the next one, and the units' occupancy
overlaps it, so a program takes the longest of the three. An instance that issues in order passes every chain through
all units one after the other (matrix-vector unit, multifunction units, loader); each unit takes chains in program
order, and a chain waits until the vector it reads, or an operand of its unit, is written whole. Estimates.
Sources: Chung et al., IEEE Micro 2018 (units, decoupling); in-order issue and its depths after intel/fpga-npu, whose
printed rates the depths were fitted on.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise

from engine.devices.npu.chains import CELLS_IN_ORDER, InstructionChain, cut, finish
from engine.devices.npu.instance import Engine
from engine.devices.npu.programs import HostOperator, Instruction, MatrixWrite, sequence

UNITS = ("matrix-vector unit", "multifunction unit", "loader")
MEMORY, HOST = "matrix memory", "host"


@dataclass(frozen=True)
class TimedChains:
    """A program that was timed: all cycles, what units did, and when each chain's result was whole. [cycle]"""

    cycles: float
    bars: tuple[tuple[str, int, float, float], ...]  # unit, chain, start, duration
    valid: tuple[float, ...]


class _Clock:
    """Registers of a program under way: how long each is and when it is whole."""

    def __init__(self, engine: Engine, lengths: Mapping[str, float], shapes: Mapping[str, tuple[float, float]]) -> None:
        self.engine, self.lengths, self.shapes = engine, dict(lengths), dict(shapes)
        self.ready: dict[str, float] = dict.fromkeys(lengths, 0.0)
        self.filled: dict[str, float] = {}  # when a matrix written by the program is whole
        self.bars: list[tuple[str, int, float, float]] = []
        self.free: defaultdict[str, float] = defaultdict(float)  # when each unit is done with what it was given

    def length(self, source: str) -> float:
        """Elements of a register, or of several side by side. [-]"""
        return sum(self.lengths[part] for part in source.split("+"))

    def at(self, source: str, matrix: str = "") -> float:
        """When a register is whole, and a matrix it is multiplied by. [cycle]"""
        return max(self.filled.get(matrix, 0.0), *(self.ready[part] for part in source.split("+")))

    def outside(self, number: int, instr: MatrixWrite | HostOperator, host: float) -> float:
        """A matrix written row by row, or a call to the host; returns when what it makes is whole. [cycle]"""
        if isinstance(instr, HostOperator):
            start, cycles, unit = max(self.at(instr.source), self.free[HOST]), host, HOST
            self.lengths[instr.target], self.ready[instr.target] = self.length(instr.source), start + cycles
        else:
            start, unit = max(self.ready[row] for row in instr.rows), MEMORY
            width = self.length(instr.rows[0])
            cycles = len(instr.rows) * self.engine.vectors(width) * self.engine.vector_beats
            self.filled[instr.matrix] = start + cycles
            shape = len(instr.rows), width
            self.shapes[instr.matrix] = shape[::-1] if instr.transposed else shape
        self.book(unit, number, start, cycles)
        return start + cycles

    def book(self, unit: str, number: int, start: float, cycles: float) -> None:
        """A unit busy with an instruction. [cycle]"""
        self.free[unit] = start + cycles
        self.bars.append((unit, number, start, cycles))

    def product(self, chain: InstructionChain) -> tuple[float, float]:
        """Elements that leave a chain's product, and the cycles it keeps the tile engines. [-], [cycle]"""
        if not chain.matrix:
            return self.length(chain.source), 0.0
        n, k = self.shapes[chain.matrix]
        return n, self.engine.product(1.0, n, k)


class _InOrder(_Clock):
    """Units in a row, each in program order."""

    def run(self, number: int, chain: InstructionChain, places: tuple[int, ...]) -> None:
        """One chain that fits the units, through all of them."""
        pipe, engine = self.engine.pipe, self.engine
        elements, product = self.product(chain)
        beats = engine.vectors(elements) * engine.vector_beats
        begin = max(self.at(chain.source, chain.matrix), self.free[UNITS[0]])
        busy = product if chain.matrix else beats
        self.book(UNITS[0], number, begin, busy)
        first = begin + pipe.dispatch + pipe.read + (pipe.product if chain.matrix else 0.0)
        last = first + busy
        first += max(0.0, busy - beats)  # sums of all columns are whole in the last pass over the rows only
        for i in range(pipe.mfus):
            unit = f"{UNITS[1]} {i}"
            here = [v for v, place in zip(chain.ops, places, strict=True) if place == i]
            ready = max([self.at(v.operand) for v in here if v.operand], default=0.0)
            first = max(first, self.free[unit], ready)
            last = max(last, first + beats)
            self.book(unit, number, first, last - first)
            first, last = first + pipe.mfu, last + pipe.mfu
        first = max(first, self.free[UNITS[2]])
        last = max(last, first + beats)
        self.book(UNITS[2], number, first, last - first)
        for name in (chain.target, *(v.tap for v in chain.ops if v.tap)):
            self.lengths[name], self.ready[name] = elements, last + pipe.write


class _Decoupled(_Clock):
    """Units that run ahead: occupancy and dependence are clocks of their own."""

    matrix = 0.0
    vector = 0.0

    def run(self, number: int, chain: InstructionChain, places: tuple[int, ...]) -> None:
        """One chain that fits the units."""
        elements, product = self.product(chain)
        beats = self.engine.vectors(elements) * self.engine.vector_beats
        there = self.at(chain.source, chain.matrix)
        if product:
            self.bars.append((UNITS[0], number, max(self.matrix, there), product))
        self.bars.append((UNITS[1], number, max(self.vector, there), beats))
        self.matrix, self.vector = self.matrix + product, self.vector + beats
        ready = self.ready | {chain.source: there} | {v.operand: self.at(v.operand) for v in chain.ops if v.operand}
        for name, cycle in finish(chain, places, self.engine.pipe, ready).items():
            self.lengths[name], self.ready[name] = elements, cycle


def time_chains(
    program: Sequence[Instruction],
    engine: Engine,
    lengths: Mapping[str, float],
    shapes: Mapping[str, tuple[float, float]],
    host: float = 0.0,
) -> TimedChains:
    """Cycles of a program; ``lengths`` of the vectors there at its start, ``shapes`` (n, k) of matrices.

    [cycle] An estimate. A call to the host takes ``host`` cycles.
    """
    clock = (_InOrder if engine.in_order else _Decoupled)(engine, lengths, shapes)
    valid = []
    for number, instr in enumerate(program):
        if not isinstance(instr, InstructionChain):
            valid.append(clock.outside(number, instr, host))
            continue
        for piece, places in cut(instr, engine.pipe.mfus, engine.in_order):
            clock.run(number, piece, places)
        valid.append(clock.ready[instr.target])
    end = max(valid, default=0.0)
    if isinstance(clock, _Decoupled):
        end = max(end, clock.matrix, clock.vector)
    return TimedChains(end, tuple(clock.bars), tuple(valid))


_LOOK = 16  # steps that are run to see whether one more takes as long as the one before
_ALIKE = 6  # of them, the last ones, that must


@lru_cache(maxsize=4096)
def _ends(
    cell: str, engine: Engine, rows: float, hidden: float, width: float, steps: int, together: int
) -> tuple[float, ...]:
    """Cycles after each step of a sequence's program."""
    program = sequence(CELLS_IN_ORDER[cell], steps, together, not width)
    operands = {v.operand for c in program for v in c.ops if v.operand} | {c.source for c in program}
    lengths = dict.fromkeys(operands, rows) | {f"h0.{i}": hidden for i in range(together)}
    lengths |= {f"x{t}.{i}": width for t in range(steps) for i in range(together)}
    shapes = {c.matrix: (rows, width if c.matrix[0] == "W" else hidden) for c in program if c.matrix}
    valid, per_step = time_chains(program, engine, lengths, shapes).valid, len(program) // steps
    return tuple(accumulate((max(valid[at : at + per_step]) for at in range(0, len(valid), per_step)), max))


def sequence_cycles(
    cell: str, engine: Engine, rows: float, hidden: float, width: float, steps: int, together: int = 1
) -> float:
    """Cycles of a sequence of a recurrent cell on an instance that issues in order: its program run. [cycle]

    Every chain waits for chains before it alone, so a run becomes periodic: once steps take equally long, so do all
    that follow. Where they don't within a few steps, the whole sequence is run.

    Parameters
    ----------
    rows : elements of the state this device works out; ``hidden`` are all of them.
    width : elements of an input whose products are part of the program; 0: there are none.
    together : cells side by side that are issued in turn.
    """
    ends = _ends(cell, engine, rows, hidden, width, min(steps, _LOOK), together)
    if steps <= _LOOK:
        return ends[-1]
    gaps = {after - before for before, after in pairwise(ends[-_ALIKE - 1 :])}
    if len(gaps) > 1:
        return _ends(cell, engine, rows, hidden, width, steps, together)[-1]
    return ends[-1] + (steps - _LOOK) * gaps.pop()
