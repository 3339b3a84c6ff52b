"""The Sweep page: its space, what a run finds, and the page itself (AppTest: no browser)."""

import csv
import io
import sys
from concurrent.futures import Future
from dataclasses import replace
from itertools import pairwise
from math import prod
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.shared import cached, jobs, specs
from app.shared import formats as fmt
from app.shared.jobs import Job, Queue
from app.views.sweep import axes, background, front, objectives, questions, spaces, tables
from app.views.sweep.axes import AxisRange
from app.views.sweep.columns import settings_of
from app.views.sweep.spaces import PageSpace
from engine.evaluate import evaluate
from engine.resolve.presets import PRESETS
from engine.scenario import ScenarioError, decode, encode
from engine.scenario.fields import GROUPS
from engine.scenario.overrides import apply
from engine.sweep import FIGURES
from hardware_specs.quantity import SpecError
from tests.app.pages import key_of
from tests.app.valid import valid

MAIN = Path(__file__).parents[3] / "app" / "main.py"
HOME = PRESETS["dfx-1.5b"].scenario
GPU = PRESETS["v100-1.5b"].scenario


def at_once(ask):
    return ask()


SMALL = PageSpace(
    (
        ("batch", (1, 2, 4, 8)),
        ("precision", ("fp32", "fp16")),
        ("devices.0.memory.hbm.bandwidth", AxisRange("450 GB/s", "1.8 TB/s", 5)),
    ),
    ("latency_per_unit_s", "throughput_per_s"),
)
BANDWIDTH = "devices.0.memory.hbm.bandwidth"
TIED = SMALL.with_axis(BANDWIDTH, AxisRange("1.8 TB/s", "450 GB/s", 4)).tied("batch", BANDWIDTH)
pytestmark = pytest.mark.timeout(300)  # the first run compiles the engine's kernels
NAMES = ["latency_per_unit_s", "power_w", "throughput_per_s", "throughput_per_w"]


@pytest.mark.parametrize("id", PRESETS)
def test_the_first_space_of_every_preset_is_small_enough_and_every_value_is_allowed(id):
    scenario = PRESETS[id].scenario
    usual = axes.usual(scenario)
    assert 2 <= prod(map(axes.length, usual.values())) <= axes.DESIGNS
    for path, values in usual.items():
        listed = axes.values_of(values)
        assert len(listed) == len(set(listed))
        if path.startswith("tile."):
            continue  # one knob of a tile that is still free: a space sets all of them
        if path == "devices" and scenario.scheme == "single":
            continue
        for value in (listed[0], listed[-1]):
            assert apply(scenario, path, value) is not None


@pytest.mark.parametrize("id", PRESETS)
def test_a_space_that_changes_hardware_has_no_goal_of_money_and_keeps_a_front(id):
    scenario = PRESETS[id].scenario
    names = list(objectives.metrics(evaluate(scenario)))
    row = next(r for r in specs.overridable(scenario) if r.path.startswith("devices.0.memory") and r.si > 0)
    plain = PageSpace((("batch", (1, 2)),), ("latency_per_unit_s", "throughput_per_s", "capex_usd"))
    assert ("capex_usd" in spaces.fitting(plain, scenario, names)[0].objectives) == ("capex_usd" in names)
    bent = plain.with_axis(row.path, AxisRange(row.printed, row.printed, 1))
    found, lost = spaces.fitting(bent, scenario, names)
    assert not lost
    assert found.objectives == ("latency_per_unit_s", "throughput_per_s")
    assert not [o for o in spaces.usual(scenario, names).objectives if "usd" in o] or not [
        path for path in axes.usual(scenario) if path.startswith(("devices.0", "links"))
    ]


@pytest.mark.parametrize("id", PRESETS)
def test_a_first_space_opens_on_a_real_trade_off(id):
    """Without a batch along an axis, a rate follows from a latency: one of them is no objective beside the other."""
    scenario = PRESETS[id].scenario
    names = list(objectives.metrics(evaluate(scenario)))
    space = axes.usual(scenario)
    drawn = set(spaces.usual(scenario, names).objectives[:2])
    known = objectives.priced(names, scenario, space)
    assert drawn != {"latency_per_unit_s", "throughput_per_s"} or "batch" in space or "throughput_per_w" not in known


