"""Counts of an op at a batch, a pass length and a context, and a device's parts of them, for compiled cost models."""

from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.devices.common.cached import remembered
from engine.kernels.ir.doubles import above, alike, at_least, chosen, larger, rounded_down, rounded_up, smaller
from engine.kernels.jit import kernel
from model_zoo import table as T

SIZES = 4
"""Rows of sizes that compiled models take: batch, pass length, context and span, as `model_zoo.ops.Phase.sizes`."""


@dataclass(frozen=True)
class Group:
    """Operators whose seconds are added up together: their counts carry the same sizes.

    `sizes` says which sizes: 0 batch, 1 pass length, 2 context, 3 span. `rows` are their places in the phase, of
    operators that are alike in everything the first one's; `times` (n_rows,) is how many are alike.
    """

    sizes: tuple[int, ...]
    rows: np.ndarray
    times: np.ndarray


@remembered(lambda of: (*map(id, of[0]), of[1].tobytes()))
def groups_of(of: tuple[tuple[np.ndarray, ...], np.ndarray]) -> tuple[Group, ...]:
    """Groups of the operators at some places, of tables with a row an operator and those places. [-]"""
    tables, rows = of
    table = tables[0][rows]
    counts = table[:, : T.KIND].reshape(len(rows), -1, 4)
    marks = ((counts[:, :, :1] != 0.0) & (counts[:, :, 1:] != 0.0)).any(axis=1) @ np.array([1, 2, 4])
    marks = np.where(marks == 0, 7, marks)  # carries none: a family may still read one
    marks += 8 * ((marks & 4 > 0) & np.isfinite(table[:, T.CAP]))
    once = (table[:, T.STEPS] == 1.0) & ~table[:, T.STEPS + 1 : T.STEPS + 4].any(axis=1)
    whole = np.column_stack([table[rows].reshape(len(rows), -1) for table in tables]) + 0.0  # -0.0 is 0
    alike: dict[Any, list[int]] = {}
    for row, free in enumerate(once.tolist()):  # what runs step by step belongs to what stands beside it
        alike.setdefault(whole[row].tobytes() if free else row, []).append(row)
    first, times = np.array([(at[0], len(at)) for at in alike.values()], dtype=np.int64).reshape(-1, 2).T
    times, marks = times.astype(np.float64), marks[first]
    kinds = ((tuple(k for k in range(SIZES) if kind >> k & 1), marks == kind) for kind in sorted(set(marks.tolist())))
    return tuple(Group(sizes, rows[first[mask]], times[mask]) for sizes, mask in kinds)


def places(names: str) -> Any:
    """Where each number of a flat row lies, by its name: ``places("cores clock").clock`` is 1. [-] A count."""
    return namedtuple("Places", names)(*range(len(names.split())))


def records(designs: Sequence[Sequence[float]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Records of designs, (n, fields), as `Compiled.points` takes them."""
    matrix = np.array(designs, dtype=np.float64).T
    fields = np.flatnonzero((matrix != matrix[:, :1]).any(axis=1))
    return matrix[:, 0].copy(), fields, np.ascontiguousarray(matrix[fields])


@kernel
def in_chunks(tokens, cap):
    """What so many tokens, the first of a sequence, see in their chunks together. [-]"""
    whole = rounded_down(tokens / cap)
    remainder = tokens - whole * cap
    return whole * (cap * (cap + 1.0) / 2.0) + remainder * (remainder + 1.0) / 2.0


@kernel
def seen(table, j, context, span):
    """`model_zoo.ops.seen` of op j; of `LANES` sizes where they are vectors."""
    cap, window = table[j, T.CAP], smaller(context, table[j, T.CAP])
    if cap == np.inf:
        return window
    tokens = larger(span, 1.0)
    last = context + (tokens - 1.0) / 2.0
    if table[j, T.ANEW] > 0.0:
        mean = (in_chunks(last, cap) - in_chunks(last - tokens, cap)) / tokens
    else:
        past = smaller(larger(last - cap, 0.0), tokens)
        mean = chosen(at_least(past, tokens), cap, context - past * (past + 1.0) / (2.0 * tokens))
    return chosen(above(span, 0.0), mean, window)


@kernel
def at(table, j, col, batch, length, back):
    """A count of op j: coef * B^b * S^s * seen^c, exponents 0 or 1; of `LANES` sizes where they are vectors."""
    return (
        table[j, col]
        * (1.0 + table[j, col + 1] * (batch - 1.0))
        * (1.0 + table[j, col + 2] * (length - 1.0))
        * (1.0 + table[j, col + 3] * (back - 1.0))
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
    part_g, part_m, part_n = 1.0, 1.0, alike(n, 1.0)
    if shard == 2.0:
        part_g, part_m = dealt(table[j, T.G], table[j, T.M], ways)
    if shard == 1.0:
        part_n = chosen(above(n, 0.0), rounded_up(n / ways) / n, 1.0 / ways)
    return part_g, part_m, part_n, 1.0 / ways if shard == 3.0 else 1.0, 1.0 / ways if shard == 4.0 else 1.0


@kernel
def own_counts(table, j, size, ways):
    """What op j asks of the busiest of ``ways`` devices, an execution. [-]

    Steps, FLOPs, elements read and written, weights, state read and kept of all devices, this one's part of that,
    groups, rows, columns, depth, rows looked up.

    ``size`` is batch, pass length, context and span; of `LANES` sizes where they are vectors.
    """
    batch, length, context = size[0], size[1], seen(table, j, size[2], size[3])
    n = at(table, j, T.N, batch, length, context)
    part_g, part_m, part_n, part_k, part_e = parts(table, j, n, ways)
    part = part_n * part_g * part_k * part_e
    weights = at(table, j, T.WEIGHTS, batch, length, context)
    if table[j, T.STORED] > 0.0:  # what many items choose is read once
        weights = smaller(weights, table[j, T.STORED])
    return (
        at(table, j, T.STEPS, batch, length, context),
        at(table, j, T.FLOPS, batch, length, context) * part * part_m,
        at(table, j, T.READS, batch, length, context) * part_g * part_m * part_k * part_e,
        at(table, j, T.WRITES, batch, length, context) * part_n * part_g * part_m * part_e,
        weights * part,
        at(table, j, T.STATE_READS, batch, length, context),
        at(table, j, T.STATE_WRITES, batch, length, context),
        part,
        at(table, j, T.G, batch, length, context) * part_g,
        at(table, j, T.M, batch, length, context) * part_m,
        n * part_n,
        at(table, j, T.K, batch, length, context) * part_k,
        at(table, j, T.GATHER_ROWS, batch, length, context) * part_n * part_e,
    )
