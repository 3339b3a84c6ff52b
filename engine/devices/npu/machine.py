"""The NPU run for real: products in a narrow format, everything else in float16; or, to compare with, in float64.

Matrices are stored in the narrow format; a vector is converted to it on its way into the matrix-vector unit, and the
sum, which is exact there, is rounded to float16 on its way out. Vector operations round to float16 after each one.
Source of the arithmetic: Chung et al., IEEE Micro 2018; how sums are kept inside the unit is not printed, exact sums
are the best case.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from engine.devices.npu.chains import InstructionChain
from engine.devices.npu.density import FORMATS
from engine.devices.npu.programs import HostOperator, Instruction, MatrixWrite
from engine.numerics.formats import Format, SharedExponent, by_name

_OPERATIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "rsub": lambda a, b: b - a,
    "mul": np.multiply,
    "relu": lambda a, _: np.maximum(a, 0),
    "sigmoid": lambda a, _: 1 / (1 + np.exp(-a)),
    "tanh": lambda a, _: np.tanh(a),
}
_SPECIAL = ("sigmoid", "tanh")  # computed wider and rounded once


def arithmetic(name: str, native: int = 0) -> Format:
    """The format called `name`; with a native dimension, its mantissas share one exponent over that many values."""
    if native and name.startswith("ms-fp"):
        return SharedExponent(native, FORMATS[name], 5)
    return by_name(name)


class Processor:
    """Vector registers and matrix memory of one processor.

    ``Processor(format, matrices, vectors).run(program)``; matrices are float32 [outputs, inputs]. Without a format
    everything is float64 and nothing is rounded.
    """

    def __init__(
        self, format: Format | None, matrices: Mapping[str, np.ndarray], vectors: Mapping[str, np.ndarray]
    ) -> None:
        self.format = format
        self.dtype, self.wide = (np.float16, np.float32) if format else (np.float64, np.float64)
        self.weights = {name: self._narrow(m) for name, m in matrices.items()}
        self.registers = {name: np.asarray(v, self.wide).astype(self.dtype) for name, v in vectors.items()}

    def _narrow(self, values: np.ndarray) -> np.ndarray:
        """Values as products take them, float64."""
        return (self.format.apply(values.astype(np.float32)) if self.format else values).astype(np.float64)

    def run(self, program: Sequence[Instruction]) -> dict[str, np.ndarray]:
        """Registers after the program."""
        for instruction in program:
            if isinstance(instruction, InstructionChain):
                self._chain(instruction)
            elif isinstance(instruction, MatrixWrite):
                matrix = np.stack([self.registers[name] for name in instruction.rows])
                self.weights[instruction.matrix] = self._narrow(matrix.T if instruction.transposed else matrix)
            else:
                self._host(instruction)
        return self.registers

    def _read(self, name: str) -> np.ndarray:
        return np.concatenate([self.registers[part] for part in name.split("+")])

    def _chain(self, chain: InstructionChain) -> None:
        value = self._read(chain.source)
        if chain.matrix:
            value = (self.weights[chain.matrix] @ self._narrow(value)).astype(self.dtype)
        for step in chain.ops:
            operand = self._read(step.operand) if step.operand else value
            value = value.astype(self.wide) if step.op in _SPECIAL else value
            value = _OPERATIONS[step.op](value, operand).astype(self.dtype)
            if step.tap:
                self.registers[step.tap] = value
        self.registers[chain.target] = value

    def _host(self, call: HostOperator) -> None:
        if call.op != "softmax":
            raise ValueError(f"host operator is {call.op!r}; allowed: softmax")
        scores = self._read(call.source).astype(self.wide)
        powers = np.exp(scores - scores.max())
        self.registers[call.target] = (powers / powers.sum()).astype(self.dtype)
