"""A small space, what a sweep of it finds and the page that shows it: what tests of the Sweep page share."""

from pathlib import Path
from types import SimpleNamespace

from streamlit.testing.v1 import AppTest

from app.shared import cached, jobs
from app.views.sweep import background, spaces
from app.views.sweep.axes import AxisRange
from app.views.sweep.outcome import Outcome
from app.views.sweep.spaces import PageSpace
from engine.resolve.presets import PRESETS
from engine.scenario import encode

MAIN = Path(__file__).parents[3] / "app" / "main.py"
HOME = PRESETS["dfx-1.5b"].scenario
GPU = PRESETS["v100-1.5b"].scenario
SMALL = PageSpace(
    (
        ("batch", (1, 2, 4, 8)),
        ("precision", ("fp32", "fp16")),
        ("devices.0.memory.hbm.bandwidth", AxisRange("450 GB/s", "1.8 TB/s", 5)),
    ),
    ("latency_per_unit_s", "throughput_per_s"),
)
BANDWIDTH = "devices.0.memory.hbm.bandwidth"
TIED = SMALL.with_axis(BANDWIDTH, AxisRange("1.8 TB/s", "450 GB/s", 4)).tie("batch", BANDWIDTH)
NAMES = ["latency_per_unit_s", "power_w", "throughput_per_s", "throughput_per_w"]


def followed(running: background.RunningSweep) -> list[float]:
    """The progress that is drawn of a sweep until it is over."""
    shares = []
    jobs.follow(running, SimpleNamespace(progress=lambda share, text: shares.append(share)))
    return shares


def outcome(scenario=GPU, space=SMALL) -> Outcome:
    """What a small sweep finds."""
    report = cached.report(encode(scenario))
    metrics = spaces.operating(space, scenario) if space.serving else spaces.metrics(report)
    running = background.RunningSweep(report, space, metrics, "key")
    shares = followed(running)
    assert shares == sorted(shares)
    assert running.outcome is not None
    return running.outcome


def opened(scenario=GPU, space=SMALL) -> AppTest:
    """The Sweep page after one run with these query parameters."""
    at = AppTest.from_file(str(MAIN), default_timeout=240)
    at.query_params["s"] = encode(scenario)
    at.run()
    if space is not None:
        at.query_params["x"] = space if isinstance(space, str) else spaces.write(space)
    return alive(at.switch_page("views/sweep/page.py").run())


def alive(at: AppTest) -> AppTest:
    assert not at.exception, [e.message for e in at.exception]
    return at


def asked(at: AppTest) -> PageSpace:
    """The space that the page asks for, whether its address is clean or not."""
    return at.session_state["kept.x"][0]


def said(at: AppTest) -> str:
    return " ".join(m.value for m in at.markdown)
