"""Programs of the NPU as text and back: chains of a vector read, a product, vector operations and writes.

``.vector x 512`` and ``.matrix W 512 1024`` (outputs, inputs) say what is there before the program; a chain begins with
``v_rd`` and ends with its last ``v_wr``. Mnemonics are recalled from Fowers et al., ISCA 2018.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from engine.devices.common.instruction_set import Line, ProgramError, Word, lines_of, unknown, whole
from engine.devices.npu.chains import InstructionChain, VectorOp
from engine.devices.npu.programs import HostOperator, Instruction, MatrixWrite

_OPERATIONS = {
    "vv_add": "add", "vv_a_sub_b": "sub", "vv_b_sub_a": "rsub", "vv_mul": "mul",
    "v_sigm": "sigmoid", "v_tanh": "tanh", "v_relu": "relu",
}  # fmt: skip
_NAMES = {op: mnemonic for mnemonic, op in _OPERATIONS.items()}
MNEMONICS = ("v_rd", "mv_mul", *_OPERATIONS, "v_wr", "m_wr", "m_wr_t", "host", ".vector", ".matrix", "loop", "end")
_WITHIN = frozenset(("mv_mul", *_OPERATIONS, "v_wr"))  # what stands in a chain behind its read
LONGEST = 500_000
"""Elements a register may have: a typical instance holds hundreds of thousands of vector elements in all."""


@dataclass(frozen=True)
class NpuProgram:
    """Instructions, what is there before them, and the line of the text each begins on."""

    instructions: tuple[Instruction, ...]
    vectors: Mapping[str, int]
    matrices: Mapping[str, tuple[int, int]]
    lines: tuple[int, ...] = ()


def _name(word: Word) -> Word:
    if not re.fullmatch(r"[A-Za-z_][\w.@]*|\d[\w.@]*[A-Za-z_@][\w.@]*", word.text):
        raise word.wrong(f"{word.text[:40]!r} is no name of a register or matrix: letters, digits, '_', '.' and '@'")
    return word


def _tap(head: Word, ops: list[VectorOp], register: str) -> None:
    """Has the last operation write a register on its way to what follows."""
    if not ops:
        raise head.wrong(f"{head.text} follows a write of what was only read or multiplied")
    if ops[-1].tap:
        raise head.wrong(f"{head.text} follows two writes: an operation's result is written once on its way")
    ops[-1] = replace(ops[-1], tap=register)


def _chain(lines: Sequence[Line]) -> InstructionChain:
    """A chain of its lines: a read, at most one product, vector operations, each written once on its way, a write."""
    source = "+".join(_name(word).text for word in lines[0].take(1, 4096, "one or more registers"))
    matrix, ops, target = "", list[VectorOp](), ""
    for line in lines[1:]:
        mnemonic = line.head.text
        if target:
            _tap(line.head, ops, target)
            target = ""
        if mnemonic in ("v_wr", "mv_mul"):
            (word,) = line.take(1, 1, "a register" if mnemonic == "v_wr" else "a matrix")
            if mnemonic == "v_wr":
                target = _name(word).text
            elif matrix or ops:
                raise line.head.wrong("mv_mul comes first in a chain, and once")
            else:
                matrix = _name(word).text
        else:
            words = line.take(1, 1, "a register") if mnemonic.startswith("vv_") else line.take(0, 0, "nothing")
            ops.append(VectorOp(_OPERATIONS[mnemonic], "".join(_name(word).text for word in words)))
    if not target:
        raise lines[0].head.wrong("this chain writes nothing: a v_wr has to end it")
    return InstructionChain(source, tuple(ops), target, matrix)


def _apart(line: Line) -> MatrixWrite | HostOperator:
    """An instruction of a line."""
    if line.head.text != "host":
        matrix, *rows = (_name(word).text for word in line.take(2, 65_536, "a matrix and registers"))
        return MatrixWrite(matrix, tuple(rows), line.head.text == "m_wr_t")
    op, source, target = line.take(3, 3, "an operator, a register read and one written")
    if op.text != "softmax":
        raise unknown(op, "host operator", ["softmax"])
    return HostOperator(op.text, _name(source).text, _name(target).text)


def _parts(text: str) -> list[list[Line]]:
    """Lines of a text, a chain's together."""
    parts: list[list[Line]] = []
    for line in lines_of(text):
        if line.head.text not in MNEMONICS:
            raise unknown(line.head, "mnemonic", MNEMONICS)
        if line.head.text not in _WITHIN:
            parts.append([line])
        elif not parts or parts[-1][0].head.text != "v_rd":
            raise line.head.wrong(f"{line.head.text} stands in no chain: a v_rd has to begin it")
        else:
            parts[-1].append(line)
    return parts


