"""Axes of an array in another order, and sums over one axis: what a network does between its products.

Axes that stay side by side are merged first, so nearly every transpose is one of two: rows moved whole, or planes
turned. Planes of 4-byte values are turned in squares of one register each, by log2(lanes) rounds of shuffles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.kernels.jit import kernel
from engine.lab.ir.square import LANES, square
from engine.lab.operators.softmax import row_max, row_sum
from engine.lab.threads.ranges import over_range, require, whole

GRAIN = 16384  # elements of a chunk: below it a second thread costs more than it brings


@kernel
def turn_planes(lo, hi, x, height, wide, squares, out):
    """Bands ``[lo, hi)`` of ``LANES`` rows over planes ``[height, wide]`` of ``x``, turned; flat arrays."""
    bands = (height + LANES - 1) // LANES
    for band in range(lo, hi):
        plane, first = band // bands * height * wide, band % bands * LANES
        rows = min(LANES, height - first)
        c = 0
        if squares and rows == LANES:
            while c + LANES <= wide:
                square(x, plane + first * wide + c, wide, out, plane + c * height + first, height)
                c += LANES
        while c < wide:
            for r in range(rows):
                out[plane + c * height + first + r] = x[plane + (first + r) * wide + c]
            c += 1


@kernel
def move_rows(lo, hi, x, counts, steps, length, pitch, out):
    """Output rows ``[lo, hi)`` of ``length`` values, ``pitch`` apart in ``x``; ``counts`` and ``steps`` of the rest."""
    for r in range(lo, hi):
        left, at = r, 0
        for axis in range(counts.size - 1, -1, -1):
            at += left % counts[axis] * steps[axis]
            left //= counts[axis]
        if pitch == 1:
            source, to = x[at : at + length], out[r * length : (r + 1) * length]
            for i in range(to.size):
                to[i] = source[i]
        else:
            for i in range(length):
                out[r * length + i] = x[at + i * pitch]


def _merged(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Shape and axes without axes of one, and with those that stay neighbours joined."""
    kept = [a for a in axes if shape[a] != 1]
    runs: list[list[int]] = []
    for a in kept:
        before = max((b for b in range(a) if shape[b] != 1), default=None)
        if runs and runs[-1][-1] == before:
            runs[-1].append(a)
        else:
            runs.append([a])
    order = sorted(range(len(runs)), key=lambda r: runs[r][0])
    sizes = [int(np.prod([shape[a] for a in runs[r]])) for r in order]
    return sizes, [order.index(r) for r in range(len(runs))]


