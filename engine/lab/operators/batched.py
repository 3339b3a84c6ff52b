"""Many independent products whose right sides are computed too: packed inside the call, one product after another.

The tile is the convolution's (a product is a convolution of one tap), so a right side is laid out once for all rows of
its left side and the packing costs ``1 / rows`` of the work. [FLOP] = 2 * G * M * K * N.
"""

from __future__ import annotations

import numpy as np

from engine.kernels import jit
from engine.kernels.jit import inner, kernel
from engine.lab.ir.lanes import lanes
from engine.lab.operators.conv import LINEAR, sweep_block
from engine.lab.threads.ranges import over_range, require, whole

_LANES = lanes()
_ROW_BLOCK = 96
"""Fewest rows of one product worth packing its right side a second time, for another thread. [rows]"""


@inner
def block_vectors(columns):
    """Registers of the next block of ``columns`` left: four, or as few of 1, 2, 4 as hold what is left. [-]"""
    if columns > 2 * _LANES:
        return 4
    return 2 if columns > _LANES else 1


@inner
def pack_columns(source, at, pitch, rows, columns, to):
    """``columns`` values of ``rows`` rows ``pitch`` apart from ``source[at]``, zero padded to whole registers."""
    width = block_vectors(columns) * _LANES
    for k in range(rows):
        row, target = source[at + k * pitch : at + k * pitch + columns], to[k * width : (k + 1) * width]
        for c in range(columns):
            target[c] = row[c]
        for c in range(columns, width):
            target[c] = 0


@kernel
def products(lo, hi, a, b, rows, depth, columns, parts, pixels, slots, out):
    """Jobs ``[lo, hi)`` of (product, part of its rows); flat arrays."""
    wide = 4 * _LANES
    packed = np.empty(depth * wide, np.float32)
    taps, zero = np.zeros(1, np.int64), np.zeros(wide, np.float32)
    for job in range(lo, hi):
        g, part = job // parts, job % parts
        first, last = rows * part // parts, rows * (part + 1) // parts
        for column in range(0, columns, wide):
            left = min(wide, columns - column)
            pack_columns(b, g * depth * columns + column, columns, depth, left, packed)
            sweep_block(
                block_vectors(left),
                first,
                last,
                a,
                pixels,
                g * rows * depth,
                taps,
                depth,
                1,
                packed,
                0,
                zero,
                0,
                LINEAR,
                out,
                slots,
                g * rows * columns + column,
                left,
            )


def gemm_batched(
    a: np.ndarray, b: np.ndarray, *, out: np.ndarray | None = None, threads: int | None = None
) -> np.ndarray:
    """``a @ b`` of float32 ``[G, M, K]`` and ``[G, K, N]``, sums in order of k.

    Error of an element at most ``K 2**-24 (|a| @ |b|)`` to first order.
    """
    whole("a", a, np.float32, 3)
    whole("b", b, np.float32, 3)
    groups, rows, depth = a.shape
    require(b.shape[:2] == (groups, depth), f"b is {b.shape}; allowed: [{groups}, {depth}, columns]")
    shape = (groups, rows, b.shape[2])
    out = np.empty(shape, np.float32) if out is None else whole("out", out, np.float32, 3)
    require(out.shape == shape, f"out is {out.shape}; allowed: {shape}")
    if depth == 0:
        out[:] = 0
    elif out.size:
        wanted = threads or jit.pool_size()
        parts = 1 if groups >= 2 * wanted else max(1, min(wanted, rows // _ROW_BLOCK))
        pixels, slots = (np.arange(rows, dtype=np.int64) * n for n in (depth, b.shape[2]))
        over_range(
            products,
            groups * parts,
            a.reshape(-1),
            b.reshape(-1),
            rows,
            depth,
            b.shape[2],
            parts,
            pixels,
            slots,
            out.reshape(-1),
            threads=threads,
        )
    return out
