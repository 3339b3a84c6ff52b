"""``path=value`` settings: how the command line, a sweep axis and a table editor reach into a scenario."""

import math
from collections.abc import Iterable
from typing import Any

from engine.scenario import Scenario, ScenarioError, make
from engine.scenario.fields import field, of_kind
from engine.scenario.token import brief

_PLAIN, _WHOLE, _RECORDS = frozenset(of_kind("id", "choice")), frozenset(of_kind("count")), of_kind("record")
HARDWARE = ("devices", "host", "links", "model")  # heads of paths into a specification or the cost model


def without_figure(paths: Iterable[str], figure: str) -> tuple[str, ...]:
    """Paths of what-ifs that make another part of hardware than the catalog's, whose `figure` (price, power) none says.

    A device's own figure says it for that device, any device's or the host's for a link. A parameter of the cost model
    makes no other part. Paths alone decide, whatever they set.
    """
    changes: dict[str, list[str]] = {}
    exempt = set()
    for path in paths:
        head, _, tail = path.removeprefix("system.").partition(".")
        if head in ("devices", "links"):
            at, _, tail = tail.partition(".")
            head = f"{head}.{at}"
        field = tail.partition(".")[0]
        if field == figure:
            exempt |= {head} if head.startswith("links.") else {head, "links"}
        elif field not in ("", "price", "model") and head.startswith(("devices.", "host", "links.")):
            changes.setdefault(head, []).append(path.removeprefix("system."))
    return tuple(
        path
        for head, rows in changes.items()
        if head not in exempt and not (head.startswith("links.") and "links" in exempt)
        for path in rows
    )


def parse_setting(text: str) -> tuple[str, str]:
    """``"devices.0.npu.tiles=6"`` as path and value; ScenarioError otherwise."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip() or not value.strip():
        raise ScenarioError(f"setting {brief(text, 60)} must be path=value, as batch=8 or devices.0.npu.tiles=6")
    return path.strip(), value.strip()


def _number(path: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ScenarioError(f"{path} is {brief(value)}: a number is needed") from None
    if not math.isfinite(number) or isinstance(value, bool):
        raise ScenarioError(f"{path} is {brief(value)}: a finite number is needed")
    return number


def _whole(path: str, value: Any) -> Any:
    """A whole number as one; what is none stays, for the scenario to refuse with its range."""
    number = _number(path, value)
    return int(number) if number == int(number) else number


def apply(scenario: Scenario, path: str, value: Any) -> Scenario:
    """A copy of a scenario with one path set.

    Paths: a field (``batch``), ``tile.0`` or ``tile`` (``64x16``, ``auto``), ``params.<name>``, ``switches.<name>``,
    ``layers.<operator>``, ``costs.<name>``, ``limits.<name>``, or hardware: ``devices.<n>.<field>``, ``host.<field>``,
    ``links.<role>.<field>``, ``model.<parameter>``, each also behind ``system.``.
    """
    fields = scenario.model_dump()
    head, _, tail = path.partition(".")
    if path.startswith("system.") or (head in HARDWARE and tail):
        fields["overrides"] = fields["overrides"] | {path.removeprefix("system."): _quantity(path, value)}
    elif path in _PLAIN:
        fields[path] = field(path).value_of(value)
        if path == "scheme" and value != "split":
            fields |= {"split": 0, "second_split": None}  # another scheme cuts nothing
    elif path in _WHOLE:
        fields[path] = _whole(path, value)
    elif path == "tile":
        fields["tile"] = _tile(value)
    elif head == "tile" and tail.isdecimal():
        fields["tile"] = _side(scenario.tile, int(tail), value)
    elif head in ("params", "switches", "layers") and tail:
        fields[head] = fields[head] | {tail: _number(path, value) if head == "params" else value}
    elif head in _RECORDS and tail:
        names = type(getattr(scenario, head)).model_fields  # a limit that is not set is not in the dump
        if tail not in names:
            raise ScenarioError(f"{path}: {head} has {', '.join(names)}")
        fields[head] = fields[head] | {tail: _number(path, value)}
    else:
        raise ScenarioError(
            f"{brief(path, 40)} is not a setting; there are {', '.join(sorted(_PLAIN | _WHOLE))}, tile, params.*, "
            "switches.*, layers.*, costs.*, limits.*, and hardware as devices.0.*, host.*, links.*, model.*"
        )
    return make(fields)


def _quantity(path: str, value: Any) -> Any:
    """A number where the text is one, else the printed quantity."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return _number(path, value)


def _side(tile: tuple[int, ...], at: int, value: Any) -> tuple[Any, ...]:
    if at >= len(tile):
        raise ScenarioError(f"tile.{at}: the tile has {len(tile)} numbers; set all of it first, as tile=64x16")
    return (*tile[:at], _whole(f"tile.{at}", value), *tile[at + 1 :])


def _tile(value: Any) -> tuple[int, ...]:
    if isinstance(value, tuple | list):
        return tuple(_whole("tile", v) for v in value)
    text = str(value).lower()
    if text in ("auto", "()", ""):
        return ()
    parts = text.replace("×", "x").split("x")
    if not all(part.strip().isdecimal() and len(part) < 20 for part in parts):
        raise ScenarioError(f"tile is {brief(text)}: whole numbers joined by x are allowed, as 64x16, or auto")
    return tuple(int(part) for part in parts)


def apply_all(scenario: Scenario, settings: list[str]) -> Scenario:
    """A scenario with every ``path=value`` of a list applied in order."""
    for text in settings:
        scenario = apply(scenario, *parse_setting(text))
    return scenario
