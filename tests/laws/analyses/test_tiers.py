"""Execution points of a city: travel grows with distance, cameras with speed, a cut sends less than what it could."""

from __future__ import annotations

import pytest

from engine.analyses.camera import TIERS, Camera, placements, refusals
from engine.devices.common.contract import Unsupported
from engine.scenario import ScenarioError
from hardware_specs.catalog import default_catalog


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
        links = [catalog.link(id) for id in tier.way]
        room = min(link.bandwidth.si * (link.payload.si if link.payload else 1.0) for link in links)
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
    assert all(p.meets_limit for p in placements("resnet152"))
