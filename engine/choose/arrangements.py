"""A system's arrangements, priced, and the cheapest found that keeps the limits under load. Estimates."""

from collections.abc import Sequence
from math import inf, log
from typing import Any

from engine.choose.candidates import Layout
from engine.choose.question import Question
from engine.choose.serving import Refusal, Served, offers
from engine.choose.simulation import LoadFigures, under_load
from engine.cost.power_and_price import PER_HOST
from engine.evaluate import evaluate
from engine.scenario import Scenario, ScenarioError
from engine.scenario.configuration import stage_devices
from hardware_specs.catalog import Catalog, default_catalog
from model_zoo.catalog import Zoo, default_zoo

_SHORT = 1.25  # times the room that is needed, from which no other way makes it fit
_NEAR = 1.5  # beyond a host's devices, where plain ways of as many devices cost no more than this times the best so far


class Arrangements:
    """What one system serves: `served` and `refusals` of its arrangements, of which `designs` were priced.

    ``loads`` has what was simulated of those that keep the limits.
    """

    def __init__(self, question: Question, catalog: Catalog, zoo: Zoo) -> None:
        self._question, self._catalog, self._zoo = question, catalog, zoo
        self._demand = question.demands
        self._causal = zoo.graph(question.workload).causal
        self._shipped = catalog is default_catalog() and zoo is default_zoo()
        self._enough: set[str] = set()  # formats whose fewer devices serve already: more would serve no more a device
        self._slow = set[tuple[Any, ...]]()  # devices that miss a limit at the least batch: so do several in a row
        self.designs = 0
        self.served: list[Served] = []
        self.refusals: list[Refusal] = []
        self.loads: dict[Served, LoadFigures] = {}

    def add(self, layout: Layout) -> None:
        """Prices the arrangements of a layout: every format plainly, then other ways in the one that is nearest."""
        served, refused = len(self.served), len(self.refusals)
        for start in layout.starts:
            if self._causal or start.scheme != "tensor" or start.precision not in self._enough:
                self._price(start)
        here, refusals = self.served[served:], self.refusals[refused:]
        if not layout.ways or not (here or refusals) or self._hopeless(layout.devices, here, refusals):
            return
        nearest = min(here, key=self._key).start if here else min(refusals, key=lambda r: r.distance).scenario
        plain = layout.starts[0].with_(precision=nearest.precision, streams=nearest.streams)
        for ways in layout.ways:
            self._price(plain, ways)

    def _hopeless(self, devices: int, here: Sequence[Served], refusals: Sequence[Refusal]) -> bool:
        """Whether no other way to share a network on so many devices is worth a try, by what plain ways do.

        They are far short of memory, which others divide as evenly; or fewer devices carry a demand in one instance; or
        plain ways of more devices than a host has cost far more than the best so far.
        """
        if not here and all(r.kind == "fits" and r.over > _SHORT for r in refusals):
            return True
        if self._demand and any(p.need <= 1.0 and p.devices < devices for p in self.served):
            return True
        cost, best = (min(map(self._cost, points), default=inf) for points in (here, self.served))
        return devices > PER_HOST and cost > _NEAR * best

    def _price(self, start: Scenario, ways: dict[str, int | None] | None = None) -> None:
        try:
            start = start.with_(**ways) if ways else start
        except ScenarioError:
            return
        stage = (start.precision, start.streams, stage_devices(start), start.expert_parallel, start.attention_dp)
        if (start.pipeline_parallel or 1) > 1 and stage in self._slow:
            return
        count = len(self.served)
        for offer in offers(self._question, start, self._catalog, self._zoo):
            self.designs += 1
            if isinstance(offer, Served):
                self.served.append(offer)
                self._enough.add(start.precision)
                continue
            self.refusals.append(offer)
            if offer.kind == "limit" and len(self.served) == count:
                self._slow.add(stage)

    def cheapest(self) -> Served | None:
        """The best that serves under load; None where none does, and `refusals` say why."""
        for point in sorted(self.served, key=self._key):
            refusal = self._judge(point)
            if refusal is None:
                return point
            self.refusals.append(refusal)
        return None

    def _judge(self, point: Served) -> Refusal | None:
        """Why it does not serve after all: no evidence, or a limit that it misses under load."""
        if self._question.evidence == "measured":
            band = evaluate(point.scenario, self._catalog, self._zoo).error_band
            if band.relative is None:
                return Refusal(point.scenario, "evidence", f"meets your limits without evidence: {band.why}", 1.0)
        if point.joined is None or not self._shipped:
            return None
        load = under_load(self._question, point)
        if isinstance(load, Refusal):
            return load
        self.loads[point] = load
        return None

    def _cost(self, point: Served) -> float:
        """Money of the demand or of a unit of work; without a price devices instead."""
        money = point.total_usd_per_hour if self._demand else point.usd_per_million
        if money is not None:
            return money
        return float(point.devices * point.instances) if self._demand else 1.0 / point.rate_per_device

    def _key(self, point: Served) -> tuple[float, ...]:
        """What is least in the best arrangement of a system: money, then devices, then what a user waits for.

        For a demand money counts in steps of 2%, so that nobody waits longer for a thousandth of a cent.
        """
        cost, tail = self._cost(point), (-point.rate, -point.speed)
        if self._demand:
            priced = point.usd_per_million is not None
            cost, tail = float(round(50.0 * log(max(cost, 1e-30)))) if priced else cost, tail[::-1]
        return (cost, point.devices * point.instances, *tail)
