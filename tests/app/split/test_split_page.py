"""The Split page: cuts, execution points, forwarding and chains for what the scenario has (AppTest: no browser)."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from app.shared import formats as fmt
from app.shared import specs
from app.views.split import charts
from engine.analyses.camera import CameraNetwork, row_of, tiers_of
from engine.analyses.cuts import best_split, split_points
from engine.analyses.edge import depth_first_of, forwarding, nic_of
from engine.analyses.placement import placements
from engine.devices.smartnic import family, slots
from engine.resolve.choices import default_scenario
from engine.resolve.presets import PRESETS
from engine.scenario import ScenarioError
from tests.app.pages import opened, said
from tests.app.valid import valid

ALEXNET = PRESETS["alexnet-split"].scenario
pytestmark = pytest.mark.timeout(300)  # the first run compiles the engine's kernels


def test_cuts_and_places_are_shown_and_the_best_cut_can_be_used():
    at = opened("split", "alexnet-split")
    text = said(at)
    assert "Where to cut · 22 points" in text
    assert "Edge placement" in text
    assert "Depth-first" in text
    at.selectbox(key="w.goal").set_value("throughput").run()
    assert not at.exception
    best = best_split(split_points(ALEXNET), "throughput")
    assert f"after {best.after}" in said(at)
    at.button(key="split.use").click().run()
    assert not at.exception
    assert f"cut at {best.at}" in said(at)


def test_a_cut_at_either_end_says_who_takes_all():
    ends = {p.at: p.place for p in split_points(ALEXNET)}
    assert ends[0] == "all on the second device"
    assert ends[max(ends)] == "all on the first device"
    at = opened("split", "alexnet-split")
    at.selectbox(key="w.goal").set_value("first").run()
    assert "all on the second device" in said(at)
    assert "after nothing" not in said(at)


def test_points_that_cannot_run_a_network_are_named_and_the_others_shown():
    at = opened("split", "nic-coprocessor")
    assert "Edge placement" in said(at)
    assert "answers first" in said(at)
    assert any("does not run at the second machine" in c.value for c in at.caption)


def test_most_cameras_are_of_the_cut_for_them_as_on_the_command_line():
    """The page knew the cuts of least time alone: 2 cameras on one machine, where a cut over two carries more."""
    own = row_of(ALEXNET)
    network = CameraNetwork(own, tiers_of(ALEXNET))
    fast, many = (placements(network, goal=goal) for goal in ("latency", "throughput"))
    most = max(many, key=lambda p: p.cameras)
    assert most.cameras > max(p.cameras for p in fast)
    at = opened("split", "alexnet-split")
    text = f"{most.name}, cut after {most.after}{{}}, serves most cameras, {most.cameras}"
    assert text.format(" (not the cut below)") in said(at).replace("\\", ""), "not in the table"
    shown = [list(frame.value["Cameras"]) for frame in at.dataframe if "Cameras" in frame.value]
    assert shown == [[str(p.cameras) for p in fast]]
    at.selectbox(key="w.aim").set_value("throughput").run()
    assert text.format("") in said(at)
    shown = [list(frame.value["Cameras"]) for frame in at.dataframe if "Cameras" in frame.value]
    assert shown == [[str(p.cameras) for p in many]]


@pytest.mark.parametrize("id", ["dfx-1.5b", "tonic-fc", "brainwave-gru", "node-dlrm"])
def test_a_network_that_takes_no_image_has_no_camera(id):
    at = opened("split", id)
    assert "Edge placement" not in said(at)
    assert not [w for w in at.number_input if "Frame" in w.label]


def test_cameras_stand_before_the_scenario_s_machines_with_its_what_ifs_until_others_are_chosen():
    """They stood before the document's machines whatever the scenario said, and left its what-ifs out."""
    clock = next(row for row in specs.overridable(ALEXNET) if row.path.endswith("clock"))
    asked = ALEXNET.with_(overrides={clock.path: clock.si / 2})
    here = opened("split", asked)
    text = said(here).replace("\\", "")
    best = best_split(split_points(asked))
    assert f"{best.place}: {fmt.seconds(best.latency_s)}" in text
    assert f"answers first, in {fmt.seconds(best.latency_s)}" in text
    assert [box.value for box in here.selectbox if box.label.endswith(" machine") and box.value] == ["xeon-e5-2650"] * 2
    assert not any("What-ifs" in c.value for c in here.caption)
    here.selectbox(key="w.tier1").set_value("v100-32gb").run()
    assert not here.exception
    assert any("What-ifs" in c.value for c in here.caption)
    alone = opened("split", default_scenario("t4", "mobilenet-v1"))
    assert any("is no row of machines" in c.value for c in alone.caption)


