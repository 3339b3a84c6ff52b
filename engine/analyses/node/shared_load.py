"""Several networks on one node at once: how busy they keep cards, host and links together, and how long each waits.

What a request holds of each unit is `evaluate`'s. Requests of every network come by themselves (Poisson) and queue for
the same units; the queues are `engine.traffic`'s, a network being a size of request there. Estimates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from engine.analyses.node.load import limit_of
from engine.resolve.choices import choices, default_scenario
from engine.scenario import Scenario, ScenarioError
from engine.scenario.sentences import amount
from engine.traffic import Estimate, Mixed, Poisson, Service, Station, TandemQueue, simulate
from engine.traffic.arrangements import wires
from engine.traffic.scenario_load import priced

MOST = 8  # networks: what stays on chip is tried for every set of them
CARDS, HOST = "cards", "host"
_KEEP = "on-chip-weights"
_REQUESTS = 60_000  # simulated for each network: 600 of them are slower than its 99th percentile if all are its own


@dataclass(frozen=True)
class Load:
    """A network on the node: what it is, and requests of it a second. [1/s]"""

    scenario: Scenario
    qps: float


@dataclass(frozen=True)
class Network:
    """One network of several on a node. An estimate."""

    scenario: Scenario  # as it runs there: its weights leave the chip where others take the room
    name: str
    qps: float  # [1/s]
    alone_qps: float  # what the node carries of it alone [1/s]
    idle_s: float  # latency of a request that meets no other [s]
    p50_s: float | None  # under the load of all; None: above capacity [s]
    p99_s: float | None
    limit_s: float | None  # its document's [s]
    use: Mapping[str, float]  # share of each unit's time that it takes [-]

    @property
    def met(self) -> bool | None:
        """Whether 99% of its requests are inside its document's limit; None: it has none."""
        return None if self.limit_s is None else self.p99_s is not None and self.p99_s <= self.limit_s


@dataclass(frozen=True)
class SharedNode:
    """A node under the load of several networks. An estimate."""

    networks: tuple[Network, ...]
    use: Mapping[str, float]  # of each unit, by all [-]
    memory: tuple[tuple[str, float, float, int], ...]  # level, what all need of one device, what it has [B]; devices
    problem: str  # why it can't carry them; "": it can

    @property
    def together(self) -> tuple[float, float]:
        """What all need of the memories of all devices, and what these have. [B]"""
        return sum(need * n for _, need, _, n in self.memory), sum(room * n for _, _, room, n in self.memory)

    @property
    def busiest(self) -> str:
        """The unit that is full first."""
        return max(self.use, key=lambda unit: self.use[unit])

    @property
    def room(self) -> float:
        """How many times this load the node carries. [-]"""
        return 1.0 / self.use[self.busiest]


def usual(scenario: Scenario, workload: str) -> Scenario:
    """The scenario where that is its workload, else the usual one on its node: tables sharded, or a copy a card."""
    if workload == scenario.workload:
        return scenario
    result = default_scenario(scenario.system, workload, devices=scenario.devices)
    whole = result.scheme != "tables" and "replicas" in choices(result).schemes
    return result.with_(scheme="replicas") if whole else result


def alone_qps(scenario: Scenario) -> float:
    """Requests a second that the node carries of a network alone, without waits. [1/s] An estimate."""
    _, plan, times = priced(scenario)
    return scenario.streams * plan.replicas / times.interval_s


