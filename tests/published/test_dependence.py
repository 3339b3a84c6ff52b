"""Kinds and roles follow from what moves a prediction, and the stored dependence is what changing constants finds."""

import itertools

import numpy as np
import pytest

from engine.analyses.depth_first import compare
from engine.published import closer, fit_claims, judge, predictions
from engine.published.headline import Headline, independent
from engine.published.kinds import moves
from engine.published.prediction import value_of
from hardware_specs import default_catalog
from model_zoo.catalog import default_zoo
from tests.each import each
from tests.tools.dependence import _model, _times, constants, moved


def ids(prefix: str, *numbers: int) -> list[str]:
    return [f"{prefix}-{n:03}" for n in numbers]


FITTED = [
    *ids("WD", 8, 14, 17),  # functions of the two fitted rows
    *ids("BW", 1, 10, 38, 39),  # a hop of 19 cycles is 631 less the published step
    *ids("FB", 78),  # the same 44% as FB-076
    *ids("5G", 18, 28, 52),  # their constants and rules were chosen with them in view
    *ids("DFX", 53, 54, 55, 58),  # issue, access, row cycle and hop of the core were picked with the four rates in view
    *ids("DFX", 52, 56, 64),  # functions of them
]
CAN_NOT_FAIL = [
    *ids("FB", 6, 7, 8, 9, 10, 65, 51, 70, 80, 88, 74),
    *ids("BW", 13, 14, 15, 20, 36, 43, 45, 6, 26),
    *ids("DFX", 19, 20, 22, 23, 24, 25, 26, 29, 61, 62, 65),
    *ids("5G", 4, 5, 6, 7, 8, 9, 10, 11, 12, 44, 61),
]
RESTATED = [
    *ids("BW", 10, 38, 39),
    *ids("DFX", 2, 3, 8, 48, 49, 52, 56, 63, 64),
    *ids("5G", 51, 56, 59, 60, 62, 63, 64),
    *ids("FB", 77, 87),
    *ids("WD", 8, 14, 15, 17),
]


@pytest.fixture(scope="module")
def rows(claimed: list[dict]) -> dict[str, dict]:
    return {row["id"]: row for row in claimed}


@pytest.mark.parametrize("id", FITTED)
def test_what_was_fitted_is_calibration(rows, id):
    assert rows[id]["role"] == "calibration"


@each("id", CAN_NOT_FAIL)
def test_what_can_not_fail_is_no_timing(rows, id):
    assert rows[id]["kind"] in ("input", "identity", "bound", "count", "derived")


@each("id", RESTATED)
def test_what_restates_others_is_derived(rows, id):
    assert rows[id]["kind"] == "derived"
    assert rows[id]["of"]


def test_constants_that_name_claims_are_those_whose_dependence_is_kept():
    kept = moves()["constants"]
    assert {name: list(claims) for name, (claims, _) in constants().items()} == {
        name: one["claims"] for name, one in kept.items()
    }
    assert moves()["predictions"].keys() == predictions().keys()


@pytest.mark.parametrize(
    "name", ["cpu.short_row", "smartnic.packet_cycles", "stratix-10-280-brainwave-pre.npu.depths.mvu-reduce-hop"]
)
def test_dependence_is_what_changing_a_constant_finds(name):
    claims, how = constants()[name]
    kept = moves()["constants"][name]["moves"]
    some = sorted({*claims, "WD-012", "5G-020", "5G-058", *list(kept)[:3]})
    before = [value_of(predictions(), id) for id in some]
    found = moved(predictions(), some, how)
    assert {id: min(change, 1e6) for id, change in found.items() if change > 0.01} == pytest.approx(
        {id: change for id, change in kept.items() if id in some}, rel=1e-3
    )
    assert [value_of(predictions(), id) for id in some] == before  # everything is put back


def test_no_independent_prediction_is_a_multiple_of_another(rows):
    """Predictions that move together, whatever operators and constants change, are one prediction counted twice.

    So were DFX-008 and -057, -048 and -050, -049 and the fitted -051, 5G-022 and the fitted -021.
    """
    mine = [id for id, row in rows.items() if row["kind"] == "timing" and isinstance(row["predicted"], float)]
    base = np.array([value_of(predictions(), id) for id in mine])
    response = []
    for change, seed in itertools.product((_times, _model), "ab"):
        with change(seed, 1.2):
            response.append(np.log(np.maximum([value_of(predictions(), id) for id in mine], 1e-300) / base))
    moves = np.array(response).T
    moves /= np.maximum(np.linalg.norm(moves, axis=1), 1e-9)[:, None]
    pairs = zip(*np.where(np.triu(np.abs(moves @ moves.T) > 1 - 1e-8, 1)), strict=True)
    named = [(mine[i], mine[j]) for i, j in pairs]
    assert [pair for pair in named if any(independent(rows[id]) for id in pair)] == []


def test_the_headline_counts_independent_timing_predictions_only(rows):
    headline = Headline(list(rows.values()))
    mine = [r for r in rows.values() if r["kind"] == "timing" and r["id"] not in fit_claims()]
    assert headline.count == len(mine)
    assert headline.missed == [r["id"] for r in mine if not r["within"]]


def test_a_naive_alternative_meets_no_claim_it_is_named_for(rows):
    """TensorFlow's rates for MXNet's passed WD-012, -013 and -015, and shares of 2% passed at twice that."""
    for id in ("WD-012", "WD-013"):
        naive = rows[id]["naive"]
        assert naive["name"].startswith("TensorFlow")
        assert not closer(naive["error"], naive["error"])
    for row in rows.values():
        if row["kind"] == "timing":
            assert row["naive"]["name"]
            if row["within"] and row["error"] is not None and row["naive"]["error"] is not None:
                assert abs(row["error"]) < abs(row["error"] - row["naive"]["error"])


def test_a_share_is_judged_relatively_a_range_at_both_ends_and_a_bound_has_no_error(rows):
    assert not rows["FB-101"]["within"]
    assert judge(2.0, rows["FB-101"]["tolerance"], 3.9)[1] is False
    low, high = rows["5G-023"]["predicted"]
    assert low < 2 < high < 12
    assert judge({"min": 2, "max": 12}, 0.25, (0.5, 11.9)) == (-0.75, False)
    for row in rows.values():
        if row["kind"] == "bound" and row["within"]:
            assert row["error"] is None


def test_a_gain_does_not_depend_on_who_sells_the_part():
    arm = default_catalog().device("arm-edge-cpu")
    graph = default_zoo().graph("mobilenet-v1")
    sold = arm.model_copy(update={"vendor": "AMD"})
    assert compare(sold, graph, 1).speedup == compare(arm, graph, 1).speedup