def test_machines_formats_and_compression_of_each_place_are_the_reader_s():
    """The command line took them, the page had one machine of each place and results as they are computed."""
    scenario = default_scenario("edge-tiers", "mobilenet-v1", scheme="split", precision="fp32")
    at = opened("split", scenario)

    def shown() -> dict[str, Any]:
        return next(d.value for d in at.dataframe if "Cameras" in d.value).set_index("Where").to_dict("index")

    plain = shown()
    assert any("draws 33 W when idle" in c.value for c in at.caption)
    assert [box.value for box in at.number_input if box.label == "Machines"] == [None, 1]
    at.number_input(key="w.many1").set_value(3)
    at.number_input(key="w.squeeze1").set_value(4.0)
    at.number_input(key="w.fibre1").set_value(100.0)
    at.selectbox(key="w.crosses1").set_value("fp16").run()
    assert not at.exception
    tiers = tiers_of(row_of(scenario))
    there = replace(tiers[1], machines=3, compression=4.0, format="fp16", metres=100e3)
    found = {p.name: p for p in placements(CameraNetwork(row_of(scenario), (tiers[0], there)))}
    turned = shown()
    assert turned["metro edge"]["Cameras"] == f"{found['metro edge'].cameras:,}" != plain["metro edge"]["Cameras"]
    for name, place in found.items():
        column = turned[name]["Uplink per camera (Mbit/s)"]
        assert column == pytest.approx(8e-6 * place.uplink_bytes_per_s)
    at.number_input(key="w.many0").set_value(2).run()
    assert any("All cameras share all machines" in c.value for c in at.caption)


def test_a_third_executor_has_its_own_bar_and_column():
    scenario = default_scenario("edge-metro-core", "resnet50", scheme="split", precision="fp32")
    points = split_points(scenario)
    fig = valid(charts.cuts(points, best_split(points), None, False))
    assert [trace.name for trace in fig.data if "device" in trace.name] == [
        "first device",
        "second device",
        "third device",
    ]
    for at, point in enumerate(points):
        assert sum(trace.y[at] for trace in fig.data) == pytest.approx(1e3 * point.latency_s)
    at = opened("split", scenario)
    assert any("Third (ms)" in frame.value.columns for frame in at.dataframe)
    assert [box.value for box in at.selectbox if box.label in ("Far edge", "Metro edge", "Core")] == [
        "arm-edge-cpu",
        "xeon-e5-2650",
        "v100-32gb",
    ]


def test_a_network_processor_shows_its_packets_and_memories():
    at = opened("split", "tonic-fc")
    assert "Forwarding while inferring" in said(at)
    assert any("CTM" in str(frame.value.values) for frame in at.dataframe)


def test_a_network_processor_all_of_whose_threads_infer_says_that_nothing_passes():
    """The page ended at a division by zero, and named an infinite packet."""
    at = opened("split", default_scenario("agilio-cx", "binary-mlp-traffic", scheme="on-path", streams=240))
    text = said(at)
    assert not at.exception
    assert not at.error
    assert "480 executors busy packets of no size pass at line rate" in text
    assert any("no request reaches its host" in c.value for c in at.caption)
    assert "inf B" not in text


def test_a_system_of_one_executor_names_others():
    at = opened("split", "wide-deep-int8")
    assert any("offers no cut between two devices" in note.value for note in at.info)
    assert at.button(key="split.alexnet-split").label == PRESETS["alexnet-split"].pill