def transpose(
    x: np.ndarray, axes: Sequence[int], *, out: np.ndarray | None = None, threads: int | None = None
) -> np.ndarray:
    """``x`` (C-contiguous, any type and rank) with its axes in the order ``axes``, C-contiguous; a copy, exact."""
    require(isinstance(x, np.ndarray), f"x must be a numpy array, not {type(x).__name__}")
    whole("x", x, x.dtype, x.ndim)
    order = tuple(int(a) for a in axes)
    require(sorted(order) == list(range(x.ndim)), f"axes are {order}; allowed: an order of 0 to {x.ndim - 1}")
    shape = tuple(x.shape[a] for a in order)
    result = np.empty(shape, x.dtype) if out is None else whole("out", out, x.dtype, x.ndim)
    require(result.shape == shape, f"out is {result.shape}; allowed: {shape}")
    if x.size == 0:
        return result
    sizes, turned = _merged(x.shape, order)
    kind: Any = {1: np.uint8, 2: np.uint16, 4: np.float32, 8: np.uint64}.get(x.itemsize)
    require(kind is not None, f"x has type {x.dtype}; allowed: values of 1, 2, 4 or 8 bytes")
    flat, to = x.reshape(-1).view(kind), result.reshape(-1).view(kind)
    if turned in ([1, 0], [0, 2, 1]):
        high, wide = sizes[-2], sizes[-1]
        planes = x.size // (high * wide)
        bands = planes * -(-high // LANES)
        grain = 1 + GRAIN // (LANES * wide)
        over_range(turn_planes, bands, flat, high, wide, x.itemsize == 4, to, threads=threads, grain=grain)
        return result
    steps = [int(np.prod(sizes[a + 1 :])) for a in range(len(sizes))]
    last = turned[-1] if turned else 0
    length, pitch = (sizes[last], steps[last]) if turned else (1, 1)
    outer = turned[:-1]
    counts = np.array([sizes[a] for a in outer], np.int64)
    pitches = np.array([steps[a] for a in outer], np.int64)
    rows = x.size // length
    over_range(move_rows, rows, flat, counts, pitches, length, pitch, to, threads=threads, grain=1 + GRAIN // length)
    return result


@kernel
def sum_rows(lo, hi, x, out):
    """``out[r] = sum of x[r]`` for rows ``[lo, hi)``."""
    for r in range(lo, hi):
        out[r] = row_sum(x[r])


@kernel
def sum_columns(lo, hi, x, out):
    """``out[a] = sum over r of x[a, r]`` for columns ``[lo, hi)`` of every plane, in order of r."""
    for a in range(x.shape[0]):
        to = out[a, lo:hi]
        for c in range(to.size):
            to[c] = 0
        for r in range(x.shape[1]):
            row = x[a, r, lo:hi]
            for c in range(to.size):
                to[c] += row[c]


def reduce_sum(x: np.ndarray, axis: int, *, threads: int | None = None) -> np.ndarray:
    """Sum of float32 ``x`` over one axis, which the result lacks; error of the order of its length times 2^-24."""
    require(isinstance(x, np.ndarray) and x.ndim >= 1, "x must be an array with at least one axis")
    whole("x", x, np.float32, x.ndim)
    require(-x.ndim <= axis < x.ndim, f"axis is {axis}; allowed: {-x.ndim} to {x.ndim - 1}")
    axis %= x.ndim
    out = np.empty((*x.shape[:axis], *x.shape[axis + 1 :]), np.float32)
    after, before, count = int(np.prod(x.shape[axis + 1 :])), int(np.prod(x.shape[:axis])), x.shape[axis]
    if after == 1:
        grain = 1 + GRAIN // max(1, count)
        over_range(sum_rows, before, x.reshape(before, count), out.reshape(-1), threads=threads, grain=grain)
    elif out.size:
        grain = 1 + GRAIN // max(1, count * before)
        flat = (x.reshape(before, count, after), out.reshape(before, after))
        over_range(sum_columns, after, *flat, threads=threads, grain=grain, step=64)
    return out


@kernel
def argmax_rows(lo, hi, x, out):
    """Place of the first largest value of rows ``[lo, hi)``."""
    for r in range(lo, hi):
        row = x[r]
        top = row_max(row)
        best = 0
        for c in range(row.size):
            if row[c] >= top:
                best = c
                break
        out[r] = best


def argmax(x: np.ndarray, *, threads: int | None = None) -> np.ndarray:
    """Place of the first largest value along the last axis of float32 ``x``, int64; defined without NaN."""
    require(isinstance(x, np.ndarray) and x.ndim >= 1 and x.shape[-1] >= 1, "x must have at least one value a row")
    whole("x", x, np.float32, x.ndim)
    out = np.empty(x.shape[:-1], np.int64)
    rows = x.reshape(-1, x.shape[-1])
    over_range(argmax_rows, len(rows), rows, out.reshape(-1), threads=threads, grain=1 + GRAIN // x.shape[-1])
    return out


@kernel
def repeat_range(lo, hi, x, times, out):
    """Rows ``[lo, hi)`` of ``out``; row r is row ``r // times`` of ``x``."""
    for r in range(lo, hi):
        row, to = x[r // times], out[r]
        for c in range(to.size):
            to[c] = row[c]


def repeat_rows(x: np.ndarray, times: int, *, out: np.ndarray | None = None, threads: int | None = None) -> np.ndarray:
    """Every row of float32 ``x`` ``[rows, columns]`` ``times`` times in a row: a channel's value at each pixel."""
    whole("x", x, np.float32, 2)
    require(times >= 0, f"times is {times}; allowed: 0 or more")
    shape = (x.shape[0] * times, x.shape[1])
    result = np.empty(shape, np.float32) if out is None else whole("out", out, np.float32, 2)
    require(result.shape == shape, f"out is {result.shape}; allowed: {shape}")
    over_range(repeat_range, len(result), x, times, result, threads=threads, grain=1 + GRAIN // max(1, x.shape[1]))
    return result
