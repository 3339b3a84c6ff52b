"""Numbers as their source prints them, and the one conversion to SI.

``parse("3.35 TB/s")`` is ``(3.35e12, "B/s")``. GB is 1e9 byte and GiB is 2**30; B is a byte and b (or bit) is a bit.
"""

import math
import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self

from pydantic import AfterValidator, StrictFloat, StrictInt, model_validator

from entries.files import read_plain
from entries.schema import Evidence, InputError


class SpecError(InputError):
    """A specification that can't be read: one sentence naming the field, the value and what is allowed."""


_TABLE = read_plain(Path(__file__).with_name("units.yaml"))
_UNITS: dict[str, tuple[str, float, bool]] = {unit: tuple(entry) for unit, entry in _TABLE["units"].items()}
_PREFIXES, _BINARY = _TABLE["prefixes"], _TABLE["binary"]
_SMALL = ("s", "W", "J", "m")  # dimensions that come in milli and less; "mB" would be a slip for MB
_LOWEST, _HIGHEST = 1e-18, 1e24  # in SI: nothing built is beyond, and products of a few such numbers stay finite
_FLOAT_MOST = 1e308
_LONGEST = 60  # characters of a printed quantity
_NUMBER = re.compile(r"\s*([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([A-Za-zµ%/]*)\s*")


def _unit(text: str) -> tuple[str, float]:
    """Dimension and factor to SI of a printed unit such as ``GiB`` or ``TFLOP/s``."""
    if text in _UNITS:
        dimension, factor, _ = _UNITS[text]
        return dimension, factor
    for prefix, scale in (_BINARY | _PREFIXES).items():
        base = text.removeprefix(prefix)
        if base == text or base not in _UNITS:
            continue
        dimension, factor, prefixed = _UNITS[base]
        if dimension in ("B", "B/s") if prefix in _BINARY else prefixed and (scale > 1 or dimension in _SMALL):
            return dimension, scale * factor
    names = ", ".join(sorted(u for u in _UNITS if u))
    raise SpecError(
        f"unit {text!r} is not known: use one of {names}, with an SI prefix (Ki, Mi, Gi for bytes and bits)"
    )


def parse(text: str | float) -> tuple[float, str]:
    """Value in SI and its dimension, e.g. ``("40 Gbit/s")`` -> ``(5e9, "B/s")``.

    A bare number is dimensionless. Raises SpecError for anything else.
    """
    if isinstance(text, str):
        return _parse_text(text)
    if isinstance(text, bool) or not isinstance(text, int | float):
        raise SpecError(f"quantity {str(text)[:40]!r} must be a number or a number with a unit, as '3.35 TB/s'")
    if not -_FLOAT_MOST <= text <= _FLOAT_MOST:  # so that no integer is too long to be told
        raise SpecError("quantity must be finite, and below 1e308 in size")
    return float(text), "1"


@lru_cache(maxsize=4096)
def _parse_text(text: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text) if len(text) <= _LONGEST else None
    if not match:
        raise SpecError(f"quantity {text[:_LONGEST]!r} must be a number and a unit, as '3.35 TB/s'")
    dimension, factor = _unit(match[2])
    value = float(match[1].replace(",", "")) * factor
    if not math.isfinite(value):
        raise SpecError(f"quantity {text!r} must be finite")
    return value, dimension


class Quantity(Evidence):
    """A number with its unit as printed, where it was printed, and what kind of evidence it is."""

    value: str | StrictInt | StrictFloat  # strict: YAML reads a bare yes as true, and true is not 1
    before: str | float | None = None  # what a scenario's what-if stands in for, as printed; no file sets it

    @model_validator(mode="after")
    def _check(self) -> Self:
        parse(self.value)
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy, unchecked; what was parsed of the value is not taken along."""
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("si", None)
        return copy

    @cached_property
    def si(self) -> float:
        """The value in SI units; parsed once, as families read it at every price."""
        return parse(self.value)[0]

    @property
    def catalog_si(self) -> float:
        """The value in SI units without the scenario's what-if."""
        return self.si if self.before is None else parse(self.before)[0]

    @property
    def dimension(self) -> str:
        """SI dimension, e.g. ``B/s``; ``1`` for a plain count or ratio."""
        return parse(self.value)[1]

    def __float__(self) -> float:
        return self.si


def within(dimension: str, low: float = 0.0, high: float = math.inf, positive: bool = True) -> AfterValidator:
    """Validator of a Quantity that accepts one dimension and a range in SI."""

    def check(q: Quantity) -> Quantity:
        if q.dimension == "1" != dimension:
            raise SpecError(f"value {q.value!r} has no unit; add one of {dimension!r}, e.g. {q.value} G{dimension}")
        if q.dimension != dimension:
            raise SpecError(f"value {q.value!r} is in {q.dimension!r}; {dimension!r} is allowed")
        unit = "" if dimension == "1" else f" {dimension}"
        if q.si and not _LOWEST <= abs(q.si) <= _HIGHEST:
            raise SpecError(f"value {q.value!r} is out of range: {_LOWEST:g} to {_HIGHEST:g}{unit} in size is allowed")
        if not low <= q.si <= high or (positive and q.si <= 0):
            lower = "more than 0" if positive and low <= 0 else f"at least {low:g}"
            upper = "" if math.isinf(high) else f" and at most {high:g}"
            raise SpecError(f"value {q.value!r} is out of range: {lower}{upper}{unit} is allowed")
        return q

    return AfterValidator(check)
