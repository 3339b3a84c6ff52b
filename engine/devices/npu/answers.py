"""What the soft processor tells of itself: multiply-accumulators, what its formats cost a cell, programs of a step."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from engine.devices.common.fabric import LABELS, Demand
from engine.devices.common.instruction_set import (
    Error,
    InstructionSet,
    Listing,
    Row,
    Use,
    Values,
    register,
    relative_error,
)
from engine.devices.common.job import Job
from engine.devices.npu import assembly
from engine.devices.npu.chains import CELLS, CELLS_IN_ORDER, InstructionChain, VectorOp
from engine.devices.npu.density import densities, device_for, fabric
from engine.devices.npu.family import formats
from engine.devices.npu.instance import Engine
from engine.devices.npu.machine import Processor, arithmetic
from engine.devices.npu.pinning import npu_of
from engine.devices.npu.price import cell_of
from engine.devices.npu.programs import HostOperator, Instruction, MatrixWrite, attention, convolution, mlp, sequence
from engine.devices.npu.timing import HOST, MEMORY, UNITS, time_chains
from engine.scenario import ScenarioError
from engine.scenario.token import brief
from model_zoo.ops import Op, recurrence


def _demand(job: Job) -> Demand:
    return fabric(device_for(job.device, job.format), job.format)


def _uses(job: Job) -> tuple[Use, ...]:
    device, format = job.device, job.format
    npu, density = npu_of(device_for(device, format)), next((d for d in densities(device) if d.format == format), None)
    units = npu.native_dim.si * npu.lanes.si * npu.tiles.si
    basis = "fitted to the 80,000 units printed for a Stratix 10 280"
    rows = [Use(f"multiply-accumulators, {format}", units, density.hard + density.soft if density else None, basis)]
    for resource, counts in _demand(job).items():
        there = getattr(device.fpga, resource, None)
        available = there.si if there is not None else None
        rows.append(Use(LABELS[resource].removesuffix(" slices"), sum(counts.values()), available, "derived"))
    return tuple(rows)


_GATES = {"gru": "rzn", "lstm": "fiog"}
_WIDTH, _STEPS_RUN = 128, 16


@lru_cache(maxsize=64)
def accuracy(cell: str, format: str, native: int = 0) -> tuple[float, ...]:
    """Relative error of the state after each step, for a drawn network and input. [-] A measurement, of these only.

    With `native`, the mantissas of that many values share one exponent; else each value keeps its own.
    """
    rng, size = np.random.default_rng(0), (_WIDTH, _WIDTH)
    w: dict[str, np.ndarray] = {}
    for gate in _GATES[cell]:
        for name in "WU":
            w[f"{name}{gate}"] = rng.normal(0, _WIDTH**-0.5, size).astype(np.float32)
        w[f"b{gate}"] = rng.normal(0, 0.1, _WIDTH).astype(np.float32)
    xs = rng.normal(0, 1, (_STEPS_RUN, _WIDTH)).astype(np.float32)
    vectors = {f"x{t}.0": x for t, x in enumerate(xs)} | {f"{k}.0": v for k, v in w.items() if k[0] == "b"}
    vectors |= {state: np.zeros(_WIDTH, np.float32) for state in ("h0.0", "c0.0")}
    matrices = {k: v for k, v in w.items() if k[0] != "b"}
    program, formats = sequence(CELLS[cell], _STEPS_RUN), (arithmetic(format, native), None)
    got, exact = (Processor(form, matrices, vectors).run(program) for form in formats)
    return tuple(relative_error(got[f"h{t}.0"], exact[f"h{t}.0"]) for t in range(1, _STEPS_RUN + 1))


def _errors(job: Job) -> tuple[Error, ...]:
    """A recurrent cell of 16 steps, in each format of the device."""
    npu, cells = npu_of(job.device), {cell_of(job.ops[i : i + recurrence(job.ops, i)]) for i in range(len(job.ops))}
    cell = "lstm" if "lstm" in cells else "gru"
    native = round((npu.block or npu.native_dim).si)
    rows = []
    for format in formats(job.device):
        for block, label in ((0, "an exponent a value"), (native, f"an exponent for {native} values")):
            if block and not format.startswith("ms-fp"):
                continue
            error = accuracy(cell, format, block)[-1]
            rows.append(Error(f"{cell.upper()} state after 16 steps, {format}", error, label))
    return tuple(rows)


def _program(job: Job) -> assembly.NpuProgram:
    """One step of the first recurrent cell, else the network's products with what rides behind them."""
    ops, here = job.phase.ops, (1, float(job.length), float(job.context))
    at = next((i for i in range(len(ops)) if recurrence(ops, i)), None)
    if at is not None:
        return _cell_program(ops[at : at + recurrence(ops, at)], Engine.of(job.device).in_order)
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
            chain = (*last.ops, VectorOp(op.kind.lower()))
            instructions.append(InstructionChain(last.source, chain, target, last.matrix))
        value = target
    return assembly.NpuProgram(tuple(instructions), vectors, matrices)


