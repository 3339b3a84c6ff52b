"""Designs that share their structure: same system, network, mapping; numbers of the scenario and of specs vary.

A `DesignFamily` of designs is bound and planned by the same functions as a single scenario. What its axes set is a
column there: all values of an axis at once, each axis along a dimension of its own. So what comes out of a piece of
the model says by its shape which axes it depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from engine.cost.assemble import Design, tiles_as_columns
from engine.devices.common.column import Column
from engine.plan.schemes import Plan, open_plan
from engine.resolve.bind import Bound, lowered, named, own_model
from engine.scenario import Costs, Scenario
from engine.scenario.overrides import HARDWARE
from engine.sweep.pricing.setting import between, head_of, read_setting, restated
from engine.sweep.space import Space, apply_settings
from hardware_specs.catalog import Catalog
from hardware_specs.quantity import Quantity
from model_zoo.catalog import Zoo

Beat = Callable[[int, int], None]
"""Called with (pieces made, pieces in all) while a family is set up; what it raises ends that."""
OPTIONS = -1
"""The axis of the options of a plan that leaves something open: the last of a family's, of none of the space's."""
Part = tuple[tuple[int, int], ...]
"""Some designs of a family: from which allowed value to which on each of its axes."""
_REMEMBERED = 2048  # parts


class Structural(Exception):
    """Those axes change the structure of a plan: designs that differ in them are priced apart."""

    def __init__(self, axes: frozenset[int] | set[int]) -> None:
        super().__init__(f"axes {sorted(axes)}")
        self.axes = frozenset(axes)


class Refused(ValueError):
    """Every design of a family is refused: the sentence why."""


class _Many(Quantity):
    """A quantity that an axis sets: its value in SI is a column."""

    @classmethod
    def of(cls, quantity: Quantity, values: Column) -> _Many:
        made = cls.model_construct(**quantity.__dict__)
        made.__dict__["many"] = quantity.value, values  # frozen for everybody else
        return made

    @property
    def si(self) -> Any:
        """The values in SI units; of a copy that a family gave another value, that one. In its unit, as [B/s]."""
        printed, values = self.__dict__["many"]
        return values if self.value == printed else super().si


class _Structure(dict):
    """Model parameters as a compiler reads them: what an axis sets changes the network it makes."""

    def __init__(self, values: Mapping[str, Any], axes: Sequence[int]) -> None:
        super().__init__(values)
        self.axes = axes

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if isinstance(value, Column):
            raise Structural({axis for axis, size in zip(self.axes, value.values.shape, strict=True) if size > 1})
        return value


def _put(spec: Any, keys: Sequence[Any], value: Any) -> Any:
    """A copy of a spec with the entry at ``keys`` replaced; nothing is validated, the entry has been."""
    if not keys:
        return value
    key, rest = keys[0], keys[1:]
    if isinstance(spec, tuple):
        return (*spec[:key], _put(spec[key], rest, value), *spec[key + 1 :])
    if isinstance(spec, dict):
        return spec | {key: _put(spec[key], rest, value)}
    return spec.model_copy(update={key: _put(getattr(spec, key), rest, value)})


class _Values:
    """What each digit of an axis sets, as (kind, where, value), or the sentence that refuses it."""

    allowed: Sequence[int]

    def __init__(self, settings: list[Any]) -> None:
        self.settings = settings
        self.refused = [(digit, harvest) for digit, harvest in enumerate(settings) if isinstance(harvest, str)]
        self.allowed = [digit for digit, harvest in enumerate(settings) if not isinstance(harvest, str)]

    def of(self, digit: int) -> list[tuple[str, Any, Any]]:
        """What an allowed digit sets."""
        return self.settings[digit]

    def columns(self, axis: int) -> list[tuple[str, Any, Any, np.ndarray]]:
        """What the axis sets, as (kind, where, one value, all allowed ones as numbers); Structural where uneven."""
        if self._columns is None:
            raise Structural({axis})
        return self._columns

    @cached_property
    def _columns(self) -> list[tuple[str, Any, Any, np.ndarray]] | None:
        every = [self.settings[digit] for digit in self.allowed]
        if len({tuple((kind, where) for kind, where, _ in settings) for settings in every}) > 1:
            return None
        columns = []
        for settings in zip(*every, strict=True):
            kind, where, one = settings[0]
            numbers = [value[1].si if kind == "spec" else value[1] if kind == "model" else value
                       for _, _, value in settings]  # fmt: skip
            columns.append((kind, where, one, np.array(numbers, dtype=np.float64)))
        return columns


class _Between(_Values):
    """The same of one setting whose values lie in a range that is allowed, like one of them; made when asked for."""

    def __init__(self, like: tuple[str, Any, Any], values: Sequence[float]) -> None:
        self.like, self.values = like, values
        self.refused, self.allowed = [], range(len(values))

    def of(self, digit: int) -> list[tuple[str, Any, Any]]:
        return [restated(*self.like, self.values[digit])]

    @cached_property
    def _columns(self) -> list[tuple[str, Any, Any, np.ndarray]] | None:
        return [(*self.like, np.array(self.values, dtype=np.float64))]


class DesignFamily:
    """Designs of a space that agree in every axis but the numeric ones.

    `values` harvests what each value of each axis sets, validated by the same functions as a scenario's own; a value
    that is refused is kept as its sentence in `refused`.
    """

    def __init__(
        self,
        space: Space,
        digits: Mapping[int, int],
        numeric: Sequence[int],
        catalog: Catalog | None,
        zoo: Zoo | None,
        known: dict[Any, Any],
        beat: Beat,
    ) -> None:
        self.space, self.beat = space, beat
        self.numeric: tuple[int, ...] = (*numeric, OPTIONS)
        self.catalog, self.zoo = catalog, zoo
        settings = [s for i in sorted(digits) for s in space.axes[i].settings(digits[i])]
        self.scenario = apply_settings(space.base, settings, catalog, zoo, space.moved)
        self.base: Bound = named(self.scenario, catalog, zoo)
        self.graph = self.base.graph  # as the accelerator's compiler runs it, once `Designs.lower` has found it
        self._designs: dict[Part, Designs] = {}
        self._radix = tuple(len(space.axes[axis]) for axis in numeric)
        harvest = [self._harvest(axis, known) for axis in numeric]
        self.refused = {(axis, d): text for axis, one in zip(numeric, harvest, strict=True) for d, text in one.refused}
        self._set = [one.of for one in harvest]
        self._joint()
        self._allowed = [one.allowed for one in harvest]
        for axis, one in zip(numeric, harvest, strict=True):
            if not one.allowed:
                raise Refused(self.refused[axis, 0])
        self._columns = [*(one.columns(axis) for axis, one in zip(numeric, harvest, strict=True)), []]
        self.option, self.allowed = 0, [*self._allowed, [0]]
        self.radix: tuple[int, ...] = (*self._radix, 1)

    def choose(self, first: int, upto: int) -> None:
        """From now on, designs have those options of their plans, along the last axis."""
        if (first, upto) != (self.option, self.option + self.radix[-1]):
            self._designs.clear()
        self.option, self.radix = first, (*self._radix, upto - first)
        self.allowed = [*self._allowed, list(range(upto - first))]

    def _harvest(self, axis: int, known: dict[Any, Any]) -> _Values:
        """What each digit of an axis sets, found once for all families of the space that set the same."""
        one = self.space.axes[axis]
        plain = all("." not in path for path in one.paths)  # what a scenario takes is the same on every system
        key = (axis,) if plain else (self.base.system.id, self.base.workload.id, axis)
        if key not in known:
            known[key] = self._between(axis) or _Values([*self._settings(axis)])
        return known[key]

    def _settings(self, axis: int) -> Iterator[list[tuple[str, Any, Any]] | str]:
        one = self.space.axes[axis]
        for digit in range(len(one)):
            self.beat(digit, len(one))
            yield self._setting(axis, digit)

    def _between(self, axis: int) -> _Between | None:
        """What an axis of whole sizes or positive numbers sets, where the least and the most are allowed: what a size,
        a specification or a parameter allows is a range, so every one between is. None elsewhere."""
        (path, *more), values = self.space.axes[axis].paths, self.space.axes[axis].values
        if more or not between(path, values):
            return None
        low, high = (self._setting(axis, values.index(end)) for end in (min(values), max(values)))
        return None if isinstance(low, str) or isinstance(high, str) else _Between(low[0], values)

    def _joint(self) -> None:
        """Structural where a value that is refused on its own may hold beside another axis of the same part."""
        parents = [{path.rpartition(".")[0] for path in axis.paths if "." in path} for axis in self.space.axes]
        for axis in {axis for axis, _ in self.refused}:
            beside = {i for i, others in enumerate(parents) if i != axis and others & parents[axis]}
            if beside and any(head_of(path)[0] in HARDWARE[:3] for path in self.space.axes[axis].paths):
                raise Structural({axis} | beside)

    def _setting(self, axis: int, digit: int) -> list[tuple[str, Any, Any]] | str:
        """What a digit of an axis sets; the first sentence that refuses it."""
        settings: list[tuple[str, Any, Any]] = []
        for path, value in self.space.axes[axis].settings(digit):
            try:
                settings.append(read_setting(self.space.base, self.base, path, value, self.catalog, self.zoo))
            except ValueError as error:
                return str(error)
        return settings

    @property
    def whole(self) -> Part:
        """All designs whose values are allowed."""
        return tuple((0, len(digits)) for digits in self.allowed)

    def part(self, of: Part) -> Designs:
        """Some designs as one: a column lies along each axis of which there are several values."""
        if of not in self._designs:
            if len(self._designs) > _REMEMBERED:
                self._designs.clear()
            self._designs[of] = Designs(self, of)
        return self._designs[of]

    def settings(self, of: Part) -> list[tuple[str, Any, Any]]:
        """Everything the axes set in a part, as (kind, where, value)."""
        settings = []
        for at, (lo, hi) in enumerate(of):
            shape = [-1 if a == at else 1 for a in range(len(of))]
            for kind, where, one, values in self._columns[at]:
                if hi - lo == 1:
                    own = next(v for k, w, v in self._set[at](self.allowed[at][lo]) if (k, w) == (kind, where))
                    settings.append((kind, where, own))
                    continue
                column = Column(values[lo:hi].reshape(shape))
                if kind == "spec":
                    settings.append((kind, where, (one[0], _Many.of(one[1], column))))
                else:
                    settings.append((kind, where, (one[0], column) if kind == "model" else column))
        return settings

    def lowered(self, graph: Any) -> None:
        """From now on, designs have this graph."""
        if graph is not self.graph:
            self.graph = graph
            self._designs.clear()


class Designs(Design):
    """Some designs of a family as one: pieces of the model are functions of it."""

    def __init__(self, family_: DesignFamily, of: Part) -> None:
        self.family, self._options = family_, of[-1]
        self.bound = self._bound(family_.settings(of))
        self._open: Plan | None = None
        self._jobs = {}

    def _bound(self, settings: Sequence[tuple[str, Any, Any]]) -> Bound:
        base = self.family.base
        fields: dict[str, Any] = dict(self.family.scenario.__dict__)
        devices, host, wires = list(base.devices), base.host, list(base.wires)
        model, costs, overrides = dict(base.model), fields["costs"].model_dump(), dict(fields["overrides"])
        for kind, where, value in settings:
            if kind == "field":
                fields[where] = value
            elif kind == "costs":
                costs[where] = value
            elif kind == "model":
                overrides[f"model.{where}"], model[where] = value
            elif kind == "spec":
                (role, position), keys, shown = where
                overrides[shown], seen = value
                if role == "devices":
                    devices[position] = _put(devices[position], keys, seen)
                elif role == "host":
                    host = _put(host, keys, seen)
                else:
                    wires[position] = replace(wires[position], link=_put(wires[position].link, keys, seen))
        fields |= {"costs": Costs.model_construct(**costs), "overrides": overrides}
        return replace(
            base,
            scenario=Scenario.model_construct(**fields),
            devices=tuple(devices),
            host=host,
            wires=tuple(wires),
            model=model,
            graph=self.family.graph,
            what_ifs=tuple(overrides),
        )

    def lower(self) -> None:
        """The graph as the accelerator's compiler runs it; Structural where that depends on an axis."""
        bound, fam = self.bound, self.family
        model = _Structure(own_model(bound.device, bound.model), fam.numeric)
        fam.lowered(lowered(bound.scenario, fam.base.device, bound.graph, model))

    def open_plan(self) -> Plan:
        """Its plan, with options still open where the scheme and the scenario leave it so."""
        if self._open is None:
            self._open = open_plan(self.bound)
        return self._open

    @cached_property
    def plan(self) -> Plan:
        """Its plan; of options that differ in their tiles alone one, whose tiles are columns."""
        plan, first = self.open_plan(), self.family.option
        some = plan.options[first + self._options[0] : first + self._options[1]] or (plan,)
        return tiles_as_columns(some, (*(1 for _ in self.family.numeric[1:]), -1))
