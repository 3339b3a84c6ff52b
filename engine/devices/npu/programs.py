"""Programs of the NPU for the networks it serves: MLP, recurrent cells, 1-D and 2-D convolution, attention.

A program is a list of chains, writes of a matrix into the matrix memory, and calls to the host for what has no
instruction. Registers are names; ``a+b`` reads registers side by side as one vector. Vectors of a sequence or of an
image are registers ``x0, x1, ...``; ``zero`` is a register of zeros as long as an input vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from engine.devices.npu.chains import InstructionChain, VectorOp


@dataclass(frozen=True)
class MatrixWrite:
    """Registers written as the rows of a matrix, or as its columns."""

    matrix: str
    rows: tuple[str, ...]
    transposed: bool = False


@dataclass(frozen=True)
class HostOperator:
    """An operator on the host's CPU."""

    op: str
    source: str
    target: str


Instruction = InstructionChain | MatrixWrite | HostOperator


def mlp(layers: int) -> tuple[Instruction, ...]:
    """``layers`` products with bias and ReLU, the last without: weights ``W1..``, biases ``b1..``; x -> y."""
    chains = []
    for i in range(1, layers + 1):
        last = i == layers
        ops = (VectorOp("add", f"b{i}"), *(() if last else (VectorOp("relu"),)))
        chains.append(InstructionChain("x" if i == 1 else f"a{i - 1}", ops, "y" if last else f"a{i}", f"W{i}"))
    return tuple(chains)


def sequence(
    step: Sequence[InstructionChain], steps: int, together: int = 1, apart: bool = False
) -> tuple[InstructionChain, ...]:
    """Steps of recurrent cells side by side, issued in turn; `apart`: products of the inputs come from elsewhere.

    Registers of cell 0 end in ``.0``: inputs ``x0.0, x1.0 ..``, states ``h0.0`` before the first step, ``h1.0`` behind.
    """
    program = []
    for t in range(steps):
        for cell in range(together):

            def name(register: str, t: int = t, cell: int = cell) -> str:
                if register.endswith("@"):
                    return f"{register[:-1]}{t}.{cell}"
                at = {"x": t, "h": t + 1, "c": t + 1}.get(register, "")
                return f"{register}{at}.{cell}" if register else ""

            for chain in step:
                if not apart or chain.source != "x":
                    ops = tuple(VectorOp(v.op, name(v.operand), name(v.tap)) for v in chain.ops)
                    program.append(InstructionChain(name(chain.source), ops, name(chain.target), chain.matrix))
    return tuple(program)


def convolution(size: tuple[int, ...], window: tuple[int, ...]) -> tuple[Instruction, ...]:
    """A convolution of stride 1 that keeps the size, over 1 or 2 dimensions: one product for each place.

    Inputs ``x<place>`` hold the channels of a place in row order, weights ``W`` a window's values side by side.
    """
    numbers = {place: at for at, place in enumerate(product(*map(range, size)))}
    program = []
    for place, at in numbers.items():
        taps = product(*map(range, window))
        window_places = (tuple(p + t - w // 2 for p, t, w in zip(place, tap, window, strict=True)) for tap in taps)
        inputs = [f"x{numbers[near]}" if near in numbers else "zero" for near in window_places]
        program.append(InstructionChain("+".join(inputs), (VectorOp("add", "b"), VectorOp("relu")), f"y{at}", "W"))
    return tuple(program)


def attention(steps: int) -> tuple[Instruction, ...]:
    """Single-head attention of every step to all steps: projections ``Wq Wk Wv``, softmax on the host, ``y0..``."""
    program: list[Instruction] = []
    for t in range(steps):
        program += [InstructionChain(f"x{t}", (), f"{n}{t}", f"W{n}") for n in "qkv"]
    program.append(MatrixWrite("K", tuple(f"k{t}" for t in range(steps))))
    program.append(MatrixWrite("V", tuple(f"v{t}" for t in range(steps)), transposed=True))
    for t in range(steps):
        program.append(InstructionChain(f"q{t}", (VectorOp("mul", "scale"),), f"s{t}", "K"))
        program.append(HostOperator("softmax", f"s{t}", f"p{t}"))
        program.append(InstructionChain(f"p{t}", (), f"y{t}", "V"))
    return tuple(program)
