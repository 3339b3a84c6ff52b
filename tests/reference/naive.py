"""Slow twins of the operators: the definition in loops or one line of float64 numpy that anyone can check."""

from itertools import product

import numpy as np
from scipy import special


def embedding_bag(rows, indices, offsets):
    out = np.zeros((len(offsets) - 1, rows.shape[1]))
    for b in range(len(offsets) - 1):
        for t in range(offsets[b], offsets[b + 1]):
            out[b] += rows[indices[t]].astype(np.float64)
    return out


def conv(x, w, bias, stride, padding):
    """Channels-last convolution of any rank, tap by tap."""
    rank = w.ndim - 2
    x = np.pad(x.astype(np.float64), [(0, 0), *[(p, p) for p in padding], (0, 0)])
    spatial = [max(0, (n - k) // s + 1) for n, k, s in zip(x.shape[1:-1], w.shape[2:], stride, strict=True)]
    out = np.zeros((x.shape[0], *spatial, w.shape[0])) + bias.astype(np.float64)
    for pixel in product(*map(range, spatial)):
        for tap in product(*map(range, w.shape[2:])):
            at = tuple(pixel[a] * stride[a] + tap[a] for a in range(rank))
            out[(slice(None), *pixel)] += (
                x[(slice(None), *at)] @ w[(slice(None), slice(None), *tap)].astype(np.float64).T
            )
    return out


def _windows(size, window, stride, padding):
    count = max(0, (size + 2 * padding - window) // stride + 1)
    return [(max(i * stride - padding, 0), min(i * stride - padding + window, size)) for i in range(count)]


def pool(x, window, stride, padding, reduce):
    """``reduce(values[..., C])`` over every clipped window; the full window's size is ``window[0] * window[1]``."""
    down, across = (_windows(x.shape[1 + a], window[a], stride[a], padding[a]) for a in (0, 1))
    out = np.zeros((x.shape[0], len(down), len(across), x.shape[3]))
    for n, (i, (h, h2)), (j, (w, w2)) in product(range(x.shape[0]), enumerate(down), enumerate(across)):
        out[n, i, j] = reduce(x[n, h:h2, w:w2].reshape((h2 - h) * (w2 - w), x.shape[3]))
    return out


def lstm_step(x, h, c, w, r, bias):
    hidden = h.shape[1]
    wb, rb = bias.astype(np.float64).reshape(2, -1)
    gates = x.astype(np.float64) @ w.T.astype(np.float64) + wb + h.astype(np.float64) @ r.T.astype(np.float64) + rb
    i, o, f, g = (gates[:, k * hidden : (k + 1) * hidden] for k in range(4))
    cell = special.expit(f) * c + special.expit(i) * np.tanh(g)
    return special.expit(o) * np.tanh(cell), cell


def gru_step(x, h, w, r, bias):
    hidden = h.shape[1]
    wb, rb = bias.astype(np.float64).reshape(2, -1)
    left, right = x.astype(np.float64) @ w.T.astype(np.float64) + wb, h.astype(np.float64) @ r.T.astype(np.float64) + rb
    cut = [slice(k * hidden, (k + 1) * hidden) for k in range(3)]
    update = special.expit(left[:, cut[0]] + right[:, cut[0]])
    reset = special.expit(left[:, cut[1]] + right[:, cut[1]])
    candidate = np.tanh(left[:, cut[2]] + reset * right[:, cut[2]])
    return (1 - update) * candidate + update * h


def softmax(x, scale=1.0):
    shifted = scale * (x.astype(np.float64) - x.max(-1, keepdims=True))
    return np.exp(shifted) / np.exp(shifted).sum(-1, keepdims=True)


def layer_norm(x, gain, shift, epsilon):
    x = x.astype(np.float64)
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + epsilon) * gain + shift


def activation(x, name):
    x = x.astype(np.float64)
    inside = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    return {
        "relu": lambda: np.maximum(x, 0),
        "sigmoid": lambda: special.expit(x),
        "tanh": lambda: np.tanh(x),
        "gelu_tanh": lambda: 0.5 * x * (1 + np.tanh(inside)),
    }[name]()


def quantise(x, scale, zero, dtype):
    """Round half to even, element by element, in float32 as ONNX does."""
    limits = np.iinfo(dtype)
    out = np.zeros(x.shape, dtype)
    for at in np.ndindex(*x.shape):
        code = float(np.float32(x[at]) / np.float32(scale))
        out[at] = min(max(round(code) + int(zero), limits.min), limits.max)
    return out


def hash_ids(ids, buckets):
    """splitmix64's finaliser over Python integers."""
    word = 2**64 - 1
    out = np.zeros(ids.shape, np.int64)
    for b, f in np.ndindex(*ids.shape):
        z = (int(ids[b, f]) + (f + 1) * 0x9E3779B97F4A7C15) & word
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & word
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
        z ^= z >> 31
        out[b, f] = ((z >> 32) * buckets) >> 32
    return out


def wide_deep(model, rows):
    """Chance of a click, float32: the layers of a `WideDeep` beside its linear part."""
    fields = np.arange(len(model.tables))
    x = np.concatenate([model.tables[fields, rows.buckets].reshape(len(rows.buckets), -1), rows.numbers], axis=1)
    for weight, bias in zip(model.weights, model.biases, strict=True):
        logit = x @ weight + bias
        x = np.maximum(logit, 0)
    return special.expit(logit[:, 0] + model.wide[fields, rows.buckets].sum(1) + rows.numbers @ model.wide_numeric)
