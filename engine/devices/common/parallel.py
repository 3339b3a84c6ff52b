"""Ways to share a decoder that a scenario may set beside tensor parallelism, and which values of each are legal.

Devices make pipeline stages of equal size. The devices of a stage make attention ranks, each with requests of its own;
those of a rank make groups, each with a part of every request's tokens (context parallelism); those of a group share
every operator (tensor parallelism). Routed experts may go whole to ranks of their own, cut over what devices are left
to each. So devices = pipeline stages x attention ranks x groups of a context x tensor ways.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engine.devices.common.setting import PricedField
from engine.scenario import Scenario
from engine.scenario.configuration import stage_devices
from entries.files import read_plain
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


_OFFERS: Mapping[str, Callable[[Graph, Scenario], tuple[Any, ...]]] = {
    "pipeline_parallel": _stages,
    "attention_dp": _ranks,
    "context_parallel": _contexts,
    "expert_parallel": _expert_ranks,
    "expert_imbalance": lambda _, scenario: _OVER if scenario.expert_parallel else (),
    "redundant_experts": _copies,
}
PARALLEL: Mapping[str, PricedField] = {
    name: PricedField(**texts, offers=_OFFERS[name], schemes=("tensor",))
    for name, texts in read_plain(Path(__file__).with_name("parallel.yaml")).items()
}
"""Fields of a family whose devices share decoders so."""
