"""Which of many points no other point beats: an exact filter for any number of points and one to several objectives.

Points are columns: `values[k, i]` is objective k of point i, smaller is better. A point is dominated when another is at
most as large in every objective and smaller in one; equal points do not dominate each other, so duplicates are kept.
"""

import numpy as np

from engine.kernels.jit import called_by_both, kernel

_BLOCK = 256
_KILLERS = 24  # points that a pass compares with
_AT_ONCE = 3  # of them, before what is left of a block is counted
_SPARSE = 12  # points of a block that are met one by one
_SAMPLE = 512
_GOLDEN = (5**0.5 - 1) / 2
_SMALL = 2048  # survivors that are sorted without further passes


@kernel
def _mark(values, killer, lo, n, keep):
    """Clears ``keep`` (lanes as wide as the values) at the ``n`` points from ``lo`` that the killer dominates."""
    k = values.shape[0]
    if k == 3:
        a, b, c = values[0, lo : lo + n], values[1, lo : lo + n], values[2, lo : lo + n]
        x, y, z = killer[0], killer[1], killer[2]
        for i in range(n):
            beaten = (a[i] >= x) & (b[i] >= y) & (c[i] >= z) & ((a[i] > x) | (b[i] > y) | (c[i] > z))
            keep[i] &= 0 if beaten else 1
    elif k == 2:
        a, b = values[0, lo : lo + n], values[1, lo : lo + n]
        x, y = killer[0], killer[1]
        for i in range(n):
            beaten = (a[i] >= x) & (b[i] >= y) & ((a[i] > x) | (b[i] > y))
            keep[i] &= 0 if beaten else 1
    elif k == 4:
        a, b, c, d = values[0, lo : lo + n], values[1, lo : lo + n], values[2, lo : lo + n], values[3, lo : lo + n]
        x, y, z, w = killer[0], killer[1], killer[2], killer[3]
        for i in range(n):
            worse = (a[i] > x) | (b[i] > y) | (c[i] > z) | (d[i] > w)
            beaten = (a[i] >= x) & (b[i] >= y) & (c[i] >= z) & (d[i] >= w) & worse
            keep[i] &= 0 if beaten else 1
    else:
        for i in range(n):
            if _beats(killer, values, lo + i):
                keep[i] = 0


@kernel
def _beats(killer, values, i):
    """Whether a point dominates point i."""
    worse = False
    for r in range(values.shape[0]):
        if not values[r, i] >= killer[r]:
            return False
        worse = worse or values[r, i] > killer[r]
    return worse


@called_by_both
def drop_dominated(values, alive, killers, out):
    """Indices of the points that are ``alive`` and that no column of ``killers`` dominates; returns how many.

    ``out`` takes the indices, ascending. Killers meet whole blocks until few points of one are left, the others then
    meet those. A point with a NaN is never dominated.
    """
    n, count = values.shape[1], killers.shape[1]
    keep = np.empty(_BLOCK, dtype=np.int64)
    result = 0
    for lo in range(0, n, _BLOCK):
        width = min(_BLOCK, n - lo)
        here = alive[lo : lo + width]
        for i in range(width):
            keep[i] = 1 if here[i] else 0
        start = 0
        survivors = width
        while start < count and survivors > _SPARSE:
            for j in range(start, min(start + _AT_ONCE, count)):
                _mark(values, killers[:, j], lo, width, keep)
            start = min(start + _AT_ONCE, count)
            survivors = 0
            for i in range(width):
                survivors += keep[i]
        if survivors == 0:
            continue
        for i in range(width):
            if keep[i] == 0:
                continue
            beaten = False
            for j in range(start, count):
                if _beats(killers[:, j], values, lo + i):
                    beaten = True
                    break
            if not beaten:
                out[result] = lo + i
                result += 1
    return result


@kernel
def _stairs(x, y, z, front):
    """Front of points in lexicographic order of three objectives; a staircase of the best (y, z) so far decides."""
    n = x.shape[0]
    ys = np.empty(n + 1)
    zs = np.empty(n + 1)
    steps = 0
    for i in range(n):
        if i > 0 and x[i] == x[i - 1] and y[i] == y[i - 1] and z[i] == z[i - 1]:
            front[i] = front[i - 1]
            continue
        lo, hi = 0, steps  # first step whose y is larger
        while lo < hi:
            mid = (lo + hi) // 2
            if ys[mid] <= y[i]:
                lo = mid + 1
            else:
                hi = mid
        if lo > 0 and zs[lo - 1] <= z[i]:
            front[i] = False
            continue
        front[i] = True
        first = lo - 1 if lo > 0 and ys[lo - 1] == y[i] else lo
        last = lo
        while last < steps and zs[last] >= z[i]:
            last += 1
        shift = 1 - (last - first)
        if shift > 0:
            for q in range(steps, last, -1):
                ys[q] = ys[q - 1]
                zs[q] = zs[q - 1]
        elif shift < 0:
            for q in range(last, steps):
                ys[q + shift] = ys[q]
                zs[q + shift] = zs[q]
        steps += shift
        ys[first] = y[i]
        zs[first] = z[i]


@kernel
def _against_front(values, front):
    """Front of points in lexicographic order, any number of objectives: each against the front so far, in blocks."""
    k, n = values.shape
    front_values = np.empty((k, n))
    count = 0
    for i in range(n):
        equal = i > 0
        for r in range(k):
            equal = equal and values[r, i] == values[r, i - 1]
        if equal:
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
    mask = np.zeros(values.shape[1], dtype=bool)
    if values.shape[0] <= 3:
        rows = [np.ascontiguousarray(row[order]) for row in values]
        while len(rows) < 3:
            rows.append(np.zeros(len(order)))
        _stairs(rows[0], rows[1], rows[2], mask)
    else:
        _against_front(np.ascontiguousarray(values[:, order]), mask)
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

    A few points that dominate much of a sample clear most others in one pass over blocks that stay in cache; the rest
    is sorted and swept by a staircase (up to three objectives) or against the front so far. Exact.
    """
    values = np.ascontiguousarray(values, dtype=np.float64)
    n = values.shape[1]
    mask = np.zeros(n, dtype=bool)
    at: np.ndarray | None = None  # points left, all where None
    for turn in range(4):
        count = n if at is None else len(at)
        if count <= _SMALL:
            break
        points = values if at is None else np.ascontiguousarray(values[:, at])
        picks = (np.arange(_SAMPLE) * _GOLDEN % 1.0 * count).astype(np.int64)  # spread, in step with no grid
        if turn:  # what is left lies near the front: half of the sample from where the sum is least
            low = np.argpartition(points.sum(axis=0), _SAMPLE // 2)[: _SAMPLE // 2]
            picks = np.concatenate([picks[::2], low])
        out = np.empty(count, dtype=np.int64)
        survivors = drop_dominated(points, np.ones(count, dtype=bool), _killers(points, picks), out)
        at = out[:survivors] if at is None else at[out[:survivors]]
        at = at[~np.isnan(values[:, at]).any(axis=0)]
        if len(at) > 0.7 * count:
            break
    if at is None:
        at = np.flatnonzero(~np.isnan(values).any(axis=0))
    if len(at):
        mask[at] = _sorted_front(np.ascontiguousarray(values[:, at]))
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
