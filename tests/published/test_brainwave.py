"""Document 001: its one time, the headline GRU, follows from a recalled step and a hop that its own step gave."""

import pytest

from engine.evaluate import evaluate
from engine.published import fit_claims, predictions
from engine.published.brainwave import bing
from engine.resolve.choices import default_scenario


def microseconds_a_step(workload: str, system: str = "brainwave-a10") -> float:
    """What the answer owes to the unknown length: time of one more step of a Bing model. [us]"""
    more, less = (evaluate(bing(workload, steps, system)).latency_s for steps in (150, 50))
    return 1e6 * (more - less) / 100


# steps of the instance of ISCA 2018, latencies recalled from its table of DeepBench RNNs: [ms]
RECALLED = {
    ("gru", 2816, 750): 1.987,
    ("gru", 2560, 375): 0.993,
    ("gru", 2048, 375): 0.954,
    ("gru", 1536, 375): 0.951,
    ("gru", 1024, 1500): 3.792,
    ("lstm", 2048, 25): 0.074,
    ("lstm", 1536, 50): 0.145,
    ("lstm", 256, 150): 0.425,
}


def test_what_was_fitted_is_calibration():
    assert {id for id in fit_claims() if id.startswith("BW-")} == {"BW-001", "BW-010", "BW-038", "BW-039"}


def test_headline_within_five_percent():
    assert predictions()["BW-001"].value() == pytest.approx(39.5, rel=0.05)


@pytest.mark.parametrize(("cell", "hidden", "steps"), sorted(RECALLED))
def test_recalled_rnns_within_eight_percent(cell, hidden, steps):
    scenario = default_scenario(
        "brainwave-s10-isca18", f"deepbench-{cell}-{hidden}", devices=1, scheme="single", inputs=steps
    )
    assert 1e3 * evaluate(scenario).latency_s == pytest.approx(RECALLED[cell, hidden, steps], rel=0.08)


def test_reasons_quote_the_model():
    assert microseconds_a_step("tp1-lstm") == pytest.approx(19, rel=0.05)
    assert microseconds_a_step("deepscan") == pytest.approx(8.6, rel=0.05)
    assert evaluate(bing("tp1-lstm", 50)).latency_s == pytest.approx(1e-3, rel=0.1)
