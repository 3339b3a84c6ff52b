"""Cases other than products: convolutions, pools, lookups, recurrent steps, attention, and one-pass operators."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, cast

import numpy as np

from engine.devices.cpu.flags import PANEL_FILL
from engine.lab.host.measure.cases import Case, Check, MeasureError, few_rows, given, noise, product, room
from engine.lab.ir.microkernel import NC, panels
from engine.lab.operators.activation import Activation, activate
from engine.lab.operators.attention import attention
from engine.lab.operators.batched import gemm_batched
from engine.lab.operators.binary import binary_counts, pack_binary
from engine.lab.operators.combine import combine
from engine.lab.operators.conv import conv, conv_shape, pack_conv
from engine.lab.operators.conv_int8 import conv_u8, pack_conv_s8
from engine.lab.operators.depthwise import depthwise, narrow_groups, pack_depthwise
from engine.lab.operators.embedding import RowFormat, RowTable, embedding_bag, embedding_lookup, pack_rows
from engine.lab.operators.norm import batch_norm, layer_norm, rms_norm
from engine.lab.operators.pool import average_pool, global_average_pool, max_pool
from engine.lab.operators.quantise import quantise
from engine.lab.operators.rnn import GATES, gru_step, lstm_step, pack_cell
from engine.lab.operators.softmax import softmax

_MIDDLE = 128  # zero point of unsigned codes of values of both signs
_ROW_BYTES = {"fp32": 4.0, "fp16": 2.0, "int8": 1.0, "int4": 0.5}
_POINTWISE = {  # name -> (float64 twin, operations of an element as the graphs count them)
    "relu": (lambda x: np.maximum(x, 0), 1.0),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 4.0),
    "tanh": (np.tanh, 1.0),
    "silu": (lambda x: x / (1 + np.exp(-x)), 5.0),
    "gelu_tanh": (lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), 9.0),
    "clip6": (lambda x: np.clip(x, 0, 6), 2.0),
    "hard_swish": (lambda x: x * np.clip(x + 3, 0, 6) / 6, 5.0),
    "copy": (lambda x: x, 0.0),
    "add": (lambda x: 2 * x, 1.0),
    "mul": (lambda x: x * x, 1.0),
}
_COMBINED = ("add", "mul", "clip6", "hard_swish", "copy")


def _conv64(x: np.ndarray, w: np.ndarray, stride: tuple[int, ...], pad: tuple[int, ...], groups: int, rows: int):
    """First output pixels of a convolution in float64, channels last: [rows, OC]."""
    rank = w.ndim - 2
    edged = np.pad(x[:1].astype(np.float64), [(0, 0), *[(p, p) for p in pad], (0, 0)])[0]
    view = np.lib.stride_tricks.sliding_window_view(edged, w.shape[2:], axis=tuple(range(rank)))
    view = view[tuple(slice(None, None, s) for s in stride)]
    spots = np.unravel_index(np.arange(min(rows, prod(view.shape[:rank]))), view.shape[:rank])
    patches = view[spots].reshape(len(spots[0]), groups, w.shape[1], -1)
    weight = w.astype(np.float64).reshape(groups, w.shape[0] // groups, w.shape[1], -1)
    return np.einsum("pgcw,gocw->pgo", patches, weight).reshape(len(spots[0]), -1)


def convolve(
    batch: int,
    spatial: tuple[int, ...],
    channels: int,
    filters: int,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    pad: tuple[int, ...],
    groups: int,
    threads: int,
    relu: bool = False,
    copies: int = 1,
) -> Case:
    """A convolution of one to three dimensions, channels last; depthwise where each channel has its own window.

    A window of one pixel makes it a matrix product, which runs it where the filters fill the product's panels.
    """
    if max(window) == max(stride) == groups == 1 and not max(pad) and filters > PANEL_FILL * panels(filters) * NC:
        return product(batch * prod(spatial), channels, filters, "fp32", threads, copies, relu)
    edges = tuple(n + 2 * p for n, p in zip(spatial, pad, strict=True))
    edged = given(batch, *edges, channels)  # the operator before it has written its border
    x = edged[(slice(None), *(slice(p, p + n) for n, p in zip(spatial, pad, strict=True)))]
    for axis, (p, n) in enumerate(zip(pad, spatial, strict=True), 1):
        np.moveaxis(edged, axis, 0)[:p] = 0
        np.moveaxis(edged, axis, 0)[p + n :] = 0
    thin = narrow_groups(channels, filters, groups, window, stride)
    make: Any = (
        partial(pack_depthwise, stride=stride, padding=pad)
        if thin
        else partial(pack_conv, stride=stride, padding=pad, groups=groups)
    )
    w = noise(filters, channels // groups, *window, scale=1 / np.sqrt(prod(window) * channels / groups))
    packed = [make(np.roll(w, i, axis=0)) for i in range(copies)]
    operator: Any = depthwise if thin else conv
    out_shape = tuple((n + 2 * p - k) // s + 1 for n, k, s, p in zip(spatial, window, stride, pad, strict=True))
    if min(out_shape) < 1:
        raise MeasureError(f"spatial is {spatial}; allowed: at least the window {window} less its padding")
    flops = 2.0 * batch * prod(out_shape) * prod(window) * (channels // groups) * filters
    rows = min(few_rows(prod(out_shape), flops / (batch * prod(out_shape))), 512)
    exact = _conv64(x, w, stride, pad, groups, rows)
    exact = np.maximum(exact, 0) if relu else exact

    def check(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return y.reshape(-1, filters)[: len(exact)], exact

    size = 4.0 * (x.size + w.size + batch * prod(out_shape) * filters)
    assert thin or conv_shape(spatial, packed[0]) == out_shape
    out = room(batch, *out_shape, filters)
    runs = tuple(partial(operator, edged, p, relu=relu, bordered=True, out=out, threads=threads) for p in packed)
    name = "depthwise" if thin else "conv"
    return Case(name, runs, check, None, flops, size, "fp32", (out, edged))


def convolve_u8(side: int, channels: int, filters: int, window: int, threads: int) -> Case:
    """A convolution of 8-bit codes to 8-bit codes, same padding; both ends have their zero in the middle."""
    spatial, edge = (side, side), (window // 2,) * 2
    x, w = (
        noise(1, side, side, channels),
        noise(filters, channels, window, window, scale=1 / np.sqrt(window**2 * channels)),
    )
    flops = 2.0 * (side + 2 * edge[0] - window + 1) ** 2 * window**2 * channels * filters
    if flops <= 0 or side + 2 * edge[0] < window:
        raise MeasureError(f"spatial is {spatial}; allowed: at least the window {window} less its padding")
    exact = _conv64(x, w, (1, 1), edge, 1, min(few_rows(side**2, flops / side**2), 512))
    step_x, step_w = (float(np.float32(np.abs(a).max() / 127)) for a in (x, w))
    step_y = np.float32(max(np.abs(exact).max(), 1e-30) / 120)
    codes = quantise(x, step_x, _MIDDLE, dtype=np.uint8)
    packed = pack_conv_s8(np.clip(np.rint(w / step_w), -127, 127).astype(np.int8), padding=edge)
    scale = np.full(filters, step_x * step_w / step_y, np.float32)
    run = partial(conv_u8, codes, packed, scale, zero=_MIDDLE, zero_out=_MIDDLE, threads=threads)

    def check(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (y.reshape(-1, filters)[: len(exact)].astype(np.float64) - _MIDDLE) * step_y, exact

    size = float(codes.size + w.size + flops / (2 * window**2 * channels))
    return Case("conv_u8", (run,), check, None, flops, size, "int8", (codes,))


def _image(exact: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first image of a result beside the exact one."""
    return y[0], exact


