"""Designs that share their structure: same system, network, mapping; numbers of the scenario and of specs vary.

A `Structure` is bound and planned by the same functions as a single scenario. What its axes set is a column there: all
values of an axis at once, each axis along a dimension of its own. So what comes out of a piece of the model says by its
shape which axes it depends on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from math import inf
from typing import Any

import numpy as np

from engine.cost.assemble import tiles_as_columns
from engine.cost.pieces import Design
from engine.devices.common.column import Column
from engine.plan.schemes import Plan, open_plan
from engine.resolve.bind import named, parameter
from engine.resolve.bound import Bound, own_model
from engine.resolve.check import check_model, lower_graph
from engine.resolve.spec_path import enter, part_of, replaced, set_paths, told_as
from engine.scenario import Costs, Scenario, ScenarioError
from engine.scenario.overrides import HARDWARE, apply
from engine.sweep.space import SIZES, Space
from hardware_specs.quantity import Quantity
from hardware_specs.schema import PAIRED

Beat = Callable[[int, int], None]
"""Called with (pieces made, pieces in all) while a structure is set up; what it raises ends that."""
OPTIONS = -1
"""The axis of the options of a plan that leaves something open: the last of a structure's, of none of the space's."""
Part = tuple[tuple[int, int], ...]
"""Some designs of a structure: from which allowed value to which on each of its axes."""
_REMEMBERED = 2048  # parts


def head_of(path: str) -> tuple[str, str]:
    """(kind of a path, rest of it), with the optional ``system.`` in front gone."""
    head, _, tail = path.removeprefix("system.").partition(".")
    return head, tail


def _is_number(path: str) -> bool:
    head, tail = head_of(path)
    return path in SIZES or (bool(tail) and head in (*HARDWARE, "costs", "limits", "tile"))


def numeric_axes(space: Space) -> tuple[int, ...]:
    """Axes that set numbers only, at each value the same: sizes of the work, tiles, prices, specs, model parameters.

    A table is made of what is read where the axes set something: one value of an uneven axis says nothing of another.
    """
    return tuple(i for i, axis in enumerate(space.axes) if axis.even and all(_is_number(path) for path in axis.paths))


def between(path: str, values: Sequence[Any]) -> bool:
    """Whether what a path allows is a range that these values lie in together: whole sizes, or positive numbers."""
    if path in SIZES:
        return all(type(value) is int for value in values)
    return head_of(path)[0] in HARDWARE and all(type(v) in (int, float) and 0.0 < v < inf for v in values)


def with_value(setting: tuple[str, Any, Any], value: float) -> tuple[str, Any, Any]:
    """A setting of `read_setting` with another value that its path allows, in its unit in SI, as [B/s]."""
    kind, where, like = setting
    if isinstance(like, Quantity):
        return kind, where, like.model_copy(update={"value": told_as(like, value)})
    return kind, where, int(value) if isinstance(like, int) else value


def read_setting(scenario: Scenario, base: Bound, path: str, value: Any) -> tuple[str, Any, Any]:
    """One setting of a scenario, validated against what it names: (kind, where it goes, what goes there).

    That is a number in SI, as [B/s], or the quantity of a specification.

    ValueError, in one sentence, where the value is refused. ScenarioError for a path that is no number.
    """
    head, tail = head_of(path)
    result = apply(scenario, path, value)
    if path in SIZES:
        return "field", path, getattr(result, path)
    if head == "tile":
        return head, int(tail), result.tile[int(tail)]
    if head in ("costs", "limits"):
        return head, tail, getattr(getattr(result, head), tail)
    label = path.removeprefix("system.")
    text = result.overrides[label]
    if head == "model" and "." not in tail:
        number = float(parameter(label, text, base.device))
        check_model(replace(base, model={tail: number}))
        return "model", tail, number
    part, within = part_of(label, len(base.devices), base.host is not None, [wire.role for wire in base.wires])
    spec: Any = {"devices": base.devices, "host": (base.host,), "links": [wire.link for wire in base.wires]}[part[0]]
    quantity = set_paths(spec[part[1]], [(within, text, label)])
    for step in within:
        quantity = enter(quantity, step, label)
    return "spec", (part, tuple(within), label), quantity


class Structural(Exception):
    """Those axes change the structure of a plan: designs that differ in them are priced apart."""

    def __init__(self, axes: frozenset[int] | set[int]) -> None:
        super().__init__(f"axes {sorted(axes)}")
        self.axes = frozenset(axes)


class _Values(Quantity):
    """A quantity that an axis sets: its value in SI is a column."""

    @classmethod
    def of(cls, quantity: Quantity, values: Column) -> "_Values":
        copy = cls.model_construct(**quantity.__dict__)
        copy.__dict__["many"] = quantity.value, values  # frozen for everybody else
        return copy

    @property
    def si(self) -> Any:
        """The values in SI units; of a copy that a family gave another value, that one. In its unit, as [B/s]."""
        text, values = self.__dict__["many"]
        return values if self.value == text else super().si


class _Fixed(dict):
    """Model parameters as a compiler reads them: what an axis sets changes the network it makes."""

    def __init__(self, values: Mapping[str, Any], axes: Sequence[int]) -> None:
        super().__init__(values)
        self.axes = axes

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if isinstance(value, Column):
            raise Structural({axis for axis, size in zip(self.axes, value.values.shape, strict=True) if size > 1})
        return value


_Settings = tuple[Sequence[int], Mapping[int, str], Sequence[tuple[tuple[str, Any, Any], np.ndarray]]]
"""Digits of an axis that are allowed, the sentence that refuses each other one, and what it sets: of each setting, as
`read_setting` has it, one value and the numbers of all allowed digits."""


class Structure:
    """Designs of a space that agree in every axis but the numeric ones: what is bound and planned once for all.

    What each value of each axis sets is validated by the same functions as a scenario's own; a value that is refused
    is kept as its sentence in `refused`.
    """

    def __init__(
        self, space: Space, digits: Mapping[int, int], numeric: Sequence[int], cache: dict[Any, Any], beat: Beat
    ) -> None:
        self.space, self.beat = space, beat
        self.numeric: tuple[int, ...] = (*numeric, OPTIONS)
        settings = [s for i in sorted(digits) for s in space.axes[i].settings(digits[i])]
        self.scenario = space.applied(settings)
        self.base: Bound = named(self.scenario, space.catalog, space.zoo)
        self.graph = self.base.graph  # as the accelerator's compiler runs it, once `lower` has found it
        self.part = lru_cache(_REMEMBERED)(partial(Designs, self))
        harvest = {axis: self._harvest(axis, cache) for axis in numeric}
        self.refused = {(axis, d): text for axis, (_, reasons, _) in harvest.items() for d, text in reasons.items()}
        self._joint()
        for axis, (values, _, _) in harvest.items():
            if not values:
                raise ScenarioError(self.refused[axis, 0])
        self.option, self.radix = 0, (*(len(space.axes[axis]) for axis in numeric), 1)
        self.allowed: list[Sequence[int]] = [*(values for values, _, _ in harvest.values()), range(1)]
        self._columns = [columns for _, _, columns in harvest.values()]

    def choose(self, first: int, upto: int) -> None:
        """From now on, designs have those options of their plans, along the last axis."""
        if (first, upto) != (self.option, self.option + self.radix[-1]):
            self.part.cache_clear()
        self.option, self.radix = first, (*self.radix[:-1], upto - first)
        self.allowed = [*self.allowed[:-1], range(upto - first)]

    def _harvest(self, axis: int, cache: dict[Any, Any]) -> _Settings:
        """What each digit of an axis sets, found once for all structures of the space that set the same."""
        plain = all("." not in path for path in self.space.axes[axis].paths)  # a scenario takes it on every system
        key = (axis,) if plain else (self.base.system.id, self.base.workload.id, axis)
        if key not in cache:
            cache[key] = self._between(axis) or self._one_by_one(axis)
        return cache[key]

    def _one_by_one(self, axis: int) -> _Settings:
        """What each value of an axis sets; Structural where values set different things."""
        count, reasons, rows = len(self.space.axes[axis]), dict[int, str](), dict[int, list[tuple[str, Any, Any]]]()
        for digit in range(count):
            self.beat(digit, count)
            try:
                rows[digit] = self._settings(axis, digit)
            except ValueError as error:
                reasons[digit] = str(error)
        if len({tuple((kind, where) for kind, where, _ in settings) for settings in rows.values()}) > 1:
            raise Structural({axis})
        columns = [
            (settings[0], np.array([getattr(value, "si", value) for _, _, value in settings], dtype=np.float64))
            for settings in zip(*rows.values(), strict=True)
        ]
        return list(rows), reasons, columns

    def _between(self, axis: int) -> _Settings | None:
        """What an axis of whole sizes or positive numbers sets, where the least and the most are allowed: what a size,
        a specification or a parameter allows is a range, so every one between is. None elsewhere."""
        (path, *tail), values = self.space.axes[axis].paths, self.space.axes[axis].values
        if tail or not between(path, values):
            return None
        try:
            (low,), _ = (self._settings(axis, values.index(end)) for end in (min(values), max(values)))
        except ValueError:
            return None
        return range(len(values)), {}, [(low, np.array(values, dtype=np.float64))]

    def _settings(self, axis: int, digit: int) -> list[tuple[str, Any, Any]]:
        """What a value of an axis sets; ValueError in one sentence where that is refused."""
        base, settings = self.space.base, self.space.axes[axis].settings(digit)
        return [read_setting(base, self.base, path, value) for path, value in settings]

    def _joint(self) -> None:
        """Structural where what a value may be depends on another axis of the same part."""
        parents = [{path.rpartition(".")[0] for path in axis.paths if "." in path} for axis in self.space.axes]
        pairs = {i for i, axis in enumerate(self.space.axes) if {p.rpartition(".")[2] for p in axis.paths} & PAIRED}
        for axis in {axis for axis, _ in self.refused} | (pairs & set(self.numeric)):
            beside = {i for i, axes in enumerate(parents) if i != axis and axes & parents[axis]}
            if beside and any(head_of(path)[0] in HARDWARE[:3] for path in self.space.axes[axis].paths):
                raise Structural({axis} | beside)

    @property
    def bad(self) -> Iterator[np.ndarray]:
        """Which values are refused on their own, along each axis that has some."""
        for at, axis in enumerate(self.numeric):
            if digits := [digit for of, digit in self.refused if of == axis]:
                bad = np.isin(np.arange(self.radix[at]), digits)
                yield bad.reshape([-1 if a == at else 1 for a in range(len(self.radix))])

    @property
    def whole(self) -> Part:
        """All designs whose values are allowed."""
        return tuple((0, len(digits)) for digits in self.allowed)

    def settings(self, of: Part) -> list[tuple[str, Any, Any]]:
        """Everything the axes set in a part, as (kind, where, value)."""
        settings = []
        for at, ((lo, hi), columns) in enumerate(zip(of, self._columns, strict=False)):
            shape = [-1 if a == at else 1 for a in range(len(of))]
            for like, numbers in columns:
                if hi - lo == 1:
                    settings.append(with_value(like, float(numbers[lo])))
                else:
                    kind, where, value = like
                    column = Column(numbers[lo:hi].reshape(shape))
                    settings.append((kind, where, _Values.of(value, column) if isinstance(value, Quantity) else column))
        return settings

    def lower(self) -> None:
        """The graph as the accelerator's compiler runs it, from now on; Structural where that depends on an axis."""
        bound = self.part(self.whole).bound
        model = _Fixed(own_model(bound.device, bound.model), self.numeric)
        graph = lower_graph(bound.scenario, self.base.device, bound.graph, model)
        if graph is not self.graph:
            self.graph = graph
            self.part.cache_clear()


