"""Requests in flight: no unit does two things at once, the first lasts the reported latency."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest

from engine.analyses.node.timeline import NodeTimeline, timeline
from engine.cost.best_plan import make_plan
from engine.evaluate import evaluate
from engine.resolve.bind import bind
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario


def _with(scenario: Scenario, **on: bool) -> Scenario:
    return scenario.with_(switches={**scenario.switches, **{k.replace("_", "-"): v for k, v in on.items()}})


def _node(workload: str, **changes) -> Scenario:
    return default_scenario("fb-node", workload, **changes)


DLRM = _node("dlrm-more-complex")
SCENARIOS = {
    "recommendation": DLRM,
    "smaller recommendation": _node("dlrm-less-complex"),
    "through the host": _with(DLRM, peer_to_peer=False),
    "sharded layers": _with(DLRM, shard_fc=True),
    "nothing overlaps": _with(DLRM, overlap=False),
    "text on one card": _node("xlm-r-large"),
    "text on six": _node("xlm-r-large", scheme="replicas"),
    "text over six": _node("xlm-r-large", scheme="tensor"),
    "text, embedding on the host": _with(_node("xlm-r-large", scheme="replicas"), host_embedding=True),
    "images, four streams": _node("resnext101-32x4d", scheme="replicas", streams=4),
    "detector in two nets": _with(_node("fbnetv3-detection", scheme="replicas"), two_nets=True),
    "clips decoded on the host": _with(_node("resnext3d-101", scheme="replicas"), host_decode=True),
    "clips decoded by hardware": _with(_node("resnext3d-101", scheme="replicas"), hardware_decode=True),
    "detector on a lone card": _with(default_scenario("fb-card", "fbnetv3-detection"), two_nets=True),
}


def _ends(bars, key) -> dict[object, list[tuple[float, float]]]:
    found = defaultdict(list)
    for bar in bars:
        found[key(bar)].append((bar.start_s, bar.start_s + bar.duration_s))
    return {name: sorted(spans) for name, spans in found.items()}


def _request(bar) -> int:
    return int(bar.name.rpartition(" ")[2])


@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_is_used_twice_at_once_and_the_first_request_lasts_the_latency(name):
    found: NodeTimeline = timeline(SCENARIOS[name], requests=9)
    report = evaluate(SCENARIOS[name])
    for unit, spans in _ends(found.bars, lambda bar: bar.unit).items():
        for (_, end), (start, _) in pairwise(spans):
            assert start >= end - 1e-12, unit
    lasts = [max(e for _, e in spans) - min(s for s, _ in spans) for spans in _ends(found.bars, _request).values()]
    assert len(lasts) == 9
    assert lasts[0] == pytest.approx(report.latency_s, rel=1e-9) == pytest.approx(found.latency_s)
    assert all(last >= report.latency_s * (1 - 1e-9) for last in lasts)
    assert report.throughput_per_s == pytest.approx(SCENARIOS[name].batch / found.interval_s)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_core_is_a_card_s_own(name):
    found = timeline(SCENARIOS[name], requests=3, shown=2)
    cores = {bar.unit for bar in found.bars if bar.unit.startswith(f"card {found.shown}, core ")}
    numbers = {int(unit.rpartition(" ")[2]) for unit in cores}
    assert numbers <= set(range(1, 13))
    assert len(numbers) >= 3


def test_bytes_on_a_row_are_those_of_the_plan():
    found = timeline(DLRM, requests=1)
    plan = make_plan(bind(DLRM))
    rows = {bar.unit for bar in found.bars if bar.resource == "links"}
    wanted = {"network in", "network out", "host link in", "host link out"}
    assert wanted | {f"card {k} link in" for k in range(1, 7)} <= rows
    for hop in plan.hops:
        if hop.wire.role == "peer" and hop.shares:
            own = [b for b in found.bars if b.name.startswith(f"{hop.name},") and b.unit.endswith(f"link {hop.way}")]
            assert len(own) >= 6


def test_a_link_that_streams_share_is_not_crossed_twice_at_once():
    """Streams of one card divide its cores, not its link: with a slow link more streams gain nothing."""
    slow = {"links.peer.bandwidth": 5e6}
    one = _node("resnext101-32x4d", scheme="replicas", overrides=slow)
    rates = [evaluate(one.with_(streams=n)).throughput_per_s for n in (1, 4)]
    assert rates[1] == pytest.approx(rates[0], rel=1e-6)
    report = evaluate(one)
    assert max(row.utilisation for row in report.links if row.role == "peer") == pytest.approx(
        1.0, rel=1e-3
    )  # starts carry no bytes


def test_cards_contend_for_the_hosts_link():
    narrow = {"links.host.bandwidth": 30e6}
    rates = [
        evaluate(_node("resnext101-32x4d", scheme="replicas", devices=n, overrides=narrow)).throughput_per_s
        for n in (1, 3, 6)
    ]
    assert rates[0] <= rates[1] * (1 + 1e-9)
    assert rates[1] == pytest.approx(rates[2], rel=1e-6)
