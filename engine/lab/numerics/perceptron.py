"""Dense layers in a chain, ReLU between them, in float32: start, forward, back, and Adam (Kingma and Ba, 2015)."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from engine.kernels.jit import kernel

Layers = Sequence[tuple[np.ndarray, np.ndarray]]
"""Weights ``[inputs, outputs]`` and biases ``[outputs]`` of each layer."""


def random_layers(rng: np.random.Generator, sizes: Sequence[int]) -> Layers:
    """Layers between widths, as wide as keeps the signal's size through a ReLU (He et al., 2015). [-]"""
    return [
        ((rng.standard_normal((k, n)) * np.sqrt(2 / k)).astype(np.float32), np.zeros(n, np.float32))
        for k, n in pairwise(sizes)
    ]


def forward(layers: Layers, x: np.ndarray) -> list[np.ndarray]:
    """What each layer is given ``[n, inputs]``, and what the last answers, without a ReLU."""
    inputs = [x]
    for w, b in layers[:-1]:
        inputs.append(np.maximum(inputs[-1] @ w + b, 0))
    return [*inputs, inputs[-1] @ layers[-1][0] + layers[-1][1]]


def backward(layers: Layers, inputs: Sequence[np.ndarray], slope: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Gradients of every weight and bias in their order, and of the chain's input, from those of its answer."""
    slopes: list[np.ndarray] = []
    for at in range(len(layers) - 1, -1, -1):
        slopes = [inputs[at].T @ slope, slope.sum(axis=0), *slopes]
        slope = slope @ layers[at][0].T
        if at:
            slope *= inputs[at] > 0
    return slopes, slope


def sigmoid(z: np.ndarray) -> np.ndarray:
    """Logistic function. [-]"""
    return 1 / (1 + np.exp(-z))


_BETA_1, _BETA_2, _TINY = 0.9, 0.999, 1e-8


@kernel
def _update(weight, gradient, first, second, rate, beta_1, beta_2, tiny):
    for i in range(weight.size):
        g = gradient[i]
        first[i] += (np.float32(1) - beta_1) * (g - first[i])
        second[i] += (np.float32(1) - beta_2) * (g * g - second[i])
        weight[i] -= rate * first[i] / (np.sqrt(second[i]) + tiny)


class Adam:
    """Moments of some contiguous float32 arrays, which `step` updates in place."""

    def __init__(self, values: Sequence[np.ndarray]) -> None:
        self._values = [v.reshape(-1) for v in values]
        self._moments = [(np.zeros_like(v), np.zeros_like(v)) for v in self._values]
        self.steps = 0

    def step(self, gradients: Sequence[np.ndarray], rate: float) -> None:
        """One update at a learning rate. The rate in [-]."""
        self.steps += 1
        now = np.float32(rate * np.sqrt(1 - _BETA_2**self.steps) / (1 - _BETA_1**self.steps))
        constants = (now, np.float32(_BETA_1), np.float32(_BETA_2), np.float32(_TINY))
        for value, gradient, moments in zip(self._values, gradients, self._moments, strict=True):
            _update(value, np.ascontiguousarray(gradient, np.float32).reshape(-1), *moments, *constants)