class Designs(Design):
    """Some designs of a structure as one, a column along each axis of which there are several values: pieces of the
    model are functions of it."""

    def __init__(self, structure: Structure, of: Part) -> None:
        self.structure, self._options = structure, of[-1]
        self.bound = self._bound(structure.settings(of))
        self._jobs = {}

    def _bound(self, settings: Sequence[tuple[str, Any, Any]]) -> Bound:
        base = self.structure.base
        fields: dict[str, Any] = dict(self.structure.scenario.__dict__)
        devices, host, wires = list(base.devices), base.host, list(base.wires)
        model, costs, overrides = dict(base.model), fields["costs"].model_dump(), dict(fields["overrides"])
        tile = list(fields["tile"])
        for kind, where, value in settings:
            if kind == "field":
                fields[where] = value
            elif kind == "tile":
                tile[where] = value
            elif kind == "costs":
                costs[where] = value
            elif kind == "model":
                overrides[f"model.{where}"] = model[where] = value
            elif kind == "spec":
                (role, position), within, label = where
                overrides[label] = value
                if role == "devices":
                    devices[position] = replaced(devices[position], within, value)
                elif role == "host":
                    host = replaced(host, within, value)
                else:
                    wires[position] = replace(wires[position], link=replaced(wires[position].link, within, value))
        fields |= {"tile": tuple(tile), "costs": Costs.model_construct(**costs), "overrides": overrides}
        return replace(
            base,
            scenario=Scenario.model_construct(**fields),
            devices=tuple(devices),
            host=host,
            wires=tuple(wires),
            model=model,
            graph=self.structure.graph,
        )

    @cached_property
    def open_plan(self) -> Plan:
        """Its plan, with options still open where the scheme and the scenario leave it so."""
        return open_plan(self.bound)

    @cached_property
    def plan(self) -> Plan:
        """Its plan; of options that differ in their tiles alone one, whose tiles are columns."""
        plan, first = self.open_plan, self.structure.option
        options = plan.options[first + self._options[0] : first + self._options[1]] or (plan,)
        return tiles_as_columns(options, (*(1 for _ in self.structure.numeric[1:]), -1))
