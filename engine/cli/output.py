"""How every command answers: JSON with SI units in its keys, or lines for people."""

import json
import sys
from collections.abc import Iterable, Iterator
from numbers import Real
from typing import Any

from engine.scenario import ScenarioError
from engine.scenario.sentences import amount, percent

_UNITS = {  # ends of a key, longest first
    "bytes_per_s": "B/s", "b_per_s": "B/s", "flops_per_s": "FLOP/s", "flop_per_s": "FLOP/s",
    "per_s": "/s", "qps": "request/s",
    "bytes": "B", "joules": "J", "seconds": "s", "usd": "USD", "s": "s", "w": "W", "j": "J",
}  # fmt: skip
_SKIP = ("scenario", "error_band", "message")  # in a sentence, or for machines
_SHARES = ("share", "utilisation")
_ROWS, _WIDE = 24, 44  # rows of a table and characters of a cell that a terminal is shown; --json holds all


def emit(data: Any, lines: Iterable[str], as_json: bool, with_data: bool = False) -> None:
    """Writes the data as JSON, or the lines, and after them the data if ``with_data``.

    ScenarioError for a number in JSON that is not finite.
    """
    if not as_json:
        sys.stdout.write("\n".join([*lines, *(lines_of(data) if with_data else ())]) + "\n")
        return
    try:
        text = json.dumps(data, indent=1, allow_nan=False)
    except ValueError:
        raise ScenarioError("a figure of this answer is not finite, which JSON can't hold") from None
    sys.stdout.write(text + "\n")


def _unit(key: str) -> str:
    return next((unit for end, unit in _UNITS.items() if key == end or key.endswith("_" + end)), "")


def _label(key: str) -> str:
    end = next((end for end in _UNITS if key.endswith("_" + end) and end not in ("bytes", "usd")), "")
    return key.removesuffix("_" + end).replace("_", " ")


def _cell(key: str, value: Any) -> str:
    """A figure as people write it, by the unit its key ends with; a list of few as one."""
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    if isinstance(value, Real) and key.endswith(_SHARES):
        return percent(float(value))
    if isinstance(value, Real):
        plain = isinstance(value, int) and not _unit(key)
        return f"{value:,}" if plain else amount(float(value), _unit(key)) if _unit(key) else f"{value:,.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(_cell(key, part) for part in value)
    return str(value)


def _flat(value: Any) -> bool:
    """Whether a value is a figure, a word, or a short list of them."""
    if isinstance(value, list | tuple):
        return len(value) <= 4 and not any(isinstance(part, dict | list | tuple) for part in value)
    return not isinstance(value, dict)


def lines_of(data: Any, indent: str = "", limit: int = _ROWS) -> Iterator[str]:
    """Plain data with SI units in its keys as lines: figures by name, rows of alike records as a table of the first
    ``limit``."""
    rows = [row for row in data if isinstance(row, dict)] if isinstance(data, list | tuple) else []
    if rows:
        keys = [key for key in rows[0] if key not in _SKIP and all(_flat(row.get(key)) for row in rows)]
        cells = [[*map(_label, keys)]]
        cells += [
            [_cell(key, row.get(key))[: _WIDE if key != keys[-1] else None] for key in keys] for row in rows[:limit]
        ]
        wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            yield indent + "  ".join(f"{cell:{size}}" for cell, size in zip(row, wide, strict=True)).rstrip()
        if len(rows) > limit:
            yield f"{indent}and {len(rows) - limit} more rows: --json holds all"
    elif isinstance(data, dict):
        for key, value in data.items():
            if key in _SKIP or value in (None, "", (), []):
                continue
            if _flat(value):
                yield f"{indent}{_label(key):26} {_cell(key, value)}"
            elif lines := [*lines_of(value, indent + "  ")]:
                yield indent + _label(key)
                yield from lines
