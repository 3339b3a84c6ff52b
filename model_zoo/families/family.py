"""What a family is, and how its parameters are read: every bad value ends in one sentence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from model_zoo.ops import Graph
from model_zoo.schema import WorkloadError

MAX_SIZE = 2**40


class Params:
    """Typed reading of a family's parameters; WorkloadError names the parameter, its value and what is allowed."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def but(self, values: Mapping[str, Any]) -> "Params":
        """The same with other values."""
        return Params({**self._values, **values})

    def whole(self, key: str, low: int = 1, high: int = MAX_SIZE) -> int:
        """A whole number between `low` and `high`."""
        return _whole(key, self._values[key], low, high)

    def has(self, key: str) -> bool:
        """Whether a parameter that may be nothing is something."""
        return self._values[key] is not None

    def sizes(self, key: str, min_length: int = 0, low: int = 1, high: int = MAX_SIZE) -> tuple[int, ...]:
        """A list of at least `min_length` whole numbers."""
        value = self._values[key]
        if isinstance(value, int) and not isinstance(value, bool):
            value = (value,)
        if not isinstance(value, (tuple, list)) or len(value) < min_length:
            raise WorkloadError(
                f"parameter {key!r} is {_repr(value)}; a list of {min_length} or more whole numbers is needed"
            )
        return tuple(_whole(key, item, low, high) for item in value)

    def rows(self, key: str, columns: int) -> tuple[tuple[int, ...], ...]:
        """A list of rows of `columns` whole numbers each."""
        value = self._values[key]
        good = isinstance(value, (tuple, list)) and all(
            isinstance(r, (tuple, list)) and len(r) == columns for r in value
        )
        if not good:
            raise WorkloadError(f"parameter {key!r} is {_repr(value)}; rows of {columns} whole numbers are needed")
        return tuple(tuple(_whole(key, item, 0, MAX_SIZE) for item in row) for row in value)

    def number(self, key: str, low: float, high: float) -> float:
        """A number between `low` and `high`."""
        value = self._values[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise WorkloadError(f"parameter {key!r} is {_repr(value)}; a number from {low:g} to {high:g} is allowed")
        return float(value)

    def text(self, key: str) -> str:
        """Text of at most 4096 characters."""
        value = self._values[key]
        if not isinstance(value, str) or len(value) > 4096:
            raise WorkloadError(f"parameter {key!r} is {_repr(value)}; text of at most 4096 characters is allowed")
        return value

    def word(self, key: str, words: tuple[str, ...]) -> str:
        """One of the allowed words."""
        value = self._values[key]
        if value not in words:
            raise WorkloadError(f"parameter {key!r} is {_repr(value)}; allowed: {', '.join(words)}")
        return str(value)


@dataclass(frozen=True)
class NetworkFamily:
    """How to build a network and which of its parameters a user may turn in a scenario.

    `defaults` lists every parameter that may be left out; a parameter that is neither there nor in `required` is
    an error. `adjustable` maps a parameter to its label and allowed range. `input_label` and `output_label` name the
    request's lengths (None: the family has no such length).
    """

    name: str
    build: Callable[[Params], Graph]
    required: Sequence[str]
    defaults: Mapping[str, Any]
    adjustable: Mapping[str, Sequence[Any]]
    input_label: str | None = None
    output_label: str | None = None


def _whole(key: str, value: Any, low: int, high: int) -> int:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole or not low <= value <= high:
        raise WorkloadError(f"parameter {key!r} is {_repr(value)}; a whole number from {low} to {high} is allowed")
    return int(value)


def _repr(value: Any) -> str:
    return repr(value)[:60]
