"""What figures of a priced plan rest on, a sentence each with what stands behind it."""

from dataclasses import dataclass
from functools import lru_cache
from textwrap import shorten

from engine.cost.assemble import Schedule
from engine.cost.headline import governed_by
from engine.devices.common.cached import remembered
from engine.devices.common.setting import Parameter
from engine.scenario.sentences import amount
from hardware_specs.catalog import quantities
from hardware_specs.schema import Device


@dataclass(frozen=True)
class Assumption:
    """A sentence that figures rest on, and what stands behind it."""

    text: str
    basis: str  # published, calibrated, assumed, derived


def assumptions_of(times: Schedule) -> tuple[Assumption, ...]:
    """Sentences that figures of a plan rest on."""
    bound = times.bound
    assumptions: dict[str, str] = {}
    limit, reach = bound.graph.positions, bound.scenario.inputs
    if limit and bound.graph.causal:
        reach += bound.scenario.outputs - 1
    if limit and reach > limit:
        text = (
            f"{bound.workload.name} has {limit:,} learned positions; this request reaches {reach:,}, as if it had more."
        )
        assumptions[text] = "assumed"
    for p in times.priced:
        for text in p.family.assumptions:
            assumptions[text] = "derived"
        for path, field in p.family.fields.items():
            if getattr(bound.scenario, path) is not None:
                assumptions[field.assumption] = "assumed"
        for rule in p.family.rules:
            assumptions[f"{rule.text} Read off {', '.join(rule.claims)}."] = "calibrated"
        model = p.runs[0].job.model if p.runs else {}
        for parameter in p.family.parameters:
            assumptions[_tell(parameter, model.get(parameter.name, parameter.value))] = parameter.basis
        for run in p.runs:
            for note in run.cost.notes:
                assumptions[note] = "derived"
        assumptions.update(dict.fromkeys(_of_file(p.stage.device), "assumed"))
    for number in bound.workload.params.items():
        if number[1].basis in ("assumed", "calibrated"):
            value = shorten(str(number[1].value), 80, placeholder=" ...")  # of a list of layers the first ones
            assumptions[f"{bound.workload.name}: {number[0]} = {value} ({number[1].note})"] = number[1].basis
    for text, basis in times.account.notes:
        assumptions[text] = basis
    if (clock_text := governed_by(times)) is not None:
        assumptions[f"{clock_text}: arithmetic and on-chip memory slow down, the rest keeps its time"] = "derived"
    for text in (*times.plan.notes, *bound.system.notes, *bound.workload.notes):
        assumptions[text] = "published"
    return tuple(Assumption(text, basis) for text, basis in assumptions.items())


_SCALED = ("s", "J", "B", "B/s", "op/s", "pixel/s", "pixel")  # units that take a prefix; others are counts and shares

_COUNTED = ("cycle", "element", "beat", "request", "bit")  # units that are nouns


@remembered(id)
def _of_file(device: Device) -> tuple[str, ...]:
    """What a device's file assumes."""
    return tuple(f"{device.name}: {q.value} ({q.note})" for q in quantities(device) if q.basis == "assumed")


@lru_cache(maxsize=4096)
def _tell(parameter: Parameter, value: float) -> str:
    how = "fitted on" if parameter.basis == "calibrated" else "chosen knowing"
    where = f"; {how} {', '.join(parameter.claims)}" if parameter.claims else ""
    unit = parameter.unit
    value_text = amount(value, unit) if unit in _SCALED else f"{value:.4g}" + f" {unit}" * (unit not in ("1", "-"))
    value_text += "s" * (unit in _COUNTED and value != 1)
    note = parameter.note.removesuffix(".") if where else parameter.note
    return f"{parameter.name.replace('_', ' ')} = {value_text}: {note}{where}"
