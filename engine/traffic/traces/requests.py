"""Files of requests as others publish them: when they come, tokens in and out, and which prompts begin alike."""

import csv
import itertools
import json
import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from engine.scenario.token import brief
from engine.traffic.arrivals import Trace
from engine.traffic.service import TrafficError, positive
from engine.traffic.sizes import SIZE_MOST, Listed

HASHED = 512  # tokens of a prompt that a hash stands for, as Mooncake publishes them
_ROWS_MOST = 5_000_000
_INPUTS = ("input_length", "ContextTokens", "prompt_len", "input_len", "prompt_tokens", "inputs", "size")
_OUTPUTS = ("output_length", "GeneratedTokens", "output_len", "completion_tokens", "outputs", "output")
_TIMES = {"timestamp": 1e-3, "TIMESTAMP": 1.0, "time_s": 1.0, "arrival_s": 1.0}  # seconds of a number there
_TIME, _IN, _OUT, _HASHES, _PRIORITY = "time", "inputs", "outputs", "hash_ids", "priority"
_COLUMNS = (
    dict.fromkeys(_TIMES, _TIME) | dict.fromkeys(_INPUTS, _IN) | dict.fromkeys(_OUTPUTS, _OUT) | {_PRIORITY: _PRIORITY}
)


@dataclass(frozen=True, eq=False)
class RequestFile:
    """Requests of a file, in order.

    ``instants``: arrivals from the first on [s]; None where the file has none. ``hashes``: of each prompt, a number for
    each `HASHED` tokens that stands for them and all before them; ``priority``: the number of each; None where the file
    has none.
    """

    instants: NDArray[np.float64] | None
    inputs: Listed
    outputs: Listed
    hashes: Sequence[Sequence[int]] | None
    priority: NDArray[np.int64] | None = None

    @property
    def requests(self) -> int:
        """How many there are. [-]"""
        return self.inputs.values.size

    @property
    def longest(self) -> int:
        """Tokens of the longest request, in and out. [tokens]"""
        return int((self.inputs.values + self.outputs.values).max())

    def arrivals(self, speed: float = 1.0) -> Trace | None:
        """The arrivals, ``speed`` [-] times as fast; None where the file has none. TrafficError for no such speed."""
        if self.instants is None:
            return None
        times = self.instants / positive("speed", speed)
        return Trace(times, times.size / max(float(times[-1]), 1e-9))

    def cached(self, blocks: int | None, block: int, replicas: int = 1) -> NDArray[np.int64]:
        """Tokens of each prompt that an earlier request left in the cache, in whole blocks. [tokens] An estimate.

        Hashes are kept by last use in as many tokens as a replica's ``blocks`` of ``block`` tokens hold (None: all of
        them), whatever sequences that run take of it. Requests are dealt to the replicas in turn.
        """
        inputs = self.inputs.values
        hits = np.zeros(inputs.size, np.int64)
        room = math.inf if blocks is None else blocks * block // HASHED
        caches: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(replicas)]
        for i, hashes in enumerate(self.hashes or ()):
            cache = caches[i % replicas]
            hits[i] = next((k for k, key in enumerate(hashes) if key not in cache), len(hashes))
            for key in hashes:
                cache[key] = None
                cache.move_to_end(key)
            while len(cache) > room:
                cache.popitem(last=False)
        return np.minimum(HASHED * hits, inputs) // block * block


def read_requests(path: Path) -> RequestFile:
    """A file of requests, JSON lines or CSV: Mooncake's, Azure's, or what a benchmark sends.

    Mooncake: ``timestamp`` [ms], ``input_length``, ``output_length``, ``hash_ids``. Azure: ``TIMESTAMP`` (a date and
    time), ``ContextTokens``, ``GeneratedTokens``. A benchmark's: ``prompt_len`` and ``output_len`` or names like these,
    no times. Each may have a ``priority``, the smallest number served first. Other fields are passed over. TrafficError
    where a line can't be read, times run back, or a length is no whole number from 1 on.
    """
    columns: dict[str, list[Any]] = {_TIME: [], _IN: [], _OUT: [], _HASHES: [], _PRIORITY: []}
    for line, row in _read_rows(path):
        _read(columns, line, row, (_INPUTS, _OUTPUTS))
    count = len(columns[_IN])
    if not count:
        raise TrafficError(f"trace {brief(path.name, 80)} has no requests")
    for name in (_TIME, _HASHES, _PRIORITY):
        if columns[name] and len(columns[name]) < count:
            raise TrafficError(
                f"trace {brief(path.name, 80)}: {name} is given for {len(columns[name])} of {count} rows"
            )
    instants = np.array(columns[_TIME]) - columns[_TIME][0] if columns[_TIME] else None
    inputs, outputs = (Listed(np.array(columns[name])) for name in (_IN, _OUT))
    return RequestFile(instants, inputs, outputs, columns[_HASHES] or None, _numbers(columns))


