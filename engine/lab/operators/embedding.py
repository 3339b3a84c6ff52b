"""Embedding bag (sparse-lengths sum) over fp32, fp16, int8 and int4 row-wise tables, and the single lookup.

Layouts are FBGEMM's, so a table is shared with torch without a copy: int8 rows are ``D`` bytes followed by an fp32
scale and bias; int4 rows are ``ceil(D/2)`` bytes (low nibble first) followed by an fp16 scale and bias.
Source of the workload: seed 000 (sparse lookups dominate, some tables have one lookup by design).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from engine.kernels.jit import inner, kernel
from engine.lab.ir.embedding_bag import bag_block
from engine.lab.ir.lanes import lanes
from engine.lab.threads.ranges import over_range, require, whole

RowFormat = Literal["fp32", "fp16", "int8", "int4"]
PREFETCH_BYTES, LEAST_DISTANCE, MOST_DISTANCE = 12288, 16, 128
"""Rows in flight: a quarter of a 48 KiB L1, at 16 to 128 lookups ahead. More evicts rows before their use (measured on
AVX-512 hosts: 96 fp32 rows ahead cost a quarter of the rate at 16 in cache), fewer wait for DRAM."""
CACHED_BYTES = 1 << 20
"""Tables up to this lie in a second-level cache, whose latency the core hides by itself: no prefetch. [B]"""
_STORED = {"fp32": np.float32, "fp16": np.uint16, "int8": np.uint8, "int4": np.uint8}
_MAX_CODE = {"int8": 255, "int4": 15}


@dataclass(frozen=True)
class RowTable:
    """An embedding table: ``width`` columns per row, stored as ``data`` in ``format``."""

    format: RowFormat
    width: int
    data: np.ndarray

    def __post_init__(self) -> None:
        require(self.format in _STORED, f"format is {self.format!r}; allowed: {', '.join(_STORED)}")
        whole("data", self.data, _STORED[self.format], 2)
        stored = {"int8": self.width + 8, "int4": (self.width + 1) // 2 + 4}.get(self.format, self.width)
        require(
            self.data.shape[1] == stored,
            f"data has rows of {self.data.shape[1]}; {self.format} x {self.width} needs {stored}",
        )

    @property
    def rows(self) -> int:
        """Number of rows. [-]"""
        return self.data.shape[0]


@kernel
def quantise_rows(
    lo: int, hi: int, values: np.ndarray, levels: int, codes: np.ndarray, scale: np.ndarray, bias: np.ndarray
) -> None:
    """Row-wise asymmetric codes: ``scale = (max - min) / levels``, ``bias = min``, round half to even. [-]"""
    for row in range(lo, hi):
        low = np.float32(np.inf)
        high = np.float32(-np.inf)
        for c in range(values.shape[1]):
            low = min(low, values[row, c])
            high = max(high, values[row, c])
        step = np.float32((high - low) / np.float32(levels))
        scale[row] = step
        bias[row] = low
        for c in range(values.shape[1]):
            code = np.float32(0) if step == np.float32(0) else np.rint(np.float32((values[row, c] - low) / step))
            codes[row, c] = np.uint8(min(max(code, np.float32(0)), np.float32(levels)))


def pack_rows(values: np.ndarray, fmt: RowFormat, *, threads: int | None = None) -> RowTable:
    """Store float32 rows in ``fmt``; int4 codes are chosen for the fp16-rounded scale and bias that are stored."""
    values = whole("values", values, np.float32, 2)
    require(fmt in _STORED, f"format is {fmt!r}; allowed: {', '.join(_STORED)}")
    rows, width = values.shape
    if fmt == "fp32":
        return RowTable(fmt, width, values)
    if fmt == "fp16":
        with np.errstate(over="ignore"):
            return RowTable(fmt, width, values.astype(np.float16).view(np.uint16))
    codes, scale, bias = np.zeros((rows, width), np.uint8), np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    if width:
        over_range(quantise_rows, rows, values, _MAX_CODE[fmt], codes, scale, bias, threads=threads)
    if fmt == "int8":
        tail = np.stack([scale, bias], axis=1).view(np.uint8)
        return RowTable(fmt, width, np.concatenate([codes, tail], axis=1))
    half = np.stack([scale, bias], axis=1).astype(np.float16)
    if width:
        step, low = (half[:, :1].astype(np.float32), half[:, 1:].astype(np.float32))
        exact = np.divide(values - low, step, out=np.zeros_like(values), where=step > 0)
        codes = np.clip(np.rint(exact), 0, _MAX_CODE[fmt]).astype(np.uint8)
    if width % 2:
        codes = np.concatenate([codes, np.zeros((rows, 1), np.uint8)], axis=1)
    nibbles = codes[:, ::2] | (codes[:, 1::2] << 4)
    return RowTable(fmt, width, np.concatenate([nibbles, half.view(np.uint8)], axis=1))


def _bag(fmt: str) -> Callable[..., None]:
    """The range kernel of one format: 8, 4 and 1 vectors of columns at a time, then one element (int4: two)."""
    wide, middle, narrow = (8, 4, 1) if fmt != "int4" else (4, 2, 1)
    block_wide, columns_wide = bag_block(fmt, lanes(), wide)
    block_middle, columns_middle = bag_block(fmt, lanes(), middle)
    block_narrow, columns_narrow = bag_block(fmt, lanes(), narrow)
    block_last, columns_last = bag_block(fmt, 1, 1)

    @inner
    def bag(
        lo: int,
        hi: int,
        table: Any,
        indices: Any,
        offsets: Any,
        single: bool,
        weights: Any,
        mask: int,
        mean: bool,
        distance: int,
        width: int,
        out: Any,
        bad: Any,
    ) -> None:
        spill = np.empty(columns_last, np.float32)
        total = indices.size
        if lo == 0 and not single and (offsets[0] != 0 or offsets[offsets.size - 1] != total):
            bad[1] = True
            return
        for b in range(lo, hi):
            first, last = (b, b + 1) if single else (offsets[b], offsets[b + 1])
            if first < 0 or last < first or last > total:  # never read outside the indices
                bad[1] = True
                continue
            column, slot = 0, b * width
            while column + columns_wide <= width:
                block_wide(table, indices, weights, mask, first, last, total, distance, column, out, slot + column, bad)
                column += columns_wide
            while column + columns_middle <= width:
                block_middle(
                    table, indices, weights, mask, first, last, total, distance, column, out, slot + column, bad
                )
                column += columns_middle
            while column + columns_narrow <= width:
                block_narrow(
                    table, indices, weights, mask, first, last, total, distance, column, out, slot + column, bad
                )
                column += columns_narrow
            while column < width:
                block_last(table, indices, weights, mask, first, last, total, distance, column, spill, 0, bad)
                for c in range(min(columns_last, width - column)):
                    out[b, column + c] = spill[c]
                column += columns_last
            if mean and last > first:
                share = np.float32(1) / np.float32(last - first)
                for c in range(width):
                    out[b, c] *= share

    return bag


_bag_fp32, _bag_fp16, _bag_int8, _bag_int4 = (_bag(fmt) for fmt in _STORED)


@kernel
def bag_fp32(
    lo: int,
    hi: int,
    table: Any,
    indices: Any,
    offsets: Any,
    single: bool,
    weights: Any,
    mask: int,
    mean: bool,
    distance: int,
    width: int,
    out: Any,
    bad: Any,
) -> None:
    """Bags ``[lo, hi)`` of an fp32 table."""
    _bag_fp32(lo, hi, table, indices, offsets, single, weights, mask, mean, distance, width, out, bad)


@kernel
def bag_fp16(
    lo: int,
    hi: int,
    table: Any,
    indices: Any,
    offsets: Any,
    single: bool,
    weights: Any,
    mask: int,
    mean: bool,
    distance: int,
    width: int,
    out: Any,
    bad: Any,
) -> None:
    """Bags ``[lo, hi)`` of an fp16 table (bit patterns)."""
    _bag_fp16(lo, hi, table, indices, offsets, single, weights, mask, mean, distance, width, out, bad)


@kernel
def bag_int8(
    lo: int,
    hi: int,
    table: Any,
    indices: Any,
    offsets: Any,
    single: bool,
    weights: Any,
    mask: int,
    mean: bool,
    distance: int,
    width: int,
    out: Any,
    bad: Any,
) -> None:
    """Bags ``[lo, hi)`` of an int8 row-wise table."""
    _bag_int8(lo, hi, table, indices, offsets, single, weights, mask, mean, distance, width, out, bad)


@kernel
def bag_int4(
    lo: int,
    hi: int,
    table: Any,
    indices: Any,
    offsets: Any,
    single: bool,
    weights: Any,
    mask: int,
    mean: bool,
    distance: int,
    width: int,
    out: Any,
    bad: Any,
) -> None:
    """Bags ``[lo, hi)`` of an int4 row-wise table."""
    _bag_int4(lo, hi, table, indices, offsets, single, weights, mask, mean, distance, width, out, bad)


_KERNEL = {"fp32": bag_fp32, "fp16": bag_fp16, "int8": bag_int8, "int4": bag_int4}
_ONE = np.ones(1, np.float32)
_NONE = np.zeros(1, np.int64)
_INDEX, _VALUE = np.dtype(np.int64), np.dtype(np.float32)  # types are compared once a call: made once
GRAIN_BAGS = 16
"""Fewest bags worth a thread of their own. [-]"""


def _refuse_bad_ids(bad: np.ndarray, table: RowTable, indices: np.ndarray) -> None:
    """Name the refusal once a kernel has met an index outside the table; checking first would read the ids twice."""
    if bad[0]:
        count = int(((indices < 0) | (indices >= table.rows)).sum())
        require(False, f"indices has {count} values outside the table; allowed: 0 to {table.rows - 1}")


def _refuse_no_rows(table: RowTable, indices: np.ndarray) -> None:
    if indices.size and not table.rows:
        require(False, f"indices has {indices.size} values; the table has no rows")


def _rising(holds: bool, indices: np.ndarray) -> None:
    if not holds:
        require(False, f"offsets must rise from 0 to {indices.size}, the number of indices")


def _distance(table: RowTable, asked: int | None) -> int:
    """Lookups ahead at which a row is requested. [lookups]"""
    if asked is None:
        if table.data.nbytes <= CACHED_BYTES:
            return 0
        return min(max(PREFETCH_BYTES // max(1, table.data.strides[0]), LEAST_DISTANCE), MOST_DISTANCE)
    if asked < 0:
        require(False, f"distance is {asked}; allowed: 0 or more")
    return asked


def _destination(out: np.ndarray | None, rows: int, width: int) -> np.ndarray:
    if out is None:
        return np.empty((rows, width), np.float32)
    if whole("out", out, _VALUE, 2).shape != (rows, width):
        require(False, f"out is {out.shape}; allowed: {(rows, width)}")
    return out


def embedding_bag(
    table: RowTable,
    indices: np.ndarray,
    offsets: np.ndarray,
    *,
    weights: np.ndarray | None = None,
    mode: Literal["sum", "mean"] = "sum",
    out: np.ndarray | None = None,
    distance: int | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """``out[b] = sum of weights[t] * row(indices[t])`` for ``offsets[b] <= t < offsets[b + 1]``, in fp32.

    Parameters
    ----------
    indices : int64 ``[lookups]``; offsets : int64 ``[bags + 1]``, first 0, last ``lookups``, never falling.
    weights : float32 ``[lookups]`` or None for 1.
    mode : ``mean`` divides by the number of lookups; an empty bag is zero in both.
    distance : rows requested this many lookups ahead, 0 for none; None chooses by the sizes. [lookups]
    """
    whole("indices", indices, _INDEX, 1)
    whole("offsets", offsets, _INDEX, 1)
    _refuse_no_rows(table, indices)
    if mode not in ("sum", "mean"):
        require(False, f"mode is {mode!r}; allowed: sum, mean")
    ahead, bad = _distance(table, distance), np.zeros(2, np.bool_)
    if weights is not None:
        fits = whole("weights", weights, _VALUE, 1).size == indices.size
        require(fits, f"weights has {weights.size} values; allowed: {indices.size}")
    bags = offsets.size - 1
    _rising(bags >= 0, indices)
    result = _destination(out, bags, table.width)
    factors, mask = (_ONE, 0) if weights is None else (weights, -1)
    over_range(
        _KERNEL[table.format],
        bags,
        table.data,
        indices,
        offsets,
        False,
        factors,
        mask,
        mode == "mean",
        ahead,
        table.width,
        result,
        bad,
        threads=threads,
        grain=GRAIN_BAGS,
    )
    _rising(not bad[1], indices)
    _refuse_bad_ids(bad, table, indices)
    return result


def embedding_lookup(
    table: RowTable,
    indices: np.ndarray,
    *,
    out: np.ndarray | None = None,
    distance: int | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """``out[b] = row(indices[b])`` in float32: tables with exactly one lookup per bag need no offsets."""
    whole("indices", indices, _INDEX, 1)
    _refuse_no_rows(table, indices)
    ahead, bad = _distance(table, distance), np.zeros(2, np.bool_)
    result = _destination(out, indices.size, table.width)
    over_range(
        _KERNEL[table.format],
        indices.size,
        table.data,
        indices,
        _NONE,
        True,
        _ONE,
        0,
        False,
        ahead,
        table.width,
        result,
        bad,
        threads=threads,
        grain=64 * GRAIN_BAGS,
    )
    _refuse_bad_ids(bad, table, indices)
    return result
