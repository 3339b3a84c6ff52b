"""Which of many points no other point beats: an exact filter for any number of points and one to several objectives.

Points are columns: `values[k, i]` is objective k of point i, smaller is better. A point is dominated when another is at
most as large in every objective and smaller in one; equal points do not dominate each other, so duplicates are kept.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.jit import kernel

__all__ = ["drop_dominated", "front_mask"]

_BLOCK = 256
_KILLERS = 12  # points that a pass compares everything with
_SAMPLE = 512
_SMALL = 2048  # survivors that are sorted without further passes


@kernel
def _mark(values, killer, lo, hi, keep):
    """Clears ``keep`` where the killer dominates; rows of three at once, since most searches have two or three."""
    k = values.shape[0]
    if k == 3:
        a, b, c = values[0, lo:hi], values[1, lo:hi], values[2, lo:hi]
        x, y, z = killer[0], killer[1], killer[2]
        for i in range(hi - lo):
            keep[i] &= not (((a[i] >= x) & (b[i] >= y) & (c[i] >= z)) & ((a[i] > x) | (b[i] > y) | (c[i] > z)))
    elif k == 2:
        a, b = values[0, lo:hi], values[1, lo:hi]
        x, y = killer[0], killer[1]
        for i in range(hi - lo):
            keep[i] &= not (((a[i] >= x) & (b[i] >= y)) & ((a[i] > x) | (b[i] > y)))
    else:
        for i in range(hi - lo):
            no_better, worse = True, False
            for r in range(k):
                no_better &= values[r, lo + i] >= killer[r]
                worse |= values[r, lo + i] > killer[r]
            keep[i] &= not (no_better & worse)


@kernel
def drop_dominated(values, alive, killers, out):
    """Indices of the points that are ``alive`` and that no column of ``killers`` dominates; returns how many.

    ``out`` takes the indices, ascending. NaN in an objective is never dominated: leave such points out with ``alive``.
    """
    n = values.shape[1]
    keep = np.empty(_BLOCK, dtype=np.bool_)
    found = 0
    for lo in range(0, n, _BLOCK):
        hi = min(lo + _BLOCK, n)
        for i in range(hi - lo):
            keep[i] = alive[lo + i]
        for j in range(killers.shape[1]):
            _mark(values, killers[:, j], lo, hi, keep)
        for i in range(hi - lo):
            if keep[i]:
                out[found] = lo + i
                found += 1
    return found


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
    kept = np.empty((k, n))
    count = 0
    for i in range(n):
        same = i > 0
        for r in range(k):
            same = same and values[r, i] == values[r, i - 1]
        if same:
            front[i] = front[i - 1]
            continue
        beaten = False
        for lo in range(0, count, _BLOCK):
            hi = min(lo + _BLOCK, count)
            hits = 0
            for q in range(lo, hi):  # an earlier point differs, so no worse everywhere is enough
                below = True
                for r in range(1, k):
                    below &= kept[r, q] <= values[r, i]
                hits += below
            if hits > 0:
                beaten = True
                break
        front[i] = not beaten
        if not beaten:
            for r in range(k):
                kept[r, count] = values[r, i]
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
    sample = np.ascontiguousarray(values[:, picks])
    sample = sample[:, _sorted_front(sample)]
    seen = values[:, picks]
    left = np.ones(seen.shape[1], dtype=bool)
    chosen = []
    over = np.all(seen[:, None, :] >= sample[:, :, None], axis=0)
    for _ in range(min(_KILLERS, sample.shape[1])):
        gains = (over & left).sum(axis=1)
        best = int(gains.argmax())
        if gains[best] <= 1:
            break
        chosen.append(best)
        left &= ~over[best]
    return np.ascontiguousarray(sample[:, chosen])


def front_mask(values: np.ndarray, alive: np.ndarray | None = None) -> np.ndarray:
    """Mask of the points that no other point dominates, duplicates kept.

    Parameters
    ----------
    values : (objectives, n) float64, C-contiguous, smaller is better.
    alive : points that take part; those with a NaN never do.

    A few points that dominate much of a sample clear most others in one pass over blocks that stay in cache; the rest
    is sorted and swept by a staircase (up to three objectives) or against the front so far. Exact.
    """
    values = np.ascontiguousarray(values, dtype=np.float64)
    k, n = values.shape
    mask = np.zeros(n, dtype=bool)
    alive = np.ones(n, dtype=bool) if alive is None else alive
    nan = np.isnan(values.sum(axis=0)) if n else mask
    if nan.any():
        alive = alive & ~np.isnan(values).any(axis=0)
    at = np.empty(n, dtype=np.int64)
    none = np.empty((k, 0))
    at = at[: drop_dominated(values, alive, none, at)] if not alive.all() else np.arange(n)
    points, whole = values, len(at) == n
    for _ in range(4):
        if len(at) <= _SMALL:
            break
        points = points if whole else np.ascontiguousarray(values[:, at])
        picks = np.linspace(0, points.shape[1] - 1, _SAMPLE).astype(np.int64)
        if not whole:
            low = np.argsort(points.sum(axis=0), kind="stable")[: _SAMPLE // 2]
            picks = np.concatenate([picks[::2], low])
        out = np.empty(points.shape[1], dtype=np.int64)
        kept = drop_dominated(points, np.ones(points.shape[1], dtype=bool), _killers(points, picks), out)
        before, at, whole = len(at), at[out[:kept]], False
        if kept > 0.7 * before:
            break
    mask[at] = _sorted_front(np.ascontiguousarray(values[:, at])) if len(at) else False
    return mask
