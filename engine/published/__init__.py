"""Others' published figures beside our predictions, calibration apart from validation.

A claim that can't be met or predicted stays in the list with its reason; none is dropped.
"""

from __future__ import annotations

import json
import math
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from engine.cost.error_bands import FILE
from engine.published.headline import into
from engine.published.prediction import Prediction
from engine.scenario import encode
from model_zoo.catalog import default_zoo

__all__ = ["DOCUMENTS", "claims", "judge", "predictions", "residuals", "summary", "validate", "write_residuals"]

DOCUMENTS = {
    "facebook-node": "000",
    "brainwave": "001",
    "wide-deep": "002",
    "smartnic-edge": "003",
    "dfx": "004",
}
"""Documents by name, with the number that exported rows know each by."""
_FOLDER = Path(__file__).resolve().parent / "claims"


@cache
def claims() -> tuple[dict[str, Any], ...]:
    """Every figure the documents print that a model should predict, as data."""
    found = []
    for document, number in DOCUMENTS.items():
        data = yaml.safe_load((_FOLDER / f"{document}.yaml").read_text())
        found += [claim | {"document": number} for claim in data["claims"]]
    return tuple(found)


@cache
def predictions() -> tuple[dict[str, Prediction], dict[str, str]]:
    """Predictions and reasons of all documents, by claim id."""
    given: dict[str, Prediction] = {}
    reasons: dict[str, str] = {}
    for document in DOCUMENTS:
        module = import_module(f"engine.published.{document.replace('-', '_')}")
        given |= module.PREDICTIONS
        reasons |= module.REASONS
    return given, reasons


def _low_high(value: Any) -> tuple[float, float] | None:
    if isinstance(value, dict) and {"min", "max"} <= value.keys():
        return float(value["min"]), float(value["max"])
    return None


def judge(value: Any, tolerance: Any, predicted: Any) -> tuple[float | None, bool]:
    """Relative error (None where there is no number) and whether a prediction meets a published figure.

    `tolerance` is a relative number, ``exact``, ``range`` (inside min..max), ``upper_bound``, ``lower_bound``,
    ``order`` (within a factor of ten), ``ordinal`` (a statement, predicted as True or False), ``{abs_pp: x}``
    (percentage points of a figure printed in %), or ``{min, max}``.
    """
    if tolerance == "ordinal" or isinstance(predicted, bool):
        return None, predicted is True or (predicted is not False and predicted == value)
    span = _low_high(value)
    if isinstance(predicted, tuple | list) and span is not None and not isinstance(tolerance, str):
        errors = [p / v - 1 for p, v in zip(predicted, span, strict=True)]
        worst = max(errors, key=abs)
        return worst, abs(worst) <= float(tolerance)
    if tolerance == "exact" and not isinstance(value, int | float):
        same = [list(v) if isinstance(v, tuple) else v for v in (value, predicted)]
        return None, same[0] == same[1]
    got = float(predicted)
    if isinstance(tolerance, dict) and {"min", "max"} <= tolerance.keys():
        low, high = float(tolerance["min"]), float(tolerance["max"])
        centre = float(value) if isinstance(value, int | float) else math.sqrt(low * high)
        return got / centre - 1, low <= got <= high
    if span is not None:
        low, high = span
        error = 0.0 if low <= got <= high else got / (low if got < low else high) - 1
        if tolerance == "upper_bound":
            return error if got > high else 0.0, got <= high
        if tolerance == "lower_bound":
            return error if got < low else 0.0, got >= low
        return error, error == 0.0 if isinstance(tolerance, str) else abs(error) <= float(tolerance)
    want = float(value)
    error = got / want - 1 if want else got
    if tolerance == "exact":
        return error, abs(error) < 1e-9
    if tolerance == "upper_bound":
        return max(error, 0.0), got <= want
    if tolerance == "lower_bound":
        return min(error, 0.0), got >= want
    if tolerance == "order":
        return error, 0.1 <= got / want <= 10
    if isinstance(tolerance, dict):
        points = float(tolerance["abs_pp"])
        return error, abs(got - want) <= points
    return error, abs(error) <= float(tolerance)


