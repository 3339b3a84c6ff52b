"""A network of the zoo that guesses another one's tokens ahead: speculative decoding."""

from engine.scenario import Scenario, ScenarioError
from model_zoo.catalog import Zoo, default_zoo
from model_zoo.families.transformer_decoder.family import draft_params
from model_zoo.schema import WorkloadError


def with_draft(scenario: Scenario, workload: str, zoo: Zoo | None = None) -> Scenario:
    """The scenario with a draft network of a workload's sizes, in the format and on the devices of its own network.

    How many tokens it guesses is ``params.guesses``, how likely a guess holds ``params.acceptance``. ScenarioError for
    a workload that is no dense decoder of the same vocabulary.
    """
    zoo = zoo or default_zoo()
    try:
        sizes = draft_params(zoo.workload(scenario.workload), zoo.workload(zoo.resolve(workload)))
    except WorkloadError as error:
        raise ScenarioError(str(error)) from None
    return scenario.with_(params=scenario.params | sizes)
