"""Programs of machines with an instruction set: shown, timed, run on numbers and checked, the shipped ones or a user's.

A program is text in its machine's mnemonics. Times are those of the families' own scoreboards, numbers those of their
functional machines beside a float64 run of the same instructions on drawn inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from engine.devices.common.assembly import ProgramError
from engine.devices.common.contract import Unsupported
from engine.devices.dfx import assembly as dfx_text
from engine.devices.dfx import program as isa
from engine.devices.dfx.core import LayerSizes, core_record, program_of, run_code
from engine.devices.dfx.machine import DfxMachine
from engine.devices.dfx.model import random_decoder
from engine.devices.dfx.oracle import Oracle
from engine.devices.npu import assembly as npu_text
from engine.devices.npu.chains import CELLS, CELLS_IN_ORDER, InstructionChain, VectorOp
from engine.devices.npu.family import cell_of
from engine.devices.npu.instance import Engine
from engine.devices.npu.machine import Processor, arithmetic, exact, relative_error
from engine.devices.npu.programs import HostOperator, MatrixWrite
from engine.devices.npu.timing import time_chains
from engine.resolve.bind import Bound, bind
from engine.scenario import Scenario, ScenarioError
from model_zoo.ops import Op, recurrence

__all__ = ["PARTS", "Listing", "Row", "Values", "execute", "listing", "mnemonics", "shipped"]

PARTS = ("layer", "head", "token")
"""Programs of a decoder that can be shown; other machines have one, of a step or of the whole network."""


@dataclass(frozen=True)
class Row:
    """An instruction, when it works, and what it waited for. Cycles from the start of the program."""

    number: int
    line: int
    text: str
    unit: str
    start: float
    end: float
    valid: float  # its result may be read
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    waits_for: int | None  # number of the instruction that let it go last
    hazard: str  # "", "read after write", "write after read", "write after write"


@dataclass(frozen=True)
class Listing:
    """A program as text, timed: all cycles, a row an instruction, busy cycles by unit. An estimate."""

    text: str
    cycles: float
    clock: float
    rows: tuple[Row, ...]
    bars: tuple[tuple[str, int, float, float], ...]  # unit, number, start, duration [cycle]
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Time of the program. [s]"""
        return self.cycles / self.clock

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"seconds": self.seconds, **asdict(self)}


@dataclass(frozen=True)
class Values:
    """A register before and after a run: its length, some of it, and how far it is from float64. [-]"""

    register: str
    elements: int
    before: tuple[float, ...]
    after: tuple[float, ...]
    error: float | None


def _machine(scenario: Scenario) -> Bound:
    bound = bind(scenario)
    if bound.device.dfx is None and bound.device.npu is None:
        raise ScenarioError(
            f"{bound.device.name} is a {bound.family.title}: it runs no program of its own instructions"
        )
    return bound


def mnemonics(scenario: Scenario) -> tuple[str, ...]:
    """Mnemonics of the scenario's machine."""
    return dfx_text.MNEMONICS if _machine(scenario).device.dfx is not None else npu_text.MNEMONICS


def shipped(scenario: Scenario, part: str = "layer") -> str:
    """Text of the program that the scenario's price rests on: of a decoder's `part`, of a step, of a network."""
    bound = _machine(scenario)
    if bound.device.dfx is not None:
        if part not in PARTS:
            raise ScenarioError(f"part is {part!r}; allowed: {', '.join(PARTS)}")
        reason = bound.family.supports(bound.device, bound.graph, scenario.precision)
        if reason:
            raise Unsupported(reason)
        cards = float(scenario.devices if scenario.scheme == "tensor" else 1)
        layer = LayerSizes.of(bound.graph.phases[0])
        found = program_of(part, cards, layer, float(scenario.inputs))
        return dfx_text.disassemble(dfx_text.DfxProgram(tuple(found)))
    return npu_text.disassemble(_npu_program(bound))


# --- the soft vector processor ---------------------------------------------------------------------------------------


def _npu_program(bound: Bound) -> npu_text.NpuProgram:
    """One step of the first recurrent cell, else the network's products with what rides behind them."""
    ops, s = bound.graph.phases[0].ops, bound.scenario
    at = next((i for i in range(len(ops)) if recurrence(ops, i)), None)
    if at is not None:
        return _cell_program(ops[at : at + recurrence(ops, at)], Engine.of(bound.device).in_order)
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
    return npu_text.NpuProgram(tuple(instructions), vectors, matrices)


