"""One count of an op at a batch, a pass length and a context: read by every compiled cost model."""

from __future__ import annotations

from engine.kernels.jit import kernel

__all__ = ["at"]


@kernel
def at(table, j, col, batch, length, context):
    """A count of op j: coef * B^b * S^s * C^c, exponents 0 or 1."""
    return (
        table[j, col]
        * (1.0 + table[j, col + 1] * (batch - 1.0))
        * (1.0 + table[j, col + 2] * (length - 1.0))
        * (1.0 + table[j, col + 3] * (context - 1.0))
    )
