"""DFX run for real: the instructions that are timed, executed in the core's arithmetic or, to compare with, in float64.

It runs a small decoder with drawn weights. Every core runs the same program on its share of the heads and columns; a
synchronisation joins the shares. The arithmetic is one of `arithmetic`; softmax subtracts the maximum first.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.devices.dfx import program as isa
from engine.devices.dfx.arithmetic import FLOATS, CoreArithmetic
from engine.devices.dfx.decoder import program_of
from engine.devices.dfx.program import Instruction

EPSILON = 1e-5
ROTARY_BASE = 10_000.0
"""Of the angles' geometric series, as Llama 2 has it. [-]"""


@dataclass(frozen=True)
class DecoderLayer:
    """Parameters of one layer, float32; matrices are [inputs, outputs].

    Of a gated one `fc1` is the gate's matrix and `up` the one its result is multiplied with.
    """

    gamma1: np.ndarray
    beta1: np.ndarray
    query: tuple[np.ndarray, np.ndarray]
    key: tuple[np.ndarray, np.ndarray]
    value: tuple[np.ndarray, np.ndarray]
    out: tuple[np.ndarray, np.ndarray]
    gamma2: np.ndarray
    beta2: np.ndarray
    fc1: tuple[np.ndarray, np.ndarray]
    fc2: tuple[np.ndarray, np.ndarray]
    up: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True)
class Decoder:
    """GPT-2 with tied embeddings, float32; a `gated` one has Llama's norms, positions and feed-forward."""

    heads: int
    tokens: np.ndarray  # [vocab, width]
    positions: np.ndarray
    layers: tuple[DecoderLayer, ...]
    gamma: np.ndarray
    beta: np.ndarray
    shared: int = 1  # query heads to a key head
    gated: bool = False

    @property
    def width(self) -> int:
        """Width of the embedding. [-]"""
        return self.tokens.shape[1]

    @property
    def head(self) -> int:
        """Elements of a head. [-]"""
        return self.width // self.heads

    @property
    def sizes(self) -> isa.LayerSizes:
        """What its programs are written for."""
        width, ffn = float(self.width), float(self.layers[0].fc1[0].shape[1])
        layers, vocab, shared = len(self.layers), float(len(self.tokens)), float(self.shared)
        return isa.LayerSizes(width, float(self.heads), float(self.head), ffn, layers, vocab, shared, self.gated)


