"""How many nodes a demand needs, what they draw and what a million answers cost. Estimates."""

import math
from dataclasses import dataclass, replace

import numpy as np

from engine.cost.figures import J_PER_KWH, YEAR_S
from engine.scenario.scenario import Costs
from engine.scenario.sentences import counted
from engine.scenario.token import brief
from engine.traffic.service import TrafficError, positive, whole

FailureDomain = str
DOMAINS = ("none", "card", "node", "domain", "rack")
_MILLION = 1e6
_COSTS = Costs()
_DEMAND_MOST = 1e12  # [1/s]


@dataclass(frozen=True)
class Demand:
    """Load over a day as equally long steps. [1/s]"""

    qps: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.qps or any(not math.isfinite(q) or q < 0 for q in self.qps) or max(self.qps) <= 0:
            shown = brief(", ".join(map(str, self.qps)), 80)
            raise TrafficError(f"demand is {shown}; it needs finite loads of at least 0 QPS, not all 0")
        if max(self.qps) > _DEMAND_MOST:
            raise TrafficError(f"demand is {max(self.qps):g} QPS; at most {_DEMAND_MOST:g} is allowed")

    @property
    def peak(self) -> float:
        """Highest step. [1/s]"""
        return max(self.qps)

    @property
    def mean(self) -> float:
        """Mean over the day. [1/s]"""
        return sum(self.qps) / len(self.qps)


@dataclass(frozen=True)
class NodeFacts:
    """A node as a plan sees it.

    Attributes
    ----------
    qps : float
        Load it carries inside the agreement, `max_qps`. [1/s]
    full_qps : float
        Load at which it is busy all the time, `capacity`: power goes by load over this. [1/s]
    cards : int
        Accelerators that fail one by one; the load a node carries falls in proportion.
    idle_w, busy_w : float
        Power of the whole node idle and busy. [W]
    capex_usd : float or None
        Price of the whole node; None where there is none. [$]
    inferences : int
        Inferences a request holds, `engine.traffic.scenario_load.inferences_of`. [-]
    domain : int
        Nodes whose devices one switch joins (an NVLink domain), which fail with it. [-]
    group, weakest : int
        Nodes that serve together, as pools in a fixed ratio do, and those of the smallest pool: the load a group
        carries falls in proportion to them. [-]
    per_host : int
        Nodes that stand in one host, which fail with it and take one slot of a rack. [-]
    """

    qps: float
    full_qps: float
    idle_w: float
    busy_w: float
    capex_usd: float | None
    cards: int = 1
    inferences: int = 1
    domain: int = 1
    group: int = 1
    weakest: int = 1
    per_host: int = 1

    def __post_init__(self) -> None:
        positive("qps", self.qps)
        positive("idle_w", self.idle_w, zero=True)
        positive("busy_w", self.busy_w)
        if self.capex_usd is not None:
            positive("capex_usd", self.capex_usd, zero=True)
        whole("cards", self.cards)
        whole("inferences", self.inferences)
        if self.full_qps < self.qps:
            raise TrafficError(f"full_qps is {self.full_qps!r}; it must be at least qps, {self.qps!r}")
        if self.busy_w < self.idle_w:
            raise TrafficError(f"busy_w is {self.busy_w!r}; it must be at least idle_w, {self.idle_w!r}")


def group_of(first: NodeFacts, second: NodeFacts, ratio: tuple[int, int]) -> NodeFacts:
    """A node of two pools in a ratio, the mean of their nodes; the load of ``second`` is what such a group carries."""
    total = sum(ratio)

    def mean(name: str) -> float:
        return sum(k * getattr(node, name) for k, node in zip(ratio, (first, second), strict=True)) / total

    return replace(
        second,
        qps=second.qps / total,
        full_qps=second.full_qps / total,
        idle_w=mean("idle_w"),
        busy_w=mean("busy_w"),
        capex_usd=None if None in (first.capex_usd, second.capex_usd) else mean("capex_usd"),
        cards=min(first.cards, second.cards),
        group=total,
        weakest=min(ratio),
    )


@dataclass(frozen=True)
class SiteFacts:
    """Where the nodes stand. All are choices of the user, not measurements.

    Attributes
    ----------
    slots, rack_w : nodes and power a rack takes [-], [W]
    rack_usd : price of an empty rack with its switch [$]
    pue : facility power over power of the machines, at least 1 [-]
    usd_per_kwh : price of energy [$/kWh]
    years : amortisation of everything bought [a]
    """

    slots: int = 20
    rack_w: float = 15_000.0
    rack_usd: float = 0.0
    pue: float = _COSTS.pue
    usd_per_kwh: float = _COSTS.energy_usd_per_kwh
    years: float = _COSTS.years

    def __post_init__(self) -> None:
        whole("slots", self.slots)
        positive("rack_w", self.rack_w)
        positive("rack_usd", self.rack_usd, zero=True)
        positive("usd_per_kwh", self.usd_per_kwh, zero=True)
        positive("years", self.years)
        if not math.isfinite(self.pue) or self.pue < 1.0:
            raise TrafficError(f"pue is {self.pue!r}; it must be a finite number of at least 1")


