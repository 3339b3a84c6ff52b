"""Serving as axes of a sweep: clients and a scheduler's levers beside any setting of a scenario, and the front.

Every operating point is answered in closed form (`engine.kernels.events.closed_forms`): means of a closed loop. Those
that no other beats in output tokens per second of a device and of a user are run through the calendar of passes until
the front is of such alone. Estimates, each row says which.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.devices.common.contract import Unsupported
from engine.kernels.events.closed_forms import ANSWER, POINT, steady_points
from engine.kernels.search.pareto import front_mask
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario, ScenarioError, encode
from engine.scenario.overrides import apply
from engine.scenario.token import boundary, brief
from engine.sweep.axis import Axis
from engine.sweep.goals import Limit, Objective
from engine.sweep.result import Counts, Front, SweepResult, shown
from engine.sweep.space import Space, space_of
from engine.traffic.engines.calendar import ClosedLoop
from engine.traffic.engines.operating_points import Engine, engine
from engine.traffic.engines.pass_run import rules_of
from engine.traffic.engines.pass_times import acceptance_of
from engine.traffic.engines.priority import parse
from engine.traffic.engines.scheduler import POLICIES, Scheduler, policy_of
from engine.traffic.scenario_load import usual_policy
from engine.traffic.service import TrafficError

HEAD = "serving."
_DERIVED = ("preempt", "swap_s", "swap_blocks", "ranks", "replicas")  # of a scenario's own host and devices
LEVERS = {"clients": 0, "policy": ""} | {k: v for k, v in vars(Scheduler(kv_blocks=1)).items() if k not in _DERIVED}
"""What may follow `serving.` in an axis, and what its values are like: clients of a closed loop, the policy that the
rest is by default, and fields of `Scheduler`."""
_SWITCH = {"on": True, "true": True, "off": False, "false": False}
_KINDS: dict[type, str] = {bool: "on or off", int: "a whole number", float: "a number", tuple: "numbers in a list"}
_POINTS_MOST, _RUNS_MOST = 2_000_000, 400
FIGURES = ("requests_per_s", "ttft_s", "tpot_s", "output_tokens_per_s_per_device", "output_tokens_per_s_per_user")
OBJECTIVES = (FIGURES[4], FIGURES[3])
HOW = ("closed form", "calendar")
"""How a point's figures were found, by whether it was simulated."""


@dataclass(frozen=True)
class OperatingSpace(Space):
    """Axes of a scenario, and last those of its serving engine: their paths begin with ``serving.``.

    Levers that are set together share an axis. TrafficError for an axis or a value that no lever takes, or a limit that
    a point has no figure of.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "axes", tuple(sorted(self.axes, key=_is_lever)))
        object.__setattr__(self, "objectives", tuple(Objective(name, -1.0) for name in OBJECTIVES))
        for axis in self.axes:
            if "batch" in axis.paths and len(axis) > 1:
                raise TrafficError("axis batch: an engine sets it from pass to pass; serving.max_seqs is its most")
            for path, value in (setting for at in range(len(axis)) for setting in axis.settings(at)):
                name = path.removeprefix(HEAD)
                if (name != path) != _is_lever(axis):
                    raise TrafficError(f"axis {axis.path[:60]}: {path[:60]} can't be set together with the rest")
                if name != path and name not in LEVERS:
                    raise TrafficError(f"axis {path[:60]}: serving has {', '.join(LEVERS)}")
                if name == "policy" and value not in POLICIES:
                    raise TrafficError(f"{path} is {brief(value)}; it must be one of {', '.join(POLICIES)}")
        for limit in self.limits:
            if limit.figure not in FIGURES:
                raise TrafficError(f"limit {limit.figure}: an operating point has {', '.join(FIGURES)}")
        if self.size > _POINTS_MOST:
            raise TrafficError(f"axes make {self.size:,} operating points; at most {_POINTS_MOST:,} are tried")

    @cached_property
    def systems(self) -> Space:
        """The scenarios alone."""
        return Space(self.base, tuple(axis for axis in self.axes if not _is_lever(axis)))

    @cached_property
    def choices(self) -> list[dict[str, Any]]:
        """What every choice of levers sets, by their names, in the order of the points' numbers."""
        levers = [axis for axis in self.axes if _is_lever(axis)]
        digits = itertools.product(*(range(len(axis)) for axis in levers))
        settings = ([s for axis, at in zip(levers, row, strict=True) for s in axis.settings(at)] for row in digits)
        return [{path.removeprefix(HEAD): value for path, value in row} for row in settings]

    def choice(self, number: int) -> dict[str, Any]:
        """Levers of a point."""
        return self.choices[number % len(self.choices)]

    def scenario_at(self, digits: Sequence[int]) -> Scenario:
        """The scenario at a position on each axis, whatever its levers; ScenarioError where a value is refused."""
        return self.systems.scenario_at(digits[: len(self.systems.axes)])