def columns(total: int, cards: int, card: int) -> slice:
    """Which of `total` heads or columns a card holds. [-]"""
    part = -(-total // cards)
    return slice(min(total, card * part), min(total, (card + 1) * part))


def shards(model: Decoder, layer: DecoderLayer, cards: int, card: int) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Weights and biases of a layer that a card holds, by role: whole key heads with theirs, columns of the others."""
    keys = columns(model.heads // model.shared, cards, card)
    cut = slice(keys.start * model.head, keys.stop * model.head)
    query = slice(cut.start * model.shared, cut.stop * model.shared)
    of = {isa.VALUE: (layer.value, cut), isa.KEY: (layer.key, cut), isa.QUERY: (layer.query, query)}
    dense = {isa.ATTENTION_OUT: layer.out, isa.FC1: layer.fc1, isa.FC2: layer.fc2}
    if layer.up is not None:
        dense = {isa.ATTENTION_OUT: layer.out, isa.GATE: layer.fc1, isa.UP: layer.up, isa.DOWN: layer.fc2}
    of |= {role: (pair, columns(pair[0].shape[1], cards, card)) for role, pair in dense.items()}
    return {role: (matrix[:, at], bias[at]) for role, ((matrix, bias), at) in of.items()}


def rotary(position: int, head: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines [head] of a position, those of the first half again for the second. [-]"""
    angles = np.tile(position * ROTARY_BASE ** (-np.arange(head // 2) / (head // 2)), 2)
    return np.cos(angles), np.sin(angles)


def random_decoder(
    heads: int = 4,
    layers: int = 2,
    vocab: int = 512,
    positions: int = 64,
    head: int = 64,
    seed: int = 0,
    ffn: int = 0,
    shared: int = 1,
    gated: bool = False,
) -> Decoder:
    """A decoder with drawn weights, scaled so that the layers and not the tied embedding decide the next token."""
    rng = np.random.default_rng(seed)
    width, ffn = heads * head, ffn or 4 * heads * head

    def matrix(rows: int, cols: int, gain: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        weights = rng.normal(0, gain / np.sqrt(rows), (rows, cols))
        return weights.astype(np.float32), (rng.normal(0, 0.02, cols) * (not gated)).astype(np.float32)

    def scale() -> tuple[np.ndarray, np.ndarray]:
        return rng.normal(1, 0.05, width).astype(np.float32), rng.normal(0, 0.05, width).astype(np.float32)

    blocks = []
    for _ in range(layers):
        (g1, b1), (g2, b2) = scale(), scale()
        query, key = matrix(width, width, 2.0), matrix(width, width // shared, 2.0)
        value, out = matrix(width, width // shared), matrix(width, width)
        fc1, fc2 = matrix(width, ffn, 2.0), matrix(ffn, width, 2.0)
        up = matrix(width, ffn) if gated else None
        blocks.append(DecoderLayer(g1, b1, query, key, value, out, g2, b2, fc1, fc2, up))
    gamma, beta = scale()
    tokens = rng.normal(0, 0.125, (vocab, width)).astype(np.float32)
    places = rng.normal(0, 0.25, (positions, width)).astype(np.float32)
    return Decoder(heads, tokens, places, tuple(blocks), gamma, beta, shared, gated)


@dataclass
class _Core:
    """One core: its registers, its share of the weights as they are stored, its part of the KV cache by layer."""

    weights: list[dict[int, tuple[Any, np.ndarray]]]
    heads: int
    first_token: int  # of its share of the vocabulary
    head_weights: Any
    vector: dict[int, np.ndarray] = field(default_factory=dict)
    buffer: dict[int, tuple[int, Any]] = field(default_factory=dict)  # weights loaded ahead
    keys: list[list[np.ndarray]] = field(default_factory=list)
    values: list[list[np.ndarray]] = field(default_factory=list)


class DfxMachine:
    """N cores that run a decoder's program token by token.

    ``DfxMachine(model, record, format).generate(prompt, count)``; the record is `dfx.core_record`'s of that format,
    its number of cards decides how the model is split. `exact` ones round nothing, whatever their format.
    """

    def __init__(self, model: Decoder, record: tuple[float, ...], format: str = "fp16", exact: bool = False) -> None:
        self.model, self.record, self.cards = model, record, int(record[isa.CARDS])
        self.arithmetic = FLOATS if exact else CoreArithmetic(record, format)
        number = self.arithmetic.number
        self.tokens, self.positions = number(model.tokens), number(model.positions)
        self.norms = [
            {isa.NORM1: (number(w.gamma1), number(w.beta1)), isa.NORM2: (number(w.gamma2), number(w.beta2))}
            for w in model.layers
        ]
        self.final = (number(model.gamma), number(model.beta))
        self.cores = [self._core(card) for card in range(self.cards)]
        self.logits = np.zeros(0, self.arithmetic.dtype)  # of the last token, all cores together
        self.history: list[np.ndarray] = []  # and of all tokens that the last `generate` went through
        self._layer = self._token = self._position = 0

    def _core(self, card: int) -> _Core:
        store, number = self.arithmetic.store, self.arithmetic.number
        shares = [
            {role: (store(w), number(bias)) for role, (w, bias) in shards(self.model, layer, self.cards, card).items()}
            for layer in self.model.layers
        ]
        keys = columns(self.model.heads // self.model.shared, self.cards, card)
        vocabulary = columns(len(self.model.tokens), self.cards, card)
        heads = (keys.stop - keys.start) * self.model.shared
        core = _Core(shares, heads, vocabulary.start, store(self.model.tokens[vocabulary].T))
        core.keys, core.values = ([[] for _ in self.model.layers] for _ in range(2))
        return core

    def generate(self, prompt: list[int], count: int) -> list[int]:
        """The `count` likeliest tokens after a prompt; input tokens go through one by one as well."""
        for core in self.cores:
            core.keys, core.values = ([[] for _ in self.model.layers] for _ in range(2))
        self.history, tokens = [], list(prompt)
        for position in range(len(prompt) + count - 1):
            best = self.step(tokens[position], position)
            self.history.append(self.logits)
            if position >= len(prompt) - 1:
                tokens.append(best)
        return tokens[len(prompt) :]

    def step(self, token: int, position: int) -> int:
        """One token through embedding, layers and LM head; returns the likeliest next one."""
        self._token, self._position = token, position
        sizes = self.model.sizes
        self._run(program_of("token", self.record, sizes, 0.0))
        program = program_of("layer", self.record, sizes, float(position + 1))
        for layer in range(len(self.model.layers)):
            self._layer = layer
            self._run(program)
        self._run(program_of("head", self.record, sizes, 0.0))
        self.logits = np.concatenate([core.vector[isa.NEXT][2:] for core in self.cores]).astype(self.arithmetic.dtype)
        best = self.cores[0].vector
        return int(best[isa.BEST][0] if self.cards > 1 else best[isa.NEXT][1])

    def run(
        self, program: Iterable[Instruction], registers: Mapping[int, np.ndarray], keys: np.ndarray, values: np.ndarray
    ) -> dict[int, np.ndarray]:
        """Registers of the first core after a program of the first layer, with some set and a cache of keys and values.

        [elements] ``keys`` and ``values`` are (tokens, width).
        """
        for card, core in enumerate(self.cores):
            share = columns(self.model.heads // self.model.shared, self.cards, card)
            share = slice(share.start * self.model.head, share.stop * self.model.head)
            core.vector = {r: np.asarray(v, self.arithmetic.dtype) for r, v in registers.items()}
            core.keys[0], core.values[0] = (
                [np.asarray(token[share], self.arithmetic.dtype) for token in cache] for cache in (keys, values)
            )
        self._layer, self._token, self._position = 0, 0, len(keys)
        self._run(program)
        return self.cores[0].vector

    def _run(self, program: Iterable[Instruction]) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # fp16 may overflow as the core's does
            for i in program:
                if i.op in isa.SYNC_OPS:
                    parts = [core.vector[i.src1] for core in self.cores]
                    together = (
                        np.concatenate(parts) if i.op == isa.SYNC else max(parts, key=lambda p: (p[0], -p[1]))[1:]
                    )
                    for core in self.cores:
                        core.vector[i.dst] = together
                    continue
                for core in self.cores:
                    result = _EXECUTE[i.op](self, core, i)
                    if result is not None:
                        core.vector[i.dst] = np.asarray(result, self.arithmetic.dtype)

    def norm(self, role: int) -> tuple[np.ndarray, np.ndarray]:
        """Scale and shift of a norm of the layer, or of the last one."""
        return self.final if role == isa.FINAL_NORM else self.norms[self._layer][role]

    def load_weights(self, core: _Core, i: Instruction) -> None:
        """The first columns of a matrix."""
        matrix, bias = core.weights[self._layer][int(i.arg)]
        core.buffer[i.dst] = min(int(i.columns), len(bias)), matrix

    def project(self, core: _Core, i: Instruction) -> np.ndarray:
        """Weights times a vector, plus a bias; what was loaded ahead is what is multiplied."""
        matrix, bias = core.weights[self._layer][int(i.arg)]
        x = core.vector[i.src1]
        products = self.arithmetic.product(matrix, x)
        count, ahead = core.buffer.get(i.src2, (0, matrix))
        if ahead is not matrix:
            products[:count] = self.arithmetic.product(ahead, x)[:count]
        return products + bias

    def _of_head(self, cache: list[list[np.ndarray]], head: int) -> np.ndarray:
        """Keys or values that a query head reads, [context, head]."""
        at = head // self.model.shared * self.model.head
        return np.stack([token[at : at + self.model.head] for token in cache[self._layer]])

    def scores(self, core: _Core, i: Instruction) -> np.ndarray | None:
        """A head's query times its keys; None where another core holds more heads than this one."""
        head, width = int(i.arg), self.model.head
        if head >= core.heads:
            return None
        query = core.vector[i.src1][head * width : (head + 1) * width]
        return self.arithmetic.over(self.arithmetic.scores(self._of_head(core.keys, head), query), np.sqrt(width))

    def below_maximum(self, core: _Core, i: Instruction) -> np.ndarray:
        """Scores less the largest; nothing of a head that another core holds."""
        scores = core.vector[i.src1] if int(i.arg) < core.heads else np.zeros(1, self.arithmetic.dtype)
        return scores - scores.max()

    def mix(self, core: _Core, i: Instruction) -> np.ndarray:
        """The values of a head weighed by its scores, behind those of the heads before."""
        head = int(i.arg)
        before = core.vector[isa.MIXED] if head else np.zeros(0, self.arithmetic.dtype)
        if head >= core.heads:
            return before
        weights = self.arithmetic.weighted_sum(self._of_head(core.values, head), core.vector[i.src1])
        return np.concatenate([before, weights])

    def likeliest(self, core: _Core, i: Instruction) -> None:
        """The largest logit of a core's share of the vocabulary, whose it is, and all of them."""
        logits = self.arithmetic.product(core.head_weights, core.vector[i.src1]).astype(np.float64)
        best = int(logits.argmax())
        core.vector[i.dst] = np.array([logits[best], float(core.first_token + best), *logits])

    def deviation(self, core: _Core, i: Instruction) -> np.ndarray:
        """The reciprocal root of a mean square."""
        variance = self.arithmetic.over(core.vector[i.src1], self.model.width) + self.arithmetic.dtype(EPSILON)
        return 1 / np.sqrt(variance.astype(self.arithmetic.inner))


def _rotate(core: _Core, i: Instruction) -> np.ndarray:
    halves = core.vector[i.src1].reshape(-1, 2, int(i.rows) // 2)
    return np.stack([-halves[:, 1], halves[:, 0]], 1).ravel()


_EXECUTE: dict[int, Callable[[DfxMachine, _Core, Instruction], np.ndarray | None]] = {
    isa.LOAD_TOKEN: lambda m, core, i: m.tokens[m._token],
    isa.LOAD_POSITION: lambda m, core, i: m.positions[m._position],
    isa.STORE_TOKEN: lambda m, core, i: None,  # leaves the core, to the host
    isa.SEND: lambda m, core, i: None,  # and to the next card
    isa.ADD_OP: lambda m, core, i: core.vector[i.src1] + core.vector[i.src2],
    isa.SUB_SCALAR: lambda m, core, i: core.vector[i.src1] - core.vector[i.src2],
    isa.MUL_OP: lambda m, core, i: core.vector[i.src1] * core.vector[i.src2],
    isa.MUL_SCALAR: lambda m, core, i: core.vector[i.src1] * core.vector[i.src2],
    isa.LOAD_GAMMA: lambda m, core, i: m.norm(i.role)[0],
    isa.LOAD_BETA: lambda m, core, i: m.norm(i.role)[1],
    isa.LOAD_COSINE: lambda m, core, i: rotary(m._position, m.model.head)[0],
    isa.LOAD_SINE: lambda m, core, i: rotary(m._position, m.model.head)[1],
    isa.LOAD_WEIGHTS: DfxMachine.load_weights,
    isa.ROTATE: lambda m, core, i: _rotate(core, i),
    isa.MUL_HEAD: lambda m, core, i: (
        core.vector[i.src1].reshape(-1, core.vector[i.src2].size) * core.vector[i.src2]
    ).ravel(),
    isa.EXP_OP: lambda m, core, i: np.exp(core.vector[i.src1].astype(m.arithmetic.inner)),
    isa.ACCUMULATE: lambda m, core, i: np.asarray(m.arithmetic.total(core.vector[i.src1])),
    isa.DIVIDE_BY_WIDTH: lambda m, core, i: m.arithmetic.over(core.vector[i.src1], m.model.width),
    isa.INVERSE_DEVIATION: DfxMachine.deviation,
    isa.RECIPROCAL_OP: lambda m, core, i: 1 / core.vector[i.src1].astype(m.arithmetic.inner),
    isa.CONV1D: DfxMachine.project,
    isa.CONV1D_GELU: lambda m, core, i: m.arithmetic.gelu(m.project(core, i)),
    isa.CONV1D_SILU: lambda m, core, i: m.arithmetic.silu(m.project(core, i)),
    isa.MASKED_MM: DfxMachine.scores,
    isa.SUB_MAXIMUM: DfxMachine.below_maximum,
    isa.MM: DfxMachine.mix,
    isa.MM_ARGMAX: DfxMachine.likeliest,
    isa.STORE_KEY: lambda m, core, i: core.keys[m._layer].append(core.vector[i.src1]),
    isa.STORE_VALUE: lambda m, core, i: core.values[m._layer].append(core.vector[i.src1]),
}