def test_a_range_has_its_ends_exactly_and_even_steps():
    log = axes.values_of(AxisRange("115 GB/s", "1.84 TB/s", 5))
    assert (log[0], log[-1]) == (115e9, 1.84e12)
    assert [b / a for a, b in pairwise(log)] == pytest.approx([2.0] * 4)
    linear = axes.values_of(AxisRange("1", "5", 5, log=False))
    assert linear == (1.0, 2.0, 3.0, 4.0, 5.0)
    with pytest.raises(SpecError, match="parsecs"):
        axes.values_of(AxisRange("1 parsecs", "2 parsecs", 2))


def test_a_space_survives_its_token_and_damage_is_one_sentence():
    space = spaces.usual(HOME, NAMES)
    token = spaces.write(space)
    assert spaces.read(token) == space
    assert len(token) < 800
    broken = [
        token[:20] + ("A" if token[20] != "A" else "B") + token[21:],
        "hello",
        "9z",
        "1z",
        "1zé",
        "1z" + "A" * 5000,
    ]
    for bad in broken:
        with pytest.raises(ScenarioError):
            spaces.read(bad)


def test_a_space_keeps_only_what_exists_beside_a_scenario():
    rnn = PRESETS["brainwave-gru"].scenario
    found, lost = spaces.fitting(spaces.usual(HOME, NAMES), rnn, NAMES)
    assert lost == ["precision", "tile.0", "tile.1", "devices.0.memory.hbm.bandwidth", "devices.0.dfx.clock"]
    assert dict(found.axes)["devices"] == (1, 2, 4, 8)
    odd = PageSpace((("batch", (1, 3, 64)), ("switches.__class__", (True,))), ("throughput_per_s",))
    found, lost = spaces.fitting(odd, HOME, NAMES)
    assert found.axes == (("batch", (1, 64)),)
    assert found.objectives == ("latency_per_unit_s", "throughput_per_s")
    assert lost == ["switches.__class__"]


def outcome(scenario=GPU, space=SMALL) -> background.Outcome:
    """What a small sweep finds."""
    report = cached.report(encode(scenario))
    metrics = objectives.OPERATING if space.serving else objectives.metrics(report)
    running = background.RunningSweep(report, space, metrics, "key")
    shares = list(running)
    assert shares == sorted(shares)
    assert running.outcome is not None
    return running.outcome


def test_what_one_reader_has_swept_another_has_at_once(monkeypatch):
    """A page opened again, in another session too, swept everything again: 8 s of a core for the appliance's space."""
    report = cached.report(encode(GPU.with_(batch=2)))
    metrics = objectives.metrics(report)
    first = background.RunningSweep(report, SMALL, metrics, "first")
    assert first.outcome is None
    list(first)
    assert background.RunningSweep(report, SMALL, metrics, "first").settled() is first.outcome
    assert background.RunningSweep(report, SMALL.without("precision"), metrics, "first").outcome is None
    stopped = background.RunningSweep(report, SMALL, metrics, "stopped")
    monkeypatch.setattr(stopped, "over", lambda: True)
    list(stopped)
    assert background.RunningSweep(report, SMALL, metrics, "stopped").outcome is None


def test_an_axis_on_which_the_front_is_one_takes_no_column_but_a_word():
    found = outcome()
    front = [one for one in found.front if found.space.values(one.number)["precision"] == "fp16"]
    one = [path for path, values in tables._settings(found, front) if len(set(values)) == 1]
    frame = tables.frame(found, front)
    assert frame.shape == (len(front), 2 + len(SMALL.axes) - len(one))
    said = tables.alike(found, front)
    assert [path for path in dict(SMALL.axes) if found.candidates[path].label in said] == one
    assert "precision" in one
    assert tables.alike(found, front[:1]) == ""