@pytest.mark.parametrize("dark", [False, True])
def test_figures_hold_the_numbers(dark):
    points = split_points(ALEXNET)
    fig, best = valid(charts.cuts(points, best_split(points), points[3], dark)), best_split(points)
    marked = {note.text: (note.x, note.y) for note in fig.layout.annotations}
    assert marked == {
        f"best: {best.place}": (best.at, pytest.approx(1e3 * best.latency_s)),
        "now": (points[3].at, pytest.approx(1e3 * points[3].latency_s)),
    }
    assert len(charts.cuts(points, best, best, dark).to_dict()["layout"]["annotations"]) == 1
    assert fig.data[0].name == "first device"
    assert fig.layout.legend.traceorder == "normal"  # the legend reads as the request runs
    for at, point in enumerate(points):
        stacked = sum(trace.y[at] for trace in fig.data)
        assert stacked == pytest.approx(1e3 * point.latency_s)
    row = row_of(default_scenario("edge-metro-core", "mobilenet-v1"))
    found = placements(CameraNetwork(row, tiers_of(row)), 0.01)
    places = valid(charts.placements(found, 0.01, dark))
    _, travel = (trace for trace in places.data if trace.type == "bar")
    assert [b + x for b, x in zip(travel.base, travel.x)] == pytest.approx([1e3 * p.latency_s for p in found])
    nic = nic_of(PRESETS["tonic-fc"].scenario)
    lines = valid(charts.forwarding([forwarding(nic, 256, busy=busy) for busy in (0.0, 1.0)], dark))
    assert max(lines.data[0].y) == pytest.approx(80)
    depth = depth_first_of(PRESETS["edge-camera"].scenario.with_(system="arm-edge", scheme="single", split=0))
    drawn = valid(charts.chains(depth, 1, dark))
    (bars,) = drawn.data
    assert all(before > after for before, after in zip(bars.x[::2], bars.x[1::2]))


def test_forwarding_is_the_family_s_and_refuses_others():
    nic = nic_of(PRESETS["tonic-fc"].scenario)
    found = forwarding(nic, 256, (64, 512))
    model = family.FAMILY.model(nic)
    assert found.bytes_per_s == slots.beside(nic, (64, 512), slots.infers(nic, 256, model), 0.0, 1.0, model)[1]
    assert 64 < found.drop_bytes <= 512
    with pytest.raises(ScenarioError, match="executors is 481; allowed: 0 to 480"):
        forwarding(nic, 481)
    assert nic_of(ALEXNET) is None


def test_a_table_writes_no_more_digits_than_are_read():
    """29,041.694 requests per second beside 1,372.4, and a memory of 2,147,483.648 kB."""
    table = next(f for f in opened("split", "tonic-fc").dataframe if "Requests per second" in f.value)
    with pa.ipc.open_stream(table.proto.arrow_data.styler.display_values) as stream:
        written = stream.read_pandas().iloc[:, list(table.value).index("Requests per second")]
    assert [fmt.digits3(value) for value in table.value["Requests per second"]] == list(written)


def test_machines_behind_cameras_are_told_without_a_documents_number_and_without_empty_columns():
    at = opened("split", default_scenario("h100-sxm", "resnet50"))
    captions = " ".join(plain.value for plain in at.caption)
    assert "these are the machines of" in captions
    assert "document 0" not in captions
    places = next(d.value for d in at.dataframe if "Cameras" in d.value)
    assert "p99" not in places  # of one camera there is no queue
    assert places["Cameras"][0] == "any number"


def test_loads_of_executors_are_told_apart_by_their_lines():
    device = nic_of(PRESETS["tonic-fc"].scenario)
    fig = charts.forwarding([forwarding(device, 256, busy=busy) for busy in (0.0, 0.25, 0.5, 0.75)], False)
    assert len({trace["line"]["dash"] for trace in valid(fig).data}) == 4


def test_the_present_cut_is_marked_above_its_bar():
    """The word stood on the tallest bar, its arrow without a length."""
    points = split_points(ALEXNET)
    tallest = max(points, key=lambda point: point.latency_s)
    fig = valid(charts.cuts(points, best_split(points), tallest, False))
    [now] = [mark for mark in fig.layout.annotations if mark.text == "now"]
    assert now.ay > 1.02 * now.y


def test_a_place_where_many_cameras_wait_too_long_is_not_in_time():
    at = opened("split", "edge-camera", cameras="40", answer="0.05")
    places = next(d.value for d in at.dataframe if "p99" in d.value).set_index("Where")
    assert not places["In time"]["metro edge"]
    assert places["In time"]["far edge"]
    assert "metro edge answers first" not in said(at)
