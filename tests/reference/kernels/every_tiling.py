"""Every legal tiling tried one by one: what `engine.kernels.search.tilings.search` is held against."""

import numpy as np

from engine.kernels.jit import kernel
from engine.kernels.search.tilings import (
    _advance,
    _better,
    _block,
    _identify,
    _outer_fits,
    _part,
    _places,
    figures,
    fits,
    read,
    weigh,
)

ORDERS = np.array([(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])  # outermost first


@kernel
def _last(blocks, order):
    """The innermost dimension of an order of loops (a row of `ORDERS`) that has several blocks; -1: none."""
    for i in range(2, -1, -1):
        if blocks[ORDERS[order, i]] > 1.0:
            return ORDERS[order, i]
    return -1


@kernel
def _every_inside(part, halo, near, outer, cut, mask, weights, aim, best, tried):
    """Tries every inner tiling under given outer blocks; returns the number tried so far."""
    tile_bytes, where, room, copies = near
    inner, row, more = np.ones(3), np.empty(4), True
    while more:
        counts, again = inner * outer, read(halo, outer[0] * cut[1] * inner[0])
        if fits(_block(part, inner), counts, again, counts[2] > 1.0, tile_bytes, where, room, copies):
            for order in range(36):
                high, low = _last(outer, order // 6), _last(inner, order % 6)
                figures(weights, halo, cut[1], outer, high, inner, low, row)
                if tried == 0 or _better(row, best, aim):
                    best[:4] = row
                    _identify(cut, mask, outer, high, inner, low, best)
                tried += 1
        more = _advance(part, inner)
    return tried


@kernel
def every(problem, aim, best):
    """Tries every legal tiling, each order of loops by itself: fills ``best`` (len(MAPPING),), returns their number.

    What `search` is held against; see there for the parts of the problem.
    """
    tiles, halo, tile_bytes, where, room, copies, masks, cuts, volume, base, work, joule, second = problem
    weights, near, tried = np.empty((6, 7)), (tile_bytes[0], where[0], room[0], copies[0]), 0
    for turn in range(masks.shape[0] * cuts.shape[0]):
        mask, cut = masks[turn // cuts.shape[0]], cuts[turn % cuts.shape[0]]
        places, outer, more = _places(where, mask), np.ones(3), True
        weigh(cut, mask, tiles, where, volume, base, work, joule, second, weights)
        while more:
            if _outer_fits(tiles, halo, outer, tile_bytes, places, room, copies):
                part = _part(tiles, outer, cut)
                tried = _every_inside(part, halo, near, outer, cut, mask, weights, aim, best, tried)
            more = _advance(tiles, outer)
    return tried
