"""How a product is cut: rows and columns over the cores, blocks within one, and how often its operands pass a memory.

Of two operands one stays in half of a memory, block by block, while the other streams through it once a block; the
other half takes the next block meanwhile (double buffer). That is the least that any order of loops over such blocks
moves. Rows of a group meet the columns of that group alone, so groups pass one after the other. Rows of a convolution
are output pixels: a block of them is a box, and it reads the windows of all its pixels, those it shares with its
neighbours too. Estimates; exact counts of bytes for the cut that is chosen.
"""

import numpy as np

from engine.kernels.jit import kernel
from engine.kernels.search.tilings import MAPPING, read, search

# a product on a card, a row of numbers: its sides in a group, bytes of its operands, shares that move, rates
(
    ROWS, COLUMNS, DEPTH, GROUPS, A, B, C, COMES, FEED, PIECES, SRAM, SPACE, WEIGHTS, SPILLED, WORK_S, SRAM_S, CACHE_S,
    FAR_S, NEAR_J, FAR_J, FIXED_J, DEEP, WINDOWS,
) = range(23)  # fmt: skip
AXES = 3  # of an image: time, height, width; from WINDOWS on so many numbers of each
OUT, WINDOW, STEP, PAD, EXTENT = range(5)  # places, taps of a window, pixels between places, before the first, there
AXIS = 5
SIDES = WINDOWS + AXES * AXIS
PARTIAL = 4.0  # bytes of a result still to be added to

TILE = 32.0  # assumed: rows and filters that go to a core together, and whose sums its accumulators hold


@kernel
def _spans(axis, limit):
    """Pixels along an axis of an image that its parts read, all parts together, by their number up to ``limit``.

    Two parts that meet share what a window is longer than a step, but for what lies outside of the image.
    """
    out, window, step, pad = axis[OUT], axis[WINDOW], axis[STEP], axis[PAD]
    beyond = window - step - pad - axis[EXTENT]
    result = np.empty(limit + 1)
    result[0] = result[1] = min(axis[EXTENT], (out - 1.0) * step + window - pad)
    for parts in range(2, limit + 1):
        result[parts] = result[1] + (parts - 1.0) * max(0.0, window - step)
        for part in range(1, parts if window > step else 1):
            before = max(0.0, pad - np.floor(part * out / parts) * step)
            behind = max(0.0, beyond + np.floor((parts - part) * out / parts) * step)
            if before + behind == 0.0:
                break
            result[parts] -= before + behind
    return result


