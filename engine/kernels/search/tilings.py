"""Every tiling of a product of matrices under two memories: counted, or searched with proof.

A product of M x K by K x N, counted in tiles of the multiplier array, is cut into blocks for an outer memory, each of
those over cores in rows and columns, and a core's part into blocks for an inner memory. Three loops go over the blocks
of each level, in any order. An operand passes into a memory again whenever its block changes; results that are not
complete when theirs changes go out and come back. Blocks of a dimension are as even as they come, the last one is
smaller; what changes is held twice, so that the next block arrives meanwhile. Where rows of A are windows on an image,
blocks of rows read the edges between them twice: the finer the cut, the more of A (``halo``).

The search loses nothing, for two reasons. Bytes never fall when a dimension is cut further, so of one dimension only
the fewest blocks that fit are worth trying. And of the orders of three loops only the innermost one that has several
blocks matters: the one operand it does not index stays, the other two change at each of its steps.
"""

import numpy as np

from engine.kernels.jit import kernel

M, N, K = range(3)
_FREE = np.array([N, M, K])  # the dimension that does not index operand A, B and C

FLOWS = ("a_in", "b_in", "c_in", "c_out", "far_a", "far_b", "far_c_in", "far_c_out")
"""Bytes into (of results: and out of) the inner memories, then the same between the outer one and what is behind."""
AIMS = ("latency", "energy", "traffic")
MAPPING = (
    "seconds", "joules", "far_bytes", "near_bytes", "across", "down", "held", "outer_m", "outer_n", "outer_k",
    "outer_last", "inner_m", "inner_n", "inner_k", "inner_last",
)  # fmt: skip
"""A row of what is found: figures, cores side by side in columns and rows, operands the outer memory holds (bits), and
of each level the number of blocks along each dimension and the dimension of its innermost loop."""
ROW, FLOW = len(MAPPING), len(FLOWS)


@kernel
def fills(o, outer, last_outer, inner, last_inner):
    """How often operand o passes into the inner and into the outer memory, in whole volumes. [-], [-]

    ``outer``, ``inner`` (3,): blocks along M, N, K; ``last_*``: the dimension of the innermost loop of several blocks,
    -1 where no dimension has several.
    """
    x = _FREE[o]
    far = 1.0 if x == last_outer else outer[x]
    near = 1.0 if x == last_inner else inner[x]
    changes = inner[(x + 1) % 3] > 1.0 or inner[(x + 2) % 3] > 1.0  # by inner loops that index it
    return near * (outer[x] if changes else far), far


@kernel
def _block(tiles, blocks):
    """Tiles of a block along each dimension, of ``tiles`` cut into so many blocks."""
    block = np.empty(3)
    for x in range(3):
        block[x] = np.ceil(tiles[x] / blocks[x])
    return block


@kernel
def _next(size, blocks):
    """The next larger number of blocks of ``size`` tiles that makes blocks smaller; 0 after the last. [-]"""
    block = np.ceil(size / blocks)
    return np.ceil(size / (block - 1.0)) if block > 1.0 else 0.0


@kernel
def _advance(sizes, blocks):
    """Steps to the next numbers of blocks of three dimensions, the last dimension first; False after the last ones."""
    for x in range(2, -1, -1):
        blocks[x] = _next(sizes[x], blocks[x])
        if blocks[x] > 0.0:
            return True
        blocks[x] = 1.0
    return False


@kernel
def read(halo, blocks):
    """How much of A so many blocks of rows read together, over what one of all of them reads. [-]"""
    return halo[int(min(blocks, halo.shape[0] - 1.0))]


@kernel
def fits(block, blocks, overlap, open_k, tile_bytes, where, room, copies):
    """Whether blocks of a level fit its memories; ``overlap``: see `read`, ``open_k``: results come back to add to."""
    for i in range(room.shape[0]):
        need = 0.0
        for o in range(3):
            if where[o] != i or (o == 2 and not open_k):
                continue
            size, changes = tile_bytes[o] * (overlap if o == 0 else 1.0), False
            for y in range(3):
                if y != _FREE[o]:
                    size *= block[y]
                    changes = changes or blocks[y] > 1.0
            need += size * (copies if changes and o < 2 else 1.0)
        if need > room[i]:
            return False
    return True


