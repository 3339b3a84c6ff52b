"""Roofs and points stand in one frame: no operator of a device does more than its device can."""

import pytest

from app.shared import glossary, report_tables
from app.shared.figures.roofline import EDGE, points
from engine.evaluate import evaluate
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario
from tests.laws.cost.test_views_agree import random_scenarios


def under_its_roof(report) -> None:
    peak = max(report.roofline.peak_flops_per_s, *(op.peak_flops_per_s * report.scenario.streams for op in report.ops))
    for p in points(report):
        assert p.rate <= peak * (1 + 1e-6), p.op.name
        slowest = min((rate for *_, rate in report.roofline.levels if rate > 0), default=1.0)
        edge = EDGE * report.roofline.peak_flops_per_s / slowest
        assert p.intensity <= edge * (1 + 1e-6), p.op.name
        roofs = [rate * p.intensity for name, _, rate in report.roofline.levels if name == p.level]
        if not roofs:  # as far right as it may stand, where no roof but the peak is over it
            assert p.intensity == pytest.approx(edge), p.op.name
        elif not p.op.levels:  # no family but one that tells levels fetches ahead of an operator
            assert p.op.flops / p.op.time_s <= roofs[0] * (1 + 1e-6), p.op.name
        streams = report.scenario.streams
        if streams > 1:  # all of them, which take turns at a memory that they could not all use at once
            assert p.rate == pytest.approx(min(streams * p.op.flops / p.op.time_s, *roofs, peak))
    streams_take_no_more_than_the_memory_gives(report)


def streams_take_no_more_than_the_memory_gives(report) -> None:
    """In the time of a request's operators all streams together move no more bytes than the memory off chip can."""
    device = max(points(report), key=lambda p: p.op.time_s).op.device if points(report) else ""
    ops = [op for op in report.ops if op.device == device]
    rate = max((rate for _, role, rate in report.roofline.levels if role == "offchip"), default=0.0)
    if report.scenario.streams > 1 and rate > 0.0:
        moved = report.scenario.streams * sum(op.offchip_bytes for op in ops)
        assert moved <= rate * sum(op.time_s for op in ops) * (1 + 1e-6)


def passes_no_more_than_its_levels_give(report) -> None:
    """Fetched ahead or not, in the time of all operators no level brings more than its roof."""
    device = max(points(report), key=lambda p: p.op.time_s).op.device
    ops = [op for op in report.ops if op.device == device]
    for name, _, rate in report.roofline.levels:
        passed = report.scenario.streams * sum(op.levels.get(name, 0.0) for op in ops)
        assert passed <= rate * sum(op.time_s for op in ops) * (1 + 1e-6), name


@pytest.mark.parametrize("id", PRESETS)
def test_points_stand_under_the_roof_of_their_device(id):
    report = evaluate(PRESETS[id].scenario)
    under_its_roof(report)
    passes_no_more_than_its_levels_give(report)


def test_points_stand_under_the_roof_at_random():
    for scenario in random_scenarios(100, 100):
        under_its_roof(evaluate(scenario))


def test_all_streams_together_come_near_the_sockets_roof():
    """28 streams of Wide & Deep use their socket as a stream uses its core; one alone stands at a 28th."""
    report = evaluate(PRESETS["wide-deep-int8"].scenario)
    best = max(points(report), key=lambda p: p.rate)
    assert best.rate / report.roofline.peak_flops_per_s == pytest.approx(best.op.peak_used, rel=0.01)


@pytest.mark.parametrize("id", PRESETS)
def test_rows_and_bars_of_the_page_are_the_whole_latency(id):
    report = evaluate(PRESETS[id].scenario)
    frame = report_tables.operators(report)
    assert frame["Share of time"].sum() == pytest.approx(100.0, rel=1e-9)
    assert len(frame) == len(report.ops) + len(report.other)
    name, _, spans = glossary.timelines(report)[0]
    assert name == "Timeline of a request"
    assert sum(span.duration_s for span in spans) == pytest.approx(report.latency_s, rel=1e-9)
    for row in report_tables.by_time(report):
        assert report_tables.detail(row, report, larger=False)


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_what_stays_on_the_chip_stands_under_no_roof_of_the_memory_beside_it(precision):
    """Norms find their input in the cache; a residual is added where a product's result lies."""
    asked = {"inputs": 1024, "outputs": 1024, "scheme": "tensor", "devices": 4, "precision": precision}
    report = evaluate(Scenario(system="h100-sxm", workload="llama3.1-70b", **asked))
    under_its_roof(report)
    placed = {(p.op.name, p.op.phase): p for p in points(report)}
    assert {placed[name, "prefill"].level for name in ("norm1", "norm2")} == {""}
    at = placed["residual1", "prefill"]
    assert at.op.flops / at.op.time_s <= at.intensity * report.roofline.levels[0][2]
