"""Execution points of a city: travel grows with distance, cameras with speed, a cut sends less than what it could."""

from __future__ import annotations

import itertools

import pytest

from engine.analyses.camera import TIERS, Camera, placements, refusals, sees
from engine.analyses.split import best_split, split_points
from engine.cost.assemble import wire_time
from engine.devices.common.contract import Unsupported
from engine.evaluate import evaluate
from engine.plan.schemes import split_wire
from engine.resolve.bind import bind
from engine.resolve.choices import choices, default_scenario
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario, ScenarioError
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo
from tests.effort import EFFORT


def named(*args, **kwargs):
    return {p.name: p for p in placements(*args, **kwargs)}


def test_each_tier_and_each_cut_is_answered():
    bound = named("mobilenet-v1")
    assert set(bound) == {"far edge", "metro edge", "core", "far edge and metro edge", "far edge and core"}
    assert len(TIERS) == 3
    for p in bound.values():
        assert p.latency_s == pytest.approx(p.travel_s + p.compute_s)
        assert (p.uplink_bytes_per_s == 0) == (p.name == "far edge")
        assert bool(p.after) == ("and" in p.name)


def test_travel_and_compute_trade_against_each_other():
    bound = named("resnet50")
    assert bound["far edge"].travel_s == 0
    assert bound["far edge"].travel_s < bound["metro edge"].travel_s < bound["core"].travel_s
    assert bound["far edge"].compute_s > bound["metro edge"].compute_s > bound["core"].compute_s


def test_distance_adds_the_speed_of_light_in_glass():
    near, far = named("resnet50"), named("resnet50", extra_m=100e3)
    assert far["far edge"] == near["far edge"]
    for name in ("metro edge", "core", "far edge and metro edge", "far edge and core"):
        assert far[name].travel_s - near[name].travel_s == pytest.approx(2 * 100e3 * 5e-9)


@pytest.mark.parametrize("workload", ["gpt2-345m", "bert-base", "dlrm-less-complex", "deepbench-gru-512", "mlp-mnist"])
def test_what_takes_no_image_is_refused_in_a_sentence(workload):
    with pytest.raises(Unsupported, match="takes no image"):
        placements(workload)


def test_a_larger_image_takes_longer_everywhere():
    usual, large = named("resnet50"), named("resnet50", params={"image": 448})
    assert all(large[name].compute_s > usual[name].compute_s for name in usual)


def test_more_frames_serve_fewer_cameras_and_fill_the_uplink():
    slow, fast = named("mobilenet-v1", Camera(1.0)), named("mobilenet-v1", Camera(10.0))
    for name in slow:
        assert fast[name].cameras <= slow[name].cameras / 9
        assert fast[name].uplink_bytes_per_s == pytest.approx(10 * slow[name].uplink_bytes_per_s)


@pytest.mark.parametrize("workload", ["mobilenet-v1", "resnet50"])
@pytest.mark.parametrize("camera", [Camera(), Camera(30.0, 20e6), Camera(1.0, 1e3), Camera(100.0, 5e6)])
def test_cameras_share_the_uplink(workload, camera):
    """No point serves more cameras than the narrowest link on their way carries."""
    catalog = default_catalog()
    for tier in TIERS[1:]:
        (used,) = (one for one in catalog.system(tier.cut).links if one.role == "peer")
        link = catalog.link(used.link)
        room = link.bandwidth.si * (link.payload.si if link.payload else 1.0)
        for name in (tier.name, f"far edge and {tier.name}"):
            p = named(workload, camera)[name]
            assert p.cameras * p.uplink_bytes_per_s <= room * (1 + 1e-9)


def test_a_precision_that_one_point_lacks_rules_out_that_point_alone():
    lacking = dict(refusals("mobilenet-v1", "int8"))
    assert 0 < len(lacking) < len(TIERS)
    assert all("precision is 'int8'" in reason for reason in lacking.values())
    assert {name for name in named("mobilenet-v1", precision="int8") if "and" not in name} == {
        t.name for t in TIERS
    } - set(lacking)
    with pytest.raises(ScenarioError, match="precision"):
        named("mobilenet-v1", precision="fp4")
    with pytest.raises(ScenarioError, match="no-such-net"):
        named("no-such-net")


