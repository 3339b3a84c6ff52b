"""The Sweep page itself: what it asks for, shows and says (AppTest: no browser)."""

from concurrent.futures import Future
from math import prod

import pytest

from app.shared import cached, jobs
from app.shared.jobs import Job, Queue
from app.views.sweep import axes, spaces
from app.views.sweep.axes import AxisRange
from engine.resolve.presets import PRESETS
from engine.scenario import encode
from tests.app.pages import key_of
from tests.app.sweep.small import GPU, HOME, SMALL, alive, asked, opened, said

pytestmark = pytest.mark.timeout(300)  # the first run compiles the engine's kernels


def test_the_page_opens_with_what_its_usual_axes_give():
    at = opened(space=None)
    assert " designs in " in said(at)
    assert not any("out of date" in c.value for c in at.caption)


def test_a_link_runs_what_its_sender_saw():
    many = SMALL.with_axis("devices.0.power.max", AxisRange("50 W", "500 W", 4096)).with_axis("streams", (1, 2, 4))
    many = many.with_axis("links.peer.bandwidth", AxisRange("1 GB/s", "100 GB/s", 4096))
    assert prod(map(len, dict(many.axes).values())) > axes.DESIGNS
    assert "designs are ready" in said(opened(space=many))  # more than anybody waits for is offered only
    at = opened()
    assert "**40 designs in " in said(at)
    assert "on the front" in said(at)
    running = at.session_state["sweep_run"]
    table = at.dataframe[-1].value
    assert len(table) == len(running.outcome.front)
    picked = running.outcome.front[-1]
    at.session_state["sweep_design"] = picked.number
    alive(at.run())
    at.button(key="sweep.open").click().run()
    assert alive(at).session_state["scenario"] == running.outcome.space.scenario(picked.number)


def test_axes_constraints_and_objectives_react():
    at = opened()
    at.multiselect(key=key_of(at, "x.batch")).set_value([1, 4]).run()
    assert dict(asked(alive(at)).axes)["batch"] == (1, 4)
    shown = at.query_params["x"]
    assert spaces.read(shown[0] if isinstance(shown, list) else shown) == asked(at)
    at.text_input(key=key_of(at, "x.devices.0.memory.hbm.bandwidth.high")).set_value("2 parsecs").run()
    assert "Nothing was changed" in alive(at).warning[0].value
    at.selectbox(key=key_of(at, "x.add")).set_value("links.peer.bandwidth").run()
    assert "links.peer.bandwidth" in dict(asked(alive(at)).axes)
    at.button(key="x.remove.links.peer.bandwidth").click().run()
    assert "links.peer.bandwidth" not in dict(asked(alive(at)).axes)
    at.number_input(key=key_of(at, "x.limits.power_w")).set_value(500.0).run()
    assert alive(at).session_state["scenario"].limits.power_w == 500.0
    at.selectbox(key=key_of(at, "x.objective.2")).set_value("tpot_s").run()
    assert asked(alive(at)).objectives[2] == "tpot_s"
    at.selectbox(key=key_of(at, "x.tie.batch")).set_value("precision").run()
    assert asked(alive(at)).groups[0] == ("precision", "batch")
    assert at.button(key="x.run").label == "Run 10 designs"
    alive(at.button(key="x.run").click().run())
    assert "**10 designs in " in said(at)


def test_other_objectives_need_no_click_and_another_limit_does():
    at = opened()
    at.selectbox(key=key_of(at, "x.objective.2")).set_value("tpot_s").run()
    assert asked(alive(at)).objectives[2] == "tpot_s"
    assert at.session_state["sweep_run"].outcome.objectives == asked(at).objectives
    assert not any("out of date" in c.value for c in at.caption)
    at.number_input(key=key_of(at, "x.limits.power_w")).set_value(500.0).run()
    assert any("out of date" in c.value for c in alive(at).caption)


def test_what_takes_as_long_as_a_sweep_is_asked_in_its_turn_and_once(monkeypatch):
    """The tornado and the smallest change: under the sweep's own rules, and not again with every click."""
    came: list[object] = []

    class Counting(Queue):
        def submit(self, job: Job) -> Future:
            came.append(type(job).__name__)
            return super().submit(job)

    monkeypatch.setattr(jobs, "SWEEPS", Counting("sweep"))
    at = opened(GPU.with_(limits={"latency_s": 10.0}))
    at.session_state["open.moves"] = at.session_state["open.change"] = True
    alive(at.run().run())
    assert came == ["RunningSweep", "Job"]
    at.button(key="sweep.change").click().run()
    assert "Nothing has to change" in said(alive(at))
    assert came == ["RunningSweep", "Job", "Job"]


def test_former_results_say_so():
    at = opened()
    alive(at.button(key="x.run").click().run())
    at.multiselect(key=key_of(at, "x.batch")).set_value([1]).run()
    assert any("Inputs changed. Run again" in c.value for c in alive(at).caption)


@pytest.mark.parametrize("bad", ["hello", "9z", "1zAAAA", "1z" + "A" * 5000, "é"])
def test_a_bad_space_gives_one_sentence_and_the_usual_axes(bad):
    at = opened(space=bad)
    assert len(at.warning) == 1
    assert "Showing the usual axes" in at.warning[0].value.replace("\\", "")
    assert "designs are ready" in said(at)


def test_a_space_of_another_system_keeps_what_exists_here():
    at = opened(PRESETS["brainwave-gru"].scenario)
    assert "Left out of this space" in at.warning[0].value
    assert "batch" in asked(at).with_axis("batch", (1,)).axes[0]


def test_a_pair_that_cannot_run_says_why():
    at = opened(HOME.with_(system="agilio-cx", scheme="single", devices=1), None)
    assert len(at.info) == 1
    assert not at.sidebar.button


def test_a_space_too_large_to_try_whole_is_searched(monkeypatch):
    monkeypatch.setattr(axes, "EVALUATIONS", 150)
    wide = SMALL
    for path, low, high in (
        ("links.peer.bandwidth", "1 GB/s", "1 TB/s"),
        ("devices.0.power.max", "100 W", "400 W"),
        ("devices.0.peak.fp16", "60 TFLOP/s", "250 TFLOP/s"),
    ):
        wide = wide.with_axis(path, AxisRange(low, high, 4096))
    assert prod(map(len, dict(wide.axes).values())) > 10**12
    at = opened(space=wide)
    assert at.button(key="x.run").label.startswith("Search ")
    assert at.toggle(key="v.sweep.search").disabled
    alive(at.button(key="x.run").click().run())
    assert "searched" in said(at)
    found = at.session_state["sweep_run"].outcome
    assert found.result.counts.done == 150
    assert not found.partial
    design = found.front[0]
    report = cached.report(encode(found.space.scenario(design.number)))
    assert [getattr(report, name) for name in found.objectives] == [design.figures[name] for name in found.objectives]


def test_what_the_front_is_coloured_by_outlives_a_look_at_another_page():
    at = opened()
    at.selectbox(key="sweep.colour").set_value("batch").run()
    at.switch_page("views/machine/page.py").run()
    at.switch_page("views/sweep/page.py").run()
    assert alive(at).selectbox(key="sweep.colour").value == "batch"
