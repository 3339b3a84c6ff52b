"""A request of many items goes through a recommender in batches: its size and the batch are two settings."""

import math

import pytest

from engine.evaluate import evaluate
from engine.resolve.choices import default_scenario
from engine.traffic import TrafficError
from engine.traffic.arrangements import stages
from engine.traffic.scenario_load import priced, service_table, sized
from tests.each import each

MORE = "dlrm-more-complex"
NODE = default_scenario("fb-node", MORE)


@each("items", [1, 47, 48, 49, 150, 165, 180, 4800])
@each("switches", [{}, {"in-flight": False}, {"overlap": False}])
def test_a_request_is_its_batches_an_interval_apart(items, switches):
    one = NODE.with_(switches={**NODE.switches, **switches})
    batch, request = priced(one)[2], priced(one.with_(inputs=items))[2]
    many = max(1, math.ceil(items / one.batch))
    assert request.latency_s == pytest.approx(batch.latency_s + (many - 1) * batch.interval_s, rel=1e-12)
    assert request.interval_s == pytest.approx(many * batch.interval_s, rel=1e-12)
    full = max(items, one.batch) / (many * one.batch)  # the last batch is computed whole
    assert request.units_per_s == pytest.approx(full * batch.units_per_s, rel=1e-12)


@pytest.mark.parametrize("system", ["fb-node", "fb-card", "xeon-8280l", "t4"])
@pytest.mark.parametrize("workload", [MORE, "dlrm-less-complex"])
def test_the_parts_of_a_request_of_many_batches_add_up(system, workload):
    report = evaluate(default_scenario(system, workload, inputs=165))
    assert sum(report.breakdown.values()) == pytest.approx(report.latency_s)
    assert report.lanes[-1].start_s + report.lanes[-1].duration_s == pytest.approx(report.latency_s)
    assert "165 items in 4 batches" in report.verdict or not report.fits
    assert all(0 <= link.utilisation <= 1 for link in report.links)


def test_a_batch_that_divides_a_request_wastes_nothing():
    """Three batches of 55 carry more than four of 48, whose last computes for 27 that nobody asked."""
    even, ragged = (evaluate(NODE.with_(inputs=165, batch=batch)) for batch in (55, 48))
    assert even.throughput_per_s > 1.1 * ragged.throughput_per_s


def test_more_requests_of_many_items_in_a_launch_are_more_items():
    request = NODE.with_(inputs=165)
    assert (sized(request, "inputs", None, 3).inputs, sized(request, "inputs", None, 3).batch) == (495, 48)
    assert sized(request, "items", 100).inputs == 100
    assert sized(NODE, "items", 100).batch == 100
    table = service_table(request, 2)
    assert table.latency_s is not None
    assert table.latency_s[0, 0] == priced(request)[2].latency_s


def test_stages_in_a_row_refuse_a_request_of_several_batches():
    assert len(stages(NODE).stations) > 2
    with pytest.raises(TrafficError, match=r"inputs is 165: .* at most its 48 items"):
        stages(NODE.with_(inputs=165))
