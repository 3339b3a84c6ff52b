"""A small GPT-2 to run on the functional machine, and the float32 reference it is compared with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["DecoderLayer", "Gpt2", "columns", "generate", "random_decoder", "reference_logits"]

EPSILON = 1e-5


@dataclass(frozen=True)
class DecoderLayer:
    """Parameters of one layer, float32; matrices are [inputs, outputs]."""

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


@dataclass(frozen=True)
class Gpt2:
    """GPT-2 with tied embeddings, float32."""

    heads: int
    tokens: np.ndarray  # [vocab, width]
    positions: np.ndarray
    layers: tuple[DecoderLayer, ...]
    gamma: np.ndarray
    beta: np.ndarray

    @property
    def width(self) -> int:
        """Width of the embedding. [-]"""
        return self.tokens.shape[1]


def columns(total: int, cards: int, card: int) -> slice:
    """Which of `total` heads or columns a card holds. [-]"""
    part = -(-total // cards)
    return slice(min(total, card * part), min(total, (card + 1) * part))


def random_decoder(
    heads: int = 4, layers: int = 2, vocab: int = 512, positions: int = 64, head: int = 64, seed: int = 0
) -> Gpt2:
    """A decoder with drawn weights, scaled so that the layers and not the tied embedding decide the next token."""
    rng = np.random.default_rng(seed)
    width = heads * head

    def matrix(rows: int, cols: int, gain: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        weights = rng.normal(0, gain / np.sqrt(rows), (rows, cols))
        return weights.astype(np.float32), rng.normal(0, 0.02, cols).astype(np.float32)

    def scale() -> tuple[np.ndarray, np.ndarray]:
        return rng.normal(1, 0.05, width).astype(np.float32), rng.normal(0, 0.05, width).astype(np.float32)

    blocks = []
    for _ in range(layers):
        (g1, b1), (g2, b2) = scale(), scale()
        query, key = matrix(width, width, 2.0), matrix(width, width, 2.0)
        value, out = matrix(width, width), matrix(width, width)
        fc1, fc2 = matrix(width, 4 * width, 2.0), matrix(4 * width, width, 2.0)
        blocks.append(DecoderLayer(g1, b1, query, key, value, out, g2, b2, fc1, fc2))
    gamma, beta = scale()
    tokens = rng.normal(0, 0.125, (vocab, width)).astype(np.float32)
    places = rng.normal(0, 0.25, (positions, width)).astype(np.float32)
    return Gpt2(heads, tokens, places, tuple(blocks), gamma, beta)


def _norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON) * gamma + beta


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def reference_logits(model: Gpt2, tokens: list[int]) -> np.ndarray:
    """Logits [tokens, vocab] of every position, in float32 with its own summation order."""
    n, heads = len(tokens), model.heads
    x = model.tokens[tokens] + model.positions[:n]
    mask = np.triu(np.full((n, n), -np.inf, np.float32), 1)
    for layer in model.layers:
        normed = _norm(x, layer.gamma1, layer.beta1)
        q, k, v = (
            (normed @ w + b).reshape(n, heads, -1).transpose(1, 0, 2) for w, b in (layer.query, layer.key, layer.value)
        )
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]) + mask
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = powers / powers.sum(-1, keepdims=True) @ v
        x = x + mixed.transpose(1, 0, 2).reshape(n, -1) @ layer.out[0] + layer.out[1]
        normed = _norm(x, layer.gamma2, layer.beta2)
        x = x + _gelu(normed @ layer.fc1[0] + layer.fc1[1]) @ layer.fc2[0] + layer.fc2[1]
    return _norm(x, model.gamma, model.beta) @ model.tokens.T


def generate(model: Gpt2, prompt: list[int], count: int) -> list[int]:
    """The `count` likeliest tokens after a prompt, in float32."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(reference_logits(model, tokens)[-1].argmax()))
    return tokens[len(prompt) :]
