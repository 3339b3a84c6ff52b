"""The project's evidence in a sentence and a table: independent timing predictions, and what else is compared."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from entries.files import read_plain

TEXTS: dict[str, dict[str, str]] = read_plain(Path(__file__).with_name("texts.yaml"))
NAMES = TEXTS["kinds"]
"""Kinds of claims that are no independent timing prediction, in words."""


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that a share of all does not exceed."""
    return float(np.quantile(values, share, method="inverted_cdf"))


def independent(row: dict[str, Any]) -> bool:
    """Whether a row is evidence: a time, rate, power or share that the model could get wrong and was not fitted on."""
    return row["kind"] == "timing" and row["role"] == "validation"


class Headline:
    """Independent timing predictions among some claims: how many, how far off, and which miss."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        claims = [row for row in rows if independent(row)]
        errors = [abs(row["error"]) for row in claims if row["error"] is not None]
        self.count = len(claims)
        self.median = percentile(errors, 0.5) if errors else None
        self.p90 = percentile(errors, 0.9) if errors else None
        self.missed = [row["id"] for row in claims if not row["within"]]


def sentence(rows: Sequence[dict[str, Any]]) -> str:
    """The evidence in words, the same wherever it is told."""
    headline = Headline(rows)
    if headline.median is None or headline.p90 is None:
        return "No time, rate, power or share of these documents is predicted independently."
    return (
        f"Of {headline.count} published times, rates, powers and shares held out from calibration, "
        f"{headline.count - len(headline.missed)} are met; half are within {headline.median:.0%}, nine in ten within "
        f"{headline.p90:.0%}."
    )


def other_kinds(rows: Sequence[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """Kinds of the other claims that are predicted, in words, with how many there are and how many are met."""
    result = []
    for kind, words in NAMES.items():
        claims = [row for row in rows if row["kind"] == kind and not independent(row)]
        if claims:
            result.append((words, len(claims), sum(bool(row["within"]) for row in claims)))
    return result


def by_document(rows: Sequence[dict[str, Any]]) -> list[tuple[str, Headline]]:
    """The evidence of each document, then of all."""
    from engine.published import DOCUMENTS

    names = [(name, Headline([r for r in rows if r["document"] == number])) for name, number in DOCUMENTS.items()]
    return [*names, ("all", Headline(rows))]


def lines_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Lines for a terminal."""
    lines = [sentence(rows)]
    for name, summary in by_document(rows):
        errors = "" if summary.median is None else f"; median {summary.median:.1%}, 90th percentile {summary.p90:.1%}"
        misses = f"; missed: {', '.join(summary.missed)}" if summary.missed else ""
        lines.append(f"{name}: {summary.count} independent timing predictions{errors}{misses}")
    return lines + [f"beside them, {count} {words}: {good} met" for words, count, good in other_kinds(rows)]
