"""The sweep itself: every design of a space, in chunks on any executor, kept as a front, a cloud and counts."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from engine.kernels.jit import pool_size, run_chunks
from engine.kernels.search.pareto import front_mask, sift
from engine.scenario import ScenarioError
from engine.sweep.goals import FIGURES
from engine.sweep.pricing.blocks import CHUNK, DesignBlock, block_at, blocks
from engine.sweep.pricing.flat_table import Priced
from engine.sweep.result import Counts, Front, SweepResult
from engine.sweep.space import Space, space_of
from hardware_specs.catalog import Catalog
from model_zoo.catalog import Zoo

CLOUD = 3000
_AHEAD = 4  # chunks a thread that are handed out: work for while the tables of the next block are made
FRONT_LIMIT = 2_000_000
_NOT_DRAWN, _REFUSED = -1, 2  # states of a cloud's design: its chunk was never reached; it can't run
_KILLERS = 12  # designs of the front that a chunk is held against first
Best = tuple[np.ndarray, np.ndarray]
"""Numbers of designs (n,), the best first, and their objectives (objectives, n)."""
BlockKey = tuple[str, tuple[tuple[int, int], ...]]
"""A block as it travels to another process: the space's token and the digits."""


class SweepCancelled(RuntimeError):
    """The sweep was cancelled by its caller; `result` covers the designs that were done."""

    result: SweepResult | None = None


@lru_cache(maxsize=2)
def _space(token: str) -> tuple[Space, dict[Any, Any]]:
    """A space, and what the values of its axes set, as far as a block has had it validated."""
    return space_of(token), {}


@lru_cache(maxsize=16)
def _block(key: BlockKey) -> DesignBlock:
    space, cache = _space(key[0])
    return block_at(space, key[1], cache)


@dataclass
class ChunkResult:
    """Candidates for the front and for the best, signed so that smaller is better; counts."""

    counts: Counts
    number: np.ndarray
    values: np.ndarray  # (objectives, n)
    best: Best
    cloud: Priced | None = None  # the cloud's designs


def best(k: int, number: np.ndarray, values: np.ndarray) -> Best:
    """The k designs with the least first objective (signed), of equal ones those with the lowest numbers. Exact."""
    order = np.lexsort((number, values[0]))[:k]
    return number[order], np.ascontiguousarray(values[:, order])


def price_chunk(
    of: DesignBlock | BlockKey, lo: int, hi: int, picks: np.ndarray, top: int, killers: np.ndarray, cutoff: float
) -> ChunkResult:
    """The chunk lo..hi of a block: its counts, its designs that nothing known dominates, its best, its picks.

    A block is given by its key in another process, which makes the tables itself. Where every design is picked, each
    is priced once, in all figures. ``top``, ``killers`` and ``cutoff`` as `thin` has them. [SI]
    """
    block, n = of if isinstance(of, DesignBlock) else _block(of), hi - lo
    names = block.space.figures
    cloud = None
    if len(picks) == n:
        cloud = block.fill(lo, n, FIGURES)
        values, bad, unfit = cloud[0][[FIGURES.index(figure) for figure in names]], *cloud[1:]
    else:
        values, bad, unfit = block.fill(lo, n, names)
        cloud = block.fill(0, len(picks), FIGURES, picks) if len(picks) else None
    result = thin(values, bad, unfit, lambda at: block.numbers(at + lo), block.space, top, killers, cutoff)
    return replace(result, cloud=cloud)


