"""Stages that lie on the same cards fill one memory: what each needs adds up, in a report as in a sweep."""

import pytest

from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario, encode
from engine.sweep import figures_of, price, space_of
from engine.traffic.scenario_load import priced

CAPACITY = "devices.0.memory.lpddr.capacity"


def _node(workload: str, **changes) -> Scenario:
    return default_scenario("fb-node", workload).with_(**changes)


SHARED = [
    _node("dlrm-more-complex"),
    _node("dlrm-less-complex", switches={"overlap": False}),
    _node("dlrm-more-complex", switches={"data-parallel": False}),
    _node("dlrm-more-complex", switches={"shard-fc": True}),
    _node("dlrm-more-complex", host_tables="30%"),
    _node("fbnetv3-detection", switches={"two-nets": True}, scheme="replicas"),
    _node("resnext3d-101", switches={"host-decode": True}, scheme="replicas"),
]


def _each(scenario: Scenario) -> list[float]:
    """Bytes of LPDDR that the jobs of each stage on a card need. [B]"""
    parts = [p for p in priced(scenario)[2].priced if p.family.kind == "card" and p.runs]
    fits = [fit for p in parts for fit in p.family.place(p.runs[0].job)]
    return [fit.need_bytes for fit in fits if fit.level == "lpddr"]


@pytest.mark.parametrize("scenario", SHARED)
def test_a_card_holds_what_all_its_stages_need_or_it_does_not_fit(scenario: Scenario):
    together = sum(_each(scenario))
    row = [m for m in evaluate(scenario).memory if m.level == "lpddr"]
    assert [m.need_bytes for m in row] == [together]
    enough = [together * 0.9999, together, together * 1.0001]
    reports = [evaluate(scenario.with_(overrides={CAPACITY: room})) for room in enough]
    assert [r.fits for r in reports] == [False, True, True]
    assert "Does not fit: LPDDR on" in reports[0].problems[0]
    space = space_of({"scenario": encode(scenario), "axes": {CAPACITY: enough}, "constraints": []})
    _, _, unfit = price(space)
    assert unfit.tolist() == [not r.fits for r in reports]
    assert figures_of(space, 0)["fits"] == 0.0


def test_a_tier_behind_lpddr_leaves_room_for_the_dense_part():
    whole = _node("dlrm-more-complex", switches={"nvm-tier": True})
    tables, dense = _each(whole)
    room = tables + dense / 2
    report = evaluate(whole.with_(overrides={CAPACITY: room}))
    held = {m.level: m.need_bytes for m in report.memory if m.required}
    assert report.fits, report.problems
    assert held["nvm"] > 0.0
    assert held["lpddr"] <= room