def _cell_program(ops: Sequence[Op], in_order: bool) -> assembly.NpuProgram:
    recurrent = next(op for op in ops if op.contraction and op.sequential)
    hidden, width = round(recurrent.k.coef), round(ops[0].k.coef)
    chains = (CELLS_IN_ORDER if in_order else CELLS)[cell_of(ops)]
    results = {c.target for c in chains} | {v.tap for c in chains for v in c.ops}
    operands = [c.source for c in chains] + [v.operand for c in chains for v in c.ops if v.operand]
    vectors = {name: width if name == "x" else hidden for name in operands if name not in results}
    matrices = {c.matrix: (hidden, width if c.matrix[0] == "W" else hidden) for c in chains if c.matrix}
    return assembly.NpuProgram(chains, vectors, matrices)


_STEPS = 4  # tokens, and places a side, of the programs that no scenario gives a size
_PARTS = ("layer", "attention", "convolution", "mlp")


def _part_program(job: Job, part: str) -> assembly.NpuProgram:
    """Attention of a few tokens, a 3 x 3 convolution or a perceptron, as wide as the instance's native vector."""
    width, side = round(Engine.of(job.device).native), _STEPS
    x = {f"x{t}": width for t in range(side * side if part == "convolution" else side)}
    if part == "attention":
        return assembly.NpuProgram(
            attention(side), x | {"scale": side}, dict.fromkeys(("Wq", "Wk", "Wv"), (width, width))
        )
    if part == "convolution":
        vectors = x | {"zero": width, "b": width}
        return assembly.NpuProgram(convolution((side, side), (3, 3)), vectors, {"W": (width, 9 * width)})
    vectors = {"x": width} | {f"b{i}": width for i in (1, 2, 3)}
    return assembly.NpuProgram(mlp(3), vectors, {f"W{i}": (width, width) for i in (1, 2, 3)})


def _program_text(job: Job, part: str) -> str:
    if part not in _PARTS:
        raise ScenarioError(f"part is {brief(part)}; allowed: {', '.join(_PARTS)}")
    return assembly.disassemble(_program(job) if part == _PARTS[0] else _part_program(job, part))


def _assemble(job: Job, text: str) -> assembly.NpuProgram:
    """A text's program; ProgramError where the instance's register files and queue don't hold it."""
    npu, program = npu_of(job.device), assembly.assemble(text)
    limits = {"elements": npu.vector_elements, "queue": npu.queue}
    assembly.register_lengths(program, **{name: limit.si for name, limit in limits.items() if limit})
    return program


def _line(instr: Instruction) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
    """An instruction in a line, its unit, and what it reads and writes."""
    if isinstance(instr, HostOperator):
        return f"{instr.source} -> {instr.op} on the host -> {instr.target}", HOST, (instr.source,), (instr.target,)
    if isinstance(instr, MatrixWrite):
        side = "columns" if instr.transposed else "rows"
        return f"{', '.join(instr.rows)} -> {side} of {instr.matrix}", MEMORY, instr.rows, (instr.matrix,)
    reads = (*instr.source.split("+"), *filter(None, (*(v.operand for v in instr.ops), instr.matrix)))
    words = [instr.matrix and f"mv_mul {instr.matrix}", *(f"{v.op} {v.operand}".strip() for v in instr.ops)]
    text = f"{instr.source} -> {' -> '.join(w for w in words if w)}{' -> ' if any(words) else ''}{instr.target}"
    return text, UNITS[0] if instr.matrix else UNITS[1], reads, (*(v.tap for v in instr.ops if v.tap), instr.target)


def _listing(job: Job, text: str) -> Listing:
    program, engine = _assemble(job, text), Engine.of(job.device, job.format)
    visit = job.model["host_visit"] * engine.clock
    timing = time_chains(program.instructions, engine, program.vectors, program.matrices, visit)
    rows = []
    writers: dict[str, int] = {}
    for at, instr in enumerate(program.instructions):
        spans = [(start, start + duration) for _, chain, start, duration in timing.bars if chain == at]
        line, unit, reads, writes = _line(instr)
        last = max((writers[name] for name in reads if name in writers), key=lambda n: timing.valid[n], default=None)
        start, end = min(start for start, _ in spans), max(end for _, end in spans)
        hazard = "read after write" if last is not None else ""
        rows.append(Row(at, program.lines[at], line, unit, start, end, timing.valid[at], reads, writes, last, hazard))
        writers.update(dict.fromkeys(writes, at))
    return Listing(text, timing.cycles, engine.clock, tuple(rows), timing.bars)


def _values(job: Job, text: str, seed: int, limit: int | None) -> tuple[Values, ...]:
    program = _assemble(job, text)
    rng = np.random.default_rng(seed)
    if sum(n * k for n, k in program.matrices.values()) > 50_000_000:
        raise ScenarioError("the matrices have over 50,000,000 weights: a smaller network runs on numbers here")
    matrices = {name: rng.normal(0, k**-0.5, (n, k)).astype(np.float32) for name, (n, k) in program.matrices.items()}
    vectors = {name: rng.normal(0, 1, n).astype(np.float32) for name, n in program.vectors.items()}
    npu = npu_of(job.device)
    formats = arithmetic(job.format, round((npu.block or npu.native_dim).si)), None
    with np.errstate(all="ignore"):
        got, reference = (Processor(form, matrices, vectors).run(program.instructions[:limit]) for form in formats)
    return tuple(register(name, vectors.get(name), got[name], reference[name]) for name in got)


INSTRUCTIONS = InstructionSet(
    assembly.MNEMONICS,
    _program_text,
    _listing,
    _values,
    _demand,
    _uses,
    _errors,
    densities=densities,
)
