"""Programs of the DFX core as text and back, in the document's format: type, first source, second source, target.

``Conv1D normed, -, v  rows=1024 n=1024 w=value  @value``: sizes stand behind the registers, the part of the network
that an instruction belongs to behind ``@``. Source of the mnemonics: Hong et al., MICRO 2022, section IV-C; a suffix
names what the hardware takes implicitly (gamma, beta, 1 / width, the maximum of the scores).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from engine.devices.common.instruction_set import Line, ProgramError, Word, lines_of, unknown, whole
from engine.devices.dfx import program as isa
from engine.devices.dfx.program import MNEMONICS, Instruction

_TWO = frozenset((isa.ADD_OP, isa.SUB_SCALAR, isa.MUL_OP, isa.MUL_SCALAR, isa.MUL_HEAD, isa.MASKED_MM, isa.MM))
_WEIGHTS = tuple(
    isa.ROLES[r]
    for r in (isa.VALUE, isa.KEY, isa.QUERY, isa.ATTENTION_OUT, isa.FC1, isa.FC2, isa.GATE, isa.UP, isa.DOWN)
)
_WEIGHED = isa.PROJECTIONS | {isa.LOAD_WEIGHTS}
_BUFFERS = (isa.TILE, isa.TILE1)
_NORMS = tuple(isa.ROLES[r] for r in (isa.NORM1, isa.NORM2, isa.FINAL_NORM))
_HEADED = frozenset((isa.MASKED_MM, isa.MM, isa.SUB_MAXIMUM))
LONGEST = 262_144
"""Elements of a vector: the register file and its buffers lie in on-chip memory."""


@dataclass(frozen=True)
class DfxProgram:
    """Instructions and the line of the text each stands on."""

    instructions: tuple[Instruction, ...]
    lines: tuple[int, ...] = ()


def _register(word: Word) -> int:
    if word.text not in isa.REGISTERS:
        raise unknown(word, "register", isa.REGISTERS)
    return isa.REGISTERS.index(word.text)


def _options(words: Sequence[Word]) -> dict[str, tuple[Word, str]]:
    """``key=value`` words by key."""
    result: dict[str, tuple[Word, str]] = {}
    for word in words:
        key, sign, value = word.text.partition("=")
        if not sign or key not in ("n", "rows", "w", "head"):
            raise word.wrong(f"{word.text[:40]!r} is no size of an instruction; allowed: n=, rows=, w=, head=, @part")
        if key in result:
            raise word.wrong(f"{key}= stands here twice")
        result[key] = (word, value)
    return result


def _argument(op: int, role: int, head: Word, options: dict[str, tuple[Word, str]]) -> float:
    """Which weights a product takes, or which head."""
    if op in _WEIGHED:
        word, name = options.get("w", (head, isa.ROLES[role]))
        if name not in _WEIGHTS:
            raise word.wrong(f"weights {name[:40]!r} are not known; allowed: w={', w='.join(_WEIGHTS)}")
        return float(isa.ROLES.index(name))
    if op == isa.MM_ARGMAX:
        return float(isa.LM_HEAD)
    return float(whole(*options["head"], "head=", 0, 255)) if "head" in options else 0.0


def _instruction(line: Line) -> Instruction:
    head = line.head
    if head.text not in MNEMONICS:
        raise unknown(head, "mnemonic", MNEMONICS)
    op = MNEMONICS.index(head.text)
    args = line.take(3, 8, "two sources and a target, '-' for none")
    src1, src2, dst = (_register(word) for word in args[:3])
    from_buffer = op in isa.PROJECTIONS and src2 in _BUFFERS
    if (src2 == isa.NONE) == (op in _TWO) and not from_buffer:
        raise args[1].wrong(f"{head.text} {'needs' if op in _TWO else 'takes no'} second source")
    role, extra = isa.SOFTMAX, list(args[3:])
    if extra and extra[-1].text.startswith("@"):
        word = extra.pop()
        if word.text[1:] not in isa.ROLES:
            raise unknown(word, "part", (f"@{name}" for name in isa.ROLES))
        role = isa.ROLES.index(word.text[1:])
    if (op == isa.LOAD_WEIGHTS) != (dst in _BUFFERS):
        where = ", ".join(isa.REGISTERS[r] for r in _BUFFERS)
        raise args[2].wrong(f"{head.text} cannot write {args[2].text!r}; load.weights, and nothing else, fills {where}")
    if op in (isa.LOAD_GAMMA, isa.LOAD_BETA) and isa.ROLES[role] not in _NORMS:
        raise head.wrong(f"{head.text} does not say of which norm; allowed: @{', @'.join(_NORMS)}")
    if src1 != isa.NONE and head.text.startswith("load."):
        raise args[0].wrong(f"{head.text} reads memory, so it takes no register: '-' is allowed")
    options = _options(extra)
    for key in (*(("n",) if op != isa.STORE_TOKEN else ()), *(("rows",) if op in isa.SIZED else ())):
        if key not in options:
            raise head.wrong(f"{head.text} needs {key}=, {'rows' if key == 'rows' else 'elements'} of what it works on")
    sizes = {key: float(whole(*options[key], f"{key}=", 1, LONGEST)) for key in ("n", "rows") if key in options}
    columns = sizes.get("n", 0.5)
    return Instruction(op, dst, src1, role, columns, src2, sizes.get("rows", 1.0), _argument(op, role, head, options))


def assemble(text: str) -> DfxProgram:
    """Text to a program. ProgramError names line, column and what is allowed."""
    lines = lines_of(text)
    if not lines:
        raise ProgramError(1, 1, f"the program has no instruction; allowed: {', '.join(MNEMONICS)}")
    return DfxProgram(tuple(_instruction(line) for line in lines), tuple(line.head.line for line in lines))


def _line(instr: Instruction) -> str:
    names = ", ".join(isa.REGISTERS[r] for r in (instr.src1, instr.src2, instr.dst))
    sizes = [f"rows={instr.rows:.0f}"] if instr.op in isa.SIZED else []
    sizes += [f"n={instr.columns:.0f}"] if instr.op != isa.STORE_TOKEN else []
    if instr.op in _WEIGHED:
        sizes.append(f"w={isa.ROLES[int(instr.arg)]}")
    if instr.op in _HEADED and instr.arg:
        sizes.append(f"head={instr.arg:.0f}")
    return f"{MNEMONICS[instr.op]:<14} {names:<28} {' '.join(sizes):<28} @{isa.ROLES[instr.role]}"


def disassemble(program: DfxProgram) -> str:
    """A program as text, from which `assemble` makes it again."""
    return "\n".join(_line(instr) for instr in program.instructions) + "\n"


_INPUTS = frozenset((isa.NONE, isa.X, isa.KEYS, isa.VALUES))


def _result(instr: Instruction, elements: float) -> float | None:
    """Elements of an instruction's result; None where the cards' shares make it longer."""
    if instr.op == isa.SYNC:
        return None
    if instr.op in isa.SCALAR or instr.op == isa.ACCUMULATE:
        return 1.0
    return instr.columns + (elements if instr.op == isa.MM and instr.arg else 0.0)


_ANY_LENGTH = isa.SCALAR | isa.SYNC_OPS | {isa.MASKED_MM, isa.STORE_TOKEN}


def _check_buffer(instr: Instruction, line: int, buffers: dict[int, Instruction], tile: tuple[float, float]) -> None:
    """Refuses a load that its buffer does not hold and a product of weights that are not in its buffer."""
    if instr.op == isa.LOAD_WEIGHTS:
        beats = ceil(instr.rows / tile[0]) * ceil(instr.columns / tile[1])
        if beats > isa.BUFFER:
            content = f"load.weights takes {beats:,} beats of {tile[0]:.0f} x {tile[1]:.0f} weights"
            raise ProgramError(line, 1, f"{content}; half of the DMA's buffer holds {isa.BUFFER:,.0f}")
        buffers[instr.dst] = instr
    there = buffers.get(instr.src2)
    if there is not None and (there.arg, there.rows) != (instr.arg, instr.rows):
        content = f"{isa.REGISTERS[instr.src2]!r} holds {there.rows:,.0f} rows of {isa.ROLES[int(there.arg)]}"
        need = f"{MNEMONICS[instr.op]} works on {instr.rows:,.0f} rows of {isa.ROLES[int(instr.arg)]}"
        raise ProgramError(line, 1, f"{need}; {content}")


def check(program: DfxProgram, tile: tuple[float, float] = (64.0, 16.0)) -> None:
    """ProgramError where a register is read unwritten or sizes do not fit, on a core of that tile."""
    sizes: dict[int, float | None] = dict.fromkeys(_INPUTS)
    buffers: dict[int, Instruction] = {}
    for line, instr in zip(program.lines or range(1, len(program.instructions) + 1), program.instructions, strict=True):
        _check_buffer(instr, line, buffers, tile)
        for source in (instr.src1, instr.src2):
            if source not in sizes:
                name = isa.REGISTERS[source]
                raise ProgramError(line, 1, f"register {name!r} is read before anything is written to it")
        need = instr.rows if instr.op in isa.MATRIX else instr.columns
        size = sizes[instr.src1]
        part = instr.op == isa.SEND and size is not None and need <= size
        if size not in (None, need) and instr.op not in _ANY_LENGTH and not part:
            why = f"{MNEMONICS[instr.op]} works on {need:,.0f} elements; {isa.REGISTERS[instr.src1]!r} has {size:,.0f}"
            raise ProgramError(line, 1, why)
        if instr.dst not in (isa.NONE, isa.KEYS, isa.VALUES):
            sizes[instr.dst] = _result(instr, sizes.get(instr.dst) or 0.0)
