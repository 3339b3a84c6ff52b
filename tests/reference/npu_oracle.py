"""Slow twin of the NPU in float64: what a program computes, written apart from `engine.devices.npu.machine`."""

from collections.abc import Mapping, Sequence

import numpy as np

from engine.devices.npu.programs import HostOperator, Instruction, MatrixWrite


def exact(
    program: Sequence[Instruction], matrices: Mapping[str, np.ndarray], vectors: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Registers after the program in float64, nothing rounded."""
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
