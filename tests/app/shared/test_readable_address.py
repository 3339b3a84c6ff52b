"""An address that people can write opens what it says, and becomes the token."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.choose import question_of
from engine.resolve.choices import default_scenario
from engine.resolve.presets import PRESETS
from engine.scenario import encode

APP = Path(__file__).parents[3] / "app"
pytestmark = pytest.mark.timeout(300)


def opened(page: str = "", **query: str) -> AppTest:
    at = AppTest.from_file(str(APP / "main.py"), default_timeout=240)
    for key, value in query.items():
        at.query_params[key] = value
    at.run()
    return at.switch_page(str(APP / "views" / page / "page.py")).run() if page else at


def value(at: AppTest, key: str) -> str:
    shown = at.query_params[key]
    return shown[0] if isinstance(shown, list) else shown


def test_system_and_workload_are_a_scenario():
    at = opened(system="h100-sxm", workload="llama3.1-70b", devices="8", precision="fp8", batch="16")
    meant = default_scenario("h100-sxm", "llama3.1-70b", devices=8, precision="fp8", batch=16)
    assert meant.scheme == "tensor"
    assert at.session_state["scenario"] == meant
    assert value(at, "s") == encode(meant)
    assert not {"system", "workload", "devices", "precision", "batch"} & set(at.query_params)
    assert not at.warning


def test_a_scheme_alone_takes_the_devices_that_it_usually_has():
    meant = default_scenario("fb-node", "resnet50", scheme="replicas")
    assert meant.devices == 6
    assert opened(system="fb-node", workload="resnet50", scheme="replicas").session_state["scenario"] == meant


def test_a_preset_opens_by_its_id_and_is_changed_by_what_stands_beside_it():
    at = opened(preset="node-dlrm", batch="32")
    meant = PRESETS["node-dlrm"].scenario.with_(batch=32)
    assert at.session_state["scenario"] == meant
    assert value(at, "s") == encode(meant)
    assert not {"preset", "batch"} & set(at.query_params)
    assert not at.warning


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"system": "nosuch"}, "nosuch"),
        ({"preset": "nosuch"}, "nosuch"),
        ({"system": "h100-sxm", "workload": "nonet"}, "nonet"),
        ({"system": "h100-sxm", "workload": "resnet50", "batch": "many"}, "batch"),
        ({"system": "h100-sxm", "workload": "resnet50", "devices": "3"}, "devices"),
        ({"system": "dfx-u280", "workload": "resnet50"}, "DFX"),
        ({"system": "h100-sxm", "workload": "resnet50", "precision": "fp3"}, "precision"),
    ],
)
def test_what_means_no_scenario_is_one_sentence(query, names):
    at = opened(**query)
    assert not at.exception
    assert not at.error
    (said,) = [w.value for w in at.warning]
    assert names in said.lower().replace("\\", "") or names in said
    assert said[0].isupper()
    assert not set(query) & set(at.query_params)


def test_a_token_wins_over_readable_parameters():
    token = encode(default_scenario("l4", "resnet50"))
    assert value(opened(s=token, system="h100-sxm"), "s") == token


def test_a_question_can_be_written_too():
    at = opened("choose", workload="binary-fc-4096", latency="7ms", qps="500")
    assert value(at, "q") == question_of({"workload": "binary-fc-4096", "latency_s": 0.007, "qps": 500}).token
    assert not at.warning
    bad = opened("choose", workload="binary-fc-4096", latency="soon")
    assert any("soon" in w.value for w in bad.warning)
