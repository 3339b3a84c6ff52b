"""One chunk of a sweep: its designs priced, counted, thinned to those that may matter. Runs anywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from engine.kernels.search.bins import BINS
from engine.kernels.search.pareto import front_mask
from engine.kernels.search.sift import sift
from engine.sweep.goals import FIGURES, Objective
from engine.sweep.pricing.blocks import DesignBlock, Programs
from engine.sweep.space import space_of
from engine.sweep.top import Top, best_of

PIECE = 1 << 15
"""Designs that are priced and thinned together: their figures stay in a core's cache."""
_THINNED = 4096  # designs that may be on the front, from which they are held against each other
_KILLERS = 12


class Mismatch(RuntimeError):
    """A sweep and an evaluation of the same design differ: a fault of this program, never of its input."""


@lru_cache(maxsize=2)
def _shared(token: str) -> Programs:
    """Programs of a space in a worker process."""
    return Programs(space_of(token), None, None)


@lru_cache(maxsize=16)
def _shared_block(token: str, digits: tuple[tuple[int, int], ...]) -> DesignBlock:
    return _shared(token).block(digits)


@dataclass(frozen=True)
class ChunkRequest:
    """What a chunk is asked for."""

    objectives: tuple[Objective, ...]
    limits: tuple[Any, ...]
    fits: bool
    figures: tuple[str, ...]  # objectives, then figures of limits
    bins: bool
    top: int  # designs to keep with the best first objective


@dataclass(frozen=True)
class ChunkHints:
    """What is known when a chunk is handed out: it only spares work, and changes no result."""

    killers: np.ndarray  # (objectives, n) values of designs on the front
    limit: float  # of the first objective, signed: who exceeds it is not among the best


@dataclass
class ChunkResult:
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


