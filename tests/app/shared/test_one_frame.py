"""Roofs and points stand in one frame: no operator of a device does more than its device can."""

import pytest

from app.shared import glossary, report_tables
from app.shared.figures.roofline import points
from engine.evaluate import evaluate
from engine.resolve.presets import PRESETS
from tests.laws.cost.test_views_agree import random_scenarios


def under_its_roof(report) -> None:
    peak = max(report.roofline.peak_flops_per_s, *(op.peak_flops_per_s * report.scenario.streams for op in report.ops))
    for p in points(report):
        assert p.rate <= peak * (1 + 1e-6), p.op.name
        if report.scenario.streams > 1:  # the share of one stream's peak and of all streams' roof are one
            assert p.rate / report.scenario.streams == pytest.approx(p.op.flops / p.op.time_s)


@pytest.mark.parametrize("id", PRESETS)
def test_points_stand_under_the_roof_of_their_device(id):
    under_its_roof(evaluate(PRESETS[id].scenario))


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
    for row in report_tables.ordered(report):
        assert report_tables.detail(row, report, larger=False)
