"""A space with too many designs to try each: its front looked for, by an optimiser that asks for some of them.

An optimiser speaks two words, `ask` and `tell`: pymoo's NSGA-II does.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from math import inf, prod
from typing import Any

import numpy as np

from engine.devices.common.contract import Unsupported
from engine.scenario import ScenarioError
from engine.sweep.goals import FIGURES
from engine.sweep.pricing.blocks import DesignBlock, block_at, figures_of
from engine.sweep.pricing.structure import Structural, numeric_axes
from engine.sweep.result import Counts, Front, SweepResult
from engine.sweep.run import CLOUD, SweepCancelled, sweep, thin
from engine.sweep.space import SIZES, Space, space_of

POPULATION = 100
_IDLE = 10  # generations without a design that is new, after which a population starts afresh
_UNABLE = 1e6  # by how much a refused design misses its limits; any excess of one that runs is less
_UNFIT = 1e3  # the same of one that does not fit
_TABLE_FROM = 100  # designs of one structure, from which its tables are cheaper than one at a time
_TABLED = 4096  # values of its axes, or batches and lengths together, beyond which they are not
_SETUP_S = 3.0  # that tables of one structure may take


class Genetic:
    """NSGA-II (Deb 2002) over digits, of pymoo; neighbours on an axis are taken as alike.

    ScenarioError where pymoo is not installed.
    """

    def __init__(self, radix: Sequence[int], objectives: int, seed: int) -> None:
        try:
            from pymoo.algorithms.moo.nsga2 import NSGA2
            from pymoo.core.problem import Problem
            from pymoo.operators.crossover.sbx import SBX
            from pymoo.operators.mutation.pm import PM
            from pymoo.operators.repair.rounding import RoundingRepair
            from pymoo.operators.sampling.rnd import IntegerRandomSampling
        except ImportError:
            raise ScenarioError("a search needs the package pymoo, which is not installed: pip install pymoo") from None
        self._axes = len(radix)
        self._open = np.flatnonzero(np.array(radix) > 1)
        high = np.array(radix)[self._open] - 1
        make: Any = Problem  # without an evaluation of its own: what designs cost is told
        self._problem = make(n_var=len(high), n_obj=objectives, n_ieq_constr=1, xl=0 * high, xu=high, vtype=int)
        repair = RoundingRepair()
        self._algorithm = NSGA2(
            pop_size=POPULATION,
            sampling=IntegerRandomSampling(),
            crossover=SBX(prob=0.9, eta=15, vtype=float, repair=repair),
            mutation=PM(prob=1.0, eta=10, vtype=float, repair=repair),
            eliminate_duplicates=True,
        )
        self._algorithm.setup(self._problem, termination=("n_gen", 10**9), seed=seed, verbose=False)
        self._offspring: Any = None

    def ask(self) -> np.ndarray:
        """Digits of designs to try next, their position on each axis, (n, axes); none where it knows no more."""
        self._offspring = self._algorithm.ask() if self._algorithm.has_next() else None
        if self._offspring is None or not len(self._offspring):
            return np.zeros((0, self._axes), dtype=np.int64)
        digits = np.zeros((len(self._offspring), self._axes), dtype=np.int64)
        digits[:, self._open] = self._offspring.get("X")
        return digits

    def tell(self, cost: np.ndarray, excess: np.ndarray) -> None:
        """Of those: what is to be small, (n, objectives), and by how much each misses limits, (n,), 0 where kept."""
        from pymoo.core.evaluator import Evaluator
        from pymoo.problems.static import StaticProblem

        problem = StaticProblem(self._problem, F=cost, G=excess[:, None])
        Evaluator().eval(problem, self._offspring)
        self._algorithm.tell(infills=self._offspring)


class Figures:
    """Figures of a space's designs by number, through `evaluate`; where many share their structure, from its tables.

    Both give the same bits, so which of them priced a design changes nothing.
    """

    def __init__(self, space: Space, beat: Callable[[int, int], None] = lambda at, of: None) -> None:
        def patient(at: int, of: int) -> None:
            beat(at, of)
            if time.monotonic() > self._until:
                raise TimeoutError  # tables would take longer than what they spare

        self.space, self._beat, self._until = space, patient, inf
        numeric = set(numeric_axes(space))
        self._fixed = [i for i in range(len(space.axes)) if i not in numeric]
        sizes = [i for i in numeric if space.axes[i].paths & SIZES]
        values = sum(len(space.axes[i]) for i in numeric)
        self._small = max(values, prod(len(space.axes[i]) for i in sizes)) <= _TABLED
        self._requests: Counter[tuple[int, ...]] = Counter()
        self._blocks: dict[tuple[int, ...], DesignBlock | None] = {}
        self._known: dict[Any, Any] = {}

    def _block(self, number: int) -> DesignBlock | None:
        """The tables that price a design; None where too few have asked for them."""
        key = tuple(number // self.space.strides[i] % len(self.space.axes[i]) for i in self._fixed)
        self._requests[key] += 1
        if self._small and self._requests[key] == _TABLE_FROM:
            self._until = time.monotonic() + _SETUP_S
            try:
                digits = tuple(zip(self._fixed, key, strict=True))
                self._blocks[key] = block_at(self.space, digits, self._known, self._beat)
            except (Structural, TimeoutError):
                self._blocks[key] = None
        return self._blocks.get(key)

    def of(self, number: int) -> tuple[np.ndarray, int, str]:
        """(figures, 0 it fits, 1 it does not, 2 refused, the sentence why) of a design. SI."""
        block = self._block(number)
        if block is not None:
            values, bad, unfit = block.fill(0, 1, FIGURES, block.inside(np.array([number])))
            if not bad[0]:
                return values[:, 0], int(unfit[0]), ""
        try:
            figures = figures_of(self.space, number)
        except (ScenarioError, Unsupported) as refused:
            return np.full(len(FIGURES), np.nan), 2, str(refused)
        return np.array([figures[name] for name in FIGURES]), int(not figures["fits"]), ""


class _Tried:
    """What was tried so far: figures, what they cost the objectives, and by how much limits are missed."""

    def __init__(self, space: Space, limit: int, figures: Figures) -> None:
        self.space, self.price, self.limit = space, figures.of, limit
        self.place: dict[int, int] = {}
        self.numbers = np.zeros(limit, dtype=np.int64)
        self.figures = np.full((len(FIGURES), limit), np.nan)
        self.state = np.zeros(limit, dtype=np.int8)
        self.counts = Counts(space.size, np.zeros(len(space.limits), dtype=np.int64))
        self.rows = [FIGURES.index(o.figure) for o in space.objectives]
        self.signs = np.array([o.sign for o in space.objectives])

    def number(self, digits: np.ndarray) -> int:
        """Number of a design, of a skipped one that of the design that stands for it."""
        out = self.space.left_out(dict(enumerate(digits)))
        return sum(int(d) * s for i, (d, s) in enumerate(zip(digits, self.space.strides)) if i not in out)

    def add(self, number: int) -> None:
        """Prices one design."""
        at = self.place[number] = len(self.place)
        self.numbers[at] = number
        self.figures[:, at], self.state[at], why = self.price(number)
        if why:
            self.counts.say((why,))

    def costs(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of designs by their place: objectives to be small (n, k), excess over limits (n,), limits missed (l, n)."""
        values, state = self.figures[:, at], self.state[at]
        cost = values[self.rows].T * self.signs
        over = [limit.excess(values[FIGURES.index(limit.figure)]) for limit in self.space.limits]
        gap = np.reshape(over, (len(over), len(at)))
        missed = ~(gap <= 0)
        excess = np.where(missed, np.nan_to_num(np.minimum(gap, _UNFIT), nan=_UNFIT), 0.0).sum(axis=0)
        excess += _UNFIT * ((state == 1) & self.space.fits)
        excess[(state == 2) | np.isnan(cost).any(axis=1)] = _UNABLE
        return np.where(np.isfinite(cost), cost, _UNABLE), excess, missed

    def result(self, cloud: int, top: int, seconds: float) -> SweepResult:
        """What a sweep hands over, of what was tried."""
        n, space, counts = len(self.place), self.space, self.counts
        order = np.argsort(self.numbers[:n], kind="stable")
        numbers, figures, state = self.numbers[order], self.figures[:, order], self.state[order]
        values = np.ascontiguousarray(figures[[FIGURES.index(name) for name in space.figures]])
        killers = np.zeros((len(space.objectives), 0))
        chunk = thin(values, state == 2, state == 1, numbers.take, space, top, killers)
        counts.add(chunk.counts)
        signs = self.signs[:, None]
        picks = np.linspace(0, n - 1, min(cloud, n)).astype(np.int64)
        return SweepResult(
            space,
            Front(space, chunk.number, chunk.values * signs),
            Front(space, chunk.best[0], chunk.best[1] * signs),
            numbers[picks],
            figures[:, picks],
            state[picks],
            counts,
            seconds,
        )


