"""Tables of operators as text: read with every mistake named in one sentence, written back with the answers beside."""

import csv
import io
import lzma
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.devices.gpu.operators.kinds import KINDS, Kind
from engine.devices.gpu.operators.predict import Answers
from entries.schema import InputError

ADDED = ("predicted_us", "bound_us", "bound_by", "band_low_us", "band_high_us", "reason")
_ALWAYS = ("framework", "version", "kernel")  # text that may stand in any row
_FIGURES = ("time_us", "min_us")  # measured, handed through
_MAX_TEXT = 2 * 1024**3  # bytes of a table's text
_LARGEST = 1e12


class RowsError(InputError):
    """What is wrong with a table of operators, in one sentence."""


@dataclass(frozen=True)
class Table:
    """A table read: the header, each row's text as it was, and the columns by name."""

    header: list[str]
    lines: list[str]
    columns: dict[str, list[str]]


def _text(path: Path) -> str:
    """Text of a .csv or .csv.xz file."""
    opener = lzma.open if path.suffix == ".xz" else open
    try:
        with opener(path, "rb") as file:
            raw = file.read(_MAX_TEXT + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise RowsError(f"{path.name} is no readable .xz file: {str(error)[:80] or 'it ends too soon'}") from None
    if len(raw) > _MAX_TEXT:
        raise RowsError(f"{path.name} holds more than the {_MAX_TEXT} bytes such a table may have")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RowsError(f"{path.name} is no UTF-8 text: byte {error.start}") from None


def read_rows(path: Path) -> Table:
    """Reads a table; quoted fields are allowed.

    Raises
    ------
    RowsError
        For a file without rows, rows of another width than the header, or a column given twice.
    """
    text = _text(path)
    if '"' in text:
        fields = [row for row in csv.reader(io.StringIO(text)) if row]
        lines = [csv_line(row) for row in fields]
    else:
        lines = [line for line in text.splitlines() if line]
        fields = [line.split(",") for line in lines]
    header = [name.strip() for name in fields[0]] if fields else []
    for name in header:
        if header.count(name) > 1:
            raise RowsError(f"{path.name}: column {name[:40]!r} is given twice")
    if len(fields) < 2:
        raise RowsError(f"{path.name} holds no rows: a line of column names and one line a row are needed")
    for i, row in enumerate(fields):
        if len(row) != len(header):
            raise RowsError(f"{path.name}, line {i + 1}: {len(row)} fields where the header has {len(header)}")
    columns = map(list, zip(*fields[1:], strict=True))
    return Table(header, lines[1:], dict(zip(header, columns, strict=True)))


def csv_line(row: Iterable[str]) -> str:
    """Fields as a line of a table."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(row)
    return out.getvalue()


def parse_columns(
    kind: Kind, columns: Mapping[str, Sequence[str]], device: str | None = None
) -> tuple[dict[str, Sequence[str]], dict[str, np.ndarray]]:
    """Columns of text and of numbers that a kind's model takes, every one of them valid.

    Raises
    ------
    RowsError
        For a column that is unknown, missing or lacks its unit, and for a number that is none or out of range.
    """
    figures = (*kind.shape, *kind.defaults)
    names = tuple(dict.fromkeys(("device", *_ALWAYS, *kind.texts, *figures, *_FIGURES)))
    for name in columns:
        if name in names:
            continue
        unit = next((figure for figure in _FIGURES if figure.startswith(name.split("_")[0] + "_")), None)
        if unit is not None:
            raise RowsError(f"column {name[:40]!r} gives no unit this command knows: {unit} is allowed")
        raise RowsError(f"column {name[:40]!r} is unknown to {kind.name}: {', '.join(names)} are allowed")
    rows = len(next(iter(columns.values())))
    mandatory = [name for name, default in kind.texts.items() if default is None] + list(kind.shape)
    mandatory += [] if device else ["device"]
    for name in mandatory:
        if name not in columns:
            raise RowsError(f"column {name!r} is missing: {kind.name} needs {', '.join(mandatory)}")
    texts: dict[str, Sequence[str]] = {"device": [device] * rows} if device else {"device": columns["device"]}
    texts |= {name: columns.get(name, [default or ""] * rows) for name, default in kind.texts.items()}
    texts |= {name: columns[name] for name in _ALWAYS if name in columns}
    numbers = {}
    for name in figures:
        if name in columns:
            column, default = columns[name], kind.defaults.get(name)
            if default is not None:
                column = [value or str(default) for value in column]
            numbers[name] = _numbers(name, column, 0.0 if name in kind.zeros or default == 0.0 else 1.0)
        else:
            numbers[name] = np.full(rows, kind.defaults[name])
    for name in _FIGURES:
        if name in columns:
            _numbers(name, columns[name], 0.0, whole=False)
    return texts, numbers


def _numbers(name: str, column: Sequence[str], low: float, whole: bool = True) -> np.ndarray:
    """A column as numbers; RowsError names the first that is none, too small, too large or not whole."""
    rule = f"a {'whole ' if whole else ''}number from {low:g} to {_LARGEST:g}"
    try:
        numbers = np.array(column, dtype=np.float64)
    except ValueError:
        for i, value in enumerate(column):
            try:
                float(value)
            except ValueError:
                raise RowsError(f"row {i + 1}: {name} is {value[:40]!r}; {rule} is allowed") from None
        raise
    good = (numbers >= low) & (numbers <= _LARGEST)
    if whole:
        good &= numbers == np.floor(numbers)
    if not good.all():
        bad = int(np.argmin(good))
        raise RowsError(f"row {bad + 1}: {name} is {column[bad][:40]}; {rule} is allowed")
    return numbers


def kind_named(name: str) -> Kind:
    """The kind of that name, or whose name a file's begins with; RowsError lists them."""
    name = next((kind for kind in KINDS if name.startswith(f"{kind}_") and name not in KINDS), name)
    if name not in KINDS:
        raise RowsError(f"kind {name[:40]!r} is no operator: {', '.join(KINDS)} are")
    return KINDS[name]


def write_rows(path: Path, table: Table, answers: Answers) -> None:
    """Writes every row back with its answer: times in microseconds of six digits, empty where there is none."""
    seconds = answers.seconds, answers.bound, answers.low, answers.high
    times, bound, low, high = (["" if np.isnan(s) else f"{s * 1e6:.6g}" for s in column] for column in seconds)
    reasons = [csv_line([answers.reasons[why]]) if why else "" for why in answers.why.tolist()]
    rows = zip(table.lines, times, bound, answers.bound_by.tolist(), low, high, reasons, strict=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(",".join((csv_line(table.header), *ADDED)) + "\n")
        file.writelines(",".join(row) + "\n" for row in rows)
