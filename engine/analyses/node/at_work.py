"""A node of cards at work, as data for a page: its links with their load.

Everything here is `evaluate` or its parts asked again with one thing changed; no figure is made elsewhere. Estimates.
"""

from collections import defaultdict
from dataclasses import dataclass

from engine.scenario import Scenario
from engine.traffic.scenario_load import priced


@dataclass(frozen=True)
class LinkLoad:
    """One direction of one link at the reported throughput."""

    name: str
    role: str
    way: str  # in: towards the cards
    alike: int  # links of this kind
    bytes_per_request: float  # over all of them [B]
    bytes_per_s: float  # over one of them
    bandwidth: float  # usable, of one [B/s]

    @property
    def utilisation(self) -> float:
        """Share of the usable rate. [-]"""
        return self.bytes_per_s / self.bandwidth


def links(scenario: Scenario) -> tuple[LinkLoad, ...]:
    """Load of each direction of each kind of link, at the throughput that `evaluate` reports. [B], [B/s]"""
    _, plan, times = priced(scenario)
    requests = scenario.streams * plan.replicas / times.interval_s
    size: dict[tuple[str, str, str], float] = defaultdict(float)
    alike: dict[tuple[str, str, str], int] = {}
    rate: dict[tuple[str, str, str], float] = {}
    for hop in plan.hops:
        key = (hop.wire.link.name, hop.wire.role, hop.way)
        size[key] += hop.bytes_per_message * hop.messages
        alike[key] = max(alike.get(key, 1), hop.alike)
        rate[key] = hop.wire.link.usable
    return tuple(
        LinkLoad(*key, alike[key], moved, moved / alike[key] * requests, rate[key]) for key, moved in size.items()
    )


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
