"""Adam (Kingma and Ba, 2015) with its usual constants, in one compiled pass over each array."""

from collections.abc import Sequence

import numpy as np

from engine.kernels.jit import kernel

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
