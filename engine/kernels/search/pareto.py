"""Which of many points no other point beats: an exact filter for any number of points and one to several objectives.

Points are columns: `values[k, i]` is objective k of point i, smaller is better. A point is dominated when another is at
most as large in every objective and smaller in one; equal points do not dominate each other, so duplicates are kept.
"""

import numpy as np

from engine.kernels.jit import called_by_both, kernel

_BLOCK = 256
_KILLERS = 24  # points that a pass compares with
_AT_ONCE = 3  # of them, between two looks at whether anything of a block is left
_SAMPLE = 256
_GOLDEN = (5**0.5 - 1) / 2
_SMALL = 2048  # survivors that are sorted without further passes
_PASSES = 4


@kernel
def _mark(values, killer, lo, keep, room):
    """Clears ``keep`` at the points from ``lo`` on that the killer dominates; lanes are as wide as the values."""
    n, last = keep.shape[0], values.shape[0] - 1
    if last <= 2:  # of two objectives the second one is the third, too
        a, b, c = values[0, lo : lo + n], values[min(1, last), lo : lo + n], values[last, lo : lo + n]
        x, y, z = killer[0], killer[min(1, last)], killer[last]
        for i in range(n):
            beaten = (a[i] >= x) & (b[i] >= y) & (c[i] >= z) & ((a[i] > x) | (b[i] > y) | (c[i] > z))
            keep[i] &= 0 if beaten else 1
        return
    no_less, worse = room[0], room[1]
    no_less[:], worse[:] = 1, 0
    for r in range(last + 1):
        row, bound = values[r, lo : lo + n], killer[r]
        for i in range(n):
            no_less[i] &= row[i] >= bound
            worse[i] |= row[i] > bound
    for i in range(n):
        keep[i] &= 1 - (no_less[i] & worse[i])


@called_by_both
def drop_dominated(values, alive, killers, out):
    """Indices of the points that are ``alive`` and that no column of ``killers`` dominates; returns how many.

    ``out`` takes the indices, ascending. Killers meet a block of points until none of it is left. A point with a NaN is
    never dominated.
    """
    n, count = values.shape[1], killers.shape[1]
    keep, room = np.empty(_BLOCK, dtype=np.int64), np.empty((2, _BLOCK), dtype=np.int64)
    result = 0
    for lo in range(0, n, _BLOCK):
        width = min(_BLOCK, n - lo)
        for i in range(width):
            keep[i] = alive[lo + i]
        for j in range(count):
            if j % _AT_ONCE == 0 and keep[:width].sum() == 0:
                break
            _mark(values, killers[:, j], lo, keep[:width], room)
        for i in range(width):
            if keep[i]:
                out[result] = lo + i
                result += 1
    return result


@kernel
def _stairs(ranks, z, equal, front):
    """Front of points in lexicographic order of three objectives, of which ``ranks`` are of the second.

    ``equal`` says which is as the one before it. A Fenwick tree has the least third one up to each rank so far.
    """
    lowest = np.full(ranks.shape[0] + 1, np.nan)
    for i in range(ranks.shape[0]):
        if equal[i]:
            front[i] = front[i - 1]
            continue
        at, beaten = ranks[i] + 1, False
        while at > 0 and not beaten:
            beaten = lowest[at] <= z[i]
            at &= at - 1
        front[i] = not beaten
        at = ranks[i] + 1
        while at < lowest.shape[0] and not beaten:
            if not lowest[at] <= z[i]:
                lowest[at] = z[i]
            at += at & -at


@kernel
def _against_front(values, equal, front):
    """Front of points in lexicographic order, any number of objectives: each against the front so far, in blocks."""
    k, n = values.shape
    front_values = np.empty((k, n))
    count = 0
    for i in range(n):
        if equal[i]:
            front[i] = front[i - 1]
            continue
        beaten = False
        for lo in range(0, count, _BLOCK):
            hi = min(lo + _BLOCK, count)
            hits = 0
            for q in range(lo, hi):  # an earlier point differs, so no worse everywhere is enough
                below = True
                for r in range(1, k):
                    below &= front_values[r, q] <= values[r, i]
                hits += below
            if hits > 0:
                beaten = True
                break
        front[i] = not beaten
        if not beaten:
            for r in range(k):
                front_values[r, count] = values[r, i]
            count += 1


