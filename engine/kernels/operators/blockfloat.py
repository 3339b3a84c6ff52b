"""Block floating point: int8 mantissas that share one exponent over a block of K, exact integers inside the block.

::

    m, e = quantise_blocks(x, block=128, mantissa_bits=4)   # float32 [R, K] -> int8 [R, K], int16 [R, K / block]
    packed = pack_blocks(m, e, block)                       # weights as rows [N, K], once
    gemm_blocks(am, ae, packed)                             # activations [M, K] -> float32 [M, N]

Inside a block the sum of products is an exact integer; every block then adds ``integer * 2**(ea + eb)`` to a float32
sum, in order of K. With a power-of-two scale the product is exact, so an element is rounded once per block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.kernels.ir.microkernel import EDGE, GROUP, INT_KIND, MR, NC, panels, tile
from engine.kernels.jit import kernel
from engine.kernels.operators.gemm import as_rows, output, pack_s8, row_blocks, rows_of
from engine.kernels.threads.ranges import over_range, require, whole

__all__ = ["BLOCKS", "BlockWeights", "gemm_blocks", "pack_blocks", "quantise_blocks"]

BLOCKS = (16, 32, 64, 128)
_OFFSET = 128  # signed mantissas run on the unsigned side of the tile, shifted by this
_tall, _edge = tile(MR), tile(EDGE)


@dataclass(frozen=True, eq=False)
class BlockWeights:
    """Weights [n, k]: mantissas in the tile's layout, scales 2**e float32 [K/block, Npad], start values of the sums."""

    k: int
    n: int
    block: int
    words: np.ndarray
    scales: np.ndarray
    start: np.ndarray


def _check_block(k: int, block: int) -> None:
    require(block in BLOCKS, f"block is {block}; allowed: {', '.join(map(str, BLOCKS))}")
    require(k % block == 0, f"K is {k}; allowed: a multiple of the block, {block}")


def quantise_blocks(x: np.ndarray, block: int, mantissa_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Mantissas int8 [R, K] and exponents int16 [R, K/block] of ``x``; value = mantissa * 2**exponent.

    The largest magnitude of a block sets its exponent; mantissas have a sign and ``mantissa_bits`` bits, nearest
    even, saturating. Zero blocks have exponent 0.
    """
    whole("x", x, np.float32, 2)
    _check_block(x.shape[1], block)
    require(1 <= mantissa_bits <= 7, f"mantissa_bits is {mantissa_bits}; allowed: 1 to 7")
    blocks = x.reshape(x.shape[0], x.shape[1] // block, block).astype(np.float64)
    _, exponent = np.frexp(np.abs(blocks).max(2, initial=0.0))
    exponent = np.where(exponent == 0, 0, exponent - mantissa_bits)
    top = 2**mantissa_bits - 1
    mantissa = np.clip(np.rint(np.ldexp(blocks, -exponent[:, :, None])), -top, top)
    return mantissa.astype(np.int8).reshape(x.shape), exponent.astype(np.int16)


def pack_blocks(mantissa: np.ndarray, exponent: np.ndarray, block: int) -> BlockWeights:
    """Pack weight rows: mantissas int8 [N, K] and exponents int16 [N, K/block]."""
    whole("mantissa", mantissa, np.int8, 2)
    whole("exponent", exponent, np.int16, 2)
    n, k = mantissa.shape
    _check_block(k, block)
    require(exponent.shape == (n, k // block), f"exponent has shape {exponent.shape}; allowed: {(n, k // block)}")
    width = panels(n) * NC
    packed = pack_s8(np.ascontiguousarray(mantissa.T))
    scales = np.zeros((k // block, width), np.float32)
    scales[:, :n] = np.ldexp(np.float32(1), exponent.T.astype(np.int32))
    start = np.zeros((k // block, width), np.int32)
    start[:, :n] = -_OFFSET * mantissa.reshape(n, k // block, block).sum(2, dtype=np.int32).T
    return BlockWeights(k, n, block, packed.words, scales, start)


@kernel
def _blocks_range(lo, hi, a, a_scales, words, start, scales, c, block, group, blocks):
    m, k = a.shape
    n = c.shape[1]
    width = scales.shape[1]
    steps = k // group
    across = width // NC
    flat = start.reshape(-1)
    by_column = scales.reshape(-1)
    part = np.empty((MR, NC), np.int32)
    total = np.empty((MR, NC), np.float32)
    for job in range(lo, hi):
        first, last = rows_of(job // across, blocks, m)
        panel = job % across
        cols = min(NC, n - panel * NC)
        row = first
        while row < last:
            rows = MR if row + MR <= last else min(EDGE, last - row)
            total[:] = 0
            for b in range(k // block):
                at = row * k + b * block
                place = (panel * steps + b * (block // group)) * NC
                column = b * width + panel * NC
                if rows == MR:
                    _tall(
                        a,
                        at,
                        k,
                        words,
                        place,
                        block,
                        flat,
                        column,
                        by_column,
                        np.int32(0),
                        np.float32(0),
                        np.float32(0),
                        part,
                        0,
                        NC,
                        MR,
                        NC,
                        False,
                    )
                else:
                    _edge(
                        a,
                        at,
                        k,
                        words,
                        place,
                        block,
                        flat,
                        column,
                        by_column,
                        np.int32(0),
                        np.float32(0),
                        np.float32(0),
                        part,
                        0,
                        NC,
                        rows,
                        NC,
                        False,
                    )
                for r in range(rows):
                    by_row = a_scales[row + r, b]
                    for j in range(NC):
                        total[r, j] += np.float32(part[r, j]) * (by_row * by_column[column + j])
            for r in range(rows):
                for j in range(cols):
                    c[row + r, panel * NC + j] = total[r, j]
            row += rows


def gemm_blocks(
    mantissa: np.ndarray,
    exponent: np.ndarray,
    packed: BlockWeights,
    out: np.ndarray | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """Product of block-floating-point rows [M, K] with packed weights -> float32 [M, N], rounded once per block."""
    whole("mantissa", mantissa, np.int8, 2)
    whole("exponent", exponent, np.int16, 2)
    m, k = mantissa.shape
    require(k == packed.k, f"mantissa has {k} columns; allowed: {packed.k}, as the weights")
    shape = (m, k // packed.block)
    require(exponent.shape == shape, f"exponent has shape {exponent.shape}; allowed: {shape}")
    out = output(out, (m, packed.n), np.float32)
    if out.size:
        shifted = as_rows(mantissa.view(np.uint8) ^ np.uint8(_OFFSET), INT_KIND)
        a_scales = np.ldexp(np.float32(1), exponent.astype(np.int32))
        blocks = row_blocks(m, k * shifted.itemsize, panels(packed.n), threads)
        over_range(
            _blocks_range,
            blocks * panels(packed.n),
            shifted,
            a_scales,
            packed.words,
            packed.start,
            packed.scales,
            out,
            packed.block,
            GROUP[INT_KIND],
            blocks,
            threads=threads,
        )
    return out