def _cell_program(ops: Sequence[Op], in_order: bool) -> npu_text.NpuProgram:
    recurrent = next(op for op in ops if op.contraction and op.sequential)
    hidden, width = round(recurrent.k.coef), round(ops[0].k.coef)
    chains = (CELLS_IN_ORDER if in_order else CELLS)[cell_of(ops)]
    made = {c.target for c in chains} | {v.tap for c in chains for v in c.ops}
    operands = [c.source for c in chains] + [v.operand for c in chains for v in c.ops if v.operand]
    vectors = {name: width if name == "x" else hidden for name in operands if name not in made}
    matrices = {c.matrix: (hidden, width if c.matrix[0] == "W" else hidden) for c in chains if c.matrix}
    return npu_text.NpuProgram(chains, vectors, matrices)


def _npu_listing(bound: Bound, text: str) -> Listing:
    program, engine = npu_text.assemble(text), Engine.of(bound.device, bound.scenario.precision)
    npu_text.checked(program)
    chains, numbers, notes = [], [], []
    for number, one in enumerate(program.instructions):
        if isinstance(one, InstructionChain):
            chains.append(one)
            numbers.append(number)
        else:
            notes.append(
                f"line {program.lines[number]}: {type(one).__name__} runs outside the units and takes no cycle here"
            )
    lengths = npu_text.checked(program) if notes else program.vectors
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


def _npu_values(bound: Bound, text: str, seed: int, most: int | None) -> tuple[Values, ...]:
    program = npu_text.assemble(text)
    npu_text.checked(program)
    rng = np.random.default_rng(seed)
    if sum(n * k for n, k in program.matrices.values()) > 50_000_000:
        raise ScenarioError("the matrices have over 50,000,000 weights: a smaller network runs on numbers here")
    matrices = {name: rng.normal(0, k**-0.5, (n, k)).astype(np.float32) for name, (n, k) in program.matrices.items()}
    vectors = {name: rng.normal(0, 1, n).astype(np.float32) for name, n in program.vectors.items()}
    npu = bound.device.npu
    assert npu is not None
    native = round((npu.block or npu.native_dim).si) if bound.scenario.precision.startswith("ms-fp") else 0
    with np.errstate(all="ignore"):
        processor = Processor(arithmetic(bound.scenario.precision, native), matrices, vectors)
        got = processor.run(program.instructions[:most])
        wanted = exact(program.instructions[:most], matrices, vectors)
    return tuple(_values(name, vectors.get(name), got[name], wanted[name]) for name in got)


def _values(name: str, before: np.ndarray | None, after: np.ndarray, wanted: np.ndarray) -> Values:
    error = relative_error(after.astype(np.float64), wanted) if wanted.any() else None
    first = tuple(map(float, before[:4])) if before is not None else ()
    found = error if error is not None and math.isfinite(error) else None
    return Values(name, len(after), first, tuple(map(float, after[:4])), found)


# --- the transformer core --------------------------------------------------------------------------------------------


def _dfx_listing(bound: Bound, text: str) -> Listing:
    s = bound.scenario
    program = dfx_text.assemble(text)
    dfx_text.checked(program)
    device, wire = bound.device, bound.wire("peer")
    dfx = device.dfx
    assert dfx is not None
    cards = s.devices if s.scheme == "tensor" else 1
    record = core_record(
        device,
        wire.link if wire else None,
        wire.hops if wire else 1,
        cards,
        s.tile,
        bound.family.model(device, bound.model),
    )
    timed = run_code(isa.encode(program.instructions, record), s.switches.get("chaining", True), record)
    rows, bars = [], []
    for i, one in enumerate(program.instructions):
        unit, start, done = isa.UNITS[int(timed.code[i, isa.UNIT])], float(timed.start[i]), float(timed.done[i])
        busy = float(timed.code[i, isa.OCCUPY])
        bars.append((unit, i, start, busy))
        last, hazard = _waited(program.instructions, timed, i)
        reads = tuple(isa.REGISTERS[r] for r in (one.src1, one.src2) if r)
        writes = (isa.REGISTERS[one.dst],) if one.dst else ()
        said = dfx_text.disassemble(dfx_text.DfxProgram((one,))).strip()
        rows.append(Row(i, program.lines[i], said, unit, start, start + busy, done, reads, writes, last, hazard))
    return Listing(text, timed.cycles, dfx.clock.si, tuple(rows), tuple(bars))


