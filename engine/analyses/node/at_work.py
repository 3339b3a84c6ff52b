"""A node of cards at work, as data for a page: its links with their load.

Everything here is `evaluate` or its parts asked again with one thing changed; no figure is made elsewhere. Estimates.
"""

from collections import defaultdict
from dataclasses import dataclass

from engine.scenario import Scenario
from engine.traffic.scenario_load import priced


@dataclass(frozen=True)
class LinkLoad:
    """Links of a kind in one direction at the reported throughput."""

    role: str
    way: str  # in: towards the cards
    bytes_per_request: float  # over all of them [B]
    utilisation: float  # share of the usable rate of one [-]


def links(scenario: Scenario) -> tuple[LinkLoad, ...]:
    """Load of each direction of each kind of link, at the throughput that `evaluate` reports. [B], [-]"""
    _, plan, times = priced(scenario)
    requests, kinds = scenario.streams * plan.replicas / times.interval_s, defaultdict(list)
    for hop in plan.hops:
        kinds[hop.wire.link.name, hop.wire.role, hop.way].append(hop)
    loads = []
    for (_, role, way), hops in kinds.items():
        moved = sum(hop.bytes_per_message * hop.messages for hop in hops)
        each = moved / max(1, *(hop.alike for hop in hops)) * requests
        loads.append(LinkLoad(role, way, moved, each / hops[-1].wire.link.usable))
    return tuple(loads)


def on_links(scenario: Scenario, between_cards: bool = False) -> dict[str, float]:
    """Bytes a request puts on PCIe, every link it crosses counted, by role of the link; both directions. [B]

    With `between_cards` only tensors that one card makes and another needs are counted, not the request's own inputs
    and answer: what document 000 calls the communication of tensors between devices.
    """
    result: dict[str, float] = {"host": 0.0, "peer": 0.0}
    for hop in priced(scenario)[1].hops:
        if hop.wire.role in result and (not between_cards or hop.name.startswith("pooled")):
            result[hop.wire.role] += hop.bytes_per_message * hop.messages
    return result
