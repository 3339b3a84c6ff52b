"""Time by kind of operator before and after each optimisation: document 000's Table II for any scenario. Estimates."""

from collections import defaultdict
from dataclasses import dataclass

from engine.cost.report import Report
from engine.evaluate import evaluate
from engine.resolve.bind import bind
from engine.scenario import Scenario
from entries.schema import InputError


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
    result: dict[str, float] = defaultdict(float)
    for op in report.ops:
        result[op.kind] += op.time_s
    for row in report.other:
        result[row.resource] += row.time_s
    return dict(sorted(((k, v) for k, v in result.items() if v > 0), key=lambda pair: -pair[1]))


def by_kind(scenario: Scenario) -> tuple[KindColumn, ...]:
    """The scenario, then each optimisation that can matter turned over, the others as they are; largest change first.

    An optimisation that can't be turned over beside the others is left out. Times in [s].
    """
    report = evaluate(scenario)
    bound = bind(scenario)
    graph = bound.graph
    columns = []
    for switch in bound.family.switches_for(graph):
        on = scenario.switches.get(switch.name, switch.default)
        try:
            other = evaluate(scenario.with_(switches={**scenario.switches, switch.name: not on}))
        except InputError:
            continue
        columns.append(KindColumn(switch.name, switch.label, not on, other.latency_s, kinds_of(other)))
    columns.sort(key=lambda column: -abs(column.latency_s - report.latency_s))
    return (KindColumn("", "as it is", True, report.latency_s, kinds_of(report)), *columns)
