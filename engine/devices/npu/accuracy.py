"""What a narrow format costs a recurrent network: the output's program beside float64."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from engine.devices.common.instruction_set import relative_error
from engine.devices.npu.machine import Processor, arithmetic
from engine.devices.npu.programs import recurrent

_GATES = {"gru": "rzn", "lstm": "fiog"}


def _step(cell: str, w: dict[str, np.ndarray], x: np.ndarray, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, ...]:
    """State and memory after a step, float64; the update gate's weights are stored negated, as the program wants."""

    def gate(name: str, scale: np.ndarray | float = 1.0) -> np.ndarray:
        return w[f"W{name}"] @ x + w[f"b{name}"] + scale * (w[f"U{name}"] @ h)

    def sigmoid(v: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-v))

    if cell == "gru":
        update = sigmoid(gate("z"))
        new = np.tanh(gate("n", sigmoid(gate("r"))))
        return update * new + (1 - update) * h, c
    memory = sigmoid(gate("f")) * c + sigmoid(gate("i")) * np.tanh(gate("g"))
    return sigmoid(gate("o")) * np.tanh(memory), memory


@lru_cache(maxsize=64)
def accuracy(
    cell: str, format: str, native: int = 0, hidden: int = 128, width: int = 128, steps: int = 16, seed: int = 0
) -> tuple[float, ...]:
    """Relative error of the state after each step, for a drawn network and input. [-] A measurement, of these only.

    With `native`, the mantissas of that many values share one exponent; else each value keeps its own.
    """
    rng = np.random.default_rng(seed)
    w: dict[str, np.ndarray] = {}
    for gate in _GATES[cell]:
        w[f"W{gate}"] = rng.normal(0, width**-0.5, (hidden, width)).astype(np.float32)
        w[f"U{gate}"] = rng.normal(0, hidden**-0.5, (hidden, hidden)).astype(np.float32)
        w[f"b{gate}"] = rng.normal(0, 0.1, hidden).astype(np.float32)
    xs = rng.normal(0, 1, (steps, width)).astype(np.float32)
    vectors = {f"x{t}": x for t, x in enumerate(xs)} | {f"0.0.{k}": v for k, v in w.items() if k[0] == "b"}
    vectors |= {f"0.0.{state}": np.zeros(hidden, np.float32) for state in ("h@", "c@")}
    matrices = {f"0.0.{k}": v for k, v in w.items() if k[0] != "b"}
    output = Processor(arithmetic(format, native), matrices, vectors).run(recurrent(cell, steps))
    h = c = np.zeros(hidden)
    errors = []
    for t, x in enumerate(xs):
        h, c = _step(cell, {k: v.astype(np.float64) for k, v in w.items()}, x, h, c)
        errors.append(relative_error(output[f"y{t}"], h))
    return tuple(errors)
