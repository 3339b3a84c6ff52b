"""Settings that are numbers: which axes set nothing else, and what each value sets once it is validated."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

from engine.resolve.bind import Bound, check_model, parameter
from engine.resolve.spec_path import enter, key_of, part_of, set_paths, told_as
from engine.scenario import Scenario
from engine.scenario.overrides import HARDWARE, apply
from engine.sweep.space import SIZES, Space
from hardware_specs.quantity import Quantity


def head_of(path: str) -> tuple[str, str]:
    """(kind of a path, rest of it), with the optional ``system.`` in front gone."""
    head, _, rest = path.removeprefix("system.").partition(".")
    return head, rest


def _is_number(path: str) -> bool:
    head, rest = head_of(path)
    return path in SIZES or (bool(rest) and head in (*HARDWARE, "costs", "limits", "tile"))


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


def restated(setting: tuple[str, Any, Any], value: float) -> tuple[str, Any, Any]:
    """A setting of `read_setting` with another value that its path allows, in its unit in SI, as [B/s]."""
    kind, where, like = setting
    if isinstance(like, Quantity):
        return kind, where, like.model_copy(update={"value": told_as(like, value)})
    return kind, where, int(value) if isinstance(like, int) else value


def read_setting(scenario: Scenario, base: Bound, path: str, value: Any) -> tuple[str, Any, Any]:
    """One setting of a scenario, validated against what it names: (kind, where it goes, what goes there):
    a number in SI, as [B/s], or the quantity of a specification.

    ValueError, in one sentence, where the value is refused. ScenarioError for a path that is no number.
    """
    head, rest = head_of(path)
    changed = apply(scenario, path, value)
    if path in SIZES:
        return "field", path, getattr(changed, path)
    if head == "tile":
        return head, int(rest), changed.tile[int(rest)]
    if head in ("costs", "limits"):
        return head, rest, getattr(getattr(changed, head), rest)
    shown = path.removeprefix("system.")
    printed = changed.overrides[shown]
    if head == "model" and "." not in rest:
        number = float(parameter(shown, printed, base.device))
        check_model(replace(base, model={rest: number}))
        return "model", rest, number
    part, within = part_of(shown, len(base.devices), base.host is not None, [wire.role for wire in base.wires])
    spec: Any = {"devices": base.devices, "host": (base.host,), "links": [wire.link for wire in base.wires]}[part[0]]
    quantity, keys = set_paths(spec[part[1]], [(within, printed, shown)]), []
    for step in within:
        keys.append(key_of(quantity, step))
        quantity = enter(quantity, step, shown)
    return "spec", (part, tuple(keys), shown), quantity
