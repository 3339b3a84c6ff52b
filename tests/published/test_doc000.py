"""Document 000: every figure is predicted or explained, and what is missed is said."""

from __future__ import annotations

import pytest

from engine.published import claims, judge
from engine.published.doc000 import PREDICTIONS, REASONS

CLAIMS = {c["id"]: c for c in claims() if c["document"] == "000"}
MISSED: set[str] = set()


def test_every_claim_has_a_prediction_or_a_reason():
    assert set(CLAIMS) == set(PREDICTIONS) | set(REASONS)
    assert not set(PREDICTIONS) & set(REASONS)


@pytest.mark.parametrize("id", sorted(PREDICTIONS))
def test_predictions_meet_their_tolerance(id):
    claim = CLAIMS[id]
    predicted = PREDICTIONS[id].value()
    _, within = judge(claim["value"], claim["tolerance"], predicted)
    assert within == (id not in MISSED), (claim["value"], predicted)
    assert id not in MISSED or PREDICTIONS[id].note


@pytest.mark.parametrize(
    ("id", "exactly"),
    [("FB-006", (180, 270)), ("FB-007", (24, 36)), ("FB-008", 96), ("FB-009", 91), ("FB-065", 160)],
)
def test_the_node_is_exact(id, exactly):
    assert PREDICTIONS[id].value() == pytest.approx(exactly, rel=1e-12)
