"""A node of cards at work, as data for a page: its links with their load, its switches, its core splits, its cores.

Everything here is `evaluate` or its parts asked again with one thing changed, or the plan's own stages laid out in
time for several requests; no figure is made anywhere else. Estimates.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from engine.bind import Bound, bind
from engine.devices.family import Span
from engine.evaluate import evaluate
from engine.partition import Hop, Plan, make_plan
from engine.report import Report
from engine.scenario import Scenario
from engine.schedule import Schedule, hop_terms, schedule

__all__ = ["LinkLoad", "Split", "SwitchGain", "gantt", "links", "splits", "switch_gains"]


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


@dataclass(frozen=True)
class SwitchGain:
    """What one switch is worth: everything else on, and everything else off."""

    name: str
    label: str
    latency_s: float  # with all switches as the scenario has them, this one turned over
    throughput_per_s: float
    alone_latency_s: float  # this one as the scenario has it, all others turned over to off
    alone_throughput_per_s: float
    problem: str = ""  # why the node would not work that way


@dataclass(frozen=True)
class Split:
    """One way to divide a card's cores."""

    sparse_cores: int
    latency_s: float
    interval_s: float  # between requests
    sparse_s: float  # each request on every card
    dense_s: float  # each request, on one card in turn
    throughput_per_s: float
    best: bool


def _planned(scenario: Scenario) -> tuple[Bound, Plan, Schedule]:
    bound = bind(scenario)
    plan = make_plan(bound)
    return bound, plan, schedule(bound, plan)


def links(scenario: Scenario) -> tuple[LinkLoad, ...]:
    """Load of each direction of each kind of link, at the throughput that `evaluate` reports. [B], [B/s]"""
    _, plan, times = _planned(scenario)
    requests = scenario.streams * plan.replicas / times.interval_s
    size: dict[tuple[str, str, str], float] = defaultdict(float)
    alike: dict[tuple[str, str, str], int] = {}
    rate: dict[tuple[str, str, str], float] = {}
    for hop in plan.hops:
        key = (hop.wire.link.name, hop.wire.role, hop.way)
        size[key] += hop.bytes_per_message * hop.messages
        alike[key] = max(alike.get(key, 1), hop.alike)
        rate[key] = hop_terms(hop)[1]
    return tuple(
        LinkLoad(name, role, way, alike[name, role, way], moved, moved / alike[name, role, way] * requests,
                 rate[name, role, way])
        for (name, role, way), moved in size.items()
    )  # fmt: skip


def splits(scenario: Scenario) -> tuple[Split, ...]:
    """Every division of a card's cores between lookups and dense work; empty where the scheme has none."""
    bound = bind(scenario)
    knobs = bound.family.knobs(bound.device) if bound.family.knobs else ()
    plan = make_plan(bound)
    if scenario.scheme != "tables" or not knobs or not plan.pipelined:
        return ()
    found = []
    for cores in knobs[0].values:
        _, _, times = _planned(scenario.with_(tile=(cores,)))
        part = {p.stage.name: p.time_s for p in times.priced}
        rate = times.units_per_s
        found.append((cores, times.latency_s, times.interval_s, part["sparse"], part["dense"], rate))
    best = min(found, key=lambda row: (row[2], row[1]))[0]
    return tuple(
        Split(cores, latency, interval, sparse, dense, rate, cores == best)
        for cores, latency, interval, sparse, dense, rate in found
    )


def switch_gains(scenario: Scenario) -> tuple[tuple[SwitchGain, ...], Report, Report]:
    """What each switch is worth, with the report of the scenario and of the scenario with every switch off."""
    fam = bind(scenario).family
    now = {s.name: scenario.switches.get(s.name, s.default) for s in fam.switches}
    off = dict.fromkeys(now, False)
    base, bare = evaluate(scenario.with_(switches=now)), evaluate(scenario.with_(switches=off))
    rows = []
    for switch in fam.switches:
        turned = evaluate(scenario.with_(switches={**now, switch.name: not now[switch.name]}))
        alone = evaluate(scenario.with_(switches={**off, switch.name: True}))
        rows.append(
            SwitchGain(
                switch.name, switch.label, turned.latency_s, turned.throughput_per_s, alone.latency_s,
                alone.throughput_per_s, turned.problems[0] if turned.problems and not base.problems else "",
            )
        )  # fmt: skip
    return tuple(rows), base, bare


def _phase_of(hop: Hop) -> int:
    """Place of a hop in a request: before the lookups, before the dense part, between them, or after everything."""
    if hop.name.startswith(("pooled", "gather")):
        return 1
    return 0 if hop.way == "in" else 2


def gantt(scenario: Scenario, requests: int = 8) -> tuple[tuple[Span, ...], float]:
    """Bars of cores and links for several requests in flight, and the interval between them. [s]

    A request takes the links, the lookup cores of every card, the links again and the dense cores of one card, whose
    turn goes round. Requests start one interval apart, so nothing overlaps on any unit and each lasts exactly the
    report's latency.
    """
    _, plan, times = _planned(scenario)
    before = sum(t for hop, t in times.hops if _phase_of(hop) == 0)
    between = sum(t for hop, t in times.hops if _phase_of(hop) == 1)
    after = sum(t for hop, t in times.hops if _phase_of(hop) == 2)
    part = {p.stage.name: p for p in times.priced}
    bars: list[Span] = []
    for r in range(requests):
        clock, name = r * times.interval_s, f"request {r + 1}"

        def bar(unit: str, seconds: float, resource: str, at: float, named: str = name) -> None:
            if seconds > 0:
                bars.append(Span(unit, named, at, seconds, resource))

        bar("links in", before, "links", clock)
        clock += before
        if set(part) == {"sparse", "dense"}:
            cards = part["sparse"].stage.ways
            lookups, dense = part["sparse"].time_s, part["dense"].time_s
            for card in range(cards):
                bar(f"card {card + 1}, lookup cores", lookups, "compute", clock)
            clock += lookups
            bar("links between cards", between, "links", clock)
            clock += between
            turns = range(cards) if part["dense"].stage.ways > 1 else (r % cards,)
            for card in turns:
                bar(f"card {card + 1}, dense cores", dense, "compute", clock)
            clock += dense
        else:
            for card in range(max(1, plan.replicas)):
                bar(f"card {card + 1}", sum(p.time_s for p in times.priced), "compute", clock)
            clock += between + sum(p.time_s for p in times.priced)
        bar("links out", after, "links", clock)
    return tuple(bars), times.interval_s
