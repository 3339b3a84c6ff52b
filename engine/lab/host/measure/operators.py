"""Cases other than products: convolutions, lookups, recurrent steps, attention, and one-pass operators."""

from functools import partial
from math import prod
from typing import Any, cast

import numpy as np

from engine.devices.cpu.flags import PANEL_FILL
from engine.kernels.events.rng import mix
from engine.kernels.jit import body_of
from engine.lab.host.measure.cases import Case, MeasureError, few_rows, noise, product
from engine.lab.ir.microkernel import NC, panels
from engine.lab.operators.attention import attention
from engine.lab.operators.binary import binary_counts, pack_binary
from engine.lab.operators.conv import conv, pack_conv
from engine.lab.operators.embedding import RowTable, embedding_bag, pack_rows
from engine.lab.operators.fused import max_pool
from engine.lab.operators.norm import layer_norm
from engine.lab.operators.pointwise import Activation, activate, quantise
from engine.lab.operators.rnn import GATES, gru_step, lstm_step, pack_cell
from engine.lab.operators.softmax import softmax
from engine.lab.operators.wide_deep import hash_ids

_ROW_BYTES = {"fp32": 4.0, "fp16": 2.0, "int8": 1.0, "int4": 0.5}
_POINTWISE = {  # name -> (float64 twin, operations of an element as the graphs count them)
    "relu": (lambda x: np.maximum(x, 0), 1.0),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 4.0),
    "tanh": (np.tanh, 1.0),
    "gelu_tanh": (lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), 9.0),
}
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _conv64(x: np.ndarray, w: np.ndarray, stride: int, pad: int, rows: int) -> np.ndarray:
    """First output pixels of a convolution in float64, channels last: [rows, OC]."""
    image = np.pad(x[0].astype(np.float64), ((pad, pad), (pad, pad), (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(image, w.shape[2:], axis=(0, 1))[::stride, ::stride]
    spots = np.unravel_index(np.arange(rows), view.shape[:2])
    return np.einsum("pckl,ockl->po", view[spots], w.astype(np.float64))


def convolve(spatial: tuple[int, int], channels: int, filters: int, window: int, stride: int, threads: int) -> Case:
    """A convolution of an image, channels last, same padding.

    A window of one pixel makes it a matrix product, which runs it where the filters fill the product's panels.
    """
    if window == stride == 1 and filters > PANEL_FILL * panels(filters) * NC:
        return product(prod(spatial), channels, filters, "fp32", threads)
    pad = window // 2
    out_shape = tuple((n + 2 * pad - window) // stride + 1 for n in spatial)
    if min(out_shape) < 1:
        raise MeasureError(f"spatial is {spatial}; allowed: at least the window {window} less its padding")
    image = np.pad(noise(1, *spatial, channels), ((0, 0), (pad, pad), (pad, pad), (0, 0)))  # as the one before wrote it
    x = image[:, pad : pad + spatial[0], pad : pad + spatial[1]]
    w = noise(filters, channels, window, window, scale=1 / np.sqrt(window**2 * channels))
    flop_per_pixel = 2.0 * window**2 * channels * filters
    exact = _conv64(x, w, stride, pad, min(few_rows(prod(out_shape), flop_per_pixel), 512))

    def check(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return y.reshape(-1, filters)[: len(exact)], exact

    size = 4.0 * (x.size + w.size + prod(out_shape) * filters)
    packed, out = pack_conv(w, stride=stride, padding=pad), np.empty((1, *out_shape, filters), np.float32)
    run = partial(conv, image, packed, has_border=True, out=out, threads=threads)
    return Case("conv", run, check, None, prod(out_shape) * flop_per_pixel, size, "fp32")


def pool(side: int, channels: int, window: int, stride: int, threads: int) -> Case:
    """Largest of each window of an image."""
    x = noise(1, side, side, channels)
    view = np.lib.stride_tricks.sliding_window_view(x[0], (window, window), axis=(0, 1))[::stride, ::stride]
    exact = view.max(axis=(-1, -2)).astype(np.float64)
    run = partial(max_pool, x, window, stride, threads=threads)
    work = float(exact.size * window**2)
    return Case("max_pool", run, lambda y: (y[0], exact), None, work, 4.0 * (x.size + exact.size), "fp32")


def lookup(bags: int, lookups: int, rows: int, width: int, precision: str, threads: int) -> Case:
    """Rows of a table summed into bags (or copied, one a bag); new rows at each call: none is warm by chance."""
    if precision not in _ROW_BYTES:
        raise MeasureError(f"precision is {precision!r}; allowed for lookups: {', '.join(_ROW_BYTES)}")
    rng = np.random.default_rng(3)
    values = noise(min(rows, 4096), width)
    small = pack_rows(values, precision)  # one block of rows, repeated: packing all of a large table takes long
    table = RowTable(precision, width, np.resize(small.data, (rows, small.data.shape[1])))
    ids = [rng.integers(0, rows, bags * lookups) for _ in range(8)]
    offsets = np.arange(bags + 1, dtype=np.int64) * lookups if lookups > 1 else None
    out = np.empty((bags, width), np.float32)
    turn = [0]

    def run() -> np.ndarray:
        turn[0] = (turn[0] + 1) % len(ids)
        return embedding_bag(table, ids[turn[0]], offsets, out=out, threads=threads)

    def check(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        real = values.astype(np.float64)[ids[turn[0]] % len(values)]
        return y, real.reshape(bags, lookups, width).sum(axis=1)

    traffic = bags * (lookups * width * _ROW_BYTES[precision] + 4.0 * width)
    name = "embedding_lookup" if lookups == 1 else "embedding_bag"
    flops = float(bags * lookups * width) if lookups > 1 else 0.0
    return Case(f"{name} {precision}", run, check, None, flops, traffic, precision)


def binary(m: int, k: int, n: int, threads: int) -> Case:
    """Rows of bits against neurons of bits: xor and count."""
    if k % 8:
        raise MeasureError(f"K is {k}; allowed for bits: multiples of 8")
    rng = np.random.default_rng(5)
    x = rng.integers(0, 256, (m, k // 8), dtype=np.uint8)
    weights = rng.integers(0, 256, (n, k // 8), dtype=np.uint8)
    rows = few_rows(m, 8.0 * k * n)

    def beside(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first rows of a result, and what they should be: made only for who compares."""
        lhs, rhs = (np.unpackbits(v, axis=1).astype(np.float64) for v in (x[:rows], weights))
        return y[:rows], lhs @ (1 - rhs).T + (1 - lhs) @ rhs.T

    run, traffic = partial(binary_counts, x, pack_binary(weights), threads), (m * k + k * n) / 8 + 4.0 * m * n
    return Case("binary_fc", run, beside, None, 2.0 * m * k * n, traffic, "binary")


def recurrent(kind: str, batch: int, inputs: int, hidden: int, threads: int) -> Case:
    """One step of an LSTM or GRU cell: both products and every gate."""
    gates = GATES[kind]
    w = noise(gates * hidden, inputs, scale=1 / np.sqrt(inputs))
    r = noise(gates * hidden, hidden, scale=1 / np.sqrt(hidden))
    packed = pack_cell(cast(Any, kind), w, r)
    x, h, c = noise(batch, inputs), np.tanh(noise(batch, hidden)), noise(batch, hidden)
    run: Any
    gx, gh = x.astype(np.float64) @ w.T.astype(np.float64), h.astype(np.float64) @ r.T.astype(np.float64)
    sigmoid = _POINTWISE["sigmoid"][0]
    if kind == "lstm":  # ONNX order: input, output, forget, cell
        i, o, f, g = np.split(gx + gh, 4, axis=1)
        exact = sigmoid(o) * np.tanh(sigmoid(f) * c + sigmoid(i) * np.tanh(g))
        run = lambda: lstm_step(x, h, c, packed, threads=threads)[0]  # noqa: E731
    else:  # update, reset, hidden; the reset gate scales the recurrent product
        (zx, rx, nx), (zh, rh, nh) = np.split(gx, 3, axis=1), np.split(gh, 3, axis=1)
        update = sigmoid(zx + zh)
        exact = (1 - update) * np.tanh(nx + sigmoid(rx + rh) * nh) + update * h
        run = partial(gru_step, x, h, packed, threads=threads)
    flops = 2.0 * batch * gates * hidden * (inputs + hidden)
    size = 4.0 * (w.size + r.size + batch * (inputs + 2 * hidden))
    return Case(f"{kind}_step", run, lambda y: (y, exact), None, flops, size, "fp32")


def attend(tokens: int, length: int, heads: int, depth: int, threads: int) -> Case:
    """Causal attention of some tokens on a cache: both products and the softmax between them."""
    if tokens > length:
        raise MeasureError(f"attention of {tokens} tokens on {length} rows: allowed are at most as many tokens as rows")
    q, keys, values = noise(tokens, heads, depth), *(np.roll(noise(heads, length, depth), by) for by in (1, 7))
    scores = np.einsum("thd,hsd->hts", q.astype(np.float64), keys) / np.sqrt(depth)
    scores[:, np.arange(length)[None, :] > length - tokens + np.arange(tokens)[:, None]] = -np.inf
    weight = np.exp(scores - scores.max(axis=2, keepdims=True))
    exact = np.einsum("hts,hsd->thd", weight / weight.sum(axis=2, keepdims=True), values.astype(np.float64))
    run = partial(attention, q, keys, values, length, threads=threads)
    flops = 4.0 * tokens * heads * length * depth
    return Case("attention", run, lambda y: (y, exact), None, flops, 8.0 * (q.size + keys.size), "fp32")


def pointwise(name: Activation, elements: int, threads: int) -> Case:
    """An activation, one pass over float32."""
    twin, operations = _POINTWISE[name]
    x, out = noise(elements), np.empty(elements, np.float32)
    run = partial(activate, x, name, out=out, threads=threads)
    exact = twin(x[: 1 << 20].astype(np.float64))
    return Case(name, run, lambda y: (y[: len(exact)], exact), None, operations * elements, 8.0 * elements, "fp32")


def soft(rows: int, columns: int, threads: int) -> Case:
    """Softmax of rows."""
    x, out = noise(rows, columns), np.empty((rows, columns), np.float32)
    powers = np.exp(x[: few_rows(rows, 8.0 * columns)].astype(np.float64))
    exact = powers / powers.sum(axis=1, keepdims=True)
    run = partial(softmax, x, out=out, threads=threads)
    return Case("softmax", run, lambda y: (y[: len(exact)], exact), None, 5.0 * x.size, 8.0 * x.size, "fp32")


def normalise(rows: int, columns: int, threads: int) -> Case:
    """Layer normalisation of rows."""
    x, gain, shift, out = noise(rows, columns), noise(columns), noise(columns), np.empty((rows, columns), np.float32)
    wide = x[: few_rows(rows, 8.0 * columns)].astype(np.float64)
    exact = (wide - wide.mean(axis=1, keepdims=True)) / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5) * gain + shift
    run = partial(layer_norm, x, gain, shift, out=out, threads=threads)
    return Case("layer_norm", run, lambda y: (y[: len(wide)], exact), None, 7.0 * x.size, 8.0 * x.size, "fp32")


def quantiser(rows: int, columns: int, threads: int) -> Case:
    """Float32 to 8-bit codes, one scale."""
    x = noise(rows, columns)
    step, out = float(np.float32(np.abs(x).max() / 127)), np.empty(x.shape, np.int8)
    run = partial(quantise, x, step, out=out, threads=threads)
    exact = x[: few_rows(rows, 8.0 * columns)].astype(np.float64)

    def check(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return y[: len(exact)].astype(np.float64) * step, exact

    return Case("quantise", run, check, None, float(x.size), 5.0 * x.size, "int8")


def hash_fields(rows: int, fields: int, threads: int, buckets: int = 1_000_000) -> Case:
    """64-bit ids to buckets, a hash for each field."""
    ids = np.random.default_rng(9).integers(0, 2**63, (rows, fields))
    run = partial(hash_ids, ids, buckets, threads=threads)
    z = body_of(mix)(ids.view(np.uint64) + (np.arange(fields, dtype=np.uint64) + np.uint64(1)) * _GOLDEN)
    exact = (((z >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)).astype(np.float64)
    return Case("hash_ids", run, lambda y: (y, exact), None, float(ids.size), 16.0 * ids.size, "fp32")
