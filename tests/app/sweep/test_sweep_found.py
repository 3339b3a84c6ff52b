"""What a sweep finds, as the Sweep page has it: fronts, charts, exports, a tornado, the smallest change."""

import csv
import io
import sys
from dataclasses import replace

import numpy as np
import pytest

from app.shared import cached
from app.shared import formats as fmt
from app.views.sweep import axes, background, below_front, front, spaces, tables
from app.views.sweep.axes import AxisRange
from app.views.sweep.columns import settings_of
from app.views.sweep.spaces import PageSpace
from engine.evaluate import evaluate
from engine.scenario import ScenarioError, decode, encode
from engine.scenario.overrides import apply
from engine.sweep import FIGURES
from tests.app.sweep.small import BANDWIDTH, GPU, HOME, SMALL, TIED, followed, outcome
from tests.app.valid import valid

pytestmark = pytest.mark.timeout(300)  # the first run compiles the engine's kernels


def at_once(ask):
    return ask()


def test_what_one_reader_has_swept_another_has_at_once(monkeypatch):
    """A page opened again, in another session too, swept everything again: 8 s of a core for the appliance's space."""
    report = cached.report(encode(GPU.with_(batch=2)))
    metrics = spaces.metrics(report)
    first = background.RunningSweep(report, SMALL, metrics, "first")
    assert first.outcome is None
    followed(first)
    assert background.RunningSweep(report, SMALL, metrics, "first").finish() is first.outcome
    assert background.RunningSweep(report, SMALL.without("precision"), metrics, "first").outcome is None
    stopped = background.RunningSweep(report, SMALL, metrics, "stopped")
    monkeypatch.setattr(stopped, "over", lambda: True)
    followed(stopped)
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
    assert not found.partial
    assert found.front
    for design in found.front:
        report = cached.report(encode(found.space.scenario(design.number)))
        for name in found.objectives:
            assert getattr(report, name) == design.figures[name]
    rows = [FIGURES.index(name) for name in found.objectives]
    ends = [(d.figures["latency_per_unit_s"], d.figures["throughput_per_s"]) for d in found.front]
    for x, y in found.cloud_figures[rows].T.astype(np.float32):  # what rounding alone parts is equal
        assert any(latency <= x and rate >= y for latency, rate in np.float32(ends))
    assert found.knee in found.front
    assert found.front[0].number in found.cloud_numbers
    assert found.design(found.front[0].number) is found.front[0]
    assert found.design(-1) is None


@pytest.mark.parametrize("space", [SMALL, TIED])
def test_the_charts_have_every_design_with_all_that_it_may_be_coloured_by(space):
    found = outcome(space=space)
    designs = found.designs
    numbers, columns = designs.numbers, designs.columns
    assert numbers.tolist()[-len(found.front_numbers) :] == found.front_numbers.tolist()
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
                assert column.text(column.values[i]) == found.candidates[column.name].text(settings[column.name])
            else:
                assert column.values[i] == settings[column.name]


@pytest.mark.parametrize("dark", [False, True])
def test_a_box_in_either_chart_keeps_designs_in_both_and_counts_all_of_them(dark):
    found = outcome()
    designs = found.designs
    x = designs.columns[0]
    middle = float(np.median(x.place(x.values)))
    box = {"selection": {"points": [], "box": [{"x": [1.1, middle], "y": [-0.1, 1.1]}]}}
    ranges = front.box_ranges(box, designs.columns, along=False)
    inside = designs.within(ranges)
    assert (inside == (x.values >= np.median(x.values) * (1 - 1e-9))).all()
    assert 0 < inside.sum() < len(inside)
    shown = designs.upright()
    last = shown[-1]
    upright = {"selection": {"points": [], "box": [{"x": [len(shown) - 1.3, len(shown) - 0.8], "y": [0.4, 1.2]}]}}
    along = front.box_ranges(upright, shown, along=True)
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
    assert front.design_number({"selection": {"points": [{"customdata": 5}], "box": []}}) == 5
    assert front.design_number(box) is None


def test_axes_that_are_tied_are_set_side_by_side_and_a_link_keeps_them():
    assert spaces.read(spaces.write(TIED)) == TIED
    assert TIED.without("batch").ties == TIED.tie("batch", None).ties == ()
    three = TIED.tie("precision", "batch")
    assert three.groups == ((BANDWIDTH, "batch", "precision"),)
    assert three.tie("batch", None).groups == (("batch",), (BANDWIDTH, "precision"))
    metrics = spaces.metrics(evaluate(GPU))
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
    change, settings = below_front.smallest_change(cached.report(encode(limited)), TIED, metrics, at_once)
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
    metrics = spaces.metrics(report)
    wide = PageSpace(
        (
            *SMALL.axes,
            ("links.peer.bandwidth", AxisRange("1 GB/s", "1 TB/s", 256)),
            ("links.peer.latency", AxisRange("1 us", "4 us", 256)),
        ),
        SMALL.objectives,
    )
    running = background.RunningSweep(report, wide, metrics, "key")
    running.submit()
    while running.share == 0.0:
        running.wait(0.01)
    found = running.finish()
    assert found is not None
    assert found.partial
    assert 0 < found.result.counts.done < running.size
    assert found.front


def test_no_design_inside_the_limits_names_the_closest_and_what_binds():
    found = outcome(GPU.with_(limits={"latency_s": 1e-3}))
    assert not found.front
    text = tables.unmet(found)
    assert "Closest" in text
    assert "binding limit is latency" in text


def test_a_tornado_is_sorted_and_its_signs_are_physical():
    report = cached.report(encode(GPU))
    rows = below_front.swings(GPU, spaces.metrics(report)["latency_per_unit_s"], at_once)
    widths = [max(abs(down), abs(up)) for _, down, up in rows]
    assert widths == sorted(widths, reverse=True)
    overhead = next(r for r in rows if "launches" in r[0].lower())
    assert overhead[1] < 0 < overhead[2]  # less of an overhead is faster, more is slower


def test_the_smallest_change_meets_the_limit_and_nothing_smaller_does():
    limited = GPU.with_(limits={"latency_s": cached.report(encode(GPU)).latency_s * 0.95})
    report = cached.report(encode(limited))
    assert report.problems
    metrics = spaces.metrics(report)
    change, _ = below_front.smallest_change(report, SMALL, metrics, at_once)
    assert change.met == (not cached.report(encode(change.scenario)).problems)
    devices = PageSpace(
        (("devices", (1, 2, 4)), ("scheme", ("single", "tensor")), ("precision", ("fp32", "fp16"))), SMALL.objectives
    )
    change, settings = below_front.smallest_change(report, devices, metrics, at_once)
    assert change.met
    assert 1 <= len(settings) <= 3
    assert not cached.report(encode(change.scenario)).problems
    wide = SMALL.with_axis("links.peer.bandwidth", AxisRange("1 GB/s", "1 TB/s", 4000))
    wide = wide.with_axis("devices.0.power.max", AxisRange("100 W", "400 W", 4000))
    with pytest.raises(ScenarioError, match="fewer steps"):
        below_front.smallest_change(report, wide, metrics, at_once)


def test_a_search_without_its_package_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "pymoo"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pymoo", None)
    report = cached.report(encode(GPU))
    many = SMALL.with_axis("links.peer.bandwidth", AxisRange("1 GB/s", "1 TB/s", 4096))
    running = background.RunningSweep(report, many, spaces.metrics(report), "key", by_search=True)
    with pytest.raises(ScenarioError, match="pip install pymoo"):
        followed(running)


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
