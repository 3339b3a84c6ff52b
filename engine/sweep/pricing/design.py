"""Designs that share their structure: same system, network, mapping; numbers of the scenario and of specs vary.

A `DesignFamily` of designs is bound and planned through the same functions as a single scenario; what the axes set is
watched (`engine.sweep.pricing.watch`), so that each piece of the model is computed once for the values it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engine.cost.schedule import job_of
from engine.devices import family
from engine.devices.common.column import Column
from engine.plan.plan import padding
from engine.plan.schemes import Plan, open_plan
from engine.resolve.bind import Bound, lowered, named, own_model
from engine.scenario import Costs
from engine.scenario.overrides import HARDWARE
from engine.sweep.pricing.setting import head_of, read_setting
from engine.sweep.pricing.watch import (
    Memory,
    WatchedJob,
    WatchedModel,
    WatchedQuantity,
    WatchedScenario,
    lengths_read,
    note,
    unwatched,
    watching,
)
from engine.sweep.space import Space, apply_settings
from hardware_specs.catalog import Catalog
from model_zoo.catalog import Zoo
from model_zoo.ops import Graph, Linear

__all__ = ["Beat", "Design", "DesignFamily", "Structural"]

Beat = Callable[[int, int], None]
"""Called with (entries made, entries of this table) while tables are made; what it raises ends that."""


class Structural(Exception):
    """Those axes change the structure of a plan: designs that differ in them don't share tables."""

    def __init__(self, axes: frozenset[int] | set[int]) -> None:
        super().__init__(f"axes {sorted(axes)}")
        self.axes = frozenset(axes)


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
        self.space, self.fixed, self.numeric = space, dict(digits), tuple(numeric)
        self.catalog, self.zoo = catalog, zoo
        settings = [s for i in sorted(digits) for s in space.axes[i].settings(digits[i])]
        self.scenario = apply_settings(space.base, settings, catalog, zoo)
        self.base: Bound = named(self.scenario, catalog, zoo)
        self.fields: dict[str, frozenset[int]] = {}
        self.model_axes: dict[str, frozenset[int]] = {}
        self.refused: dict[tuple[int, int], str] = {}
        self._set: dict[int, list[list[tuple[str, Any, Any]] | str]] = {}
        self._columnar: dict[int, bool] = {}
        self._designs: dict[tuple[Any, ...], Design] = {}
        self._size_axes: dict[int, dict[str, frozenset[int]]] = {}
        self.option = 0  # of plans that leave something open
        self.memories: dict[tuple[int, int], Memory] = {}  # of each stage's and phase's jobs with that option
        self.beat = beat
        self.graph = self.base.graph  # as the accelerator's compiler runs it, once `Design.lower` has found it
        for axis in self.numeric:
            self._harvest(axis, known)
        self._joint()

    def _harvest(self, axis: int, known: dict[Any, Any]) -> None:
        """What each digit of an axis sets, as (kind, where, value), or the sentence that refuses it."""
        one = self.space.axes[axis]
        for path in one.paths:
            self._reads(axis, path)
        key = (self.base.system.id, self.base.workload.id, axis)
        if key not in known:
            known[key] = []
            for digit in range(len(one)):
                self.beat(digit, len(one))
                known[key].append(self._setting(axis, digit))
        for digit, found in enumerate(known[key]):
            if isinstance(found, str):
                self.refused[axis, digit] = found
        self._set[axis] = known[key]

    def _joint(self) -> None:
        """Structural where a value that is refused on its own may hold beside another axis of the same part."""
        parents = [{path.rpartition(".")[0] for path in axis.paths if "." in path} for axis in self.space.axes]
        for axis in {axis for axis, _ in self.refused}:
            beside = {i for i, others in enumerate(parents) if i != axis and others & parents[axis]}
            if beside and any(head_of(path)[0] in HARDWARE[:3] for path in self.space.axes[axis].paths):
                raise Structural({axis} | beside)

    def _setting(self, axis: int, digit: int) -> list[tuple[str, Any, Any]] | str:
        """What a digit of an axis sets; the first sentence that refuses it."""
        found: list[tuple[str, Any, Any]] = []
        for path, value in self.space.axes[axis].settings(digit):
            try:
                kind, where, one = read_setting(self.space.base, self.base, path, value, self.catalog, self.zoo)
            except ValueError as error:
                return str(error)
            if kind == "spec":
                one = one[0], WatchedQuantity.of(one[1], frozenset({axis}))
            found.append((kind, where, one))
        return found

    def _reads(self, axis: int, path: str) -> None:
        """Which fields of the scenario, or parameters of the model, an axis sets."""
        head, rest = head_of(path)
        field = head if head in ("costs", "limits") else "overrides" if head in HARDWARE else path
        self.fields[field] = self.fields.get(field, frozenset()) | {axis}
        parts = rest.split(".")
        name = rest if head == "model" else parts[2] if head == "devices" and parts[1:2] == ["model"] else None
        if name is not None:
            self.model_axes[name] = self.model_axes.get(name, frozenset()) | {axis}

    def settings(self, digits: Sequence[int]) -> list[tuple[str, Any, Any]]:
        """Everything the numeric axes set at a position on each, as (kind, where, value); nothing where refused."""
        return [one for axis, digit in zip(self.numeric, digits, strict=True) for one in self._at(axis, digit)]

    def _at(self, axis: int, digit: int) -> list[tuple[str, Any, Any]]:
        found = self._set[axis][digit]
        return found if isinstance(found, list) else []

    def design(self, digits: Sequence[int]) -> Design:
        """The design at a position on each numeric axis."""
        key = tuple(digits)
        if key not in self._designs:
            if len(self._designs) > 2048:
                self._designs.clear()
            self._designs[key] = Design(self, self.settings(key), dict(zip(self.numeric, key, strict=True)))
        return self._designs[key]

    def columnar(self, at: int) -> bool:
        """Whether all values of the numeric axis at that position set the same numbers."""
        if at not in self._columnar:
            shapes = {
                tuple((kind, where) for kind, where, _ in found)
                for found in self._set[self.numeric[at]]
                if isinstance(found, list)
            }
            self._columnar[at] = len(shapes) == 1
        return self._columnar[at]

    def part(self, reference: Sequence[int], order: Sequence[int], digits: Sequence[list[int]]) -> Design:
        """Designs at a reference but for some axes, there at all of ``digits``, as one: a column lies along each."""
        key = (tuple(order), tuple(map(tuple, digits)))
        if key not in self._designs:
            if len(self._designs) > 2048:
                self._designs.clear()
            settings = []
            for a, axis in enumerate(self.numeric):
                along = digits[order.index(a)] if a in order else [reference[a]]
                every = [self._at(axis, digit) for digit in along]
                shape = [-1 if a == other else 1 for other in order]
                settings += every[0] if len(along) == 1 else _merged(every, axis, shape)
            self._designs[key] = Design(self, settings)
        return self._designs[key]

    def size_axes(self, phase: int) -> Mapping[str, frozenset[int]]:
        """Axes that set each size of a phase's jobs."""
        if phase not in self._size_axes:
            fields, none, longest = self.fields, frozenset[int](), frozenset[int]()
            for p in self.graph.phases:
                longest |= lengths_read(p.context, fields) | lengths_read(p.repeat, fields)
            one, more = self.graph.phases[phase], none
            if padding(self.base) is not None:  # a padded length also follows the batch and the model's spread
                more = fields.get("batch", none).union(fields.get("inputs", none), *self.model_axes.values())

            def read(line: Linear) -> frozenset[int]:
                return lengths_read(line, fields) | (more if line.i else none)

            self._size_axes[phase] = {
                "batch": fields.get("batch", none),
                "streams": fields.get("streams", none),
                "length": read(one.length),
                "context": read(one.context),
                "max_context": longest | more,
            }
        return self._size_axes[phase]

    def lowered(self, graph: Graph) -> None:
        """From now on, designs have this graph."""
        self.graph = graph
        self._designs.clear()

    def pin(self, option: int) -> None:
        """From now on, plans that leave something open take this option of theirs."""
        self.option = option
        self.memories.clear()


