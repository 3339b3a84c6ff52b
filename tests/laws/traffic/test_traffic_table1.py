"""Document 000, table I: every model keeps its latency limit, at a load that follows from what `evaluate` says."""

import pytest

from engine.evaluate import evaluate
from engine.kernels.jit import JIT_ENABLED
from engine.resolve.choices import default_scenario
from engine.traffic import Poisson, Sla, capacity, closed_forms, max_qps, simulate
from engine.traffic.serving import Serving

pytestmark = pytest.mark.skipif(not JIT_ENABLED, reason="statistics need the compiled engine's speed")

# workload, whether it takes the whole node, items of a request, limit [s]: 41 to 50 of the 150 to 180 items of a
# ranking request travel in a batch, and the 100 ms are those of a batch
TABLE_1 = {
    "dlrm-less-complex": (True, 48, 0.1),
    "dlrm-more-complex": (True, 48, 0.1),
    "resnext101-32x4d": (False, 1, 1.0),
    "regnety-128gf": (False, 1, 1.0),
    "fbnetv3-detection": (False, 1, 0.3),
    "resnext3d-101": (False, 1, 0.35),
    "xlm-r-large": (False, 1, 0.2),
}


def scenario_of(workload: str):
    whole_node, items, _ = TABLE_1[workload]
    return default_scenario("fb-node", workload, batch=items, **({} if whole_node else {"scheme": "replicas"}))


@pytest.mark.parametrize("workload", TABLE_1)
def test_load_at_the_latency_limit_and_idle_latency_follow_from_evaluate(workload: str) -> None:
    scenario, limit = scenario_of(workload), TABLE_1[workload][2]
    report = evaluate(scenario)
    system, sizes, _ = Serving().of(scenario)
    top = capacity(system, sizes)
    assert report.latency_s < limit  # section VII: all of them are served within the budget
    assert top.qps * scenario.batch == pytest.approx(report.throughput_per_s, rel=1e-9)
    idle = simulate(system, Poisson(0.01 * top.qps), sizes=sizes, requests=3_200)
    assert idle.latency.p50.value == pytest.approx(report.latency_s, rel=0.02)
    best = max_qps(system, Sla(limit), Poisson(1.0), sizes=sizes, requests=400_000, seed=1)
    assert 0.8 * top.qps < best.qps < top.qps  # the limits lie far above the idle latency, so nearly all of it
    assert best.report.latency.p99.value <= limit
    assert best.sure_qps <= best.qps <= best.hopeless_qps
    station = system.stations[0].service
    if station.servers == 1:  # a pipeline answers so much later than its queue alone
        hold = float(station.hold_s[0, 0])
        rest = report.latency_s - hold
        assert best.sure_qps * 0.999 <= exact_qps(hold, limit - rest) <= best.hopeless_qps * 1.001


def exact_qps(service_s: float, limit_s: float) -> float:
    """Load at which p99 of an M/D/1 queue is the limit, by bisection. [1/s]"""
    lo, hi = 0.0, 0.9999 / service_s
    for _ in range(60):
        middle = 0.5 * (lo + hi)
        lo, hi = (middle, hi) if closed_forms.md1(middle, service_s).quantile(0.99) <= limit_s else (lo, middle)
    return lo


def test_recommendation_runs_at_more_batches_a_second_than_content_understanding() -> None:
    """Section VII: lower latency and higher QPS per batch, all on the whole node."""
    rate = {w: evaluate(scenario_of(w)).throughput_per_s / TABLE_1[w][1] for w in TABLE_1}
    ranking = [w for w in TABLE_1 if w.startswith("dlrm")]
    assert min(rate[w] for w in ranking) > max(rate[w] for w in TABLE_1 if w not in ranking)
