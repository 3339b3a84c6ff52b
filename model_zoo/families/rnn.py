"""Recurrent networks: GRU and LSTM, stacked, bidirectional or several beside each other, after an optional 1-D CNN.

A GRU step is 6 h (x + h) multiply-adds doubled to operations, an LSTM step 8 h (x + h): the counts papers use. The
reset gate of the GRU scales the recurrent product (the form of cuDNN and of instruction-set processors), so both
matrices of a step are one product each. Every stacked layer has operators of its own, so that layers can lie apart.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from model_zoo.families.blocks import LENGTH, ROW, Block, attributes, forward, gather
from model_zoo.families.family import Params
from model_zoo.ops import ZERO, Dim, Graph, Op, Sum, dim

GATES = {"gru": 3, "lstm": 4, "rnn": 1}
STEPS = dim(1, "s")


class Cell(Block):
    """Ops of one cell, `layers` identical copies of it, `parallel` of which step through the sequence side by side."""

    def __init__(
        self, name: str, group: str, hidden: int, layers: int, parallel: int, row: Dim = ROW, steps: Dim = STEPS
    ) -> None:
        super().__init__(row, group, layers)
        self.name, self.hidden, self.parallel, self.steps = name, hidden, parallel, steps

    def product(self, label: str, width: int, inputs: tuple[str, ...], gates: int, *, recurrent: bool) -> str:
        """Gates times an input (independent of the steps before) or times the state (waits for the step before)."""
        return self.linear(
            f"{self.name}-{label}",
            width,
            gates * self.hidden,
            *inputs,
            steps=self.steps,
            sequential=recurrent,
            state_reads=self.rows * width if recurrent else ZERO,
            attributes=attributes(parallel=self.parallel),
        )

    def pointwise(
        self,
        label: str,
        kind: str,
        vectors: int,
        inputs: tuple[str, ...],
        operands: int = 1,
        *,
        reads: int = 0,
        writes: int = 0,
    ) -> str:
        """An element-wise op over `vectors` vectors; `reads` and `writes` of them are kept state."""
        return self.vector(
            f"{self.name}-{label}",
            kind,
            vectors * self.hidden,
            *inputs,
            operands=operands - reads / vectors,
            steps=self.steps,
            sequential=True,
            state_reads=self.rows * (reads * self.hidden),
            state_writes=self.rows * (writes * self.hidden),
        )


def _gru(cell: Cell, width: int, source: tuple[str, ...], *, reset_first: bool = False) -> None:
    """The GRU whose reset gate scales the recurrent product; or, as first published, the state before a second one."""
    x = cell.product("input", width, source, 3, recurrent=False)
    h = cell.product("recurrent", cell.hidden, (), 2 if reset_first else 3, recurrent=True)
    gates = cell.pointwise("gate-add", "Add", 2, (x, h), 2)
    gates = cell.pointwise("gates", "Sigmoid", 2, (gates,))
    if reset_first:
        reset = cell.pointwise("reset", "Mul", 1, (gates,), 2, reads=1)
        new = cell.product("candidate-recurrent", cell.hidden, (reset,), 1, recurrent=True)
    else:
        new = cell.pointwise("reset", "Mul", 1, (gates, h), 2)
    new = cell.pointwise("candidate-add", "Add", 1, (x, new), 2)
    new = cell.pointwise("candidate", "Tanh", 1, (new,))
    away = cell.pointwise("blend-subtract", "Add", 1, (new,), 2, reads=1)  # h - n
    blend = cell.pointwise("blend-scale", "Mul", 1, (gates, away), 2)  # z (h - n)
    cell.pointwise("state", "Add", 1, (blend, new), 2, writes=1)  # n + z (h - n)


def _lstm(cell: Cell, width: int, source: tuple[str, ...]) -> None:
    x = cell.product("input", width, source, 4, recurrent=False)
    h = cell.product("recurrent", cell.hidden, (), 4, recurrent=True)
    gates = cell.pointwise("gate-add", "Add", 4, (x, h), 2)
    sigmoid = cell.pointwise("gates", "Sigmoid", 3, (gates,))
    new = cell.pointwise("candidate", "Tanh", 1, (gates,))
    old_cell = cell.pointwise("forget", "Mul", 1, (sigmoid,), 2, reads=1)
    update = cell.pointwise("accept", "Mul", 1, (sigmoid, new), 2)
    memory = cell.pointwise("cell", "Add", 1, (old_cell, update), 2, writes=1)
    output = cell.pointwise("squash", "Tanh", 1, (memory,))
    cell.pointwise("state", "Mul", 1, (sigmoid, output), 2, writes=1)


def _plain(cell: Cell, width: int, source: tuple[str, ...]) -> None:
    x = cell.product("input", width, source, 1, recurrent=False)
    h = cell.product("recurrent", cell.hidden, (), 1, recurrent=True)
    new = cell.pointwise("add", "Add", 1, (x, h), 2)
    cell.pointwise("state", "Tanh", 1, (new,), writes=1)


def step_of(kind: str) -> Callable[[Cell, int, tuple[str, ...]], None]:
    """What adds the ops of a step to a cell: ``step(cell, width of the input, ops before it)``.

    ``gru`` resets behind the recurrent product (ONNX's ``linear_before_reset`` = 1), ``gru-reset-first`` before it.
    """
    return {"gru": _gru, "gru-reset-first": partial(_gru, reset_first=True), "lstm": _lstm, "rnn": _plain}[kind]


def _front(params: Params, width: int) -> tuple[Block, int, tuple[str, ...]]:
    """Word vectors and 1-D convolutions over the whole sequence (same padding, stride 1)."""
    block, source = Block(dim(1, "bs"), "embedding"), ""
    vocab = params.whole("vocab", 0, 2**31)
    if vocab:
        source = block.gather("word-vectors", vocab, width)
    block.group = "convolution"
    for index, (channels, kernel) in enumerate(params.rows("convolutions", 2), 1):
        marks = attributes(kernel=kernel, stride=1, groups=1, channels=width)
        fields: dict[str, Any] = {"kind": "Conv", "attributes": marks, "reads": block.rows * width}
        name = block.linear(f"conv{index}", width * kernel, channels, source, **fields)
        source, width = block.vector(f"{name}-relu", "Relu", channels, name), channels
    return block, width, (source,)


def build(params: Params) -> Graph:
    kind = params.word("cell", ("gru", "gru-reset-first", "lstm", "rnn", "none"))
    inputs = params.whole("input", 1, 1_048_576)
    hidden = params.whole("hidden", 0 if kind == "none" else 1, 1_048_576)
    depth = params.whole("layers", 1, 1024)
    directions = params.whole("directions", 1, 2)
    instances = params.whole("instances", 1, 1024)
    front, width, source = _front(params, inputs)
    ops = front.ops
    state = 0
    if kind != "none":
        step = step_of(kind)
        side = directions * instances
        for layer in range(1, depth + 1):
            cell = Cell("rnn" if depth == 1 else f"rnn{layer}", "recurrent", hidden, side, side)
            step(cell, width, source)
            ops += cell.ops
            width, source = hidden * directions, (cell.ops[-1].name,)
        state = hidden * directions * instances * depth * (2 if kind == "lstm" else 1)
    leaving = hidden * directions * instances if kind != "none" else width
    indices = dim(1, "bs") if params.whole("vocab", 0, 2**31) else ZERO
    entering = indices if indices.coef else dim(inputs, "bs")
    stores = Sum((dim(state, "b"),))
    return forward(ops, "sequence", entering, dim(leaving, "b"), LENGTH, state_elements=stores, input_indices=indices)


def _stack(name: str, group: str, layers: int, width: int, hidden: int, steps: Dim, source: str) -> list[Op]:
    """LSTM layers one on the other, over so many steps."""
    ops: list[Op] = []
    for layer in range(1, layers + 1):
        cell = Cell(f"{name}{layer}", group, hidden, 1, 1, ROW, steps)
        step_of("lstm")(cell, width, (source,))
        ops += cell.ops
        width, source = hidden, cell.ops[-1].name
    return ops


def build_transducer(p: Params) -> Graph:
    """Greedy decoding: the joint network runs once a frame of the encoder and once a letter, the predictor a letter."""
    hidden, letters = p.whole("hidden", 1, 65536), p.whole("vocab", 2, 2**31)
    embed, joint = p.whole("embedding", 1, 65536), p.whole("joint", 1, 65536)
    before, after = p.whole("layers_before", 1, 64), p.whole("layers_after", 1, 64)
    letters_per_step, stack = p.number("letters_a_step", 0.0, 100.0), p.whole("stacked", 1, 64)
    frames, symbols = dim(1.0 / stack, "s"), dim(letters_per_step, "s")
    rounds = dim(1.0 / stack + letters_per_step, "s")
    ops = _stack("sound", "encoder", before, p.whole("input", 1, 1_048_576), hidden, STEPS, "")
    ops += _stack("frame", "encoder", after, stack * hidden, hidden, frames, ops[-1].name)
    block, heard = Block(ROW, "joint"), ops[-1].name
    ops.append(gather("letter", dim(letters_per_step, "bs"), letters - 1, embed, group="predictor"))
    predictor = _stack("letter", "predictor", p.whole("predictor_layers", 1, 64), embed, embed, symbols, "letter")
    ops += [replace(op, sequential=True) for op in predictor]  # its inputs too: the letter before is decoded first
    sound = block.linear("join-sound", hidden, joint, heard, steps=frames)
    letter = block.linear("join-letter", embed, joint, ops[-1].name, steps=symbols)
    block.vector("join", "Add", joint, sound, letter, operands=2, steps=rounds)
    block.vector("join-relu", "Relu", joint, "join", steps=rounds)
    block.linear("join-out", joint, letters, "join-relu", steps=rounds)
    block.vector("best", "ArgMax", letters, "join-out", writes=ROW, steps=rounds)
    layers = (before + after) * hidden + p.whole("predictor_layers", 1, 64) * embed
    stores, outputs = Sum((dim(2 * layers, "b"),)), dim(letters_per_step, "bs")
    ops, entering = [*ops, *block.ops], dim(p.whole("input", 1, 1_048_576), "bs")
    return forward(ops, "utterance", entering, outputs, LENGTH, state_elements=stores, output_indices=outputs)
