"""Columns of a large table, parsed, told apart and written by Arrow: a text becomes a Python object when it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

_NEVER = "\x01"  # in a text: what leaves lines whole
_DIGITS = 6  # significant ones of a number written


class Column(Sequence[str]):
    """A column of texts."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        return self.array[at].to_pylist() if isinstance(at, slice) else self.array[at].as_py()

    def __iter__(self) -> Iterator[str]:
        return iter(self.array.to_pylist())


def _read(text: bytes, names: Sequence[str], delimiter: str) -> Any:
    return csv.read_csv(
        pa.BufferReader(text),
        csv.ReadOptions(column_names=names, skip_rows=1, use_threads=False),
        csv.ParseOptions(delimiter=delimiter, quote_char=False),
        csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
    )


def read_columns(text: bytes, header: Sequence[str]) -> tuple[Column, dict[str, Sequence[str]]] | None:
    """Lines of unquoted text after its header line, whole and as columns; None where one has another width."""
    if _NEVER.encode() in text:
        return None
    try:
        table = _read(text, [str(i) for i in range(len(header))], ",")
        lines = _read(text, ["line"], _NEVER)
    except pa.ArrowInvalid:
        return None
    if not table.num_rows or table.num_rows != lines.num_rows:
        return None
    return Column(lines.column(0)), {name: Column(table.column(i)) for i, name in enumerate(header)}


def floats(column: Sequence[str]) -> np.ndarray:
    """A column as numbers. ValueError where a text is none."""
    if isinstance(column, Column):
        try:
            return pc.cast(column.array, pa.float64()).to_numpy()
        except pa.ArrowInvalid:
            pass  # Python reads a few spellings more
    return np.fromiter(map(float, column), np.float64, len(column))


def _texts(column: Sequence[str]) -> Any:
    return column.array.combine_chunks() if isinstance(column, Column) else pa.array(column, pa.string())


def _codes(column: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    codes = _texts(column).dictionary_encode()
    return codes.indices.to_numpy(), codes.dictionary.to_pylist()


def groups(columns: Sequence[Sequence[str]]) -> tuple[np.ndarray, list[tuple[str, ...]]]:
    """Which rows say the same in all columns: a group's number for each row, and what each group says."""
    coded = [_codes(column) for column in columns]
    joined = np.zeros(len(columns[0]), dtype=np.int64)
    for codes, words in coded:
        joined = joined * len(words) + codes
        _, joined = np.unique(joined, return_inverse=True)
    first = np.zeros(int(joined.max(initial=-1)) + 1, dtype=np.int64)
    first[joined[::-1]] = np.arange(len(joined))[::-1]
    return joined, [tuple(words[codes[at]] for codes, words in coded) for at in first.tolist()]


def _shown(values: np.ndarray) -> Any:
    """Numbers as text of six significant digits, empty where there is none."""
    size = np.floor(np.log10(np.abs(values), out=np.zeros_like(values), where=np.abs(values) > 0.0))
    up = np.power(10.0, np.maximum(_DIGITS - 1 - size, 0.0))
    down = np.power(10.0, np.maximum(size - _DIGITS + 1, 0.0))
    return pc.fill_null(pc.cast(pa.array(np.rint(values * up / down) / up * down, from_pandas=True), pa.string()), "")


def _joined(*texts: Any) -> Any:
    """Texts joined row by row with the last one between them."""
    return pc.call_function("binary_join_element_wise", list(texts))


def write_joined(path: Path, header: str, columns: Sequence[Sequence[str] | np.ndarray]) -> None:
    """Writes a header line, and a line a row with its columns joined by commas as they are."""
    texts = [_shown(c) if isinstance(c, np.ndarray) else _texts(c) for c in columns]
    step = 1 << 17  # rows at once: their text is below what 32-bit offsets reach
    with path.open("wb") as file:
        file.write(header.encode() + b"\n")
        for lo in range(0, len(texts[0]), step):
            rows = _joined(*(text.slice(lo, step) for text in texts), ",")
            lines = _joined(rows, "", "\n")
            _, offsets, text = lines.buffers()
            file.write(text.slice(0, int(np.frombuffer(offsets, np.int32, len(lines) + 1)[-1])))
