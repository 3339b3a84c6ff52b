"""What the transformer core tells of itself: slices by tile, what half precision costs it, programs of a decoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from engine.devices.common.contract import Unsupported
from engine.devices.common.fabric import LABELS, Demand
from engine.devices.common.instruction_set import (
    PARTS,
    TIE,
    Error,
    InstructionSet,
    Listing,
    Row,
    TileChoice,
    Use,
    Values,
    register,
)
from engine.devices.common.job import Job
from engine.devices.dfx import assembly
from engine.devices.dfx import program as isa
from engine.devices.dfx.core import core_of, core_record, run_code, vector_lanes
from engine.devices.dfx.decoder import program_of
from engine.devices.dfx.fabric import PLATFORM, dsp_slices, fabric
from engine.devices.dfx.family import record_of, supports
from engine.devices.dfx.machine import Decoder, DfxMachine, random_decoder
from engine.devices.dfx.program import LayerSizes
from engine.scenario import ScenarioError
from engine.scenario.token import brief
from hardware_specs.schema import Device


def _tile(job: Job) -> tuple[int, int]:
    core, tile = core_of(job.device), job.tile
    return (tile[0], tile[1]) if tile else (round(core.d.si), round(core.l.si))


def _best(device: Device, format: str, costs: Mapping[tuple[int, int], float]) -> tuple[tuple[int, int], float]:
    """Of those within `TIE` of the least cost the tile of the fewest slices, and those."""
    lanes, limit = vector_lanes(core_of(device)), min(costs.values()) * (1 + TIE)
    slices = {tile: sum(dsp_slices(*tile, lanes, format).values()) for tile, cost in costs.items() if cost <= limit}
    return min(slices.items(), key=lambda item: (item[1], costs[item[0]]))


def _demand(job: Job) -> Demand:
    return fabric(job.device, _tile(job), job.format)


def _uses(job: Job) -> tuple[Use, ...]:
    """Of DSP slices also each unit's."""
    rows = []
    for resource, units in _demand(job).items():
        there = getattr(job.device.fpga, resource, None)
        available, label = there.si if there is not None else None, LABELS[resource].removesuffix(" slices")
        basis = "derived"
        if PLATFORM in units:
            basis = f"{100 * (1.0 - units[PLATFORM] / sum(units.values())):.0f}% counted, the rest as printed"
        if resource == "dsp":
            rows += [Use(f"{label}, {name}", number, available, basis) for name, number in units.items()]
            label = f"{label}, whole core"
        rows.append(Use(label, sum(units.values()), available, basis))
    return tuple(rows)


_PROMPT, _TOKENS = [1, 5, 9, 200], 16


@dataclass(frozen=True)
class Accuracy:
    """Tokens until the first that is another one in float64, and how far logits lie apart, of the reference's spread.

    ``deviation`` is the largest difference of the last logits, ``lead`` the least lead of a token of the reference over
    the next likely one. [-]
    """

    agreement: int
    deviation: float
    lead: float


@lru_cache(maxsize=64)
def accuracy(record: tuple[float, ...], format: str = "fp16") -> Accuracy:
    """A drawn GPT-2 run on the cores of a format's `core_record` and in float64. A measurement, of it alone.

    Rounding may turn a token whose lead is smaller than the deviation; the leads of this one are larger.
    """
    model = random_decoder(4, 2, 512, 64, 64, seed=4)
    machine, exact = DfxMachine(model, record, format), DfxMachine(model, record, exact=True)
    output, reference = machine.generate(_PROMPT, _TOKENS), exact.generate(_PROMPT, _TOKENS)
    logits = np.sort(exact.history[len(_PROMPT) - 1 :], axis=1)
    lead = float(((logits[:, -1] - logits[:, -2]) / logits.std(axis=1)).min())
    exact.generate([*_PROMPT, *output[:-1]], 1)  # the same tokens
    apart = float(np.abs(machine.logits.astype(np.float64) - exact.logits).max() / exact.logits.std())
    return Accuracy(next((i for i in range(_TOKENS) if output[i] != reference[i]), _TOKENS), apart, lead)


def _errors(job: Job) -> tuple[Error, ...]:
    """A GPT-2 of two layers on the core's cards."""
    result = accuracy(record_of(job), job.format)
    note = f"{result.agreement} of {_TOKENS} tokens are those of float64; "
    note += f"each leads the next likely one by {result.lead:.1%} or more"
    return (Error("Logits of a 2-layer GPT-2", result.deviation, note),)


def _program_text(job: Job, part: str) -> str:
    if part not in PARTS:
        raise ScenarioError(f"part is {brief(part)}; allowed: {', '.join(PARTS)}")
    reason = supports(job.device, job.graph, job.format)
    if reason:
        raise Unsupported(reason)
    program = program_of(part, record_of(job), LayerSizes.of(job.phase), float(job.context))
    return assembly.disassemble(assembly.DfxProgram(tuple(program)))