def _is_lever(axis: Axis) -> bool:
    return any(path.startswith(HEAD) for path in axis.paths)


@dataclass(eq=False)
class ServingSweep:
    """Operating points of a space: their `numbers`, `figures` (`FIGURES`), and which are `simulated`.

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
    _runs: list[tuple[Engine, Scheduler, int]] = field(default_factory=list, repr=False)

    @property
    def values(self) -> NDArray[np.float64]:
        """Figures of all points, (`FIGURES`, n). [SI]"""
        return np.array(self.figures).reshape(-1, len(FIGURES)).T

    def rows(self, places: Sequence[int] | None = None) -> Iterator[dict[str, Any]]:
        """Points as flat rows, those of ``places`` or all: settings, figures, how they were found, the token."""
        for at in range(len(self.numbers)) if places is None else places:
            number = self.numbers[at]
            found = dict(zip(FIGURES, self.figures[at], strict=True))
            settings = {path: shown(value) for path, value in self.space.values(number).items()}
            how, token = HOW[self.simulated[at]], encode(self.space.scenario(number))
            yield settings | found | {"how": how, "token": token}

    @property
    def result(self) -> SweepResult:
        """The same as any sweep's result: its cloud is every point, and says which are `simulated`."""
        order, values = np.argsort(self.numbers), np.vstack([self.values, np.array(self.simulated, float)])
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
        return SweepResult(self.space, front, front, *cloud, counts, self.seconds, set_up, (*FIGURES, "simulated"))

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
        if not widest:
            return
        try:
            envelope = Scheduler(
                budget=max(rules.budget for rules in widest), max_seqs=max(rules.max_seqs for rules in widest), block=1,
                acceptance=widest[0].acceptance,
            )  # fmt: skip
            if scenario.scheme == "single" and scenario.devices > 1:
                why = f"scheme is 'single': one of {scenario.devices} devices works; replicas or tensor use them all"
                self._refuse(why, len(choices))
                return
            whole = engine(scenario, envelope, {})
        except (ScenarioError, TrafficError, Unsupported) as why:
            self._refuse(why, len(choices))
            return
        for alike, points in by_rules.items():
            self._choices(scenario, whole, alike, points)

    def _choices(
        self, scenario: Scenario, whole: Engine, alike: Scheduler, points: list[tuple[int, int, Scheduler]]
    ) -> None:
        """Prices points that differ in clients, budget, seats, cache and chunks alone."""
        room, ranks = whole.scheduler.kv_blocks or 2**40, whole.scheduler.ranks
        engines = whole.scheduler.replicas * ranks
        prompt, made = float(scenario.inputs), float(scenario.outputs)
        rows = np.empty((len(points), len(POINT)))
        for row, (_, clients, rules) in zip(rows, points, strict=True):
            tokens = min(room, rules.kv_blocks * rules.block if rules.kv_blocks else room)
            kept = (prompt + 0.5 * made) / (prompt + (0.5 + 0.5 * rules.reserve) * made)
            peers_busy = min(1.0, max(0.0, clients / whole.scheduler.replicas - 1.0) / max(1, ranks - 1))
            idle = 1.0 - peers_busy if ranks > 1 else 0.0
            row[:] = max(1.0, clients / engines), rules.budget, rules.max_seqs, tokens * kept, rules.chunked, idle
        out, begun = np.empty((len(points), len(ANSWER))), time.perf_counter()
        makes = 1.0 + float(np.cumprod(alike.acceptance).sum())
        hit = float(min(int(alike.prefix_hit * prompt), prompt - 1))
        steady_points(0, len(points), rows, rules_of(alike, 0, 0), whole.times, prompt, made, hit, makes, out)
        self.pricing_s += time.perf_counter() - begun
        for (number, clients, rules), (rate, first, gap) in zip(points, out.tolist(), strict=True):
            if not rules.chunked and rules.budget < prompt - hit:
                self._refuse(f"budget is {rules.budget}: without chunks it must take a whole prompt", 1)
                continue
            need, fit = -(-(scenario.inputs + scenario.outputs) // rules.block), room // rules.block
            if rules.kv_blocks is not None and not need <= rules.kv_blocks <= fit:
                why = f"a request needs {need:,} of {rules.block} tokens, the devices have room for {fit:,}"
                self._refuse(f"kv_blocks is {rules.kv_blocks:,}: {why}", 1)
                continue
            used = min(engines, clients)
            tokens = used * rate * made / whole.devices
            self.figures.append([used * rate, first, gap, tokens, 1.0 / gap if gap > 0 else np.nan])
            self.numbers.append(number)
            self.simulated.append(False)
            self._runs.append((whole, rules, clients))

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
        """Which points keep some limits."""
        kept = np.ones(len(self.numbers), bool)
        for limit in limits:
            kept &= limit.excess(self.values[FIGURES.index(limit.figure)]) <= 0.0
        return kept

    def _best(self) -> NDArray[np.int64]:
        values, places = self.values, np.flatnonzero(self._kept(self.space.limits))
        front = places[front_mask(-values[3:, places])] if places.size else places
        _, first = np.unique(values[3:, front], axis=1, return_index=True)  # of points alike the first
        front = front[np.sort(first)]
        return front[np.argsort(values[4, front], kind="stable")]

    def _simulate(self, at: int, seed: int) -> None:
        """Runs one point through the calendar in place of its closed form."""
        whole, choice, clients = self._runs[at]
        room = (whole.scheduler.kv_blocks or 2**40) // choice.block
        blocks = min(room, choice.kv_blocks or room)
        rules = replace(choice, kv_blocks=blocks, replicas=whole.scheduler.replicas, ranks=whole.scheduler.ranks)
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


def serving_sweep(
    source: OperatingSpace | Mapping[str, Any],
    seed: int = 0,
    progress: Callable[[int, int], object] = lambda done, size: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> ServingSweep:
    """Every operating point of a space, or of its plain data as `space_of` reads it.

    Limits are on ``ttft_s`` and ``tpot_s``, means [s]. ``progress`` hears of the points priced, of how many; once
    ``cancelled`` says so, what is priced is all there is. TrafficError or ScenarioError for what is no such space.
    """
    begun = time.perf_counter()
    if isinstance(source, Mapping):
        if source.get("objectives"):
            judged = " and ".join(OBJECTIVES)
            raise TrafficError(
                f"objectives is {brief(source['objectives'])}; an operating point has {judged}: leave it out"
            )
        plain = space_of(source)
        source = OperatingSpace(plain.base, plain.axes, limits=plain.limits)
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


def varied(
    scenario: Scenario, axes: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[dict[str, Any], Scenario, dict[str, Any]]]:
    """A scenario and the levers of its scheduler at every choice of axes as `serving_sweep` has them, clients apart.

    TrafficError or ScenarioError for an axis or a value that there is none of.
    """
    for values in itertools.product(*axes.values()):
        settings = dict(zip(axes, values, strict=True))
        choice, levers = scenario, dict[str, Any]()
        for path, value in settings.items():
            name = path.removeprefix(HEAD)
            if name == path:
                choice = apply(choice, path, value)
                if path == "system":  # switches are of its family
                    usual = default_scenario(choice.system, choice.workload).switches
                    choice = choice.with_(switches={k: choice.switches.get(k, on) for k, on in usual.items()})
            elif name == "clients" or name not in LEVERS:
                raise TrafficError(f"axis {path[:60]}: serving has {', '.join(list(LEVERS)[1:])} here")
            else:
                levers[name] = value
        yield settings, choice, levers


def scheduler_of(choice: Mapping[str, Any], usual: str = "vllm") -> Scheduler:
    """The scheduler that levers of a point mean: its policy's, with what is set. TrafficError for what it refuses.

    ``usual``: the policy where no lever names one.
    """
    fields = {name: _read(name, value) for name, value in choice.items() if name not in ("clients", "policy")}
    clients = choice.get("clients", 1)
    if type(clients) is not int or clients < 1:
        raise TrafficError(f"serving.clients is {brief(clients)}; it must be a whole number from 1")
    return policy_of(str(choice.get("policy", usual)), **fields)


def _read(name: str, value: Any) -> Any:
    """A lever of what an axis or an option says; ScenarioError for what is no such value."""
    kind: Any = type(LEVERS[name])
    if name == "priorities":
        return parse(value)
    with boundary(f"serving.{name} is {brief(value)}; it must be {_KINDS[kind]}"):
        if kind is bool:
            return _SWITCH[str(value).lower()]
        if isinstance(value, bool) or (kind is int and float(value) != int(value)):
            raise ValueError
        if kind is tuple:
            return tuple(map(float, value if isinstance(value, list | tuple) else [value]))
        return kind(value)
