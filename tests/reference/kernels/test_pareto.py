"""The compiled front filter against its definition, and against a filter written another way."""

import numpy as np
import pytest

from engine.kernels.search.pareto import drop_dominated, front_mask


def by_definition(values: np.ndarray) -> np.ndarray:
    """Every point against every other."""
    out = np.ones(values.shape[1], dtype=bool)
    for i in range(values.shape[1]):
        one = values[:, [i]]
        out[i] = not ((values <= one).all(axis=0) & (values < one).any(axis=0)).any()
    return out


def by_peeling(values: np.ndarray) -> np.ndarray:
    """Keeps the point with the least sum, clears what it dominates, and goes on with what is left."""
    left = np.arange(values.shape[1])
    left = left[np.argsort(values.sum(axis=0), kind="stable")]
    mask = np.zeros(values.shape[1], dtype=bool)
    while len(left):
        one = values[:, [left[0]]]
        same = (values[:, left] == one).all(axis=0)
        mask[left[same]] = True
        worse = (values[:, left] >= one).all(axis=0)
        left = left[~worse]
    return mask


@pytest.mark.parametrize("objectives", [1, 2, 3, 4, 5])
def test_front_is_its_definition(objectives: int) -> None:
    draw = np.random.default_rng(objectives)
    for turn in range(60):
        n = int(draw.integers(1, 300))
        coarse = draw.integers(0, int(draw.integers(2, 40)), (objectives, n)).astype(np.float64)
        values = coarse if turn % 2 else draw.random((objectives, n))
        assert np.array_equal(front_mask(values), by_definition(values))


@pytest.mark.parametrize("objectives", [2, 3, 4])
@pytest.mark.parametrize("kind", ["uniform", "grid", "anti", "duplicates"])
def test_large_fronts_agree_with_another_filter(objectives: int, kind: str) -> None:
    draw = np.random.default_rng(7)
    n = 6000 if kind == "anti" else 40_000
    values = draw.random((objectives, n))
    if kind == "grid":
        values = np.floor(values * 9)
    elif kind == "anti":
        values[-1] = objectives - values[:-1].sum(axis=0) + 0.1 * draw.random(n)
    elif kind == "duplicates":
        values[:, n // 2 :] = values[:, : n // 2]
    assert np.array_equal(front_mask(values), by_peeling(values))


def test_points_with_nan_take_no_part() -> None:
    draw = np.random.default_rng(3)
    values = draw.random((3, 5000))
    values[1, ::3] = np.nan
    able = ~np.isnan(values).any(axis=0)
    expected = np.zeros(5000, dtype=bool)
    expected[able] = by_definition(values[:, able])
    assert np.array_equal(front_mask(values), expected)
    assert not front_mask(np.full((2, 10), np.nan)).any()


@pytest.mark.parametrize("objectives", [1, 2, 3, 4, 5])
def test_killers_clear_only_what_they_dominate(objectives: int) -> None:
    draw = np.random.default_rng(11)
    values = np.floor(draw.random((objectives, 3000)) * 20)
    killers = np.ascontiguousarray(values[:, :30])
    alive = draw.random(3000) < 0.7
    out = np.empty(3000, dtype=np.int64)
    kept = out[: drop_dominated(values, alive, killers, out)]
    beaten = np.zeros(3000, dtype=bool)
    for j in range(30):
        one = killers[:, [j]]
        beaten |= (values >= one).all(axis=0) & (values > one).any(axis=0)
    assert kept.tolist() == np.flatnonzero(alive & ~beaten).tolist()
