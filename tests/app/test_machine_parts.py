"""Inside a machine on Explore and its precisions in the catalog (AppTest: no browser), and their figures."""

from pathlib import Path

import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from app.shared.figures import machine as machine_charts
from app.shared.figures.machine import Bar, PeakOfPart
from engine.resolve.presets import PRESETS
from engine.scenario import encode

MAIN = Path(__file__).parents[2] / "app" / "main.py"
pytestmark = pytest.mark.timeout(300)  # the first run compiles the engine's kernels


def opened(preset: str) -> AppTest:
    at = AppTest.from_file(str(MAIN), default_timeout=240)
    at.query_params["s"] = encode(PRESETS[preset].scenario)
    at.session_state["open.inside"] = True
    at.run()
    assert not at.exception, [e.message for e in at.exception]
    return at


@pytest.mark.parametrize(
    ("preset", "words"),
    [
        ("dfx-1.5b", ("**Units**", "**Fabric**", "**Latency by tile**", "64 × 16", "16 of 16 tokens")),
        ("brainwave-gru", ("**Units**", "**Fabric**", "**Arithmetic**", "an exponent for 400 values")),
    ],
)
def test_explore_opens_the_machine(preset, words):
    text = " ".join(m.value for m in opened(preset).markdown)
    for word in words:
        assert word in text


def test_other_devices_have_nothing_inside():
    at = opened("v100-1.5b")
    assert not any("Inside the machine" in e.label for e in at.expander)


def test_the_catalog_shows_peak_against_precision():
    at = AppTest.from_file(str(MAIN), default_timeout=240)
    at.run()
    at.switch_page("views/catalog/page.py").run()
    at.selectbox(key="w.section").select("devices").run()
    at.text_input(key="find").set_value("arria-10-1150-brainwave").run()
    assert not at.exception, [e.message for e in at.exception]
    assert "**Peak against precision**" in " ".join(m.value for m in at.markdown)


@pytest.mark.parametrize("dark", [False, True])
def test_figures_are_valid_and_tell_parts_apart_without_colour(dark):
    parts = [
        PeakOfPart(name, [("int8", 1e12), ("ms-fp8", k * 1e13)], ("ms-fp8", 9e12)) for k, name in ((9, "A"), (4, "B"))
    ]
    fig = machine_charts.peaks(parts, dark)
    go.Figure(fig.to_dict())
    lines = [t for t in fig.data if t.mode.startswith("lines")]
    assert len({t.marker.symbol for t in lines}) == len({t.line.dash for t in lines}) == 2
    assert [t.text[-1] for t in lines] == ["A", "B"]
    rows = [Bar("DSP", 0.39, "3,523 of 9,024"), Bar("LUT", 0.4, "printed", weak=True)]
    fig = machine_charts.shares(rows, "Share of the part", dark)
    go.Figure(fig.to_dict())
    assert fig.data[2].marker.pattern.shape == "/"
    assert fig.data[1].marker.pattern.shape is None
    fig = machine_charts.waits([(1, 1e-3), (2, 2e-3)], 2, dark)
    go.Figure(fig.to_dict())
    assert list(fig.data[1].x) == [2, 2]
