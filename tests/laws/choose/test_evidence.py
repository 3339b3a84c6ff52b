"""How sure a choice is: ties within error bands, and what no measurement supports."""

from typing import Any

import pytest

from engine.choose import choose, question_of
from engine.choose.question import QUESTIONS
from engine.scenario import ScenarioError


def _ends(row: Any) -> tuple[float, float]:
    low, high = row.band.around(row.best.usd_per_million)
    return low, high


def test_systems_whose_costs_overlap_the_winners_are_a_tie() -> None:
    systems = ["b200-sxm", "h100-sxm", "gb200-nvl72"]
    found = choose({"workload": "llama3.1-70b", "inputs": 1024, "outputs": 1024, "tpot_s": 0.025, "systems": systems})
    first, *rivals = [row for row in found.rows if row.rank]
    assert first.band.relative is not None
    ties = [row for row in rivals if row.band.relative is not None and _ends(row)[0] <= _ends(first)[1]]
    assert ties == [row for row in found.rows if row.tied]
    assert len(ties) > 0
    assert f"{first.name} ties with {len(ties)} more: their error bands overlap." in found.sentence


def test_with_evidence_only_a_system_without_a_band_is_refused_and_the_winner_has_one() -> None:
    fields = QUESTIONS["llama-70b"].question.model_dump() | {"systems": ["mi300x", "b200-sxm", "h100-sxm"]}
    free = choose(fields)
    assert free.rows[0].band.relative is None
    rival = next(row for row in free.rows if row.rank and row.band.relative is not None)
    assert "No measurement supports the cost of Instinct MI300X; of systems with evidence" in free.sentence
    assert free.sentence.count(f" {rival.name} ") == 1
    sure = choose(question_of(question_of(fields | {"evidence": "measured"}).token))
    assert sure.rows[0].system == rival.system
    assert sure.rows[0].best.usd_per_million == rival.best.usd_per_million
    refused = {row.system: row for row in sure.rows if row.best is None}
    assert all(row.band.relative is not None for row in sure.rows if row.best is not None)
    assert "meets your limits without evidence: " in refused["mi300x"].reason
    assert refused["mi300x"].configuration
    with pytest.raises(ScenarioError, match="evidence is 'some'"):
        question_of(fields | {"evidence": "some"})
