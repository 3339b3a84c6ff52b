"""Several requests in flight on a node: a bar for every link, host core and card, and every core of one card.

A plan's own stages and messages are laid out in time. Requests start one reported interval apart; each takes its steps
in order, and a step waits until every unit it needs is free for as long as it takes. The first request therefore lasts
exactly the reported latency, no unit ever does two things at once, and what later requests wait is said. Estimates.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from engine.cost.assemble import Priced
from engine.cost.pieces import hop_terms
from engine.devices.common.contract import Span
from engine.plan.schemes import Hop
from engine.resolve.bind import Bound
from engine.scenario import Scenario
from engine.traffic.scenario_load import priced

FINE = 600  # bars of a stage on the shown card; more are joined
_JOIN = 0.004  # of the stage: gaps that joined bars may hide
_LINKS = {"network": "network", "host": "host link", "switch": "host link", "memory": "host memory"}


@dataclass(frozen=True)
class NodeTimeline:
    """Bars of requests in flight. Times from the first request's arrival. [s]"""

    bars: tuple[Span, ...]
    interval_s: float  # between arrivals
    latency_s: float  # of a request that waits for nobody, as reported
    waited_s: float  # longest that a request waited for units on its way
    cards: int
    shown: int  # the card drawn core by core, from 1; 0: none


class _Units:
    """When each unit is busy; steps are put where all units they need are free."""

    def __init__(self) -> None:
        self.busy: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def _fit(self, unit: str, at: float, seconds: float) -> float:
        for begin, end in self.busy[unit]:
            if at + seconds <= begin + 1e-15:
                break
            at = max(at, end)
        return at

    def place(self, units: Sequence[str], at: float, seconds: float) -> float:
        """The first moment from `at` on when all units are free for so long; they are busy then."""
        if seconds <= 0:
            return at
        while True:
            later = at
            for unit in units:
                later = self._fit(unit, later, seconds)
            if later == at:
                break
            at = later
        for unit in units:
            insort(self.busy[unit], (at, at + seconds))
        return at


def _wires(hop: Hop, card: int, cards: int) -> list[str]:
    """Rows of the links a hop crosses."""
    name = _LINKS.get(hop.wire.role)
    if name is not None:
        return [f"{name} {hop.way}"]
    on = range(cards) if hop.shares else (card,)
    return [f"card {k + 1} link {hop.way}" for k in on]


def _hop_s(hop: Hop, waited: float) -> float:
    """How long a hop holds each of its links: what it adds to the latency, or its own time where it is hidden. [s]"""
    start, rate = hop_terms(hop)
    own = hop.messages * (start + hop.bytes_per_message / rate) / (hop.alike if hop.shares else 1)
    return own if hop.hidden else waited


def _joined(spans: Sequence[Span], seconds: float) -> list[Span]:
    """Neighbours on a core as one bar, named by how many operators it is, coloured by what takes most of it."""
    if len(spans) <= FINE:
        return list(spans)
    rows: dict[str, list[list[Span]]] = defaultdict(list)
    for span in sorted(spans, key=lambda s: s.start_s):
        row = rows[span.unit]
        if row and span.start_s - (row[-1][-1].start_s + row[-1][-1].duration_s) <= _JOIN * seconds:
            row[-1].append(span)
        else:
            row.append([span])
    result = []
    for unit, groups in rows.items():
        for group in groups:
            by: dict[str, float] = defaultdict(float)
            for span in group:
                by[span.resource] += span.duration_s
            end = group[-1].start_s + group[-1].duration_s
            name = group[0].name if len(group) == 1 else f"{len(group)} operators"
            most = max(by, key=lambda resource: by[resource])
            result.append(Span(unit, name, group[0].start_s, end - group[0].start_s, most))
    return result


