"""A user's own network on the pages: picked like any other, and shown in the Catalog with where it is from."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.shared.formats import plain
from engine.resolve.choices import default_scenario
from engine.scenario import encode
from model_zoo import default_zoo
from tests.app.test_pages import MAIN, alive
from tests.catalog.onnx_files import conv

pytestmark = pytest.mark.timeout(300)  # the first run compiles the engine's kernels


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A scenario of a network of the user's, whose folder holds a broken one too."""
    folder = tmp_path / "workloads"
    folder.mkdir()
    (folder / "my-net.onnx").write_bytes(conv())
    (folder / "broken.onnx").write_bytes(b"no")
    monkeypatch.setenv("INFERSCAPE_CATALOG", str(tmp_path))
    default_zoo.cache_clear()
    yield encode(default_scenario("a100-sxm-80gb", "my-net"))
    default_zoo.cache_clear()


def test_it_is_picked_and_shown_like_any_other(token: str) -> None:
    at = AppTest.from_file(str(MAIN), default_timeout=240)
    at.query_params["s"] = token
    alive(at.run())
    box = at.selectbox(key="w.workload")
    assert box.value == "my-net"
    assert "my-net" in box.options
    box.set_value("resnet50").run()
    alive(at).selectbox(key="w.workload").set_value("my-net").run()
    assert alive(at).session_state["scenario"].workload == "my-net"

    at.switch_page("views/catalog/page.py").run()
    at.selectbox(key="w.section").set_value("workloads").run()
    at.text_input(key="find").set_value("my-net").run()
    alive(at)
    assert any(m.value.startswith(f"**{plain('my-net')}**") for m in at.markdown)
    assert any("read from `my-net.onnx`" in c.value for c in at.caption)
    assert [plain("broken.onnx") in w.value for w in at.warning] == [True]
    at.button(key="open.entry").click().run()
    alive(at)


def test_every_page_opens_on_it(token: str) -> None:
    at = AppTest.from_file(str(MAIN), default_timeout=240)
    at.query_params["s"] = token
    alive(at.run())
    for name in ("sweep", "compare", "traffic", "node", "split"):
        alive(at.switch_page(f"views/{name}/page.py").run())