@dataclass(frozen=True)
class CapacityPlan:
    """Machines, power and money for a demand. An estimate; exact given the facts it was made from.

    Loads are requests; energy and money are of inferences, of which a request may hold many. What rests on a price that
    is not known is None. ``inferences_per_joule`` is perf/W at the actual load, idle power and PUE included.
    """

    nodes: int
    racks: int
    nodes_per_rack: int
    spare_nodes: int
    survives: str
    carried_qps: float  # with everything up, inside the agreement
    degraded_qps: float  # with the failure domain down
    peak_use: float  # busy share of a node at the peak, everything up
    mean_w: float  # at the plug of the facility, over the day
    peak_w: float
    capex_usd: float | None
    energy_usd_per_year: float
    usd_per_year: float | None
    usd_per_million: float | None  # inferences
    energy_j_per_inference: float
    inferences_per_joule: float
    message: str


def failing(survives: FailureDomain, cards: int, per_host: int, domain: int, per_rack: int) -> float:
    """Nodes that a failure takes, of so many ``cards`` each, so many to a host, to a switch and to a rack. [-]

    TrafficError for an unknown domain.
    """
    lost = {"none": 0.0, "card": 1.0 / cards, "node": float(per_host), "domain": float(domain), "rack": float(per_rack)}
    if survives not in lost:
        raise TrafficError(f"survives is {survives!r}; it must be one of {', '.join(lost)}")
    return lost[survives]


def capacity_plan(
    demand: Demand,
    node: NodeFacts,
    site: SiteFacts | None = None,
    *,
    headroom: float = 0.2,
    survives: FailureDomain = "node",
) -> CapacityPlan:
    """Fewest nodes that carry the peak of ``demand`` plus ``headroom`` with the failure domain ``survives`` down.

    Nodes come in whole groups, and what fails is of the pool with the fewest nodes, which costs most.

    ``card``: one accelerator of one node (its node carries (n-1)/n). ``node``: one host. ``domain``: all nodes that one
    switch joins. ``rack``: the fullest rack.
    Load is spread evenly over all nodes; a node's power is linear in its busy share from idle to busy (estimate).
    Racks fill one after the other, as far as slots and power allow. Headroom in [-], a share of the peak.
    TrafficError for an unknown domain or a rack that holds no node.
    """
    site = site or SiteFacts()
    positive("headroom", headroom, zero=True)
    per_rack = min(site.slots * node.per_host, int(site.rack_w // node.busy_w))
    if per_rack < 1:
        raise TrafficError(f"rack_w is {site.rack_w:g} W; one node draws {node.busy_w:g} W, so none fits")
    need = demand.peak * (1.0 + headroom)
    lost = (
        failing(survives, node.cards, node.per_host, node.domain, per_rack) * node.group / node.weakest
    )  # the fullest rack
    ratios = ((need / node.qps + down) / node.group for down in (lost, 0.0))
    nodes, bare = (node.group * max(1, math.ceil(ratio * (1.0 - 1e-12))) for ratio in ratios)  # rounding forgiven
    lost = min(lost, nodes)
    racks = math.ceil(nodes / per_rack)
    use = np.asarray(demand.qps) / (nodes * node.full_qps)
    watts = nodes * (node.idle_w + (node.busy_w - node.idle_w) * use) * site.pue
    mean_w = float(watts.mean())
    capex = None if node.capex_usd is None else nodes * node.capex_usd + racks * site.rack_usd
    energy = mean_w * YEAR_S / J_PER_KWH * site.usd_per_kwh
    yearly = None if capex is None else capex / site.years + energy
    answers = demand.mean * node.inferences
    joules = mean_w / answers
    degraded = (nodes - lost) * node.qps
    return CapacityPlan(
        nodes=nodes,
        racks=racks,
        nodes_per_rack=per_rack,
        spare_nodes=nodes - bare,
        survives=survives,
        carried_qps=nodes * node.qps,
        degraded_qps=degraded,
        peak_use=float(use.max()),
        mean_w=mean_w,
        peak_w=float(watts.max()),
        capex_usd=capex,
        energy_usd_per_year=energy,
        usd_per_year=yearly,
        usd_per_million=None if yearly is None else yearly / (answers * YEAR_S) * _MILLION,
        energy_j_per_inference=joules,
        inferences_per_joule=1.0 / joules,
        message=(
            f"{counted(nodes, 'node')} in {counted(racks, 'rack')} carry {need:.4g} QPS "
            + ("with nothing to spare" if survives == "none" else f"with one {survives} down")
        ),
    )
