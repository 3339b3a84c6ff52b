"""One chunk of a sweep: its designs priced, counted, thinned to those that may matter. Runs anywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from engine.kernels.search.bins import count_bins
from engine.kernels.search.pareto import drop_dominated, front_mask
from engine.sweep.blocks import Block, Programs
from engine.sweep.result import BINS
from engine.sweep.space import FIGURES, Objective, space_of
from engine.sweep.top import best_of

__all__ = ["Found", "Known", "Mismatch", "Wish", "search", "search_shared"]


class Mismatch(RuntimeError):
    """A sweep and an evaluation of the same design differ: a fault of this program, never of its input."""


@lru_cache(maxsize=2)
def _shared(token: str) -> Programs:
    """Programs of a space in a worker process."""
    return Programs(space_of(token), None, None)


@lru_cache(maxsize=16)
def _shared_block(token: str, digits: tuple[tuple[int, int], ...]) -> Block:
    return _shared(token).block(digits)


@dataclass(frozen=True)
class Wish:
    """What a chunk is asked for."""

    objectives: tuple[Objective, ...]
    limits: tuple[Any, ...]
    fits: bool
    figures: tuple[str, ...]  # objectives, then figures of limits
    bins: bool
    top: int  # designs to keep with the best first objective


@dataclass(frozen=True)
class Known:
    """What is known when a chunk is handed out: it only spares work, and changes no result."""

    killers: np.ndarray  # (objectives, n) values of designs on the front
    limit: float  # of the first objective, signed: who exceeds it is not among the best


@dataclass
class Found:
    """What a chunk found: designs that may be on the front, counts and bins."""

    number: np.ndarray
    values: np.ndarray
    designs: int
    refused: int = 0
    unfit: int = 0
    missed: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    kept: int = 0
    bins: np.ndarray | None = None
    drawn: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None  # the cloud's designs: figures, refused, unfit
    top_number: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    top_values: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))


def search(block: Block, lo: int, hi: int, picks: np.ndarray, wish: Wish, known: Known) -> Found:
    """The chunk lo..hi of a block: its counts, its designs that nothing known dominates, its best, its picks."""
    k = len(wish.objectives)
    if block.program is None:
        none = np.zeros(0, dtype=np.int64)
        return Found(none, np.zeros((k, 0)), hi - lo, refused=hi - lo, missed=np.zeros(len(wish.limits), np.int64))
    values, bad, unfit = block.program.fill(lo, hi, wish.figures)
    alive = ~bad
    found = Found(np.zeros(0, np.int64), values, hi - lo, int(bad.sum()), int((unfit & alive).sum()))
    found.missed = np.zeros(len(wish.limits), dtype=np.int64)
    if wish.fits:
        alive &= ~unfit
    met = alive.copy()
    for i, limit in enumerate(wish.limits):
        row = values[wish.figures.index(limit.figure)]
        kept = row <= limit.value if limit.most else row >= limit.value
        found.missed[i] = int((alive & ~kept).sum())
        met &= kept
    found.kept = int(met.sum())
    if wish.bins:
        found.bins = np.zeros((k, BINS), dtype=np.int64)
        for i in range(k):
            count_bins(values[i], met, found.bins[i])
    if len(picks):
        found.drawn = block.program.fill_at(picks, FIGURES)
        for figure, row in zip(wish.figures, values, strict=True):  # many designs at once against one by one
            if not np.array_equal(row[picks - lo], found.drawn[0][FIGURES.index(figure)], equal_nan=True):
                raise Mismatch(f"{figure}: a design priced with others differs from the same design by itself")
    signed = values[:k]
    for i, objective in enumerate(wish.objectives):
        if objective.sign < 0:
            np.negative(signed[i], out=signed[i])
        met &= signed[i] == signed[i]
    best = best_of(signed[0], met, wish.top, known.limit)
    found.top_number, found.top_values = block.numbers(best + lo), np.ascontiguousarray(signed[:, best])
    at = np.empty(hi - lo, dtype=np.int64)
    at = at[: drop_dominated(signed, met, known.killers, at)]
    part = np.ascontiguousarray(signed[:, at])
    mask = front_mask(part)
    found.number, found.values = block.numbers(at[mask] + lo), np.ascontiguousarray(part[:, mask])
    return found


def search_shared(
    token: str, digits: tuple[tuple[int, int], ...], lo: int, hi: int, picks: np.ndarray, wish: Wish, known: Known
) -> Found:
    """`search` in another process, which makes the program itself."""
    return search(_shared_block(token, digits), lo, hi, picks, wish, known)