def test_a_limit_rules_placements_out():
    bound = named("resnet152", limit_s=0.1)
    assert not bound["far edge"].meets_limit
    assert bound["core"].meets_limit
    assert all(p.meets_limit for p in placements("mobilenet-v1"))


IMAGES = sorted(
    (id for id in default_zoo().ids() if sees(id)), key=lambda id: len(default_zoo().graph(id).phases[0].ops)
)
IMAGES = IMAGES if EFFORT >= 5 else IMAGES[:5]
"""Networks that take images; those with the fewest cuts in an ordinary run."""
CUT = [preset.scenario for preset in PRESETS.values() if "split" in choices(preset.scenario).schemes]
CUT += [default_scenario(tier.cut, "mobilenet-v1") for tier in TIERS if tier.cut]


@pytest.mark.parametrize("scenario", CUT, ids=lambda s: f"{s.system}-{s.workload}")
def test_every_cut_is_one_answer_at_split_and_at_evaluate(scenario: Scenario) -> None:
    """Latency, rate and energy, to the last figure that a report names."""
    points = split_points(scenario)
    assert points
    for point in points:
        report = evaluate(scenario.with_(scheme="split", split=point.at))
        assert point.latency_s == report.latency_s
        held = report.throughput_per_s * point.interval_s / scenario.streams
        if point.energy_j is not None:
            assert point.energy_j / report.energy_per_unit_j == pytest.approx(held)
        else:
            assert report.energy_per_unit_j is None


def test_a_camera_and_split_give_one_answer_for_the_same_cut() -> None:
    """Cut, or whole at either end of a wire, of every network that takes images: but for the answer's way back, and the
    frame's encoding where an encoded frame crosses."""
    seen, goals = 0, itertools.cycle(("latency", "throughput", "first", "second"))
    for workload in IMAGES:
        for tier in TIERS:
            if tier.cut is None:
                continue
            scenario, goal = default_scenario(tier.cut, workload, scheme="split", precision="fp32"), next(goals)
            points = split_points(scenario)
            whole = points[0]
            if whole.at:  # this part can't run the network whole
                assert tier.name in dict(refusals(workload))
                continue
            frame = Camera(frame_bytes=whole.crossing_bytes)  # as large as the decoded input that `split` sends
            placed = {p.name: p for p in placements(workload, frame, goal=goal)}
            near, there, cut = (placed[name] for name in (TIERS[0].name, tier.name, f"{TIERS[0].name} and {tier.name}"))
            assert near.latency_s == pytest.approx(points[-1].latency_s)
            assert there.latency_s == pytest.approx(whole.latency_s + there.answer_s)
            best = best_split([p for p in points if p.at and p.rest], goal)
            told = evaluate(scenario.with_(split=best.at))
            assert cut.after == best.after
            assert cut.latency_s - cut.answer_s == pytest.approx(best.latency_s)
            assert best.latency_s == told.latency_s
            assert cut.uplink_bytes_per_s == pytest.approx(best.crossing_bytes * frame.frames_per_s)
            seen += 1
    assert seen > 5


def test_what_is_larger_travels_longer() -> None:
    """401 kB once went to the core in 14.5 ms and 200 kB in 15.0."""
    for tier in TIERS[1:]:
        scenario = default_scenario(tier.cut, "mobilenet-v1", scheme="split", precision="fp32")
        wire = split_wire(bind(scenario))
        sizes = [wire_time(wire, 1e3 * size) for size in (0.256, 200, 401, 602)]
        assert sizes == sorted(sizes)
        placed = {p.name: p for p in placements("mobilenet-v1")}
        for name in (tier.name, f"far edge and {tier.name}"):
            size = placed[name].uplink_bytes_per_s / 5.0
            assert placed[name].travel_s - placed[name].answer_s == pytest.approx(wire_time(wire, size))
