"""A small recommendation model to search precisions on, its layers named like those of its large kin, so that a plan
for one is a plan for the other.

It is trained here, on data drawn from a fixed seed. Every product runs on the engine's kernels, in INT8, FP16, BF16 or
FP32. INT8 products take weights with one scale a filter and unsigned activations with one scale and zero point, whose
range was observed beforehand (static) or is that of the batch (dynamic); sums are exact in 32 bits. What leaves a layer
is float32.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from engine.lab.numerics.perceptron import Adam, backward, forward, random_layers, sigmoid
from engine.lab.operators.embedding import RowTable, embedding_bag, pack_rows
from engine.lab.operators.gemm import Packed, bf16_bits, gemm_f32, gemm_s32, pack_bf16, pack_f32, pack_s8
from engine.lab.operators.pointwise import quantise
from engine.numerics.formats import Integer, NumericsError

LAYER_FORMATS = ("int8", "bf16", "fp16", "fp32")
_CODES = 255


def _to_half(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


class QuantisedLayer:
    """A product with stored weights ``[inputs, outputs]`` and a bias, runnable in every format of `LAYER_FORMATS`."""

    def __init__(self, weight: np.ndarray, bias: np.ndarray) -> None:
        self.weight = np.ascontiguousarray(weight, np.float32)
        self.bias = np.ascontiguousarray(bias, np.float32)
        self.limits: tuple[float, float] | None = None  # of its inputs; None: those of each batch

    def observe(self, x: np.ndarray) -> None:
        """Fixes the range of the inputs to what `x` holds (static quantisation)."""
        self.limits = (min(0.0, float(x.min())), max(0.0, float(x.max())))

    @cached_property
    def _eight(self) -> tuple[Packed, np.ndarray]:
        codes, scale = Integer(8, granularity="channel").codes(self.weight)
        return pack_s8(codes.astype(np.int8)), scale[0]

    @cached_property
    def _wide(self) -> dict[str, Packed]:
        return {
            "fp32": pack_f32(self.weight),
            "fp16": pack_f32(_to_half(self.weight)),
            "bf16": pack_bf16(self.weight),
        }

    def run(self, x: np.ndarray, format: str) -> np.ndarray:
        """``x @ weight + bias`` as the format computes it; float32 [rows, inputs] -> float32 [rows, outputs].

        NumericsError for an unknown format.
        """
        x = np.ascontiguousarray(x, np.float32)
        if format == "fp32":
            return gemm_f32(x, self._wide["fp32"], self.bias)
        if format == "fp16":
            return _to_half(gemm_f32(_to_half(x), self._wide["fp16"], self.bias))  # float32 sums, rounded once
        if format == "bf16":
            return gemm_f32(bf16_bits(x), self._wide["bf16"], self.bias)
        if format != "int8":
            raise NumericsError(f"format is {format!r}; allowed: {', '.join(LAYER_FORMATS)}")
        low, high = self.limits or (min(0.0, float(x.min())), max(0.0, float(x.max())))
        step = np.float32((high - low) / _CODES if high > low else 1.0)
        zero = round(-low / float(step))
        packed, scale = self._eight
        codes = quantise(x, float(step), zero, dtype=np.uint8)
        sums = gemm_s32(codes, packed, zero)
        return sums * (step * scale) + self.bias


class QuantisedTables:
    """Embedding tables ``[tables, rows, width]`` whose looked-up rows are summed, each in a format of rows."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = np.ascontiguousarray(values, np.float32)
        self._tables: dict[tuple[int, str], RowTable] = {}

    def bags(self, table: int, indices: np.ndarray, format: str) -> np.ndarray:
        """Sums of rows of one table: int64 ``[items, lookups]`` -> float32 ``[items, width]``.

        KernelError for an unknown format.
        """
        if (table, format) not in self._tables:
            self._tables[table, format] = pack_rows(self.values[table], format)
        items, lookups = indices.shape
        offsets = np.arange(0, items * lookups + 1, lookups, dtype=np.int64)
        return embedding_bag(self._tables[table, format], np.ascontiguousarray(indices.reshape(-1)), offsets)


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
        features = np.stack(parts, axis=1)
        products = np.einsum("nik,njk->nij", features, features)
        low = np.tril_indices(features.shape[1], -1)
        y = np.concatenate([products[:, low[0], low[1]], x], axis=1)
        for name in self.top[:-1]:
            y = np.maximum(apply(name, y), 0)
        return sigmoid(apply("top4", y)[:, 0].astype(np.float64))


def _scatter(index: np.ndarray, g: np.ndarray) -> np.ndarray:
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
    labels = rng.random(items) < sigmoid(logit.astype(np.float64))
    return Data({"dense": dense, "sparse": sparse.astype(np.int64)}, labels.astype(np.float64))


@lru_cache(maxsize=1)
def recommender(items: int = 30_000, steps: int = 300, rows: int = 512) -> tuple[Recommender, dict[str, Data]]:
    """A trained model and its splits: tuning, held_out and untouched, `items` each."""
    rng = np.random.default_rng(2021)
    truth = (
        (rng.standard_normal(DENSE) / 12).astype(np.float32),
        (rng.standard_normal((TABLES, ROWS)) / 2).astype(np.float32),
        rng.standard_normal(TABLES - 1).astype(np.float32),
    )
    bottom, top = random_layers(rng, _BOTTOM), random_layers(rng, _TOP)
    tables = (0.15 * rng.standard_normal((TABLES, ROWS, WIDTH))).astype(np.float32)
    adam = Adam([*(value for layer in (*bottom, *top) for value in layer), tables])
    low = np.tril_indices(TABLES + 1, -1)
    table = np.arange(TABLES)[None, :, None]
    for _ in range(steps):
        data = _clicks(rng, rows, truth)
        index = data.inputs["sparse"]
        below = forward(bottom, data.inputs["dense"])
        dense = np.maximum(below[-1], 0)
        features = np.concatenate([dense[:, None], tables[table, index].sum(2)], axis=1)
        products = features @ features.transpose(0, 2, 1)
        above = forward(top, np.concatenate([products[:, low[0], low[1]], dense], axis=1))
        g = ((sigmoid(above[-1][:, 0]) - data.labels) / rows).astype(np.float32)[:, None]
        of_top, g = backward(top, above, g)
        square = np.zeros_like(products)
        square[:, low[0], low[1]] = g[:, : len(low[0])]
        vectors = (square + square.transpose(0, 2, 1)) @ features
        of_bottom, _ = backward(bottom, below, (vectors[:, 0] + g[:, len(low[0]) :]) * (dense > 0))
        adam.step([*of_bottom, *of_top, _scatter(index, vectors[:, 1:])], 2e-3)
    names = (*Recommender.bottom, *Recommender.top)
    layers = {name: QuantisedLayer(w, b) for name, (w, b) in zip(names, (*bottom, *top), strict=True)}
    splits = {name: _clicks(rng, items, truth) for name in ("tuning", "held_out", "untouched")}
    return Recommender(layers, QuantisedTables(tables)), splits
