"""One chunk of a sweep: its designs priced, counted, thinned to those that may matter. Runs anywhere. Estimates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from engine.kernels.search.bins import BINS
from engine.kernels.search.pareto import front_mask
from engine.kernels.search.sift import sift
from engine.sweep.goals import FIGURES, Limit, Objective
from engine.sweep.pricing.blocks import DesignBlock, Programs
from engine.sweep.space import space_of
from engine.sweep.top import Top

_KILLERS = 12
_NUMBERS = np.zeros(0, dtype=np.int64)

BlockKey = tuple[str, tuple[tuple[int, int], ...]]
"""A block as it travels to another process: the space's token and the digits."""


@lru_cache(maxsize=2)
def _programs(token: str) -> Programs:
    return Programs(space_of(token), None, None)


@lru_cache(maxsize=16)
def _block(key: BlockKey) -> DesignBlock:
    return _programs(key[0]).block(key[1])


@dataclass(frozen=True)
class ChunkRequest:
    """What a chunk is asked for."""

    objectives: tuple[Objective, ...]
    limits: tuple[Limit, ...]
    fits: bool
    bins: bool
    top: int  # designs to keep with the best first objective

    @cached_property
    def figures(self) -> tuple[str, ...]:
        """Objectives, then figures of limits."""
        return tuple(dict.fromkeys(goal.figure for goal in (*self.objectives, *self.limits)))


@dataclass(frozen=True)
class ChunkHints:
    """What is known when a chunk is handed out: it only spares work, and changes no result."""

    killers: np.ndarray  # (objectives, n) values of designs on the front
    limit: float  # of the first objective, signed: a design above it is not among the best


@dataclass
class ChunkResult:
    """Candidates for the front and for the best, signed so that smaller is better; counts and bins."""

    values: np.ndarray  # (objectives, n)
    designs: int
    missed: np.ndarray  # of each limit
    number: np.ndarray = field(default_factory=_NUMBERS.copy)
    refused: int = 0
    unfit: int = 0
    kept: int = 0
    bins: np.ndarray | None = None
    drawn: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None  # the cloud's designs: figures, refused, unfit
    top: Top | None = None


def price_chunk(
    of: DesignBlock | BlockKey, lo: int, hi: int, picks: np.ndarray, wish: ChunkRequest, known: ChunkHints
) -> ChunkResult:
    """The chunk lo..hi of a block: its counts, its designs that nothing known dominates, its best, its picks.

    A block is given by its key in another process, which makes the program itself. Where every design is picked, each
    is priced once, in all figures.
    """
    block = of if isinstance(of, DesignBlock) else _block(of)
    n = hi - lo
    if block.program is None:
        missed = np.zeros(len(wish.limits), dtype=np.int64)
        return ChunkResult(np.zeros((len(wish.objectives), 0)), n, missed, refused=n)
    drawn = None
    if len(picks) == n:
        drawn = block.program.fill(lo, hi, FIGURES)
        values, refused, unfit = drawn[0][[FIGURES.index(figure) for figure in wish.figures]], *drawn[1:]
    else:
        values, refused, unfit = block.program.fill(lo, hi, wish.figures)
        drawn = block.program.fill_at(picks, FIGURES) if len(picks) else None
    result = thinned(values, refused, unfit, lambda at: block.numbers(at + lo), wish, known)
    return replace(result, drawn=drawn)


def thinned(
    values: np.ndarray,
    refused: np.ndarray,
    unfit: np.ndarray,
    numbers: Callable[[np.ndarray], np.ndarray],
    wish: ChunkRequest,
    known: ChunkHints,
) -> ChunkResult:
    """Priced designs (figures of ``wish``, n): counted, and those kept that nothing known dominates, and the best.

    ``numbers``: places -> numbers in the space. The values are taken apart on the way.
    """
    k, n, missed = len(wish.objectives), len(refused), np.zeros(len(wish.limits), dtype=np.int64)
    counts, bins = np.zeros(3, dtype=np.int64), np.zeros((k if wish.bins else 0, BINS), dtype=np.int64)
    at, best = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    candidates, good = sift(
        values,
        refused,
        unfit,
        wish.fits,
        np.array([limit.most for limit in wish.limits], dtype=np.bool_),
        np.array([wish.figures.index(limit.figure) for limit in wish.limits], dtype=np.int64),
        np.array([limit.value for limit in wish.limits], dtype=np.float64),
        np.array([o.sign for o in wish.objectives]),
        known.killers,
        known.limit if wish.top else -np.inf,
        counts,
        missed,
        bins,
        at,
        best,
    )
    at, best = at[:candidates], best[:good]
    front = at[front_mask(values[:k].take(at, axis=1))] if candidates else at
    top = Top(wish.top, k)
    top.take(numbers(best), values[:k].take(best, axis=1))
    costs = values[:k].take(front, axis=1)
    return ChunkResult(costs, n, missed, numbers(front), *counts.tolist(), bins=bins if wish.bins else None, top=top)


def killers_of(values: np.ndarray) -> np.ndarray:
    """A few designs of a front, spread along its first objective."""
    spread = np.linspace(0, values.shape[1] - 1, min(_KILLERS, values.shape[1])).astype(np.int64)
    ranked = np.argsort(values[0], kind="stable")
    return np.ascontiguousarray(values[:, ranked[spread]])