def thin(
    values: np.ndarray,
    bad: np.ndarray,
    unfit: np.ndarray,
    numbers: Callable[[np.ndarray], np.ndarray],
    space: Space,
    top: int,
    killers: np.ndarray,
    cutoff: float = inf,
) -> ChunkResult:
    """Priced designs (`Space.figures`, n): counted, and those kept that nothing known dominates, and the ``top`` best.

    ``numbers``: places -> numbers in the space. The values are taken apart on the way. What is known of other designs
    only spares work: ``killers`` (objectives, n) on the front so far, and the ``cutoff`` first objective, signed, above
    which a design is not among the best. [SI]
    """
    k, n, missed = len(space.objectives), len(bad), np.zeros(len(space.limits), dtype=np.int64)
    counts, at, good = np.zeros(3, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    candidates, able = sift(
        values,
        bad,
        unfit,
        space.fits,
        np.array([limit.upper for limit in space.limits], dtype=np.bool_),
        np.array([space.figures.index(limit.figure) for limit in space.limits], dtype=np.int64),
        np.array([limit.value for limit in space.limits], dtype=np.float64),
        np.array([o.sign for o in space.objectives]),
        killers,
        cutoff if top else -inf,
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
    order = np.argsort(values[0], kind="stable")
    return np.ascontiguousarray(values[:, order[spread]])


class _Cloud:
    """Designs drawn evenly from a space, with all their figures."""

    def __init__(self, space: Space, limit: int) -> None:
        self.space, self.numbers = space, _cloud_numbers(space.size, limit)
        self.figures = np.full((len(FIGURES), len(self.numbers)), np.nan)
        self.state = np.full(len(self.numbers), _NOT_DRAWN, dtype=np.int8)
        self.waiting: deque[np.ndarray] = deque()  # which lie in each chunk that is handed out
        for i, number in enumerate(self.numbers.tolist() if space.skipped else ()):
            digits = space.digits(number)
            if any(digits[axis] for axis in space.left_out(dict(enumerate(digits)))):
                self.state[i] = _REFUSED

    def of(self, block: DesignBlock) -> tuple[np.ndarray, np.ndarray]:
        """Which of them lie in a block, and their numbers inside it, ascending."""
        here = np.ones(len(self.numbers), dtype=bool)
        for axis, digit in block.digits:
            here &= self.numbers // self.space.strides[axis] % len(self.space.axes[axis]) == digit
        at = np.flatnonzero(here)
        places = block.inside(self.numbers[at])
        order = np.argsort(places, kind="stable")
        return at[order], places[order]

    def take(self, chunk: ChunkResult) -> None:
        """Figures of those that lie in a chunk."""
        index = self.waiting.popleft()
        if chunk.cloud is not None:
            values, bad, unfit = chunk.cloud
            values[:, bad] = np.nan
            self.figures[:, index], self.state[index] = values, np.where(bad, _REFUSED, unfit)

    @property
    def points(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers, figures and states of those whose chunk was done. [SI]"""
        mask = self.state != _NOT_DRAWN
        return self.numbers[mask], self.figures[:, mask], self.state[mask]


class _Archive:
    """What a sweep knows so far: the Pareto front, the best, counts and the cloud. It does not depend on the
    order in which chunks arrive."""

    def __init__(self, space: Space, top: int, cloud: int) -> None:
        k = len(space.objectives)
        self.space, self.cloud = space, _Cloud(space, cloud)
        self.wish = top, np.zeros((k, 0)), inf  # what a chunk is asked for, as `thin` has it
        self.number, self.values = self.best = np.zeros(0, dtype=np.int64), np.zeros((k, 0))
        none_missed = np.zeros(len(space.limits), dtype=np.int64)
        self.counts = Counts(space.size, none_missed, done=space.skipped, skipped=space.skipped)

    def take(self, chunk: ChunkResult) -> None:
        """Adds a chunk's candidates, counts and picks; the next one is asked for what those leave open."""
        self.counts.add(chunk.counts)
        self.cloud.take(chunk)
        top, killers, _ = self.wish
        if len(chunk.best[0]):
            arrays = (np.concatenate(pair, axis=-1) for pair in zip(self.best, chunk.best, strict=True))
            self.best = best(top, *arrays)
            if len(self.best[0]) == top:
                self.wish = top, killers, float(self.best[1][0, -1])
        if not len(chunk.number):
            return
        values = np.concatenate([self.values, chunk.values], axis=1)
        number = np.concatenate([self.number, chunk.number])
        mask = front_mask(values)
        self.values, self.number = np.ascontiguousarray(values[:, mask]), number[mask]
        if len(self.number) > FRONT_LIMIT:
            raise ScenarioError(
                f"more than {FRONT_LIMIT} designs are on the front: use fewer objectives or coarser axes"
            )
        self.wish = top, killers_of(self.values), self.wish[2]

    def result(self, seconds: float, setup_s: float) -> SweepResult:
        """All of it, the front in the order of its designs' numbers. Times in [s]."""
        self.counts.explain()
        space, order = self.space, np.argsort(self.number, kind="stable")
        order = order[front_mask(self.values[:, order].astype(np.float32))]  # what rounding alone parts is equal
        signs = np.array([[o.sign] for o in space.objectives])
        front = Front(space, self.number[order], self.values[:, order] * signs)
        top = Front(space, self.best[0], self.best[1] * signs)
        result = SweepResult(space, front, top, *self.cloud.points, self.counts, seconds, setup_s)
        result.check_objectives()
        return result


def sweep(
    space: Any,
    *,
    executor: Executor | None = None,
    chunk: int = CHUNK,
    progress: Callable[[int, int], object] = lambda place, size: None,
    preparing: Callable[[int, int], object] = lambda at, of: None,
    cancelled: Callable[[], bool] = lambda: False,
    cloud: int = CLOUD,
    top: int = 10,
    catalog: Catalog | None = None,
    zoo: Zoo | None = None,
) -> SweepResult:
    """Every design of a space: its front, a sampled cloud and counts.

    ScenarioError for a catalog or a zoo of one's own on other processes.

    Parameters
    ----------
    space, catalog, zoo : what `space_of` reads.
    executor : where chunks run; the process-wide thread pool when left out. One of other processes (anything that is
        not a ThreadPoolExecutor) makes the tables there again and needs the shipped catalog and workloads.
    chunk : designs of a chunk, at most `CHUNK`; changes no result.
    progress : called with (designs done, designs in all) after each chunk, from the calling thread.
    preparing : called with (entries made, entries in all) of each table that the designs are priced from, as it is
        made, from the calling thread. Small tables come and go; one of a costly model takes longer than the designs.
    cancelled : asked before each chunk and each entry; True ends the sweep with `SweepCancelled`.
    cloud : designs drawn evenly from the space, with all their figures.
    top : designs kept with the best first objective, of equal ones the lowest numbers.

    Returns
    -------
    result : the same bytes for any executor, chunk size and number of threads. Estimates, as the figures are.
    """
    began = time.perf_counter()
    space = space_of(space, catalog, zoo)
    space.enumerable()
    space.check_paths()
    space.check_money()

    def beat(at: int, of: int) -> None:
        if cancelled():
            raise SweepCancelled
        preparing(at, of)

    archive = _Archive(space, top, cloud)
    remote = executor is not None and not isinstance(executor, ThreadPoolExecutor)
    if remote and (space.catalog is not None or space.zoo is not None):
        raise ScenarioError("a sweep on other processes reads what ships: leave out your own catalog and workloads")
    counts, token = archive.counts, space.token if remote else ""
    setup_s, stop = 0.0, False

    def tasks() -> Iterator[tuple[Any, ...]]:
        nonlocal stop, setup_s
        try:
            at = time.perf_counter()
            for block in blocks(space, beat):
                setup_s += time.perf_counter() - at
                counts.say(block.sentences)
                index, places = archive.cloud.of(block)
                step = min(chunk, CHUNK, block.chunk)
                for lo in range(0, block.size, step):
                    if cancelled():
                        raise SweepCancelled
                    hi = min(lo + step, block.size)
                    within = slice(*np.searchsorted(places, (lo, hi)))
                    archive.cloud.waiting.append(index[within])
                    source = (token, block.digits) if remote and block.tables else block
                    yield source, lo, hi, places[within]
                at = time.perf_counter()
        except SweepCancelled:  # what has begun is still waited for
            stop = True

    def work(task: tuple[Any, ...]) -> ChunkResult | None:
        return None if stop else price_chunk(*task, *archive.wish)

    runner: Executor | None = executor
    if executor is not None and remote:  # other processes are sent each chunk with what is known by then
        sends = SimpleNamespace(submit=lambda _, task: executor.submit(price_chunk, *task, *archive.wish))
        runner = cast(Executor, sends)
    for part in run_chunks(work, tasks(), runner, _AHEAD * pool_size()):
        if part is None:  # handed out, and not begun when the sweep was cancelled; nor is any after it counted
            break
        archive.take(part)
        progress(counts.done, space.size)
    result = archive.result(time.perf_counter() - began, setup_s)
    if stop:
        error = SweepCancelled(f"cancelled after {counts.done} of {space.size} designs")
        error.result = result
        raise error
    return result


@lru_cache(maxsize=16)
def _cloud_numbers(size: int, limit: int) -> np.ndarray:
    """Numbers of the cloud's designs, ascending, read-only: all of a small space, else one drawn from each equal part
    of it."""
    edges, draw = [size * i // limit for i in range(limit + 1)] if limit else [], Random(size)
    picks = [draw.randrange(lo, hi) for lo, hi in pairwise(edges)] if size > limit else range(size)
    numbers = np.array(picks, dtype=np.int64)
    numbers.setflags(write=False)
    return numbers
