"""A perceptron trained here, converted to narrow floats and trained on in them, as figure 6 of seed 001 shows.

It is trained on handwritten digits in float32; then its weights, and every vector on its way into a product unless the
format is of weights alone, are rounded to a format, as one whose blocks share an exponent. Training goes on for some
epochs with those rounded values in both passes, the gradient going straight through the rounding to weights in float32.
A measurement of this network on these digits, the same on every run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.lab.numerics.adam import Adam
from engine.lab.numerics.binary_mlp import digits, train_float
from engine.lab.numerics.perceptron import Layers, backward, forward, softmax_slope
from engine.numerics.formats import Format, GroupInteger, SharedExponent, by_name

HIDDEN = (256,)
BATCH = 32
_RATE = 2e-3  # learning rate of going on
_NARROW = {f"ms-fp{bits + 6}": bits for bits in (2, 3, 4, 5)}


@dataclass(frozen=True)
class RetrainedFormat:
    """Accuracy on held-out digits: in float32, converted as it is, and after each epoch of going on. [-]"""

    format: str
    block: int  # values that share an exponent; 0: each keeps its own
    bits: float  # a stored weight takes
    weight_bytes: float
    trained: float
    converted: float
    epochs: tuple[float, ...]


def _format(name: str, block: int) -> Format | None:
    if name == "fp32":
        return None
    return SharedExponent(block, _NARROW[name], 5) if block and name in _NARROW else by_name(name)


def rounded(layers: Layers, format: Format | None) -> Layers:
    """Layers as their products see them: a row of the format is one output's weights; biases stay as they are."""
    return layers if format is None else [(np.ascontiguousarray(format.apply(w.T).T), b) for w, b in layers]


def _activations(format: Format | None) -> Callable[[np.ndarray], np.ndarray]:
    return (lambda v: v) if format is None or isinstance(format, GroupInteger) else format.apply


def _accuracy(layers: Layers, x: np.ndarray, labels: np.ndarray, format: Format | None) -> float:
    """Share of images whose class is found. [-]"""
    scores = forward(rounded(layers, format), x, _activations(format))[-1]
    return float((scores.argmax(axis=1) == labels).mean())


@lru_cache(maxsize=4)
def _trained(seed: int) -> tuple[Layers, tuple[np.ndarray, ...]]:
    """The network in float32, the images and labels it was trained on, and those held out."""
    images = digits(seed)
    x, test = (v / np.float32(16) for v in (images.train, images.test))
    layers = train_float(x, images.train_labels, HIDDEN, seed=seed)
    return layers, (x, images.train_labels, test, images.test_labels)


@lru_cache(maxsize=32)
def retrained(format: str, block: int = 64, epochs: int = 3, seed: int = 0) -> RetrainedFormat:
    """The network of this module converted to a format and trained on in it. A measurement, of this network only.

    Blocks of so many values along a row share an exponent where the format is one of the ms-fp; 0: none do.
    """
    base, (x, labels, test, wanted) = _trained(seed)
    narrow, layers, rng = _format(format, block), [(w.copy(), b.copy()) for w, b in base], np.random.default_rng(seed)
    adam, result = Adam([v for layer in layers for v in layer]), []
    for epoch in range(epochs):
        order = rng.permutation(len(x))
        for picks in np.split(order, range(BATCH, len(order), BATCH)):
            net = rounded(layers, narrow)
            acts = forward(net, x[picks], _activations(narrow))
            slopes, _ = backward(net, acts, softmax_slope(acts[-1], labels[picks]).astype(np.float32))
            adam.step(slopes, _RATE * (1 - epoch / epochs))
        result.append(_accuracy(layers, test, wanted, narrow))
    shapes = [w.T.shape for w, _ in base]
    weights = sum(outputs * inputs for outputs, inputs in shapes)
    stored = sum(narrow.storage_bits(shape) for shape in shapes) if narrow is not None else 32 * weights
    shared = block if isinstance(narrow, SharedExponent) else 0
    before, converted = (_accuracy(base, test, wanted, f) for f in (None, narrow))
    return RetrainedFormat(format, shared, stored / weights, stored / 8, before, converted, tuple(result))
