"""The main path: a scenario in, a report out. Read this first."""

from engine.cost.assemble import assemble
from engine.cost.best_plan import make_plan
from engine.cost.report import Report, report_of
from engine.resolve.bind import bind
from engine.scenario import Scenario
from hardware_specs.catalog import Catalog
from model_zoo.catalog import Zoo


def evaluate(scenario: Scenario, catalog: Catalog | None = None, zoo: Zoo | None = None) -> Report:
    """Latency, throughput, power, cost of a scenario, and why.

    Parameters
    ----------
    scenario : the whole choice; see `engine.scenario.Scenario`.
    catalog, zoo : where names are looked up; the shipped ones when left out.

    Returns
    -------
    report : every figure in SI with its breakdown. An estimate unless an entry says it is a bound.

    Raises
    ------
    ScenarioError
        A field that names nothing, is out of range or is not offered here: one sentence.
    Unsupported
        The devices can't run that network: one sentence why.
    """
    # 1. names become specs; what-ifs are applied; everything is checked
    bound = bind(scenario, catalog, zoo)
    # 2. which part runs where, and what crosses which wire
    plan = make_plan(bound)
    # 3. each device family prices its part; stages, wires, power and price become figures
    times = assemble(bound, plan)
    # 4. the report, with the reason for each number
    return report_of(times)
