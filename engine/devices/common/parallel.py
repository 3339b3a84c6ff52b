"""Ways to share a decoder that a scenario may set beside tensor parallelism, and which values of each are legal.

Devices make pipeline stages of equal size. The devices of a stage make attention ranks, each with requests of its own;
those of a rank make groups, each with a part of every request's tokens (context parallelism); those of a group share
every operator (tensor parallelism). Routed experts may go whole to ranks of their own, cut over what devices are left
to each. So devices = pipeline stages x attention ranks x groups of a context x tensor ways.
"""

from collections.abc import Callable, Mapping
from typing import Any

from engine.devices.common.setting import PricedField
from engine.scenario import Scenario
from engine.scenario.configuration import stage_devices
from model_zoo.ops import Graph

_OVER = tuple(f"{percent}%" for percent in (5, 10, 20, 30, 50, 75, 100, 150, 200))


def experts_of(graph: Graph) -> int:
    """Routed experts of a layer, the fewest of any; 0 where a network has none. [-]"""
    return int(min((e for op in graph.ops if (e := op.attribute("experts"))), default=0))


def _divisors(count: int) -> tuple[int, ...]:
    return tuple(n for n in range(2, count + 1) if count % n == 0)


def _stages(graph: Graph, scenario: Scenario) -> tuple[int, ...]:
    layers = sum({op.layers for op in graph.phases[0].ops if op.layers > 1})
    within = scenario.devices // ((scenario.attention_dp or 1) * (scenario.context_parallel or 1))
    return tuple(n for n in _divisors(within) if n <= layers and scenario.devices % n == 0) if graph.causal else ()


def _ranks(graph: Graph, scenario: Scenario) -> tuple[int, ...]:
    return _divisors(stage_devices(scenario) // (scenario.context_parallel or 1)) if graph.causal else ()


def _contexts(graph: Graph, scenario: Scenario) -> tuple[int, ...]:
    state = graph.state_elements.terms
    grows = all(term.c for term in state) and all(phase.context.o for phase in graph.phases if phase.repeat.o)
    dealt = graph.causal and len(state) > 0 and grows
    return _divisors(stage_devices(scenario) // (scenario.attention_dp or 1)) if dealt else ()


def _expert_ranks(graph: Graph, scenario: Scenario) -> tuple[int, ...]:
    experts = experts_of(graph)
    return tuple(n for n in _divisors(stage_devices(scenario)) if experts and experts % n == 0)


def _copies(graph: Graph, scenario: Scenario) -> tuple[int, ...]:
    ranks = scenario.expert_parallel or 1
    return tuple(range(ranks, min(experts_of(graph), 8 * ranks) + 1, ranks)) if ranks > 1 else ()


def _field(needs: str, offers: Callable[[Graph, Scenario], tuple[Any, ...]], assumption: str) -> PricedField:
    return PricedField(needs, assumption, offers=offers, schemes=("tensor",))


PARALLEL: Mapping[str, PricedField] = {
    "pipeline_parallel": _field(
        "device left that some of its layers could go to",
        _stages,
        "Layers of each kind are dealt evenly over pipeline stages; a batch is on one of them at a time, and as many "
        "batches as stages are under way, each with its cache.",
    ),
    "attention_dp": _field(
        "device left that could attend to requests of its own",
        _ranks,
        "Attention ranks have as many requests each, the fullest a part of one more, and wait for one another; what "
        "they share takes in the tokens of all, which a gather before and a scatter after it exchange.",
    ),
    "context_parallel": _field(
        "device left, or state beside keys and values that grow with the context, which one token passes to the next",
        _contexts,
        "Groups of a context have all weights each. Keys and values of a prompt are gathered before attention, not "
        "hidden behind it; partial results of a token go to the group that has its request, in 16 bits, with the sum "
        "of exponentials of each head in 32. No measurement at hand checks it.",
    ),
    "expert_parallel": _field(
        "routed experts whose number divides over its devices",
        _expert_ranks,
        "Ranks of experts receive a token once for all that it picks there, in the format that experts compute in, and "
        "answer in 16 bits; where all devices hold every token they only add up.",
    ),
    "expert_imbalance": _field(
        "ranks of experts of their own",
        lambda graph, scenario: _OVER if scenario.expert_parallel else (),
        "The rank with most tokens has so much more than the mean, in arithmetic as in exchange; all wait for it.",
    ),
    "redundant_experts": _field(
        "ranks of experts of their own",
        _copies,
        "Second copies of the busiest experts halve, with one on every rank, what the busiest rank has above the mean; "
        "with two on every rank they leave a third.",
    ),
}
"""Fields of a family whose devices share decoders so."""
