"""Published figures as counters, rows and words. Pure: it reads what `engine.published.validate` returns."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from app.shared import formats as fmt
from app.shared import report_tables
from entries.files import read_plain

Row = dict[str, Any]
_WORDS = read_plain(Path(__file__).with_name("claims.yaml"))
_ROWS = 12  # of a chart of claims


def value_text(value: Any) -> str:
    """A published or predicted value as text: numbers with four digits, ranges with a dash, words as they are."""
    if value is None:
        return fmt.UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return fmt.digits4(value)
    if isinstance(value, dict) and {"min", "max"} <= value.keys():
        return f"{fmt.digits4(value['min'])} – {fmt.digits4(value['max'])}"
    if isinstance(value, dict):
        return ", ".join(f"{k} {value_text(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return " – ".join(value_text(v) for v in value)
    return str(value)


def amount(value: Any, unit: str) -> str:
    """A value with its unit: `31.5 ms`, `0.2%`, `3.48×`."""
    return f"{value_text(value)}{'' if unit in ('%', '×') else ' '}{unit}".rstrip()


def metric(name: str) -> str:
    """A claim's metric in the field's words: `share of time, Softmax`."""
    if name in _WORDS["metrics"]:
        return _WORDS["metrics"][name]
    for stem in ("time_share_", "time_fraction_"):
        if name.startswith(stem):
            operator = name.removeprefix(stem).replace("_", " + ")
            return f"share of time, {_WORDS['operators'].get(operator, operator)}"
    return " ".join(filter(None, (_WORDS["words"].get(word, word) for word in name.split("_")))).replace(
        "fraction", "share"
    )


def of(row: Row, between: str = " · ") -> str:
    """What a claim is about: system, workload and configuration, as people write them."""
    names = (_WORDS["systems"].get(row["system"], row["system"]), row["workload"], row["config"])
    return fmt.prose(between.join(str(name) for name in names if name))


def unit(row: Row) -> str:
    """A claim's unit as it is written: `µs`, `$`, `×`."""
    return _WORDS["units"].get(row["unit"], row["unit"] or "")


def role(row: Row) -> str:
    """`validation` or `calibration`; what can't be wrong by itself is neither: `read back`, `derived`, `identity`."""
    return row["role"] if row["role"] == "calibration" else _WORDS["roles"].get(row["kind"], row["role"])


def tolerance(value: Any) -> str:
    """What the claim allows, in words."""
    if isinstance(value, int | float):
        return f"±{value:.0%}"
    if isinstance(value, dict):
        return value_text(value)
    return str(value).replace("_", " ")


def worst(rows: Sequence[Row], count: int = 5) -> list[Row]:
    """The `count` predicted claims that miss by most, those outside their tolerance first."""
    off = [row for row in rows if row["predicted"] is not None and row["error"] is not None]
    return sorted(off, key=lambda row: (bool(row["within"]), -abs(row["error"])))[:count]


def drawable(rows: Sequence[Row]) -> list[Row]:
    """Claims that have a place on log axes, both numbers there and positive, with their role in words."""

    def positive(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0

    return [row | {"role": role(row)} for row in rows if positive(row["published"]) and positive(row["predicted"])]


def by_figure(rows: Sequence[Row], titles: dict[str, str]) -> dict[str, list[Row]]:
    """Two claims or more that a figure, table or section of a document prints in the same unit, by its name.

    One with more than `_ROWS` is taken apart by workload.
    """
    points = drawable(rows)
    names = [f"{titles[row['document']]}, {row['where']}, {unit(row) or 'ratio'}" for row in points]
    groups: dict[str, list[Row]] = {}
    for name, row in zip(names, points, strict=True):
        part = f", {row['workload']}" if names.count(name) > _ROWS else ""
        groups.setdefault(name + part, []).append(row)
    return {name: group for name, group in sorted(groups.items()) if len(group) > 1}


def labels(rows: Sequence[Row]) -> list[str]:
    """What each claim of a figure is about, in the words that differ between them; the metric where none does."""
    words = [(metric(row["metric"]), *of(row, "\n").split("\n")) for row in rows]
    common = set.intersection(*map(set, words))
    return [", ".join(word for word in claim if word not in common) or claim[0] for claim in words]


def status(row: Row) -> str:
    """`met`, `missed` or `not predicted`."""
    if row["predicted"] is None:
        return "not predicted"
    return "met" if row["within"] else "missed"


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Claims as a table for the eye."""
    return pd.DataFrame(
        {
            "Claim": [row["id"] for row in rows],
            "Metric": [metric(row["metric"]) for row in rows],
            "Published": [value_text(row["published"]) for row in rows],
            "Predicted": [value_text(row["predicted"]) for row in rows],
            "Unit": [unit(row) for row in rows],
            "Error (%)": [None if row["error"] is None else round(100 * row["error"], 1) + 0.0 for row in rows],
            "Allowed": [tolerance(row["tolerance"]) for row in rows],
            "Status": [status(row) for row in rows],
            "Kind": [row["kind"] or "" for row in rows],
            "Role": [role(row) for row in rows],
            "Of": [of(row) for row in rows],
            "Where": [f"{row['document']}, {row['where']}" for row in rows],
            "Reason or note": [fmt.prose(row["reason"] or row["note"] or "") for row in rows],
        }
    )


def export(rows: Sequence[Row], versions: dict[str, str]) -> list[dict[str, Any]]:
    """Claims as flat rows of a file, id and token first, versions last."""
    order = ("id", "token", "document", "where", "kind", "role", "system", "workload", "config", "metric", "unit")
    tail = report_tables.versions(versions)
    return [
        {key: row[key] for key in order}
        | {name: v if isinstance(v := row[name], int | float) else value_text(v) for name in ("published", "predicted")}
        | {"error_relative": row["error"], "tolerance": tolerance(row["tolerance"])}
        | {key: row[key] for key in ("within", "reason", "note")}
        | tail
        for row in rows
    ]
