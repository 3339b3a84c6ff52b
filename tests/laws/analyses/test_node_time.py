"""Requests in flight contend for the links that they share."""

import pytest

from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario


def _node(workload: str, **changes) -> Scenario:
    return default_scenario("fb-node", workload, **changes)


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
