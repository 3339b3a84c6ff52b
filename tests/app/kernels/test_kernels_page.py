"""The Kernels page: it opens with a run, a run is shown with its numbers, a refusal is a sentence (AppTest)."""

import contextlib
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from streamlit.runtime.scriptrunner import StopException
from streamlit.testing.v1 import AppTest

from app.shared import host_runs
from app.shared.figures.roofline import Level
from app.shared.formats import digits3
from app.views.kernels import charts as kernel_charts
from app.views.kernels import fused
from engine.kernels.jit import JIT_ENABLED
from engine.lab.host.measure.fused import BLOCKS, FusedRun, Rates
from engine.lab.host.measure.run import KERNELS
from engine.lab.timing import Spread
from tests.app.pages import in_card
from tests.app.shared.test_plain_text import raw
from tests.app.valid import valid

VIEW = str(Path(__file__).parents[3] / "app" / "views" / "kernels" / "page.py")
MAIN = str(Path(__file__).parents[3] / "app" / "main.py")
pytestmark = pytest.mark.timeout(1800)  # the first run probes the host and compiles the kernel


def opened(*, runs: bool = False) -> AppTest:
    """The page; it runs nothing by itself unless that is what a test is about."""
    at = AppTest.from_file(MAIN, default_timeout=300).run()
    if not runs:
        at.session_state["kernels_seen"] = True
    at.switch_page(VIEW).run(timeout=800)
    assert not at.exception, [e.message for e in at.exception]
    return at


def test_a_run_that_was_cancelled_does_not_start_again_by_itself():
    host_runs.LAST.clear()
    at = opened()
    assert not at.metric
    assert at.info[0].value.startswith("Nothing is measured yet.")
    assert set(at.selectbox(key="w.kernel").options) == {entry.title for entry in KERNELS.values()}


def test_every_kernel_can_be_picked_with_its_own_shape():
    at = opened()
    for name, entry in KERNELS.items():
        at.selectbox(key="w.kernel").set_value(name).run()
        assert not at.exception, name
        assert [at.number_input(key=f"w.{name}-{label}").value for label in entry.labels] == list(entry.default)


def test_a_shape_beyond_the_share_of_a_reader_is_one_sentence():
    host_runs.LAST.clear()
    at = opened()
    if not JIT_ENABLED:
        pytest.skip("the probe needs compiled code")
    for label in "MKN":
        at.number_input(key=f"w.gemm-{label}").set_value(65536)
    at.button(key="k.run").click().run(timeout=800)
    assert not at.exception
    assert len(at.warning) == 1
    assert "0\\.5 GB" in at.warning[0].value
    assert not at.metric


@pytest.mark.skipif(not JIT_ENABLED, reason="the probe needs compiled code")
def test_a_run_shows_its_time_its_share_of_the_roofs_and_its_error():
    host_runs.LAST.clear()
    first = opened(runs=True)
    assert [m.label.split(" ")[0] for m in first.metric] == ["Time", "Achieved", "Of", "Error"], "never an empty frame"
    assert raw("kernels", first) == []
    at = opened()
    assert [m.value for m in at.metric] == [m.value for m in first.metric], "what this host measured last"
    for label in "MKN":
        at.number_input(key=f"w.gemm-{label}").set_value(256)
    at.button(key="k.run").click().run(timeout=800)
    assert not at.exception, [e.message for e in at.exception]
    assert not at.warning
    shown = at.session_state["kernel_shown"]
    assert shown.run.shape == (256, 256, 256)
    assert len(shown.run.time.samples) >= 3
    assert shown.estimate_s > 0
    (table,) = (frame.value for frame in at.dataframe if "In a call" in frame.value)
    assert table["Predicted"].iloc[0] == digits3(shown.estimated_counters["instructions_per_cycle"])
    assert any(shown.run.counts.reason in c.value for c in at.caption), "what was counted, or why nothing was"
    assert [m.label.split(" ")[0] for m in at.metric] == ["Time", "Achieved", "Of", "Error"]
    at.selectbox(key="w.kernel").set_value("softmax").run()
    assert any("are of another kernel" in c.value for c in at.caption)
    assert [m.value for m in opened().metric] == [m.value for m in at.metric]  # another reader sees the host's last run


