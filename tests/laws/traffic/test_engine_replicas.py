"""Which devices serve a language model, and what of its cache they hold."""

from engine import default_scenario
from engine.traffic.engines.calendar import ClosedLoop
from engine.traffic.engines.operating_points import engine
from engine.traffic.engines.scheduler import POLICIES


def test_each_card_with_the_whole_network_is_a_replica() -> None:
    scenario = default_scenario("fb-node", "gpt2-1.5b", scheme="replicas", devices=6)
    assert engine(scenario, POLICIES["vllm"], {}).scheduler.replicas == 6


def test_a_cache_is_counted_where_short_prompts_lie_on_fewer_devices() -> None:
    """Two FPGAs have the prompt of 127 tokens that one has at a token: the Load page fell over."""
    scenario = default_scenario("brainwave-s10", "gpt2-1.5b", scheme="pinned", devices=2)
    assert engine(scenario, POLICIES["vllm"], {}).at(ClosedLoop(1)).report.requests == 64
