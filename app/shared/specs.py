"""Specs as rows: every number with its path, its unit as printed, its source and its kind of evidence."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel

from app.shared import formats as fmt
from engine.resolve.bind import bind, named
from engine.resolve.bound import own_model
from engine.resolve.setting import label, settable
from engine.scenario import Scenario
from entries.schema import Evidence
from hardware_specs.catalog import numbers
from hardware_specs.quantity import Quantity, SpecError, parse


@dataclass(frozen=True)
class SpecNumber:
    """One number of a spec, as printed and in SI: `$` for money, no unit where it is a plain count.

    A unit that the catalog does not read (`beat` of a model's parameter) is a word beside a plain number.
    """

    path: str
    label: str
    text: str
    basis: str
    where: str
    si: float = math.nan  # of several values
    unit: str = ""


def where(number: Evidence) -> str:
    """Place and note, then the key of the source that the entry lists: `table II (seed004)`."""
    words = "; ".join(text for text in (number.where, number.note) if text)
    return f"{words} ({number.source})" if number.source else words


def quantities(spec: BaseModel) -> list[SpecNumber]:
    """Every quantity of a spec, in the order of its schema; `memory.hbm.bandwidth` is a `memory hbm bandwidth`."""
    return [_row(path, re.sub("[_.]", " ", path), q) for path, q in numbers(spec) if not path.startswith("checks.")]


def _row(path: str, label: str, q: Quantity) -> SpecNumber:
    unit = {"1": "", "USD": "$"}.get(q.dimension, q.dimension)
    text = str(q.value)
    if not isinstance(q.value, str) and ("e" in text or abs(q.value) >= 1e4):  # a year keeps its four digits
        text = fmt.decimal(q.value)
    return SpecNumber(path, label, text, q.basis, where(q), q.si, unit)


def at_present(scenario: Scenario, path: str) -> float:
    """The value at a path with the scenario's own what-ifs. [SI]"""
    bound = bind(scenario)
    if path.startswith("model."):
        return own_model(bound.device, bound.model)[path.removeprefix("model.")]
    return next(quantity.si for part, inner, quantity in settable(bound) if f"{part}.{inner}" == path)


def overridable(scenario: Scenario) -> list[SpecNumber]:
    """What a scenario may override: its devices, host, links and the constants of its device family's model."""
    bound = named(scenario.with_(overrides={}))
    paths = ((f"{part}.{path}", quantity) for part, path, quantity in settable(bound))
    rows = [_row(path, label(bound, path), quantity) for path, quantity in paths]
    values = own_model(bound.device, bound.model)
    for p in bound.family.parameters:
        unit = "" if p.unit == "1" else p.unit
        text = _amount(values[p.name], unit, fmt.digits4)
        path = f"model.{p.name}"
        rows.append(SpecNumber(path, label(bound, path), text, p.basis, p.note, values[p.name], unit))
    return rows


def assumed_price(scenario: Scenario) -> bool:
    """Whether a price of the scenario's devices has no source."""
    return any(device.price is not None and device.price.basis == "assumed" for device in bind(scenario).devices)


def _amount(value: float, unit: str, digits: Callable[[float], str] = fmt.digits3) -> str:
    """An SI value as an override's box takes it: `460 GB/s`, `4 beat`; never in scientific notation."""
    if not _takes_prefix(unit):
        return f"{fmt.decimal(value)} {unit}".strip()
    scale = fmt.scale([value], unit)
    return f"{digits(scale(value))} {scale.unit}"


@cache
def _takes_prefix(unit: str) -> bool:
    """Whether the catalog reads a number in this unit as it is, and with an SI prefix."""
    try:
        return all(parse(f"1 {prefix}{unit}") == (size, unit) for prefix, size in (("", 1.0), ("k", 1e3)))
    except SpecError:
        return False


def value_text(row: SpecNumber, value: Any) -> str:
    """A what-if value as people write it: as it was typed, else in the unit of the catalog's printed one."""
    if isinstance(value, str):
        return value
    return fmt.usd(float(value)) if row.unit == "$" else _amount(float(value), row.unit)


def overridden(scenario: Scenario) -> list[tuple[str, str]]:
    """(label, value) of each what-if, in words; the bare path where the catalog no longer has it."""
    if not scenario.overrides:
        return []
    rows = {row.path: row for row in overridable(scenario)}
    return [
        (rows[path].label, value_text(rows[path], value)) if path in rows else (path, str(value))
        for path, value in scenario.overrides.items()
    ]
