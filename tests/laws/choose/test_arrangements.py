"""Is every way to share a network tried, and is the answer the cheapest that the calendar lets pass?"""

from itertools import product
from math import inf
from operator import attrgetter

import numpy as np
import pytest

from engine import default_scenario
from engine.choose import Question, Served, choose, simulation
from engine.choose.candidates import HOST_USD, candidates
from engine.choose.serving import Refusal, offers
from engine.choose.simulation import load_of, scheduler_of, under_load
from engine.cost.continuous import _largest
from engine.scenario import ScenarioError
from engine.traffic.engines.calendar import ClosedLoop
from engine.traffic.engines.operating_points import engine
from hardware_specs.catalog import default_catalog
from model_zoo.catalog import default_zoo
from tests.each import each

CATALOG, ZOO = default_catalog(), default_zoo()
MIXTRAL = {"workload": "mixtral-8x7b", "inputs": 1024, "outputs": 512, "tpot_s": 0.03, "systems": ("mi300x",)}
DENSE = {"workload": "llama3.1-70b", "inputs": 1024, "outputs": 1024, "systems": ("l40s",)}


def priced(question: Question, format: str) -> list[Served]:
    """Every legal arrangement of a system in a format, by hand."""
    found, id = [], question.systems[0]
    numbers, mixture = (None, 2, 4, 8), question.workload == MIXTRAL["workload"]
    for count, stages, ranks, experts in product((1, *numbers[1:]), numbers, *[numbers if mixture else (None,)] * 2):
        ways = {"pipeline_parallel": stages, "attention_dp": ranks, "expert_parallel": experts}
        try:
            start = default_scenario(id, question.workload, inputs=question.inputs, outputs=question.outputs,
                                     batch=1, devices=count, scheme="tensor", precision=format, **ways,
                                     costs={"host_usd": HOST_USD})  # fmt: skip
            found += [o for o in offers(question, start, CATALOG, ZOO) if isinstance(o, Served)]
        except ScenarioError:
            continue
    return found


@each("asked", [MIXTRAL, DENSE, DENSE | {"tpot_s": 0.08}, DENSE | {"tpot_s": 0.1, "users": 40}])
def test_no_legal_arrangement_that_passes_is_cheaper(asked) -> None:
    """Stages and ranks between one and all were not tried: 4 of an L40S cost 80% more than in a pipeline."""
    question = Question(**asked)
    (row,) = choose(question).rows
    assert row.best is not None
    money = attrgetter("total_usd_per_hour" if question.demands else "usd_per_million")
    by_hand = priced(question, row.best.scenario.precision)
    cheaper = [o for o in by_hand if money(o) < money(row.best) * (0.98 if question.demands else 1 - 1e-9)]
    assert all(isinstance(under_load(question, offer), Refusal) for offer in cheaper)
    plain = [o for o in by_hand if not o.start.pipeline_parallel and o.start.attention_dp == o.start.expert_parallel]
    assert money(row.best) <= 1.02 * min(map(money, plain), default=inf)


def test_what_is_tried_is_legal_and_has_every_divisor() -> None:
    ((_, layouts),) = candidates(Question(**MIXTRAL), CATALOG, ZOO)
    ways = {(w["pipeline_parallel"], w["attention_dp"], w["expert_parallel"]) for w in layouts[-1].ways}
    assert {(2, 2, 2), (2, None, 4), (8, None, None), (None, 4, 2), (None, 8, None), (4, 2, 2)} <= ways
    assert all((stages or 1) * (ranks or 1) <= 8 for stages, ranks, _ in ways)
    ((_, dense),) = candidates(Question(**DENSE), CATALOG, ZOO)
    assert {tuple(w.values()) for w in dense[-1].ways} == {(n, None, None) for n in (2, 4, 8)}


def test_equal_runs_are_one(monkeypatch) -> None:
    simulation._figures.cache_clear()
    start = default_scenario("h100-sxm", "llama3.1-8b", inputs=512, outputs=64, batch=1, costs={"host_usd": HOST_USD})
    question = Question(workload="llama3.1-8b", inputs=512, outputs=64, qps=1.0)
    found = [o for o in offers(question, start, CATALOG, ZOO) if isinstance(o, Served)][:3]
    assert len({o.batch for o in found}) == 3
    assert len({under_load(question, o) for o in found}) == 1
    assert simulation._figures.cache_info().misses == 1


@each("workload", ["deepseek-r1", "gpt-oss-120b"])
def test_all_attention_ranks_wait_for_the_one_that_reads_a_prompt(workload) -> None:
    """With prompts taken as evenly spread, 16 ranks of DeepSeek-R1 had 37% too short times at 256 requests."""
    count, system, format = (16, "gb200-nvl72", "fp8") if workload == "deepseek-r1" else (8, "h200-sxm", "fp8")
    start = default_scenario(system, workload, inputs=4096, outputs=1024, batch=1, scheme="tensor", devices=count,
                             expert_parallel=count, attention_dp=count, precision=format)  # fmt: skip
    question = Question(workload=workload, inputs=4096, outputs=1024)
    point = next(o for o in offers(question, start, CATALOG, ZOO) if isinstance(o, Served) and o.batch == 256)
    load = load_of(question, point)
    assert isinstance(load, ClosedLoop)
    report = engine(point.scenario.with_(batch=1), scheduler_of(point), {}).at(load, 1024).report
    assert point.joined.tpot_s == pytest.approx(report.tpot.mean.value, rel=0.15)


@each("count", [0.01, 3.0, 40.0, 5000.0, 1e9])
def test_the_rank_with_most_prompts_has_its_share_and_no_more_than_all(count) -> None:
    for ranks in (2, 16, 64):
        assert count / ranks <= _largest(count, ranks) <= count
    rng = np.random.default_rng(0)
    drawn = rng.poisson(count / 16, (2000, 16)).max(axis=1).mean()
    assert _largest(count, 16) == pytest.approx(drawn, rel=0.1, abs=0.02)


def test_instances_share_a_host() -> None:
    """Alone each paid for a whole one: 1 GeForce RTX 5090 cost as much as its host."""
    alone, four = (
        choose({"workload": "resnet50", "systems": ["rtx-5090"], "qps": qps}).rows[0].best for qps in (100.0, 2e5)
    )
    assert alone.instances == 1
    assert alone.scenario.costs.host_usd == HOST_USD
    assert four.instances > 4
    assert four.scenario.costs.host_usd == pytest.approx(HOST_USD * -(-four.instances // 4) / four.instances)
    (full,) = choose({"workload": "resnet50", "systems": ["rtx-5090"]}).rows
    assert full.best.scenario.costs.host_usd == HOST_USD / 4
    assert full.report.usd_per_million == pytest.approx(full.best.usd_per_million, rel=1e-12)