def _waited(program: Sequence[isa.Instruction], timed: Any, i: int) -> tuple[int | None, str]:
    """The instruction before number i that let it go last, and what kind of hazard that was."""
    one, found = program[i], []
    unit = timed.code[:, isa.UNIT]
    for source in {one.src1, one.src2} - {isa.NONE}:
        writers = [j for j in range(i) if program[j].dst == source][-1:]
        found += [(timed.done[j], j, "read after write") for j in writers]
    if one.dst != isa.NONE:
        others = [j for j in range(i) if unit[j] != unit[i]]
        ends = timed.start + timed.code[:, isa.OCCUPY]
        found += [(ends[j], j, "write after read") for j in others if one.dst in (program[j].src1, program[j].src2)]
        found += [(timed.done[j], j, "write after write") for j in others if program[j].dst == one.dst]
    if not found:
        return None, ""
    _, last, hazard = max(found, key=lambda f: (f[0], f[2] == "read after write"))
    return last, hazard


def _dfx_values(bound: Bound, text: str, seed: int, most: int | None) -> tuple[Values, ...]:
    program = dfx_text.assemble(text)
    dfx_text.checked(program)
    s = bound.scenario
    cards = s.devices if s.scheme == "tensor" and any(one.op == isa.SYNC for one in program.instructions) else 1
    width, context = _sizes(program)
    heads = max(1, width // 64)
    if width % 64 or width > 2048:
        raise ScenarioError(f"the width is {width:,}: a multiple of 64 up to 2,048 runs on numbers here")
    device = bound.device
    model = random_decoder(heads=heads, layers=1, vocab=512, positions=1, seed=seed)
    record = core_record(device, None, 1, cards, s.tile, bound.family.model(device, bound.model))
    machine = DfxMachine(model, record)
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, width).astype(np.float16)
    stores = sum(one.op == isa.STORE_KEY for one in program.instructions)
    keys, values = (rng.normal(0, 1, (max(0, context - stores), width)).astype(np.float16) for _ in range(2))
    registers = {isa.X: x}
    try:
        code = isa.encode(program.instructions, record)[:most]
        got = machine.run(code, registers, list(keys), list(values))
        wanted = Oracle(model, registers, keys, values, cards).run(program.instructions[:most])
    except (KeyError, ValueError, IndexError) as error:
        raise ScenarioError(f"the program does not run on {width:,} elements and {context:,} tokens: {error}") from None
    return tuple(
        _values(isa.REGISTERS[r], x if r == isa.X else None, np.atleast_1d(v), wanted[r])
        for r, v in got.items()
        if r in wanted
    )


def _sizes(program: dfx_text.DfxProgram) -> tuple[int, int]:
    """Width and context a program is written for, read off its instructions."""
    attention = (isa.MASKED_MM, isa.EXP_OP, isa.SUB_MAXIMUM, isa.RECIPROCAL_OP)
    widths = [
        int(one.rows if one.op in isa.MATRIX else one.columns)
        for one in program.instructions
        if isa.X in (one.src1, one.dst) or one.op in (isa.MUL_GAMMA, isa.ADD_BETA)
    ]
    contexts = [int(one.columns) for one in program.instructions if one.op in attention]
    return max(widths, default=64), max(contexts, default=1)


# --- either ----------------------------------------------------------------------------------------------------------


def listing(scenario: Scenario, text: str) -> Listing:
    """A program timed on the scenario's machine. ProgramError names the line and column of what is wrong."""
    bound = _machine(scenario)
    return (_dfx_listing if bound.device.dfx is not None else _npu_listing)(bound, text)


def execute(scenario: Scenario, text: str, seed: int = 0, most: int | None = None) -> tuple[Values, ...]:
    """A program run on drawn numbers in the machine's arithmetic, each register beside float64. A measurement.

    With `most`, so many of its instructions are.
    """
    bound = _machine(scenario)
    try:
        return (_dfx_values if bound.device.dfx is not None else _npu_values)(bound, text, seed, most)
    except ProgramError:
        raise
    except MemoryError:
        raise ScenarioError("the program takes more memory than there is") from None
