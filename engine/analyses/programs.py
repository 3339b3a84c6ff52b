"""Programs of machines with an instruction set: shown, timed, run on numbers and checked, the shipped ones or a user's.

A program is text in its machine's mnemonics. Times are those of the families' own scoreboards, numbers those of their
functional machines beside a float64 run of the same instructions on drawn inputs.
"""

from dataclasses import replace

from engine.devices import instructions_of
from engine.devices.common.contract import Job
from engine.devices.common.instruction_set import InstructionSet, Listing, Values
from engine.plan.jobs import job_of
from engine.plan.schemes import open_plan
from engine.resolve.bind import bind
from engine.scenario import Scenario, ScenarioError


def machine_of(scenario: Scenario) -> tuple[Job, InstructionSet]:
    """The job of a scenario's machine, with its wire to peers it may not ask, and what the machine answers.

    ScenarioError where it runs no programs.
    """
    bound = bind(scenario)
    answers = instructions_of(bound.device.kind)
    if answers is None:
        raise ScenarioError(
            f"{bound.device.name} is a {bound.family.title}: it runs no program of its own instructions"
        )
    job = job_of(bound, open_plan(bound).stages[0], bound.family, bound.graph.phases[0])
    wire = bound.wire("peer")
    return (replace(job, link=wire.link, link_hops=wire.hops) if wire else job), answers


def mnemonics(scenario: Scenario) -> tuple[str, ...]:
    """Mnemonics of the scenario's machine."""
    return machine_of(scenario)[1].mnemonics


def shipped(scenario: Scenario, part: str = "layer") -> str:
    """Text of the program that the scenario's price rests on: of a decoder's `part`, of a step, of a network."""
    machine, answers = machine_of(scenario)
    return answers.shipped(machine, part)


def listing(scenario: Scenario, text: str) -> Listing:
    """A program timed on the scenario's machine. ProgramError names the line and column of what is wrong."""
    machine, answers = machine_of(scenario)
    return answers.listing(machine, text)


def execute(scenario: Scenario, text: str, seed: int = 0, most: int | None = None) -> tuple[Values, ...]:
    """A program run on drawn numbers in the machine's arithmetic, each register beside float64. A measurement.

    With `most`, so many of its instructions are.
    """
    machine, answers = machine_of(scenario)
    try:
        return answers.values(machine, text, seed, most)
    except MemoryError:
        raise ScenarioError("the program takes more memory than there is") from None
