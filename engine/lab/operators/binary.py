"""Binary fully connected layer: 1-bit weights and activations, popcount of the exclusive-or.

A neuron's agreement count is ``K - popcount(w ^ x)``; it fires when the number of *differing* bits is at most its
threshold, which folds batch normalisation and sign into one integer comparison.

::

    packed = pack_binary(w)   # uint8 bits [N, K/8] -> BinaryWeights, once
    binary_counts(x, packed)  # uint8 bits [B, K/8] -> int32 [B, N], differing bits, exact

Weights lie in panels of as many neurons as a tile of :mod:`engine.lab.ir.binary` takes, one word of a
neuron to a lane, and rows pass over a panel while it stays in the first-level cache.
"""

from dataclasses import dataclass

import numpy as np

from engine.kernels.jit import kernel
from engine.lab.ir.binary import ACROSS, TALL, VECTORS, tile
from engine.lab.ir.lanes import LINE, VL
from engine.lab.operators.gemm import row_blocks
from engine.lab.ranges import fresh, over_range, require, whole

_AHEAD = 4096  # bytes that a single row asks for in advance: its panels stream from the last level
_FINEST = 16  # parts of a thread's share: what one waits for the other at the end
_tall, _single = tile(TALL), tile(1)


@dataclass(frozen=True, eq=False)
class BinaryWeights:
    """Weights [n, k] in 32-bit words; k and n in bits.

    ``words`` lie as ``[panel][pair of words][vector][2][VL]``, entwined, zero padded to whole pairs and panels.
    """

    k: int
    n: int
    words: np.ndarray


def _entwine(rows: np.ndarray, count: int) -> np.ndarray:
    """Rows of bytes as pairs of 32-bit words ``(v1, v1 ^ v2)``, a pair to an int64, zero padded to ``count`` rows."""
    pairs = np.zeros((count, -(-rows.shape[1] // 8)), np.int64)
    pairs.view(np.uint8)[: len(rows), : rows.shape[1]] = rows
    return pairs ^ pairs << 32


@kernel
def _range(lo, hi, x, words, out, blocks, across):
    """Jobs ``lo:hi`` of (block of rows, panel)."""
    rows, pairs = x.shape
    tiles = (rows + TALL - 1) // TALL
    panel = 2 * pairs * ACROSS
    for job in range(lo, hi):
        row = job // across * tiles // blocks * TALL
        last = min(rows, (job // across + 1) * tiles // blocks * TALL)
        col = job % across * ACROSS
        at = job % across * panel
        fetch = 4 * (at + panel)  # the tall tiles of a panel ask for the next one, each for a part of it
        while TALL > 1 and row + TALL <= last:
            _tall(x, row, words, at, fetch, out, col)
            row += TALL
            fetch += LINE * pairs
            if fetch >= 4 * (at + 2 * panel):
                fetch = 4 * at
        while row < last:
            _single(x, row, words, at, 4 * at + _AHEAD, out, col)
            row += 1


def pack_binary(w: np.ndarray) -> BinaryWeights:
    """Pack weights given as bytes of bits, uint8 [N, K/8], for :func:`binary_counts`."""
    whole("w", w, np.uint8, 2)
    neurons, size = w.shape
    across, pairs = -(-neurons // ACROSS), -(-size // 8)
    full = _entwine(w, across * ACROSS)
    words = fresh((2 * full.size,), np.int32)
    lanes = full.view(np.int32).reshape(across, VECTORS, VL, pairs, 2)
    words.reshape(across, pairs, VECTORS, 2, VL)[:] = lanes.transpose(0, 3, 1, 4, 2)
    return BinaryWeights(size * 8, neurons, words)


def binary_counts(x: np.ndarray, packed: BinaryWeights, threads: int | None = None) -> np.ndarray:
    """Differing bits of every input row and neuron: uint8 bits [B, K/8] -> int32 [B, N], exact."""
    whole("x", x, np.uint8, 2)
    rows, size = x.shape
    if size * 8 != packed.k:
        require(False, f"x has {size * 8} bits a row; allowed: {packed.k}, as the weights")
    pairs, across = -(-size // 8), -(-packed.n // ACROSS)
    out = np.empty((rows, packed.n), np.int32)
    if out.size:
        blocks = row_blocks(rows, 8 * pairs, across, threads)
        arguments = (_entwine(x, rows), packed.words, out, blocks, across)
        over_range(_range, blocks * across, *arguments, threads=threads, finest=_FINEST)
    return out
