"""Breakdown, timeline lanes and operator rows are three views of one latency, for every preset and at random."""

import random
import sys
from collections import defaultdict
from functools import cache

import pytest

from engine import choices, default_scenario, evaluate
from engine.cost import headline
from engine.cost import report as reports
from engine.cost.assemble import assemble
from engine.cost.best_plan import make_plan
from engine.devices.common.contract import RESOURCES, Unsupported
from engine.resolve.bind import bind
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario, ScenarioError
from engine.traffic.scenario_load import service_table
from hardware_specs import default_catalog
from model_zoo.catalog import default_zoo
from tests.each import each
from tests.effort import examples


@cache
def random_scenarios(count: int, seed: int) -> tuple[Scenario, ...]:
    """Scenarios of any system, workload, precision, partition, batch and switches that run."""
    draw, result = random.Random(seed), []
    systems, workloads = default_catalog().ids("systems"), default_zoo().ids()
    while len(result) < count:
        try:
            base = default_scenario(draw.choice(systems), draw.choice(workloads))
            offered = choices(base)
            scheme = draw.choice(offered.schemes)
            base = base.with_(
                batch=draw.choice((1, 1, 2, 8, 32)),
                precision=draw.choice(offered.formats),
                scheme=scheme,
                devices=draw.choice(offered.device_counts),
                streams=draw.choice(offered.stream_counts),
                outputs=min(base.outputs, draw.choice((1, 2, 17))),
                split=draw.randrange(len(offered.splits) + 1) if scheme == "split" else 0,
                switches={s.name: draw.random() < 0.5 for s in offered.switches},
            )
            evaluate(base)
        except (ScenarioError, Unsupported):
            continue
        result.append(base)
    return tuple(result)


def agree(scenario: Scenario) -> None:
    report = evaluate(scenario)
    lanes: dict[str, float] = defaultdict(float)
    for span in report.lanes:
        lanes[span.resource] += span.duration_s
    rows: dict[str, float] = defaultdict(float)
    for op in report.ops:
        for resource, seconds in op.resources.items():
            rows[resource] += seconds
    for other in report.other:
        rows[other.resource] += other.time_s
    near = 1e-9 * report.latency_s
    assert sum(report.breakdown.values()) == pytest.approx(report.latency_s, rel=1e-9)
    for resource in RESOURCES:
        assert rows[resource] == pytest.approx(report.breakdown[resource], rel=1e-9, abs=near), resource
        assert lanes[resource] == pytest.approx(report.breakdown[resource], rel=1e-9, abs=near), resource
    assert max(s.start_s + s.duration_s for s in report.lanes) == pytest.approx(report.latency_s, rel=1e-9)
    ends = 0.0
    for span in report.lanes:
        assert span.start_s == pytest.approx(ends, rel=1e-9, abs=near)
        ends = span.start_s + span.duration_s


@each("id", PRESETS)
def test_breakdown_lanes_and_rows_agree_for_every_preset(id: str) -> None:
    agree(PRESETS[id].scenario)


@pytest.mark.parametrize("part", range(10))
def test_breakdown_lanes_and_rows_agree_at_random(part: int) -> None:
    for scenario in random_scenarios(examples(50), part):
        agree(scenario)


@each("id", PRESETS)
def test_what_limits_a_scenario_has_one_name(id):
    """In the verdict, in plain data and in what Compare shows; a family that tries what would help names that."""
    report = evaluate(PRESETS[id].scenario)
    assert report.problems or f" by **{report.limited_by}**" in report.verdict
    assert report.to_dict()["limited_by"] == report.limited_by
    if id == "brainwave-gru":
        assert (report.limited_by, service_table(report.scenario).bound) == ("the dependence of steps",) * 2


def test_what_would_help_is_tried_when_it_is_read_and_once(monkeypatch):
    """It was half of the time of every `evaluate` of an NPU, read or not."""
    tried, limit_of = [], headline.limit_of
    monkeypatch.setattr(headline, "limit_of", lambda *given: tried.append(given) or limit_of(*given))
    report = evaluate(PRESETS["brainwave-gru"].scenario)
    assert tried == []
    assert report.limited_by in report.verdict
    report.to_dict()
    assert len(tried) == 1


@each("id", PRESETS)
def test_an_answer_prices_every_stage_in_detail_once(id: str) -> None:
    """What is only tried beside it, as other tiles or fewer devices, is asked for its pace alone."""
    scenario, asked = PRESETS[id].scenario, []
    bound = bind(scenario)
    stages = assemble(bound, make_plan(bound)).priced
    prices = {stage.family.price.__code__ for stage in stages}
    evaluate(scenario)  # remembers what the scenario takes without its what-ifs

    def count(frame, event, _):
        if event == "call" and frame.f_code in prices and frame.f_locals.get("detail", True):
            asked.append(1)

    sys.setprofile(count)
    try:
        assert evaluate(scenario).assumptions
    finally:
        sys.setprofile(None)
    assert len(asked) == sum(len(stage.runs) for stage in stages)


def test_fewer_devices_are_tried_when_somebody_reads_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, work = [], reports.fewer_devices
    monkeypatch.setattr(reports, "fewer_devices", lambda *given: tried.append(given) or work(*given))
    report = evaluate(default_scenario("h100-sxm", "bert-large", devices=4, scheme="tensor"))
    assert not tried
    sooner = "One device alone would answer in "
    assert [one.text for one in report.assumptions if one.text.startswith(sooner)] == [
        one["text"] for one in report.to_dict()["assumptions"] if one["text"].startswith(sooner)
    ]
    assert report.assumptions[-1].text.startswith(sooner)
    assert len(tried) == 1
