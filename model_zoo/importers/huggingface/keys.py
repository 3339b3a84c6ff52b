"""A configuration's keys: read by any of the names a field goes by, refused in one sentence, and remembered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from model_zoo.schema import WorkloadError

MAX_BYTES = 4 << 20
_DEEPEST = 24
_SHOWN = 60


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise WorkloadError(f"key {key[:_SHOWN]!r} is given twice")
        result[key] = value
    return result


def _number(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def bounded(text: str) -> Any:
        if len(text) > _SHOWN:
            raise WorkloadError(f"a number of {len(text)} characters; at most {_SHOWN} are allowed")
        return read(text)

    return bounded


def _levels(text: str) -> int:
    """Deepest nesting of a JSON text; brackets inside strings count too, which refuses nothing that is meant."""
    depth = most = 0
    for part in text:
        depth += (part in "[{") - (part in "]}")
        most = max(most, depth)
    return most


def plain(raw: bytes) -> dict[str, Any]:
    """The object a JSON text of at most `MAX_BYTES` holds; WorkloadError in one sentence otherwise."""
    if len(raw) > MAX_BYTES:
        raise WorkloadError(f"more than the {MAX_BYTES} bytes a model configuration may have")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise WorkloadError("not readable as JSON: it is not UTF-8 text") from None
    if _levels(text) > _DEEPEST:
        raise WorkloadError(f"nested more than {_DEEPEST} deep, which no model configuration is")
    try:
        data = json.loads(text, object_pairs_hook=_pairs, parse_int=_number(int), parse_float=_number(float))
    except json.JSONDecodeError as error:
        raise WorkloadError(f"not readable as JSON ({error.msg}, line {error.lineno})") from None
    if not isinstance(data, dict):
        raise WorkloadError(f"a model configuration is a JSON object; this is {type(data).__name__}")
    return data


def read_bytes(path: Path) -> bytes:
    """Bytes of a file, no more than are allowed; WorkloadError in one sentence otherwise."""
    try:
        if not path.is_file():
            raise WorkloadError("not a file")
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise WorkloadError(f"can't be read ({error.strerror or type(error).__name__})") from None


class Keys:
    """One level of a configuration. A reading takes the first of several names that is there and not null."""

    def __init__(self, data: dict[str, Any], prefix: str = "") -> None:
        self.data, self.prefix = data, prefix
        self.read: dict[str, None] = {}
        self.last = ""  # name of the key last found

    def __contains__(self, key: str) -> bool:
        return self.data.get(key) is not None

    def raw(self, *names: str) -> Any:
        """The value of the first of those keys that is set, else None."""
        self.last = ""
        value = None
        for name in names:
            self.read[name] = None
            if value is None and self.data.get(name) is not None:
                self.last, value = self.prefix + name, self.data[name]
        return value

    def refuse(self, value: Any, allowed: str) -> WorkloadError:
        """What is wrong with the key last read."""
        shown = repr(value)
        return WorkloadError(f"key {self.last!r} is {shown[:_SHOWN]}; {allowed}")

    def whole(self, *names: str, default: int | None = None, low: int = 0, high: int = 2**40) -> int:
        """A whole number; WorkloadError where none of the names is there and there is no default."""
        value = self.raw(*names)
        if value is None:
            if default is None:
                raise WorkloadError(f"key {self.prefix + names[0]!r} is missing; a model configuration needs it")
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            raise self.refuse(value, f"a whole number from {low} to {high} is allowed")
        if not low <= value <= high:
            raise self.refuse(value, f"a whole number from {low} to {high} is allowed")
        return int(value)

    def number(self, *names: str, default: float, low: float, high: float) -> float:
        """A number."""
        value = self.raw(*names)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.refuse(value, f"a number from {low:g} to {high:g} is allowed")
        return float(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        """True or false."""
        value = self.raw(*names)
        if value is None:
            return default
        if not isinstance(value, bool | int):
            raise self.refuse(value, "true or false is allowed")
        return bool(value)

    def text(self, *names: str, default: str = "") -> str:
        """Text, in lower case."""
        value = self.raw(*names)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.refuse(value, "text is allowed")
        return value.lower()

    def listed(self, *names: str, most: int = 4096) -> Sequence[Any]:
        """A list; empty where there is none."""
        value = self.raw(*names)
        if value is None:
            return ()
        if not isinstance(value, list) or len(value) > most:
            raise self.refuse(value, f"a list of at most {most} entries is allowed")
        return value

    def under(self, *names: str) -> Keys | None:
        """The object under a key; None where there is none."""
        value = self.raw(*names)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.refuse(value, "an object is allowed")
        return Keys(value, f"{self.last}.")

    def unread(self) -> Iterator[tuple[str, Any]]:
        """Keys that nothing asked for, and what they hold."""
        return ((self.prefix + key, value) for key, value in self.data.items() if key not in self.read)
