"""Serving as axes of a sweep: clients and a scheduler's levers beside any setting of a scenario, and the front.

Every operating point is answered in closed form (`engine.kernels.events.closed_forms`): means of a closed loop. Those
that no other beats in output tokens per second of a device and of a user are run through the calendar of passes until
the front is of such alone. Estimates, each row says which.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.devices.common.contract import Unsupported
from engine.kernels.events.closed_forms import ANSWER, POINT, steady_points
from engine.kernels.search.pareto import front_mask
from engine.scenario import Scenario, ScenarioError, encode
from engine.scenario.overrides import apply
from engine.scenario.token import brief
from engine.sweep.axis import Axis, axis_values
from engine.sweep.goals import Limit
from engine.sweep.space import Space, space_of
from engine.traffic.engines.calendar import ClosedLoop
from engine.traffic.engines.operating_points import Engine, engine
from engine.traffic.engines.pass_run import rules_of
from engine.traffic.engines.scheduler import POLICIES, Scheduler
from engine.traffic.service import TrafficError

HEAD = "serving."
LEVERS = {"clients": 0, "policy": "", **{name: value for name, value in vars(Scheduler()).items() if value is not None}}
"""What may follow `serving.` in an axis, and what its values are like: clients of a closed loop, the policy that the
rest is by default, and fields of `Scheduler`."""
_POINTS_MOST, _RUNS_MOST = 2_000_000, 400
FIGURES = ("requests_per_s", "ttft_s", "tpot_s", "output_tokens_per_s_per_device", "output_tokens_per_s_per_user")


@dataclass(eq=False)
class ServingSweep:
    """Operating points of a space: `settings`, `figures` (`FIGURES`) and the token of each, and which are `simulated`.

    `front`: places of the points that keep the limits and that no other beats, by rising rate of a user. `refused`: why
    scenarios or points are none, how often.
    """

    settings: list[Mapping[str, Any]] = field(default_factory=list)
    figures: list[list[float]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    simulated: list[bool] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    front: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    seconds: float = 0.0
    pricing_s: float = 0.0
    _runs: list[tuple[Engine, Scheduler, int]] = field(default_factory=list, repr=False)

    @property
    def values(self) -> NDArray[np.float64]:
        """Figures of all points, (`FIGURES`, n). [SI]"""
        return np.array(self.figures).T

    def rows(self, places: Sequence[int] | None = None) -> Iterator[dict[str, Any]]:
        """Points as flat rows, those of ``places`` or all: settings, figures, how they were found, the token."""
        for at in range(len(self.settings)) if places is None else places:
            found = dict(zip(FIGURES, self.figures[at], strict=True))
            how = "calendar" if self.simulated[at] else "closed form"
            yield dict(self.settings[at]) | found | {"how": how, "token": self.tokens[at]}

    def _refuse(self, why: object, count: int) -> None:
        self.refused[str(why)] = self.refused.get(str(why), 0) + count

    def price(self, space: Space, number: int, choices: Sequence[Mapping[str, Any]]) -> None:
        """Prices every choice of one scenario's levers in closed form."""
        by_rules: dict[Scheduler, list[tuple[Mapping[str, Any], Scheduler]]] = {}
        for choice in choices:
            try:
                own = scheduler_of(choice)
            except TrafficError as why:
                self._refuse(why, 1)
                continue
            alike = replace(own, budget=8192, max_seqs=256, kv_blocks=None, chunked=True, block=1)
            by_rules.setdefault(alike, []).append((choice, own))
        widest = [own for alike in by_rules.values() for _, own in alike]
        if not widest:
            return
        try:
            scenario = space.scenario(number)
            most = Scheduler(
                budget=max(own.budget for own in widest), max_seqs=max(own.max_seqs for own in widest), block=1,
                acceptance=widest[0].acceptance,
            )  # fmt: skip
            whole = engine(scenario, most, {})
        except (ScenarioError, TrafficError, Unsupported) as why:
            self._refuse(why, len(choices))
            return
        token = encode(scenario)
        shown = {path: value for path, value in space.values(number).items() if len(space.axes) > 1 or path != "batch"}
        for alike, points in by_rules.items():
            self._choices(scenario, whole, alike, points, shown, token)

    def _choices(
        self, scenario: Scenario, whole: Engine, alike: Scheduler, points: Any, shown: dict[str, Any], token: str
    ) -> None:
        """Prices choices that differ in clients, budget, seats, cache and chunks alone."""
        room, ranks = whole.scheduler.kv_blocks or 2**40, whole.scheduler.ranks
        engines = whole.scheduler.replicas * ranks
        prompt, made = float(scenario.inputs), float(scenario.outputs)
        rows = np.empty((len(points), len(POINT)))
        for row, (choice, own) in zip(rows, points, strict=True):
            tokens = min(room, own.kv_blocks * own.block if own.kv_blocks else room)
            kept = (prompt + 0.5 * made) / (prompt + (0.5 + 0.5 * own.reserve) * made)
            each = max(1.0, choice.get("clients", 1) / engines)
            row[:] = each, own.budget, own.max_seqs, tokens * kept, own.chunked
        out, begun = np.empty((len(points), len(ANSWER))), time.perf_counter()
        makes = 1.0 + float(np.cumprod(alike.acceptance).sum())
        hit = float(min(int(alike.prefix_hit * prompt), prompt - 1))
        steady_points(0, len(points), rows, rules_of(alike, 0, 0), whole.times, prompt, made, hit, makes, out)
        self.pricing_s += time.perf_counter() - begun
        for (choice, own), (rate, first, gap) in zip(points, out.tolist(), strict=True):
            if not own.chunked and own.budget < prompt - hit:
                self._refuse(f"budget is {own.budget}: without chunks it must take a whole prompt", 1)
                continue
            used = min(engines, choice.get("clients", 1))
            tokens = used * rate * made / whole.devices
            self.figures.append([used * rate, first, gap, tokens, 1.0 / gap if gap > 0 else np.nan])
            self.settings.append(shown | {HEAD + name: value for name, value in choice.items()})
            self.simulated.append(False)
            self.tokens.append(token)
            self._runs.append((whole, own, choice.get("clients", 1)))

    def settle(self, limits: Sequence[Limit], seed: int) -> None:
        """Runs the front's points through the calendar until all of them are."""
        for _ in range(_RUNS_MOST):
            self.front = self._best(limits)
            open_points = [at for at in self.front if not self.simulated[at]]
            if not open_points or sum(self.simulated) >= _RUNS_MOST:
                return
            for at in open_points:
                self._simulate(at, seed)
        self.front = self._best(limits)

    def _best(self, limits: Sequence[Limit]) -> NDArray[np.int64]:
        values = self.values
        kept = np.ones(values.shape[1], bool)
        for limit in limits:
            value = values[FIGURES.index(limit.figure)]
            kept &= (value <= limit.value) if limit.most else (value >= limit.value)
        places = np.flatnonzero(kept)
        front = places[front_mask(-values[3:, places])] if places.size else places
        _, first = np.unique(values[3:, front], axis=1, return_index=True)  # of points alike the first
        front = front[np.sort(first)]
        return front[np.argsort(values[4, front], kind="stable")]

    def _simulate(self, at: int, seed: int) -> None:
        """Runs one point through the calendar in place of its closed form."""
        whole, own, clients = self._runs[at]
        room = (whole.scheduler.kv_blocks or 2**40) // own.block
        blocks = min(room, own.kv_blocks or room)
        rules = replace(own, kv_blocks=blocks, replicas=whole.scheduler.replicas, ranks=whole.scheduler.ranks)
        self.simulated[at] = True
        try:
            point = replace(whole, scheduler=rules).at(ClosedLoop(clients), seed=seed)
        except TrafficError as why:
            self._refuse(why, 1)
            self.figures[at] = [np.nan] * len(FIGURES)
            return
        report = point.report
        gap = np.nan if report.tpot is None else report.tpot.mean.value
        first = (report.steady_ttft or report.ttft).mean.value
        self.figures[at] = [report.requests_per_s, first, gap, point.tokens_per_s_per_device, 1.0 / gap]


