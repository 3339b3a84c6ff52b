"""Document 004: two fitted points, and what follows from them."""

from __future__ import annotations

import pytest

from engine.published import claims, judge
from engine.published.doc004 import PREDICTIONS, REASONS, crossover, speedup, tiles

CLAIMS = {c["id"]: c for c in claims() if c["document"] == "004"}
MISSED = {
    "DFX-002",  # ratios averaged over a grid that is not fully printed
    "DFX-003",  # the product of two predictions, each within 3%
    "DFX-004",
    "DFX-009",  # an eager operator costs its issue, however many tokens
    "DFX-010",
    "DFX-048",
    "DFX-049",
}


def test_every_claim_has_a_prediction_or_a_reason():
    assert set(CLAIMS) == set(PREDICTIONS) | set(REASONS)
    assert not set(PREDICTIONS) & set(REASONS)


@pytest.mark.parametrize("id", sorted(PREDICTIONS))
def test_predictions_meet_their_tolerance(id):
    claim = CLAIMS[id]
    _, within = judge(claim["value"], claim["tolerance"], PREDICTIONS[id].value())
    assert within == (id not in MISSED)


def test_core_was_fitted_on_two_points_and_predicts_the_others_within_seven_percent():
    fitted = {id for id, c in CLAIMS.items() if c["role"] == "calibration"}
    assert fitted == {"DFX-008", "DFX-050", "DFX-051", "DFX-053", "DFX-054"}
    for id in ("DFX-053", "DFX-054"):
        assert PREDICTIONS[id].value() == pytest.approx(CLAIMS[id]["value"], rel=0.002)
    for id in ("DFX-055", "DFX-058", "DFX-005"):
        assert PREDICTIONS[id].value() == pytest.approx(CLAIMS[id]["value"], rel=0.07)
    assert PREDICTIONS["DFX-058"].value() == pytest.approx(72.68, rel=0.05)


def test_reasons_state_what_the_model_gives():
    assert crossover() == pytest.approx(9.5, abs=0.3)
    assert speedup("345m", 1) == pytest.approx(1.6, abs=0.1)


def test_attention_is_a_fifth_slower_outside_the_three_equal_tiles():
    times = {c.tile: c.seconds for c in tiles()}
    least = min(times.values())
    assert times[64, 16] < 1.05 * least
    for tile in ((8, 128), (128, 8)):
        assert times[tile] > 1.1 * least
