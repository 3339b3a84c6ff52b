"""Another system keeps what still holds of a scenario, and says in one line what it could not keep."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.shared import glossary
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario, encode
from tests.app.pages import key_of

MAIN = Path(__file__).parents[3] / "app" / "main.py"
pytestmark = pytest.mark.timeout(300)


def moved(scenario: Scenario, system: str) -> AppTest:
    at = AppTest.from_file(str(MAIN), default_timeout=240)
    at.query_params["s"] = encode(scenario)
    at.run()
    at.selectbox(key=key_of(at, "w.system")).set_value(system).run()
    assert not at.exception, [e.message for e in at.exception]
    assert at.session_state["scenario"].system == system
    return at


def lines(at: AppTest) -> list[str]:
    return [c.value.replace("\\", "") for c in at.caption if "Reset with this change" in c.value]


def test_a_partition_somebody_chose_and_costs_stay():
    mine = PRESETS["v100-1.5b"].scenario.with_(devices=2, batch=4, costs={"pue": 1.5}, limits={"latency_s": 9.0})
    now = moved(mine, "dfx-u280").session_state["scenario"]
    assert (now.scheme, now.devices, now.batch, now.costs.pue, now.limits.latency_s) == ("tensor", 2, 4, 1.5, 9.0)


def test_what_does_not_stay_is_said_once_and_undone():
    mine = PRESETS["v100-1.5b"].scenario.with_(batch=4, overrides={"devices.0.memory.hbm.bandwidth": "2 TB/s"})
    at = moved(mine, "dfx-u280")
    (said,) = lines(at)
    assert "hardware overrides none, not 1" in said
    at.button(key="undo.moved").click().run()
    assert at.session_state["scenario"] == mine
    assert lines(at.run()) == []


@pytest.mark.parametrize("id", ["dfx-1.5b", "node-dlrm", "wide-deep-int8", "brainwave-gru", "v100-1.5b"])
def test_every_difference_is_in_the_line(id):
    """On whatever other system runs the same network: each field that is not as it was is named."""
    from engine.resolve.choices import why_not
    from hardware_specs.catalog import default_catalog

    mine = PRESETS[id].scenario.with_(batch=2)
    others = [s for s in default_catalog().ids("systems") if s != mine.system and why_not(s, mine.workload) is None]
    for system in others[:2]:
        at = moved(mine, system)
        now = at.session_state["scenario"]
        wanted = glossary.differences(mine, now, None)
        for name in ("batch", "precision", "inputs", "outputs", "streams"):
            if getattr(mine, name) != getattr(now, name):
                assert any(row.startswith(name.removesuffix("s")) for row in wanted), name
        if (mine.scheme, mine.devices) != (now.scheme, now.devices):
            assert any(row.startswith("partition") for row in wanted)
        assert [all(row in said for row in wanted) for said in lines(at)] == ([True] if wanted else [])
