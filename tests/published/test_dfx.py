"""Document 004: the rates that constants were fitted on or chosen in view of, and what follows from them."""

import pytest

from engine.evaluate import evaluate
from engine.published import claims, fit_claims, predictions
from engine.published.dfx import bar, generation_rate, latency, rate, tiles
from engine.published.kinds import moves
from engine.published.prediction import value_of
from engine.scenario.overrides import apply_all
from model_zoo.catalog import default_zoo
from model_zoo.families.transformer_decoder.block import NORM


def work_share(multiply_add: float, model: str = "1.5b") -> float:
    """Share of the operations of a token that layer norms and residuals are; a multiply-add counts as that many. [-]"""
    graph = default_zoo().graph(f"gpt2-{model}")
    ops = next(p for p in graph.phases if p.name == "decode").ops
    work = [op.flops.at(1, 1, 64) * op.layers * (multiply_add / 2 if op.contraction else 1) for op in ops]
    return sum(w for op, w in zip(ops, work, strict=True) if op.group == NORM) / sum(work)


def even(model: str, cards: int) -> float:
    """Input over output length at which the appliances are equally fast, for 64 outputs. [-]"""
    low, high = 1.0, 15.0
    while high - low > 0.05:
        middle = (low + high) / 2
        dfx, v100 = (latency(on, model, cards, round(64 * middle), 64) for on in ("dfx", "v100"))
        low, high = (middle, high) if dfx < v100 else (low, middle)
    return (low + high) / 2


def test_the_cores_constants_name_the_four_rates_they_were_chosen_in_view_of_and_meet_them_within_six_percent():
    rates = {"DFX-053", "DFX-054", "DFX-055", "DFX-058"}
    mine = {name: {*one["claims"]} for name, one in moves()["constants"].items() if {*one["claims"]} & rates}
    assert mine.pop("dfx.unexplained") == {"DFX-054", "DFX-055"}
    assert mine.keys() == {"dfx.issue", "dfx.hbm_access", "dfx.reads_in_flight", "qsfp-100g-aurora.latency"}
    assert all(claims == rates for claims in mine.values())
    derived = {"DFX-052", "DFX-056", "DFX-064"}
    assert {id for id in fit_claims() if id.startswith("DFX-")} == {"DFX-006", "DFX-049", "DFX-051"} | rates | derived
    for claim in claims():
        if claim["id"] in rates | {"DFX-005"}:
            assert predictions()[claim["id"]].value() == pytest.approx(claim["value"], rel=0.06)


def test_a_small_part_of_a_request_is_fitted_and_a_lone_card_has_no_such_part():
    for model, cards, most in (("345m", 1, 0.0), ("345m", 2, 0.13), ("1.5b", 4, 0.13)):
        without = apply_all(bar("dfx", model, cards), ["model.unexplained=0"])
        share = 1 - evaluate(without).latency_s / evaluate(bar("dfx", model, cards)).latency_s
        assert 0 <= share <= most
        assert (share == 0) == (cards == 1)
        report = evaluate(bar("dfx", model, cards))
        told = sum(row.time_s for row in report.other if row.name.endswith(", unexplained")) / report.latency_s
        assert told == pytest.approx(share, rel=0.02)


def test_reasons_state_what_the_model_gives():
    assert even("1.5b", 4) == pytest.approx(10, abs=0.3)
    token = (latency("v100", "345m", 1, 64, 128) - latency("v100", "345m", 1, 64, 64)) / 64
    assert token == pytest.approx(36e-3, rel=0.02)
    assert generation_rate("v100") * token / 40.6e9 == pytest.approx(17e-3, rel=0.05)
    shares = [round(100 * work_share(counted, model), 2) for model in ("1.5b", "345m") for counted in (2, 1)]
    assert shares == [0.04, 0.08, 0.06, 0.11]


def test_the_gpu_baseline_rests_on_one_point_and_meets_four_others():
    """Kernels counted in one layer and the speed-up of 345M give what 1.5B takes on four GPUs, and the norms' share."""
    ours, printed = rate("dfx", "345m", 1), 93.10
    # the GPU was fitted over a DFX that meets its printed rate; ours is 2.9% off, so the ratio is taken to it
    assert predictions()["DFX-006"].value() * printed / ours == pytest.approx(3.20, rel=0.005)
    assert value_of(predictions(), "DFX-008") == pytest.approx(75.45, rel=0.04)
    assert rate("v100", "1.5b", 4) == pytest.approx(13.01, rel=0.02)
    assert predictions()["DFX-010"].value() == pytest.approx(0.228, rel=0.15)
    assert predictions()["DFX-044"].value() == 4


def test_three_tiles_tie_over_attention_and_the_published_one_takes_the_fewest_slices():
    seconds, slices = ({tile: row[at] for tile, row in tiles().items()} for at in (0, 2))
    inner = [(16, 64), (32, 32), (64, 16)]
    assert max(seconds[tile] for tile in inner) < 1.015 * min(seconds[tile] for tile in inner)
    assert min(inner, key=lambda tile: seconds[tile]) == (64, 16)
    assert all(seconds[tile] > 1.19 * seconds[64, 16] for tile in ((8, 128), (128, 8)))
    assert min(inner, key=lambda tile: slices[tile]) == (64, 16)


def test_a_head_of_64_leaves_a_third_of_the_matrix_unit_idle_in_the_outer_tiles():
    busy = {tile: matrix for tile, (_, matrix, _) in tiles().items()}
    assert busy[16, 64] == busy[32, 32] == busy[64, 16]
    for tile in ((8, 128), (128, 8)):  # an instruction takes whole cycles, and each of 24 heads has two
        assert busy[tile] == pytest.approx(1.5 * busy[64, 16], abs=2 * 24 / 200e6)