@kernel
def fewest_k(part, blocks, before, overlap, tile_bytes, where, room, copies):
    """The fewest blocks along K that fit beside those along M and N; sets ``blocks[2]``, 0 where none does.

    ``before`` is the number of blocks along each dimension outside this level; ``overlap``: see `read`.
    """
    blocks[2] = 1.0
    while blocks[2] > 0.0:
        counts = blocks * before
        if fits(_block(part, blocks), counts, overlap, counts[2] > 1.0, tile_bytes, where, room, copies):
            return
        blocks[2] = _next(part[2], blocks[2])


@kernel
def weigh(cut, mask, tiles, where, volume, base, work, joule, second, out):
    """What a pass of each operand into the inner (3) and outer memory (3) adds to each figure, and what all start from.

    Fills ``out`` (6, 7): seconds near, seconds far, joules, bytes far, bytes near; the last row holds ``work``.
    """
    for row in range(out.shape[0]):
        for i in range(out.shape[1]):
            out[row, i] = work[i] if row == 5 and i < 4 else 0.0
    out[2, 6] = work[3]
    for o in range(3):
        for way in range(2 if o == 2 else 1):  # results go out once more than they come in
            flow, far = o + way, 4 + o + way
            size = volume[0, 3] if o == 2 else volume[0, o] * cut[o]
            skip = size if o == 2 else 0.0  # of the first pass, which goes out complete and never comes in
            offset = (volume[0, 2] if way == 1 else 0.0) - skip
            if where[0, o] < 0:  # nothing keeps it near: every tile asks for it
                offset, size = offset + size * tiles[_FREE[o]], 0.0
            for row, rate in ((0, second[flow]), (2, joule[flow]), (4, 1.0)):
                out[row, o] += size * rate
                out[row, 6] += offset * rate
            again = volume[1, 3 if o == 2 else o]
            start = base[o] if way == 1 or o < 2 else 0.0
            for row, rate in ((1, second[far]), (2, joule[far]), (3, 1.0)):
                if mask >> o & 1 == 0:  # it comes from behind whenever it passes near
                    first = volume[0, 2] if way == 1 else 0.0 if o == 2 else volume[0, o]
                    out[row, o] += size * rate
                    out[row, 6] += (start + offset - first) * rate
                else:
                    out[row, 3 + o] += again * rate
                    out[row, 6] += (start - again) * rate


@kernel
def figures(weights, halo, down, outer, last_outer, inner, last_inner, out):
    """Seconds, joules, bytes far and near of one tiling, rows cut ``down`` ways: the first four of `MAPPING`."""
    a, far_a = fills(0, outer, last_outer, inner, last_inner)
    a, far_a = a * read(halo, outer[0] * down * inner[0]), far_a * read(halo, outer[0])
    b, far_b = fills(1, outer, last_outer, inner, last_inner)
    c, far_c = fills(2, outer, last_outer, inner, last_inner)
    w = weights
    near_s = w[0, 0] * a + w[0, 1] * b + w[0, 2] * c + w[0, 6]
    near = w[4, 0] * a + w[4, 1] * b + w[4, 2] * c + w[4, 6]
    far_s = w[1, 0] * a + w[1, 1] * b + w[1, 2] * c + w[1, 3] * far_a + w[1, 4] * far_b + w[1, 5] * far_c + w[1, 6]
    far = w[3, 0] * a + w[3, 1] * b + w[3, 2] * c + w[3, 3] * far_a + w[3, 4] * far_b + w[3, 5] * far_c + w[3, 6]
    joules = w[2, 0] * a + w[2, 1] * b + w[2, 2] * c + w[2, 3] * far_a + w[2, 4] * far_b + w[2, 5] * far_c + w[2, 6]
    out[0], out[1] = max(w[5, 0], near_s, far_s, w[5, 1] + w[5, 2] * near), joules
    out[2], out[3] = far, near


