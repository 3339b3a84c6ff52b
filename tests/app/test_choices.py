"""What a page's own choices change is in its link: a fresh session that opens it sees the same."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.presets import PRESETS
from engine.scenario import encode
from tests.app.keys import key_of

APP = Path(__file__).parents[2] / "app"
pytestmark = pytest.mark.timeout(300)

# page, preset, parameter of its address, value
CHOICES = [
    ("explore", "dfx-1.5b", "knob", "devices"),
    ("node", "node-dlrm", "figure", "latency"),
    ("node", "node-dlrm", "card", "all"),
    ("node", "node-dlrm", "model", "xlm-r-large"),
    ("split", "alexnet-split", "goal", "throughput"),
    ("split", "alexnet-split", "answer", "0.1"),
    ("numerics", "dfx-1.5b", "layer", "outliers"),
    ("numerics", "dfx-1.5b", "bound", "0.05"),
    ("kernels", "dfx-1.5b", "kernel", "softmax"),
    ("traffic", "dfx-1.5b", "requests", "50000"),
]


def opened(page: str, preset: str, **params: str) -> AppTest:
    at = AppTest.from_file(str(APP / "main.py"), default_timeout=240)
    at.query_params["s"] = encode(PRESETS[preset].scenario)
    at.run()
    if page != "explore":
        at.switch_page(str(APP / "views" / f"{page}.py"))
    for name, value in params.items():
        at.query_params[name] = value
    at.run()
    assert not at.exception, [e.message for e in at.exception]
    return at


def shown(at: AppTest, key: str) -> str:
    return at.session_state[key_of(at, f"w.{key}")]


@pytest.mark.parametrize(("page", "preset", "key", "value"), CHOICES)
def test_a_link_carries_a_pages_choice_and_a_bad_one_is_one_sentence(page, preset, key, value):
    at = opened(page, preset, **{key: value})
    assert shown(at, key) == value
    assert at.query_params[key] == value
    assert not at.warning
    bad = opened(page, preset, **{key: "nonsense"})
    assert shown(bad, key) not in (value, "nonsense")
    assert [w.value.count("nonsense") for w in bad.warning] == [1]
    assert key not in bad.query_params
    assert not bad.run().warning


def test_toggles_travel_and_only_on_and_off_are_known():
    at = opened("split", "alexnet-split", low="on")
    assert at.toggle(key="w.low").value
    assert "low" not in at.toggle(key="w.low").set_value(False).run().query_params
    bad = opened("split", "alexnet-split", low="perhaps")
    assert not bad.toggle(key=key_of(bad, "w.low")).value
    assert len(bad.warning) == 1


def systems(at: AppTest) -> list[str]:
    """The systems of the card that asks the same of others."""
    return next(list(f.value["System"]) for f in at.dataframe if "System" in f.value.columns)


def test_systems_beside_on_traffic_are_in_its_link():
    at = opened("traffic", "dfx-1.5b", also="h100-sxm,v100-appliance")
    names = systems(at)
    assert any("H100" in name for name in names)
    assert at.multiselect(key="t.also").value == ["h100-sxm", "v100-appliance"]
    at.multiselect(key="t.also").set_value(["h100-sxm"]).run()
    assert at.query_params["also"] == "h100-sxm"
    bad = opened("traffic", "dfx-1.5b", also="h100-sxm,agilio-cx,nowhere")
    assert bad.query_params["also"] == "h100-sxm"
    assert systems(bad) == systems(at)
    assert len(bad.warning) == 1
    assert "agilio" in bad.warning[0].value
    assert "nowhere" in bad.warning[0].value
