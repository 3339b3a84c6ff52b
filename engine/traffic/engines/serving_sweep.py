"""Serving as axes of a sweep: clients and a scheduler's levers beside any setting of a scenario, and the front.

Every operating point is answered in closed form (`engine.kernels.events.closed_forms`): means of a closed loop. Those
that no other beats in output tokens per second of a device and of a user are run through the calendar of passes until
the front is of such alone, and so are all limits at a percentile there. Estimates, each row says which.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.devices.common.contract import Unsupported
from engine.kernels.events.closed_forms import ANSWER, POINT, steady_points
from engine.kernels.search.pareto import front_mask
from engine.scenario import Scenario, ScenarioError, encode
from engine.sweep.goals import Limit
from engine.sweep.result import Counts, Front, SweepResult, shown
from engine.traffic.engines.calendar import ClosedLoop
from engine.traffic.engines.operating_points import Engine, engine
from engine.traffic.engines.operating_space import (
    FIGURES,
    GOODPUT,
    OBJECTIVES,
    TAILS,
    OperatingSpace,
    operating_space_of,
    scheduler_of,
)
from engine.traffic.engines.pass_run import rules_of
from engine.traffic.engines.pass_times import acceptance_of
from engine.traffic.engines.scheduler import Scheduler
from engine.traffic.scenario_load import cache_blocks, usual_policy
from engine.traffic.service import TrafficError

_RUNS_MOST = 400
_ENDLESS = 2**40  # tokens of a cache that is not kept
HOW = ("closed form", "calendar")
"""How a point's figures were found, by whether it was simulated."""


