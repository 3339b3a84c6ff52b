"""Counts of an op at a batch, a pass length and a context, and a device's parts of them, for compiled cost models."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from engine.kernels.jit import kernel
from model_zoo import table as T
from model_zoo.ops import Phase

__all__ = ["GROUPS", "at", "carried", "dealt", "parts"]

GROUPS = 8
"""Groups of operators whose counts carry the same sizes: bits of batch, pass length and context."""


@lru_cache(maxsize=2048)
def carried(phase: Phase) -> np.ndarray:
    """Which sizes the counts of each operator of a phase carry, shape (n_ops,): a number below `GROUPS`. [-]

    Operators that carry no size are in the last group: a family may still read one.
    """
    counts = T.lower(phase)[:, : T.KIND].reshape(len(phase.ops), -1, 4)
    told = ((counts[:, :, :1] != 0.0) & (counts[:, :, 1:] != 0.0)).any(axis=1)
    group = told @ np.array([1, 2, 4])
    group = np.where(group == 0, GROUPS - 1, group)
    group.setflags(write=False)
    return group


@kernel
def at(table, j, col, batch, length, context):
    """A count of op j: coef * B^b * S^s * min(C, cap)^c, exponents 0 or 1."""
    return (
        table[j, col]
        * (1.0 + table[j, col + 1] * (batch - 1.0))
        * (1.0 + table[j, col + 2] * (length - 1.0))
        * (1.0 + table[j, col + 3] * (min(context, table[j, T.CAP]) - 1.0))
    )


@kernel
def dealt(heads, rows, ways):
    """Parts of a sample's heads, and of the rows of each, that the busiest of ``ways`` devices has. [-]

    Heads go out whole, those of one sample like those of the next: a device owns them with their weights and their
    cache. Devices beyond their number hold copies, and share the rows of a head: the queries that read one key.
    """
    if heads <= 0.0:
        return 1.0, 1.0
    if ways <= heads:
        return np.ceil(heads / ways) / heads, 1.0
    return 1.0 / heads, (np.ceil(rows / np.floor(ways / heads)) / rows if rows > 0.0 else 1.0)


@kernel
def parts(table, j, n, ways):
    """Parts of op j's heads, rows, columns, depth and elements that the busiest of ``ways`` devices has. [-]"""
    shard = table[j, T.SHARD]
    part_g, part_m = 1.0, 1.0
    if shard == 2.0:
        part_g, part_m = dealt(table[j, T.G], table[j, T.M], ways)
    part_n = (np.ceil(n / ways) / n if n > 0.0 else 1.0 / ways) if shard == 1.0 else 1.0
    return part_g, part_m, part_n, 1.0 / ways if shard == 3.0 else 1.0, 1.0 / ways if shard == 4.0 else 1.0