@kernel
def halos(windows, rows, limit):
    """How much of A so many blocks of rows read together, over what one block of all of them reads. [-]

    Of all cuts of each image into at least as many boxes the one that reads least: so more blocks never read less.
    Images of a batch that are cut once more than others share a number evenly.

    Parameters
    ----------
    windows : (AXES * AXIS,) what the rows are windows on, zeros where they share no pixels: see `OUT`. [pixels]
    rows : windows of all images; limit : blocks up to which they are counted. Returns (limit + 1,) or a single 1.0.
    """
    places = windows[OUT] * windows[AXIS + OUT] * windows[2 * AXIS + OUT]
    if places == 0.0:
        return np.ones(1)
    result, images = np.ones(limit + 1), rows / places
    if limit < 2:
        return result
    last = int(min(np.ceil(limit / images), places))
    long, high, wide = (
        int(min(windows[OUT], last)), int(min(windows[AXIS + OUT], last)), int(min(windows[2 * AXIS + OUT], last))
    )  # fmt: skip
    times, heights, widths = (
        _spans(windows[:AXIS], long), _spans(windows[AXIS:], high), _spans(windows[2 * AXIS :], wide)
    )  # fmt: skip
    lowest = np.full(last + 2, np.inf)
    for t in range(1, long + 1):
        for y in range(1, min(high, (last + t - 1) // t) + 1):
            for x in range(1, min(wide, (last + t * y - 1) // (t * y)) + 1):
                boxes = min(t * y * x, last)
                lowest[boxes] = min(lowest[boxes], times[t] * heights[y] * widths[x])
    lowest[last + 1] = lowest[last]
    for boxes in range(last - 1, 0, -1):
        lowest[boxes] = min(lowest[boxes], lowest[boxes + 1])
    lowest[0] = lowest[1]
    for blocks in range(2, limit + 1):
        share = min(blocks / images, 1.0 * last)
        whole = int(share)
        result[blocks] = (lowest[whole] + (lowest[whole + 1] - lowest[whole]) * (share - whole)) / lowest[1]
    return result


@kernel
def readers(a, b, groups, wide, high, pieces, halo):
    """Cores that read each row and that read each column of a product cut into so many pieces: the fewest bytes. [-]

    Parameters
    ----------
    a, b : bytes of all rows and of all columns; groups, wide, high : groups, tiles of a group's columns and of its
        rows; halo : what so many cuts of the rows read of them, see `halos`.
    """
    lowest, of_row, of_column = 1e300, 1.0, 1.0
    cut = 1.0
    while cut <= min(pieces, groups * wide):
        down = np.ceil(pieces / cut)
        if down <= high:
            across = max(1.0, cut / groups)
            traffic = a * across * read(halo, down) + b * down
            if traffic < lowest:
                lowest, of_row, of_column = traffic, across, down
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


@kernel
def _cut(side, halo, parts, size, memory):
    """How much of A parts of its rows of so many bytes read together that pass a memory in halves of it. [-]"""
    blocks = min(parts * max(1.0, np.ceil(2.0 * size / memory)) if memory > 0.0 else parts, np.ceil(side[ROWS] / TILE))
    if blocks >= halo.shape[0] > 1:
        halo = halos(side[WINDOWS:], side[ROWS], int(blocks))
    return read(halo, blocks)


@kernel
def by_size(side):
    """Bytes that pass the cache, and that pass LPDDR once more, of the tiling that sizes alone suggest. [B], [B]"""
    a, b, groups = side[A], side[B], side[GROUPS]
    wide, high = np.ceil(side[COLUMNS] / TILE), np.ceil(side[ROWS] / TILE)
    halo = halos(side[WINDOWS:], side[ROWS], int(min(high, side[PIECES])))
    across, down = readers(a, b, groups, wide, high, side[PIECES], halo)
    pieces = max(side[PIECES], groups * down)  # pieces, of which each has rows and columns of one group
    a_own, b_own = a * across * read(halo, down) / pieces, b * down / pieces
    a_passes, b_passes = passes(a_own, b_own, side[SRAM])
    a_again, b_again = passes(a / groups, b / groups, side[SPACE])
    near = (
        a * across * a_passes * _cut(side, halo, down, a_own, side[SRAM]) + b * side[COMES] * down * b_passes + side[C]
    )
    if side[SPILLED] > 0.0:
        a_again *= _cut(side, halo, 1.0, a / groups, side[SPACE])
    return near, a * (a_again - 1.0) + b * (b_again - 1.0)


@kernel
def tile_space(side):
    """A product as `engine.kernels.search.tilings.search` asks for it: its arguments up to the aim.

    Every core has a part: groups go to cores first, then columns and rows of each. Inner memories are the cores' own,
    the outer one is everything on the chip; each may hold all three operands, the outer one any of them.
    """
    high, wide, deep = (
        np.ceil(side[ROWS] / TILE),
        np.ceil(side[COLUMNS] / TILE),
        np.ceil(side[DEPTH] / side[DEEP]),
    )
    groups = side[GROUPS]
    tiles, resident, room = np.empty(3), np.empty((2, 3)), np.empty((2, 1))
    tiles[0], tiles[1], tiles[2] = high, wide, deep
    halo = halos(side[WINDOWS:], side[ROWS], int(high))
    partial = PARTIAL * side[ROWS] * side[COLUMNS]
    volume, base, work = np.empty((2, 4)), np.empty(3), np.empty(4)
    for level in range(2):
        resident[level, 0], resident[level, 1] = side[A] / (groups * high * deep), side[B] / (groups * wide * deep)
        resident[level, 2] = partial / (high * wide)
        volume[level, 0], volume[level, 1] = side[A], side[B] if level else side[B] * side[COMES]
        volume[level, 2], volume[level, 3] = side[C], groups * partial
        room[level, 0] = side[SPACE] if level else side[SRAM]
    where, copies = np.zeros((2, 3), np.int64), np.empty(2)
    copies[0] = copies[1] = 2.0
    cuts = np.ones((max(1, int(min(wide, np.ceil(side[PIECES] / groups)))), 2))
    n = 0
    for across in range(1, cuts.shape[0] + 1):
        down = np.ceil(side[PIECES] / (groups * across))
        if down <= high:
            cuts[n, 0], cuts[n, 1] = across, down
            n += 1
    base[0], base[1], base[2] = side[SPILLED], side[WEIGHTS], 0.0
    work[0], work[1], work[2], work[3] = side[WORK_S], side[FEED] * side[SRAM_S], side[SRAM_S], side[FIXED_J]
    joule, second, masks = np.empty(8), np.empty(8), np.empty(8, np.int64)
    for i in range(8):
        joule[i], second[i], masks[i] = side[FAR_J if i > 3 else NEAR_J], side[FAR_S if i > 3 else CACHE_S], i
    return tiles, halo, resident, where, room, copies, masks, cuts[: max(n, 1)], volume, base, work, joule, second


@kernel
def fastest_traffic(side):
    """Bytes that pass the cache, and those that pass LPDDR, of the tiling that takes least time. [B], [B]"""
    tiles, halo, resident, where, room, copies, masks, cuts, volume, base, work, joule, second = tile_space(side)
    best = np.zeros((1, len(MAPPING)))
    tiling, _ = search(
        tiles, halo, resident, where, room, copies, masks, cuts, volume, base, work, joule, second, 0, best, 0
    )
    if tiling == 0:  # a core has no room for a tile: the network is said not to fit
        near, again = by_size(side)
        return near, base[0] + base[1] + base[2] + again
    return best[0, 3], best[0, 2]
