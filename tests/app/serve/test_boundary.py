"""Whatever escapes a page, a part of it or a callback is one sentence and a way back, never a dead page."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.main import PAGES
from app.shared import link, parts
from engine.resolve.presets import PRESETS
from engine.scenario import encode
from tests.effort import EFFORT

APP = Path(__file__).parents[3] / "app"
HOME = encode(PRESETS["dfx-1.5b"].scenario)
OTHER = encode(PRESETS["node-dlrm"].scenario)
pytestmark = pytest.mark.timeout(300)


def opened(page: str = "explore", token: str = OTHER) -> AppTest:
    at = AppTest.from_file(str(APP / "main.py"), default_timeout=240)
    at.query_params["s"] = token
    at.run()
    return at if page == "explore" else at.switch_page(str(APP / "views" / page / "page.py")).run()


def falls(*_args: object, **_more: object) -> None:
    raise KeyError("![x](http://evil.example/x.png)\n/secret/place")


def fell(at: AppTest) -> list[str]:
    """The sentences of the boundary; nothing else may have escaped."""
    assert not at.exception, [e.message for e in at.exception]
    return [e.value for e in at.error]


@pytest.mark.parametrize("page", PAGES if EFFORT >= 5 else ("explore", "published"))  # all stand within one boundary
def test_a_page_that_fails_is_one_sentence_and_the_way_back(page, monkeypatch):
    monkeypatch.setattr(parts, "footer", falls)
    at = opened(page)
    (said,) = fell(at)
    assert "KeyError" in said
    assert "evil" not in said
    assert "secret" not in said
    monkeypatch.undo()
    at.button(key="fallen.page").click().run()
    assert fell(at) == []
    assert at.session_state["token"] == HOME


def test_what_fails_before_any_page_is_known_is_said_too(monkeypatch):
    monkeypatch.setattr(link, "sync", falls)
    assert ["KeyError" in said for said in fell(opened())] == [True]


def test_a_callback_that_fails_leaves_the_scenario_and_the_page(monkeypatch):
    at = opened(token=HOME)
    monkeypatch.setattr(link, "read", falls)
    at.select_slider(key="w.devices").set_value(2).run()
    (said,) = fell(at)
    assert said.startswith("That change was not made")
    assert at.session_state["token"] == HOME
    assert len(at.metric) == 6
    monkeypatch.undo()
    assert fell(at.run()) == []


def test_a_part_that_reruns_alone_leaves_the_rest_of_the_page(monkeypatch):
    from app.shared import report_tables

    monkeypatch.setattr(report_tables, "operators", falls)
    at = opened(token=HOME)
    (said,) = fell(at)
    assert said.startswith("This part")
    assert len(at.metric) == 6
