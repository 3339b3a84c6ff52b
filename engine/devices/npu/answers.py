"""What the soft processor tells of itself: multiply-accumulators, what its formats cost a cell, programs of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.devices.common.fabric import LABELS, Demand
from engine.devices.common.instruction_set import (
    BoundMachine,
    Error,
    InstructionSet,
    Listing,
    Row,
    Use,
    Values,
    register,
)
from engine.devices.npu import assembly
from engine.devices.npu.accuracy import accuracy
from engine.devices.npu.chains import CELLS, CELLS_IN_ORDER, InstructionChain, VectorOp
from engine.devices.npu.density import densities, fabric, resized
from engine.devices.npu.family import cell_of, formats
from engine.devices.npu.instance import Engine
from engine.devices.npu.machine import Processor, arithmetic, exact
from engine.devices.npu.programs import HostOperator, MatrixWrite
from engine.devices.npu.timing import time_chains
from engine.scenario import ScenarioError
from model_zoo.ops import Op, recurrence

__all__ = ["INSTRUCTIONS"]


def _demand(machine: BoundMachine) -> Demand:
    return fabric(resized(machine.device, machine.scenario.precision), machine.scenario.precision)


def _uses(machine: BoundMachine) -> tuple[Use, ...]:
    device, format = machine.device, machine.scenario.precision
    npu, held = resized(device, format).npu, next((d for d in densities(device) if d.format == format), None)
    assert npu is not None
    units = npu.native_dim.si * npu.lanes.si * npu.tiles.si
    basis = "fitted to the 80,000 units printed for a Stratix 10 280"
    rows = [Use(f"multiply-accumulators, {format}", units, held.hard + held.soft if held else None, basis)]
    for resource, taken in _demand(machine).items():
        there = getattr(device.fpga, resource, None)
        most = there.si if there is not None else None
        rows.append(Use(LABELS[resource].removesuffix(" slices"), sum(taken.values()), most, "derived"))
    return tuple(rows)


def _errors(machine: BoundMachine) -> tuple[Error, ...]:
    """A recurrent cell of 16 steps, in each format of the device."""
    npu = machine.device.npu
    assert npu is not None
    cell = next((k for k in ("lstm", "gru") if k in machine.scenario.workload), "gru")
    native = round((npu.block or npu.native_dim).si)
    rows = []
    for format in formats(machine.device):
        for block, said in ((0, "an exponent a value"), (native, f"an exponent for {native} values")):
            if block and not format.startswith("ms-fp"):
                continue
            error = accuracy(cell, format, block)[-1]
            rows.append(Error(f"{cell.upper()} state after 16 steps, {format}", error, said))
    return tuple(rows)


def _program(machine: BoundMachine) -> assembly.NpuProgram:
    """One step of the first recurrent cell, else the network's products with what rides behind them."""
    ops, s = machine.graph.phases[0].ops, machine.scenario
    at = next((i for i in range(len(ops)) if recurrence(ops, i)), None)
    if at is not None:
        return _cell_program(ops[at : at + recurrence(ops, at)], Engine.of(machine.device).in_order)
    here = (1, float(s.inputs), float(s.inputs))
    instructions: list[Any] = []
    vectors: dict[str, int] = {}
    matrices: dict[str, tuple[int, int]] = {}
    value = "x"
    for op in ops:
        if op.kind not in ("Gemm", "Relu", "Sigmoid", "Tanh", "Softmax"):
            raise ScenarioError(
                f"{op.name} ({op.kind}) has no listing; recurrent and fully connected networks have one"
            )
        target = op.name.replace("-", "_")
        if op.kind == "Gemm":
            n, k = round(op.n.at(*here)), round(op.k.at(*here))
            vectors.setdefault("x", k)
            vectors[f"b_{target}"], matrices[f"W_{target}"] = n, (n, k)
            ops_here = (VectorOp("add", f"b_{target}"),)
            instructions.append(InstructionChain(value, ops_here, target, f"W_{target}"))
        elif op.kind == "Softmax":
            instructions.append(HostOperator("softmax", value, target))
        else:
            last = instructions.pop()
            added = VectorOp(op.kind.lower() if op.kind != "Sigmoid" else "sigmoid")
            instructions.append(InstructionChain(last.source, (*last.ops, added), target, last.matrix))
        value = target
    return assembly.NpuProgram(tuple(instructions), vectors, matrices)