def has_serving_axes(data: Any) -> bool:
    """Whether plain data of a space has axes of serving."""
    axes = data.get("axes") if isinstance(data, Mapping) else None
    return isinstance(axes, Mapping) and any(str(path).startswith(HEAD) for path in axes)


def serving_sweep(data: Mapping[str, Any], seed: int = 0) -> ServingSweep:
    """Every operating point of a space whose axes of serving begin with ``serving.``, as ``serving.clients``.

    Other axes are settings of its scenario. Limits are on ``ttft_s`` and ``tpot_s``, means [s]. TrafficError or
    ScenarioError for what is no such space.
    """
    begun = time.perf_counter()
    levers = [Axis(path, axis_values(path, v)) for path, v in data["axes"].items() if path.startswith(HEAD)]
    rest = {path: values for path, values in data["axes"].items() if not path.startswith(HEAD)}
    space = space_of({**data, "axes": rest or {"batch": [1]}})
    _checked(levers, space)
    choices = [dict(zip((a.path.removeprefix(HEAD) for a in levers), v, strict=True))
               for v in itertools.product(*(axis.values for axis in levers))]  # fmt: skip
    if len(choices) * space.size > _POINTS_MOST:
        raise TrafficError(
            f"axes make {len(choices) * space.size:,} operating points; at most {_POINTS_MOST:,} are tried"
        )
    points = ServingSweep()
    for number in range(space.size):
        points.price(space, number, choices)
    if not points.settings:
        raise TrafficError(f"no operating point can run: {next(iter(points.refused), 'there is none')}")
    points.settle(space.limits, seed)
    points.seconds = time.perf_counter() - begun
    return points


