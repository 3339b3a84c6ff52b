"""A network of the zoo that guesses another one's tokens ahead: speculative decoding."""

from engine.scenario import Scenario, ScenarioError
from model_zoo.catalog import Zoo, default_zoo
from model_zoo.families.transformer_decoder.family import DRAFT
from model_zoo.schema import WorkloadError


def with_draft(scenario: Scenario, workload: str, zoo: Zoo | None = None) -> Scenario:
    """The scenario with a draft network of a workload's sizes, in the format and on the devices of its own network.

    How many tokens it guesses is ``params.guesses``, how likely a guess holds ``params.acceptance``. ScenarioError for
    a workload that is no dense decoder of the same vocabulary.
    """
    zoo = zoo or default_zoo()
    try:
        network, draft = (zoo.workload(zoo.resolve(id)) for id in (scenario.workload, workload))
    except WorkloadError as error:
        raise ScenarioError(str(error)) from None
    sizes, larger = ({name: number.value for name, number in entry.params.items()} for entry in (draft, network))
    dense = draft.family == network.family == "transformer-decoder" and not sizes.keys() & {
        "experts",
        "kv_rank",
        "mixers",
    }
    values = {f"draft_{name}": sizes[name] for name in DRAFT if sizes.get(name)}
    if not dense or sizes["vocab"] != larger["vocab"] or not all(isinstance(value, int) for value in values.values()):
        raise ScenarioError(f"draft is {workload[:60]!r}; a dense decoder of {network.name}'s vocabulary is needed")
    return scenario.with_(params=scenario.params | values)
