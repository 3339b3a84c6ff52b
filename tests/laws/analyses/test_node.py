"""The node: bytes are conserved on its links, switches move what physics says, requests in flight never collide."""

from collections import defaultdict
from itertools import pairwise

import pytest

from engine.analyses.node import at_work
from engine.evaluate import evaluate
from engine.plan.embedding_shards import traffic
from engine.published.facebook_node import sparse_cores, without
from engine.resolve.bind import bind
from engine.resolve.choices import choices, default_scenario
from engine.resolve.presets import PRESETS
from engine.scenario import Scenario
from engine.traffic.scenario_load import priced
from model_zoo.catalog import default_zoo

CORES, LPDDR = "devices.0.card.cores", "devices.0.memory.lpddr.bandwidth"


def recommendation(**changes) -> Scenario:
    return default_scenario("fb-node", "dlrm-more-complex", **changes)


def moved(scenario: Scenario) -> dict[tuple[str, str], float]:
    return {(row.role, row.way): row.bytes_per_request for row in at_work.links(scenario)}


@pytest.mark.parametrize("p2p", [True, False])
def test_bytes_are_conserved_on_every_link(p2p):
    scenario = recommendation() if p2p else without(recommendation(), "peer-to-peer")
    found, t = moved(scenario), traffic(bind(scenario))
    through = 0.0 if p2p else t.pooled
    away = t.pooled * 5 / 6 if p2p else t.pooled
    assert found["network", "in"] == pytest.approx(t.arriving)
    assert found["host", "in"] == pytest.approx(t.indices + t.features + through)
    assert found["peer", "in"] == pytest.approx(t.indices + t.features + away)
    assert found["peer", "out"] == pytest.approx(away + t.output)
    assert found["host", "out"] == pytest.approx(through + t.output)
    assert found["network", "out"] == pytest.approx(t.output)
    assert all(0 < row.utilisation <= 1 for row in at_work.links(scenario))


@pytest.mark.parametrize(
    "scenario",
    [
        recommendation(),
        recommendation().with_(scheme="tensor", devices=4),
        PRESETS["brainwave-gru"].scenario.with_(scheme="replicas", devices=2),
    ],
    ids=lambda scenario: scenario.scheme,
)
def test_the_report_counts_the_same_bytes_and_the_busier_direction(scenario):
    """What cards exchange inside an operator too, and one copy's traffic on the links of a copy."""
    rows = {row.role: (row.bytes_per_request, row.utilisation) for row in evaluate(scenario).links}
    both, busier = defaultdict(float), defaultdict(float)
    for row in at_work.links(scenario):
        both[row.role] += row.bytes_per_request
        busier[row.role] = max(busier[row.role], row.utilisation)
    assert {role: size for role, (size, _) in rows.items()} == pytest.approx(dict(both))
    assert {role: share for role, (_, share) in rows.items()} == pytest.approx(dict(busier))


@pytest.mark.parametrize("switch", ["partial-tensors", "broadcast-on-card", "fp16-features"])
def test_each_saving_saves_its_bytes(switch):
    on, off = traffic(bind(recommendation())), traffic(bind(without(recommendation(), switch)))
    if switch == "fp16-features":
        assert off.features == 2 * on.features
        assert off.arriving > on.arriving
    else:
        assert off.indices > on.indices
        assert off.features == on.features


def test_command_batching_sends_one_transfer_a_card():
    on, off = traffic(bind(recommendation())), traffic(bind(without(recommendation(), "command-batching")))
    assert (on.commands, off.commands) == (6, 320)
    assert on.indices == off.indices
    assert evaluate(without(recommendation(), "command-batching")).latency_s > evaluate(recommendation()).latency_s


def told(scenario: Scenario) -> tuple[float, float, float, float]:
    """Of a request: interval, latency, and the time of its two parts. [s]"""
    _, _, times = priced(scenario)
    return times.interval_s, times.latency_s, *(part.time_s for part in times.priced)


