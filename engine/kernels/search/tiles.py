"""The best of many tiles for each operator, and for a whole pass: exhaustive."""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import kernel

__all__ = ["best_tiles"]


@kernel
def best_tiles(seconds, whole, best):
    """For each operator of ``seconds`` (tiles, ops) the first tile that takes least: fills ``best`` (ops,).

    A tile that can't be used takes NaN. Returns the first tile with the least ``whole`` (tiles,), -1 where none is.
    """
    tiles, ops = seconds.shape
    best[:] = -1
    low = np.full(ops, np.inf)
    for t in range(tiles):
        for j in range(ops):
            if seconds[t, j] < low[j]:
                low[j] = seconds[t, j]
                best[j] = t
    found, least = -1, np.inf
    for t in range(tiles):
        if whole[t] < least:
            least = whole[t]
            found = t
    return found