def pool(
    kind: str, batch: int, spatial: tuple[int, int], channels: int, window: int, stride: int, pad: int, threads: int
) -> Case:
    """Maximum, average or global average over windows of an image."""
    x = given(batch, *spatial, channels)
    if kind == "GlobalAveragePool":
        exact = x.astype(np.float64).mean(axis=(1, 2))
        run = partial(global_average_pool, x, threads=threads)
        size = 4.0 * (x.size + exact.size)
        return Case(
            "global_average_pool",
            (run,),
            lambda y: (y, exact),
            partial(x.mean, axis=(1, 2)),
            float(x.size),
            size,
            "fp32",
            (x,),
        )
    operator = max_pool if kind == "MaxPool" else average_pool
    run = partial(operator, x, window, stride=stride, padding=pad, threads=threads)
    fill = -np.inf if kind == "MaxPool" else 0.0
    edged = np.pad(x[:1].astype(np.float64), [(0, 0), (pad, pad), (pad, pad), (0, 0)], constant_values=fill)[0]
    view = np.lib.stride_tricks.sliding_window_view(edged, (window, window), axis=(0, 1))[::stride, ::stride]
    rows = view.shape[0] if not pad or kind == "MaxPool" else 0
    check: Check | None = None
    if rows:
        exact = view.max(axis=(-1, -2)) if kind == "MaxPool" else view.mean(axis=(-1, -2))
        check = partial(_image, exact)
    made = batch * view.shape[0] * view.shape[1] * channels
    return Case(operator.__name__, (run,), check, None, float(made * window**2), 4.0 * (x.size + made), "fp32", (x,))


