"""The NPU run for real: products in a narrow format, everything else in float16.

Matrices are stored in the narrow format; a vector is converted to it on its way into the matrix-vector unit, and the
sum, which is exact there, is rounded to float16 on its way out. Vector operations round to float16 after each one.
Source of the arithmetic: Chung et al., IEEE Micro 2018; how sums are kept inside the unit is not printed, exact sums
are the best case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.devices.npu.chains import InstructionChain
from engine.devices.npu.programs import HostOperator, Instruction, MatrixWrite
from engine.numerics.formats import Format, SharedExponent, by_name

HALF = np.float16
_MANTISSA = {f"ms-fp{bits + 6}": bits for bits in (2, 3, 4, 5)}


def arithmetic(name: str, native: int = 0) -> Format:
    """The format called `name`; with a native dimension, its mantissas share one exponent over that many values."""
    if native and name in _MANTISSA:
        return SharedExponent(native, _MANTISSA[name], 5)
    return by_name(name)


@dataclass
class Processor:
    """Vector registers and matrix memory of one processor.

    ``Processor(format, matrices, vectors).run(program)``; matrices are float32 [outputs, inputs].
    """

    format: Format
    matrices: Mapping[str, np.ndarray]
    vectors: Mapping[str, np.ndarray]
    registers: dict[str, np.ndarray] = field(default_factory=dict)
    stored: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stored = {name: self.format.apply(m) for name, m in self.matrices.items()}
        self.registers = {name: np.asarray(v, np.float32).astype(HALF) for name, v in self.vectors.items()}

    def run(self, program: Sequence[Instruction]) -> dict[str, np.ndarray]:
        """Registers after the program, float16."""
        for instruction in program:
            if isinstance(instruction, InstructionChain):
                self._chain(instruction)
            elif isinstance(instruction, MatrixWrite):
                matrix = np.stack([self.registers[name] for name in instruction.rows]).astype(np.float32)
                self.stored[instruction.matrix] = self.format.apply(matrix.T if instruction.transposed else matrix)
            else:
                self._host(instruction)
        return self.registers

    def _read(self, name: str) -> np.ndarray:
        parts = [self.registers[part] for part in name.split("+")]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _chain(self, chain: InstructionChain) -> None:
        value = self._read(chain.source)
        if chain.matrix:
            narrow = self.format.apply(value.astype(np.float32)).astype(np.float64)
            value = (self.stored[chain.matrix].astype(np.float64) @ narrow).astype(HALF)
        for step in chain.ops:
            other = self._read(step.operand) if step.operand else value
            value = _vector(step.op, value, other)
            if step.tap:
                self.registers[step.tap] = value
        self.registers[chain.target] = value

    def _host(self, call: HostOperator) -> None:
        if call.op != "softmax":
            raise ValueError(f"host operator is {call.op!r}; allowed: softmax")
        scores = self._read(call.source).astype(np.float32)
        powers = np.exp(scores - scores.max())
        self.registers[call.target] = (powers / powers.sum()).astype(HALF)


def exact(
    program: Sequence[Instruction], matrices: Mapping[str, np.ndarray], vectors: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Registers after the program in float64, nothing rounded: what `Processor.run` is held against."""
    registers = {name: np.asarray(v, np.float64) for name, v in vectors.items()}
    stored = {name: np.asarray(m, np.float64) for name, m in matrices.items()}

    def read(name: str) -> np.ndarray:
        return np.concatenate([registers[part] for part in name.split("+")])

    functions = {
        "add": np.add,
        "sub": np.subtract,
        "rsub": lambda a, b: b - a,
        "mul": np.multiply,
        "relu": lambda a, _: np.maximum(a, 0),
        "sigmoid": lambda a, _: 1 / (1 + np.exp(-a)),
        "tanh": lambda a, _: np.tanh(a),
    }
    for instr in program:
        if isinstance(instr, MatrixWrite):
            rows = np.stack([registers[name] for name in instr.rows])
            stored[instr.matrix] = rows.T if instr.transposed else rows
            continue
        value = read(instr.source)
        if isinstance(instr, HostOperator):
            powers = np.exp(value - value.max())
            registers[instr.target] = powers / powers.sum()
            continue
        value = stored[instr.matrix] @ value if instr.matrix else value
        for step in instr.ops:
            value = functions[step.op](value, read(step.operand) if step.operand else value)
            if step.tap:
                registers[step.tap] = value
        registers[instr.target] = value
    return registers


def _vector(op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One vector operation in float16."""
    if op == "add":
        return a + b
    if op == "sub":
        return a - b
    if op == "rsub":
        return b - a
    if op == "mul":
        return a * b
    if op == "relu":
        return np.maximum(a, HALF(0))
    wide = a.astype(np.float32)
    if op == "sigmoid":
        return (1 / (1 + np.exp(-wide))).astype(HALF)
    if op == "tanh":
        return np.tanh(wide).astype(HALF)
    raise ValueError(f"vector operation is {op!r}; allowed: add, sub, rsub, mul, relu, sigmoid, tanh")
