"""Settings that are numbers: which axes set nothing else, and what each value sets once it is validated."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from pydantic import BaseModel

from engine.devices import family
from engine.resolve.bind import Bound, named, set_path, told_as
from engine.scenario import Scenario, ScenarioError
from engine.scenario.overrides import HARDWARE, apply
from engine.sweep.space import SIZES, Space
from hardware_specs.catalog import Catalog
from model_zoo.catalog import Zoo


def head_of(path: str) -> tuple[str, str]:
    """(kind of a path, rest of it), with the optional ``system.`` in front gone."""
    head, _, rest = path.removeprefix("system.").partition(".")
    return head, rest


def _is_number(path: str) -> bool:
    head, rest = head_of(path)
    return path in SIZES or (bool(rest) and head in (*HARDWARE, "costs", "limits"))


def numeric_axes(space: Space) -> tuple[int, ...]:
    """Axes that set numbers only, at each value the same: sizes of the work, prices, specs, model parameters.

    A table is made of what is read where the axes set something: one value of an uneven axis says nothing of another.
    """
    return tuple(i for i, axis in enumerate(space.axes) if axis.even and all(_is_number(path) for path in axis.paths))


def between(path: str, values: Sequence[Any]) -> bool:
    """Whether what a path allows is a range that these values lie in together: whole sizes, or positive numbers."""
    if path in SIZES:
        return all(type(value) is int for value in values)
    return head_of(path)[0] in HARDWARE and all(type(v) in (int, float) and 0.0 < v < inf for v in values)


def number_of(kind: str, value: Any) -> float:
    """The number that a setting of `read_setting` sets, exact, in its unit in SI, as [B/s]."""
    return value[1].si if kind == "spec" else value[1] if kind == "model" else value


def restated(kind: str, where: Any, setting: Any, value: float) -> tuple[str, Any, Any]:
    """A setting of `read_setting` with another value that its path allows, in its unit in SI, as [B/s]."""
    if kind not in ("model", "spec"):
        return kind, where, int(value) if isinstance(setting, int) else value
    value = float(value)
    if kind == "model":
        return kind, where, (value, value)
    return kind, where, (value, setting[1].model_copy(update={"value": told_as(setting[1], value)}))


def _keys(spec: Any, path: Sequence[str]) -> tuple[list[Any], Any]:
    """Keys of a path through a spec (lists are entered by position or name), and what lies there."""
    keys: list[Any] = []
    for step in path:
        key: Any = step
        if isinstance(spec, tuple):
            by_name = next((i for i, item in enumerate(spec) if getattr(item, "name", None) == step), 0)
            key = int(step) if step.isdigit() else by_name
        spec = getattr(spec, step) if isinstance(spec, BaseModel) else spec[key]
        keys.append(key)
    return keys, spec


def read_setting(
    scenario: Scenario, base: Bound, path: str, value: Any, catalog: Catalog | None, zoo: Zoo | None
) -> tuple[str, Any, Any]:
    """One setting of a scenario, validated against what it names: (kind, where it goes, what goes there).

    ValueError, in one sentence, where the value is refused. ScenarioError for a path that is no number.
    """
    head, rest = head_of(path)
    changed = apply(scenario, path, value)
    if path in SIZES:
        return "field", path, getattr(changed, path)
    if head in ("costs", "limits"):
        return head, rest, getattr(getattr(changed, head), rest)
    shown, steps = path.removeprefix("system."), rest.split(".")
    printed = changed.overrides[shown]
    if head == "model" and len(steps) == 1:
        number = float(named(changed.with_(overrides={shown: printed}), catalog, zoo).model[rest])
        families = {d.kind: d for d in (*base.devices, *([base.host] if base.host else []))}
        own = [(family(k), d) for k, d in families.items() if any(p.name == rest for p in family(k).parameters)]
        if not own:
            raise ScenarioError(f"model.{rest}: no such parameter of {base.system.name}")
        for fam, device in own:
            fam.model(device, {rest: number})
        return "model", rest, (printed, number)
    if head == "devices" and len(steps) >= 2 and steps[0].isdigit() and int(steps[0]) < len(base.devices):
        at, spec, inside = ("devices", int(steps[0])), base.devices[int(steps[0])], steps[1:]
    elif head == "host" and base.host is not None:
        at, spec, inside = ("host", 0), base.host, steps
    elif head == "links" and any(w.role == steps[0] for w in base.wires) and len(steps) >= 2:
        position = next(i for i, w in enumerate(base.wires) if w.role == steps[0])
        at, spec, inside = ("links", position), base.wires[position].link, steps[1:]
    else:
        named(base.scenario.with_(overrides={shown: printed}), catalog, zoo)
        raise ScenarioError(f"{shown} is not a number of a specification")
    changed_spec = set_path(spec, inside, printed, shown)
    keys, quantity = _keys(changed_spec, inside)
    return "spec", (at, tuple(keys), shown), (printed, quantity)
