"""Do we reproduce others' numbers? Every claim is predicted or explained; the headlines hold."""

import json

import pytest

from engine.evaluate import evaluate
from engine.published import claims, judge, predictions
from engine.scenario import decode
from tests.each import each
from tests.tools.published import README, into

KEYS = {"id", "kind", "role", "metric", "unit", "published", "predicted", "error", "tolerance", "within", "reason"}


MISSED = {
    *(f"FB-{n:03}" for n in (81, 92, 93, 95, 99, 101, 102, 103, 104, 105, 106, 108, 113, 116, 117, 119, 120)),
    *("FB-123", "FB-125", "5G-022", "5G-023", "5G-026", "5G-071"),
    *("DFX-009", "DFX-048", "DFX-049", "DFX-050"),
}


@pytest.fixture(scope="module")
def rows(claimed: list[dict]) -> list[dict]:
    return claimed


def test_every_claim_is_predicted_or_explained_once() -> None:
    given, reasons = predictions(), {claim["id"]: claim["reason"] for claim in claims() if "reason" in claim}
    ids = [claim["id"] for claim in claims()]
    assert len(ids) == len(set(ids)) == 195
    assert not given.keys() & reasons.keys()
    assert given.keys() | reasons.keys() == set(ids)
    assert all(len(text) > 20 for text in reasons.values())


def test_rows_have_the_contract(rows: list[dict]) -> None:
    json.dumps(rows, allow_nan=False)
    for row in rows:
        assert row.keys() >= KEYS
        assert row["role"] in ("calibration", "validation")
        assert (row["predicted"] is None) == bool(row["reason"])


def test_what_is_missed_is_known_and_noted(rows: list[dict]) -> None:
    missed = {r["id"]: r["note"] for r in rows if r["within"] is False}
    assert missed.keys() == MISSED
    assert all(len(note) > 20 for note in missed.values()), [id for id, note in missed.items() if not note]


@pytest.mark.parametrize(
    ("id", "published", "tolerance"),
    [("DFX-058", 72.68, 0.05), ("BW-001", 39.5, 0.05), ("WD-011", 1_210_949, 0.05), ("5G-058", 1344, 0.05)],
)
def test_headlines(rows: list[dict], id: str, published: float, tolerance: float) -> None:
    row = next(r for r in rows if r["id"] == id)
    assert row["predicted"] == pytest.approx(published, rel=tolerance)


def test_the_node_is_exact(rows: list[dict]) -> None:
    found = {r["id"]: r["predicted"] for r in rows}
    assert found["FB-009"] == pytest.approx(91, abs=1e-9)
    assert found["FB-008"] == pytest.approx(96, abs=1e-9)
    assert found["FB-006"] == pytest.approx([180, 270], rel=1e-9)


def test_a_row_opens_as_a_scenario(rows: list[dict]) -> None:
    tokens = {r["token"] for r in rows if r["token"]}
    assert len(tokens) >= 20
    for token in tokens:
        assert evaluate(decode(token)).latency_s > 0


def test_the_readme_is_current(rows: list[dict]) -> None:
    text = README.read_text()
    assert into(text, rows) == text, "run `python -m tests.tools.published`"


@each(
    ("value", "tolerance", "predicted", "within"),
    [
        (100, 0.1, 109.9, True),
        (100, 0.1, 111, False),
        (100, "exact", 100.0, True),
        (100, "exact", 100.001, False),
        ([64, 16], "exact", (64, 16), True),
        ([64, 16], "exact", (16, 64), False),
        ({"min": 2, "max": 3}, 0.3, 2.5, True),
        ({"min": 2, "max": 3}, 0.0, 2.7, True),
        ({"min": 2, "max": 3}, 0.3, 3.8, True),
        ({"min": 2, "max": 3}, 0.3, 4.0, False),
        ({"min": 2, "max": 3}, 0.3, 1.3, False),
        ({"min": 2, "max": 3}, 0.05, (2.08, 2.95), True),
        ({"min": 2, "max": 3}, 0.01, (2.1, 2.9), False),
        ({"min": 300, "max": 1000}, "upper_bound", 250, True),
        (200, "upper_bound", 201, False),
        (10, "lower_bound", 10.5, True),
        (10, "lower_bound", 9.5, False),
        ("words", "ordinal", True, True),
        ("words", "ordinal", False, False),
        (1.0, {"max": 1.0, "min": 0.9}, 0.98, True),
        (1.0, {"max": 1.0, "min": 0.9}, 1.01, False),
        (30e6, "order", 40e6, True),
        (30e6, "order", 4e9, False),
    ],
)
def test_the_judge(value, tolerance, predicted, within: bool) -> None:
    assert judge(value, tolerance, predicted)[1] is within


@pytest.mark.parametrize(("predicted", "error"), [(15, 0.0), (31.16, 0.0), (34, 0.0), (12, -0.2), (51, 0.5)])
def test_a_number_errs_by_the_nearest_end_of_a_printed_range(predicted, error) -> None:
    assert judge({"min": 15, "max": 34}, 0.25, predicted)[0] == pytest.approx(error)