def lookup(bags: int, lookups: int, rows: int, width: int, precision: str, threads: int, tables: int = 1) -> Case:
    """Rows of tables summed into bags (or copied, one a bag); new rows at each call, so that none is warm by chance."""
    if precision not in _ROW_BYTES:
        raise MeasureError(f"precision is {precision!r}; allowed for lookups: {', '.join(_ROW_BYTES)}")
    rng = np.random.default_rng(3)
    values = noise(min(rows, 4096), width)
    format = cast(RowFormat, precision)
    small = pack_rows(values, format)  # one block of rows, repeated: packing all of a large table takes long
    stored = [RowTable(format, width, np.resize(small.data, (rows, small.data.shape[1]))) for _ in range(tables)]
    ids = [rng.integers(0, rows, bags * lookups) for _ in range(8)]
    offsets = np.arange(bags + 1, dtype=np.int64) * lookups
    out = np.empty((bags, width), np.float32)
    turn = [0]

    def one(table: RowTable) -> np.ndarray:
        turn[0] = (turn[0] + 1) % len(ids)
        if lookups == 1:
            return embedding_lookup(table, ids[turn[0]], out=out, threads=threads)
        return embedding_bag(table, ids[turn[0]], offsets, out=out, threads=threads)

    def check(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        real = values.astype(np.float64)[ids[turn[0]] % len(values)]
        return y, real.reshape(bags, lookups, width).sum(axis=1)

    touched = bags * (lookups * width * _ROW_BYTES[precision] + 4.0 * width)
    name = "embedding_lookup" if lookups == 1 else "embedding_bag"
    return Case(
        f"{name} {precision}",
        tuple(partial(one, t) for t in stored),
        check,
        None,
        float(bags * lookups * width) if lookups > 1 else 0.0,
        touched,
        precision,
    )


def binary(m: int, k: int, n: int, threads: int, copies: int = 1) -> Case:
    """Rows of bits against neurons of bits: xor and count."""
    if k % 8:
        raise MeasureError(f"K is {k}; allowed for bits: multiples of 8")
    rng = np.random.default_rng(5)
    x = rng.integers(0, 256, (m, k // 8), dtype=np.uint8)
    weights = [rng.integers(0, 256, (n, k // 8), dtype=np.uint8) for _ in range(copies)]
    rows = few_rows(m, 8.0 * k * n)

    def beside(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first rows of a result, and what they should be: made only for who compares."""
        given, held = (np.unpackbits(v, axis=1).astype(np.float64) for v in (x[:rows], weights[0]))
        return y[:rows], given @ (1 - held).T + (1 - given) @ held.T

    runs = tuple(partial(binary_counts, x, pack_binary(w), threads) for w in weights)
    return Case(
        "binary_fc",
        runs,
        beside,
        None,
        2.0 * m * k * n,
        (m * k + k * n) / 8 + 4.0 * m * n,
        "binary",
    )


def recurrent(kind: str, batch: int, inputs: int, hidden: int, threads: int, copies: int = 1) -> Case:
    """One step of an LSTM or GRU cell: both products and every gate."""
    gates = GATES[kind]
    w = noise(gates * hidden, inputs, scale=1 / np.sqrt(inputs))
    r = noise(gates * hidden, hidden, scale=1 / np.sqrt(hidden))
    packed = [pack_cell(cast(Any, kind), np.roll(w, i, axis=0), r) for i in range(copies)]
    x, h, c = noise(batch, inputs), np.tanh(noise(batch, hidden)), noise(batch, hidden)
    gx, gh = x.astype(np.float64) @ w.T.astype(np.float64), h.astype(np.float64) @ r.T.astype(np.float64)
    sigmoid = _POINTWISE["sigmoid"][0]
    if kind == "lstm":  # ONNX order: input, output, forget, cell
        i, o, f, g = np.split(gx + gh, 4, axis=1)
        exact = sigmoid(o) * np.tanh(sigmoid(f) * c + sigmoid(i) * np.tanh(g))
        runs = tuple(lambda p=p: lstm_step(x, h, c, p, threads=threads)[0] for p in packed)
    else:  # update, reset, hidden; the reset gate scales the recurrent product
        (zx, rx, nx), (zh, rh, nh) = np.split(gx, 3, axis=1), np.split(gh, 3, axis=1)
        update = sigmoid(zx + zh)
        exact = (1 - update) * np.tanh(nx + sigmoid(rx + rh) * nh) + update * h
        runs = tuple(partial(gru_step, x, h, p, threads=threads) for p in packed)
    flops = 2.0 * batch * gates * hidden * (inputs + hidden)
    size = 4.0 * (w.size + r.size + batch * (inputs + 2 * hidden))
    return Case(f"{kind}_step", runs, lambda y: (y, exact), None, flops, size, "fp32")


def attend(tokens: int, length: int, heads: int, shared: int, depth: int, threads: int, copies: int = 1) -> Case:
    """Causal attention of some tokens on a cache: both products and the softmax between them."""
    if not tokens <= length or heads % shared:
        raise MeasureError(
            f"attention of {tokens} tokens, {heads} heads on {length} rows, {shared} heads: allowed are "
            "at most as many tokens as rows, and heads that divide evenly"
        )
    q = noise(tokens, heads, depth)
    caches = [
        (np.roll(noise(shared, length, depth), i + 1), np.roll(noise(shared, length, depth), 7 + i))
        for i in range(copies)
    ]
    keys, values = (np.repeat(a, heads // shared, axis=0).astype(np.float64) for a in caches[0])
    scores = np.einsum("thd,hsd->hts", q.astype(np.float64), keys) / np.sqrt(depth)
    scores[:, np.arange(length)[None, :] > length - tokens + np.arange(tokens)[:, None]] = -np.inf
    weight = np.exp(scores - scores.max(axis=2, keepdims=True))
    exact = np.einsum("hts,hsd->thd", weight / weight.sum(axis=2, keepdims=True), values)
    runs = tuple(partial(attention, q, k, v, length, threads=threads) for k, v in caches)
    flops = 4.0 * tokens * heads * length * depth
    return Case(
        "attention", runs, lambda y: (y, exact), None, flops, 4.0 * (2 * q.size + 2 * caches[0][0].size), "fp32"
    )


def batched(g: int, m: int, k: int, n: int, threads: int) -> Case:
    """``g`` independent products whose right sides are computed too, hence packed at every call."""
    a, b = given(g, m, k), given(g, k, n, slot=2)
    out = room(g, m, n)
    exact = a[0].astype(np.float64) @ b[0].astype(np.float64)
    size = 4.0 * (a.size + b.size + out.size)
    run, library = (
        partial(gemm_batched, a, b, out=out, threads=threads),
        partial(np.matmul, a, b, out=np.empty_like(out)),
    )
    return Case("gemm_batched", (run,), lambda y: (y[0], exact), library, 2.0 * g * m * k * n, size, "fp32")


def pointwise(name: str, elements: int, threads: int) -> Case:
    """One pass over float32: an activation, a sum, a product, a clip or a copy."""
    twin, operations = _POINTWISE[name]
    x, other, out = given(elements), given(elements, slot=2), room(elements)
    second = other if name in ("add", "mul") else None
    if name in _COMBINED:
        run = partial(combine, name, x, second, out=out, threads=threads)
    else:
        run = partial(activate, x, cast(Activation, name), out=out, threads=threads)
    part = min(elements, 1 << 20)
    exact = twin(x[:part].astype(np.float64))
    moved = 4.0 * elements * (3 if second is not None else 2)
    library = {
        "relu": partial(np.maximum, x, np.float32(0), out=np.empty_like(x)),
        "tanh": partial(np.tanh, x, out=np.empty_like(x)),
        "add": partial(np.add, x, other, out=np.empty_like(x)),
        "mul": partial(np.multiply, x, other, out=np.empty_like(x)),
        "copy": partial(np.copyto, np.empty_like(x), x),
    }.get(name)
    return Case(name, (run,), lambda y: (y[:part], exact), library, operations * elements, moved, "fp32", (out, x))


def soft(rows: int, columns: int, threads: int) -> Case:
    """Softmax of rows."""
    x, out = given(rows, columns), room(rows, columns)
    part = few_rows(rows, 8.0 * columns)
    powers = np.exp(x[:part].astype(np.float64))
    exact = powers / powers.sum(axis=1, keepdims=True)
    run = partial(softmax, x, out=out, threads=threads)
    return Case("softmax", (run,), lambda y: (y[:part], exact), None, 5.0 * x.size, 8.0 * x.size, "fp32", (out, x))


def normalise(kind: str, rows: int, columns: int, threads: int) -> Case:
    """Layer, root-mean-square or batch normalisation of rows."""
    x, gain, shift = given(rows, columns), noise(columns), noise(columns)
    out = room(rows, columns)
    wide = x[: few_rows(rows, 8.0 * columns)].astype(np.float64)
    if kind == "BatchNormalization":
        run, exact, work = partial(batch_norm, x, gain, shift, out=out, threads=threads), wide * gain + shift, 2.0
    elif kind == "RMSNormalization":
        run, work = partial(rms_norm, x, gain, out=out, threads=threads), 4.0
        exact = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-5) * gain
    else:
        run, work = partial(layer_norm, x, gain, shift, out=out, threads=threads), 7.0
        exact = (wide - wide.mean(axis=1, keepdims=True)) / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
        exact = exact * gain + shift
    name = {"BatchNormalization": "batch_norm", "RMSNormalization": "rms_norm"}.get(kind, "layer_norm")
    return Case(name, (run,), lambda y: (y[: len(wide)], exact), None, work * x.size, 8.0 * x.size, "fp32", (out, x))


def quantised(rows: int, columns: int, threads: int) -> Case:
    """Float32 to 8-bit codes, one scale."""
    x = noise(rows, columns)
    step, out = np.float32(np.abs(x).max() / 127), np.empty(x.shape, np.int8)
    run = partial(quantise, x, float(step), out=out, threads=threads)
    part = few_rows(rows, 8.0 * columns)
    exact = x[:part].astype(np.float64)
    return Case(
        "quantise",
        (run,),
        lambda y: (y[:part].astype(np.float64) * float(step), exact),
        None,
        float(x.size),
        5.0 * x.size,
        "int8",
    )
