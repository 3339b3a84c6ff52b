"""One chunk of a sweep: its designs priced, counted, thinned to those that may matter. Runs anywhere. Estimates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import inf

import numpy as np

from engine.kernels.search.pareto import front_mask
from engine.kernels.search.sift import sift
from engine.sweep.goals import FIGURES, Limit, Objective
from engine.sweep.pricing.blocks import Blocks, DesignBlock
from engine.sweep.pricing.flat_table import Priced
from engine.sweep.result import Counts
from engine.sweep.space import Space, space_of

_KILLERS = 12

Best = tuple[np.ndarray, np.ndarray]
"""Numbers of designs (n,), the best first, and their objectives (objectives, n)."""
BlockKey = tuple[str, tuple[tuple[int, int], ...]]
"""A block as it travels to another process: the space's token and the digits."""


@lru_cache(maxsize=2)
def _blocks(token: str) -> Blocks:
    return Blocks(space_of(token))


@lru_cache(maxsize=16)
def _block(key: BlockKey) -> DesignBlock:
    return _blocks(key[0]).block(key[1])


@dataclass(frozen=True)
class ChunkRequest:
    """What a chunk is asked for; what is known when it is handed out only spares work, and changes no result."""

    objectives: tuple[Objective, ...]
    limits: tuple[Limit, ...]
    fits: bool
    top: int  # designs to keep with the best first objective
    killers: np.ndarray  # (objectives, n) values of designs on the front as far as it is known
    least: float = inf  # of the first objective, signed: a design above it is not among the best

    @classmethod
    def of(cls, space: Space, top: int) -> ChunkRequest:
        """Of a space of which no design is known."""
        return cls(space.objectives, space.limits, space.fits, top, np.zeros((len(space.objectives), 0)))

    @cached_property
    def figures(self) -> tuple[str, ...]:
        """Objectives, then figures of limits."""
        return tuple(dict.fromkeys(goal.figure for goal in (*self.objectives, *self.limits)))


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


def price_chunk(of: DesignBlock | BlockKey, lo: int, hi: int, picks: np.ndarray, wish: ChunkRequest) -> ChunkResult:
    """The chunk lo..hi of a block: its counts, its designs that nothing known dominates, its best, its picks.

    A block is given by its key in another process, which makes the tables itself. Where every design is picked, each
    is priced once, in all figures.
    """
    block, n = of if isinstance(of, DesignBlock) else _block(of), hi - lo
    if not block.tables:
        refused = np.ones(n, dtype=bool)
        return thinned(np.zeros((len(wish.figures), n)), refused, ~refused, lambda at: at, wish)
    drawn = None
    if len(picks) == n:
        drawn = block.fill(lo, hi, FIGURES)
        values, refused, unfit = drawn[0][[FIGURES.index(figure) for figure in wish.figures]], *drawn[1:]
    else:
        values, refused, unfit = block.fill(lo, hi, wish.figures)
        drawn = block.fill_at(picks, FIGURES) if len(picks) else None
    result = thinned(values, refused, unfit, lambda at: block.numbers(at + lo), wish)
    return replace(result, drawn=drawn)


def thinned(
    values: np.ndarray,
    refused: np.ndarray,
    unfit: np.ndarray,
    numbers: Callable[[np.ndarray], np.ndarray],
    wish: ChunkRequest,
) -> ChunkResult:
    """Priced designs (figures of ``wish``, n): counted, and those kept that nothing known dominates, and the best.

    ``numbers``: places -> numbers in the space. The values are taken apart on the way.
    """
    k, n, missed = len(wish.objectives), len(refused), np.zeros(len(wish.limits), dtype=np.int64)
    counts, at, good = np.zeros(3, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    candidates, able = sift(
        values,
        refused,
        unfit,
        wish.fits,
        np.array([limit.most for limit in wish.limits], dtype=np.bool_),
        np.array([wish.figures.index(limit.figure) for limit in wish.limits], dtype=np.int64),
        np.array([limit.value for limit in wish.limits], dtype=np.float64),
        np.array([o.sign for o in wish.objectives]),
        wish.killers,
        wish.least if wish.top else -inf,
        counts,
        missed,
        at,
        good,
    )
    at, good = at[:candidates], good[:able]
    front = at[front_mask(values[:k].take(at, axis=1))] if candidates else at
    top = best(wish.top, numbers(good), values[:k].take(good, axis=1))
    front_values = values[:k].take(front, axis=1)
    return ChunkResult(Counts(n, missed, n, 0, *counts.tolist()), numbers(front), front_values, top)


def killers_of(values: np.ndarray) -> np.ndarray:
    """A few designs of a front, spread along its first objective."""
    spread = np.linspace(0, values.shape[1] - 1, min(_KILLERS, values.shape[1])).astype(np.int64)
    ranked = np.argsort(values[0], kind="stable")
    return np.ascontiguousarray(values[:, ranked[spread]])