def assemble(text: str) -> NpuProgram:
    """Text to a program. ProgramError names line, column and what is allowed."""
    instructions, lines = list[Instruction](), list[int]()
    vectors, matrices = dict[str, int](), dict[str, tuple[int, int]]()
    for part in _parts(text):
        line, head = part[0], part[0].head.text
        if head == ".vector":
            name, size = line.take(2, 2, "a name and a length")
            vectors[_name(name).text] = whole(size, size.text, "the length of a vector", 1, LONGEST)
        elif head == ".matrix":
            name, n, k = line.take(3, 3, "a name, outputs and inputs")
            rows, columns = (whole(word, word.text, "a side of a matrix", 1, LONGEST) for word in (n, k))
            matrices[_name(name).text] = rows, columns
        else:
            instructions.append(_chain(part) if head == "v_rd" else _apart(line))
            lines.append(line.head.line)
    if not instructions:
        raise ProgramError(1, 1, f"the program has no instruction; allowed: {', '.join(MNEMONICS)}")
    return NpuProgram(tuple(instructions), vectors, matrices, tuple(lines))


def _chain_lines(chain: InstructionChain) -> Iterable[str]:
    yield f"v_rd       {', '.join(chain.source.split('+'))}"
    if chain.matrix:
        yield f"  mv_mul   {chain.matrix}"
    for op in chain.ops:
        yield f"  {_NAMES[op.op]:<8} {op.operand}".rstrip()
        if op.tap:
            yield f"  v_wr     {op.tap}"
    yield f"  v_wr     {chain.target}"


def disassemble(program: NpuProgram) -> str:
    """A program as text, from which `assemble` makes it again."""
    lines = [f".vector {name} {size}" for name, size in program.vectors.items()]
    lines += [f".matrix {name} {n} {k}" for name, (n, k) in program.matrices.items()]
    for instr in program.instructions:
        if isinstance(instr, InstructionChain):
            lines += _chain_lines(instr)
        elif isinstance(instr, MatrixWrite):
            lines.append(f"m_wr{'_t' if instr.transposed else ''}  {instr.matrix}, {', '.join(instr.rows)}")
        else:
            lines.append(f"host       {instr.op}, {instr.source}, {instr.target}")
    return "\n".join(lines) + "\n"


class _Sizes:
    """Lengths of registers and shapes of matrices as a program goes on, and what an instance holds of them."""

    def __init__(self, program: NpuProgram, elements: float, queue: float) -> None:
        self.lengths, self.shapes, self.line = dict(program.vectors), dict(program.matrices), 1
        self.room, self.queue = elements, queue

    def wrong(self, sentence: str) -> ProgramError:
        return ProgramError(self.line, 1, sentence)

    def length(self, name: str) -> int:
        for part in name.split("+"):
            if part not in self.lengths:
                raise self.wrong(f"register {part!r} is read before anything is written to it")
        return sum(self.lengths[part] for part in name.split("+"))

    def take(self, line: int, instr: Instruction) -> None:
        """One instruction."""
        self.line = line
        if isinstance(instr, InstructionChain):
            self._chain(instr)
        elif isinstance(instr, MatrixWrite):
            sizes = {self.length(row) for row in instr.rows}
            if len(sizes) > 1:
                raise self.wrong(f"rows of matrix {instr.matrix!r} have different lengths: {sorted(sizes)}")
            shape = len(instr.rows), sizes.pop()
            self.shapes[instr.matrix] = (shape[1], shape[0]) if instr.transposed else shape
        else:
            self.lengths[instr.target] = self.length(instr.source)
        size = sum(self.lengths.values())
        if size > self.room:
            raise self.wrong(f"the program has {size:,} elements here; the vector register files hold {self.room:,.0f}")

    def _chain(self, chain: InstructionChain) -> None:
        size = self.length(chain.source)
        if chain.instructions > self.queue:
            raise self.wrong(f"the chain has {chain.instructions:,} instructions; the queue holds {self.queue:,.0f}")
        if chain.matrix:
            if chain.matrix not in self.shapes:
                raise self.wrong(f"matrix {chain.matrix!r} is not declared; .matrix {chain.matrix} N K is needed")
            n, k = self.shapes[chain.matrix]
            if k != size:
                raise self.wrong(f"matrix {chain.matrix!r} takes {k:,} inputs; {chain.source!r} has {size:,}")
            size = n
        for op in chain.ops:
            length = self.length(op.operand) if op.operand else size
            if length != size:
                raise self.wrong(f"{_NAMES[op.op]} meets {size:,} elements; {op.operand!r} has {length:,}")
            if op.tap:
                self.lengths[op.tap] = size
        self.lengths[chain.target] = size


def register_lengths(program: NpuProgram, elements: float = 8 * LONGEST, queue: float = inf) -> dict[str, int]:
    """Lengths of all registers after the program; ProgramError where one is read unwritten or sizes do not fit.

    [elements] A bound: what its sizes say. ``elements`` fit the register files, ``queue`` instructions a chain.
    """
    sizes = _Sizes(program, elements, queue)
    for line, instr in zip(program.lines or range(1, len(program.instructions) + 1), program.instructions, strict=True):
        sizes.take(line, instr)
    return sizes.lengths
