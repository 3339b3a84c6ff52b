"""Others' published figures beside our predictions, each with the kind of evidence it is.

A claim that can't be met or predicted stays in the list with its reason; none is dropped.
"""

import math
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from engine.cost.error_bands import cells
from engine.published.headline import lines_of, percentile
from engine.published.kinds import kind_of, moves, rules
from engine.published.prediction import Prediction, prediction_of, value_of
from engine.scenario import encode
from entries.files import PARSER
from model_zoo.catalog import default_zoo

DOCUMENTS = {
    "facebook-node": "000",
    "brainwave": "001",
    "wide-deep": "002",
    "smartnic-edge": "003",
    "dfx": "004",
}
"""Documents by name, with the number that exported rows know each by."""
MODULES = ("facebook_node", "brainwave", "smartnic_edge", "dfx")  # of documents whose entries do not say everything
_COLUMNS = (
    *("id", "document", "kind", "role", "system", "workload", "config", "where", "metric", "unit", "published"),
    *("predicted", "error", "tolerance", "within", "reason", "note", "naive", "of", "family", "network", "token"),
)
_FOLDER = Path(__file__).resolve().parent / "claims"


@cache
def claims() -> tuple[dict[str, Any], ...]:
    """Every figure the documents print that a model should predict, as data."""
    result = []
    for document, number in DOCUMENTS.items():
        data = yaml.load((_FOLDER / f"{document}.yaml").read_bytes(), PARSER)
        result += [claim | {"document": number} for claim in data["claims"]]
    return tuple(result)


@cache
def predictions() -> dict[str, Prediction]:
    """Predictions of all documents, by claim id; a claim without one has a `reason`."""
    values: dict[str, Callable[..., Any]] = {}
    for name in MODULES:
        values |= import_module(f"engine.published.{name}").VALUES
    return {
        claim["id"]: prediction_of(claim["prediction"], values.get(claim["id"]))
        for claim in claims()
        if "prediction" in claim
    }


def judge(value: Any, tolerance: Any, prediction: Any) -> tuple[float | None, bool]:
    """Relative error (None where there is no number) and whether a prediction meets a published figure.

    `tolerance` is a relative number, ``exact``, ``upper_bound``, ``lower_bound``, ``order`` (within a factor of ten),
    ``ordinal`` (a statement, predicted as True or False), or ``{min, max}``. A number inside of a published range meets
    it without error, one outside is as far off as the nearest end; a predicted range is judged at both ends, by the
    worse. A bound that is met has no error.
    """
    if tolerance == "ordinal" or isinstance(prediction, bool):
        return None, prediction is True or (prediction is not False and prediction == value)
    span = (float(value["min"]), float(value["max"])) if isinstance(value, dict) else None
    if span is not None and not isinstance(tolerance, str):
        if not isinstance(prediction, tuple | list):
            prediction, span = (prediction,), (min(max(prediction, span[0]), span[1]),)
        worst = max((p / v - 1 for p, v in zip(prediction, span, strict=True)), key=abs)
        return worst, abs(worst) <= float(tolerance)
    if tolerance == "exact" and not isinstance(value, int | float):
        pair = [list(v) if isinstance(v, tuple) else v for v in (value, prediction)]
        return None, pair[0] == pair[1]
    got = float(prediction)
    if isinstance(tolerance, dict):
        low, high = float(tolerance["min"]), float(tolerance["max"])
        centre = float(value) if isinstance(value, int | float) else math.sqrt(low * high)
        return got / centre - 1, low <= got <= high
    if tolerance in ("upper_bound", "lower_bound"):
        low, high = span or (float(value), float(value))
        meets, end = (got <= high, high) if tolerance == "upper_bound" else (got >= low, low)
        return None if meets else got / end - 1, meets
    want = float(value)
    error = got / want - 1 if want else got
    if tolerance == "exact":
        return error, abs(error) < 1e-9
    if tolerance == "order":
        return error, 0.1 <= got / want <= 10
    return error, abs(error) <= float(tolerance)


def _naive(id: str, claim: dict[str, Any], prediction: Prediction) -> dict[str, Any]:
    """The naive alternative of a timing prediction: its name, what it predicts and its error."""
    name, value = prediction.naive or ("the data sheet's roofline", moves()["predictions"][id]["naive"])
    return {"name": name, "predicted": value, "error": judge(claim["value"], claim["tolerance"], value)[0]}


