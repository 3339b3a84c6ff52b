"""Spaces of the Sweep page: the first of each preset, ranges, links, and what may be an axis or a goal."""

from itertools import pairwise
from math import prod

import pytest

from app.shared import specs
from app.views.sweep import axes, spaces
from app.views.sweep.axes import AxisRange
from app.views.sweep.spaces import PageSpace
from engine.evaluate import evaluate
from engine.resolve.presets import PRESETS
from engine.scenario import ScenarioError
from engine.scenario.fields import GROUPS
from engine.scenario.overrides import apply
from hardware_specs.quantity import SpecError
from tests.app.sweep.small import GPU, HOME, NAMES

pytestmark = pytest.mark.timeout(300)  # the first run compiles the engine's kernels


@pytest.mark.parametrize("id", PRESETS)
def test_the_first_space_of_every_preset_is_small_enough_and_every_value_is_allowed(id):
    scenario = PRESETS[id].scenario
    usual = axes.usual(scenario)
    assert 2 <= prod(map(len, usual.values())) <= axes.DESIGNS
    assert scenario.batch in usual.get("batch", (scenario.batch,))
    for path, values in usual.items():
        listed = axes.values_of(values)
        assert len(listed) == len(set(listed))
        if isinstance(values, AxisRange):
            (now,) = (row.si for row in specs.overridable(scenario) if row.path == path)
            assert listed[len(listed) // 2] == pytest.approx(now, rel=2e-3), "a range has the value of the scenario"
        if path.startswith("tile."):
            continue  # one knob of a tile that is still free: a space sets all of them
        if path == "devices" and scenario.scheme == "single":
            continue
        for value in (listed[0], listed[-1]):
            assert apply(scenario, path, value) is not None


@pytest.mark.parametrize("id", PRESETS)
def test_a_space_that_changes_hardware_has_no_goal_of_money_and_keeps_a_front(id):
    scenario = PRESETS[id].scenario
    names = list(spaces.metrics(evaluate(scenario)))
    row = next(r for r in specs.overridable(scenario) if r.path.startswith("devices.0.memory") and r.si > 0)
    plain = PageSpace((("batch", (1, 2)),), ("latency_per_unit_s", "throughput_per_s", "capex_usd"))
    assert ("capex_usd" in spaces.fitting(plain, scenario, names)[0].objectives) == ("capex_usd" in names)
    bent = plain.with_axis(row.path, AxisRange(row.text, row.text, 1))
    found, lost = spaces.fitting(bent, scenario, names)
    assert not lost
    assert found.objectives == ("latency_per_unit_s", "throughput_per_s")
    assert not [o for o in spaces.usual(scenario, names).objectives if "usd" in o] or not [
        path for path in axes.usual(scenario) if path.startswith(("devices.0", "links"))
    ]


@pytest.mark.parametrize("id", PRESETS)
def test_a_first_space_opens_on_a_real_trade_off(id):
    """Without a batch or streams along an axis, a rate follows from a latency: one is no objective beside the other.

    The front of a SmartNIC, whose hardware says no watts, was a single design.
    """
    scenario = PRESETS[id].scenario
    names = list(spaces.metrics(evaluate(scenario)))
    space = axes.usual(scenario)
    drawn = set(spaces.usual(scenario, names).objectives[:2])
    known = spaces.figure_names(names, scenario, space)
    assert drawn != {"latency_per_unit_s", "throughput_per_s"} or {"batch", "streams"} & space.keys()
    assert drawn & set(known)


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


def test_every_field_has_a_group_among_the_axes_of_the_page():
    assert set(GROUPS) <= set(axes._GROUP)


def test_what_takes_no_power_in_the_model_wins_no_front_of_power():
    """A GPU's power is the catalog's whatever its bandwidth; a core of DFX draws by its clock and its memory."""
    wide = {"devices.0.memory.hbm.bandwidth": AxisRange("450 GB/s", "1.8 TB/s", 4)}
    for scenario, free in ((GPU, list(wide)), (HOME, [])):
        names = list(spaces.metrics(evaluate(scenario)))
        known = spaces.figure_names(names, scenario, wide)
        assert ("throughput_per_w" in known) == ("power_w" in known) == (not free)
        assert "throughput_per_w" in spaces.figure_names(names, scenario, {"batch": (1, 2)})
    known = spaces.figure_names(names, GPU, {**wide, "devices.0.power.max": ("300 W", "400 W")})
    assert "throughput_per_w" in known  # its power is said