def _checked(levers: Sequence[Axis], space: Space) -> None:
    """TrafficError for an axis or a value that no lever takes, or a limit that a point has no figure of."""
    for axis in levers:
        name = axis.path.removeprefix(HEAD)
        if name not in LEVERS:
            raise TrafficError(f"axis {axis.path[:60]}: serving has {', '.join(LEVERS)}")
        for value in axis.values:
            if name == "policy" and value not in POLICIES:
                raise TrafficError(f"{axis.path} is {brief(value)}; it must be one of {', '.join(POLICIES)}")
    if any("batch" in axis.paths and len(axis) > 1 for axis in space.axes):
        raise TrafficError("axis batch: an engine sets it from pass to pass; serving.max_seqs is its most")
    for limit in space.limits:
        if limit.figure not in FIGURES:
            raise TrafficError(f"limit {limit.figure}: an operating point has {', '.join(FIGURES)}")


def varied(
    scenario: Scenario, scheduler: Scheduler, axes: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[dict[str, Any], Scenario, Scheduler]]:
    """A scenario and its scheduler with every choice of axes as `serving_sweep` has them, clients and policy apart.

    TrafficError or ScenarioError for an axis or a value that there is none of.
    """
    for values in itertools.product(*axes.values()):
        settings = dict(zip(axes, values, strict=True))
        own, rules = scenario, scheduler
        for path, value in settings.items():
            name = path.removeprefix(HEAD)
            if name == path:
                own = apply(own, path, value)
            elif name in ("clients", "policy") or name not in LEVERS:
                raise TrafficError(f"axis {path[:60]}: serving has {', '.join(list(LEVERS)[2:])} here")
            else:
                rules = replace(rules, **{name: value})
        yield settings, own, rules


def scheduler_of(choice: Mapping[str, Any]) -> Scheduler:
    """The scheduler that levers of a point mean: its policy's, with what is set. TrafficError for what it refuses."""
    fields = {name: value for name, value in choice.items() if name not in ("clients", "policy")}
    clients = choice.get("clients", 1)
    if type(clients) is not int or clients < 1:
        raise TrafficError(f"serving.clients is {brief(clients)}; it must be a whole number from 1")
    return replace(POLICIES[str(choice.get("policy", "vllm"))], **fields)