@kernel
def _identify(cut, mask, outer, last_outer, inner, last_inner, out):
    """Writes down which tiling it is, behind its figures."""
    out[4], out[5], out[6] = cut[0], cut[1], mask
    for x in range(3):
        out[7 + x], out[11 + x] = outer[x], inner[x]
    out[10], out[14] = last_outer, last_inner


@kernel
def _better(row, best, aim):
    """Whether a tiling is better: by the aim's figure, then by the others in turn."""
    for i in range(4):
        at = (aim + i) % 4
        if row[at] != best[at]:
            return row[at] < best[at]
    return False


@kernel
def _in_vain(bound, rows, seeds, aim):
    """Whether nothing at or above the figures ``bound`` is worth a look: no better than the best, or than a seed."""
    if rows.shape[0] == 1:
        return not _better(bound, rows[0], aim)
    beaten = False
    for i in range(seeds):
        beaten = beaten or (rows[i, 0] <= bound[0] and rows[i, 1] <= bound[1] and rows[i, 2] <= bound[2])
    return beaten


@kernel
def _varies(blocks, x):
    """Whether x may be the innermost loop of several blocks: -1 stands for none of them."""
    if x < 0:
        return blocks[0] * blocks[1] * blocks[2] == 1.0
    return blocks[x] > 1.0


@kernel
def _try_last(weights, halo, outer, last_outer, inner, cut, mask, aim, rows, at):
    """Tries each operand as the one that stays near; returns rows written and tilings tried."""
    row, trials = np.empty(4), 0
    for last in range(-1, 3):
        if not _varies(inner, last):
            continue
        figures(weights, halo, cut[1], outer, last_outer, inner, last, row)
        trials += 1
        here = at if rows.shape[0] > 1 else 0
        if here < rows.shape[0] and (at == here or _better(row, rows[0], aim)):
            for i in range(4):
                rows[here, i] = row[i]
            _identify(cut, mask, outer, last_outer, inner, last, rows[here])
            at = here + 1
    return at, trials


@kernel
def _inside(tiles, halo, tile_bytes, where, room, copies, outer, last_outer, cut, mask, weights, aim, rows, at):
    """The inner blocks worth trying under given outer ones; returns rows written and tilings tried."""
    part, inner, trials = _part(tiles, outer, cut), np.ones(3), 0
    while inner[0] > 0.0:
        inner[1], overlap = 1.0, read(halo, outer[0] * cut[1] * inner[0])
        while inner[1] > 0.0:
            fewest_k(part, inner, outer, overlap, tile_bytes, where, room, copies)
            if inner[2] > 0.0:
                at, new = _try_last(weights, halo, outer, last_outer, inner, cut, mask, aim, rows, at)
                trials += new
            if inner[2] == 1.0:  # K is whole: cutting N further moves no byte less
                break
            inner[1] = _next(part[1], inner[1])
        if inner[1] == 1.0 and inner[2] == 1.0:  # K and N are whole: nor does cutting M further
            break
        inner[0] = _next(part[0], inner[0])
    return at, trials


@kernel
def _part(tiles, outer, cut):
    """A core's part of an outer block. [tiles]"""
    part = _block(tiles, outer)
    part[0], part[1] = np.ceil(part[0] / cut[1]), np.ceil(part[1] / cut[0])
    return part


@kernel
def _places(where, mask):
    """Which memory of the outer level holds each operand under a mask. [-]"""
    places = np.empty(3, np.int64)
    for o in range(3):
        places[o] = where[1, o] if mask >> o & 1 else -1
    return places


@kernel
def _outer_fits(tiles, halo, outer, tile_bytes, places, room, copies):
    """Whether the outer memories hold such blocks."""
    block = _block(tiles, outer)
    return fits(block, outer, read(halo, outer[0]), outer[2] > 1.0, tile_bytes[1], places, room[1], copies[1])


