"""What a stage's device is asked to run of a phase: its operators, at the sizes and settings of the scenario."""

import math
from dataclasses import replace
from functools import lru_cache

from engine.devices.common.column import largest
from engine.devices.common.contract import DeviceFamily
from engine.devices.common.job import Job
from engine.plan.context import group_sizes, is_prompt
from engine.plan.plan import Stage, compiled_length, on_host
from engine.resolve.bound import Bound
from model_zoo.ops import Op, Phase


@lru_cache(maxsize=512)
def _dealt(phase: Phase, layers: int) -> Phase:
    """A phase with so many of the layers that it repeats: always the same one."""
    highest = max(op.layers for op in phase.ops)
    return replace(phase, ops=tuple(replace(op, layers=layers) if op.layers == highest else op for op in phase.ops))


@lru_cache(maxsize=512)
def _part(phase: Phase, names: frozenset[str]) -> tuple[Op, ...]:
    """Operators of a phase that have those names: always the same tuple, so that what is known of it is found."""
    result = tuple(op for op in phase.ops if op.name in names)
    return phase.ops if len(result) == len(phase.ops) else result


def job_of(bound: Bound, stage: Stage, fam: DeviceFamily, phase: Phase) -> Job:
    """What a stage's device is asked to run of a phase."""
    s, graph = bound.scenario, bound.graph
    if stage.graph is not None:
        phase, graph = stage.graph.phases[graph.phases.index(phase)], stage.graph
    phase = _dealt(phase, stage.layers) if stage.layers else phase
    model = {k: v for k, v in bound.model.items() if any(p.name == k for p in fam.parameters)}
    switches, engine = {sw.name: s.switches.get(sw.name, sw.default) for sw in fam.switches}, ""
    for path, field in fam.fields.items():
        if field.settings and (setting := field.settings.get(getattr(s, path))) is not None:
            setting = setting if phase.repeat.o or setting.prompts is None else setting.prompts
            switches, model = switches | dict(setting.switches), dict(setting.parameters) | model
            engine = setting.engine or engine
    inputs = compiled_length(bound)
    longest = largest(
        p.context.at(inputs, s.outputs) + (p.repeat.at(s.inputs, s.outputs) / p.repeat.o / 2 if p.repeat.o else 0)
        for p in bound.graph.phases
    )
    batch = s.batch if stage.ranks == 1 or stage.experts else math.ceil(s.batch / (stage.ranks // stage.context))
    sizes = batch, phase.length.at(inputs, s.outputs), phase.context.at(inputs, s.outputs)
    sizes = *sizes, 1.0 * phase.span(inputs, s.outputs)
    if stage.context > 1:
        sizes = group_sizes(stage.context, is_prompt(phase), stage.attends, sizes)
    wire = stage.wire or (bound.wires[0] if s.numa is not None else None)
    return Job(
        device=stage.device,
        phase=phase,
        ops=_part(phase, stage.ops),
        graph=graph,
        batch=sizes[0],
        length=sizes[1],
        context=sizes[2],
        span=sizes[3],
        max_context=longest,
        ways=stage.ways,
        streams=s.streams * stage.under_way,
        format=stage.format,
        tile=stage.tile or (s.tile if stage.device.kind == bound.device.kind else ()),  # knobs of the first family
        switches=switches,
        model=on_host(bound, fam, fam.model(stage.device, model)),
        link=wire.link if wire else None,
        link_hops=wire.hops if wire else 1,
        link_direct=wire.direct if wire else False,
        link_joins=wire.joins if wire else math.inf,
        link_beyond=wire.beyond if wire else None,
        engine=engine,
    )