def test_a_third_of_the_cores_is_the_best_split_and_the_sweep_says_so():
    rows = [(cores, *told(recommendation(tile=(cores,)))) for cores in range(1, 12)]
    assert tuple(cores for cores, *_ in rows) == choices(recommendation()).knobs[0].values
    assert min(rows, key=lambda row: row[1:3])[0] == 4 == sparse_cores(recommendation())
    assert all(a >= b * (1 - 1e-9) for (*_, a, _), (*_, b, _) in pairwise(rows))
    assert all(a <= b * (1 + 1e-9) for (*_, a), (*_, b) in pairwise(rows))


def test_longer_lists_need_more_cores_for_lookups():
    found = [sparse_cores(recommendation(params={"lookups": n})) for n in (2, 8, 32)]
    assert found == sorted(found)
    assert found[0] < found[-1]


def test_more_cores_keep_the_third_and_raise_the_rate():
    more = recommendation(overrides={CORES: 24})
    assert evaluate(more).throughput_per_s > evaluate(recommendation()).throughput_per_s
    assert 1 / 5 <= sparse_cores(more) / 24 <= 1 / 2


def test_mixed_tables_fit_six_cards_and_int8_ones_do_not():
    assert evaluate(recommendation()).fits
    assert not evaluate(without(recommendation(), "mixed-tables")).fits


@pytest.mark.parametrize("workload", ["dlrm-more-complex", "dlrm-less-complex"])
def test_overlap_data_parallelism_and_requests_in_flight_are_one_thing_each(workload):
    """Six cards serve six requests without overlap, too: each switch takes what is its own from the interval."""
    base = default_scenario("fb-node", workload)

    def left(*off: str) -> tuple[float, float, float, float]:
        return told(base.with_(switches={**base.switches, **dict.fromkeys(off, False)}))

    whole, _, sparse, dense = left()
    assert whole >= max(sparse, dense / 6)
    apart, _, sparse, dense = left("overlap")
    assert apart == pytest.approx(sparse + dense / 6, rel=1e-9)
    assert 1.0 < apart / whole < 2.0  # it was 9.8: one request at a time on six cards
    one, _, sparse, dense = left("data-parallel")
    assert one == pytest.approx(max(sparse, dense), rel=1e-9)
    assert 2.0 < one / whole < 6.0
    turn, latency, *_ = left("in-flight")
    assert turn == latency
    assert all(left(*off)[0] >= whole for off in (("overlap", "data-parallel"), ("overlap", "in-flight")))


def test_sharded_layers_take_the_dense_part_off_one_card():
    base = recommendation()
    sharded = base.with_(switches={**base.switches, "shard-fc": True})
    tile = (sparse_cores(base),)
    assert told(sharded.with_(tile=tile))[3] < told(base.with_(tile=tile))[3]
    assert any(row.name.startswith("gather") for row in evaluate(sharded).other)


TABLE_ONE = {
    "dlrm-less-complex": 0.1,
    "dlrm-more-complex": 0.1,
    "resnext101-32x4d": 1.0,
    "regnety-128gf": 1.0,
    "fbnetv3-detection": 0.3,
    "resnext3d-101": 0.35,
    "xlm-r-large": 0.2,
}


def test_the_limits_are_those_of_table_one():
    zoo = default_zoo()
    workloads = [zoo.workload(id) for id in zoo.ids()]
    assert {w.id: w.limit_s.value for w in workloads if w.limit_s is not None} == TABLE_ONE


@pytest.mark.parametrize(("workload", "limit"), TABLE_ONE.items())
def test_every_model_is_inside_its_limit(workload, limit):
    changes = {"inputs": 70} if workload == "xlm-r-large" else {"batch": 64} if "dlrm" in workload else {}
    report = evaluate(default_scenario("fb-node", workload, limits={"latency_s": limit}, **changes))
    assert not report.problems


def test_slower_memory_never_helps_the_node():
    assert evaluate(recommendation(overrides={LPDDR: 10e9})).latency_s >= evaluate(recommendation()).latency_s
