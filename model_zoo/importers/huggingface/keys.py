"""A configuration's keys: read by any of the names a field goes by, refused in one sentence, and remembered."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from entries.files import plain, read_plain
from model_zoo.schema import WorkloadError

NAMES = read_plain(Path(__file__).with_name("names.yaml"))
"""What configurations call things."""
MAX_BYTES = 4 << 20
_MAX_TEXT = 60


def config_of(raw: bytes) -> dict[str, Any]:
    """The object that a configuration's JSON text holds; InputError in one sentence otherwise."""
    data = plain(raw, "JSON")
    if not isinstance(data, dict):
        raise WorkloadError(f"a model configuration is a JSON object; this is {type(data).__name__}")
    return data


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

    def refuse(self, value: Any, rule: str) -> WorkloadError:
        """What is wrong with the key last read."""
        text = repr(value)
        return WorkloadError(f"key {self.last!r} is {text[:_MAX_TEXT]}; {rule}")

    def _check(self, names: tuple[str, ...], fits: Callable[[Any], bool], rule: str) -> Any:
        """The value of the first of those keys that is set, else None; WorkloadError where it is not what fits."""
        value = self.raw(*names)
        if value is not None and not fits(value):
            raise self.refuse(value, f"{rule} is allowed")
        return value

    def whole(self, *names: str, default: int | None = None, low: int = 0, high: int = 2**40) -> int:
        """A whole number; WorkloadError where none of the names is there and there is no default."""

        def fits(value: Any) -> bool:
            return _is_number(value) and low <= value <= high and value == value // 1

        value = self._check(names, fits, f"a whole number from {low} to {high}")
        value = default if value is None else value
        if value is None:
            raise WorkloadError(f"key {self.prefix + names[0]!r} is missing; a model configuration needs it")
        return int(value)

    def number(self, *names: str, default: float, low: float, high: float) -> float:
        """A number."""
        rule = f"a number from {low:g} to {high:g}"
        value = self._check(names, lambda value: _is_number(value) and low <= value <= high, rule)
        return default if value is None else float(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        """True or false."""
        value = self._check(names, lambda value: isinstance(value, int), "true or false")
        return default if value is None else bool(value)

    def text(self, *names: str, default: str = "") -> str:
        """Text, in lower case."""
        value = self._check(names, lambda value: isinstance(value, str), "text")
        return default if value is None else value.lower()

    def entries(self, *names: str, limit: int = 4096) -> Sequence[Any]:
        """A list; empty where there is none."""
        rule = f"a list of at most {limit} entries"
        return self._check(names, lambda value: isinstance(value, list) and len(value) <= limit, rule) or ()

    def under(self, *names: str) -> "Keys | None":
        """The object under a key; None where there is none."""
        value = self._check(names, lambda value: isinstance(value, dict), "an object")
        return None if value is None else Keys(value, f"{self.last}.")

    def unread(self) -> Iterator[tuple[str, Any]]:
        """Keys that nothing asked for, and what they hold."""
        return ((self.prefix + key, value) for key, value in self.data.items() if key not in self.read)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
