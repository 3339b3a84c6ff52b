"""DFX run for real: the instructions that are timed, executed in IEEE FP16 in the core's order of accumulation.

Every core runs the same program on its share of the heads and columns; a synchronisation joins the shares. The
arithmetic is that of `arithmetic`; softmax subtracts the maximum first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from engine.devices.dfx import program as isa
from engine.devices.dfx.arithmetic import (
    HALF,
    IntegerWeights,
    accumulate,
    gelu_table,
    product,
    silu_table,
    whole_product,
)
from engine.devices.dfx.model import EPSILON, Decoder, columns, rotary, shards
from engine.numerics.formats import GroupInteger


def _half(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, np.float32).astype(HALF)


_Weights = np.ndarray | IntegerWeights


def _pack(matrix: np.ndarray, format: str) -> _Weights:
    """A [inputs, outputs] matrix as it is stored: fp16 [outputs, inputs] for the tree, or as integers."""
    if format == "int8":
        return IntegerWeights.of(matrix)
    columns = np.ascontiguousarray(matrix.T)
    stored = GroupInteger().apply(columns) if format == "w8a16" else columns
    return _half(stored)


@dataclass
class _Core:
    """One core: its registers, its share of the weights, its part of the KV cache."""

    weights: list[dict[int, tuple[_Weights, np.ndarray]]]
    heads: int
    first_token: int  # of its share of the vocabulary
    head_weights: _Weights
    vector: dict[int, np.ndarray] = field(default_factory=dict)
    buffer: dict[int, tuple[int, _Weights]] = field(default_factory=dict)  # weights loaded ahead
    keys: list[list[np.ndarray]] = field(default_factory=list)
    values: list[list[np.ndarray]] = field(default_factory=list)


class DfxMachine:
    """N cores that run a decoder's program token by token.

    ``DfxMachine(model, record, format).generate(prompt, count)``; the record is `dfx.core_record`'s of that format,
    its number of cards decides how the model is split.
    """

    def __init__(self, model: Decoder, record: tuple[float, ...], format: str = "fp16") -> None:
        self.model, self.record, self.format = model, record, format
        self.cached = format if format == "int8" else "fp16"  # of keys and values
        self.cards = int(self.record[isa.CARDS])
        self.d, self.lanes, self.stages = (int(self.record[at]) for at in (isa.D, isa.VECTOR, isa.ADD))
        self.head = model.head
        self.tokens, self.positions = _half(model.tokens), _half(model.positions)
        self.norms = [
            {isa.NORM1: (_half(w.gamma1), _half(w.beta1)), isa.NORM2: (_half(w.gamma2), _half(w.beta2))}
            for w in model.layers
        ]
        self.final = (_half(model.gamma), _half(model.beta))
        self.cores = [self._core(card) for card in range(self.cards)]
        self.logits = np.zeros(0, HALF)  # of the last token, all cores together
        self._layer = self._token = self._position = 0

    def _core(self, card: int) -> _Core:
        keys = columns(self.model.heads // self.model.shared, self.cards, card)
        shares = [
            {
                role: (_pack(w, self.format), _half(bias))
                for role, (w, bias) in shards(self.model, layer, self.cards, card).items()
            }
            for layer in self.model.layers
        ]
        vocabulary = columns(len(self.model.tokens), self.cards, card)
        empty: list[list[np.ndarray]] = [[] for _ in self.model.layers]
        return _Core(
            shares,
            (keys.stop - keys.start) * self.model.shared,
            vocabulary.start,
            _pack(self.model.tokens[vocabulary].T, self.format),
            keys=empty,
            values=[[] for _ in self.model.layers],
        )

    def generate(self, prompt: list[int], count: int) -> list[int]:
        """The `count` likeliest tokens after a prompt; input tokens go through one by one as well."""
        for core in self.cores:
            core.keys = [[] for _ in self.model.layers]
            core.values = [[] for _ in self.model.layers]
        tokens: list[int] = []
        for position in range(len(prompt) + count - 1):
            token = prompt[position] if position < len(prompt) else tokens[-1]
            best = self.step(token, position)
            if position >= len(prompt) - 1:
                tokens.append(best)
        return tokens

    def step(self, token: int, position: int) -> int:
        """One token through embedding, layers and LM head; returns the likeliest next one."""
        self._token, self._position = token, position
        sizes = self.model.sizes
        self._run(isa.encode(isa.token_program(sizes), self.record))
        code = isa.encode(isa.layer_program(self.record, sizes, float(position + 1)), self.record)
        for layer in range(len(self.model.layers)):
            self._layer = layer
            self._run(code)
        self._run(isa.encode(isa.head_program(self.cards, sizes), self.record))
        self.logits = np.concatenate([core.vector[isa.NEXT][2:] for core in self.cores]).astype(HALF)
        best = self.cores[0].vector
        return int(best[isa.BEST][0] if self.cards > 1 else best[isa.NEXT][1])

    def run(
        self,
        code: np.ndarray,
        registers: dict[int, np.ndarray],
        keys: list[np.ndarray],
        values: list[np.ndarray],
    ) -> dict[int, np.ndarray]:
        """Registers of the first core after a program of the first layer, with some set and a cache of keys and values.

        [elements]
        """
        for card, core in enumerate(self.cores):
            share = columns(self.model.heads // self.model.shared, self.cards, card)
            share = slice(share.start * self.head, share.stop * self.head)
            core.vector = {r: np.asarray(v, HALF) for r, v in registers.items()}
            core.keys[0], core.values[0] = [k[share] for k in keys], [v[share] for v in values]
        self._layer, self._token, self._position = 0, 0, len(keys)
        self._run(code)
        return self.cores[0].vector

    def _run(self, code: np.ndarray) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # fp16 may overflow as the core's does
            for row in code:
                op = int(row[isa.OP])
                if op == isa.SYNC:
                    whole = np.concatenate([core.vector[int(row[isa.SRC1])] for core in self.cores])
                    for core in self.cores:
                        core.vector[int(row[isa.DST])] = whole
                elif op == isa.SYNC_ARGMAX:
                    best = max(
                        (core.vector[int(row[isa.SRC1])] for core in self.cores), key=lambda pair: (pair[0], -pair[1])
                    )
                    for core in self.cores:
                        core.vector[int(row[isa.DST])] = best[1:]
                else:
                    for core in self.cores:
                        _EXECUTE[op](self, core, row)


def _a(core: _Core, row: np.ndarray) -> np.ndarray:
    return core.vector[int(row[isa.SRC1])]


def _b(core: _Core, row: np.ndarray) -> np.ndarray:
    return core.vector[int(row[isa.SRC2])]


def _set(core: _Core, row: np.ndarray, value: np.ndarray) -> None:
    core.vector[int(row[isa.DST])] = np.asarray(value, HALF)


def _scale_of(machine: DfxMachine, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    role = int(row[isa.ROLE])
    return machine.final if role == isa.FINAL_NORM else machine.norms[machine._layer][role]


def _load_token(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    _set(core, row, machine.tokens[machine._token])


def _load_position(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    _set(core, row, machine.positions[machine._position])


def _nothing(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    """What leaves the core: the token to the host, a vector to the next card."""


def _add(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    _set(core, row, _a(core, row) + _b(core, row))


def _sub_scalar(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    _set(core, row, _a(core, row) - _b(core, row))


def _mul(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    _set(core, row, _a(core, row) * _b(core, row))


def _load_gamma(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    _set(core, row, _scale_of(machine, row)[0])


def _load_beta(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    _set(core, row, _scale_of(machine, row)[1])


def _load_cosine(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    _set(core, row, rotary(machine._position, machine.head)[0])


def _load_sine(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    _set(core, row, rotary(machine._position, machine.head)[1])


def _rotate(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    halves = _a(core, row).reshape(-1, 2, int(row[isa.SIZE]) // 2)
    _set(core, row, np.stack([-halves[:, 1], halves[:, 0]], 1).ravel())


def _mul_head(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    by = _b(core, row)
    _set(core, row, (_a(core, row).reshape(-1, len(by)) * by).ravel())


def _exp(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    _set(core, row, np.exp(_a(core, row).astype(np.float32)))


def _accumulate(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    _set(core, row, np.asarray(accumulate(_a(core, row), machine.lanes, machine.stages)))


def _divide_by_width(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    _set(core, row, _a(core, row) * HALF(1 / machine.model.width))


def _inverse_deviation(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    variance = _a(core, row) * HALF(1 / machine.model.width) + HALF(EPSILON)
    _set(core, row, 1 / np.sqrt(variance.astype(np.float32)))


def _reciprocal(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    _set(core, row, 1 / _a(core, row).astype(np.float32))


def _load_weights(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    """The first columns of a matrix."""
    packed, _ = core.weights[machine._layer][int(row[isa.ARG])]
    core.buffer[int(row[isa.DST])] = min(int(row[isa.SIZE]), len(packed)), packed


def _product(machine: DfxMachine, packed: _Weights, x: np.ndarray) -> np.ndarray:
    """Weights times a vector, as many sums of a column under way as the load direction leaves room for."""
    if isinstance(packed, IntegerWeights):
        return whole_product(packed, x)
    return product(packed, x, machine.d, int(isa.partial_sums(machine.record, float(len(packed)))))


def _conv1d(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    packed, bias = core.weights[machine._layer][int(row[isa.ARG])]
    products = _product(machine, packed, _a(core, row))
    columns, ahead = core.buffer.get(int(row[isa.SRC2]), (0, packed))
    if ahead is not packed:  # what was loaded is what is multiplied
        products[:columns] = _product(machine, ahead, _a(core, row))[:columns]
    _set(core, row, products + bias)


def _conv1d_gelu(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    _conv1d(machine, core, row)
    _set(core, row, gelu_table(core.vector[int(row[isa.DST])]))


def _conv1d_silu(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    _conv1d(machine, core, row)
    _set(core, row, silu_table(core.vector[int(row[isa.DST])]))


def _head(machine: DfxMachine, vectors: list[np.ndarray], head: int) -> np.ndarray:
    """Keys or values of one head, [context, head]."""
    return np.stack([v[head * machine.head : (head + 1) * machine.head] for v in vectors])


def _masked_mm(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    head = int(row[isa.ARG])
    if head >= core.heads:  # another core holds more heads than this one
        return
    keys = _pack(_head(machine, core.keys[machine._layer], head // machine.model.shared).T, machine.cached)
    query = _a(core, row)[head * machine.head : (head + 1) * machine.head]
    products = _product(machine, keys, query)
    _set(core, row, products * HALF(1 / np.sqrt(machine.head)))


def _sub_maximum(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    head = int(row[isa.ARG])
    scores = _a(core, row) if head < core.heads else np.zeros(1, HALF)
    _set(core, row, scores - scores.max())


def _mm(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    head = int(row[isa.ARG])
    before = core.vector[isa.MIXED] if head else np.zeros(0, HALF)
    if head >= core.heads:
        core.vector[isa.MIXED] = before
        return
    values, scores = _head(machine, core.values[machine._layer], head // machine.model.shared), _a(core, row)
    packed = _pack(values, "fp16")
    if machine.cached == "int8":  # a token's scale goes with its score
        tokens = IntegerWeights.of(values.T)
        scores, packed = scores * tokens.scales.astype(HALF), IntegerWeights(tokens.codes.T, np.ones(1, np.float32))
    _set(core, row, np.concatenate([before, _product(machine, packed, scores)]))


def _mm_argmax(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    logits = _product(machine, core.head_weights, _a(core, row))
    best = int(logits.argmax())
    pair = (float(logits[best]), float(core.first_token + best))
    core.vector[int(row[isa.DST])] = np.array([*pair, *logits.astype(np.float64)])


def _store_key(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    core.keys[machine._layer].append(_a(core, row))


def _store_value(machine: DfxMachine, core: _Core, row: np.ndarray) -> None:
    core.values[machine._layer].append(_a(core, row))


_EXECUTE: dict[int, Callable[[DfxMachine, _Core, np.ndarray], None]] = {
    isa.LOAD_TOKEN: _load_token,
    isa.LOAD_POSITION: _load_position,
    isa.STORE_TOKEN: _nothing,
    isa.SEND: _nothing,
    isa.ADD_OP: _add,
    isa.SUB_SCALAR: _sub_scalar,
    isa.MUL_OP: _mul,
    isa.MUL_SCALAR: _mul,
    isa.LOAD_GAMMA: _load_gamma,
    isa.LOAD_BETA: _load_beta,
    isa.LOAD_COSINE: _load_cosine,
    isa.LOAD_SINE: _load_sine,
    isa.LOAD_WEIGHTS: _load_weights,
    isa.ROTATE: _rotate,
    isa.MUL_HEAD: _mul_head,
    isa.EXP_OP: _exp,
    isa.ACCUMULATE: _accumulate,
    isa.DIVIDE_BY_WIDTH: _divide_by_width,
    isa.INVERSE_DEVIATION: _inverse_deviation,
    isa.RECIPROCAL_OP: _reciprocal,
    isa.CONV1D: _conv1d,
    isa.CONV1D_GELU: _conv1d_gelu,
    isa.CONV1D_SILU: _conv1d_silu,
    isa.MASKED_MM: _masked_mm,
    isa.SUB_MAXIMUM: _sub_maximum,
    isa.MM: _mm,
    isa.MM_ARGMAX: _mm_argmax,
    isa.STORE_KEY: _store_key,
    isa.STORE_VALUE: _store_value,
}
