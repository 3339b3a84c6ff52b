"""Element-wise activations: ReLU, sigmoid, tanh, GELU, over float32 arrays of any shape.

Loops run over a slice from zero: with no negative index to wrap they vectorise.
"""

from typing import Literal

import numpy as np

from engine.kernels.jit import kernel
from engine.lab.operators.pointwise import gelu_tanh32, sigmoid32, tanh32
from engine.lab.ranges import KernelError, output, over_range, real

GRAIN = 16384
"""Fewest elements worth a thread of their own. [elements]"""
STEP = 256
"""Chunks start at multiples of this, more than any unrolled vector loop takes at once. [elements]"""
_ZERO = np.float32(0)


@kernel
def relu_range(lo, hi, x, out):
    """``max(x, 0)``; NaN becomes 0 as in the fused convolution."""
    part, to = x[lo:hi], out[lo:hi]
    for i in range(part.size):
        to[i] = part[i] if part[i] > _ZERO else _ZERO


@kernel
def sigmoid_range(lo, hi, x, out):
    """Logistic function."""
    part, to = x[lo:hi], out[lo:hi]
    for i in range(part.size):
        to[i] = sigmoid32(part[i])


@kernel
def tanh_range(lo, hi, x, out):
    """Hyperbolic tangent."""
    part, to = x[lo:hi], out[lo:hi]
    for i in range(part.size):
        to[i] = tanh32(part[i])


@kernel
def gelu_tanh_range(lo, hi, x, out):
    """GELU by the hyperbolic tangent."""
    part, to = x[lo:hi], out[lo:hi]
    for i in range(part.size):
        to[i] = gelu_tanh32(part[i])


_RANGE = {
    "relu": relu_range,
    "sigmoid": sigmoid_range,
    "tanh": tanh_range,
    "gelu_tanh": gelu_tanh_range,
}
Activation = Literal["relu", "sigmoid", "tanh", "gelu_tanh"]


def activate(
    x: np.ndarray, name: Activation, *, out: np.ndarray | None = None, threads: int | None = None
) -> np.ndarray:
    """``name`` of every element of ``x`` (float32, C-contiguous, any shape); ``out`` may be ``x``."""
    result = output(out, real(x).shape, np.float32)
    if name not in _RANGE:
        raise KernelError(f"name is {name!r}; allowed: {', '.join(_RANGE)}")
    flat, to = x.reshape(-1), result.reshape(-1)
    over_range(_RANGE[name], x.size, flat, to, threads=threads, grain=GRAIN, step=STEP)
    return result
