"""Which axes a piece of the model reads: watched while it runs, so that it is priced once per value of those alone.

A sweep varies numbers of a scenario and of specs. While a function of a design runs, every such number that it reads is
noted. If it read only some axes at every point of their product, the other axes can't change what it returns: the
table over those axes is exact, whatever the function does inside.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from engine.devices.common.contract import Job
from engine.scenario import Scenario
from hardware_specs.quantity import Quantity
from model_zoo.ops import Linear

__all__ = [
    "Memory",
    "WatchedJob",
    "WatchedModel",
    "WatchedQuantity",
    "WatchedScenario",
    "lengths_read",
    "note",
    "unwatched",
    "watching",
]


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
        """The value in SI units. In its dimension's unit, as [B/s]."""
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


Memory = dict[Callable[[Any], Any], dict[tuple[int, ...], dict[tuple[int, ...], Any]]]
"""What functions found: by function, axes that it read, and digits of those."""
_REMEMBERED = 1024  # values of one function


class WatchedJob(Job):
    """A job of which axes set sizes."""

    batch = _watched_size("batch")
    streams = _watched_size("streams")
    length = _watched_size("length")
    context = _watched_size("context")
    max_context = _watched_size("max_context")

    @classmethod
    def of(
        cls,
        job: Job,
        axes: Mapping[str, frozenset[int]],
        model: WatchedModel,
        digits: Mapping[int, int] | None,
        memory: Memory,
    ) -> WatchedJob:
        """The same job, watched: `axes` says which axes set each of its sizes.

        `digits` is where it lies on each axis, None where it stands for many at once; jobs that differ in nothing else
        have a `memory` of what they share.
        """
        made = object.__new__(cls)
        made.__dict__.update(job.__dict__, model=model, watched_axes=axes, watched_at=digits, watched_memory=memory)
        return made

    def share(self, work: Callable[[Any], Any]) -> Any:
        """``work(self)``; what has been found where the axes that it read had the same values is taken from there."""
        own = self.__dict__
        digits = own["watched_at"]
        if digits is None:
            return work(self)
        known = own["watched_memory"].setdefault(work, {})
        for axes, found in known.items():
            at = tuple(digits[axis] for axis in axes)
            if at in found:
                note(set(axes))
                return found[at]
        read: set[int] = set()
        try:
            with watching(_READS.fields) as read:
                value = work(self)
        finally:
            note(read)
        found = known.setdefault(tuple(sorted(read)), {})
        if len(found) >= _REMEMBERED:
            found.clear()
        found[tuple(digits[axis] for axis in sorted(read))] = value
        return value


def lengths_read(line: Linear, fields: Mapping[str, frozenset[int]]) -> frozenset[int]:
    """Axes that a length, linear in a request's inputs and outputs, depends on."""
    none: frozenset[int] = frozenset()
    return (fields.get("inputs", none) if line.i else none) | (fields.get("outputs", none) if line.o else none)
