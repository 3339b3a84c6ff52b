"""Execution points of a city: travel grows with distance, cameras with speed, a cut sends less than what it could."""

from __future__ import annotations

import pytest

from engine.partition.tiers import TIERS, Camera, placements


def named(*args, **kwargs):
    return {p.name: p for p in placements(*args, **kwargs)}


def test_each_tier_and_each_cut_is_answered():
    found = named("mobilenet-v1")
    assert set(found) == {"far edge", "metro edge", "core", "far edge and metro edge", "far edge and core"}
    assert len(TIERS) == 3
    for p in found.values():
        assert p.latency_s == pytest.approx(p.travel_s + p.compute_s)
        assert (p.uplink_bytes_per_s == 0) == (p.name == "far edge")
        assert bool(p.after) == ("and" in p.name)


def test_travel_and_compute_trade_against_each_other():
    found = named("resnet50")
    assert found["far edge"].travel_s == 0
    assert found["far edge"].travel_s < found["metro edge"].travel_s < found["core"].travel_s
    assert found["far edge"].compute_s > found["metro edge"].compute_s > found["core"].compute_s


def test_distance_adds_the_speed_of_light_in_glass():
    near, far = named("resnet50"), named("resnet50", extra_m=100e3)
    assert far["far edge"] == near["far edge"]
    for name in ("metro edge", "core", "far edge and metro edge", "far edge and core"):
        assert far[name].travel_s - near[name].travel_s == pytest.approx(2 * 100e3 * 5e-9)


def test_more_frames_serve_fewer_cameras_and_fill_the_uplink():
    slow, fast = named("mobilenet-v1", Camera(1.0)), named("mobilenet-v1", Camera(10.0))
    for name in slow:
        assert fast[name].cameras <= slow[name].cameras / 9
        assert fast[name].uplink_bytes_per_s == pytest.approx(10 * slow[name].uplink_bytes_per_s)


def test_a_limit_rules_placements_out():
    found = named("resnet152", limit_s=0.1)
    assert not found["far edge"].meets_limit
    assert found["core"].meets_limit
    assert all(p.meets_limit for p in placements("resnet152"))
