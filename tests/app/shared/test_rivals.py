"""Systems beside a scenario: each has a line of its own, is asked the same, in the same format, and says its count."""

import ast
import itertools
import re
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.shared import link, parts
from app.shared import load as loads
from app.shared.comparison import Comparison, Entry, write
from app.shared.load import Load
from app.shared.site import Site
from app.views.traffic import tables
from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.resolve.choices import choices, default_scenario, why_not
from engine.resolve.presets import PRESETS
from engine.scenario import ScenarioError, encode
from engine.traffic import Sla
from hardware_specs.catalog import default_catalog

APP = Path(__file__).parents[3] / "app"
SITE = Site(20.0, 0.6, 0.2, "node", 20, 15_000.0, None, None)
H100 = default_scenario("h100-sxm", "llama3.1-70b", devices=8).with_(precision="fp8")
FOUR = H100.with_(devices=4)
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


def opened(page: str, **query: str) -> AppTest:
    at = AppTest.from_file(str(APP / "main.py"), default_timeout=240)
    at.run()
    for key, value in query.items():
        at.query_params[key] = value
    return at.switch_page(f"views/{page}/page.py").run()


def beside(at: AppTest):
    """The table of systems asked for the same."""
    assert not at.exception, [e.message for e in at.exception]
    return next(f.value for f in at.dataframe if "System" in f.value.columns)


# --- a line for each, and the panel stays open


@pytest.mark.parametrize(
    "pair", [(H100, FOUR), (PRESETS["node-dlrm"].scenario, PRESETS["node-dlrm"].scenario.with_(batch=32))]
)
def test_two_of_a_system_on_compare_have_a_line_each(pair):
    at = opened("compare", s=encode(MI300X), c=write(Comparison(tuple(map(Entry, pair)))))
    at.session_state["open.others"] = True
    names = list(beside(at.switch_page("views/traffic/page.py").run())["System"])
    assert len(names) == len(set(names)) == 3


def test_whatever_stands_beside_has_an_offer_each():
    load, sla = Load(encode(MI300X.with_(precision="fp8")), max_batch=8), Sla(20.0)
    for others in itertools.permutations((H100, FOUR, H100.with_(outputs=64)), 2):
        offers = loads.offers(load, sla, SITE, tuple((encode(s),) for s in others))
        assert [o.scenario for o in offers] == [load.scenario, *others]


def test_the_panel_stays_open_on_its_first_pick():
    at = opened("traffic", s=encode(PRESETS["dfx-345m"].scenario))
    at.session_state["open.others"] = True
    at.run()
    at.multiselect(key="t.also").set_value(["h100-sxm"]).run()
    assert "H100" in " ".join(beside(at)["System"])


def test_no_panel_that_is_filled_when_opened_has_a_name_that_changes():
    """Streamlit takes such a panel for another, closed one as soon as its label differs."""
    changing = []
    for file in APP.rglob("*.py"):
        for call in (n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Call)):
            named = {k.arg for k in call.keywords}
            stateful = getattr(call.func, "attr", "") == "expander" and "on_change" in named
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
    asked = 0
    for system in default_catalog().ids("systems"):
        if system == scenario.system or why_not(system, scenario.workload):
            continue
        usual = default_scenario(system, scenario.workload)
        try:
            found = link.on_system(system)
        except (ScenarioError, Unsupported):
            continue
        asked += 1
        assert len({(s.devices, s.scheme) for s in found}) == len(found) > 0
        for rival in found:
            assert all(getattr(rival, name) == getattr(scenario, name) for name in ASKED)
            assert evaluate(rival).fits
            offered = choices(rival).formats
            assert rival.precision == (scenario.precision if scenario.precision in offered else usual.precision)
    assert asked


def test_the_count_that_serves_it_cheapest_stands_for_a_system(session):
    session(H100)
    load, sla = Load(encode(H100), max_batch=32), Sla(3 * evaluate(H100).latency_s)
    each = link.on_system("mi300x")
    assert [s.devices for s in each] == [1, 2, 4, 8]
    alone = loads.offers(load, sla, SITE, tuple((encode(s),) for s in each))[1:]
    own, best = loads.offers(load, sla, SITE, (tuple(map(encode, each)),))
    assert best.plan.usd_per_million == min(o.plan.usd_per_million for o in alone if o.plan)
    frame = tables.offers_frame((own, best), ("H100", "MI300X"))
    assert list(frame["Devices"]) == [8, best.scenario.devices]
    assert list(frame["Precision"]) == ["FP8", "FP8"]
    assert tables.offers_said((own, best), ("H100", "MI300X")).startswith("MI300X costs least")


def test_money_that_is_missing_is_no_price():
    load, sla = Load(encode(PRESETS["brainwave-gru"].scenario)), Sla(5e-3)
    offers = loads.offers(load, sla, SITE, ((encode(default_scenario("h100-sxm", load.scenario.workload)),),))
    assert offers[0].plan.usd_per_million is None
    frame = tables.offers_shown(tables.offers_frame(offers, ("NPU", "H100")))
    money = [c for c in frame if "$" in c]
    assert len(money) == 2
    assert [frame[c][0] for c in money] == ["no price"] * 2
    none = loads.offers(load, Sla(1e-9), SITE, ())
    nothing = tables.offers_shown(tables.offers_frame(none, ("NPU",)))
    assert {nothing[c][0] for c in ("Nodes", *money)} == {"—"}


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