@pytest.mark.parametrize(("space", "size"), [(SMALL, 40), (TIED, 8)])
def test_what_is_on_the_front_is_what_evaluation_finds(space, size):
    found = outcome(space=space)
    assert found.result.counts.done == found.space.size == space.size == size
    assert not found.stopped
    assert found.front
    for design in found.front:
        report = cached.report(encode(found.space.scenario(design.number)))
        for name in found.objectives:
            assert getattr(report, name) == design.figures[name]
    rows = [FIGURES.index(name) for name in found.objectives]
    for x, y in found.cloud_figures[rows].T:
        assert any(d.figures["latency_per_unit_s"] <= x and d.figures["throughput_per_s"] >= y for d in found.front)
    assert found.knee in found.front
    assert found.front[0].number in found.cloud_numbers
    assert found.design(found.front[0].number) is found.front[0]
    assert found.design(-1) is None


@pytest.mark.parametrize("space", [SMALL, TIED])
def test_the_charts_have_every_design_with_all_that_it_may_be_coloured_by(space):
    found = outcome(space=space)
    designs = found.designs
    numbers, columns = designs.numbers, designs.columns
    assert numbers.tolist()[-len(found.drawn_numbers) :] == found.drawn_numbers.tolist()
    assert len(set(numbers.tolist())) == len(numbers) <= found.space.size
    names = [column.name for column in columns]
    assert names[:2] == list(found.objectives)
    assert {path for path, _ in space.axes} < set(names)
    for i in (0, len(numbers) // 2, len(numbers) - 1):
        report = cached.report(encode(found.space.scenario(int(numbers[i]))))
        settings = settings_of(found.space, int(numbers[i]))
        for column in columns:
            if column.name not in settings:
                assert getattr(report, column.name) == column.values[i]
            elif column.names:
                assert column.text(column.values[i]) == found.candidates[column.name].shown(settings[column.name])
            else:
                assert column.values[i] == settings[column.name]


@pytest.mark.parametrize("dark", [False, True])
def test_a_box_in_either_chart_keeps_designs_in_both_and_counts_all_of_them(dark):
    found = outcome()
    designs = found.designs
    x = designs.columns[0]
    middle = float(np.median(x.place(x.values)))
    box = {"selection": {"points": [], "box": [{"x": [1.1, middle], "y": [-0.1, 1.1]}]}}
    ranges = front.boxed(box, designs.columns, along=False)
    inside = designs.within(ranges)
    assert (inside == (x.values >= np.median(x.values) * (1 - 1e-9))).all()
    assert 0 < inside.sum() < len(inside)
    shown = designs.upright()
    last = shown[-1]
    upright = {"selection": {"points": [], "box": [{"x": [len(shown) - 1.3, len(shown) - 0.8], "y": [0.4, 1.2]}]}}
    along = front.boxed(upright, shown, along=True)
    assert along == {last.name: (0.4, 1.2)}
    both = designs.within(ranges | along)
    assert (both == (inside & (last.place(last.values) >= 0.4 - 1e-9))).all()
    limits = {x.name: float(np.median(x.values))}
    fig = valid(front.chart(designs, ranges | along, last.name, int(designs.numbers[-1]), found, limits, dark, 500))
    dots = [t for t in fig.data if t.customdata is not None]
    assert {n for t in dots if t.marker.opacity > 0.5 for n in t.customdata} == set(designs.numbers[both].tolist())
    assert sum(len(t.x) for t in dots) == len(designs.numbers)
    lines = valid(front.upright(designs, ranges, int(designs.numbers[-1]), dark))
    kept = set(lines.data[1].customdata)
    assert kept == set(designs.numbers[-designs.front :][inside[-designs.front :]].tolist())
    assert front.clicked({"selection": {"points": [{"customdata": 5}], "box": []}}) == 5
    assert front.clicked(box) is None


def test_axes_that_are_tied_are_set_side_by_side_and_a_link_keeps_them():
    assert spaces.read(spaces.write(TIED)) == TIED
    assert TIED.without("batch").ties == TIED.tied("batch", None).ties == ()
    three = TIED.tied("precision", "batch")
    assert three.groups == ((BANDWIDTH, "batch", "precision"),)
    assert three.tied("batch", None).groups == (("batch",), (BANDWIDTH, "precision"))
    metrics = objectives.metrics(evaluate(GPU))
    designs = background.designs_of(GPU, TIED, metrics)
    pairs = list(zip((1, 2, 4, 8), axes.values_of(dict(TIED.axes)[BANDWIDTH]), strict=True))
    for number in range(designs.size):
        settings = settings_of(designs, number)
        assert (settings["batch"], settings[BANDWIDTH]) in pairs
        assert designs.scenario(number) == apply(
            apply(apply(GPU, BANDWIDTH, settings[BANDWIDTH]), "batch", settings["batch"]),
            "precision",
            settings["precision"],
        )
    with pytest.raises(ScenarioError, match="equally many values: HBM bandwidth has 4, Batch has 4, Precision has 2"):
        background.designs_of(GPU, three, metrics)
    for ties in [["batch"]], [["batch", "tile.0"]], [["batch", "precision"], ["batch", BANDWIDTH]]:
        with pytest.raises(ScenarioError, match="ties an axis"):
            spaces.read(spaces.write(replace(SMALL, ties=ties)))
    limited = GPU.with_(limits={"latency_s": cached.report(encode(GPU)).latency_s * 0.95})
    change, settings = questions.smallest_change(cached.report(encode(limited)), TIED, metrics, at_once)
    assert change.met == (not cached.report(encode(change.scenario)).problems)
    assert {"Batch", "HBM bandwidth"} >= {name for name, *_ in settings} - {"Precision"}


@pytest.mark.parametrize("space", [SMALL, TIED])
def test_the_exported_front_reopens_to_its_numbers(space):
    found = outcome(space=space)
    rows = list(csv.DictReader(io.StringIO(fmt.csv_text(tables.rows(found)))))
    assert len(rows) == len(found.front)
    for row, design in zip(rows, found.front):
        assert {path for path, _ in space.axes} <= set(row)
        report = cached.report(encode(decode(row["token"])))
        assert float(row["latency_per_unit_s"]) == report.latency_per_unit_s == design.figures["latency_per_unit_s"]
        assert row["engine_version"]


def test_leaving_a_running_sweep_stops_it_and_keeps_what_is_done(monkeypatch):
    monkeypatch.setattr(background, "_LAST_CHUNKS_S", 60)  # of a server whose cores others have
    report = cached.report(encode(GPU))
    metrics = objectives.metrics(report)
    wide = PageSpace(
        (
            *SMALL.axes,
            ("links.peer.bandwidth", AxisRange("1 GB/s", "1 TB/s", 256)),
            ("links.peer.latency", AxisRange("1 us", "4 us", 256)),
        ),
        SMALL.objectives,
    )
    running = background.RunningSweep(report, wide, metrics, "key")
    for share in running:
        if share > 0:
            break
    found = running.settled()
    assert found is not None
    assert found.stopped
    assert 0 < found.result.counts.done < running.size
    assert found.front


def test_no_design_inside_the_limits_names_the_closest_and_what_binds():
    found = outcome(GPU.with_(limits={"latency_s": 1e-3}))
    assert not found.front
    text = tables.unmet(found)
    assert "Closest" in text
    assert "binding limit is latency" in text


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


def test_the_page_opens_with_what_its_usual_axes_give():
    at = opened(space=None)
    assert " designs in " in said(at)
    assert not any("out of date" in c.value for c in at.caption)


def test_a_link_runs_what_its_sender_saw():
    many = SMALL.with_axis("devices.0.power.max", AxisRange("50 W", "500 W", 4096)).with_axis("streams", (1, 2, 4))
    many = many.with_axis("links.peer.bandwidth", AxisRange("1 GB/s", "100 GB/s", 4096))
    assert prod(map(axes.length, dict(many.axes).values())) > axes.DESIGNS
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


def test_a_tornado_is_sorted_and_its_signs_are_physical():
    report = cached.report(encode(GPU))
    rows = questions.swings(GPU, objectives.metrics(report)["latency_per_unit_s"], at_once)
    widths = [max(abs(down), abs(up)) for _, down, up in rows]
    assert widths == sorted(widths, reverse=True)
    overhead = next(r for r in rows if "launches" in r[0].lower())
    assert overhead[1] < 0 < overhead[2]  # less of an overhead is faster, more is slower


def test_the_smallest_change_meets_the_limit_and_nothing_smaller_does():
    limited = GPU.with_(limits={"latency_s": cached.report(encode(GPU)).latency_s * 0.95})
    report = cached.report(encode(limited))
    assert report.problems
    metrics = objectives.metrics(report)
    change, _ = questions.smallest_change(report, SMALL, metrics, at_once)
    assert change.met == (not cached.report(encode(change.scenario)).problems)
    devices = PageSpace(
        (("devices", (1, 2, 4)), ("scheme", ("single", "tensor")), ("precision", ("fp32", "fp16"))), SMALL.objectives
    )
    change, settings = questions.smallest_change(report, devices, metrics, at_once)
    assert change.met
    assert 1 <= len(settings) <= 3
    assert not cached.report(encode(change.scenario)).problems
    wide = SMALL.with_axis("links.peer.bandwidth", AxisRange("1 GB/s", "1 TB/s", 4000))
    wide = wide.with_axis("devices.0.power.max", AxisRange("100 W", "400 W", 4000))
    with pytest.raises(ScenarioError, match="fewer steps"):
        questions.smallest_change(report, wide, metrics, at_once)


def test_a_space_too_large_to_try_whole_is_searched(monkeypatch):
    monkeypatch.setattr(axes, "EVALUATIONS", 150)
    wide = SMALL
    for path, low, high in (
        ("links.peer.bandwidth", "1 GB/s", "1 TB/s"),
        ("devices.0.power.max", "100 W", "400 W"),
        ("devices.0.peak.fp16", "60 TFLOP/s", "250 TFLOP/s"),
    ):
        wide = wide.with_axis(path, AxisRange(low, high, 4096))
    assert prod(map(axes.length, dict(wide.axes).values())) > 10**12
    at = opened(space=wide)
    assert at.button(key="x.run").label.startswith("Search ")
    assert at.toggle(key="v.sweep.search").disabled
    alive(at.button(key="x.run").click().run())
    assert "searched" in said(at)
    found = at.session_state["sweep_run"].outcome
    assert found.result.counts.done == 150
    assert not found.stopped
    design = found.front[0]
    report = cached.report(encode(found.space.scenario(design.number)))
    assert [getattr(report, name) for name in found.objectives] == [design.figures[name] for name in found.objectives]


def test_a_search_without_its_package_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "pymoo"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pymoo", None)
    report = cached.report(encode(GPU))
    many = SMALL.with_axis("links.peer.bandwidth", AxisRange("1 GB/s", "1 TB/s", 4096))
    running = background.RunningSweep(report, many, objectives.metrics(report), "key", searched=True)
    with pytest.raises(ScenarioError, match="pip install pymoo"):
        list(running)


def test_systems_and_networks_are_axes_and_a_tile_stands_beside_a_system_without_one():
    candidates = axes.candidates(HOME)
    assert candidates["system"].options[0] == HOME.system
    assert {"v100-appliance", "h100-sxm"} < set(candidates["system"].options)
    assert "agilio-cx" not in candidates["system"].options
    assert set(candidates["workload"].options) >= {"gpt2-1.5b", "gpt2-345m"}
    assert "resnet50" not in candidates["workload"].options
    space = PageSpace((("system", ("dfx-u280", "h100-sxm")), ("tile.0", (16, 64)), ("batch", (1, 2))), SMALL.objectives)
    swept = outcome(HOME, space)
    assert swept.result.counts.skipped == 2
    assert {swept.space.scenario(d.number).system for d in swept.front} <= {"dfx-u280", "h100-sxm"}
    assert tables.frame(swept, swept.front).shape[0] == len(swept.front)


def test_every_field_has_a_group_among_the_axes_of_the_page():
    assert set(GROUPS) <= set(axes._GROUP)


def test_what_takes_no_power_in_the_model_wins_no_front_of_power():
    """A GPU's power is the catalog's whatever its bandwidth; a core of DFX draws by its clock and its memory."""
    wide = {"devices.0.memory.hbm.bandwidth": AxisRange("450 GB/s", "1.8 TB/s", 4)}
    for scenario, free in ((GPU, list(wide)), (HOME, [])):
        names = list(objectives.metrics(evaluate(scenario)))
        known = objectives.priced(names, scenario, wide)
        assert ("throughput_per_w" in known) == ("power_w" in known) == (not free)
        assert "throughput_per_w" in objectives.priced(names, scenario, {"batch": (1, 2)})
    known = objectives.priced(names, GPU, {**wide, "devices.0.power.max": ("300 W", "400 W")})
    assert "throughput_per_w" in known  # its power is said
