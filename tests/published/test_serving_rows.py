"""Published serving runs that the bands rest on: how far off the time between tokens is."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.published.measured.compare import Measured, compared, groups, read_measured, spread

ROWS = Path(__file__).parents[2] / "engine" / "published" / "claims" / "serving.csv"
AIMS = {  # by network: median and 90th percentile of |predicted / measured - 1|
    "llama3.1-70b": (0.06, 0.15),
    "qwen3-32b": (0.09, 0.16),
    "deepseek-r1": (0.15, 0.25),
    "gpt-oss-120b": (0.12, 0.40),
}


@pytest.fixture(scope="module")
def found() -> Measured:
    return compared(read_measured(ROWS))


def test_half_lie_within_nine_percent_and_nine_in_ten_within_thirty(found: Measured):
    error = spread([e for row in found.rows for e in row.errors.values()])
    assert error["n"] >= 220
    assert error["median"] <= 0.09
    assert error["p90"] <= 0.30


def test_every_network_is_met(found: Measured):
    for group in groups(found.rows, "workload"):
        if group["workload"] in AIMS:
            median, tail = AIMS[group["workload"]]
            assert group["median"] <= median, group
            assert group["p90"] <= tail, group
