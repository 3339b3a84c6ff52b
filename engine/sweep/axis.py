"""An axis of a space: a setting and the values it takes, read from a list or a range, or a scenario's own. Exact."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import exp, isfinite, log
from numbers import Number
from typing import Any

from engine.resolve.choices import Choices
from engine.scenario import Scenario, ScenarioError
from engine.scenario.fields import FIELDS, Field, of_kind
from engine.scenario.token import boundary, brief

VALUES_LIMIT = 100_000  # of one axis
_LENGTHS = 4096  # tokens, steps or items that a request is varied up to, or its own


@dataclass(frozen=True)
class Axis:
    """A setting and the values it takes. `path` is one of `engine.scenario.overrides.apply`; values that are mappings
    of such paths are set together, and `path` is then only the axis's name."""

    path: str
    values: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.values)

    def settings(self, digit: int) -> tuple[tuple[str, Any], ...]:
        """What a digit sets, as (path, value)."""
        value = self.values[digit]
        return tuple(value.items()) if isinstance(value, Mapping) else ((self.path, value),)

    @cached_property
    def even(self) -> bool:
        """Whether every value sets the same paths."""
        paths = frozenset((self.path,))
        return len({frozenset(v) if isinstance(v, Mapping) else paths for v in self.values}) == 1

    @cached_property
    def paths(self) -> frozenset[str]:
        """Every path it sets."""
        return frozenset().union(*(v if isinstance(v, Mapping) else (self.path,) for v in self.values))


def steps(low: float, high: float, count: int, scale: str = "linear") -> tuple[float, ...]:
    """So many values from low to high, both included, evenly spaced on a linear or a log scale.

    In the setting's unit, as [GB/s]. ScenarioError where they don't rise, or a log one isn't positive.
    """
    if count < 1 or (count > 1 and not low < high) or (scale == "log" and low <= 0):
        raise ScenarioError(f"range {low:g} to {high:g} in {count} steps: it must rise, and a log one be positive")
    if count == 1:
        return (float(low),)
    at = [i / (count - 1) for i in range(count)]
    if scale == "log":
        inside = [exp(log(low) + (log(high) - log(low)) * t) for t in at[1:-1]]
    else:
        inside = [low + (high - low) * t for t in at[1:-1]]
    return (float(low), *inside, float(high))


def _range(path: str, span: Mapping[str, Any]) -> tuple[float, ...]:
    """Values of an axis from a mapping {from, to, steps | by, scale}; ScenarioError for one that is none."""
    if (
        set(span) - {"from", "to", "steps", "by", "scale", "whole"}
        or not {"from", "to"} <= set(span)
        or ("steps" in span) == ("by" in span)
    ):
        raise ScenarioError(f"axis {path[:60]}: a range has from, to, steps (or by) and scale (linear or log)")
    scale = span.get("scale", "linear")
    if scale not in ("linear", "log"):
        raise ScenarioError(f"axis {path[:60]}: scale is {brief(scale, 20)}; linear or log is allowed")
    with boundary(f"axis {path[:60]}: from, to, steps and by are finite numbers, and by is not 0"):
        low, high = float(span["from"]), float(span["to"])
        wrong = next((name for name, v in (("from", low), ("to", high)) if not isfinite(v)), None)
        if wrong is not None:
            raise ScenarioError(f"axis {path[:60]}: {wrong} is {brief(span[wrong])}: a finite number is needed")
        count = int(span["steps"] if "steps" in span else (high - low) / float(span["by"]) + 1 + 1e-9)
    if not 1 <= count <= VALUES_LIMIT:
        raise ScenarioError(f"axis {path[:60]} has {count} values: 1 to {VALUES_LIMIT} are allowed")
    high = low + float(span["by"]) * (count - 1) if "by" in span else high
    values = steps(low, high, count, str(scale))
    return tuple(dict.fromkeys(round(v) for v in values)) if span.get("whole") else values


def axis_values(path: str, data: Any) -> tuple[Any, ...]:
    """Values of an axis from a list, one value, or a mapping {from, to, steps | by, scale}; ScenarioError otherwise."""
    if isinstance(data, Mapping):
        values: tuple[Any, ...] = _range(path, data)
    else:
        values = tuple(data) if isinstance(data, list | tuple) else (data,)
    if path in of_kind("choice"):  # a file's `on` is the truth there; rows name it as every other choice
        values = tuple(("off", "on")[value] if isinstance(value, bool) else value for value in values)
    if not 1 <= len(values) <= VALUES_LIMIT:
        raise ScenarioError(f"axis {path[:60]} has {len(values)} values: 1 to {VALUES_LIMIT} are allowed")
    for value in (item for item in values if type(item) is not int):
        together = isinstance(value, Mapping) and value and all(isinstance(key, str) for key in value)
        for part in value.values() if together else (value,):
            if isinstance(part, float) and not isfinite(part):
                raise ScenarioError(f"axis {path[:60]} has the value {part}: finite numbers are allowed")
            if not isinstance(part, Number | str | list | tuple):
                raise ScenarioError(
                    f"axis {path[:60]} has the value {brief(part)}: a number, a text, on or off, or a mapping of "
                    "settings to those is allowed"
                )
    return values


@dataclass(frozen=True)
class FieldAxis(Axis):
    """A field of a scenario as an axis, or a part of one: a side of its tile, a size of its network, a switch.

    Values are those that `apply` takes, `now` the scenario's own among them; None for a side of an automatic tile.
    """

    now: Any
    field: Field
    label: str
    help: str


def field_axes(scenario: Scenario, choices: Choices) -> dict[str, FieldAxis]:
    """What of a scenario may be varied, by path, in the order of the table of fields; `choices` lists what is offered.

    Numbers of its hardware are apart: `engine.sweep.sensitivity.knobs_of` has those.
    """
    return {axis.path: axis for of in FIELDS for axis in _axes(of, scenario, choices)}


def _axes(of: Field, scenario: Scenario, choices: Choices) -> Iterator[FieldAxis]:
    """A field as an axis, or each of its parts as one."""
    if of.path == "tile":
        tile = scenario.tile or (None,) * len(choices.knobs)
        for at, (knob, now) in enumerate(zip(choices.knobs, tile, strict=True)):
            yield FieldAxis(f"tile.{at}", knob.values, now, of, knob.label, of.help)
    elif of.path == "params":  # sizes of the network, about what they are
        for p in choices.params:
            now = scenario.params.get(p.name, p.default)
            around = {max(p.low, min(p.high, round(now * f))) for f in (0.25, 0.5, 1, 2, 4)}
            values = sorted({int(v) if float(v).is_integer() else v for v in (*around, now)})
            yield FieldAxis(f"params.{p.name}", tuple(values), now, of, p.label, of.help)
    elif of.path == "switches":
        for s in choices.switches:
            now = scenario.switches.get(s.name, s.default)
            yield FieldAxis(f"switches.{s.name}", (False, True), now, of, s.label, s.help)
    elif of.kind in ("count", "choice"):
        now, label = of.display(getattr(scenario, of.path)), getattr(choices, of.called) if of.called else of.label
        counts = [2**i for i in range(max(now, _LENGTHS).bit_length())] if of.called and label else choices.of(of)
        values = sorted({*counts, now}) if of.kind == "count" and counts else counts
        if len(values) > 1:
            yield FieldAxis(of.path, tuple(values), now, of, label, of.help)
