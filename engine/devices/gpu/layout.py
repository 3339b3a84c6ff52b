"""The flat record that the GPU's price takes: where each part begins, and which fields decide more than seconds."""

from collections import namedtuple
from itertools import accumulate
from typing import Any

import numpy as np

from engine.devices.gpu.operators import attention, gemm, moe, slots, stream

_ONE_EACH = (
    *("lanes_s", "act_bytes", "wide_bytes", "graph", "fuse", "issue", "split", "causal", "held"),
    *("low_j", "wide_j", "lanes_j", "far_j", "near_j", "least_head", "most_head"),
)
PARTS = {
    "machine": slots.MACHINE,
    "low": gemm.FORMAT,  # of operators in the scenario's format
    "wide": gemm.FORMAT,  # and of those that stay wide
    "decode": attention.FORMAT,  # of a cache in the scenario's format
    "decode16": attention.FORMAT,  # and of one of 16 bits
    "prefill": attention.PROMPT,
    "prefill16": attention.PROMPT,
    "experts": moe.FORMAT,
    "norm": stream.FORMAT,  # of norms and other reductions
    "point": stream.FORMAT,  # of element-wise operators
    "lookup": stream.FORMAT,  # of rows of tables
    **{name: (name,) for name in _ONE_EACH},
}
"""Names of the fields of each part."""
*_BEGINS, FIELDS = accumulate(map(len, PARTS.values()), initial=0)
L: Any = namedtuple("Layout", PARTS)(*_BEGINS)
"""Where each part of the flat record begins."""

_FREE = (
    *(at for at in range(L.low) if at not in (slots.UNITS, slots.L2, slots.L2_SHARE)),
    *(at + of for at in (L.low, L.wide)
      for of in (gemm.FLOP_S, gemm.DRAW_S, gemm.QUANTISE_S, gemm.QUANTISE_BYTE_S, gemm.WIDEN_S)),
    *range(L.decode, L.lanes_s + 1), L.issue, *range(L.low_j, L.near_j + 1),
)  # fmt: skip
STEADY = np.array([field not in _FREE for field in range(FIELDS)])
"""Fields that decide what is on the menu of tiles, what is counted and who is whose kernel."""
