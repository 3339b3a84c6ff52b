"""Is the table of fields the only place that says what a knob is called, what it takes and who offers it?"""

import re
from dataclasses import fields as attributes
from functools import cached_property
from pathlib import Path

from app.views.sweep.axes import candidates
from engine.resolve.choices import Choices, choices, default_scenario
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario
from engine.scenario.fields import FIELDS, GROUPS
from engine.scenario.overrides import apply
from tests.each import each

APP = "\n".join(path.read_text() for path in sorted((Path(__file__).parents[3] / "app").rglob("*.py")))
FLOWING = re.sub(r"\s+", " ", APP)
OFFERED = {a.name for a in attributes(Choices)} | {
    n for n, v in vars(Choices).items() if isinstance(v, property | cached_property)
}


def test_every_field_of_a_scenario_has_one_row_and_every_row_a_field():
    assert sorted(f.path for f in FIELDS) == sorted(set(Scenario.model_fields) - {"version"})
    assert len({f.label for f in FIELDS}) == len({f.help for f in FIELDS}) == len(FIELDS)


@each("of", FIELDS, ids=lambda f: f.path)
def test_a_row_names_what_exists(of):
    """Lists of values and names are attributes of `Choices`; a group is one that gains are attributed to."""
    assert {of.offered, of.called} - {""} <= OFFERED
    assert of.group in (*GROUPS, "")
    assert of.label[0].isupper()
    assert of.help.endswith(".")
    assert of.none is None or of.value_of(of.none) is None
    assert of.none is None or of.display(None) == of.none


@each("of", FIELDS, ids=lambda f: f.path)
def test_no_label_and_no_help_of_a_field_stands_twice(of):
    """In the app's sources: what a field says is read from the table. A word alone may be another's label too."""
    assert of.help not in FLOWING
    assert " " not in of.label or f'"{of.label}"' not in APP


@each("id", PRESETS)
def test_every_value_that_is_offered_can_be_set_by_its_path(id):
    """And the scenario's own is among those of an axis, where it is set at all."""
    scenario = PRESETS[id].scenario
    offered = choices(scenario)
    for of in FIELDS:
        for value in offered.of(of) if of.kind in ("count", "choice") else ():
            assert of.display(getattr(apply(scenario, of.path, value), of.path)) == value
    for path, axis in candidates(scenario).items():
        assert not axis.options or axis.now is None or axis.now in axis.options, path


def test_a_network_is_cut_only_where_its_scheme_cuts_it():
    scenario = PRESETS["alexnet-split"].scenario
    assert choices(scenario).cuts == tuple(range(len(choices(scenario).splits) + 1))
    assert choices(default_scenario("h100-sxm", "gpt2-1.5b")).cuts == ()
