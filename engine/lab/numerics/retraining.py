"""A recurrent network trained here, converted to narrow floats and trained on in them, as figure 6 of seed 001 shows.

A GRU reads handwritten digits row by row. It is trained in float32; then its weights, and every vector on its way into
a product unless the format is of weights alone, are rounded to a format, as one whose blocks share an exponent.
Training goes on for some epochs with those rounded values in both passes, the gradient going straight through the
rounding to weights kept in float32. A measurement of this network on these digits, the same on every run; gates are
float32 here, float16 in the processor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.lab.numerics.adam import Adam
from engine.lab.numerics.binary_mlp import digits
from engine.lab.numerics.perceptron import sigmoid, softmax_slope
from engine.numerics.formats import Format, GroupInteger, SharedExponent, by_name

HIDDEN = 64
EPOCHS = 12  # in float32
BATCH = 32
_RATE, _AGAIN = 4e-3, 1e-3  # learning rates of training and of going on
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


class _Network:
    """W [3 hidden, inputs], U [3 hidden, hidden], C [classes, hidden] and biases; gates reset, update, new."""

    def __init__(self, inputs: int, classes: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        shapes = ((3 * HIDDEN, inputs), (3 * HIDDEN, HIDDEN), (classes, HIDDEN), (3 * HIDDEN,), (classes,))
        drawn = [rng.normal(0, s[-1] ** -0.5 if len(s) > 1 else 0.0, s) for s in shapes]
        self.values = [v.astype(np.float32) for v in drawn]

    def copy(self) -> _Network:
        """One of the same values."""
        other = object.__new__(_Network)
        other.values = [v.copy() for v in self.values]
        return other

    def rounded(self, format: Format | None) -> list[np.ndarray]:
        """Values as the products see them: matrices in the format, biases as they are."""
        return [format.apply(v) if format is not None and v.ndim == 2 else v for v in self.values]

    def forward(self, x: np.ndarray, format: Format | None) -> tuple[np.ndarray, list[tuple], list[np.ndarray]]:
        """Logits of sequences [n, steps, inputs], what the way back needs of each step, and the rounded values."""
        w, u, c, bias, out = held = self.rounded(format)
        narrow = format.apply if format is not None and not isinstance(format, GroupInteger) else (lambda v: v)
        h, steps = np.zeros((len(x), HIDDEN), np.float32), []
        for t in range(x.shape[1]):
            now, before = narrow(x[:, t]), narrow(h)
            a, b = now @ w.T + bias, before @ u.T
            (ar, az, an), (br, bz, bn) = np.split(a, 3, axis=1), np.split(b, 3, axis=1)
            r, z = sigmoid(ar + br), sigmoid(az + bz)
            n = np.tanh(an + r * bn)
            steps.append((now, before, h, r, z, n, bn))
            h = z * h + (1 - z) * n
        last = narrow(h)
        steps.append((last,))
        return last @ c.T + out, steps, held

    def slopes(self, logits: np.ndarray, labels: np.ndarray, steps: list[tuple], held: list[np.ndarray]) -> list:
        """Gradients of the mean cross entropy, straight through every rounding."""
        p = softmax_slope(logits, labels)
        w, u, c, bias, out = (np.zeros_like(v) for v in held)
        c += p.T @ steps[-1][0]
        out += p.sum(0)
        dh = p @ held[2]
        for now, before, h, r, z, n, inner in reversed(steps[:-1]):
            dn = dh * (1 - z) * (1 - n * n)
            dz = dh * (h - n) * z * (1 - z)
            dr = dn * inner * r * (1 - r)
            a = np.concatenate([dr, dz, dn], axis=1)
            b = np.concatenate([dr, dz, dn * r], axis=1)
            w += a.T @ now
            bias += a.sum(0)
            u += b.T @ before
            dh = dh * z + b @ held[1]
        return [w, u, c, bias, out]

    def accuracy(self, x: np.ndarray, labels: np.ndarray, format: Format | None) -> float:
        """Share of sequences whose class is found. [-]"""
        return float((self.forward(x, format)[0].argmax(1) == labels).mean())

    def train(
        self, x: np.ndarray, labels: np.ndarray, format: Format | None, rate: float, adam: Adam, seed: int
    ) -> None:
        """One epoch in a drawn order."""
        order = np.random.default_rng(seed).permutation(len(x))
        for at in range(0, len(x), BATCH):
            some = order[at : at + BATCH]
            logits, steps, held = self.forward(x[some], format)
            adam.step(self.slopes(logits, labels[some], steps, held), rate)


@lru_cache(maxsize=4)
def _trained(seed: int) -> tuple[_Network, tuple[np.ndarray, ...], float]:
    """The network in float32, its data, and its accuracy on what was held out."""
    images = digits(seed)
    data = (images.train.reshape(-1, 8, 8) / np.float32(16), images.train_labels)
    held = (images.test.reshape(-1, 8, 8) / np.float32(16), images.test_labels)
    network = _Network(8, 10, seed)
    adam = Adam(network.values)
    for epoch in range(EPOCHS):
        network.train(*data, None, _RATE * (1 - epoch / EPOCHS), adam, seed + epoch)
    return network, (*data, *held), network.accuracy(*held, None)


@lru_cache(maxsize=32)
def retrained(format: str, block: int = 64, epochs: int = 3, seed: int = 0) -> RetrainedFormat:
    """The network of this module converted to a format and trained on in it. A measurement, of this network only.

    Blocks of so many values along a row share an exponent where the format is one of the ms-fp; 0: none do.
    """
    base, (x, labels, test, wanted), accuracy = _trained(seed)
    narrow, network = _format(format, block), base.copy()
    converted = network.accuracy(test, wanted, narrow)
    adam, result = Adam(network.values), []
    for epoch in range(epochs):
        network.train(x, labels, narrow, _AGAIN * (1 - epoch / max(epochs, 1)), adam, seed + EPOCHS + epoch)
        result.append(network.accuracy(test, wanted, narrow))
    matrices = [v for v in base.values if v.ndim == 2]
    stored = sum(narrow.storage_bits(v.shape) if narrow is not None else 32 * v.size for v in matrices)
    weights = sum(v.size for v in matrices)
    shared = block if isinstance(narrow, SharedExponent) else 0
    return RetrainedFormat(format, shared, stored / weights, stored / 8, accuracy, converted, tuple(result))