def _merged(every: Sequence[Sequence[tuple[str, Any, Any]]], axis: int, shape: Sequence[int]) -> list[Any]:
    """What some digits of an axis set, each number as a column of that shape."""
    found = []
    for settings in zip(*every, strict=True):
        kind, where, one = settings[0]
        if kind == "spec":
            column = Column(np.reshape([value[1].__dict__["seen"][1] for _, _, value in settings], shape))
            one = column, WatchedQuantity.of(one[1], frozenset({axis}), column)
        elif kind == "model":
            one = (Column(np.reshape([value[1] for _, _, value in settings], shape)),) * 2
        else:
            one = Column(np.reshape([value for _, _, value in settings], shape))
        found.append((kind, where, one))
    return found


class Design:
    """One design of a family, watched. Its plan is made once; pieces of the model are functions of it."""

    def __init__(
        self, family_: DesignFamily, settings: Sequence[tuple[str, Any, Any]], digits: Mapping[int, int] | None = None
    ) -> None:
        self.family, self.digits = family_, digits
        self.bound = self._bound(settings)
        self._open: Plan | None = None
        self._option: int | None = None  # of the plan and the jobs
        self._plan: Plan | None = None
        self._jobs: dict[tuple[int, int], WatchedJob] = {}

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
        scenario = WatchedScenario.model_construct(**fields)
        watched_model = WatchedModel(model, self.family.model_axes)
        return replace(
            base,
            scenario=scenario,
            devices=tuple(devices),
            host=host,
            wires=tuple(wires),
            model=watched_model,
            graph=self.family.graph,
            what_ifs=tuple(overrides),
        )

    def lower(self) -> None:
        """The graph as the accelerator's compiler runs it; Structural where that depends on an axis."""
        with unwatched():
            model = WatchedModel(own_model(self.bound.device, self.bound.model), self.family.model_axes)
        with watching(self.family.fields) as read:
            graph = lowered(self.bound.scenario, self.bound.device, self.bound.graph, model)
        if read:
            raise Structural(read)
        self.family.lowered(graph)
        self.bound = replace(self.bound, graph=graph)

    def open_plan(self) -> Plan:
        """Its plan, with options still open where the scheme and the scenario leave it so. Watched."""
        return open_plan(self.bound)

    @property
    def plan(self) -> Plan:
        """Its plan; what the axes change in it is noted where it is tabulated."""
        if self._plan is None or self._option != self.family.option:
            if self._open is None:
                with unwatched():
                    self._open = self.open_plan()
            self._option = self.family.option
            self._plan = self._open.options[self._option] if self._open.options else self._open
            self._jobs = {}
        return self._plan

    def job(self, stage: int, phase: int) -> WatchedJob:
        """The job of a phase on a stage, watched."""
        on = self.plan.stages[stage]
        if (stage, phase) not in self._jobs:
            bound = self.bound
            one = bound.graph.phases[phase]
            fam = family(on.device.kind)
            with unwatched():
                job = job_of(bound, on, fam, one)
            self._jobs[stage, phase] = WatchedJob.of(
                job,
                self.family.size_axes(phase),
                WatchedModel(job.model, self.family.model_axes),
                self.digits,
                self.family.memories.setdefault((stage, phase), {}),
            )
        return self._jobs[stage, phase]

    def passes(self, phase: int) -> float:
        """Passes of a phase in a request. [-]"""
        s, repeat = self.bound.scenario, self.bound.graph.phases[phase].repeat
        note(lengths_read(repeat, self.family.fields))
        with unwatched():
            return repeat.at(s.inputs, s.outputs)
