"""Small networks to search precisions on, named like their large kin so that a plan for one is a plan for the other.

The recommendation model is trained here, on data drawn from a fixed seed; the text encoder is seeded, with a few
outlier channels as trained ones have. Every product runs on the engine's kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.lab.numerics.adam import Adam
from engine.lab.numerics.perceptron import backward, drawn, forward, sigmoid
from engine.lab.numerics.quantised import QuantisedLayer, QuantisedTables

Plan = Mapping[str, str]


@dataclass(frozen=True)
class Data:
    """Inputs of a split by name, and labels where there are any."""

    inputs: dict[str, np.ndarray]
    labels: np.ndarray


class Recommender:
    """DLRM in small: a bottom MLP, pooled tables, their dot products, a top MLP; one click probability an item."""

    bottom, top = ("bottom1", "bottom2", "bottom3"), ("top1", "top2", "top3", "top4")

    def __init__(self, layers: dict[str, QuantisedLayer], tables: QuantisedTables) -> None:
        self.layers, self.tables = layers, tables
        self.bags = tuple(f"table{t + 1}" for t in range(tables.values.shape[0]))
        self.names = (*self.bags, *self.bottom, *self.top)

    def run(self, data: Data, plan: Plan, inputs: dict[str, np.ndarray] | None = None) -> np.ndarray:
        """Probabilities float64 [items]; `inputs` collects each layer's inputs."""

        def apply(name: str, x: np.ndarray) -> np.ndarray:
            if inputs is not None:
                inputs[name] = x
            return self.layers[name].run(x, plan.get(name, "fp32"))

        x = data.inputs["dense"]
        for name in self.bottom:
            x = np.maximum(apply(name, x), 0)
        parts = [x]
        for at, name in enumerate(self.bags):
            index = data.inputs["sparse"][:, at]
            if inputs is not None:
                inputs[name] = index
            parts.append(self.tables.bags(at, index, plan.get(name, "fp32")))
        joined = np.stack(parts, axis=1)
        products = np.einsum("nik,njk->nij", joined, joined)
        low = np.tril_indices(joined.shape[1], -1)
        y = np.concatenate([products[:, low[0], low[1]], x], axis=1)
        for name in self.top[:-1]:
            y = np.maximum(apply(name, y), 0)
        return sigmoid(apply("top4", y)[:, 0].astype(np.float64))


class Encoder:
    """Transformer encoder in small, its layers sharing names as in the zoo; one embedding a sentence."""

    names = ("query", "key", "value", "attention-out", "fc1", "fc2")

    def __init__(
        self, stacks: list[dict[str, QuantisedLayer]], vocabulary: np.ndarray, heads: int, gains: np.ndarray
    ) -> None:
        self.stacks, self.vocabulary, self.heads, self.gains = stacks, vocabulary, heads, gains

    def _norm(self, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * self.gains

    def run(self, data: Data, plan: Plan, inputs: dict[str, np.ndarray] | None = None) -> np.ndarray:
        """Embeddings float32 [sentences, hidden]; `inputs` collects the first layer's inputs by name."""
        tokens = data.inputs["tokens"]
        n, s = tokens.shape
        x = self._norm(self.vocabulary[tokens])
        hidden = x.shape[2]

        for stack in self.stacks:

            def apply(name: str, value: np.ndarray, stack: dict[str, QuantisedLayer] = stack) -> np.ndarray:
                if inputs is not None:
                    inputs.setdefault(name, value)
                return stack[name].run(value, plan.get(name, "fp32"))

            flat = x.reshape(n * s, hidden)
            q, k, v = (apply(name, flat).reshape(n, s, self.heads, -1).transpose(0, 2, 1, 3) for name in self.names[:3])
            scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[3])
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            mixed = (weights / weights.sum(-1, keepdims=True)) @ v
            out = apply("attention-out", np.ascontiguousarray(mixed.transpose(0, 2, 1, 3)).reshape(n * s, hidden))
            x = self._norm(x + out.reshape(n, s, hidden))
            inner = apply("fc1", x.reshape(n * s, hidden))
            inner = 0.5 * inner * (1 + np.tanh(0.7978845608 * (inner + 0.044715 * inner * inner * inner)))
            x = self._norm(x + apply("fc2", inner).reshape(n, s, hidden))
        return x[:, 0]


