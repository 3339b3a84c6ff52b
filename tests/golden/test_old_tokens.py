"""Tokens that were once handed out keep opening, and keep meaning what they meant."""

import json
from pathlib import Path

import pytest

from engine.scenario import Scenario, decode

KEPT = json.loads((Path(__file__).parent / "tokens-v1.json").read_text())


@pytest.mark.parametrize("token", KEPT)
def test_an_old_token_means_what_it_meant(token: str) -> None:
    scenario = decode(token)
    fields = scenario.model_dump(mode="json")
    assert {name: fields[name] for name in KEPT[token]} == KEPT[token]
    for name in fields.keys() - KEPT[token].keys():  # fields that came later say what was so before them
        assert fields[name] == Scenario.model_fields[name].default, name
