"""A network of the zoo that guesses another one's tokens ahead: speculative decoding."""

from collections.abc import Iterator
from contextlib import suppress

from engine.scenario import Scenario, ScenarioError
from model_zoo.catalog import Zoo, default_zoo
from model_zoo.families.transformer_decoder.family import draft_params
from model_zoo.schema import WorkloadError

GUESSING = ("guesses", "acceptance")
"""Parameters that say how many tokens are guessed ahead and how likely a guess holds."""


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
    return scenario.with_(params=_of_network(scenario) | sizes)


def without_draft(scenario: Scenario) -> Scenario:
    """The scenario with its network alone, which guesses as its catalog says."""
    params = {name: value for name, value in _of_network(scenario).items() if name not in GUESSING}
    return scenario.with_(params=params)


def _of_network(scenario: Scenario) -> dict[str, int | float]:
    return {name: value for name, value in scenario.params.items() if not name.startswith("draft_")}


def drafts(scenario: Scenario, zoo: Zoo | None = None) -> Iterator[str]:
    """Ids of smaller workloads of the zoo that may guess for the scenario's network, in the zoo's order."""
    zoo = zoo or default_zoo()
    network = zoo.workload(scenario.workload)
    for id in zoo.ids() if network.family == "transformer-decoder" else ():
        with suppress(WorkloadError):
            if draft_params(network, zoo.workload(id)) and zoo.graph(id).parameters < zoo.graph(network.id).parameters:
                yield id


def drafted(scenario: Scenario) -> str | None:
    """Id of the workload whose sizes the scenario's draft network has; None without one, or for sizes of none."""
    ids = drafts(scenario) if "draft_layers" in scenario.params else ()
    return next((id for id in ids if with_draft(scenario, id) == scenario), None)


def guessing(scenario: Scenario) -> dict[str, float]:
    """What a scenario with a draft network says of its guesses, by name; empty without one."""
    return {name: scenario.params.get(name, 0) for name in GUESSING if "draft_layers" in scenario.params}
