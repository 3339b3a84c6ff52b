"""Sensitivity, attribution and inverse search answer what they claim to."""

import random
from itertools import permutations
from math import fsum, log

import pytest

from engine.evaluate import evaluate
from engine.resolve.bind import bind
from engine.resolve.choices import default_scenario
from engine.resolve.presets import PRESETS, preset
from engine.scenario import Scenario, ScenarioError
from engine.scenario.overrides import apply
from engine.sweep import attribute, inverse, price, sensitivity, space_of
from engine.sweep.attribution import GROUPS

PAIR = default_scenario("v100-appliance", "gpt2-345m")


def test_a_tornado_is_what_evaluate_says() -> None:
    found = {figure: sensitivity(PAIR, figure, 0.2) for figure in ("latency_s", "throughput_per_w")}
    assert found["latency_s"][0].width >= found["latency_s"][-1].width > 0
    for figure, swing in [(figure, swing) for figure, swings in found.items() for swing in swings[:3]]:
        assert swing.low == getattr(evaluate(apply(PAIR, swing.path, swing.value * (1 - 0.2))), figure)
        assert swing.high == getattr(evaluate(apply(PAIR, swing.path, swing.value * (1 + 0.2))), figure)
    assert not any(s.path.startswith("costs.") for s in found["latency_s"])
    power = next(swing for swing in found["throughput_per_w"] if swing.path == "devices.0.power.loaded")
    assert (power.low / power.base, power.high / power.base) == pytest.approx((1 / 0.8, 1 / 1.2))


def test_sensitivity_refuses_what_is_no_share() -> None:
    with pytest.raises(ScenarioError, match="share"):
        sensitivity(PAIR, share=1.5)


def pairs() -> list[tuple[str, str]]:
    found = [(p.id, p.rival) for p in PRESETS.values() if p.rival]
    ids = sorted(PRESETS)
    draw = random.Random(5)
    return found[:4] + [tuple(draw.sample(ids, 2)) for _ in range(4)]


@pytest.mark.parametrize(("one", "two"), pairs())
def test_attribution_sums_to_the_difference(one: str, two: str) -> None:
    base, other = preset(one).scenario, preset(two).scenario
    attribution = attribute(base, other)
    assert attribution.base == evaluate(base).latency_s
    assert attribution.target == evaluate(other).latency_s
    assert fsum(attribution.shares.values()) == attribution.target - attribution.base
    back = attribute(other, base)
    if base.system == other.system and base.workload == other.workload:
        for group, share in attribution.shares.items():
            assert back.shares[group] == pytest.approx(-share, rel=1e-9, abs=1e-15)


def test_attribution_knows_every_field_that_moves_a_figure() -> None:
    fields = [field for group in GROUPS.values() for field in group]
    assert sorted(fields) == sorted(set(Scenario.model_fields) - {"version", "limits"})


def test_attribution_counts_layers_kept_wide_as_precision() -> None:
    base = default_scenario("fb-node", "resnext101-32x4d")
    wide = [op.name for op in bind(base).graph.phases[0].ops if op.contraction and op.stored][:20]
    other = base.with_(layers=dict.fromkeys(wide, "fp16"))
    attribution = attribute(base, other)
    assert (attribution.base, attribution.target) == (evaluate(base).latency_s, evaluate(other).latency_s)
    assert attribution.target > attribution.base
    assert attribution.shares == {"precision": attribution.target - attribution.base}
    elsewhere = default_scenario("a100-sxm-80gb", "resnet50")
    assert attribute(other, elsewhere).base == attribution.target
    assert attribute(elsewhere, other).target == attribution.target