def read_trace(source: str | Path | TextIO) -> tuple[Trace, Listed | None, Listed | None]:
    """A trace of arrivals: ``time_s`` (increasing) and, if wanted, ``size`` and ``output`` (whole, from 1 on), and
    ``priority`` (whole, from 0 on, the smallest served first).

    Returns the arrivals with their priorities, the sizes and the output lengths. The first bad cell is named by its
    line. TrafficError where it can't be read.
    """
    columns: dict[str, list[Any]] = {_TIME: [], _IN: [], _OUT: [], _PRIORITY: []}
    for line, row in _read_rows(source):
        if "time_s" not in row or row.keys() - {"time_s", "size", "output", _PRIORITY}:
            shown = brief(list(row), 80)
            raise TrafficError(f"trace has columns {shown}; time_s is needed, size, output and priority are allowed")
        _read(columns, line, row)
    times = columns[_TIME]
    if len(times) < 2:
        raise TrafficError(f"trace has {len(times)} arrivals in time_s; two or more are needed")
    sizes, outputs = (Listed(np.array(columns[name])) if columns[name] else None for name in (_IN, _OUT))
    return replace(Trace.of(times), priority=_numbers(columns)), sizes, outputs


def _numbers(columns: dict[str, list[Any]]) -> NDArray[np.int64] | None:
    return np.array(columns[_PRIORITY]) if columns[_PRIORITY] else None


def _read_rows(source: str | Path | TextIO) -> Iterator[tuple[int, dict[str, Any]]]:
    """Lines of a file or a text and their fields; TrafficError where it can't be read."""
    try:
        if isinstance(source, str | Path):
            with open(source, newline="", encoding="utf-8-sig") as file:
                yield from _rows(file)
        else:
            yield from _rows(source)
    except (OSError, ValueError) as error:
        if isinstance(error, TrafficError):
            raise
        reason, name = getattr(error, "strerror", None) or "it is no text", brief(getattr(source, "name", source), 80)
        raise TrafficError(f"trace {name} can't be read: {reason}") from None


def _rows(file: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Lines and their fields, of JSON lines or, where the first is none, of CSV with a header."""
    lines = iter(file)
    first = next(lines, "")
    if not first.lstrip().startswith("{"):
        yield from _cells(first, lines)
        return
    for number, text in enumerate(itertools.chain((first,), lines), 1):
        if text.strip():
            try:
                row = json.loads(text)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise _broken(number, "it must be one JSON object")
            yield number, row


def _cells(first: str, lines: Iterator[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Lines of CSV behind their header and their fields."""
    cells = csv.reader(lines, strict=True)
    try:
        header = [name.strip() for name in next(csv.reader([first], strict=True), [])]
        if len(set(header)) < len(header):
            raise _broken(1, f"a column is there twice: {brief(header, 80)}")
        for row in filter(None, cells):
            if len(row) != len(header):
                raise _broken(cells.line_num + 1, f"it has {len(row)} cells; the header has {len(header)}")
            yield cells.line_num + 1, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise _broken(cells.line_num + 1, f"{error}; it must be plain CSV") from None


def _broken(line: int, reason: str) -> TrafficError:
    return TrafficError(f"trace line {line}: {reason}")


def _read(columns: dict[str, list[Any]], line: int, row: dict[str, Any], needed: Sequence[Sequence[str]] = ()) -> None:
    """Adds a row's fields to the columns.

    TrafficError where it has none of some that are ``needed``, times run back, or there are too many rows.
    """
    for names in needed:
        if row.keys().isdisjoint(names):
            raise _broken(line, f"it has fields {brief(list(row), 80)}; one of {', '.join(names)} is needed")
    for column, name in {_COLUMNS[name]: name for name in row if name in _COLUMNS}.items():
        cell, values, low = row[name], columns[column], int(column != _PRIORITY)
        value = _seconds(line, name, cell) if column == _TIME else _length(line, name, cell, low)
        if column == _TIME and values and value < values[-1]:
            raise _broken(line, f"{name} is {brief(cell)}, before the line above; sort the trace")
        if len(values) >= _ROWS_MOST:
            raise TrafficError(f"trace has more than {_ROWS_MOST:,} rows; cut it")
        values.append(value)
    hashes = row.get(_HASHES)
    if hashes is not None:
        if not isinstance(hashes, list) or not all(type(key) is int for key in hashes):
            raise _broken(line, f"hash_ids is {brief(hashes)}; it must be a list of whole numbers")
        columns[_HASHES].append(hashes)


def _length(line: int, name: str, value: Any, low: int = 1) -> int:
    try:
        length = float(value)
        if isinstance(value, bool) or not low <= length <= SIZE_MOST or length != int(length):
            raise ValueError
    except (TypeError, ValueError):
        allowed = f"a whole number from {low} to {SIZE_MOST}"
        raise _broken(line, f"{name} is {brief(value)}; it must be {allowed}") from None
    return int(length)


def _seconds(line: int, name: str, value: Any) -> float:
    if not isinstance(value, bool):
        with suppress(TypeError, ValueError, OverflowError):
            if math.isfinite(at := _TIMES[name] * float(value)):
                return at
        with suppress(TypeError, ValueError, OverflowError):
            when = datetime.fromisoformat(value)
            return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    raise _broken(line, f"{name} is {brief(value)}; it must be a finite number or a date and time")
