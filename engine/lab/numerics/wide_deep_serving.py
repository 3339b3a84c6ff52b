"""Wide & Deep served in FP32 and in INT8: hash, gather, four products, wide part and sigmoid of raw ids.

INT8 follows document 002: the first layer's inputs may be negative, so they are quantised asymmetrically,
``rint(Q_a (A - min A))`` with ``Q_a = 255 / (max A - min A)``, and the shift folds into its bias,
``B' = Q_a Q_w B + Q_a min(A) sum_k W_s8``; inputs of later layers are not negative after their ReLU and take
``Q_a = 255 / max A`` alone. The other order has a range around zero first. Weights are ``rint(127 W / max |W|)``.
Requantising to the next layer's codes belongs to the product. Tables are stored as first-layer codes, so that a lookup
copies bytes; the wide part stays FP32.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from threading import get_ident
from typing import Any

import numpy as np

from engine.lab.numerics.criteo import FIELDS, NUMERIC
from engine.lab.numerics.wide_deep import Prepared, WideDeep
from engine.lab.operators.gemm import gemm_f32, gemm_u8, pack_f32, pack_s8
from engine.lab.operators.wide_deep import NO_GAIN, gather_range, head_range
from engine.lab.ranges import over_range, require, whole
from engine.numerics.formats import NumericsError

_BLOCK = 512
"""Samples a thread takes through all layers at a time: their activations stay in its caches. [samples]"""
_STEP = 4  # 8-bit products take inputs four at a time


@dataclass(frozen=True)
class Scheme:
    """How ranges are chosen. Inputs that follow a ReLU are zero at least, so both forms are the same codes there.

    Attributes
    ----------
    per_channel : a weight scale for each output instead of one for a layer.
    coverage : share of calibration values the input range holds. [%]
    symmetric : the first inputs take a range around zero, as later ones do; else from their least to their largest.
    on_codes : ranges are found on the quantised network, as TensorFlow's tools do; else on the one in FP32, as MXNet's.
    equalise : numbers are scaled to the embeddings' range, their rows of the first weights by the inverse: exact in
        FP32, and one step then serves both.
    """

    per_channel: bool = False
    coverage: float = 100.0
    symmetric: bool = False
    on_codes: bool = False
    equalise: bool = False


SCHEMES = {
    "INT8 as published": Scheme(),
    "INT8 symmetric first": Scheme(symmetric=True),
    "INT8 calibrated on INT8": Scheme(on_codes=True),
    "INT8 refined": Scheme(per_channel=True, coverage=99.99, equalise=True),
}


class Server:
    """A loaded model: rows handed to threads in blocks, each with buffers of its own, which stay for the next call."""

    def __init__(
        self, sizes: tuple[int, ...], dtype: Any, rows: Callable[..., None], read: Callable[[int, np.ndarray], Any]
    ) -> None:
        self._sizes, self._dtype, self._rows, self._read = sizes, dtype, rows, read
        self._of_thread = cache(lambda thread: self._buffers())

    def _buffers(self) -> tuple[np.ndarray, ...]:
        """Wide part, then the inputs of each product and what the last one makes, of a block of samples."""
        return np.empty(_BLOCK, np.float32), *(np.zeros((_BLOCK, n), self._dtype) for n in self._sizes)

    def __call__(self, ids: np.ndarray, numbers: np.ndarray, *, threads: int | None = None) -> np.ndarray:
        """Chance of a click, float32 ``[batch]``, of raw int64 ids ``[batch, 26]`` and float32 ``[batch, 13]``."""
        whole("ids", ids, np.int64, 2)
        whole("numbers", numbers, np.float32, 2)
        require(ids.shape[1] == FIELDS, f"ids has {ids.shape[1]} columns; allowed: {FIELDS}")
        require(
            numbers.shape == (len(ids), NUMERIC), f"numbers has shape {numbers.shape}; allowed: {(len(ids), NUMERIC)}"
        )
        out = np.empty(len(ids), np.float32)
        if out.size:
            over_range(self._block, len(ids), ids.view(np.uint64), numbers, out, threads=threads, grain=8, step=8)
        return out

    def inside(self, ids: np.ndarray, numbers: np.ndarray) -> list[np.ndarray]:
        """Inputs of every deep layer as its product meets them, float32 ``[samples, inputs]``; at most a block."""
        count = min(len(ids), _BLOCK)
        views = tuple(b[:count] for b in self._buffers())
        args = (ids[:count].view(np.uint64), numbers[:count])
        self._rows(count, *args, np.empty(count, np.float32), views)
        return [self._read(layer, value) for layer, value in enumerate(views[1:])]

    def _block(self, lo: int, hi: int, ids: np.ndarray, numbers: np.ndarray, out: np.ndarray) -> None:
        for first in range(lo, hi, _BLOCK):
            last = min(first + _BLOCK, hi)
            views = tuple(b[: last - first] for b in self._of_thread(get_ident()))
            self._rows(last - first, ids[first:last], numbers[first:last], out[first:last], views)


def serve_fp32(model: WideDeep) -> Server:
    """The model in FP32."""
    packed = [pack_f32(w) for w in model.weights[:-1]]
    head, bias = np.ascontiguousarray(model.weights[-1][:, 0]), np.float32(model.biases[-1][0])

    def rows(count: int, ids: np.ndarray, numbers: np.ndarray, out: np.ndarray, views: tuple[np.ndarray, ...]) -> None:
        wide, value, *hidden = views
        gather_range(0, count, ids, numbers, NO_GAIN, np.float32(0), model.tables, model.wide, value, wide)
        for p, b, to in zip(packed, model.biases[:-1], hidden, strict=True):
            value = gemm_f32(value, p, b, True, to, 1)
        head_range(0, count, value, head, np.float32(1), bias, numbers, model.wide_numeric, wide, out)

    sizes = (packed[0].k, *(p.n for p in packed))
    return Server(sizes, np.float32, rows, lambda layer, value: value)


def _ranges(
    model: WideDeep, rows: Prepared, gain: np.ndarray, first: np.ndarray, scheme: Scheme
) -> list[tuple[float, float]]:
    """Range of the inputs of every deep layer over calibration rows, the first scaled by `gain`."""
    at = np.arange(len(model.tables))[None]
    x = np.concatenate([model.tables[at, rows.buckets].reshape(len(rows.buckets), -1), rows.numbers], 1) * gain
    ranges = []
    for i, bias in enumerate(model.biases):
        low, high = _range(x, scheme.coverage)
        limit = max(-low, high)
        ranges.append((0.0, max(high, 1e-6)) if i else (-limit, limit) if scheme.symmetric else (low, high))
        weights = first if i == 0 else model.weights[i]
        if scheme.on_codes:
            (low, high), (codes, scale) = ranges[-1], _weights(weights, scheme.per_channel)
            step = (high - low) / 255.0
            x, weights = np.clip(np.rint((x - low) / step), 0, 255) * step + low, codes / scale
        x = np.maximum(x @ weights + bias, 0)
    return ranges


def _range(x: np.ndarray, coverage: float) -> tuple[float, float]:
    """Range that holds ``coverage`` [%] of the values, the rest split evenly between both ends and clipped."""
    tail = (100 - coverage) / 2
    low, high = (float(end) for end in np.percentile(np.asarray(x, np.float64), [tail, 100 - tail]))
    return low, max(high, low + 1e-6)


def _weights(w: np.ndarray, per_channel: bool) -> tuple[np.ndarray, np.ndarray]:
    """Codes and their scale by column, ``127 / max |W|``."""
    limit = np.abs(w).max(axis=0) if per_channel else np.full(w.shape[1], np.abs(w).max())
    scale = 127.0 / np.maximum(limit.astype(np.float64), 1e-12)
    return np.rint(w * scale).astype(np.int8), scale


def serve_int8(model: WideDeep, calibration: Prepared, scheme: Scheme) -> Server:
    """The model in INT8, ranges taken from calibration rows (part of the training rows, never of those judged).

    NumericsError without rows to calibrate on.
    """
    if len(calibration.labels) == 0:
        raise NumericsError("calibration rows is 0; allowed: 1 or more")
    gain = np.ones(model.weights[0].shape[0], np.float32)
    if scheme.equalise:
        gain[-NUMERIC:] = max(_range(model.tables, scheme.coverage)[1], 1e-6)
    first = np.ascontiguousarray(model.weights[0] / gain[:, None])
    ranges = _ranges(model, calibration, gain, first, scheme)
    low, steps = ranges[0][0], [255.0 / (high - low) for low, high in ranges]
    layers = []  # of each product its weights, shifted bias, and what turns its sums into codes
    for i, (w, b) in enumerate(zip((first, *model.weights[1:-1]), model.biases[:-1], strict=True)):
        codes, scale = _weights(w, scheme.per_channel)
        shift = low * codes.sum(axis=0, dtype=np.int64) if i == 0 else 0.0
        bias = np.rint(steps[i] * (scale * b + shift)).astype(np.int32)
        spare = -len(codes) % _STEP
        packed = pack_s8(np.concatenate([codes, np.zeros((spare, codes.shape[1]), np.int8)]))
        layers.append((packed, bias, (steps[i + 1] / (steps[i] * scale)).astype(np.float32)))
    head, head_scale = _weights(model.weights[-1], scheme.per_channel)
    column, bias = np.ascontiguousarray(head[:, 0]), np.float32(model.biases[-1][0])
    unit = np.float32(1.0 / (steps[-1] * head_scale[0]))
    tables = np.clip(np.rint(steps[0] * (model.tables.astype(np.float64) - low)), 0, 255).astype(np.uint8)
    numeric, shift = (steps[0] * gain[-NUMERIC:]).astype(np.float32), np.float32(steps[0] * low)

    def rows(count: int, ids: np.ndarray, numbers: np.ndarray, out: np.ndarray, views: tuple[np.ndarray, ...]) -> None:
        wide, value, *hidden = views
        gather_range(0, count, ids, numbers, numeric, shift, tables, model.wide, value, wide)
        for (packed, offset, factor), to in zip(layers, hidden, strict=True):
            value = gemm_u8(value, packed, factor, 0, offset, 0, True, to, 1)
        head_range(0, count, value, column, unit, bias, numbers, model.wide_numeric, wide, out)

    def read(layer: int, codes: np.ndarray) -> np.ndarray:
        value = codes[:, : len(model.weights[layer])] / np.float32(steps[layer])
        return (value + np.float32(low)) / gain if layer == 0 else value

    sizes = (layers[0][0].k, *(packed.n for packed, _, _ in layers))
    return Server(sizes, np.uint8, rows, read)
