"""The plan of a row: nodes, racks and power at the wall for a question's demand, with what fails down. Estimates."""

from dataclasses import dataclass, replace

from engine.choose.question import Question
from engine.choose.serving import Served, per_host, units_of
from engine.resolve.bind import bind
from engine.traffic.plan import CapacityPlan, Demand, SiteFacts, capacity_plan
from engine.traffic.scenario_load import node_facts


@dataclass(frozen=True)
class _Carried:
    """What an instance carries inside the limits and when it is busy all the time, as `node_facts` takes it. [1/s]"""

    qps: float
    capacity_qps: float
    message: str = ""


def plan_of(question: Question, best: Served) -> CapacityPlan | None:
    """What `capacity_plan` makes of an answer's instances as nodes; None without a demand.

    Instances of one host fail together. Nodes are the instances of the shipped catalog. The load of users is that of
    as many instances as they would keep full. TrafficError where no power is known, or a rack feeds no node.
    """
    if not question.demands:
        return None
    bound = bind(best.scenario)
    units = units_of(bound)
    load, costs = _Carried(best.rate / units, max(best.rate, best.full_rate) / units), question.costs
    node = replace(node_facts(best.scenario, load)[0], per_host=per_host(bound, best.devices))
    site = SiteFacts(
        question.rack_slots, question.rack_w, pue=costs.pue, usd_per_kwh=costs.energy_usd_per_kwh, years=costs.years
    )
    return capacity_plan(Demand((best.need * load.qps,)), node, site, headroom=0.0, survives=question.survives)
