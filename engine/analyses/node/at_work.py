"""A node of cards at work: its links with their load, and time by kind of operator before and after each optimisation.

The latter is document 000's Table II for any scenario. Everything here is `evaluate` or its parts asked again with one
thing changed; no figure is made elsewhere. Estimates.
"""

from contextlib import suppress
from dataclasses import dataclass

from engine.cost.report import Report
from engine.cost.rows import loads_of, totals
from engine.evaluate import evaluate
from engine.resolve.bind import bind
from engine.scenario import Scenario
from engine.traffic.scenario_load import priced
from entries.schema import InputError


@dataclass(frozen=True)
class LinkLoad:
    """Links of a kind in one direction at the reported throughput."""

    role: str
    way: str  # in: towards the cards
    bytes_per_request: float  # over all of them [B]
    utilisation: float  # share of the usable rate of one [-]


def links(scenario: Scenario) -> tuple[LinkLoad, ...]:
    """Load of each direction of each kind of link, at the throughput that `evaluate` reports. [B], [-]"""
    loads = loads_of(priced(scenario)[2])
    return tuple(LinkLoad(role, way, *load) for (_, role, way), load in loads.items() if load[0])


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


@dataclass(frozen=True)
class KindColumn:
    """A request's time by kind of operator with every optimisation as the scenario has it, or with one turned over."""

    switch: str  # empty: as the scenario has it
    label: str
    on: bool  # whether the optimisation is on in this column
    latency_s: float
    seconds: dict[str, float]  # by kind, the slowest first; "links" and what else belongs to no operator among them [s]

    def share(self, kind: str) -> float:
        """Share of the request's time that a kind takes. [-]"""
        return self.seconds.get(kind, 0.0) / self.latency_s if self.latency_s else 0.0


def kinds_of(report: Report) -> dict[str, float]:
    """Seconds of a request by kind of operator, the slowest first, and by resource of what belongs to none. [s]"""
    overheads = ((row.resource, row.time_s) for row in report.other)
    result = totals([*((op.kind, op.time_s) for op in report.ops), *overheads])
    return dict(sorted(((k, v) for k, v in result.items() if v > 0), key=lambda pair: -pair[1]))


def by_kind(scenario: Scenario) -> tuple[KindColumn, ...]:
    """The scenario, then each optimisation that can matter turned over, the others as they are; largest change first.

    An optimisation that can't be turned over beside the others is left out. Times in [s].
    """
    report = evaluate(scenario)
    bound = bind(scenario)
    columns = []
    for switch in bound.family.switches_for(bound.graph):
        on = scenario.switches.get(switch.name, switch.default)
        with suppress(InputError):
            result = evaluate(scenario.with_(switches={**scenario.switches, switch.name: not on}))
            columns.append(KindColumn(switch.name, switch.label, not on, result.latency_s, kinds_of(result)))
    columns.sort(key=lambda column: -abs(column.latency_s - report.latency_s))
    return (KindColumn("", "as it is", True, report.latency_s, kinds_of(report)), *columns)
