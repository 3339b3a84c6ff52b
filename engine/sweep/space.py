"""A space of designs: a scenario, axes over any of its settings, and the goals they are judged by (`goals`).

A design is a number: digits of a mixed radix, one an axis, the last axis fastest. A space travels as a dict, a YAML
file or a token, so that a link holds it.

Counts are exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import Any

from engine.cost.power_and_price import without_power
from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.resolve.bind import bind, named
from engine.resolve.check import check_model
from engine.resolve.choices import default_scenario, fit_to_pair, scenario_from
from engine.scenario import NotThereError, Scenario, ScenarioError, decode, encode, token_in
from engine.scenario.fields import FIELDS
from engine.scenario.overrides import HARDWARE, apply, without_figure
from engine.scenario.token import boundary, brief, token_of, unpack
from engine.sweep.axis import Axis, axis_values
from engine.sweep.goals import Limit, Objective, limits_of, objectives_of
from entries.files import read_plain
from hardware_specs.catalog import Catalog
from model_zoo.catalog import Zoo

SIZES = frozenset(field.path for field in FIELDS if field.plain)
"""Sizes of the work: whole numbers of a scenario, which every system and network has."""
AXES_LIMIT = 16
POWERED = ("power_w", "energy_per_unit_j", "throughput_per_w")
"""Figures that power decides; what costs none in the model would win them for nothing."""
TOKEN_LIMIT = 16_384
POINTS_LIMIT = 10**15  # of a space that is searched, and
EVERY_LIMIT = 10**12  # of one whose every design is tried
_JSON_LIMIT = 1 << 20
_CHECKED = 64  # values of an axis that are looked at before anything is priced


@dataclass(frozen=True)
class Space:
    """Axes over a base scenario, with limits and objectives.

    `fits` asks that everything required fits in its memory. Designs that a system can't run are counted, never ranked.
    `catalog` and `zoo` are where its systems and workloads are looked up, the default ones where None; no token holds
    them.
    """

    base: Scenario
    axes: tuple[Axis, ...]
    objectives: tuple[Objective, ...] = field(default_factory=lambda: objectives_of("latency_s:min"))
    limits: tuple[Limit, ...] = ()
    fits: bool = True
    catalog: Catalog | None = field(default=None, compare=False, repr=False)
    zoo: Zoo | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.axes) > AXES_LIMIT:
            raise ScenarioError(f"a space has {len(self.axes)} axes: at most {AXES_LIMIT} are allowed")
        paths: set[str] = set()
        for axis in self.axes:
            for path in axis.paths:
                rivals = (p for p in paths if "devices" not in (p, path))  # the count is no part of a device's spec
                if path in paths or any(p.startswith(path + ".") or path.startswith(p + ".") for p in rivals):
                    raise ScenarioError(f"axis {path[:60]}: another axis already sets it")
                paths.add(path)
        if self.size > POINTS_LIMIT:
            raise ScenarioError(f"a space has {self.size:.2e} designs: at most {POINTS_LIMIT:.0e} are allowed")

    def enumerable(self) -> None:
        """ScenarioError where it has too many designs to try each of them."""
        if self.size > EVERY_LIMIT:
            raise ScenarioError(
                f"a space has {self.size:.2e} designs: at most {EVERY_LIMIT:.0e} can all be tried; "
                "a search looks for the front of a larger one (sweep --search 20000)"
            )

    @property
    def _many_systems(self) -> bool:
        """Whether the system varies: another one has no what-if of the base."""
        return any("system" in axis.paths for axis in self.axes)

    @cached_property
    def without_price(self) -> tuple[str, ...]:
        """What-ifs of hardware that every design has and none has a price for: money is a figure of no design."""
        always = [] if self._many_systems else list(self.base.overrides)
        for axis in self.axes:
            always += [path for path in sorted(axis.paths) if axis.even or path.endswith(".price")]
        return without_figure(always, "price")

    @cached_property
    def without_power(self) -> list[str]:
        """What-ifs of hardware along an axis whose power no rule follows: more of it is free in this model."""
        paths = [path for axis in self.axes for path in sorted(axis.paths) if axis.even]
        if self._many_systems:
            return []
        return without_power(bind(self.base, self.catalog, self.zoo), [*self.base.overrides, *paths])

    def check_money(self) -> None:
        """ScenarioError where a goal is a figure of money and no design has one."""
        goals = [("objective", o.figure) for o in self.objectives] + [("limit", limit.figure) for limit in self.limits]
        for kind, figure in goals:
            if "usd" in figure and self.without_price:
                raise ScenarioError(
                    f"{kind} {figure}: no design has a price, as {self.without_price[0]} is a what-if and no list has "
                    "that part; leave it out, or set a price of the device too, as devices.0.price"
                )

    def check_paths(self) -> None:
        """ScenarioError for an axis whose path, or every value, is none whatever the others set; prices nothing."""
        for axis in self.axes:
            head, _, tail = axis.path.partition(".")
            if axis.paths != {axis.path} or head == "tile" or (head in Scenario.model_fields and not tail):
                continue
            hardware = head in HARDWARE and not self._pair_axes
            errors = [_refused(self, axis, value, hardware) for value in axis.values[:_CHECKED]]
            if len(axis) <= _CHECKED and all(errors):
                raise ScenarioError(f"axis {errors[0]}")

    @cached_property
    def size(self) -> int:
        """Designs in the space."""
        return prod(len(axis) for axis in self.axes)

    @cached_property
    def figures(self) -> tuple[str, ...]:
        """What its designs are judged by: objectives, then figures of limits."""
        return tuple(dict.fromkeys(goal.figure for goal in (*self.objectives, *self.limits)))

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """What a step along each axis adds to a design's number."""
        sizes = [len(axis) for axis in self.axes]
        return tuple(prod(sizes[i + 1 :]) for i in range(len(sizes)))

    def digits(self, number: int) -> tuple[int, ...]:
        """Position of a design on each axis."""
        return tuple(number // s % len(axis) for s, axis in zip(self.strides, self.axes, strict=True))

    def scenario(self, number: int) -> Scenario:
        """The scenario of a design; ScenarioError where a value is refused."""
        return self.scenario_at(self.digits(number))

    def scenario_at(self, digits: Sequence[int]) -> Scenario:
        """The scenario at a position on each axis, axes applied first to last; ScenarioError for one left out."""
        out = self.left_out(dict(enumerate(digits)))
        if any(digits[axis] for axis in out):
            raise ScenarioError(f"{', '.join(sorted(self.axes[i].path for i in out))}: left out here, as it has none")
        axes = zip(self.without(out).axes, digits, strict=True)
        return self.applied([s for axis, digit in axes for s in axis.settings(digit)])

    def applied(self, settings: Sequence[tuple[str, Any]]) -> Scenario:
        """The base with settings; where the system or the workload changes, what it does not offer is re-chosen.

        Precision, scheme, devices, switches and parameters of the base stay where the new pair offers them, a what-if
        and a tile where the system is the base's own.
        ScenarioError where a value is refused.
        """
        pair = {path: value for path, value in settings if path in ("system", "workload")}
        scenario = self.base
        if any(getattr(scenario, path) != value for path, value in pair.items()):
            system, workload = (str(pair.get(name, getattr(scenario, name))) for name in ("system", "workload"))
            if (system, workload) not in self._bases:
                self._bases[system, workload] = _on_pair(scenario, system, workload, self.catalog, self.zoo)
            scenario = self._bases[system, workload]
        for path, value in settings:
            if path not in pair:
                scenario = apply(scenario, path, value)
        return scenario

    @cached_property
    def _bases(self) -> dict[tuple[str, str], Scenario]:
        """The base on other pairs of a system and a workload, as far as it has been asked for."""
        return {}

    @cached_property
    def _pair_axes(self) -> tuple[int, ...]:
        """Axes that set the system or the workload."""
        return tuple(i for i, axis in enumerate(self.axes) if axis.paths & {"system", "workload"})

    @cached_property
    def _left_out(self) -> dict[tuple[int, ...], frozenset[int]]:
        return {}

    def left_out(self, digits: Mapping[int, int]) -> frozenset[int]:
        """Axes that the system or the network at some digits has none of, as a GPU has no tile.

        Of the designs that differ in nothing else the one with the axis's first value stands for all, and what that
        sets is left out; the others are skipped. Where neither system nor workload is an axis, nothing is left out: a
        setting that the scenario has none of is refused in a sentence.
        """
        key = tuple(digits[i] for i in self._pair_axes)
        if key not in self._left_out:
            self._left_out[key] = self._lacking(key) if self._pair_axes else frozenset()
        return self._left_out[key]

    def _lacking(self, key: tuple[int, ...]) -> frozenset[int]:
        single = {i for i, axis in enumerate(self.axes) if axis.paths == {axis.path} and axis.path not in SIZES}
        settings = [s for i, digit in zip(self._pair_axes, key) for s in self.axes[i].settings(digit)]
        try:
            singles = single.difference(self._pair_axes)
            here = self.applied(settings) if singles else self.base
        except (ScenarioError, Unsupported):  # refused as a whole
            return frozenset()
        return frozenset(i for i in singles if self._lacks(here, self.axes[i]))

    def _lacks(self, here: Scenario, axis: Axis) -> bool:
        """Whether a scenario has none of what an axis sets."""
        path = "tile" if axis.path.startswith("tile.") else axis.path
        for value in dict.fromkeys((axis.values[0], axis.values[-1])) if path == axis.path else ((1,),):
            try:
                bind(apply(here, path, value), self.catalog, self.zoo)
            except NotThereError:
                return True
            except (ScenarioError, Unsupported):
                continue
        return False

    def without(self, axes: frozenset[int]) -> "Space":
        """The same designs where some axes set nothing."""
        if not axes:
            return self
        idle = (replace(axis, values=({},) * len(axis)) if i in axes else axis for i, axis in enumerate(self.axes))
        return replace(self, axes=tuple(idle))

    @cached_property
    def skipped(self) -> int:
        """Designs left out, as the one that stands for them differs in nothing that its system or network has."""
        if not self._pair_axes:
            return 0
        designs = self.size // prod(len(self.axes[i]) for i in self._pair_axes)
        keys = product(*(range(len(self.axes[i])) for i in self._pair_axes))
        outs = (prod(len(self.axes[i]) for i in self.left_out(dict(zip(self._pair_axes, key)))) for key in keys)
        return sum(designs - designs // out for out in outs)

    def values(self, number: int) -> dict[str, Any]:
        """What each axis sets in a design, by its path."""
        return {axis.path: axis.values[digit] for axis, digit in zip(self.axes, self.digits(number), strict=True)}

    def to_dict(self) -> dict[str, Any]:
        """Plain data that `space_of` reads back."""
        return {
            "scenario": encode(self.base),
            "axes": {axis.path: list(axis.values) for axis in self.axes},
            "constraints": [*(["fits"] if self.fits else []), *(limit.exact for limit in self.limits)],
            "objectives": [str(o) for o in self.objectives],
        }

    @property
    def token(self) -> str:
        """The space as text for a link; ScenarioError where it is too long for one."""
        return token_of("1s", self.to_dict(), "space", TOKEN_LIMIT)


def _refused(space: Space, axis: Axis, value: Any, hardware: bool) -> str:
    """Why an axis can't set a value of the base, of its hardware too; empty where it can."""
    try:
        scenario = apply(space.base, axis.path, value)
        if hardware:
            check_model(named(scenario, space.catalog, space.zoo))
    except ScenarioError as error:
        return str(error)
    return ""


def _on_pair(base: Scenario, system: str, workload: str, catalog: Catalog | None, zoo: Zoo | None) -> Scenario:
    """The base on another pair: a request and a cut stay with the network, a what-if and a tile with the system."""
    wanted: dict[str, Any] = {"system": system, "workload": workload, "layers": {}}
    if workload != base.workload:
        usual = default_scenario(system, workload, catalog, zoo)
        cut = ("scheme", "devices", "split", "second_split") if base.scheme == "split" else ()
        wanted |= {name: getattr(usual, name) for name in ("inputs", "outputs", "params", *cut)}
    if system != base.system:
        wanted |= {"overrides": {}, "tile": ()}
    return fit_to_pair(base.with_(**wanted), catalog=catalog, zoo=zoo)


def _base(basis: Any, catalog: Catalog | None, zoo: Zoo | None) -> Scenario:
    if isinstance(basis, Scenario):
        return basis
    if isinstance(basis, str):
        from engine.resolve.presets import preset

        if basis.startswith("preset:"):
            return preset(basis.removeprefix("preset:")).scenario
        return decode(token_in(basis))
    if isinstance(basis, Mapping) and {"system", "workload"} <= set(basis):
        return scenario_from(basis, "scenario", catalog, zoo)
    raise ScenarioError("scenario: a token, preset:ID, or a mapping with system and workload is needed")


def space_of(source: Any, catalog: Catalog | None = None, zoo: Zoo | None = None) -> Space:
    """A space from a mapping {scenario, axes, constraints, objectives}, a YAML path, a token or a `Space`.

    ScenarioError for what is none.

    `catalog`, `zoo`: of one's own; without them a `Space`'s, else what ships and what lies in the user's folder.
    """
    if isinstance(source, Space):
        return replace(source, catalog=catalog or source.catalog, zoo=zoo or source.zoo) if catalog or zoo else source
    with boundary("a space that can't be read: its axes, constraints or objectives are none"):
        if isinstance(source, Path) or (isinstance(source, str) and source.endswith((".yaml", ".yml", ".json"))):
            source = read_plain(Path(source), _JSON_LIMIT)
        elif isinstance(source, str):
            if len(source) > TOKEN_LIMIT or source[:2] != "1s":
                raise ScenarioError("this is not a space: a file, a mapping or a token that begins with 1s is needed")
            source = unpack(source[2:], "space", _JSON_LIMIT)
        return _space(source, catalog, zoo)


def _space(data: Any, catalog: Catalog | None, zoo: Zoo | None) -> Space:
    """The space of plain data."""
    if not isinstance(data, Mapping):
        raise ScenarioError("a space is a mapping with scenario and axes")
    strange = sorted(map(str, set(data) - {"scenario", "axes", "constraints", "objectives"}))
    if strange or not {"scenario", "axes"} <= set(data) or not isinstance(data["axes"], Mapping):
        raise ScenarioError(
            f"a space has scenario, axes (path: values), constraints and objectives; "
            f"{f'{brief(strange[0])} is none of them' if strange else 'scenario or axes is missing'}"
        )
    nameless = next((path for path in data["axes"] if not isinstance(path, str)), None)
    if nameless is not None:
        raise ScenarioError(f"axes has {brief(nameless)}: a path such as batch or devices.0.npu.tiles is needed")
    axes = tuple(Axis(path, axis_values(path, values)) for path, values in data["axes"].items())
    fits, limits = limits_of(data.get("constraints", ["fits"]))
    asked = data.get("objectives")
    goals = objectives_of("latency_s:min,throughput_per_w:max,capex_usd:min" if asked is None else asked)
    space = Space(_base(data["scenario"], catalog, zoo), axes, goals, limits, fits, catalog=catalog, zoo=zoo)
    return replace(space, objectives=_with_figures(space)) if asked is None else space


def _with_figures(space: Space) -> tuple[Objective, ...]:
    """The objectives of a space without those that no design has, as no list has a price of its parts."""
    goals = space.objectives[: 2 if space.without_price else None]
    lacking = set(goals)
    parts = (range(len(axis) if i in space._pair_axes or not axis.even else 1) for i, axis in enumerate(space.axes))
    for digits in islice(product(*parts), _CHECKED):
        try:
            report = evaluate(space.scenario_at(digits), space.catalog, space.zoo)
        except (ScenarioError, Unsupported):
            continue
        lacking = {goal for goal in lacking if report.figure(goal.figure) is None}
        if not lacking:
            break
    return tuple(goal for goal in goals if goal not in lacking) or goals