def _demand(scenario: Scenario) -> tuple[dict[str, tuple[float, float]], dict[str, int]]:
    """What a request holds of each unit and what that adds to its latency [s], in the order it comes by; and how many
    of the unit there are."""
    bound, plan, times = priced(scenario)
    cards = max(1, plan.devices_used[0])
    on_cards = [p for p in times.priced if p.stage.device is bound.device and p.stage.name != "host"]
    paces = [p.time_s / p.stage.copies for p in on_cards]
    pace = sum(paces) if any(p.stage.turns for p in on_cards) else max(paces, default=0.0)
    if not plan.pipelined:
        pace = times.interval_s
    spent = sum(p.time_s * p.charged for p in times.priced)
    beside = sum(p.time_s * p.charged for p in times.priced if p not in on_cards)
    units: dict[str, tuple[float, float]] = {}
    links = wires(plan, times)
    for link, way, hold, adds in links:
        if way == "in":
            units[f"{link}, in"] = hold, adds
    cores = int(bound.host.cores) if bound.host is not None else 1
    units[CARDS] = pace * cards / scenario.streams, spent - beside
    units[HOST] = times.drawn("host_s"), beside
    for link, way, hold, adds in links:
        if way != "in":
            units[f"{link}, {way}"] = hold, adds
    many = dict.fromkeys(units, 1) | {CARDS: cards, HOST: cores}
    return units, many


def _needs(scenario: Scenario) -> dict[tuple[str, str, bool], tuple[float, float]]:
    """Bytes that all stages need of each memory level of a device, and what there is, by (device, level, required)."""
    needs: dict[tuple[str, str, bool], tuple[float, float]] = {}
    for part in priced(scenario)[2].priced:
        for fit in part.fits:
            key = part.stage.device.name, fit.level, fit.required
            need, room = needs.get(key, (0.0, 0.0))
            needs[key] = need + fit.need_bytes, max(room, fit.capacity_bytes)
    return needs


def _check(loads: Sequence[Load]) -> None:
    """ScenarioError in a sentence for networks that no node serves together."""
    if not 1 <= len(loads) <= MOST:
        raise ScenarioError(f"networks on the node are {len(loads)}: 1 to {MOST} are allowed")
    first = loads[0].scenario
    for load in loads:
        s = load.scenario
        if (s.system, s.devices) != (first.system, first.devices):
            raise ScenarioError(
                f"{s.workload} runs on {s.devices} devices of {s.system}, {first.workload} on {first.devices} of "
                f"{first.system}: networks that share a node name the same"
            )
        bound, plan, _ = priced(s)
        if bound.system.topology != "switch" or bound.device.card is None or len(plan.stages) == 0:
            raise ScenarioError(f"system is {s.system!r}: only a node of cards behind a switch is shared by networks")
        if not 0.0 < load.qps < float("inf"):
            raise ScenarioError(f"requests a second of {s.workload} are {load.qps:g}: a number above 0 is allowed")


def _resident(loads: Sequence[Load]) -> tuple[Scenario, ...]:
    """The networks as they run together: on chip stay weights that fit there at once and spare the busiest unit most.

    One whose weights don't fit alone keeps what does where no other keeps any.
    """
    apart = [load.scenario.with_(switches=load.scenario.switches | {_KEEP: False}) for load in loads]
    asks = [load.scenario.switches.get(_KEEP, True) for load in loads]
    sizes = [
        next((v for (_, _, needed), v in _needs(load.scenario).items() if not needed), (0.0, 0.0)) for load in loads
    ]
    best: tuple[float, tuple[Scenario, ...]] | None = None
    for keep in product(*((True, False) if ask else (False,) for ask in asks)):
        inside = [size for size, stays in zip(sizes, keep, strict=True) if stays]
        if len(inside) > 1 and sum(need for need, _ in inside) > max(room for _, room in inside):
            continue
        scenarios = tuple(load.scenario if k else off for load, off, k in zip(loads, apart, keep, strict=True))
        full = max(_use(scenarios, loads)[1].values())
        if best is None or full < best[0]:
            best = full, scenarios
    assert best is not None
    return best[1]


def _use(scenarios: Sequence[Scenario], loads: Sequence[Load]) -> tuple[list[dict[str, float]], dict[str, float]]:
    """Share of each unit's time that each network takes, and all of them. [-]"""
    each = []
    for scenario, load in zip(scenarios, loads, strict=True):
        units, many = _demand(scenario)
        each.append({unit: load.qps * hold / many[unit] for unit, (hold, _) in units.items()})
    names = dict.fromkeys(unit for shares in each for unit in shares)
    return each, {unit: sum(shares.get(unit, 0.0) for shares in each) for unit in names}


