"""Tokens that were once handed out keep opening, and keep meaning what they meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.scenario import Scenario, decode

KEPT = json.loads((Path(__file__).parent / "tokens-v1.json").read_text())


@pytest.mark.parametrize("token", KEPT)
def test_an_old_token_means_what_it_meant(token: str) -> None:
    scenario = decode(token)
    assert scenario.model_dump(mode="json") == KEPT[token]
    assert isinstance(scenario, Scenario)
