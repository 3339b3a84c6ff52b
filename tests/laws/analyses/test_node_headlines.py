"""What document 000 reports comes out of the machine: change cores, lanes, memory or cards, and each figure moves."""

from collections.abc import Callable

import pytest

from engine.evaluate import evaluate
from engine.published.facebook_node import lookup_s, resident_bytes, saved_on_pcie, sparse_cores, without
from engine.resolve.choices import default_scenario
from engine.scenario import Scenario
from tests.each import each
from tests.laws.devices.test_card import slower

CORES, LANES, LPDDR = "devices.0.card.cores", "devices.0.card.vector_bits", "devices.0.memory.lpddr.bandwidth"
LINK = "links.peer.bandwidth"
Overrides = dict[str, float]


def _card(workload: str, set_: Overrides, **changes) -> Scenario:
    return default_scenario("fb-card", workload, overrides=set_, **changes)


def _node(set_: Overrides, **changes) -> Scenario:
    return default_scenario("fb-node", "dlrm-more-complex", overrides=set_, **changes)


def _pool_share(scenario: Scenario) -> float:
    report = evaluate(scenario)
    return sum(op.time_s for op in report.ops if op.kind == "GlobalAveragePool") / report.latency_s


def _int8(set_: Overrides) -> float:
    wide = _card("xlm-r-large", set_, inputs=32)
    return evaluate(wide).latency_s / evaluate(wide.with_(precision="int8")).latency_s


def _batch(set_: Overrides) -> float:
    one = _card("resnext101-32x4d", set_)
    return evaluate(one.with_(batch=4)).throughput_per_s / evaluate(one).throughput_per_s


def _balance(set_: Overrides) -> float:
    node = _node(set_, tile=(4,))
    return 1 - lookup_s(node) / lookup_s(without(node, "length-aware"))


FIGURES: dict[str, Callable[[Overrides], float]] = {
    "operators split": lambda set_: slower(_card("xlm-r-large", set_, inputs=32), "split-ops"),
    "pool share, kernels for every size": lambda set_: _pool_share(_card("regnety-128gf", set_)),
    "pool share, before": lambda set_: _pool_share(without(_card("regnety-128gf", set_), "large-pools")),
    "pool kernels": lambda set_: slower(_card("regnety-128gf", set_), "large-pools"),
    "batch of four": _batch,
    "INT8": _int8,
    "length-aware balance": _balance,
    "RegNetY latency": lambda set_: evaluate(_card("regnety-128gf", set_)).latency_s,
    "recommendation rate": lambda set_: evaluate(_node(set_)).throughput_per_s,
}


@each(
    ("figure", "path", "value", "rises"),
    [
        # splitting over cores pays with cores to split over, and less where memory is what is waited for
        ("operators split", CORES, 6, False),
        ("operators split", CORES, 24, True),
        ("operators split", LPDDR, 33.6e9, False),
        ("operators split", LPDDR, 134.4e9, True),
        # wider lanes shorten the vectorised pool and not the scalar one; slower memory hides both
        ("pool share, kernels for every size", LANES, 1024, False),
        ("pool share, before", LANES, 1024, True),
        ("pool share, before", CORES, 24, False),
        ("pool share, before", LPDDR, 33.6e9, False),
        ("pool kernels", LANES, 1024, True),
        ("pool kernels", LPDDR, 33.6e9, False),
        # a batch amortises starts: more so where work is done faster
        ("batch of four", CORES, 6, False),
        ("batch of four", CORES, 24, True),
        ("batch of four", LANES, 1024, True),
        # INT8 halves bytes: it pays where bytes are waited for
        ("INT8", LPDDR, 33.6e9, True),
        ("INT8", LPDDR, 134.4e9, False),
        ("INT8", LANES, 256, False),
        # faster rows leave the starts that no balance helps with
        ("length-aware balance", LANES, 1024, False),
        ("length-aware balance", LANES, 256, True),
        ("RegNetY latency", LPDDR, 134.4e9, False),
        ("RegNetY latency", CORES, 6, True),
        ("recommendation rate", CORES, 6, False),
        ("recommendation rate", LINK, 0.4e9, False),
    ],
)
def test_a_changed_card_moves_the_figure_the_way_physics_says(figure, path, value, rises):
    before, after = FIGURES[figure]({}), FIGURES[figure]({path: value})
    assert after != pytest.approx(before, rel=1e-3)
    assert (after > before) is rises


def test_the_best_split_follows_the_cores_and_the_work():
    assert sparse_cores(_node({CORES: 6})) == 2
    assert sparse_cores(_node({CORES: 24})) > sparse_cores(_node({})) == 4
    found = [sparse_cores(_node({}, params={"lookups": n})) for n in (2, 8, 32)]
    assert found == sorted(found)
    assert found[0] < found[-1]


def test_what_stays_off_the_links_follows_the_number_of_cards():
    """Card to card, a byte crosses two links instead of four, and one in as many as there are cards stays at home."""
    for cards in (2, 3, 6):
        scenario = _node({}, devices=cards)
        assert saved_on_pcie(scenario, True) == pytest.approx(1 - (cards - 1) / cards / 2)
    whole = saved_on_pcie(_node({}), False)
    assert 0.48 < whole < 0.5  # with the request's own inputs and answer
    assert saved_on_pcie(_node({}, params={"lookups": 32}), False) < whole  # indices cross either way


def test_sharded_weights_stay_on_as_many_cards():
    copied = default_scenario("fb-node", "xlm-r-large", scheme="replicas", devices=6, precision="fp16")
    once = resident_bytes(copied)
    assert resident_bytes(copied.with_(scheme="tensor")) / once == pytest.approx(6, rel=0.01)
    less = copied.with_(overrides={"devices.0.memory.sram.capacity": 2**21})
    assert resident_bytes(less) < once


@pytest.mark.parametrize(
    ("workload", "limit_s"),
    [("regnety-128gf", 1.0), ("fbnetv3-detection", 0.3), ("xlm-r-large", 0.2)],
)
def test_limits_are_met_by_the_card_and_not_by_any_card(workload, limit_s):
    def slow(set_: Overrides) -> float:
        return evaluate(_card(workload, set_)).latency_s

    clock = {f"devices.0.card.clock.{end}": 2e6 for end in ("min", "max")}
    assert slow({}) < limit_s < slow({LPDDR: 0.2e9, **clock})