def _queue(scenarios: Sequence[Scenario]) -> TandemQueue:
    """The node as units in a row, a network being a size of request; the last one is what latency is told of.

    A unit that a network only loads while others are waited for is counted, not queued for, by that network.
    Idle, each network takes its own latency.
    """
    demands = [_demand(scenario) for scenario in scenarios]
    inward = [name for units, _ in demands for name in units if name.endswith(", in")]
    outward = [name for units, _ in demands for name in units if name not in (CARDS, HOST) and name not in inward]
    stations: list[tuple[str, np.ndarray, np.ndarray, int]] = []
    left = np.zeros(len(demands))
    for name in dict.fromkeys((*inward, CARDS, HOST, *outward)):
        hold, adds = np.array([units.get(name, (0.0, 0.0)) for units, _ in demands]).T
        queues = (hold > 0) & (adds > 0)
        left += np.where(queues, 0.0, adds)
        if queues.any():
            servers = max(many.get(name, 1) for _, many in demands)
            stations.append((name, np.where(queues, hold, 0.0), np.where(queues, adds, 0.0), servers))
    sizes = tuple(range(1, len(demands) + 1))
    return TandemQueue(
        tuple(
            Station(
                Service(hold[None, :], (adds + left if name == CARDS else adds)[None, :], servers=servers, sizes=sizes),
                name=name,
                wire=name not in (CARDS, HOST),
            )
            for name, hold, adds, servers in stations
        ),
        judged=len(demands),
    )


def _waits(scenarios: Sequence[Scenario], loads: Sequence[Load], at: int) -> tuple[Estimate, Estimate]:
    """Median and 99th percentile of one network's latency under the load of all. [s]"""
    order = [*(i for i in range(len(loads)) if i != at), at]
    queue = _queue([scenarios[i] for i in order])
    sizes = Mixed(tuple(range(1, len(order) + 1)), tuple(loads[i].qps for i in order))
    report = simulate(queue, Poisson(sum(load.qps for load in loads)), sizes=sizes, requests=_REQUESTS)
    if report.latency is None:
        raise ScenarioError(f"the load of all networks has no steady state: {report.message}")
    return report.latency.p50, report.latency.p99


def _problem(use: Mapping[str, float], memory: Sequence[tuple[str, float, float, int]]) -> str:
    """Why a node can't carry its networks, in a sentence; "" where it can."""
    for level, need, room, _ in memory:
        if need > room:
            return f"{level} holds {amount(room, 'B')}: all networks together need {amount(need, 'B')}."
    unit = max(use, key=lambda name: use[name])
    if use[unit] >= 1.0:
        return f"{unit} would be busy {use[unit]:.0%} of the time: the node carries {1 / use[unit]:.0%} of this load."
    return ""


def share_node(loads: Sequence[Load]) -> SharedNode:
    """A node of cards under the steady load of several networks: use of its units, memory, and each one's latency.

    ScenarioError in a sentence for networks that no node serves together. Times in [s], loads in [1/s]. An estimate.
    """
    _check(loads)
    scenarios = _resident(loads)
    each, use = _use(scenarios, loads)
    levels: dict[str, tuple[float, float, int]] = {}
    for scenario in scenarios:
        card = priced(scenario)[0].device.name
        for (device, level, required), (need, room) in _needs(scenario).items():
            if required:
                name, count = f"{level.upper()} of {device}", scenario.devices if device == card else 1
                levels[name] = levels.get(name, (0.0, 0.0, 0))[0] + need, room, count
    memory = tuple((name, *result) for name, result in levels.items())
    problem = _problem(use, memory)
    result = []
    for at, (scenario, load) in enumerate(zip(scenarios, loads, strict=True)):
        bound, _, times = priced(scenario)
        p50, p99 = (None, None) if problem else (wait.value for wait in _waits(scenarios, loads, at))
        result.append(
            Network(
                scenario,
                bound.workload.name,
                load.qps,
                alone_qps(load.scenario),
                times.latency_s,
                p50,
                p99,
                limit_of(scenario.workload),
                each[at],
            )
        )
    return SharedNode(tuple(result), use, memory, problem)
