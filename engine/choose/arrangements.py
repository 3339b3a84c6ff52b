"""A system's arrangements, priced, and the cheapest found that keeps the limits under load. Estimates."""

from math import inf, log

from engine.choose.candidates import Layout
from engine.choose.question import Question
from engine.choose.serving import Refusal, Served, offers
from engine.choose.simulation import LoadFigures, under_load
from engine.evaluate import evaluate
from engine.scenario import Scenario, ScenarioError
from hardware_specs.catalog import Catalog, default_catalog
from model_zoo.catalog import Zoo, default_zoo

_NODE = 8  # devices of a host, up to which every way to share a network is tried
_NEAR = 1.5  # beyond it, where plain ways of as many devices cost no more than this times the best so far


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
        if not layout.ways or not (here or refusals):
            return
        cost = min(map(self._cost, here), default=inf)
        if layout.devices > _NODE and self.served and cost > _NEAR * min(map(self._cost, self.served)):
            return
        nearest = min(here, key=self._key).start if here else min(refusals, key=lambda r: r.distance).scenario
        plain = layout.starts[0].with_(precision=nearest.precision, streams=nearest.streams)
        for ways in layout.ways:
            self._price(plain, ways)

    def _price(self, start: Scenario, ways: dict[str, int | None] | None = None) -> None:
        try:
            start = start.with_(**ways) if ways else start
        except ScenarioError:
            return
        for offer in offers(self._question, start, self._catalog, self._zoo):
            self.designs += 1
            if isinstance(offer, Refusal):
                self.refusals.append(offer)
            else:
                self.served.append(offer)
                self._enough.add(start.precision)

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
