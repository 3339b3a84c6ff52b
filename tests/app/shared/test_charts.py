"""Figures of a made-up report: what each shows, in both themes, valid for Plotly, and never by colour alone."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from app.shared import glossary
from app.shared.figures import drawing, roofline, style
from app.shared.figures import report as charts
from engine.cost.rows import LinkRow, MemoryRow, OpRow, Roofline
from engine.devices.common.contract import RESOURCES, Span
from engine.scenario import sentences
from hardware_specs import default_catalog
from tests.app.valid import valid

PARTS = {"compute": 2e-3, "offchip": 7e-3, "onchip": 0.0, "links": 1e-3, "host": 0.0, "overhead": 0.5e-3}


def op(
    name: str, bound: str, flops: float, offchip: float, time: float, onchip: float = 1e6, device: str = "d"
) -> OpRow:
    resources = dict.fromkeys(RESOURCES, 0.0) | {bound: time}
    moved = offchip, onchip, 1e12
    return OpRow(name, "MatMul", "g", "decode", device, 3.0, time, time, 0.1, bound, flops, *moved, resources)


class FakeReport:
    """The few fields the roofline reads."""

    scenario = SimpleNamespace(streams=1)
    ops = (
        op("fc1", "offchip", 1e9, 1e9, 3e-3),
        op("pinned", "onchip", 1e8, 0.0, 1e-3),
        op("copy", "overhead", 0.0, 1e6, 1e-4),
        op("elsewhere", "host", 1e6, 1e6, 1e-5, device="other"),
    )
    rooflines = (Roofline("d", "fp16", 1e12, (("hbm", "offchip", 4e11), ("sram", "onchip", 4e12))),)
    roofline = rooflines[0]


MEMORY = (
    MemoryRow("card", "hbm", "offchip", 3.11e9, 2e9, "weights", True, False),
    MemoryRow("card", "sram and cache", "onchip", 5e6, 4e6, "activations", False, True),
)
FIGURES = {
    "breakdown": lambda dark: valid(charts.breakdown(PARTS, 0.05, "output token", dark)),
    "roofline": lambda dark: valid(roofline.roofline(FakeReport, dark)),
    "hollow": lambda dark: valid(roofline.roofline(FakeReport, dark, FakeReport)),
    "fits": lambda dark: valid(charts.fits(MEMORY, dark)),
    "links": lambda dark: valid(charts.links((LinkRow("PCIe 3.0 x16", "host", 1e6, 1.5e10, 1e-4, 0.34),), dark)),
    "timeline": lambda dark: valid(charts.timeline((Span("MPU", "fc1", 0.0, 1e-6, "compute"),), dark)),
    "knob": lambda dark: valid(charts.knob(["1", "2", "4"], [10.0, 20.0, 30.0], 1, "Batch", "tok/s", dark)),
    "knob-log": lambda dark: valid(charts.knob(["1", "2"], [1.0, 1e4], 0, "Batch", "tok/s", dark)),
    "knob-many": lambda dark: valid(charts.knob([str(2**i) for i in range(13)], [1.0] * 13, 3, "Batch", "tok/s", dark)),
    "predicted": lambda dark: valid(
        charts.prediction_errors(
            [
                {
                    "id": "A",
                    "role": "validation",
                    "published": 72.7,
                    "predicted": 70.0,
                    "error": -0.04,
                    "within": True,
                    "unit": None,
                },
                {
                    "id": "B",
                    "role": "calibration",
                    "published": 1e6,
                    "predicted": 2e6,
                    "error": 1.0,
                    "within": False,
                    "unit": "x",
                },
            ],
            dark,
            ["B"],
        )
    ),
    "predicted-none": lambda dark: valid(charts.prediction_errors([], dark)),
}


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_valid_and_readable(name, dark):
    fig = FIGURES[name](dark)
    assert fig.layout.height >= 98
    for axis in (fig.layout.xaxis, fig.layout.yaxis):
        assert axis.tickfont.size >= 12
    for note in fig.layout.annotations:
        assert note.font.size >= 12
        for value, axis in ((note.x, fig.layout.xaxis), (note.y, fig.layout.yaxis)):
            low, high = sorted(axis.range)
            assert low <= value <= high, f"{note.text} lies outside its axis"
    assert fig.layout.showlegend is False


def test_the_waterfall_steps_from_bar_to_bar_to_its_total():
    (bars,) = FIGURES["breakdown"](False).data
    assert list(bars.x) == pytest.approx([7.0, 2.0, 1.0, 0.5, 10.5])
    assert list(bars.base) == pytest.approx([0.0, 7.0, 9.0, 10.0, 0.0])
    assert bars.error_x.array[-1] == pytest.approx(0.525)
    labels = FIGURES["breakdown"](False).layout.yaxis.ticktext
    assert labels[0] == "Off-chip memory  <b>7.00</b> · 67%"
    assert labels[-1] == "Total  <b>10.5</b> · ±5%"


def test_a_total_without_band_says_no_evidence():
    fig = valid(charts.breakdown(PARTS, None, "image", False))
    assert fig.layout.yaxis.ticktext[-1].endswith("unvalidated")
    assert fig.data[-1].error_x.array is None


def test_operators_stand_at_their_intensity_and_rate_on_the_busiest_device():
    drawn = roofline.points(FakeReport)
    assert [(p.op.name, p.level) for p in drawn] == [("fc1", "hbm"), ("pinned", "")]  # it takes nothing from either
    assert drawn[0].intensity == pytest.approx(1.0)
    assert drawn[0].rate == pytest.approx(1e9 / 3e-3)


def test_roofs_meet_the_peak_at_their_ridge():
    lines = [t for t in FIGURES["roofline"](False).data if t.mode == "lines"]
    assert len(lines) == 2
    for line, bandwidth in zip(lines, (4e11, 4e12)):
        assert line.x[1] == pytest.approx(1e12 / bandwidth)
        assert line.y[1] == pytest.approx(1e12)


def test_what_does_not_fit_is_hatched_beyond_a_capacity_line():
    fig = FIGURES["fits"](False)
    bars = fig.data[1]
    hatched = [x for x, shape in zip(bars.x, bars.marker.pattern.shape) if shape]
    assert hatched == pytest.approx([155.5])
    assert [t for t in fig.data if t.type == "scatter" and t.mode == "lines"]
    assert fig.layout.yaxis.ticktext[0].endswith("<b>3.11 > 2.00 GB</b>")
    assert bars.x[1] == 100.0  # a cache is full, not over


def test_levels_of_several_devices_say_which():
    rows = [
        MemoryRow(f"card ({part})", "hbm", "offchip", 1e9, 2e9, "weights", True, True) for part in ("sparse", "dense")
    ]
    assert [t.split("<")[0] for t in valid(charts.fits(rows, False)).layout.yaxis.ticktext] == [
        "HBM, sparse",
        "HBM, dense",
    ]
    rows = [replace(rows[0], device=name) for name in ("ARM CPU (part 1)", "Xeon (part 2)")]
    labels = valid(charts.fits(rows, False)).layout.yaxis.ticktext
    assert [label.replace("<br>", " ").split(" <")[0] for label in labels] == [
        "HBM, ARM CPU (part 1)",
        "HBM, Xeon (part 2)",
    ]


def test_few_rows_leave_each_label_its_lines():
    """An axis has room for three rows at least, which the height of two did not have."""
    label, says = "<br>".join("four"), ["", ""]
    rivals = [("Predicted", [1.0, 2.0], says), ("Published", [1.0, 2.0], says)]
    layout = valid(charts.against([label, label], rivals, style.log_axis(0.5, 3.0, "s"), False)).layout
    around, (last, first) = 56 + drawing._LEGEND, layout.yaxis.range
    assert (layout.height - around) / (last - first) >= 15 * 4


@pytest.mark.parametrize("dark", [False, True])
def test_shape_doubles_hue(dark):
    (operators,) = (t.marker for t in FIGURES["roofline"](dark).data if t.mode == "markers")
    assert set(zip(operators.symbol, operators.color, strict=True)) == {
        ("square", style.PALETTE["offchip"][dark]),
        ("diamond", style.PALETTE["onchip"][dark]),
    }
    assert len(set(style.MARKERS.values())) == len(style.MARKERS) == len(style.PALETTE) == len(RESOURCES)


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("dark", "page", "least"), [(False, "#FFFFFF", 3.0), (True, "#0B0E12", 3.0)])
@pytest.mark.parametrize("resource", RESOURCES)
def test_every_hue_stands_out_from_its_page(resource, dark, page, least):
    a, b = sorted((_luminance(style.PALETTE[resource][dark]), _luminance(page)))
    assert (b + 0.05) / (a + 0.05) >= least


def test_the_current_knob_is_ringed_and_log_axes_are_marked():
    fig = FIGURES["knob-log"](False)
    assert fig.layout.yaxis.type == "log"
    assert fig.layout.yaxis.title.text.endswith("log")
    assert fig.data[1].marker.symbol == "circle-open"
    assert fig.layout.annotations[0].y == pytest.approx(math.log10(fig.data[0].y[0]))
    many = FIGURES["knob-many"](False).layout.xaxis.ticktext
    assert many[3] == "8"
    assert sum(bool(t) for t in many) == 6


@pytest.mark.parametrize(
    ("name", "shown"),
    [("hbm", "HBM"), ("l3", "L3"), ("sram and cache", "SRAM and cache"), ("m20k", "M20K")],
)
def test_memory_levels_are_written_as_people_write_them(name, shown):
    assert style.level_name(name) == shown


def test_sentences_and_figures_call_a_level_the_same():
    catalog = default_catalog()
    levels = {level.name for id in catalog.ids("devices") for level in catalog.device(id).memory}
    words = {"cache", "infinity", "unified"}
    for name in levels:
        said = sentences.level_name(name)
        assert style.level_name(name) == said[:1].upper() + said[1:]
        assert all(part.isupper() or part in words for part in said.split("-")), said


def test_the_roofline_card_counts_what_limits_its_operators():
    assert glossary.answer_roofline(FakeReport) in (
        "1 of 2 operators are limited by off-chip memory",
        "1 of 2 operators are limited by on-chip memory",
    )


def test_an_error_beyond_the_axis_stands_at_its_edge():
    claim = {"role": "validation", "published": 1.0, "within": False, "unit": None}
    claims = [claim | {"id": str(far), "predicted": far, "error": far - 1} for far in (1e-6, 0.5, 1.25, 1e6)]
    fig = charts.prediction_errors(claims, dark=False)
    spots = next(trace for trace in fig.to_dict()["data"] if trace.get("customdata"))
    assert spots["marker"]["symbol"] == ["triangle-down", "diamond", "diamond", "triangle-up"]
    assert spots["y"] == [0.125, 0.5, 1.25, 8.0]
    low, high = fig.to_dict()["layout"]["yaxis"]["range"]
    assert low < math.log10(0.125) < math.log10(8.0) < high


def test_lines_around_bars_leave_narrow_ones_their_hue():
    """Hundreds of operators of a prefill were grey: each bar was as thin as the line around it."""
    marks = [drawing.Bar(0, 100.0, "#123456", ""), drawing.Bar(0, 0.1, "#123456", "", 100.0)]
    assert drawing.bars(marks, False, outline=0.6)[0]["marker"]["line"]["width"] == [0.6, 0.0]