def _listing(job: Job, text: str) -> Listing:
    program = assembly.assemble(text)
    assembly.check(program, _tile(job))
    record = record_of(job)
    timing = run_code(isa.encode(program.instructions, record), job.switches["chaining"], record[isa.FILL])
    rows, bars = [], []
    for i, instr in enumerate(program.instructions):
        unit, start, valid = isa.UNITS[int(timing.code[i, isa.UNIT])], float(timing.start[i]), float(timing.valid[i])
        busy = float(timing.code[i, isa.OCCUPY])
        bars.append((unit, i, start, busy))
        last, hazard = _hazard(program.instructions, timing, i)
        reads = tuple(isa.REGISTERS[r] for r in (instr.src1, instr.src2) if r)
        writes = (isa.REGISTERS[instr.dst],) if instr.dst else ()
        words = assembly.disassemble(assembly.DfxProgram((instr,))).strip()
        rows.append(Row(i, program.lines[i], words, unit, start, start + busy, valid, reads, writes, last, hazard))
    return Listing(text, timing.cycles, core_of(job.device).clock.si, tuple(rows), tuple(bars))


def _hazard(program: Sequence[isa.Instruction], timing: Any, i: int) -> tuple[int | None, str]:
    """The instruction before number i that let it go last, and what kind of hazard that was."""
    instr, hazards = program[i], []
    unit = timing.code[:, isa.UNIT]
    for source in {instr.src1, instr.src2} - {isa.NONE}:
        writers = [j for j in range(i) if program[j].dst == source][-1:]
        hazards += [(timing.valid[j], j, "read after write") for j in writers]
    if instr.dst != isa.NONE:
        rivals = [j for j in range(i) if unit[j] != unit[i]]
        ends = timing.start + timing.code[:, isa.OCCUPY]
        hazards += [(ends[j], j, "write after read") for j in rivals if instr.dst in (program[j].src1, program[j].src2)]
        hazards += [(timing.valid[j], j, "write after write") for j in rivals if program[j].dst == instr.dst]
    if not hazards:
        return None, ""
    _, last, hazard = max(hazards, key=lambda f: (f[0], f[2] == "read after write"))
    return last, hazard


def _values(job: Job, text: str, seed: int, limit: int | None) -> tuple[Values, ...]:
    program = assembly.assemble(text)
    assembly.check(program, _tile(job))
    cards = job.ways if any(instr.op == isa.SYNC for instr in program.instructions) else 1
    width, context = _sizes(program)
    if width % 64 or width > 2048:
        raise ScenarioError(f"the width is {width:,}: a multiple of 64 up to 2,048 runs on numbers here")
    model = _random_layer(program, width, context, cards, seed)
    record = core_record(job.device, None, 1, cards, job.tile, job.model, format=job.format)
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, width).astype(np.float16)
    stores = sum(instr.op == isa.STORE_KEY for instr in program.instructions)
    shape = (max(0, context - stores), width // model.shared)
    keys, values = (rng.normal(0, 1, shape).astype(np.float16) for _ in range(2))
    code = program.instructions[:limit]
    try:
        got, reference = (
            DfxMachine(model, record, job.format, exact).run(code, {isa.X: x}, keys, values) for exact in (False, True)
        )
    except (KeyError, ValueError, IndexError) as error:
        raise ScenarioError(f"the program does not run on {width:,} elements and {context:,} tokens: {error}") from None
    return tuple(
        register(isa.REGISTERS[r], x if r == isa.X else None, np.atleast_1d(v), np.atleast_1d(reference[r]))
        for r, v in got.items()
    )


def _random_layer(program: assembly.DfxProgram, width: int, context: int, cards: int, seed: int) -> Decoder:
    """A layer of the sizes that a program's products have, weights drawn."""
    products = [instr for instr in program.instructions if instr.op in isa.PROJECTIONS]
    columns = {int(instr.arg): int(instr.columns) for instr in products}
    ffn = max((columns[r] * cards for r in (isa.FC1, isa.GATE) if r in columns), default=4 * width)
    gated = any(instr.arg in (isa.GATE, isa.UP, isa.DOWN) for instr in products)
    shared = max(1, round(columns.get(isa.QUERY, 1) / columns.get(isa.KEY, columns.get(isa.QUERY, 1))))
    head = next((int(instr.rows) for instr in program.instructions if instr.op in (isa.MASKED_MM, isa.ROTATE)), 64)
    if width % (head * shared):
        raise ScenarioError(f"the width is {width:,}: no whole number of {shared} heads of {head} elements")
    return random_decoder(width // head, 1, 512, context + 1, head, seed, ffn, shared, gated)


def _sizes(program: assembly.DfxProgram) -> tuple[int, int]:
    """Width and context a program is written for, read off its instructions."""
    attention = (isa.MASKED_MM, isa.EXP_OP, isa.SUB_MAXIMUM, isa.RECIPROCAL_OP)
    widths = [
        int(instr.rows if instr.op in isa.MATRIX else instr.columns)
        for instr in program.instructions
        if isa.X in (instr.src1, instr.dst) or instr.op in (isa.LOAD_GAMMA, isa.LOAD_BETA)
    ]
    contexts = [int(instr.columns) for instr in program.instructions if instr.op in attention]
    return max(widths, default=64), max(contexts, default=1)


INSTRUCTIONS = InstructionSet(
    assembly.MNEMONICS, _program_text, _listing, _values, _demand, _uses, _errors, TileChoice(_tile, _best)
)
