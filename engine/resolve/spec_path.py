"""Paths of hardware: which part of a system one is of, and a copy of its specification with other numbers at some."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ValidationError

from engine.scenario import NotThereError, ScenarioError
from hardware_specs.quantity import Quantity


def part_of(label: str, devices: int, host: bool, roles: Sequence[str]) -> tuple[tuple[str, int], list[str]]:
    """The part that a path is of, by kind and number, and the path within it, of a system with those parts.

    ``host``: whether it has one; ``roles``: of its links. NotThereError for a path of no such part.
    """
    head, *path = label.removeprefix("system.").split(".")
    if head == "devices" and len(path) >= 2 and path[0].isdigit() and int(path[0]) < devices:
        return (head, int(path[0])), path[1:]
    if head == "host" and path and host:
        return (head, 0), path
    if head == "links" and len(path) >= 2 and path[0] in roles:
        return (head, roles.index(path[0])), path[1:]
    there = [f"devices.{i}.<field>" for i in range(devices)] + ["host.<field>"] * host
    there += [f"links.<{'|'.join(roles)}>.<field>"] * bool(roles)
    raise NotThereError(f"{label} is not a hardware path of this system: use {', '.join(there)} or model.<parameter>")


def set_paths(spec: Any, changes: list[tuple[list[str], str | float, str]]) -> Any:
    """A copy of a spec with the quantities at some paths replaced, validated once all are; ScenarioError otherwise.

    ``changes`` are (path, new value, path as shown). Lists are entered by position or by an entry's name
    (``memory.hbm.bandwidth``). A new value keeps the field's dimension: a bare number is SI, a printed one carries its
    unit. What holds between two numbers of a spec is asked of the result, so the order of changes does not matter.
    """
    data = spec
    for path, value, label in changes:
        data = replaced(data, path, _replacement(spec, path, value, label), as_data=True)
    try:
        return type(spec).model_validate(data) if changes else spec
    except ValidationError as error:
        message = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        settings = " and ".join(f"{label} = {str(value)[:40]}" for _, value, label in changes[:3])
        raise ScenarioError(f"{settings}: {message}") from None


def _replacement(spec: Any, path: list[str], value: str | float, label: str) -> dict[str, Any]:
    """What stands for a quantity of a spec that a scenario changes."""
    node = quantity = spec
    for step in path:
        node, quantity = quantity, enter(quantity, step, label)
    if not isinstance(quantity, Quantity) or isinstance(node, tuple):
        raise ScenarioError(f"{label} is not a number of the specification: name one of its quantities")
    note = quantity.note if quantity is _no_price() else f"the catalog says {quantity.value}"
    return {
        "value": value if isinstance(value, str) else told_as(quantity, value),
        "basis": "assumed",
        "note": f"what-if of the scenario; {note}",
        "before": quantity.value if quantity.before is None else quantity.before,
    }


def told_as(quantity: Quantity, value: float) -> str | float:
    """A value in SI as a quantity prints it: with its unit, a bare number where it has none."""
    return value if quantity.dimension == "1" else f"{value!r} {quantity.dimension}"


def replaced(node: Any, path: Sequence[str], replacement: Any, as_data: bool = False) -> Any:
    """A copy of a spec node with something else at ``path``, unchecked; ``as_data``: nodes on the way as mappings, so
    that validating the copy asks all of them, and what lies beside the path stays as it is.
    """
    if not path:
        return replacement
    key = key_of(node, path[0])
    if isinstance(node, tuple):
        return (*node[:key], replaced(node[key], path[1:], replacement, as_data), *node[key + 1 :])
    fields = node if isinstance(node, dict) else node.__dict__
    child = {key: replaced(fields[key], path[1:], replacement, as_data)}
    return fields | child if as_data or node is fields else node.model_copy(update=child)


@lru_cache(maxsize=1)
def _no_price() -> Quantity:
    """What stands for the price of a part that no list has, so that a scenario may name one."""
    return Quantity(value="0 USD", basis="assumed", note="no price is published")


def enter(node: Any, step: str, label: str) -> Any:
    """The child of a spec node that a path step names. NotThereError where there is none."""
    key = key_of(node, step)
    try:
        child = node[key] if isinstance(node, dict | tuple) else getattr(node, key)
    except (KeyError, IndexError, AttributeError, TypeError):
        child = None
    if child is None and isinstance(node, BaseModel) and step == "price" in type(node).model_fields:
        return _no_price()
    if child is None or (isinstance(node, BaseModel) and step not in type(node).model_fields):
        raise NotThereError(f"{label}: {step!r} is not set there; set are {', '.join(_names(node)) or 'no fields'}")
    return child


def key_of(node: Any, step: str) -> Any:
    """Position or key that a step means in a node: lists also take an entry's name."""
    if isinstance(node, tuple):
        if step.isdigit():
            return int(step)
        names = [item.get("name") if isinstance(item, dict) else getattr(item, "name", None) for item in node]
        return names.index(step) if step in names else len(node)
    return step


def _names(node: Any) -> list[str]:
    if isinstance(node, BaseModel):
        return [name for name in type(node).model_fields if getattr(node, name) is not None]
    if isinstance(node, dict):
        return [str(k) for k in node]
    return [str(getattr(item, "name", i)) for i, item in enumerate(node)] if isinstance(node, tuple) else []
