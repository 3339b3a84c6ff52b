"""Embedding bag (sparse-lengths sum) over fp32, fp16, int8 and int4 row-wise tables, and the single lookup.

Layouts are FBGEMM's, so a table is shared with torch without a copy: int8 rows are ``D`` bytes followed by an fp32
scale and bias; int4 rows are ``ceil(D/2)`` bytes (low nibble first) followed by an fp16 scale and bias.
Source of the workload: document 000 (sparse lookups dominate, some tables have one lookup by design).
"""

from dataclasses import dataclass

import numpy as np

from engine.kernels.jit import kernel
from engine.lab.ir.embedding_bag import bag_block
from engine.lab.ir.lanes import VL
from engine.lab.ranges import output, over_range, require, whole

PREFETCH_BYTES, LEAST_DISTANCE, MOST_DISTANCE = 12288, 16, 128
"""Rows in flight: a quarter of a 48 KiB L1, at 16 to 128 lookups ahead. More evicts rows before their use (measured on
AVX-512 hosts: 96 fp32 rows ahead cost a quarter of the rate at 16 in cache), fewer wait for DRAM."""
CACHED_BYTES = 1 << 20
"""Tables up to this lie in a second-level cache, whose latency the core hides by itself: no prefetch. [B]"""
_DTYPES = {"fp32": np.float32, "fp16": np.uint16, "int8": np.uint8, "int4": np.uint8}


@dataclass(frozen=True)
class RowTable:
    """An embedding table: ``width`` columns per row, stored as ``data`` in ``format``."""

    format: str
    width: int
    data: np.ndarray

    def __post_init__(self) -> None:
        require(self.format in _DTYPES, f"format is {self.format!r}; allowed: {', '.join(_DTYPES)}")
        whole("data", self.data, _DTYPES[self.format], 2)
        row_size = {"int8": self.width + 8, "int4": (self.width + 1) // 2 + 4}.get(self.format, self.width)
        require(
            self.data.shape[1] == row_size,
            f"data has rows of {self.data.shape[1]}; {self.format} x {self.width} needs {row_size}",
        )

    @property
    def rows(self) -> int:
        """Number of rows. [-]"""
        return self.data.shape[0]


def pack_rows(values: np.ndarray, fmt: str) -> RowTable:
    """Store float32 rows in ``fmt``. Row-wise asymmetric codes of int8 and int4, rounded half to even, are chosen for
    the scale, ``(max - min) / levels``, and the bias, ``min``, that are stored.
    """
    values = whole("values", values, np.float32, 2)
    require(fmt in _DTYPES, f"format is {fmt!r}; allowed: {', '.join(_DTYPES)}")
    width = values.shape[1]
    if fmt == "fp32":
        return RowTable(fmt, width, values)
    if fmt == "fp16":
        with np.errstate(over="ignore"):
            return RowTable(fmt, width, values.astype(np.float16).view(np.uint16))
    levels, kind = (255, np.float32) if fmt == "int8" else (15, np.float16)
    low, high = (values.min(axis=1), values.max(axis=1)) if width else np.zeros((2, len(values)), np.float32)
    tail = np.stack([(high - low) / np.float32(levels), low], axis=1).astype(kind)
    scale, bias = (tail[:, at, None].astype(np.float32) for at in (0, 1))
    exact = np.divide(values - bias, scale, out=np.zeros_like(values), where=scale > 0)
    codes = np.clip(np.rint(exact), 0, levels).astype(np.uint8)
    if fmt == "int4":
        codes = np.pad(codes, ((0, 0), (0, width % 2)))
        codes = codes[:, ::2] | (codes[:, 1::2] << 4)
    return RowTable(fmt, width, np.concatenate([codes, tail.view(np.uint8)], axis=1))


_wide, _narrow, _last = bag_block(VL, 4), bag_block(VL, 1), bag_block(1, 1)


@kernel
def bag(lo, hi, table, indices, offsets, distance, group, out, bad):
    """Bags ``[lo, hi)``: four vectors of columns at a time, then one, then ``group`` columns (int4: two)."""
    spill = np.empty(group, np.float32)
    total, width, single = indices.size, out.shape[1], offsets.size == 0
    if lo == 0 and not single and (offsets[0] != 0 or offsets[offsets.size - 1] != total):
        bad[1] = True
        return
    for b in range(lo, hi):
        first, last = (b, b + 1) if single else (offsets[b], offsets[b + 1])
        if first < 0 or last < first or last > total:  # never read outside the indices
            bad[1] = True
            continue
        c, to = 0, b * width
        while c + 4 * VL <= width:
            _wide(table, indices, first, last, total, distance, c, out, to + c, bad)
            c += 4 * VL
        while c + group * VL <= width:
            _narrow(table, indices, first, last, total, distance, c, out, to + c, bad)
            c += group * VL
        while c < width:
            _last(table, indices, first, last, total, distance, c, spill, 0, bad)
            for i in range(min(group, width - c)):
                out[b, c + i] = spill[i]
            c += group


_NONE = np.zeros(0, np.int64)
_INDEX, _VALUE = np.dtype(np.int64), np.dtype(np.float32)  # types are compared once a call: made once
GRAIN_BAGS = 16
"""Fewest bags worth a thread of their own. [-]"""


def embedding_bag(
    table: RowTable,
    indices: np.ndarray,
    offsets: np.ndarray | None = None,
    *,
    out: np.ndarray | None = None,
    distance: int | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """``out[b] = sum of row(indices[t])`` for ``offsets[b] <= t < offsets[b + 1]``, in fp32.

    Parameters
    ----------
    indices : int64 ``[lookups]``.
    offsets : int64 ``[bags + 1]``, first 0, last ``lookups``, never falling; None: exactly one lookup a bag.
    distance : rows requested this many lookups ahead, 0 for none; None chooses by the sizes. [lookups]
    """
    if offsets is None:
        offsets = _NONE
    elif not whole("offsets", offsets, _INDEX, 1).size:
        require(False, f"offsets must rise from 0 to {indices.size}, the number of indices")
    whole("indices", indices, _INDEX, 1)
    if indices.size and not table.rows:
        require(False, f"indices has {indices.size} values; the table has no rows")
    if distance is None:
        near = min(max(PREFETCH_BYTES // max(1, table.data.strides[0]), LEAST_DISTANCE), MOST_DISTANCE)
        distance = 0 if table.data.nbytes <= CACHED_BYTES else near
    require(distance >= 0, f"distance is {distance}; allowed: 0 or more")
    bags = offsets.size - 1 if offsets.size else indices.size
    result = output(out, (bags, table.width), _VALUE)
    bad, grain = np.zeros(2, np.bool_), GRAIN_BAGS if offsets.size else 64 * GRAIN_BAGS
    data, group = (table.data.view(np.int8), 2) if table.format == "int4" else (table.data, 1)
    arguments = (data, indices, offsets, distance, group, result, bad)
    over_range(bag, bags, *arguments, threads=threads, grain=grain)
    require(not bad[1], f"offsets must rise from 0 to {indices.size}, the number of indices")
    if bad[0]:  # checking first would read the ids twice
        count = int(((indices < 0) | (indices >= table.rows)).sum())
        require(False, f"indices has {count} values outside the table; allowed: 0 to {table.rows - 1}")
    return result
