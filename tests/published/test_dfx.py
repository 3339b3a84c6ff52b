"""Document 004: two fitted points, and what follows from them."""

from __future__ import annotations

import pytest

from engine.published import calibrated, claims
from engine.published.dfx import NORM, PREDICTIONS, REASONS, even, generation_rate, latency, rate, tiles
from engine.published.prediction import predicted
from model_zoo.catalog import default_zoo


def work_share(multiply_add: float, model: str = "1.5b") -> float:
    """Share of the operations of a token that layer norms and residuals are; a multiply-add counts as that many. [-]"""
    graph = default_zoo().graph(f"gpt2-{model}")
    ops = next(p for p in graph.phases if p.name == "decode").ops
    work = [op.flops.at(1, 1, 64) * op.layers * (multiply_add / 2 if op.contraction else 1) for op in ops]
    return sum(w for op, w in zip(ops, work, strict=True) if op.group == NORM) / sum(work)


CLAIMS = {c["id"]: c for c in claims() if c["document"] == "004"}


def test_every_claim_has_a_prediction_or_a_reason():
    assert set(CLAIMS) == set(PREDICTIONS) | set(REASONS)
    assert not set(PREDICTIONS) & set(REASONS)


def test_core_was_fitted_on_two_points_and_predicts_the_others_within_seven_percent():
    assert calibrated() & CLAIMS.keys() == {"DFX-006", "DFX-049", "DFX-051", "DFX-052", "DFX-053", "DFX-054"}
    for id in ("DFX-053", "DFX-054"):
        assert PREDICTIONS[id].value() == pytest.approx(CLAIMS[id]["value"], rel=0.002)
    for id in ("DFX-055", "DFX-058", "DFX-005"):
        assert PREDICTIONS[id].value() == pytest.approx(CLAIMS[id]["value"], rel=0.07)
    assert PREDICTIONS["DFX-058"].value() == pytest.approx(72.68, rel=0.05)


def test_reasons_state_what_the_model_gives():
    assert even("1.5b", 4) == pytest.approx(10, abs=0.3)
    token = (latency("v100", "345m", 1, 64, 128) - latency("v100", "345m", 1, 64, 64)) / 64
    assert token == pytest.approx(36e-3, rel=0.02)
    assert generation_rate("v100") * token / 40.6e9 == pytest.approx(17e-3, rel=0.05)
    shares = [round(100 * work_share(counted, model), 2) for model in ("1.5b", "345m") for counted in (2, 1)]
    assert shares == [0.04, 0.08, 0.06, 0.11]


def test_the_gpu_baseline_rests_on_one_point_and_meets_four_others():
    """Kernels counted in one layer and the speed-up of 345M give what 1.5B takes on four GPUs, and the norms' share."""
    assert PREDICTIONS["DFX-006"].value() == pytest.approx(3.20, rel=0.002)
    assert predicted(PREDICTIONS, "DFX-008") == pytest.approx(75.45, rel=0.04)
    assert rate("v100", "1.5b", 4) == pytest.approx(13.01, rel=0.02)
    assert PREDICTIONS["DFX-010"].value() == pytest.approx(0.228, rel=0.15)
    assert PREDICTIONS["DFX-044"].value() == 4


def test_the_published_tile_is_the_fastest_that_fits():
    ranked = sorted((c for c in tiles() if c.dsp <= 9024), key=lambda c: (c.seconds, c.dsp))
    assert ranked[0].tile == (64, 16)
    filling = [c for c in ranked if c.tile[0] * c.tile[1] == 1024]
    assert filling[1].seconds > 1.04 * filling[0].seconds


def test_a_head_of_64_leaves_a_third_of_the_matrix_unit_idle_in_the_outer_tiles():
    busy = {c.tile: c.matrix_s for c in tiles()}
    assert busy[16, 64] == busy[32, 32] == busy[64, 16]
    for tile in ((8, 128), (128, 8)):
        assert busy[tile] == pytest.approx(1.5 * busy[64, 16])
