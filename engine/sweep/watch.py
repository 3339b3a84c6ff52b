"""Which axes a piece of the model reads: watched while it runs, so that it is priced once per value of those alone.

A sweep varies numbers of a scenario and of specs. While a function of a design runs, every such number that it reads is
noted. If it read only some axes at every point of their product, the other axes can't change what it returns: the
table over those axes is exact, whatever the function does inside.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from engine.devices.family import Job
from engine.scenario import Scenario
from hardware_specs.quantity import Quantity
from model_zoo.ops import Linear

__all__ = [
    "WatchedJob", "WatchedModel", "WatchedQuantity", "WatchedScenario", "lengths_read", "note", "unwatched",
    "watching",
]  # fmt: skip


class _Reads(threading.local):
    axes: set[int] | None = None  # read so far; None while nobody watches
    fields: Mapping[str, frozenset[int]] = {}  # axes that set a field of the scenario


_READS = _Reads()


@contextmanager
def watching(fields: Mapping[str, frozenset[int]]) -> Iterator[set[int]]:
    """Collects the axes that are read inside; `fields` says which axes set a field of the scenario."""
    before = _READS.axes, _READS.fields
    _READS.axes, _READS.fields = set(), fields
    try:
        yield _READS.axes
    finally:
        _READS.axes, _READS.fields = before


@contextmanager
def unwatched() -> Iterator[None]:
    """Reads inside are not noted: what is made there notes its own."""
    before = _READS.axes
    _READS.axes = None
    try:
        yield
    finally:
        _READS.axes = before


def note(axes: frozenset[int] | set[int]) -> None:
    """Those axes have been read."""
    if _READS.axes is not None:
        _READS.axes |= axes


class WatchedQuantity(Quantity):
    """A quantity that an axis sets; its value in SI is worked out once."""

    @classmethod
    def of(cls, quantity: Quantity, axes: frozenset[int], si: Any = None) -> WatchedQuantity:
        """The same quantity, watched; ``si`` stands for its value where many are taken at once."""
        made = cls.model_construct(**quantity.__dict__)
        made.__dict__["seen"] = axes, quantity.si if si is None else si  # frozen for everybody else
        return made

    @property
    def si(self) -> float:
        """The value in SI units."""
        axes, value = self.__dict__["seen"]
        note(axes)
        return value


def _watched_field(name: str) -> property:
    def read(scenario: Any) -> Any:
        if _READS.axes is not None and name in _READS.fields:
            _READS.axes |= _READS.fields[name]
        return scenario.__dict__[name]

    return property(read)


class WatchedScenario(Scenario):
    """A scenario of which axes set some fields: what only those do costs nothing for the others."""


for _name in ("batch", "streams", "inputs", "outputs", "costs", "limits", "overrides"):
    setattr(WatchedScenario, _name, _watched_field(_name))


class WatchedModel(Mapping[str, float]):
    """Model parameters of which axes set some."""

    def __init__(self, values: Mapping[str, float], axes: Mapping[str, frozenset[int]]) -> None:
        self._values, self._axes = dict(values), axes

    def __getitem__(self, name: str) -> float:
        if name in self._axes:
            note(self._axes[name])
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _watched_size(name: str) -> Any:
    def read(job: Any) -> Any:
        own = job.__dict__
        note(own["watched_axes"][name])
        return own[name]

    return property(read)


class WatchedJob(Job):
    """A job of which axes set sizes."""

    batch = _watched_size("batch")
    streams = _watched_size("streams")
    length = _watched_size("length")
    context = _watched_size("context")
    max_context = _watched_size("max_context")

    @classmethod
    def of(cls, job: Job, axes: Mapping[str, frozenset[int]], model: WatchedModel) -> WatchedJob:
        """The same job, watched: `axes` says which axes set each of its sizes."""
        made = object.__new__(cls)
        made.__dict__.update(job.__dict__, model=model, watched_axes=axes)
        return made


def lengths_read(line: Linear, fields: Mapping[str, frozenset[int]]) -> frozenset[int]:
    """Axes that a length, linear in a request's inputs and outputs, depends on."""
    none: frozenset[int] = frozenset()
    return (fields.get("inputs", none) if line.i else none) | (fields.get("outputs", none) if line.o else none)
