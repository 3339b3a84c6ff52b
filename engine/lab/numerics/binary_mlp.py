"""A multilayer perceptron with weights and activations of +1 or -1, trained here and run on packed bits.

Training keeps real weights whose signs the forward pass uses; the gradient goes straight through the sign where its
argument lies within -1..1 (Courbariaux and Bengio, 2016). Batch normalisation after a product and the sign that follows
fold into one integer a neuron: with s = K - 2 d for d differing bits, the neuron fires where d <= (K - t) / 2. The
last layer keeps its counts; the class with the fewest differing bits, its offset added, wins.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from engine.lab.numerics.adam import Adam
from engine.lab.numerics.perceptron import Layers, backward, drawn, forward, softmax_slope
from engine.lab.operators.binary import BinaryWeights, binary_counts, binary_fc, pack_binary
from engine.numerics.formats import NumericsError

_DIGITS = Path(__file__).with_name("digits.csv.gz")
_LEVELS = (2, 5, 8, 11)  # of 0..16: pixels above each set a bit
_EPSILON = 1e-5
_BATCH, _RATE, _FLOAT_RATE = 64, 2e-3, 1e-3  # of training: images a step, learning rates
_DECAY = 0.9  # of running averages in batch normalisation


@dataclass(frozen=True)
class Images:
    """Grey images and their classes, split by a seed: uint8 ``[n, pixels]`` of 0..16, int64 ``[n]``."""

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray


def digits(seed: int = 0, share: float = 0.25) -> Images:
    """1,797 handwritten digits of 8 x 8 pixels, `share` of them held out.

    Test set of "Optical Recognition of Handwritten Digits" (Alpaydin and Kaynak, UCI, 1998), in the file that
    scikit-learn ships, a copy of which lies beside this module: training needs no package of its own. The share in
    [-].
    """
    with gzip.open(_DIGITS, "rt") as text:
        rows = np.loadtxt(text, delimiter=",")
    order = np.random.default_rng(seed).permutation(len(rows))
    count = round(share * len(rows))
    pixels, labels = rows[order, :-1].astype(np.uint8), rows[order, -1].astype(np.int64)
    return Images(pixels[count:], labels[count:], pixels[:count], labels[:count])


def thermometer(pixels: np.ndarray) -> np.ndarray:
    """Bits of pixels above each of four levels, uint8 ``[n, 4 * pixels]`` of 0 or 1: binary inputs that keep greys."""
    return (pixels[:, :, None] > np.array(_LEVELS)).reshape(len(pixels), -1).astype(np.uint8)


def _packed(bits: np.ndarray) -> np.ndarray:
    """Bits of 0 or 1 to bytes, bit j of byte i the value 8 i + j."""
    return np.ascontiguousarray(np.packbits(bits, axis=1, bitorder="little"))


@dataclass(frozen=True, eq=False)
class BinaryMlp:
    """A trained network on packed bits.

    Attributes
    ----------
    rows : weights of every layer as bytes of bits, uint8 ``[neurons, inputs / 8]``, 1 for +1.
    thresholds : of the hidden layers, int32 ``[neurons]``: the most differing bits at which a neuron fires.
    offsets : of the classes, float32, in differing bits.
    """

    rows: tuple[np.ndarray, ...]
    thresholds: tuple[np.ndarray, ...]
    offsets: np.ndarray

    @cached_property
    def weights(self) -> tuple[BinaryWeights, ...]:
        """Weights packed for the kernel."""
        return tuple(pack_binary(r) for r in self.rows)

    def counts(self, bits: np.ndarray, *, threads: int | None = None) -> np.ndarray:
        """Differing bits of every class, int32 ``[n, classes]``, of inputs of 0 or 1 ``[n, inputs]``."""
        value = _packed(bits)
        for weights, threshold in zip(self.weights[:-1], self.thresholds, strict=True):
            value = binary_fc(value, weights, threshold, threads)
        return binary_counts(value, self.weights[-1], threads)

    def classes(self, bits: np.ndarray, *, threads: int | None = None) -> np.ndarray:
        """Class of every input, int64 ``[n]``."""
        return (self.counts(bits, threads=threads) + self.offsets).argmin(axis=1)

    @property
    def stored_bits(self) -> int:
        """Bits of all weights. [bit]"""
        return sum(8 * r.size for r in self.rows)


def _checked(x: np.ndarray, labels: np.ndarray, hidden: Sequence[int], epochs: int) -> None:
    if x.ndim != 2 or labels.shape != x.shape[:1] or len(x) == 0:
        raise NumericsError(f"images {x.shape} and labels {labels.shape} do not match; allowed: [n, inputs] and [n]")
    if not 1 <= epochs <= 1000:
        raise NumericsError(f"epochs is {epochs}; allowed: 1 to 1000")
    odd = [n for n in hidden if n < 8 or n % 8]
    if odd:
        raise NumericsError(f"hidden holds {odd[0]}; allowed: multiples of 8, whose bits fill bytes")


def train_binary(
    bits: np.ndarray,
    labels: np.ndarray,
    hidden: Sequence[int] = (512, 512),
    *,
    epochs: int = 40,
    seed: int = 0,
) -> BinaryMlp:
    """Fit a binary network to inputs of 0 or 1 ``[n, inputs]`` (a multiple of 8) and classes ``[n]``. Reproducible."""
    _checked(bits, labels, (bits.shape[1], *hidden), epochs)
    rng, signs = np.random.default_rng(seed), (2.0 * bits - 1).astype(np.float32)
    sizes = (bits.shape[1], *hidden, int(labels.max()) + 1)
    weights = [rng.uniform(-1, 1, (k, n)).astype(np.float32) * np.float32(np.sqrt(1.5 / k)) for k, n in pairwise(sizes)]
    shifts = [np.zeros(n, np.float32) for n in sizes[1:]]
    means = [np.zeros(n, np.float32) for n in sizes[1:]]
    spreads = [np.ones(n, np.float32) for n in sizes[1:]]
    adam = Adam([*weights, *shifts])
    turns = epochs * (len(bits) // _BATCH)
    for turn in range(turns):
        picks = rng.choice(len(bits), _BATCH, replace=False)
        inputs, normal, deviation = [signs[picks]], [], []
        for i, w in enumerate(weights):
            s = inputs[-1] @ np.where(w >= 0, np.float32(1), np.float32(-1))
            mean, spread = s.mean(axis=0), np.sqrt(s.var(axis=0) + _EPSILON)
            means[i] += (1 - _DECAY) * (mean - means[i])
            spreads[i] += (1 - _DECAY) * (spread - spreads[i])
            normal.append((s - mean) / spread + shifts[i])
            deviation.append(spread)
            inputs.append(np.where(normal[-1] >= 0, np.float32(1), np.float32(-1)))
        # the last layer's scores share one scale, so that counts alone rank the classes
        common = deviation[-1].mean()
        score = inputs[-2] @ np.where(weights[-1] >= 0, np.float32(1), np.float32(-1)) / common + shifts[-1]
        back = softmax_slope(score, labels[picks]).astype(np.float32)
        slopes_w, slopes_b = [np.empty(0)] * len(weights), [np.empty(0)] * len(weights)
        for i in range(len(weights) - 1, -1, -1):
            if i == len(weights) - 1:
                slopes_b[i] = back.sum(axis=0)
                back = back / common
            else:
                back = back * (np.abs(normal[i]) <= 1)
                slopes_b[i] = back.sum(axis=0)
                x = normal[i] - shifts[i]
                back = (back - back.mean(axis=0) - x * (back * x).mean(axis=0)) / deviation[i]
            slopes_w[i] = (inputs[i].T @ back) * (np.abs(weights[i]) <= 1)
            back = back @ np.where(weights[i] >= 0, np.float32(1), np.float32(-1)).T
        adam.step([*slopes_w, *slopes_b], _RATE * (1 - 0.95 * turn / turns))
        for w in weights:
            np.clip(w, -1, 1, out=w)
    return _folded(weights, shifts, means, spreads)


def _folded(
    weights: list[np.ndarray], shifts: list[np.ndarray], means: list[np.ndarray], spreads: list[np.ndarray]
) -> BinaryMlp:
    """Packed signs; normalisation and sign as the most differing bits at which a neuron still fires."""
    packed = tuple(_packed((w.T >= 0).astype(np.uint8)) for w in weights)
    thresholds = tuple(
        np.floor((len(w) - (mean - shift * spread)) / 2).astype(np.int32)
        for w, shift, mean, spread in zip(weights[:-1], shifts, means, spreads, strict=False)
    )
    return BinaryMlp(packed, thresholds, (-shifts[-1] * spreads[-1].mean() / 2).astype(np.float32))


def train_float(
    values: np.ndarray,
    labels: np.ndarray,
    hidden: Sequence[int] = (512, 512),
    *,
    epochs: int = 40,
    seed: int = 0,
) -> Layers:
    """The same perceptron in FP32 with ReLU, for comparison: (weights, biases) of every layer; see `float_classes`."""
    _checked(values, labels, hidden, epochs)
    rng, sizes = np.random.default_rng(seed), (values.shape[1], *hidden, int(labels.max()) + 1)
    layers = drawn(rng, sizes)
    adam = Adam([p for layer in layers for p in layer])
    turns = epochs * (len(values) // _BATCH)
    for turn in range(turns):
        picks = rng.choice(len(values), _BATCH, replace=False)
        outputs = forward(layers, values[picks])
        slopes, _ = backward(layers, outputs, softmax_slope(outputs[-1], labels[picks]).astype(np.float32))
        adam.step(slopes, _FLOAT_RATE * (1 - 0.95 * turn / turns))
    return layers


def float_classes(layers: Layers, values: np.ndarray) -> np.ndarray:
    """Class of every input of a float network, int64 ``[n]``."""
    return forward(layers, values)[-1].argmax(axis=1)