@kernel
def search(tiles, halo, tile_bytes, where, room, copies, masks, cuts, volume, base, work, joule, second, aim, rows, at):
    """The best tiling, or with several ``rows`` all that no other one beats for sure; returns rows and tilings tried.

    Parameters
    ----------
    tiles : (3,) tiles along M, N, K; halo : what so many blocks of rows (from 0 on) read of A together, over what one
        of all of them reads: 1.0 for one, never falling, always 1.0 where rows of A have nothing in common. [-]
    tile_bytes : (2, 3) bytes that a tile of A, B and of results still to be added to takes in either memory.
    where : (2, 3) which of a level's memories holds each operand, -1: none; room : (2, memories) their bytes.
    copies : (2,) how often a level holds a block that another one follows: 2.0 where that one arrives meanwhile.
    masks : operands the outer level may hold, as bits; cuts : (n, 2) columns and rows of cores to try.
    volume : (2, 4) bytes of one pass of A, B, C and of C still to be added to, into the inner and the outer memory.
    base : (3,) bytes of A, B, C that pass behind the outer memory whatever the tiling.
    work : (4,) seconds of the arithmetic; seconds of what the inner memories feed to it, and of a byte that enters or
        leaves them; joules that no tiling changes.
    joule, second : (8,) of a byte of each of `FLOWS`; flows of a level take turns, levels work at once.
    aim : index of `AIMS`; rows : (n, len(MAPPING)), where one row holds the best and more hold candidates of a front;
        at : rows already there, which others need not be worse than.
    """
    unit, row, seeds, trials = np.ones(3), np.empty(4), at, 0
    weights, near = np.empty((cuts.shape[0], 6, 7)), where[0]
    for mask in masks[::-1]:  # the last one holds most
        places, outer, alive = _places(where, mask), np.ones(3), True
        for c in range(cuts.shape[0]):
            weigh(cuts[c], mask, tiles, where, volume, base, work, joule, second, weights[c])
        while alive:
            outer_fits = _outer_fits(tiles, halo, outer, tile_bytes, places, room, copies)
            for turn in range(4 * cuts.shape[0] if outer_fits else 0):
                last, c = turn // cuts.shape[0] - 1, turn % cuts.shape[0]
                if not _varies(outer, last):
                    continue
                if at > 0:  # inside, nothing moves less than once
                    figures(weights[c], halo, cuts[c, 1], outer, last, unit, -1, row)
                    trials += 1
                    if _in_vain(row, rows, seeds, aim):
                        continue
                w, cut = weights[c], cuts[c]
                at, new = _inside(
                    tiles, halo, tile_bytes[0], near, room[0], copies[0], outer, last, cut, mask, w, aim, rows, at
                )
                trials += new
            if outer_fits and outer[0] * outer[1] * outer[2] == 1.0 and mask == masks[-1]:
                return at, trials  # all in one block, and all of it kept: no other outer level moves less
            alive = _advance(tiles, outer)
    return at, trials


@kernel
def count(tiles, halo, tile_bytes, where, room, copies, masks, cuts, limit):
    """Legal tilings, every order of loops by itself, without trying them; stops beyond ``limit``. [-]"""
    near, result, inner = where[0], 0.0, np.ones(3)
    outer, alive = np.ones(3), True
    while alive:
        ways = 0.0
        for mask in masks:
            ways += _outer_fits(tiles, halo, outer, tile_bytes, _places(where, mask), room, copies)
        for c in range(cuts.shape[0] if ways > 0.0 else 0):
            part = _part(tiles, outer, cuts[c])
            inner[:] = 1.0
            inside = True
            while inside:
                box, counts, again = _block(part, inner), inner * outer, read(halo, outer[0] * cuts[c, 1] * inner[0])
                if fits(box, counts, again, counts[2] > 1.0, tile_bytes[0], near, room[0], copies[0]):
                    result += 36.0 * ways
                inside = _advance(part, inner)
            if result > limit:
                return result
        alive = _advance(tiles, outer)
    return result
