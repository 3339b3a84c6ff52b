"""Dense layers in a chain, ReLU between them: their start, their way forward and their way back, in float32."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

Layers = Sequence[tuple[np.ndarray, np.ndarray]]
"""Weights ``[inputs, outputs]`` and biases ``[outputs]`` of each layer."""


def drawn(rng: np.random.Generator, sizes: Sequence[int]) -> Layers:
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
