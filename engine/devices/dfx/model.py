"""A small decoder with drawn weights, to run on the functional machine."""

from dataclasses import dataclass

import numpy as np

from engine.devices.dfx import program as isa

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
    rest = {isa.ATTENTION_OUT: layer.out, isa.FC1: layer.fc1, isa.FC2: layer.fc2}
    if layer.up is not None:
        rest = {isa.ATTENTION_OUT: layer.out, isa.GATE: layer.fc1, isa.UP: layer.up, isa.DOWN: layer.fc2}
    of |= {role: (pair, columns(pair[0].shape[1], cards, card)) for role, pair in rest.items()}
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
