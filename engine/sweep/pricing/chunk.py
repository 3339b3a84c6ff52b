"""One chunk of a sweep: its designs priced, counted, thinned to those that may matter. Runs anywhere. Estimates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np

from engine.kernels.search.pareto import front_mask
from engine.kernels.search.sift import sift
from engine.sweep.goals import FIGURES
from engine.sweep.pricing.blocks import DesignBlock, block_at
from engine.sweep.pricing.flat_table import Priced
from engine.sweep.result import Counts
from engine.sweep.space import Space, space_of

_KILLERS = 12

Best = tuple[np.ndarray, np.ndarray]
"""Numbers of designs (n,), the best first, and their objectives (objectives, n)."""
BlockKey = tuple[str, tuple[tuple[int, int], ...]]
"""A block as it travels to another process: the space's token and the digits."""


@lru_cache(maxsize=2)
def _space(token: str) -> tuple[Space, dict[Any, Any]]:
    """A space, and what the values of its axes set, as far as a block has had it validated."""
    return space_of(token), {}


@lru_cache(maxsize=16)
def _block(key: BlockKey) -> DesignBlock:
    space, known = _space(key[0])
    return block_at(space, key[1], known)


@dataclass
class ChunkResult:
    """Candidates for the front and for the best, signed so that smaller is better; counts."""

    counts: Counts
    number: np.ndarray
    values: np.ndarray  # (objectives, n)
    best: Best
    drawn: Priced | None = None  # the cloud's designs


def best(k: int, number: np.ndarray, values: np.ndarray) -> Best:
    """The k designs with the least first objective (signed), of equal ones those with the lowest numbers. Exact."""
    order = np.lexsort((number, values[0]))[:k]
    return number[order], np.ascontiguousarray(values[:, order])


def price_chunk(
    of: DesignBlock | BlockKey, lo: int, hi: int, picks: np.ndarray, top: int, killers: np.ndarray, least: float
) -> ChunkResult:
    """The chunk lo..hi of a block: its counts, its designs that nothing known dominates, its best, its picks.

    A block is given by its key in another process, which makes the tables itself. Where every design is picked, each
    is priced once, in all figures. ``top``, ``killers`` and ``least`` as `thinned` has them. [SI]
    """
    block, n = of if isinstance(of, DesignBlock) else _block(of), hi - lo
    names = block.space.figures
    if not block.tables:
        refused = np.ones(n, dtype=bool)
        return thinned(np.zeros((len(names), n)), refused, ~refused, lambda at: at, block.space, top, killers, least)
    drawn = None
    if len(picks) == n:
        drawn = block.fill(lo, n, FIGURES)
        values, refused, unfit = drawn[0][[FIGURES.index(figure) for figure in names]], *drawn[1:]
    else:
        values, refused, unfit = block.fill(lo, n, names)
        drawn = block.fill(0, len(picks), FIGURES, picks) if len(picks) else None
    result = thinned(values, refused, unfit, lambda at: block.numbers(at + lo), block.space, top, killers, least)
    return replace(result, drawn=drawn)


def thinned(
    values: np.ndarray,
    refused: np.ndarray,
    unfit: np.ndarray,
    numbers: Callable[[np.ndarray], np.ndarray],
    space: Space,
    top: int,
    killers: np.ndarray,
    least: float = inf,
) -> ChunkResult:
    """Priced designs (`Space.figures`, n): counted, and those kept that nothing known dominates, and the ``top`` best.

    ``numbers``: places -> numbers in the space. The values are taken apart on the way. What is known of other designs
    only spares work: ``killers`` (objectives, n) on the front so far, and the ``least`` first objective, signed, above
    which a design is not among the best. [SI]
    """
    k, n, missed = len(space.objectives), len(refused), np.zeros(len(space.limits), dtype=np.int64)
    counts, at, good = np.zeros(3, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    candidates, able = sift(
        values,
        refused,
        unfit,
        space.fits,
        np.array([limit.most for limit in space.limits], dtype=np.bool_),
        np.array([space.figures.index(limit.figure) for limit in space.limits], dtype=np.int64),
        np.array([limit.value for limit in space.limits], dtype=np.float64),
        np.array([o.sign for o in space.objectives]),
        killers,
        least if top else -inf,
        counts,
        missed,
        at,
        good,
    )
    at, good = at[:candidates], good[:able]
    front = at[front_mask(values[:k].take(at, axis=1))] if candidates else at
    first = best(top, numbers(good), values[:k].take(good, axis=1))
    front_values = values[:k].take(front, axis=1)
    return ChunkResult(Counts(n, missed, n, 0, *counts.tolist()), numbers(front), front_values, first)


def killers_of(values: np.ndarray) -> np.ndarray:
    """A few designs of a front, spread along its first objective."""
    spread = np.linspace(0, values.shape[1] - 1, min(_KILLERS, values.shape[1])).astype(np.int64)
    ranked = np.argsort(values[0], kind="stable")
    return np.ascontiguousarray(values[:, ranked[spread]])
