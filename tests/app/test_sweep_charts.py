"""Figures of the Sweep page: the front, parallel axes, the map of tiles and the tornado."""

import math

import plotly.graph_objects as go
import pytest

from app.shared import formats as fmt
from app.shared.figures.heat import ObjectiveAxis, heat
from app.views.sweep import charts as sweep_charts
from app.views.sweep.charts import MarkedDesign, ParallelAxis

LATENCY = ObjectiveAxis("Latency per token", "s", fmt.MILLISECOND, True, 20e-3)
RATE = ObjectiveAxis("Throughput", "tok/s", fmt.Scale(1.0, "tok/s"), False)
FRONT = [(2e-3, 42.0, 7, "a"), (6e-3, 420.0, 8, "b"), (20e-3, 1200.0, 9, "c")]
CLOUD = [(30e-3, 20.0, 1), (50e-3, 90.0, 2)]


@pytest.mark.parametrize(("low", "high"), [(1.0, 1e6), (180.0, 188.0), (2.0, 250.0), (0.031, 0.034), (5.0, 9.0)])
def test_ticks_are_round_few_and_inside(low, high):
    found = sweep_charts.ticks(low, high)
    assert 2 <= len(found) <= 9
    assert all(low <= t <= high for t in found)


FIGURES = {
    "pareto": lambda dark: sweep_charts.pareto(
        CLOUD, FRONT, [MarkedDesign(6e-3, 420.0, "selected"), MarkedDesign(14e-3, 72.0, "current")], LATENCY, RATE, dark
    ),
    "pareto-one": lambda dark: sweep_charts.pareto(
        [], FRONT[:1], [MarkedDesign(2e-3, 42.0, "selected")], RATE, LATENCY, dark
    ),
    "parallel": lambda dark: sweep_charts.parallel(
        [
            ParallelAxis("Latency (ms)", [1.0, 2.0]),
            ParallelAxis("Precision", [0, 1], ["FP16", "INT8"]),
            ParallelAxis("W", [3.0, 3.0]),
        ],
        1,
        dark,
    ),
    "heat": lambda dark: heat(
        ["8", "16"],
        ["8", "16", "32"],
        [[1e-3, 2e-3], [None, 4e-3], [3e-3, 2e-3]],
        (0, 0),
        (1, 1),
        ("l", "d"),
        LATENCY,
        dark,
    ),
    "tornado": lambda dark: sweep_charts.tornado(
        [("HBM bandwidth", 0.4, -0.2), ("Clock", 0.1, -0.05)], 0.2, "latency", dark
    ),
}


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_valid_and_readable(name, dark):
    fig = FIGURES[name](dark)
    go.Figure(fig.to_dict())  # validates every property
    for axis in (fig.layout.xaxis, fig.layout.yaxis):
        assert axis.tickfont.size >= 12
    for note in fig.layout.annotations:
        assert note.font.size >= 12
        if note.xref != "paper":
            assert fig.layout.xaxis.range[0] <= note.x <= fig.layout.xaxis.range[1]
            assert fig.layout.yaxis.range[0] <= note.y <= fig.layout.yaxis.range[1]


def test_the_front_is_a_staircase_that_leaves_nothing_beyond_it():
    fig = FIGURES["pareto"](False)
    line = next(t for t in fig.data if t.mode == "lines" and t.line.dash is None)
    assert list(line.x) == pytest.approx([2, 6, 6, 20, 20])
    assert list(line.y) == pytest.approx([42, 42, 420, 420, 1200])
    points = [t for t in fig.data if t.mode == "markers" and t.customdata is not None]
    assert [c[0] for t in points for c in t.customdata] == [1, 2, 7, 8, 9]
    dashed = next(t for t in fig.data if t.mode == "lines" and t.line.dash == "dash")
    assert set(dashed.x) == {20.0}
    low, high = fig.layout.xaxis.range
    assert low < math.log10(2) < math.log10(50) < high


def test_selected_and_current_differ_by_shape_and_word():
    fig = FIGURES["pareto"](True)
    assert [t.marker.symbol for t in fig.data[-2:]] == ["circle-open", "star"]
    assert {n.text for n in fig.layout.annotations} >= {"selected", "current"}
