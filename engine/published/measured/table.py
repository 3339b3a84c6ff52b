"""Columns of a table of measurements: which are a scenario's, which are figures and in what unit, which are neither."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from engine.published.headline import percentile
from engine.scenario import ScenarioError
from engine.scenario.fields import FIELDS
from engine.scenario.overrides import HARDWARE
from engine.scenario.token import brief
from entries.files import load_yaml
from entries.schema import hint
from hardware_specs.catalog import Catalog
from hardware_specs.schema import Device

_HEADS = ("params", "switches", "layers", "costs", "limits", *HARDWARE)  # of settings by path
_LARGEST = 1e12  # of a number, in the unit of its column
_SHOWN = 80  # characters of a value that a sentence repeats


@dataclass(frozen=True)
class Figure:
    """A measured figure's column: the `engine.cost.report.Report` attribute it is held against, and its unit in SI."""

    column: str
    attribute: str
    scale: float


@dataclass(frozen=True)
class Header:
    """A header sorted out: fields of a scenario, figures, what a serving engine was asked, and settings by path."""

    fields: Mapping[str, str]  # field -> column
    figures: tuple[Figure, ...]
    serving: tuple[str, ...]
    settings: tuple[str, ...]


@cache
def terms() -> dict[str, Any]:
    """Names others use and what is known of their tables."""
    return load_yaml((Path(__file__).parent / "names.yaml").read_bytes())


_UNITS: dict[str, dict[str, float]] = terms()["units"]
TIME = _UNITS["latency"]
FIGURES = {
    f"{stem}_{unit}": Figure(f"{stem}_{unit}", f"{stem}_{next(iter(units))}", scale)
    for stem, units in _UNITS.items()
    for unit, scale in units.items()
}
"""Every figure a row may hold, by the name of its column, unit included."""


def part_columns(cells: Mapping[str, str]) -> tuple[str, str]:
    """Columns of a log that have a row's part and how many of it: of its accelerators, else of its processors."""
    return ("accelerator", "n_accel") if cells["accelerator"] else ("cpu", "n_cpu")


def system_of(cells: Mapping[str, str], column: str, catalog: Catalog) -> str:
    """Id of the system whose every word stands in what a log calls its part. ScenarioError for none, or several."""
    text, names = cells.get(column, ""), terms()["under_rate"]
    spelling = re.split("[^a-z0-9]+", text.lower().replace("+", "plus"))
    words, ids = {names["words"].get(word, word) for word in spelling}, catalog.ids("systems")
    matches = [id for id in ids if set(id.split("-")) - set(names["racks"]) <= words]
    if len(matches) != 1:
        near = ", ".join(matches or [id for id in ids if id.partition("-")[0] in words])
        parts = f"none or several of our systems{f'; nearest: {near}' if near else ''}"
        raise ScenarioError(f"{column} is {text[:60]!r}: it names {parts}" if text else f"{column} is not given")
    return matches[0]


def format_of(text: str, part: Device) -> str:
    """Format that a table's text names, or that of weights alone where a part runs it so for lack of its arithmetic."""
    name, formats = text.lower(), terms()["formats"]
    words = [formats.get(word, word) for word in re.split("[^a-z0-9_]+", name)]
    runs = (word for word in words if word in part.peak or word in terms()["weights_alone"])
    format = next(runs, formats.get(name, name))
    alone = terms()["weights_alone"].get(format)
    return alone if alone and format not in part.peak else format


def sorted_out(header: Sequence[str]) -> Header:
    """A table's columns by what they are.

    Raises
    ------
    ScenarioError
        For a column that is unknown or lacks its unit, for two that say the same, and where no figure is given.
    """
    names = terms()
    paths = {f.path: f.path for f in FIELDS if f.kind not in ("map", "record")} | {"token": "token"} | names["columns"]
    serving = (*names["serving"], *(f"{side}_{name}" for side in ("prefill", "decode") for name in names["apart"]))
    settings = [column for column in header if "." in column and column.partition(".")[0] in _HEADS]
    for column in header:
        if not any(column in group for group in (paths, FIGURES, serving, settings, names["said"])):
            raise ScenarioError(_unknown(column, (*paths, *serving, *names["said"])))
    fields = _single({column: paths[column] for column in header if column in paths}, "both say")
    figures = _single({column: FIGURES[column].attribute for column in header if column in FIGURES}, "are both")
    if not figures:
        raise ScenarioError(f"no column holds a measured figure: at least one of {', '.join(FIGURES)} is needed")
    if "token" not in fields and not {"system", "workload"} <= fields.keys():
        lacking = next(name for name in ("system", "workload") if name not in fields)
        raise ScenarioError(f"column {lacking!r} is missing: a row needs a system and a workload, or a token")
    serving_columns = tuple(column for column in header if column in serving)
    return Header(fields, tuple(FIGURES[column] for column in figures.values()), serving_columns, tuple(settings))


def _single(meanings: Mapping[str, str], verb: str) -> dict[str, str]:
    """Columns by what they mean; ScenarioError where two mean the same."""
    result: dict[str, str] = {}
    for column, meaning in meanings.items():
        if meaning in result:
            raise ScenarioError(f"columns {result[meaning]!r} and {column!r} {verb} {meaning}: give one of the two")
        result[meaning] = column
    return result


def _unknown(column: str, alternatives: Sequence[str]) -> str:
    stem = next((s for s in sorted(_UNITS, key=len, reverse=True) if f"{column}_".startswith(f"{s}_")), None)
    stem = stem or ("throughput_per" if column.startswith("throughput") else None)
    if stem:  # it has no unit, or one that is not known
        meant = " or ".join(f"{stem}_{unit}" for unit in _UNITS[stem])
        return f"column {brief(column)} gives no unit that is known: {meant} is allowed"
    return f"column {brief(column)} is unknown{hint(column, (*alternatives, *FIGURES, 'switches.fuse'))}"


def amount(cells: Mapping[str, str], column: str, usual: float | None = None) -> float:
    """A row's number above 0, or the ``usual`` one where it has none; ScenarioError for another text."""
    text = cells.get(column, "")
    try:
        value = usual if not text and usual is not None else float(text)
    except ValueError:
        value = float("nan")
    if not 0.0 < value <= _LARGEST:
        raise ScenarioError(f"{column} is {text[:_SHOWN]!r}; a number above 0 is needed")
    return value


def spread(errors: Sequence[float]) -> dict[str, float]:
    """Count, median and 90th percentile of the sizes of errors, and their bias, the median of them signed."""
    size = [abs(error) for error in errors]
    return {"n": len(errors), "median": median(size), "p90": percentile(size, 0.9), "bias": median(errors)}


def grouped(names: Sequence[str], errors: Iterable[tuple[tuple[Any, ...], float]]) -> list[dict[str, Any]]:
    """The `spread` of errors by their keys, in order, each with the key's parts by those names."""
    groups: dict[tuple[Any, ...], list[float]] = {}
    for key, error in errors:
        groups.setdefault(key, []).append(error)
    return [dict(zip(names, key, strict=True)) | spread(of) for key, of in sorted(groups.items())]
