"""Every number that a scenario may override goes through every page: written, read back, swept, in a link."""

import math
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.main import PAGES
from app.shared import glossary, specs
from app.views.sweep import axes, spaces, tables
from engine.resolve.bind import bind
from engine.resolve.choices import default_scenario, why_not
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario, decode, encode
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo
from tests.each import each
from tests.effort import EFFORT, share

APP = Path(__file__).parents[3] / "app"
# one system a family of devices, by preset
FAMILIES = {
    "cpu": "wide-deep-int8",
    "gpu": "v100-1.5b",
    "card": "node-dlrm",
    "npu": "brainwave-gru",
    "dfx": "dfx-1.5b",
    "smartnic": "tonic-fc",
}
SYSTEMS = default_catalog().ids("systems") if EFFORT >= 5 else [PRESETS[id].scenario.system for id in FAMILIES.values()]
_OBJECTIVES = ("latency_s", "throughput_per_s")
pytestmark = pytest.mark.timeout(300)


def usual(system: str) -> Scenario:
    """A system with a network that it runs."""
    return default_scenario(system, next(id for id in default_zoo().ids() if why_not(system, id) is None))


@each("system", SYSTEMS)
def test_every_overridable_value_is_written_and_read_back(system):
    """As a number of SI, as the catalog prints it and as the box of a what-if shows it, it means the same."""
    scenario = usual(system)
    for row in specs.overridable(scenario):
        for value in (row.si, row.text, specs.value_text(row, row.si)):
            if isinstance(value, str) and value.startswith("$"):
                continue  # how money is shown; it is typed as `12,000 USD`
            changed = decode(encode(scenario.with_(overrides={row.path: value})))
            bind(changed)
            found = specs.at_present(changed, row.path)
            assert math.isclose(found, row.si, rel_tol=6e-3), (row.path, value, found)
            said = glossary.knobs(changed, scenario)[-1]
            assert not any(bad in said for bad in ("e+", "e-0", "e-1", "None", "—")), said


@each("system", SYSTEMS)
def test_every_overridable_number_is_an_axis_that_holds_its_own_value(system):
    scenario = usual(system)
    candidates = axes.candidates(scenario)
    for row in specs.overridable(scenario):
        if row.si <= 0:
            continue  # a range about nothing is none
        candidate = candidates[row.path]
        space = spaces.read(spaces.write(spaces.PageSpace(((row.path, candidate.first),), _OBJECTIVES)))
        low, *_, high = axes.values_of(dict(space.axes)[row.path])
        assert low < row.si < high, row.path
        assert math.isclose(low * high, row.si**2, rel_tol=1e-2), row.path
        for value in (low, high):
            assert tables.setting(candidate, value) not in ("", "0", "—")


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_page_takes_every_what_if_of_a_models_parameters(kind):
    scenario = PRESETS[FAMILIES[kind]].scenario
    assert bind(scenario).device.kind == kind
    rows = [row for row in specs.overridable(scenario) if row.path.startswith("model.")]
    token = encode(scenario.with_(overrides={row.path: row.si for row in rows[:64]}))
    at = AppTest.from_file(str(APP / "main.py"), default_timeout=240)
    at.query_params["s"] = token
    at.session_state["kernels_seen"] = True  # what its page measures by itself takes no parameter of a model
    at.run()
    for page in ("explore", *share(tuple(PAGES), [*FAMILIES].index(kind))):
        if page != "explore":
            at.switch_page(str(APP / "views" / page / "page.py")).run()
        assert not at.exception, (page, [e.message for e in at.exception])
        assert at.query_params["s"] in (token, [token]), page