class _Stage:
    """A stage as units: which of them a request takes, and the bars it draws there."""

    def __init__(self, bound: Bound, priced: Priced, cards: int) -> None:
        self.priced, self.cards, self.streams = priced, cards, bound.scenario.streams
        stage, fam = priced.stage, priced.family
        self.where = stage.name if stage.name in ("host", "decoder") else "device"
        if stage.device is bound.host:
            self.where = "host"
        self.width = 0
        self.fine: list[Span] = []
        if self.where == "device" and fam.cores is not None and len(priced.runs) == 1 and priced.runs[0].passes == 1:
            spans = fam.cores(priced.runs[0].job)
            numbers = [int(span.unit.rpartition(" ")[2]) for span in spans]
            self.first = min(numbers, default=1)
            self.width = max(numbers, default=1) - self.first + 1
            self.fine = _joined(spans, priced.time_s)

    def units(self, request: int) -> list[str]:
        """Units a request holds: all cards that share the stage, or the one whose turn it is."""
        stage = self.priced.stage
        if self.where == "host":
            return [f"host core {request % stage.copies + 1}" if stage.name == "host" else "host cores"]
        stream = request // self.cards % self.streams
        on = range(self.cards) if stage.ways > 1 else (request % self.cards,)
        if self.where == "decoder":
            return [f"card {k + 1} decoder" for k in on]
        return [f"card {k + 1}, {self._cores(stream)}" for k in on]

    def _cores(self, stream: int) -> str:
        if not self.width:
            return "cores"
        first = self.first + stream * self.width
        return f"core {first}" if self.width == 1 else f"cores {first} to {first + self.width - 1}"

    def bars(self, unit: str, request: int, at: float, shown: int) -> list[Span]:
        """Bars of a request's turn on a unit: each core's on the shown card."""
        name = f"request {request + 1}"
        resource = "host" if self.where == "host" else "compute"
        if self.fine and unit.startswith(f"card {shown},"):
            shift = request // self.cards % self.streams * self.width
            return [
                Span(
                    f"card {shown}, core {int(s.unit.rpartition(' ')[2]) + shift}",
                    f"{s.name}, {name}",
                    at + s.start_s,
                    s.duration_s,
                    s.resource,
                )
                for s in self.fine
            ]
        return [Span(unit, name, at, self.priced.time_s, resource)]


def timeline(scenario: Scenario, requests: int = 8, shown: int = 1) -> NodeTimeline:
    """Bars for so many requests; card number `shown` is drawn core by core, 0 for none."""
    bound, plan, times = priced(scenario)
    cards = max(1, plan.devices_used[0] if plan.devices_used else 1)
    shown = min(max(0, shown), cards)
    interval = times.interval_s / (scenario.streams * max(1, plan.replicas))
    stages = [_Stage(bound, priced, cards) for priced in times.priced]
    steps: list[list[list[tuple[Hop, float]]]] = [[] for _ in range(len(stages) + 1)]
    for (after, _), group in groupby(times.hops, key=lambda pair: (pair[0].after, pair[0].name)):
        steps[min(after, len(stages))].append(list(group))
    units, bars, waited = _Units(), [], 0.0
    for r in range(requests):
        clock = r * interval
        for position in range(len(stages) + 1):
            for group in steps[position]:
                clock = _cross(group, r, cards, clock, units, bars)
            if position == len(stages):
                break
            stage = stages[position]
            rows = stage.units(r)
            clock = units.place(rows, clock, stage.priced.time_s)
            for unit in rows:
                bars += stage.bars(unit, r, clock, shown)
            clock += stage.priced.time_s
        waited = max(waited, clock - r * interval - times.latency_s)
    return NodeTimeline(tuple(bars), interval, times.latency_s, max(0.0, waited), cards, shown)


def _cross(
    group: Sequence[tuple[Hop, float]], request: int, cards: int, at: float, units: _Units, bars: list[Span]
) -> float:
    """One message over its links: those it waits for, and the faster ones beside them. Returns when it is there."""
    ready = at
    for hop, seconds in sorted(group, key=lambda pair: pair[0].hidden):
        rows, busy = _wires(hop, request % cards, cards), _hop_s(hop, seconds)
        begin = units.place(rows, at, busy)
        if not hop.hidden:
            at = begin  # the faster ones start with it
            ready = begin + seconds
        if busy > 0:
            bars += [Span(row, f"{hop.name}, request {request + 1}", begin, busy, "links") for row in rows]
    return ready
