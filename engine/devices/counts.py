"""Counts of an op at a batch, a pass length and a context, and a device's parts of them, for compiled cost models."""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import kernel

__all__ = ["at", "parts"]


@kernel
def at(table, j, col, batch, length, context):
    """A count of op j: coef * B^b * S^s * C^c, exponents 0 or 1."""
    return (
        table[j, col]
        * (1.0 + table[j, col + 1] * (batch - 1.0))
        * (1.0 + table[j, col + 2] * (length - 1.0))
        * (1.0 + table[j, col + 3] * (context - 1.0))
    )


@kernel
def parts(shard, g, n, ways):
    """Parts of an op's groups, columns, depth and elements that the busiest of ``ways`` devices has. [-]"""
    part_g = np.ceil(g / ways) / g if shard == 2.0 and g > 0.0 else 1.0
    part_n = (np.ceil(n / ways) / n if n > 0.0 else 1.0 / ways) if shard == 1.0 else 1.0
    return part_g, part_n, 1.0 / ways if shard == 3.0 else 1.0, 1.0 / ways if shard == 4.0 else 1.0