def validate() -> list[dict[str, Any]]:
    """One row a claim: `{id, role, metric, unit, published, predicted, error, tolerance, within, reason, ...}`."""
    given, reasons = predictions()
    rows = []
    for claim in claims():
        id = claim["id"]
        row = {
            "id": id,
            "document": claim["document"],
            "role": claim["role"],
            "system": claim.get("system"),
            "workload": claim.get("workload"),
            "config": claim.get("config"),
            "where": claim["where"],
            "metric": claim["metric"],
            "unit": claim["unit"],
            "published": claim["value"],
            "predicted": None,
            "error": None,
            "tolerance": claim["tolerance"],
            "within": None,
            "reason": reasons.get(id),
            "note": claim.get("note", ""),
            "family": None,
            "kind": None,
            "token": None,
        }
        if id in given:
            prediction = given[id]
            predicted = prediction.value()
            error, within = judge(claim["value"], claim["tolerance"], predicted)
            row["predicted"] = list(predicted) if isinstance(predicted, tuple) else predicted
            row["error"], row["within"] = error, bool(within)
            row["family"] = prediction.family
            row["note"] = " ".join(text for text in (prediction.note, claim.get("note", "")) if text)
            if prediction.scenario:
                scenario = prediction.scenario()
                row["token"], row["kind"] = encode(scenario), default_zoo().workload(scenario.workload).family
        rows.append(row)
    return rows


def _percentile(values: list[float], share: float) -> float:
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, math.ceil(share * len(ranked)) - 1)]


def residuals(rows: list[dict[str, Any]], elsewhere: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Count, median and 90th percentile of absolute relative errors by device family and kind of network.

    Of validation claims, and of results printed elsewhere (`recalled` counts those). What was fitted on counts nowhere.
    """
    by: dict[str, dict[str, list[float]]] = {}
    recalled: dict[tuple[str, str], int] = {}
    for row in [*rows, *elsewhere]:
        if row["role"] != "calibration" and row["family"] and row["error"] is not None:
            by.setdefault(row["family"], {}).setdefault(row["kind"], []).append(abs(row["error"]))
            key = row["family"], row["kind"]
            recalled[key] = recalled.get(key, 0) + (row["role"] == "elsewhere")
    return {
        family: {
            kind: {
                "count": len(errors),
                "recalled": recalled[family, kind],
                "median": round(_percentile(errors, 0.5), 4),
                "p90": round(_percentile(errors, 0.9), 4),
            }
            for kind, errors in sorted(kinds.items())
        }
        for family, kinds in sorted(by.items())
    }


def write_residuals(rows: list[dict[str, Any]], elsewhere: list[dict[str, Any]]) -> None:
    """Renew the residuals that error bands are read from, and the README's table where there is one."""
    FILE.write_text(json.dumps(residuals(rows, elsewhere), indent=1) + "\n")
    readme = Path(__file__).resolve().parents[2] / "README.md"
    if readme.exists():
        readme.write_text(into(readme.read_text(), rows))


def summary(rows: list[dict[str, Any]], elsewhere: list[dict[str, Any]]) -> list[str]:
    """Lines for a terminal: the groups apart, then every claim, then results printed elsewhere."""
    lines = []
    for role in ("validation", "calibration"):
        mine = [r for r in rows if r["role"] == role and r["predicted"] is not None]
        errors = [abs(r["error"]) for r in mine if r["error"] is not None]
        met = sum(r["within"] for r in mine)
        if errors:
            lines.append(
                f"{role}: {len(mine)} predicted, {met} within tolerance; median error {_percentile(errors, 0.5):.1%}, "
                f"90th percentile {_percentile(errors, 0.9):.1%}"
            )
    errors = [abs(r["error"]) for r in elsewhere]
    lines.append(
        f"elsewhere: {len(errors)} measured results, recalled, which widen bands and count as no claim; median error "
        f"{_percentile(errors, 0.5):.1%}, 90th percentile {_percentile(errors, 0.9):.1%}"
    )
    lines.append(f"not predictable: {sum(r['predicted'] is None for r in rows)}, each with its reason")
    for r in rows:
        if r["predicted"] is None:
            lines.append(f"{r['id']:8} -      {r['metric'][:34]:34} {r['reason']}")
        else:
            mark = "ok" if r["within"] else "MISS"
            error = "" if r["error"] is None else f"{r['error']:+.1%}"
            shown = f"{r['predicted']:.5g}" if isinstance(r["predicted"], float) else str(r["predicted"])
            lines.append(f"{r['id']:8} {mark:6} {r['metric'][:34]:34} {r['published']} {r['unit']} -> {shown} {error}")
    for r in elsewhere:
        lines.append(
            f"{r['id']:27} {r['family']:4} {r['kind']:19} {r['metric']:16} {r['published']:.5g} -> "
            f"{r['predicted']:.5g} {r['error']:+.1%}"
        )
    return lines
