"""Kernels an eager framework launches for one operator of our graphs.

A framework without a captured graph runs an operator as several kernels, each issued by the host. Counted along one
layer of Megatron-LM at half precision, recalled: keys and values are concatenated apart; scores are widened, scaled,
masked, normalised and narrowed; products of attention also copy an operand into place; a residual adds the bias of the
projection before it. An assumption.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from model_zoo.ops import Op

__all__ = ["KERNELS", "kernels"]

KERNELS: dict[str, float] = {"Concat": 2, "MatMul": 2, "Softmax": 5, "Add": 2}
"""Kernels by kind of operator; one where a kind is not listed."""


def kernels(ops: Sequence[Op], split: float) -> np.ndarray:
    """Kernels of each op, (n_ops,); `split` is 0 for a framework that issues an operator as one call. [-]"""
    return np.array([1.0 + split * (KERNELS.get(op.kind, 1.0) - 1.0) for op in ops])