@dataclass(eq=False)
class ServingSweep:
    """Operating points of a space: their `numbers`, `figures` (the space's), and which are `simulated`: others have no
    percentiles and no goodput.

    `front`: places of the points that keep the limits and that no other beats, by rising rate of a user. `refused`: why
    scenarios or points are none, how often.
    """

    space: OperatingSpace
    numbers: list[int] = field(default_factory=list)
    figures: list[list[float]] = field(default_factory=list)
    simulated: list[bool] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    front: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    seconds: float = 0.0
    pricing_s: float = 0.0
    _runs: list[tuple[Engine, int]] = field(default_factory=list, repr=False)

    @property
    def values(self) -> NDArray[np.float64]:
        """Figures of all points, (figures of the space, n). [SI]"""
        return np.array(self.figures).reshape(-1, len(self.space.figures)).T

    def rows(self, places: Sequence[int] | None = None) -> Iterator[dict[str, Any]]:
        """Points as flat rows, those of ``places`` or all: settings, figures, how they were found, the token."""
        for at in range(len(self.numbers)) if places is None else places:
            number = self.numbers[at]
            known = (None if np.isnan(value) else value for value in self.figures[at])
            found = dict(zip(self.space.figures, known, strict=True))
            settings = {path: shown(value) for path, value in self.space.values(number).items()}
            how, token = HOW[self.simulated[at]], encode(self.space.scenario(number))
            yield settings | found | {"how": how, "token": token}

    @property
    def result(self) -> SweepResult:
        """The same as any sweep's result: its cloud is every point, and says which are `simulated`."""
        order, values = np.argsort(self.numbers), np.vstack([self.values, np.array(self.simulated, float)])
        names = (*self.space.figures, "simulated")
        numbers = np.array(self.numbers, np.int64)
        goals = [FIGURES.index(name) for name in OBJECTIVES]
        front = Front(self.space, numbers[self.front], values[goals][:, self.front])
        kept = [self._kept([limit]) for limit in self.space.limits]
        refused, ran = sum(self.refused.values()), int(np.isfinite(values[0]).sum())
        counts = Counts(
            self.space.size, np.array([(~inside).sum() for inside in kept]), ran + refused, refused=refused,
            kept=int(self._kept(self.space.limits).sum()), sentences=dict.fromkeys(self.refused),
        )  # fmt: skip
        cloud = numbers[order], values[:, order], np.zeros(numbers.size, np.int8)
        set_up = self.seconds - self.pricing_s
        return SweepResult(self.space, front, front, *cloud, counts, self.seconds, set_up, names)

    def _refuse(self, why: object, count: int) -> None:
        self.refused[str(why)] = self.refused.get(str(why), 0) + count

    def price(self, system: int) -> None:
        """Prices every choice of one scenario's levers in closed form."""
        by_rules: dict[Scheduler, list[tuple[int, int, Scheduler]]] = {}
        choices = self.space.choices
        try:
            scenario = self.space.systems.scenario(system)
            usual, chances = usual_policy(scenario), acceptance_of(scenario)
        except (ScenarioError, Unsupported) as why:
            self._refuse(why, len(choices))
            return
        if scenario.scheme == "single" and scenario.devices > 1:
            why = f"scheme is 'single': one of {scenario.devices} devices works; replicas or tensor use them all"
            self._refuse(why, len(choices))
            return
        for at, choice in enumerate(choices):
            try:
                rules = scheduler_of(choice, "vllm" if "max_seqs" in choice else usual)
            except ScenarioError as why:
                self._refuse(why, 1)
                continue
            rules = replace(rules, acceptance=rules.acceptance or chances)
            alike = replace(rules, budget=8192, max_seqs=256, kv_blocks=None, chunked=True, block=1)
            point = (system * len(choices) + at, choice.get("clients", 1), rules)
            by_rules.setdefault(alike, []).append(point)
        widest = [rules for points in by_rules.values() for _, _, rules in points]
        engines: dict[Scheduler, Engine] = {}
        for alike, points in by_rules.items():
            envelope = Scheduler(
                budget=max(rules.budget for rules in widest), max_seqs=max(rules.max_seqs for rules in widest), block=1,
                memory_share=alike.memory_share, free_share=alike.free_share,
                passes_apart=alike.passes_apart, acceptance=alike.acceptance,
            )  # fmt: skip
            try:
                whole = engines.setdefault(envelope, engines.get(envelope) or engine(scenario, envelope, {}))
            except (ScenarioError, TrafficError, Unsupported) as why:
                self._refuse(why, len(points))
            else:
                self._choices(scenario, whole, alike, points)

    def _choices(
        self, scenario: Scenario, whole: Engine, alike: Scheduler, points: list[tuple[int, int, Scheduler]]
    ) -> None:
        """Prices points that differ in clients, budget, seats, cache and chunks alone."""
        ranks, longest, base = (
            whole.scheduler.ranks,
            scenario.inputs + scenario.outputs,
            scenario.with_(batch=1, outputs=1),
        )
        engines = whole.scheduler.replicas * ranks

        @cache
        def room_of(budget: int, max_seqs: int) -> int:
            rules = replace(alike, budget=budget, max_seqs=max_seqs)
            return cache_blocks(base, rules, longest) or _ENDLESS

        prompt, made = float(scenario.inputs), float(scenario.outputs)
        rows = np.empty((len(points), len(POINT)))
        for row, (_, clients, rules) in zip(rows, points, strict=True):
            room = room_of(rules.budget, rules.max_seqs)
            tokens = min(room, rules.kv_blocks * rules.block if rules.kv_blocks else room)
            kept = (prompt + 0.5 * made) / (prompt + (0.5 + 0.5 * rules.reserve) * made)
            peers_busy = min(1.0, max(0.0, clients / whole.scheduler.replicas - 1.0) / max(1, ranks - 1))
            idle = 1.0 - peers_busy if ranks > 1 else 0.0
            row[:] = max(1.0, clients / engines), rules.budget, rules.max_seqs, tokens * kept, rules.chunked, idle
        out, begun = np.empty((len(points), len(ANSWER))), time.perf_counter()
        makes = 1.0 + float(np.cumprod(alike.acceptance).sum())
        hit = float(min(int(alike.prefix_hit * prompt), prompt - 1))
        rules = rules_of(replace(alike, ranks=ranks), 0, 0)
        steady_points(0, len(points), rows, rules, whole.times, prompt, made, hit, makes, out)
        self.pricing_s += time.perf_counter() - begun
        for (number, clients, rules), (rate, first, gap) in zip(points, out.tolist(), strict=True):
            if not rules.chunked and rules.budget < prompt - hit:
                self._refuse(f"budget is {rules.budget}: without chunks it must take a whole prompt", 1)
                continue
            need, fit = -(-longest // rules.block), room_of(rules.budget, rules.max_seqs) // rules.block
            blocks = rules.kv_blocks or fit
            if not need <= blocks <= fit:
                why = f"a request needs {need:,} of {rules.block} tokens, the devices have room for {fit:,}"
                self._refuse(f"kv_blocks is {blocks:,}: {why}", 1)
                continue
            used = min(engines, clients)
            tokens = used * rate * made / whole.devices
            means = [used * rate, first, gap, tokens, 1.0 / gap if gap > 0 else np.nan]
            self.figures.append(means + [np.nan] * (len(self.space.figures) - len(means)))
            self.numbers.append(number)
            self.simulated.append(False)
            full_rules = replace(rules, kv_blocks=blocks, replicas=whole.scheduler.replicas, ranks=ranks)
            self._runs.append((replace(whole, scheduler=full_rules, limits=self.space.goods), clients))

    def settle(self, seed: int, cancelled: Callable[[], bool]) -> None:
        """Runs the front's points through the calendar until all of them are."""
        while not cancelled():
            self.front = self._best()
            open_points = [at for at in self.front if not self.simulated[at]]
            if not open_points or sum(self.simulated) >= _RUNS_MOST:
                return
            for at in itertools.takewhile(lambda _: not cancelled(), open_points):
                self._simulate(at, seed)
        self.front = self._best()

    def _kept(self, limits: Sequence[Limit]) -> NDArray[np.bool_]:
        """Which points keep some limits; one that is not simulated one at a percentile where its mean does."""
        kept, figures = np.ones(len(self.numbers), bool), dict(zip(self.space.figures, self.values, strict=True))
        means = {"steady_ttft": figures["ttft_s"]}
        means["steady_e2e"] = np.array([clients for _, clients in self._runs]) / figures["requests_per_s"]
        for limit in limits:
            found = figures[limit.figure]
            if limit.figure in TAILS:
                found = np.where(self.simulated, found, means.get(TAILS[limit.figure][0], figures["tpot_s"]))
            kept &= limit.excess(found) <= 0.0
        return kept

    def _best(self) -> NDArray[np.int64]:
        values, places = self.values, np.flatnonzero(self._kept(self.space.limits))
        front = places[front_mask(-values[3:5, places])] if places.size else places
        _, first = np.unique(values[3:5, front], axis=1, return_index=True)  # of points alike the first
        front = front[np.sort(first)]
        return front[np.argsort(values[4, front], kind="stable")]

    def _simulate(self, at: int, seed: int) -> None:
        """Runs one point through the calendar in place of its closed form."""
        subject, clients = self._runs[at]
        self.simulated[at] = True
        try:
            point = subject.at(ClosedLoop(clients), seed=seed)
        except TrafficError as why:
            self._refuse(why, 1)
            self.figures[at] = [np.nan] * len(self.space.figures)
            return
        report = point.report

        def of(time: str, metric: str) -> float:
            times = getattr(report, time) or getattr(report, time.removeprefix("steady_"))
            return np.nan if times is None else float(getattr(times, metric).value)

        first, gap = of("steady_ttft", "mean"), of("tpot", "mean")
        further = {name: of(*TAILS[name]) for name in self.space.figures if name in TAILS}
        further[GOODPUT] = np.nan if report.goodput_per_s is None else report.goodput_per_s
        user = point.tokens_per_s_per_user or 1.0 / gap
        means = [report.requests_per_s, first, gap, point.tokens_per_s_per_device, user]
        self.figures[at] = means + [further[name] for name in self.space.figures[len(FIGURES) :]]


def serving_sweep(
    source: OperatingSpace | Mapping[str, Any],
    seed: int = 0,
    progress: Callable[[int, int], object] = lambda done, size: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> ServingSweep:
    """Every operating point of a space, or of its plain data as `space_of` reads it.

    Limits are on ``ttft_s`` and ``tpot_s``, means [s], or at a percentile as ``ttft:p99=300ms``, for which a point in
    closed form is tried where its mean keeps it. A TTFT or an end-to-end time leaves the first request of each client
    out, as all of those come at once; goodput has them. ``progress`` hears of the points priced, of how many; once
    ``cancelled`` says so, what is priced is all there is. TrafficError or ScenarioError for what is no such space.
    """
    begun = time.perf_counter()
    if isinstance(source, Mapping):
        source = operating_space_of(source)
    source.systems.check_paths()
    points, count = ServingSweep(source), len(source.choices)
    for system in itertools.takewhile(lambda _: not cancelled(), range(source.systems.size)):
        points.price(system)
        progress((system + 1) * count, source.size)
    if not points.numbers and not cancelled():
        raise TrafficError(f"no operating point can run: {next(iter(points.refused), 'there is none')}")
    points.settle(seed, cancelled)
    points.seconds = time.perf_counter() - begun
    return points
