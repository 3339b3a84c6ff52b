"""Operating points of a serving engine as a space: axes of clients and a scheduler's levers, and limits of theirs."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from engine.resolve.choices import default_scenario
from engine.scenario import Scenario
from engine.scenario.overrides import apply
from engine.scenario.token import boundary, brief
from engine.sweep.axis import Axis
from engine.sweep.goals import Limit, Objective
from engine.sweep.space import Space, space_of
from engine.traffic.engines.operating_points import METRICS, limits_of
from engine.traffic.engines.priority import parse
from engine.traffic.engines.scheduler import POLICIES, Scheduler, policy_of
from engine.traffic.service import TrafficError

HEAD = "serving."
_DERIVED = ("preempt", "swap_s", "swap_blocks", "ranks", "replicas")  # of a scenario's own host and devices
LEVERS = {"clients": 0, "policy": ""} | {k: v for k, v in vars(Scheduler(kv_blocks=1)).items() if k not in _DERIVED}
"""What may follow `serving.` in an axis, and what its values are like: clients of a closed loop, the policy that the
rest is by default, and fields of `Scheduler`."""
_SWITCH = {"on": True, "true": True, "off": False, "false": False}
_KINDS: dict[type, str] = {bool: "on or off", int: "a whole number", float: "a number", tuple: "numbers in a list"}
_POINTS_MOST = 2_000_000
TAILS = {
    f"{time}_{metric}_s": (time, metric)
    for time, metric in itertools.product(("steady_ttft", "tpot", "itl", "steady_e2e"), METRICS)
}
"""Further figures that a limit may be on, as ``steady_ttft_p99_s`` of ``ttft:p99``: those of a `ServingReport`."""
GOODPUT = "goodput_per_s"
FIGURES = ("requests_per_s", "ttft_s", "tpot_s", "output_tokens_per_s_per_device", "output_tokens_per_s_per_user")
OBJECTIVES, MEANS = (FIGURES[4], FIGURES[3]), FIGURES[1:3]


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
            if limit.figure not in (*FIGURES, *TAILS):
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

    @cached_property
    def goods(self) -> dict[str, float]:
        """What goodput counts as in time, a request by each limit on a time, as `Engine` takes them. [s]"""
        times = {"ttft_s": ("ttft", "mean"), "tpot_s": ("tpot", "mean")} | TAILS
        pairs = [(times[limit.figure], limit.value) for limit in self.limits if limit.figure in times and limit.upper]
        return {f"{time.removeprefix('steady_')}:{metric}": value for (time, metric), value in pairs}

    @cached_property
    def figures(self) -> tuple[str, ...]:
        """What a point has: `FIGURES`, those of limits at a percentile, and goodput where there are limits on times."""
        tails = [limit.figure for limit in self.limits if limit.figure in TAILS]
        return (*FIGURES, *dict.fromkeys(tails), *([GOODPUT] if self.goods else []))

    def choice(self, number: int) -> dict[str, Any]:
        """Levers of a point."""
        return self.choices[number % len(self.choices)]

    def scenario_at(self, digits: Sequence[int]) -> Scenario:
        """The scenario at a position on each axis, whatever its levers; ScenarioError where a value is refused."""
        return self.systems.scenario_at(digits[: len(self.systems.axes)])


def _is_lever(axis: Axis) -> bool:
    return any(path.startswith(HEAD) for path in axis.paths)


def operating_space_of(data: Mapping[str, Any]) -> OperatingSpace:
    """The space of its plain data, as `space_of` reads it; of its constraints some may be like ``ttft:p99=300ms``.

    TrafficError or ScenarioError for what is none.
    """
    if data.get("objectives"):
        judged = " and ".join(OBJECTIVES)
        raise TrafficError(f"objectives is {brief(data['objectives'])}; an operating point has {judged}: leave it out")
    asked = data.get("constraints") or ()
    parts = asked.split(",") if isinstance(asked, str) else asked
    tails = [str(part) for part in parts if ":" in str(part)] if isinstance(parts, list | tuple) else []
    plain = space_of({**data, "constraints": [part for part in parts if part not in tails]} if tails else data)
    return OperatingSpace(plain.base, plain.axes, limits=(*plain.limits, *tail_limits(",".join(tails))))


def tail_limits(text: str) -> tuple[Limit, ...]:
    """Limits of a space from ``ttft:p99=300ms,tpot:p90=25ms``; TrafficError for a text that is none. [s]"""
    steady = {"ttft": "steady_ttft", "e2e": "steady_e2e"}
    parts = ((*name.split(":"), limit) for name, limit in (limits_of(text) if text.strip() else {}).items())
    return tuple(Limit(f"{steady.get(time, time)}_{metric}_s", True, limit) for time, metric, limit in parts)


def has_serving_axes(data: Any) -> bool:
    """Whether plain data of a space has axes of serving."""
    axes = data.get("axes") if isinstance(data, Mapping) else None
    return isinstance(axes, Mapping) and any(str(path).startswith(HEAD) for path in axes)


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
