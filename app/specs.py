"""Specs as rows: every number with its path, its unit as printed, its source and its kind of evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from app import format as fmt
from engine.bind import bind
from engine.scenario import Scenario
from hardware_specs.quantity import Quantity, parse

__all__ = ["Row", "assumed_price", "overridable", "overridden", "quantities", "si_of", "written"]


@dataclass(frozen=True)
class Row:
    """One number of a spec."""

    path: str
    label: str
    printed: str
    basis: str
    where: str


def _label(path: str) -> str:
    """`memory.hbm.bandwidth` -> `memory hbm bandwidth`."""
    return path.replace("_", " ").replace(".", " ")


def _where(quantity: Quantity) -> str:
    """Place and note, then the key of the source that the entry lists: `table II (seed004)`."""
    said = "; ".join(text for text in (quantity.where, quantity.note) if text)
    return f"{said} ({quantity.source})" if quantity.source else said


def quantities(spec: BaseModel) -> list[Row]:
    """Every quantity of a spec, in the order of its schema."""
    return [Row(path, _label(path), str(q.value), q.basis, _where(q)) for path, q in _walk(spec, ()) if q is not None]


def _walk(node: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Quantity]]:
    if isinstance(node, Quantity):
        yield ".".join(path), node
    elif isinstance(node, BaseModel):
        for name in type(node).model_fields:
            if name != "checks":
                yield from _walk(getattr(node, name), (*path, name))
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from _walk(value, (*path, str(key)))
    elif isinstance(node, tuple | list):
        for at, value in enumerate(node):
            yield from _walk(value, (*path, str(getattr(value, "name", at))))


def overridable(scenario: Scenario) -> list[Row]:
    """What a scenario may override: its devices, host, links and the constants of its device family's model."""
    bound = bind(scenario.with_(overrides={}))
    rows = []
    many = len(bound.devices) > 1
    for at, device in enumerate(bound.devices):
        of = f"{device.name}: " if many else ""
        rows += [
            Row(f"devices.{at}.{r.path}", of + r.label, r.printed, r.basis, r.where)
            for r in quantities(device)
            if r.path != "launched"
        ]
    if bound.host is not None:
        rows += [
            Row(f"host.{r.path}", f"host: {r.label}", r.printed, r.basis, r.where)
            for r in quantities(bound.host)
            if r.path != "launched"
        ]
    for wire in bound.wires:
        rows += [
            Row(f"links.{wire.role}.{r.path}", f"{wire.role} link: {r.label}", r.printed, r.basis, r.where)
            for r in quantities(wire.link)
        ]
    for p in bound.family.parameters:
        value = bound.family.model(bound.device)[p.name]
        unit = "" if p.unit in ("-", "1") else f" {p.unit}"
        rows.append(Row(f"model.{p.name}", f"model: {_label(p.name)}", f"{value:.4g}{unit}", p.basis, p.note))
    return rows


def assumed_price(scenario: Scenario) -> bool:
    """Whether a price of the scenario's devices has no source."""
    return any(device.price is not None and device.price.basis == "assumed" for device in bind(scenario).devices)


def si_of(printed: str) -> tuple[float, str]:
    """SI value and unit of a value as the catalog prints it, `$` for money; no unit where it is a plain count."""
    if printed.replace(",", "").replace(".", "", 1).isdigit():
        return float(printed.replace(",", "")), ""
    value, dimension = parse(printed)
    return value, {"1": "", "USD": "$"}.get(dimension, dimension)


def written(printed: str, value: Any) -> str:
    """A what-if value as people write it: as it was typed, else in the unit of the catalog's printed one."""
    if isinstance(value, str):
        return value
    unit = si_of(printed)[1]
    if not unit:
        return f"{float(value):g}" if abs(value) < 1e-4 else fmt.digits4(float(value))
    return fmt.usd(float(value)) if unit == "$" else fmt.si(float(value), unit)


def overridden(scenario: Scenario) -> list[tuple[str, str]]:
    """(label, value) of each what-if, in words; the bare path where the catalog no longer has it."""
    if not scenario.overrides:
        return []
    known = {row.path: row for row in overridable(scenario)}
    return [
        (known[path].label, written(known[path].printed, value)) if path in known else (path, str(value))
        for path, value in scenario.overrides.items()
    ]
