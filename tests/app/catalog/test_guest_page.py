"""A user's own network on the pages: picked like any other, and shown in the Catalog with where it is from."""

from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.shared.formats import plain
from engine.resolve.choices import default_scenario
from engine.scenario import encode
from model_zoo import default_zoo
from tests.app.shared.test_pages import MAIN, alive
from tests.catalog.onnx_files import conv

CONFIGS = Path(__file__).parents[2] / "catalog" / "configs"
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


def catalog_page() -> AppTest:
    at = AppTest.from_file(str(MAIN), default_timeout=240)
    alive(at.run())
    return alive(at.switch_page("views/catalog/page.py").run())


def test_a_configuration_is_uploaded_and_travels_in_the_link() -> None:
    at = catalog_page()
    raw = (CONFIGS / "gpt-oss-20b.json").read_bytes()
    at.file_uploader(key="own.files").set_value([("config.json", raw, "application/json")]).run()
    alive(at)
    assert any("20.9 B parameters" in m.value for m in at.markdown)
    at.button(key="open.own").click().run()
    alive(at)
    scenario = at.session_state["scenario"]
    assert scenario.workload.startswith("net.")
    again = AppTest.from_file(str(MAIN), default_timeout=240)
    again.query_params["s"] = encode(scenario)
    alive(again.run())
    box = again.selectbox(key="w.workload")
    assert box.value == scenario.workload
    box.set_value("resnet50").run()
    assert alive(again).session_state["scenario"].workload == "resnet50"


@pytest.mark.parametrize(
    ("name", "raw", "said"),
    [
        ("config.json", b"{", "not readable as JSON"),
        ("config.json", b'{"model_type": "llama", "num_attention_heads": -3}', "is missing"),
        ("net.onnx", b"no", "net"),
    ],
)
def test_a_bad_upload_costs_one_sentence(
    name: str, raw: bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFERSCAPE_CATALOG", str(tmp_path))
    at = catalog_page()
    at.file_uploader(key="own.files").set_value([(name, raw, "application/json")]).run()
    alive(at)
    assert [said in e.value for e in at.error] == [True]
    assert not list(tmp_path.rglob("*.onnx"))


def test_an_onnx_file_is_kept_on_this_machine_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERSCAPE_CATALOG", str(tmp_path))
    default_zoo.cache_clear()
    try:
        at = catalog_page()
        at.file_uploader(key="own.files").set_value([("My Net.onnx", conv(), "application/octet-stream")]).run()
        alive(at)
        served = st.get_option("server.address")
        if served in ("localhost", "127.0.0.1", "::1"):
            assert (tmp_path / "workloads" / "my-net.onnx").is_file()
            at.button(key="open.own").click().run()
            assert alive(at).session_state["scenario"].workload == "my-net"
        else:
            assert ["stores no uploads" in e.value for e in at.error] == [True]
            assert not list(tmp_path.rglob("*.onnx"))
    finally:
        default_zoo.cache_clear()
