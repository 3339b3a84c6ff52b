"""What a narrow format costs a recurrent network: the output's program beside float64."""

from functools import lru_cache

import numpy as np

from engine.devices.common.instruction_set import relative_error
from engine.devices.npu.chains import CELLS
from engine.devices.npu.machine import Processor, arithmetic
from engine.devices.npu.programs import sequence

_GATES = {"gru": "rzn", "lstm": "fiog"}


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
    vectors = {f"x{t}.0": x for t, x in enumerate(xs)} | {f"{k}.0": v for k, v in w.items() if k[0] == "b"}
    vectors |= {state: np.zeros(hidden, np.float32) for state in ("h0.0", "c0.0")}
    matrices = {k: v for k, v in w.items() if k[0] != "b"}
    program, formats = sequence(CELLS[cell], steps), (arithmetic(format, native), None)
    own, exact = (Processor(form, matrices, vectors).run(program) for form in formats)
    return tuple(relative_error(own[f"h{t}.0"], exact[f"h{t}.0"]) for t in range(1, steps + 1))
