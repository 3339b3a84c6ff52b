"""A refused value is told with those that are allowed, all of them alike and none left out."""

import pytest

from engine.devices.common.contract import Unsupported
from engine.resolve.bind import bind
from engine.resolve.choices import choices, default_scenario
from engine.scenario import Scenario, ScenarioError
from engine.scenario.fields import FIELDS, Field
from tests.each import each

PAIRS = (
    ("h200-sxm", "deepseek-r1"),
    ("h100-sxm", "resnet50"),
    ("xeon-8280l", "gpt2-345m"),
    ("fb-node", "dlrm-more-complex"),
    ("dfx-u280", "gpt2-1.5b"),
    ("brainwave-a10", "deepscan"),
    ("agilio-cx", "binary-fc-4096"),
)
TOLD = [field for field in FIELDS if field.kind == "choice" or field.path == "devices"]
ROWS = [(system, workload, field) for system, workload in PAIRS for field in TOLD]


def _refused(scenario: Scenario, field: Field) -> str:
    """What is said of a value that no system offers."""
    whole = field.path in ("devices", "second_split") or field.none in ("1", "0")
    share = field.path in ("expert_imbalance", "host_tables")
    with pytest.raises((ScenarioError, Unsupported)) as refusal:
        bind(scenario.with_(**{field.path: 99_991 if whole else "97%" if share else "nonsense"}))
    return str(refusal.value)


@each(("system", "workload", "field"), ROWS, ids=lambda value: getattr(value, "path", value))
def test_allowed_values_are_told_alike(system: str, workload: str, field: Field) -> None:
    scenario = default_scenario(system, workload)
    said = _refused(scenario, field)
    told = next(
        (part for mark in ("allowed here: ", "allowed: ", "offers ", "runs ") if (part := said.partition(mark)[2])), ""
    )
    values = choices(scenario).of(field)
    assert told, said
    assert not {"'", '"'} & set(told.partition(", as ")[0]), said
    places = [f", {told}".replace(" or a multiple", ",").find(f", {value}") for value in values]
    assert min(places, default=0) >= 0, said
