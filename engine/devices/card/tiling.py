"""How a product is cut: rows and columns over the cores, blocks within one, and how often its operands pass a memory.

Of two operands one stays in half of a memory, block by block, while the other streams through it once a block; the
other half takes the next block meanwhile (double buffer). That is the least that any order of loops over such blocks
moves. Rows of a group meet the columns of that group alone, so groups pass one after the other. Estimates; exact counts
of bytes for the cut that is chosen.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import kernel

__all__ = ["ARRAY_K", "ARRAY_N", "TILE", "passes", "readers"]

# assumed, as nothing published says them; the first two are among the family's assumptions
ARRAY_K = 32.0  # depth of the multiplier array's dot products [elements]
ARRAY_N = 32.0  # filters side by side
TILE = 32.0  # rows and filters that go to a core together, and whose sums its accumulators hold


@kernel
def readers(a, b, groups, wide, high, pieces):
    """Cores that read each row and that read each column of a product cut into so many pieces: the fewest bytes. [-]

    Parameters
    ----------
    a, b : bytes of all rows and of all columns; groups, wide, high : groups, tiles of a group's columns and of its
        rows.
    """
    least, of_row, of_column = 1e300, 1.0, 1.0
    cut = 1.0
    while cut <= min(pieces, groups * wide):
        down = np.ceil(pieces / cut)
        if down <= high:
            across = max(1.0, cut / groups)
            moved = a * across + b * down
            if moved < least:
                least, of_row, of_column = moved, across, down
        cut += 1.0
    return of_row, of_column


@kernel
def passes(a, b, memory):
    """How often each of two operands of so many bytes passes into a memory of that size. [-], [-]"""
    room = memory / 2.0
    if room <= 0.0 or min(a, b) <= room:
        return 1.0, 1.0
    a_blocks, b_blocks = np.ceil(a / room), np.ceil(b / room)
    if a * b_blocks + b <= a + b * a_blocks:
        return b_blocks, 1.0
    return 1.0, a_blocks