class _Sieve:
    """What is left of a chunk's designs, piece after piece: those that may be on the front, and the best."""

    def __init__(self, wish: ChunkRequest, known: ChunkHints) -> None:
        self.wish, self.killers, self.limit = wish, known.killers, known.limit
        k = len(wish.objectives)
        self.counts, self.missed = np.zeros(3, dtype=np.int64), np.zeros(len(wish.limits), dtype=np.int64)
        self.bins = np.zeros((k if wish.bins else 0, BINS), dtype=np.int64)
        self.signs = np.array([o.sign for o in wish.objectives])
        self.rules = (
            wish.fits,
            np.array([limit.most for limit in wish.limits], dtype=np.bool_),
            np.array([wish.figures.index(limit.figure) for limit in wish.limits], dtype=np.int64),
            np.array([limit.value for limit in wish.limits], dtype=np.float64),
            self.signs,
        )
        self.at, self.top = np.empty(PIECE, dtype=np.int64), np.empty(PIECE, dtype=np.int64)
        self.front: list[tuple[np.ndarray, np.ndarray]] = []  # (numbers in the block, values) not yet thinned
        self.best: list[tuple[np.ndarray, np.ndarray]] = []
        self.waiting = self.thinned = 0

    def take(self, lo: int, values: np.ndarray, bad: np.ndarray, unfit: np.ndarray) -> None:
        """The designs of a block from `lo` on; signs of the objectives are turned in place."""
        limit = self.limit if self.wish.top else -np.inf
        kept, best = sift(
            values,
            bad,
            unfit,
            *self.rules,
            self.killers,
            limit,
            self.counts,
            self.missed,
            self.bins,
            self.at,
            self.top,
        )
        signed = values[: len(self.signs)]
        if best and self.wish.top:
            top = self.top[:best][best_of(signed[0, self.top[:best]], self.wish.top)]
            self.best.append((top + lo, signed[:, top]))
            if len(top) >= self.wish.top:
                self.limit = min(self.limit, float(np.partition(signed[0, top], self.wish.top - 1)[self.wish.top - 1]))
        if kept:
            at = self.at[:kept]
            self.front.append((at + lo, signed[:, at]))
            self.waiting += kept
            if self.waiting > max(_THINNED, self.thinned):
                numbers, designs = self.thin()
                self.front, self.waiting, self.thinned = [(numbers, designs)], 0, len(numbers)
                self.killers = killers_of(designs)

    def thin(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers in the block and values of the designs that no other of them dominates."""
        if not self.front:
            return np.zeros(0, dtype=np.int64), np.zeros((len(self.signs), 0))
        values = np.concatenate([values for _, values in self.front], axis=1)
        mask = front_mask(values)
        return np.concatenate([at for at, _ in self.front])[mask], np.ascontiguousarray(values[:, mask])

    def found(self, block: DesignBlock, designs: int) -> ChunkResult:
        """All of it."""
        at, values = self.thin()
        refused, unfit, kept = map(int, self.counts)
        chunk = ChunkResult(block.numbers(at), values, designs, refused, unfit, self.missed, kept)
        chunk.bins = self.bins if self.wish.bins else None
        if self.best:
            top = np.concatenate([values for _, values in self.best], axis=1)
            numbers = np.concatenate([at for at, _ in self.best])
            kept_best = Top(self.wish.top, len(self.signs))
            kept_best.take(block.numbers(numbers), top)
            chunk.top_number, chunk.top_values = kept_best.number, kept_best.values
        return chunk


def search(
    block: DesignBlock, lo: int, hi: int, picks: np.ndarray, wish: ChunkRequest, known: ChunkHints
) -> ChunkResult:
    """The chunk lo..hi of a block: its counts, its designs that nothing known dominates, its best, its picks.

    It goes through in pieces that stay in the caches, and Python is asked for a few calls a piece. Where every design
    is picked, each is priced once, in all figures.
    """
    k, designs = len(wish.objectives), hi - lo
    if block.program is None:
        none = np.zeros(0, dtype=np.int64)
        return ChunkResult(
            none, np.zeros((k, 0)), designs, refused=designs, missed=np.zeros(len(wish.limits), np.int64)
        )
    sieve, drawn = _Sieve(wish, known), None
    if len(picks) == hi - lo <= PIECE:
        drawn = block.program.fill(lo, hi, FIGURES)
        sieve.take(lo, drawn[0][[FIGURES.index(figure) for figure in wish.figures]], *drawn[1:])
        lo = hi
    elif len(picks):
        drawn = block.program.fill_at(picks, FIGURES)
    for start in range(lo, hi, PIECE):
        end = min(start + PIECE, hi)
        values, bad, unfit = block.program.fill(start, end, wish.figures)
        if drawn is not None:
            _alike(wish.figures, values, slice(*np.searchsorted(picks, (start, end))), picks - start, drawn[0])
        sieve.take(start, values, bad, unfit)
    chunk = sieve.found(block, designs)
    chunk.drawn = drawn
    return chunk


def _alike(figures: tuple[str, ...], values: np.ndarray, some: slice, at: np.ndarray, drawn: np.ndarray) -> None:
    """Many designs at once against one by one: the same bits, or Mismatch."""
    alone = drawn[[FIGURES.index(figure) for figure in figures], some]
    if not np.array_equal(values[:, at[some]], alone, equal_nan=True):
        raise Mismatch(f"{', '.join(figures)}: a design priced with others differs from the same design by itself")


def killers_of(values: np.ndarray) -> np.ndarray:
    """A few designs of a front, spread along its first objective."""
    spread = np.linspace(0, values.shape[1] - 1, min(_KILLERS, values.shape[1])).astype(np.int64)
    ranked = np.argsort(values[0], kind="stable")
    return np.ascontiguousarray(values[:, ranked[spread]])


def search_shared(
    token: str,
    digits: tuple[tuple[int, int], ...],
    lo: int,
    hi: int,
    picks: np.ndarray,
    wish: ChunkRequest,
    known: ChunkHints,
) -> ChunkResult:
    """`search` in another process, which makes the program itself."""
    return search(_shared_block(token, digits), lo, hi, picks, wish, known)
