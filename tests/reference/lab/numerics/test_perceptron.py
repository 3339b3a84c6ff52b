"""Gradients of a perceptron against finite differences."""

import numpy as np
import pytest

from engine.lab.numerics.perceptron import backward, forward, random_layers


def test_slopes_are_those_of_finite_differences():
    rng = np.random.default_rng(0)
    layers = [(w.astype(np.float64), b.astype(np.float64)) for w, b in random_layers(rng, (8, 12, 12, 10))]
    x, labels = rng.normal(0, 1, (5, 8)), rng.integers(0, 10, 5)

    def loss():
        logits = forward(layers, x)[-1]
        return float(np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(5), labels]))

    given = forward(layers, x)
    chances = np.exp(given[-1]) / np.exp(given[-1]).sum(axis=1, keepdims=True)
    slopes, _ = backward(layers, given, (chances - np.eye(10)[labels]) / 5)
    for value, slope in zip([v for layer in layers for v in layer], slopes, strict=True):
        own, along = value.copy(), np.sign(slope) * 1e-6
        found = []
        for sign in (1, -1):
            value[:] = own + sign * along
            found.append(loss())
        value[:] = own
        assert (found[0] - found[1]) / 2e-6 == pytest.approx(np.abs(slope).sum(), rel=1e-4)
