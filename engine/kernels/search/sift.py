"""Which of many priced designs matter: counted, held against limits and against the best known; compiled."""

import numpy as np

from engine.kernels.jit import kernel
from engine.kernels.search.pareto import drop_dominated


@kernel
def sift(values, refused, unfit, fits, most, limit_row, limit, signs, killers, top_limit, counts, missed, at, top):
    """Thins designs to those that may be on the front or among the best; returns how many of each.

    ``values`` (rows, n) begins with the objectives, which take their ``signs`` in place: smaller is better. ``refused``
    and ``unfit`` (n,) say what becomes of each, ``fits`` whether the unfit drop out. Limit j keeps a design where
    ``values[limit_row[j]]`` is at most (``most[j]``) or at least ``limit[j]``.

    Adds to ``counts`` (refused, unfit, kept) and ``missed`` (a limit each); fills ``at`` with indices that no column of
    ``killers`` dominates and ``top`` with those whose first objective is at most ``top_limit``, both ascending.
    """
    n = refused.shape[0]
    alive = np.empty(n, dtype=np.bool_)
    for i in range(n):
        runs = not refused[i]
        counts[0] += not runs
        counts[1] += runs and unfit[i]
        alive[i] = runs and not (fits and unfit[i])
    met = alive.copy()
    for j in range(limit.shape[0]):
        row, bound, over = values[limit_row[j]], limit[j], 0
        for i in range(n):
            meets = row[i] <= bound if most[j] else row[i] >= bound
            over += alive[i] and not meets
            met[i] = met[i] and meets
        missed[j] += over
    for i in range(n):
        counts[2] += met[i]
    for k in range(signs.shape[0]):
        row = values[k]
        if signs[k] < 0:
            for i in range(n):
                row[i] = -row[i]
        for i in range(n):
            met[i] = met[i] and row[i] == row[i]
    best, first = 0, values[0]
    for i in range(n):
        if met[i] and first[i] <= top_limit:
            top[best] = i
            best += 1
    return drop_dominated(values[: signs.shape[0]], met, killers, at), best
