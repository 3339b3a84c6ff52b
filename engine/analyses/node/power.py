"""Power and clock of a node of cards against load: activity under a card's cap, leakage, switch, and the host's share.

A card runs at its highest clock while activity and leakage stay under its cap. Where they would not, a governor takes
clock and voltage down until they do; below its lowest clock, it leaves gaps. Energy by part is the report's. Estimates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.cost.assemble import Schedule
from engine.cost.compose import energy_of
from engine.devices.card.energy import voltage
from engine.devices.common.contract import Unsupported
from engine.plan.plan import model_of
from engine.resolve.bind import Bound, bind
from engine.scenario import Scenario
from engine.traffic.scenario_load import priced

_CLOCK = "devices.0.card.clock.max"
_STEPS = 12  # halvings of the clock's range


@dataclass(frozen=True)
class Sustained:
    """What a node does without pause. An estimate."""

    clock_hz: float
    throughput_per_s: float
    card_w: float  # of one card
    host_w: float
    switch_w: float
    cards: int
    governed: bool  # whether the cap takes clock
    parts: dict[str, float]  # cards' power by part, leakage among them [W]

    @property
    def cards_w(self) -> float:
        """Cards and switch, as the document counts a node. [W]"""
        return self.cards * self.card_w + self.switch_w

    @property
    def node_w(self) -> float:
        """Cards, switch and host. [W]"""
        return self.cards_w + self.host_w

    @property
    def per_joule(self) -> float:
        """Units of work a joule, the host counted. [1/J]"""
        return self.throughput_per_s / self.node_w


@dataclass(frozen=True)
class LoadPower:
    """A node at a share of the load it carries without pause. An estimate."""

    load: float
    throughput_per_s: float
    clock_hz: float
    cards_w: float
    host_w: float


@dataclass(frozen=True)
class _Point:
    """A scenario at one clock: power by part of all cards, without leakage, and how busy the host is."""

    throughput_per_s: float
    parts: dict[str, float]  # [W]
    host_busy: float  # share of its cores


def host_seconds(bound: Bound, times: Schedule) -> float:
    """Time of host cores that stages on it and commands for transfers take of a request, added up. [s]"""
    cores = bound.host.cpu.cores.si if bound.host is not None and bound.host.cpu is not None else 1.0
    on_host = sum(priced.time_s for priced in times.priced if priced.stage.name == "host")
    on_host += cores * sum(priced.time_s for priced in times.priced if priced.stage.device is bound.host)
    inside = sum(
        float(run.cost.seconds[:, 4].sum()) * run.passes
        for priced in times.priced
        if priced.stage.name != "host"
        for run in priced.runs
    )
    commands = sum(hop.messages * hop.command_s for hop, _ in times.hops if hop.wire.role == "host")
    return on_host + inside + commands


def _at(scenario: Scenario, clock: float) -> _Point:
    """The scenario with its cards at a clock. [Hz]"""
    bound, plan, times = priced(scenario.with_(overrides={**scenario.overrides, _CLOCK: clock}))
    requests = scenario.streams * max(1, plan.replicas) / times.interval_s
    parts = {name: spent * requests for name, spent in energy_of(times).items()}
    cores = bound.host.cpu.cores.si if bound.host is not None and bound.host.cpu is not None else 1.0
    return _Point(times.units_per_s, parts, min(1.0, host_seconds(bound, times) * requests / cores))


def sustained(scenario: Scenario) -> Sustained:
    """Clock, rate and power of a node of cards that is never idle; Unsupported where its devices count no energy."""
    bound, plan, _ = priced(scenario)
    card, cap = bound.device.card, bound.device.power.max
    if card is None or cap is None:
        raise Unsupported(f"{bound.device.name} counts no energy by part: only cards with a power limit do.")
    model, cards, top = model_of(bound), max(1, sum(plan.devices_used)), card.clock.max.si
    lowest = card.clock.min.si if card.clock.min is not None else top

    def drawn(point: _Point, clock: float) -> float:
        return (
            model["leakage_w"] + sum(point.parts.values()) * voltage(model["voltage_slope"], clock / top) ** 2 / cards
        )

    point, clock = _at(scenario, top), top
    governed = drawn(point, clock) > cap.si
    if governed:
        low, high = lowest, top
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if drawn(_at(scenario, middle), middle) <= cap.si else (low, middle)
        clock = low
        point = _at(scenario, clock)
    gaps = min(1.0, (cap.si - model["leakage_w"]) / max(drawn(point, clock) - model["leakage_w"], 1e-30))
    squared = voltage(model["voltage_slope"], clock / top) ** 2 * gaps
    parts = {name: watts * squared for name, watts in point.parts.items()} | {"leakage": model["leakage_w"] * cards}
    return Sustained(
        clock_hz=clock,
        throughput_per_s=point.throughput_per_s * gaps,
        card_w=sum(parts.values()) / cards,
        host_w=_host_w(bound, model["host_idle"], point.host_busy * gaps),
        switch_w=bound.system.extra_power.si if bound.system.extra_power is not None else 0.0,
        cards=cards,
        governed=governed,
        parts=parts,
    )


def _host_w(bound: Bound, idle_share: float, busy: float) -> float:
    """Power of a host at a share of its work, between idle and its limit; 0 without one. [W]"""
    if bound.host is None or bound.host.power.max is None:
        return 0.0
    most = bound.host.power.max.si
    idle = bound.host.power.idle.si if bound.host.power.idle is not None else idle_share * most
    return idle + (most - idle) * busy


def against_load(scenario: Scenario, loads: Sequence[float]) -> tuple[LoadPower, ...]:
    """Power and clock at shares of the sustained load, each from 0 to 1.

    Below it, cards do the same work in the same time and wait in between; the clock is the highest at which activity,
    averaged over both, stays under the cap.
    """
    bound = bind(scenario)
    model, full = model_of(bound), sustained(scenario)
    card = bound.device.card
    assert card is not None, bound.device.id
    top, slope, cap = card.clock.max.si, model["voltage_slope"], bound.device.power.max
    assert cap is not None, bound.device.id
    leak = full.parts["leakage"]
    idle = _host_w(bound, model["host_idle"], 0.0)
    base = (full.cards * full.card_w - leak) / voltage(slope, full.clock_hz / top) ** 2
    result = []
    for load in loads:
        room = (cap.si * full.cards - leak) / max(base * load, 1e-30)  # squared voltage at which this load fits the cap
        share = min(1.0, 1.0 - (1.0 - min(1.0, room) ** 0.5) / slope) if slope > 0 else 1.0
        share = max(share, full.clock_hz / top)
        active = base * load * voltage(slope, share) ** 2
        result.append(
            LoadPower(
                load,
                full.throughput_per_s * load,
                share * top,
                leak + active + full.switch_w,
                idle + (full.host_w - idle) * load,
            )
        )
    return tuple(result)