def closer(error: float, naive: float) -> bool:
    """Whether a prediction lies closer to what was published than to what the naive alternative predicts."""
    return abs(error) < abs(error - naive)


@cache
def fit_claims() -> frozenset[str]:
    """Claims that are calibration: a constant names them and moves them, a rule was read off them, or they are derived
    from nothing but such claims.
    """
    result = {id for rule in rules() for id in rule.claims}
    result |= {id for constant in moves()["constants"].values() for id in constant["claims"] if id in constant["moves"]}
    sources = {id: p.of for id, p in predictions().items() if p.of}
    while extra := {id for id, of in sources.items() if id not in result and result.issuperset(of)}:
        result |= extra
    return frozenset(result)


def validate() -> list[dict[str, Any]]:
    """One row a claim: `{id, kind, role, metric, unit, published, predicted, error, tolerance, within, reason, ...}`.

    A timing prediction is within only if it also lies closer to the published figure than to its naive alternative.
    """
    by_id = predictions()
    rows = []
    for claim in claims():
        id = claim["id"]
        row = dict.fromkeys(_COLUMNS) | {name: claim[name] for name in _COLUMNS if name in claim}
        row |= {"published": claim["value"], "note": claim.get("note", ""), "of": []}
        row["role"] = "calibration" if id in fit_claims() else "validation"
        if id in by_id:
            prediction = by_id[id]
            row["kind"] = kind_of(claim["tolerance"], prediction, moves()["predictions"][id])
            row["of"] = list(prediction.of)
            value = value_of(by_id, id)
            error, within = judge(claim["value"], claim["tolerance"], value)
            if row["kind"] == "timing":
                row["naive"] = naive = _naive(id, claim, prediction)
                if within and error == naive["error"] and (error is not None or naive["predicted"] == value):
                    row["kind"], error = "bound", None  # what the naive alternative meets as well rules nothing out
                elif error is not None and naive["error"] is not None:
                    within = within and closer(error, naive["error"])
            row["predicted"] = list(value) if isinstance(value, tuple) else value
            row["error"], row["within"] = error, bool(within)
            row["family"] = prediction.family
            row["note"] = " ".join(text for text in (prediction.note, claim.get("note", "")) if text)
            if prediction.scenario:
                scenario = prediction.scenario()
                row["token"], row["network"] = encode(scenario), default_zoo().workload(scenario.workload).family
        rows.append(row)
    return rows


def summary(rows: list[dict[str, Any]], elsewhere: list[dict[str, Any]]) -> list[str]:
    """Lines for a terminal: the headline, the other kinds, what 90% bands hold of measurements whose source they were
    found without, then every claim, then results printed elsewhere."""
    lines = lines_of(rows)
    errors = [abs(r["error"]) for r in elsewhere]
    lines.append(
        f"elsewhere: {len(errors)} measured results, recalled, which widen bands and count as no claim; median error "
        f"{percentile(errors, 0.5):.1%}, 90th percentile {percentile(errors, 0.9):.1%}"
    )
    by = [cell for cell in cells() if cell["of"]]
    n, within = (sum(cell[name] for cell in by) for name in ("of", "held"))
    lines += [f"bands, each source left out in turn: {within} of {n} measured rows held"] if n else []
    lines += [f"  {cell['held']:4} of {cell['of']:4}  {cell['said']}" for cell in by]
    lines.append(f"not predictable: {sum(r['predicted'] is None for r in rows)}, each with its reason")
    for r in rows:
        if r["predicted"] is None:
            lines.append(f"{r['id']:8} -      {r['metric'][:34]:34} {r['reason']}")
        else:
            mark = "ok" if r["within"] else "MISS"
            error = "" if r["error"] is None else f"{r['error']:+.1%}"
            text = f"{r['predicted']:.5g}" if isinstance(r["predicted"], float) else str(r["predicted"])
            kind = r["role"] if r["kind"] == "timing" and r["role"] == "calibration" else r["kind"]
            lines.append(
                f"{r['id']:8} {mark:5} {kind:12} {r['metric'][:34]:34} {r['published']} {r['unit']} -> {text} {error}"
            )
    for r in elsewhere:
        lines.append(
            f"{r['id']:27} {r['family']:4} {r['network']:19} {r['metric']:16} {r['published']:.5g} -> "
            f"{r['predicted']:.5g} {r['error']:+.1%}"
        )
    return lines