def _scattered(index: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Gradients of pooled vectors ``[items, tables, width]`` added to their rows ``[items, tables, lookups]``."""
    rows = (index + ROWS * np.arange(TABLES)[None, :, None]).reshape(-1)
    spread = np.broadcast_to(g[:, :, None, :], (*index.shape, WIDTH)).reshape(-1, WIDTH)
    sums = [np.bincount(rows, spread[:, c], TABLES * ROWS) for c in range(WIDTH)]
    return np.stack(sums, axis=1).reshape(TABLES, ROWS, WIDTH).astype(np.float32)


TABLES, ROWS, WIDTH, LOOKUPS, DENSE = 8, 400, 16, 4, 128
_BOTTOM, _TOP = (DENSE, 256, 128, WIDTH), (TABLES * (TABLES + 1) // 2 + WIDTH, 256, 192, 64, 1)


def _clicks(rng: np.random.Generator, items: int, truth: tuple[np.ndarray, ...]) -> Data:
    """Items whose click odds mix dense features, looked-up rows and their products, with noise left over."""
    dense = rng.standard_normal((items, DENSE)).astype(np.float32)
    sparse = rng.integers(0, ROWS, (items, TABLES, LOOKUPS))
    direction, taste, pairs = truth
    liking = taste[np.arange(TABLES)[None, :, None], sparse].sum(2)
    logit = dense @ direction + 0.35 * liking.sum(1) + 0.25 * (liking[:, :-1] * liking[:, 1:] * pairs).sum(1) - 1.2
    clicked = rng.random(items) < sigmoid(logit.astype(np.float64))
    return Data({"dense": dense, "sparse": sparse.astype(np.int64)}, clicked.astype(np.float64))


@lru_cache(maxsize=1)
def recommender(items: int = 30_000, steps: int = 300, rows: int = 512) -> tuple[Recommender, dict[str, Data]]:
    """A trained model and its splits: tuning, held_out and untouched, `items` each."""
    rng = np.random.default_rng(2021)
    truth = (
        (rng.standard_normal(DENSE) / 12).astype(np.float32),
        (rng.standard_normal((TABLES, ROWS)) / 2).astype(np.float32),
        rng.standard_normal(TABLES - 1).astype(np.float32),
    )
    bottom, top = drawn(rng, _BOTTOM), drawn(rng, _TOP)
    tables = (0.15 * rng.standard_normal((TABLES, ROWS, WIDTH))).astype(np.float32)
    adam = Adam([*(value for layer in (*bottom, *top) for value in layer), tables])
    low = np.tril_indices(TABLES + 1, -1)
    picked = np.arange(TABLES)[None, :, None]
    for _ in range(steps):
        data = _clicks(rng, rows, truth)
        index = data.inputs["sparse"]
        below = forward(bottom, data.inputs["dense"])
        dense = np.maximum(below[-1], 0)
        joined = np.concatenate([dense[:, None], tables[picked, index].sum(2)], axis=1)
        products = joined @ joined.transpose(0, 2, 1)
        above = forward(top, np.concatenate([products[:, low[0], low[1]], dense], axis=1))
        g = ((sigmoid(above[-1][:, 0]) - data.labels) / rows).astype(np.float32)[:, None]
        of_top, g = backward(top, above, g)
        square = np.zeros_like(products)
        square[:, low[0], low[1]] = g[:, : len(low[0])]
        vectors = (square + square.transpose(0, 2, 1)) @ joined
        of_bottom, _ = backward(bottom, below, (vectors[:, 0] + g[:, len(low[0]) :]) * (dense > 0))
        adam.step([*of_bottom, *of_top, _scattered(index, vectors[:, 1:])], 2e-3)
    names = (*Recommender.bottom, *Recommender.top)
    layers = {name: QuantisedLayer(w, b) for name, (w, b) in zip(names, (*bottom, *top), strict=True)}
    splits = {name: _clicks(rng, items, truth) for name in ("tuning", "held_out", "untouched")}
    return Recommender(layers, QuantisedTables(tables)), splits


@lru_cache(maxsize=1)
def encoder(sentences: int = 48) -> tuple[Encoder, dict[str, Data]]:
    """A seeded encoder of three layers and splits of random sentences of 32 tokens."""
    rng = np.random.default_rng(24)
    hidden, ffn, heads, vocabulary, depth, tokens = 256, 1024, 8, 1_000, 3, 32
    shapes = {
        "query": (hidden, hidden),
        "key": (hidden, hidden),
        "value": (hidden, hidden),
        "attention-out": (hidden, hidden),
        "fc1": (hidden, ffn),
        "fc2": (ffn, hidden),
    }
    stacks = [
        {
            name: QuantisedLayer(rng.standard_normal(shape) / np.sqrt(shape[0]), 0.02 * rng.standard_normal(shape[1]))
            for name, shape in shapes.items()
        }
        for _ in range(depth)
    ]
    gains = np.ones(hidden, np.float32)
    gains[rng.choice(hidden, 2, replace=False)] = 24.0  # outlier channels, as trained encoders have
    words = rng.standard_normal((vocabulary, hidden)).astype(np.float32)
    splits = {
        name: Data({"tokens": rng.integers(0, vocabulary, (sentences, tokens))}, np.zeros(0))
        for name in ("tuning", "held_out", "untouched")
    }
    return Encoder(stacks, words, heads, gains), splits