def _sorted_front(values: np.ndarray) -> np.ndarray:
    """Front mask of a few points by sorting them."""
    order = np.lexsort(values[::-1])
    values, mask = np.ascontiguousarray(values[:, order]), np.zeros(values.shape[1], dtype=bool)
    equal = np.append(False, (values[:, 1:] == values[:, :-1]).all(axis=0))
    if len(values) <= 3:
        second, third = [*values[1:], *np.zeros((3 - len(values), len(order)))]
        _stairs(np.unique(second, return_inverse=True)[1], third, equal, mask)
    else:
        _against_front(values, equal, mask)
    out = np.empty_like(mask)
    out[order] = mask
    return out


def _killers(values: np.ndarray, picks: np.ndarray) -> np.ndarray:
    """Points of a sample that dominate the most of it, each counted after those before it."""
    points = np.ascontiguousarray(values[:, picks])
    points = np.ascontiguousarray(points[:, ~np.isnan(points).any(axis=0)])
    if not points.shape[1]:
        return points
    sample = points[:, _sorted_front(points)]
    over: np.ndarray = np.asarray((points[:, None, :] >= sample[:, :, None]).all(axis=0))
    remaining = np.ones(points.shape[1], dtype=bool)
    cover: list[int] = []
    for _ in range(min(_KILLERS, sample.shape[1])):
        gains = (over & remaining).sum(axis=1)
        best = int(gains.argmax())
        if gains[best] <= 1:
            break
        cover.append(best)
        remaining &= ~over[best]
    return np.ascontiguousarray(sample[:, cover])


def front_mask(values: np.ndarray) -> np.ndarray:
    """Mask of the points that no other point dominates, duplicates kept.

    Parameters
    ----------
    values : (objectives, n) float64, C-contiguous, smaller is better; points with a NaN take no part.

    A few points that dominate much of a sample clear most others in each pass over blocks that stay in cache; the
    rest is sorted and swept by a staircase (up to three objectives) or against the front so far. Exact.
    """
    values = np.ascontiguousarray(values, dtype=np.float64)
    count = values.shape[1]
    mask, at = np.zeros(count, dtype=bool), np.arange(count)  # and the points left
    for _ in range(_PASSES):
        if len(at) <= _SMALL:
            break
        points = np.ascontiguousarray(values[:, at]) if len(at) < count else values
        spread = (np.arange(16 * _SAMPLE) * _GOLDEN % 1.0 * len(at)).astype(np.int64)  # in step with no grid
        near = np.argpartition(points[:, spread].sum(axis=0), _SAMPLE)[:_SAMPLE]  # where the sum is lowest
        out = np.empty(len(at), dtype=np.int64)
        killers = _killers(points, np.concatenate([spread[:_SAMPLE], spread[near]]))
        at = at[out[: drop_dominated(points, np.ones(len(at), dtype=bool), killers, out)]]
    at = at[~np.isnan(values[:, at]).any(axis=0)]
    mask[at] = _sorted_front(values[:, at])
    return mask


@kernel
def sift(values, refusal, unfit, fits, upper, limit_row, limit, signs, killers, top_limit, counts, misses, at, top):
    """Thins designs to those that may be on the front or among the best; returns how many of each.

    ``values`` (rows, n) begins with the objectives, which take their ``signs`` in place: smaller is better. ``refusal``
    and ``unfit`` (n,) say what becomes of each, ``fits`` whether the unfit drop out. Limit j keeps a design where
    ``values[limit_row[j]]`` is at most (``upper[j]``) or at least ``limit[j]``.

    Adds to ``counts`` (refused, unfit, kept) and ``misses`` (a limit each); fills ``at`` with indices that no column of
    ``killers`` dominates and ``top`` with those whose first objective is at most ``top_limit``, both ascending.
    """
    n = refusal.shape[0]
    alive = np.empty(n, dtype=np.bool_)
    for i in range(n):
        runs = not refusal[i]
        counts[0] += not runs
        counts[1] += runs and unfit[i]
        alive[i] = runs and not (fits and unfit[i])
    passes = alive.copy()
    for j in range(limit.shape[0]):
        row, bound, over = values[limit_row[j]], limit[j], 0
        for i in range(n):
            meets = row[i] <= bound if upper[j] else row[i] >= bound
            over += alive[i] and not meets
            passes[i] = passes[i] and meets
        misses[j] += over
    for i in range(n):
        counts[2] += passes[i]
    for k in range(signs.shape[0]):
        row = values[k]
        if signs[k] < 0:
            for i in range(n):
                row[i] = -row[i]
        for i in range(n):
            passes[i] = passes[i] and row[i] == row[i]
    best, first = 0, values[0]
    for i in range(n):
        if passes[i] and first[i] <= top_limit:
            top[best] = i
            best += 1
    return drop_dominated(values[: signs.shape[0]], passes, killers, at), best