def test_the_roofline_has_the_roofs_it_was_given():
    fig = valid(
        kernel_charts.host_roofline(
            1e11,
            "FP32 peak",
            [Level("L3", 2e10, False), Level("DRAM", 1e10, True)],
            50.0,
            {"measured": 8e10, "predicted": 9e10},
            dark=False,
        )
    )
    roofs = [trace for trace in fig.data if trace.mode == "lines"]
    assert len(roofs) == 2
    for trace, bandwidth in zip(roofs, (1e10, 2e10), strict=True):
        assert trace.x[1] == pytest.approx(1e11 / bandwidth)
        assert trace.y[1] == trace.y[2] == 1e11
        assert trace.y[0] == pytest.approx(trace.x[0] * bandwidth)
    points = [trace for trace in fig.data if trace.mode == "markers"]
    assert [(t.x[0], t.y[0]) for t in points] == [(50.0, 8e10), (50.0, 9e10)]
    assert points[0].marker.symbol == "circle"
    assert points[1].marker.symbol == "diamond-open"


def test_no_label_of_the_roofline_is_cut_whatever_was_measured_and_however_narrow_it_is():
    """They were laid out for 400 px: at a zoom of 200% a slow run's `numpy FP32` ran over the chart's edge."""
    draw, cut = np.random.default_rng(3), set()
    for _ in range(80):
        peak, l3, dram, intensity = (
            float(10 ** draw.uniform(*ends)) for ends in ((10, 12), (10, 11.5), (9, 11), (-1, 3))
        )
        spots = {name: float(peak * 10 ** draw.uniform(-3, 0)) for name in ("measured", "predicted", "numpy FP32")}
        levels = [Level("L3", l3, False), Level("DRAM", dram, True)]
        fig = valid(kernel_charts.host_roofline(peak, "FP32 peak", levels, intensity, spots, dark=False))
        low, high = fig.layout.xaxis.range
        for note in fig.layout.annotations:
            if note.text in spots:
                wide = 6.2 * len(note.text)
                left = (
                    240 * (note.x - low) / (high - low)
                    + note.xshift
                    - {"left": 0, "right": 1, "center": 0.5}[note.xanchor] * wide
                )
                cut |= {note.text} if left < 0 or left + wide > 240 else set()
    assert cut == set()


def test_nothing_runs_on_this_host_until_asked():
    at = opened()
    assert f"{len(BLOCKS)} blocks of four networks; none measured yet" in " ".join(m.value for m in at.markdown)
    assert at.button(key="k.fused").label == "Run on this host"
    assert in_card(at, "Depth-first execution on this host", "k.fused")


@pytest.mark.skipif(not JIT_ENABLED, reason="the probe needs compiled code")
def test_blocks_run_on_this_host_are_shown_beside_their_prediction(monkeypatch):
    monkeypatch.setattr(fused, "BLOCKS", {"resnet152-pool": BLOCKS["resnet152-pool"]})
    at = opened()
    at.button(key="k.fused").click().run(timeout=300)
    assert not at.exception, [e.message for e in at.exception]
    assert not at.warning
    frame = next(d.value for d in at.dataframe if "Gain, measured" in d.value)
    [run] = at.session_state["k.fused.outcomes"]
    assert list(frame["Gain, measured"]) == [run.gain]
    assert list(frame["Gain, predicted"]) == [run.predicted_gain]


@pytest.mark.parametrize("dark", [False, True])
def test_measured_gains_are_drawn_beside_the_predicted(dark):
    runs = [
        FusedRun("a", "A", Spread((2e-3,)), Spread((1e-3,)), Rates(1e-10, 1e-10), 3e-3, 2e-3),
        FusedRun("b", "B", Spread((1e-3,)), Spread((1e-3,)), Rates(1e-10, 1e-10), 4e-3, 1e-3),
    ]
    dots = [trace for trace in valid(kernel_charts.speedups(runs, dark)).data if trace.mode == "markers"]
    assert {(t.name, y): x for t in dots for x, y in zip(t.x, t.y)} == {
        ("measured", 0): 2.0,
        ("predicted", 0): 1.5,
        ("measured", 1): 1.0,
        ("predicted", 1): 4.0,
    }
    assert {t.marker.symbol for t in dots if t.name == "measured"} == {"circle"}


def _slow(seconds: float, progress) -> None:
    """A run that only takes time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and progress(0, 1) is not False:
        time.sleep(0.05)


def test_another_reader_s_page_answers_while_a_run_goes_on():
    """The queue and the process are the server's: another reader's page neither waits for them nor for each other."""
    left = threading.Event()

    def progress(share: float, text: str) -> None:
        if left.is_set():
            raise StopException

    def follow() -> None:
        with contextlib.suppress(StopException):
            host_runs.follow((_slow, 3600.0), SimpleNamespace(progress=progress), str)

    run = threading.Thread(target=follow)  # who waited for it would not answer in time
    run.start()
    try:
        opened()
        assert run.is_alive()
    finally:
        left.set()
        run.join(60)