def test_attribution_is_the_mean_over_every_order() -> None:
    other = PAIR.with_(batch=4, precision="fp32", devices=2 if PAIR.devices != 2 else 1, scheme="tensor")
    attribution = attribute(PAIR, other)
    groups = list(attribution.shares)
    assert len(groups) >= 3
    mean = dict.fromkeys(groups, 0.0)
    orders = list(permutations(groups))
    for order in orders:
        now = PAIR
        for group in order:
            after = now.with_(**{f: getattr(other, f) for f in GROUPS[group]})
            mean[group] += (evaluate(after).latency_s - evaluate(now).latency_s) / len(orders)
            now = after
    for group in groups:
        assert attribution.shares[group] == pytest.approx(mean[group], rel=1e-9)


GRID = {
    "scenario": {"system": "v100-appliance", "workload": "gpt2-345m"},
    "axes": {
        "devices": [1, 2, 4],
        "scheme": ["tensor"],
        "devices.0.memory.hbm.bandwidth": [9e11, 1.2e12, 1.8e12, 3e12],
        "devices.0.peak.fp16": [1e14, 2e14, 4e14],
    },
}
START = {"devices": 1, "scheme": "tensor", "devices.0.memory.hbm.bandwidth": 9e11, "devices.0.peak.fp16": 1e14}


def test_inverse_is_the_nearest_of_all() -> None:
    latency = price(space_of(GRID), ["latency_s"])[0][0]
    for target in sorted(latency.tolist())[1::5]:
        space = space_of(GRID | {"constraints": [f"latency_s <= {target!r}"]})
        change = inverse(space, START)
        assert change.met
        assert change.figures["latency_s"] <= target
        assert evaluate(change.scenario).latency_s == change.figures["latency_s"]
        digits = [space.digits(n) for n in range(space.size)]
        fewest = min(sum(d > 0 for d in at) for n, at in enumerate(digits) if latency[n] <= target)
        assert len(change.changes) == fewest
        if fewest:
            assert change.binding == f"latency_s <= {target:.6g}"


def test_of_equal_changes_the_nearest_and_then_the_first_is_taken() -> None:
    """Fewest axes, then least far, then the lowest number: the whole order, against a plain search over the grid."""
    axes = {"costs.years": [2, 4, 8], "costs.pue": [1.0, 2.0], "devices.0.price": [1000, 4000]}
    start = {"costs.years": 4, "costs.pue": 2.0, "devices.0.price": 4000}
    base = {"scenario": {"system": "v100-appliance", "workload": "gpt2-345m"}, "axes": axes}
    cost = price(space_of(base), ["usd_per_million"])[0][0]
    far = {path: [abs(log(v / start[path])) for v in values] for path, values in axes.items()}
    far = {path: [round(d / max(row), 9) for d in row] for path, row in far.items()}
    for target in sorted(set(cost.tolist())):
        space = space_of(base | {"constraints": [f"usd_per_million <= {target!r}"]})
        change = inverse(space, start)

        def rank(number: int, space=space) -> tuple[int, float, int]:
            digits = space.digits(number)
            moved = sum(axis.values[d] != start[axis.path] for axis, d in zip(space.axes, digits, strict=True))
            return moved, round(sum(far[axis.path][d] for axis, d in zip(space.axes, digits, strict=True)), 9), number

        assert change.number == min((n for n in range(space.size) if cost[n] <= target), key=rank)
    years = space_of({**base, "axes": {"costs.years": [2, 4, 8]}, "constraints": ["latency_s <= 1e-9"]})
    missed = inverse(years, {"costs.years": 4})  # no year is better than another: nothing is changed
    assert not missed.met
    assert not missed.changes


def test_infeasible_says_which_limit_and_the_nearest_figure() -> None:
    space = space_of(GRID | {"constraints": ["latency_s <= 1e-6", "power_w <= 1e6"]})
    change = inverse(space, START)
    best = price(space, ["latency_s"])[0][0].min()
    assert not change.met
    assert change.binding == "latency_s <= 1e-06"
    assert change.figures["latency_s"] == best


def test_inverse_needs_a_start_on_the_grid() -> None:
    with pytest.raises(ScenarioError, match="starts at"):
        inverse(space_of(GRID | {"constraints": ["latency_s <= 1"]}), START | {"devices": 3})