def _generation(archive: _Tried, generation: np.ndarray, beat: Callable[[], None]) -> np.ndarray | None:
    """Places of the designs that were asked for, the new ones priced; None where no evaluations are left for them."""
    places = []
    for digits in generation:
        number = archive.number(digits)
        if number not in archive.place:
            if len(archive.place) == archive.limit:
                return None
            beat()
            archive.add(number)
        places.append(archive.place[number])
    return np.array(places, dtype=np.int64)


def _led(archive: _Tried, leaders: Iterator[Any], beat: Callable[[], None]) -> None:
    """Tries designs until all evaluations are spent: one leader after the other, each until it finds nothing new."""
    for leader in leaders:
        idle = 0
        while idle < _IDLE and len(offspring := leader.ask()):
            before = len(archive.place)
            places = _generation(archive, offspring, beat)
            if places is None:
                return
            leader.tell(*archive.costs(places)[:2])
            idle = idle + 1 if len(archive.place) == before else 0


def search(
    space: Any,
    evaluations: int,
    *,
    seed: int = 0,
    optimiser: Callable[[Sequence[int], int, int], Any] = Genetic,
    figures: Figures | None = None,
    progress: Callable[[int, int], object] = lambda at, of: None,
    cancelled: Callable[[], bool] = lambda: False,
    cloud: int = CLOUD,
    top: int = 10,
) -> SweepResult:
    """The front of a space as far as some evaluations find it: a bound from inside, every design on it real.

    ScenarioError for a count of evaluations that is none, where nothing that is tried runs, or without pymoo.

    Parameters
    ----------
    space : what `space_of` reads, of up to 10^15 designs. One of no more designs than evaluations is swept whole.
    evaluations : different designs to try.
    seed : of the optimiser; the same seed finds the same.
    optimiser : makes what leads the search, of the axes' lengths, the number of objectives and a seed: something with
        `ask` and `tell` as `Genetic` has them.
    figures : of this space, where another search has priced some of it already.
    progress : called with (designs tried, designs to try), from the calling thread.
    cancelled : asked before each design; True ends the search with `SweepCancelled`.
    cloud : designs to draw, picked evenly from those tried.
    top : designs kept with the best first objective.

    Returns
    -------
    result : as a sweep's; its counts are of the designs tried. Estimates, as the figures are.
    """
    began = time.perf_counter()
    if evaluations < 1:
        raise ScenarioError(f"search is {evaluations}: a whole number of at least 1 is allowed")
    if seed < 0:
        raise ScenarioError(f"seed is {seed}: a whole number of at least 0 is allowed")
    space = space_of(space)
    space.check_paths()
    space.check_money()
    if space.size <= evaluations:
        return sweep(space, progress=progress, cancelled=cancelled, cloud=cloud, top=top)

    def beat(*_: int) -> None:
        if cancelled():
            raise SweepCancelled(f"cancelled after {len(archive.place)} of {evaluations} evaluations")
        progress(len(archive.place), evaluations)

    archive = _Tried(space, evaluations, figures or Figures(space, beat))
    radix = [len(axis) for axis in space.axes]
    cancel: SweepCancelled | None = None
    try:
        _led(archive, (optimiser(radix, len(space.objectives), seed + start) for start in count()), beat)
        beat()
    except SweepCancelled as error:
        cancel = error
    result = archive.result(cloud, top, time.perf_counter() - began)
    if cancel is not None:
        cancel.result = result
        raise cancel
    counts = result.counts
    if counts.refused == counts.done:
        raise ScenarioError(f"none of {counts.done:,} designs tried can run: {next(iter(counts.sentences))}")
    result.check_objectives()
    return result