def _cell_program(ops: Sequence[Op], in_order: bool) -> assembly.NpuProgram:
    recurrent = next(op for op in ops if op.contraction and op.sequential)
    hidden, width = round(recurrent.k.coef), round(ops[0].k.coef)
    chains = (CELLS_IN_ORDER if in_order else CELLS)[cell_of(ops)]
    made = {c.target for c in chains} | {v.tap for c in chains for v in c.ops}
    operands = [c.source for c in chains] + [v.operand for c in chains for v in c.ops if v.operand]
    vectors = {name: width if name == "x" else hidden for name in operands if name not in made}
    matrices = {c.matrix: (hidden, width if c.matrix[0] == "W" else hidden) for c in chains if c.matrix}
    return assembly.NpuProgram(chains, vectors, matrices)


def _listing(machine: BoundMachine, text: str) -> Listing:
    program, engine = assembly.assemble(text), Engine.of(machine.device, machine.scenario.precision)
    assembly.checked(program)
    chains, numbers, notes = [], [], []
    for number, one in enumerate(program.instructions):
        if isinstance(one, InstructionChain):
            chains.append(one)
            numbers.append(number)
        else:
            notes.append(
                f"line {program.lines[number]}: {type(one).__name__} runs outside the units and takes no cycle here"
            )
    lengths = assembly.checked(program) if notes else program.vectors
    shapes: dict[str, tuple[float, float]] = {name: (n, k) for name, (n, k) in program.matrices.items()}
    for one in program.instructions:
        if isinstance(one, MatrixWrite):
            high, width = len(one.rows), lengths[one.rows[0]]
            shapes[one.matrix] = (width, high) if one.transposed else (high, width)
    timed = time_chains(chains, engine, lengths, shapes)
    bars = tuple((bar.unit, numbers[bar.chain], bar.start, bar.duration) for bar in timed.bars)
    rows = []
    written: dict[str, int] = {}
    for at, chain in enumerate(chains):
        mine = [bar for bar in timed.bars if bar.chain == at]
        reads = (*chain.source.split("+"), *(v.operand for v in chain.ops if v.operand))
        writes = (*(v.tap for v in chain.ops if v.tap), chain.target)
        before = [written[name] for name in reads if name in written]
        last = max(before, key=lambda n: timed.valid[numbers.index(n)], default=None)
        words = [chain.matrix and f"mv_mul {chain.matrix}", *(f"{v.op} {v.operand}".strip() for v in chain.ops)]
        said = f"{chain.source} -> {' -> '.join(w for w in words if w)}{' -> ' if any(words) else ''}{chain.target}"
        unit = "matrix-vector unit" if chain.matrix else "multifunction unit"
        start = min(bar.start for bar in mine)
        end = max(bar.start + bar.duration for bar in mine)
        hazard = "read after write" if last is not None else ""
        line = program.lines[numbers[at]]
        rows.append(Row(numbers[at], line, said, unit, start, end, timed.valid[at], reads, writes, last, hazard))
        written.update(dict.fromkeys(writes, numbers[at]))
    return Listing(text, timed.cycles, engine.clock, tuple(rows), bars, tuple(notes))


def _values(machine: BoundMachine, text: str, seed: int, most: int | None) -> tuple[Values, ...]:
    program = assembly.assemble(text)
    assembly.checked(program)
    rng = np.random.default_rng(seed)
    if sum(n * k for n, k in program.matrices.values()) > 50_000_000:
        raise ScenarioError("the matrices have over 50,000,000 weights: a smaller network runs on numbers here")
    matrices = {name: rng.normal(0, k**-0.5, (n, k)).astype(np.float32) for name, (n, k) in program.matrices.items()}
    vectors = {name: rng.normal(0, 1, n).astype(np.float32) for name, n in program.vectors.items()}
    npu = machine.device.npu
    assert npu is not None
    native = round((npu.block or npu.native_dim).si) if machine.scenario.precision.startswith("ms-fp") else 0
    with np.errstate(all="ignore"):
        processor = Processor(arithmetic(machine.scenario.precision, native), matrices, vectors)
        got = processor.run(program.instructions[:most])
        wanted = exact(program.instructions[:most], matrices, vectors)
    return tuple(register(name, vectors.get(name), got[name], wanted[name]) for name in got)


INSTRUCTIONS = InstructionSet(
    assembly.MNEMONICS,
    lambda machine, part: assembly.disassemble(_program(machine)),
    _listing,
    _values,
    _demand,
    _uses,
    _errors,
    densities=densities,
)
