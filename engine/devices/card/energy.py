"""Energy of a pass on a card by part: operations by format, and bytes by memory level. Leakage is apart. Estimates.

Every constant is assumed, within a range its note states; together they let an array full of INT8 draw the published
13 W at the published 30 TOPS, and one full of FP16 at 4 TFLOPS.
"""

from __future__ import annotations

import numpy as np

from engine.devices.card import demand as D
from engine.devices.card.levels import level_bytes
from engine.devices.common.contract import Job


def joules(job: Job, asked: np.ndarray) -> dict[str, float]:
    """What a pass on one card spends beside leakage, by part, at the highest clock and its voltage. [J]

    ``asked`` are its demands, see `engine.devices.card.demand`. An estimate.
    """
    model, runs = job.model, asked[:, D.RUNS]
    own, shared, far, behind = level_bytes(job.device, asked).values()
    return {
        "arrays": float(
            runs @ (asked[:, D.MACS_LOW] * model["array_low_j"] + asked[:, D.MACS_WIDE] * model["array_wide_j"])
        ),
        "lanes": float(runs @ (asked[:, D.LANE_OPS] + asked[:, D.CYCLES]) * model["lane_j"]),
        "core memory": float(own.sum() * model["core_byte_j"]),
        "shared cache": float(shared.sum() * model["cache_byte_j"]),
        "LPDDR": float((far + behind).sum() * model["far_byte_j"]),
    }


def voltage(slope: float, clock: float) -> float:
    """Voltage at a share of the highest clock, over the voltage there: a straight line. [-]"""
    return 1.0 - slope * (1.0 - clock)
