"""Systems beside a scenario: each is asked the same, in the same format, and says its count."""

import ast
import re
from pathlib import Path

import pytest
import streamlit as st

from app.shared import link, parts
from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.resolve.choices import choices, default_scenario, why_not
from engine.resolve.presets import PRESETS
from engine.scenario import ScenarioError, encode
from hardware_specs.catalog import default_catalog
from tests.effort import share

APP = Path(__file__).parents[3] / "app"
H100 = default_scenario("h100-sxm", "llama3.1-70b", devices=8).with_(precision="fp8")
MI300X = default_scenario("mi300x", "llama3.1-70b")
ASKED = ("batch", "inputs", "outputs", "params")
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def session(monkeypatch):
    """A session that holds a scenario, without a browser."""

    def of(scenario):
        state = {"scenario": scenario, "token": encode(scenario), "baseline": "", "before": None}
        monkeypatch.setattr(st, "session_state", type("State", (dict,), {"__getattr__": dict.__getitem__})(state))

    return of


# --- a line for each, and the panel stays open


def test_no_panel_that_is_filled_when_opened_has_a_name_that_changes():
    """Streamlit takes such a panel for another, closed one as soon as its label differs; one that stands for each of
    several things has the thing in its key.
    """
    changing = []
    for file in APP.rglob("*.py"):
        for call in (n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Call)):
            named = {k.arg: k.value for k in call.keywords}
            stateful = getattr(call.func, "attr", "") == "expander" and "on_change" in named
            stateful = stateful and not isinstance(named.get("key"), ast.JoinedStr)
            if stateful and not re.fullmatch(r"texts\.[A-Z_]+|'.*'", ast.unparse(call.args[0])):
                changing.append(f"{file.name}:{call.lineno}")
    assert changing == []


# --- asked the same, in the same format, with what it needs


@pytest.mark.parametrize(
    "scenario",
    [
        H100,
        MI300X.with_(batch=4, inputs=1024),
        PRESETS["wide-deep-int8"].scenario,
        PRESETS["dfx-1.5b"].scenario,
        PRESETS["node-dlrm"].scenario,
        PRESETS["tonic-fc"].scenario,
        PRESETS["brainwave-gru"].scenario,
    ],
    ids=lambda s: f"{s.system}/{s.workload}",
)
def test_a_rival_holds_the_same_request_in_the_same_format(session, scenario):
    session(scenario)
    asked, systems = 0, default_catalog().ids("systems")
    able = [id for id in systems if id != scenario.system and why_not(id, scenario.workload) is None]
    for system in share(able, scenario.batch):
        usual = default_scenario(system, scenario.workload)
        try:
            rival = link.on_system(system)
        except (ScenarioError, Unsupported):
            continue
        asked += 1
        assert all(getattr(rival, name) == getattr(scenario, name) for name in ASKED)
        assert evaluate(rival).fits
        offered = choices(rival).formats
        assert rival.precision == (scenario.precision if scenario.precision in offered else usual.precision)
    assert asked


# --- the rival of a preset


@pytest.mark.parametrize("id", [id for id, p in PRESETS.items() if p.rival])
def test_a_published_rival_is_asked_what_the_scenario_is_asked(session, id):
    for batch in (1, 8, PRESETS[id].scenario.batch):
        scenario = PRESETS[id].scenario.with_(batch=batch)
        session(scenario)
        rival = link.rival()
        assert rival is None or all(getattr(rival, name) == getattr(scenario, name) for name in ASKED)
    session(PRESETS[id].scenario)
    assert link.rival() is not None


@pytest.mark.parametrize("id", PRESETS)
def test_a_baseline_is_another_scenario_under_another_name(session, id):
    own = PRESETS[id].scenario
    for scenario in (own, own.with_(batch=2), own.with_(batch=4)):
        session(scenario)
        found = parts.baseline_report()
        if found is None:
            continue
        name, report = found
        assert report.token != encode(scenario)
        assert name not in (parts.short_name(scenario), evaluate(scenario).system_name)


def test_a_pinned_baseline_says_what_differs(session):
    own = PRESETS["wide-deep-int8"].scenario
    session(own)
    st.session_state["baseline"] = encode(own.with_(batch=64))
    name, _ = parts.baseline_report()
    assert "batch 64" in name
    assert name != parts.short_name(own)
