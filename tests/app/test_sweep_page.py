"""The Sweep page: its space, its figures, and the page itself (AppTest: no browser)."""

import math
from itertools import pairwise

import plotly.graph_objects as go
import pytest

from app import axes, spaces, sweep_charts
from app import format as fmt
from app.axes import Span
from app.spaces import Space
from app.sweep_charts import Axis, Column, Mark
from engine.presets import PRESETS
from engine.scenario import ScenarioError
from engine.settings import apply
from hardware_specs.quantity import SpecError

HOME = PRESETS["dfx-1.5b"].scenario
NAMES = ["latency_per_unit_s", "power_w", "throughput_per_s", "throughput_per_w"]

LATENCY = Axis("Latency per token", "s", fmt.MILLISECOND, True, 20e-3)
RATE = Axis("Throughput", "tok/s", fmt.Scale(1.0, "tok/s"), False)
FRONT = [(2e-3, 42.0, 7, "a"), (6e-3, 420.0, 8, "b"), (20e-3, 1200.0, 9, "c")]
CLOUD = [(30e-3, 20.0, 1), (50e-3, 90.0, 2)]


@pytest.mark.parametrize("id", PRESETS)
def test_the_first_space_of_every_preset_is_small_enough_and_every_value_is_allowed(id):
    scenario = PRESETS[id].scenario
    found = axes.usual(scenario)
    assert 2 <= axes.size(found) <= axes.DESIGNS
    for path, values in found.items():
        listed = axes.values_of(values)
        assert len(listed) == len(set(listed))
        if path.startswith("tile."):
            continue  # one knob of a tile that is still free: a space sets all of them
        for value in (listed[0], listed[-1]):
            assert apply(scenario, path, value) is not None


def test_a_range_has_its_ends_exactly_and_even_steps():
    log = axes.values_of(Span("115 GB/s", "1.84 TB/s", 5))
    assert (log[0], log[-1]) == (115e9, 1.84e12)
    assert [b / a for a, b in pairwise(log)] == pytest.approx([2.0] * 4)
    linear = axes.values_of(Span("1", "5", 5, log=False))
    assert linear == (1.0, 2.0, 3.0, 4.0, 5.0)
    with pytest.raises(SpecError, match="parsecs"):
        axes.values_of(Span("1 parsecs", "2 parsecs", 2))


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
    assert lost == ["tile.0", "tile.1", "devices.0.memory.hbm.bandwidth", "devices.0.dfx.clock"]
    assert dict(found.axes)["devices"] == (1, 2, 4)
    odd = Space((("batch", (1, 3, 64)), ("switches.__class__", (True,))), ("throughput_per_s",))
    found, lost = spaces.fitting(odd, HOME, NAMES)
    assert found.axes == (("batch", (1, 64)),)
    assert found.objectives == ("latency_per_unit_s", "throughput_per_s")
    assert lost == ["switches.__class__"]


@pytest.mark.parametrize(("low", "high"), [(1.0, 1e6), (180.0, 188.0), (2.0, 250.0), (0.031, 0.034), (5.0, 9.0)])
def test_ticks_are_round_few_and_inside(low, high):
    found = sweep_charts.ticks(low, high)
    assert 2 <= len(found) <= 9
    assert all(low <= t <= high for t in found)


FIGURES = {
    "pareto": lambda dark: sweep_charts.pareto(
        CLOUD, FRONT, [Mark(6e-3, 420.0, "selected"), Mark(14e-3, 72.0, "current")], LATENCY, RATE, dark
    ),
    "pareto-one": lambda dark: sweep_charts.pareto([], FRONT[:1], [Mark(2e-3, 42.0, "selected")], RATE, LATENCY, dark),
    "parallel": lambda dark: sweep_charts.parallel(
        [Column("Latency (ms)", [1.0, 2.0]), Column("Precision", [0, 1], ["FP16", "INT8"]), Column("W", [3.0, 3.0])],
        1,
        dark,
    ),
    "heat": lambda dark: sweep_charts.heat(
        ["8", "16"], ["8", "16", "32"], [[1e-3, 2e-3], [None, 4e-3], [3e-3, 2e-3]], (0, 0), (1, 1), ("l", "d"),
        LATENCY, dark,
    ),
    "tornado": lambda dark: sweep_charts.tornado(
        [("HBM bandwidth", 0.4, -0.2), ("Clock", 0.1, -0.05)], 0.2, "latency", dark
    ),
}  # fmt: skip


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
