"""What is kept of priced designs, against numpy; and chunks of any size against one another."""

import numpy as np
import pytest

from engine.kernels.search.pareto import sift


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_counts_limits_and_survivors_are_those_of_numpy(seed: int, fits: bool) -> None:
    draw = np.random.default_rng(seed)
    n, k = 3000, 3
    values = draw.integers(1, 40, (k + 1, n)).astype(np.float64)
    values[1, draw.random(n) < 0.05] = np.nan
    refused, unfit = draw.random(n) < 0.1, draw.random(n) < 0.2
    most, row, limit = np.array([True, False]), np.array([3, 0]), np.array([30.0, 5.0])
    signs, killers = np.array([1.0, -1.0, 1.0]), np.array([[8.0, 12.0], [-30.0, -20.0], [9.0, 6.0]])
    given = values.copy()
    counts, missed = np.zeros(3, np.int64), np.zeros(2, np.int64)
    at, top = np.empty(n, np.int64), np.empty(n, np.int64)
    kept, best = sift(values, refused, unfit, fits, most, row, limit, signs, killers, 7.0, counts, missed, at, top)

    alive = ~refused & ~(unfit & fits)
    held = np.stack([given[3] <= 30.0, given[0] >= 5.0])
    met = alive & held.all(axis=0)
    assert counts.tolist() == [refused.sum(), (unfit & ~refused).sum(), met.sum()]
    assert missed.tolist() == [(alive & ~one).sum() for one in held]
    signed = given[:k] * signs[:, None]
    np.testing.assert_array_equal(values[:k], signed)
    able = met & ~np.isnan(signed).any(axis=0)
    no_worse = (signed[:, :, None] >= killers[:, None, :]).all(axis=0)
    worse = (signed[:, :, None] > killers[:, None, :]).any(axis=0)
    np.testing.assert_array_equal(at[:kept], np.flatnonzero(able & ~(no_worse & worse).any(axis=1)))
    np.testing.assert_array_equal(top[:best], np.flatnonzero(able & (signed[0] <= 7.0)))
