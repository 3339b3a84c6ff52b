"""What devices that share a stage's operators exchange in a pass, and what that takes. Estimates."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.devices import family
from engine.devices.common.collective import OPS, collective_time, link_form, sent_beyond
from engine.devices.common.column import larger, smaller
from engine.devices.common.contract import DeviceFamily
from engine.devices.common.counts import dealt
from engine.devices.common.job import Job
from engine.plan.context import is_prompt
from engine.plan.plan import ExpertGroup
from engine.plan.schemes import Stage
from engine.scenario.formats import activation_bytes
from model_zoo.ops import LOOKUPS, Op, readers_of


@dataclass(frozen=True)
class Collective:
    """An exchange of a sharded pass: what, how often, and over how many bytes, as nccl-tests counts them."""

    name: str
    kind: str  # of `engine.devices.common.collective.OPS`
    count: float
    size: float
    devices: float = 0.0  # that exchange; 0: those that share the stage's operators


def _whole_input(op: Op, ways: int) -> bool:
    """Whether each of several devices that share an operator needs all of what it reads, not its own part."""
    if op.shard == "none":
        return True
    return op.shard == "n" and op.contraction and op.attribute("groups", 1.0) < ways


def _gathered(ops: Sequence[Op], ways: int) -> set[str]:
    """Operators whose results lie in parts on devices that share them, and are read whole."""
    parts = {op.name for op in ops if op.shard in ("n", "g", "elements")}
    return {name for op in ops if _whole_input(op, ways) for name in op.inputs if name in parts}


def collectives(job: Job) -> list[Collective]:
    """Exchanges of a sharded pass.

    An op split along K leaves partial sums: all-reduce of its output (Megatron-LM). What only a sum reads is added up
    first, experts and the shared one together, and exchanged once. A result that lies in parts, by features, heads or
    elements, is gathered where an op reads it whole: one that is not split, or a product split along N, whose every
    output takes all inputs. A recurrent product split along N takes the whole state, gathered before each step.
    """
    readers, needed, fam = readers_of(job.ops), [], family(job.device.kind)
    width = activation_bytes(fam.exchanged(job.device, job.format))
    at = (job.batch, job.length, job.context)
    summed: set[str] = set()
    gathered = _gathered(job.ops, job.ways)
    for op in job.ops:
        name, size = op.name, op.writes.at(*at) * width
        count = op.layers * op.steps.at(*at)
        if op.shard == "k":
            after, *rest = readers.get(op.name, [op])
            if after.kind == "ReduceSum" and not rest:
                if after.name in summed:
                    continue
                summed.add(after.name)
                name, size = after.name, after.writes.at(*at) * width
            needed.append(Collective(f"all-reduce after {name}", "all_reduce", count, size))
        elif op.name in gathered:
            alike = op.layers if op.kind in LOOKUPS else 1  # tables that are alike are looked up and gathered at once
            needed.append(Collective(f"all-gather after {op.name}", "all_gather", count / alike, alike * size))
        if op.shard == "n" and op.contraction and op.sequential:
            state = op.m.at(*at) * op.k.at(*at) * width
            needed.append(Collective(f"all-gather of the state for {op.name}", "all_gather", count, state))
    return needed


def _with_experts(ranks: ExpertGroup, job: Job) -> list[Collective]:
    """How the tokens of a pass come to ranks with experts of their own, and back.

    A device sends its tokens once to each rank that holds some of what they pick, all of a rank's devices alike; the
    busiest rank takes in most. Where every device holds every token, results are added up over all.
    """
    fam, tokens, needed = family(job.device.kind), job.batch * job.length, list[Collective]()
    width = activation_bytes(fam.exchanged(job.device, job.format))
    reached = ranks.ranks * (1.0 - (1.0 - 1.0 / ranks.ranks) ** ranks.picks) * job.ways
    each = tokens / ranks.devices * reached * ranks.load
    for op in (op for op in job.ops if op.shard == "k"):
        count, wide = op.layers, op.n.coef * width
        if ranks.attention > 1:
            sent = op.n.coef * smaller(width, activation_bytes(job.format))
            needed.append(Collective("all-to-all to experts", "alltoall", count, each * sent, ranks.devices))
            needed.append(Collective("all-to-all from experts", "alltoall", count, each * wide, ranks.devices))
        elif not ranks.added:
            needed.append(Collective("all-reduce after experts", "all_reduce", count, tokens * wide, ranks.devices))
    return needed


_SUM_BYTES = 4.0  # of a head's sum of exponentials beside its partial result: FP32, in which kernels add them up


def _among_groups(groups: int, job: Job) -> list[Collective]:
    """What groups exchange that have a part of every request's tokens each, `job` being attention of one of them.

    Of a prompt, keys and values of all, as they are cached, before a layer attends. Of generated tokens their queries,
    keys and values go to all groups, and partial results back, an equal part of the tokens to each.
    """
    fam, needed = family(job.device.kind), list[Collective]()
    wide = activation_bytes(fam.exchanged(job.device, job.format))
    by_name = {op.name: op for op in job.phase.ops}
    every = groups * math.ceil(job.batch / groups)

    def share(op: Op, elements: Any) -> Any:
        heads, rows = dealt(op.g.coef, op.m.coef, job.ways) if op.shard == "g" else (1.0, 1.0)
        return elements * (heads * rows)

    def cached(op: Op, batch: Any, length: Any) -> Any:
        width = smaller(wide, activation_bytes(job.format)) if op.quantisable else wide
        return share(op, op.state_writes.at(batch, length)) * width

    if is_prompt(job.phase):
        states = ((op, cached(op, job.batch, job.length * groups)) for op in job.phase.ops if op.state_writes.s)
        return [Collective(f"all-gather after {op.name}", "all_gather", op.layers, size, groups) for op, size in states]
    for op in (op for op in job.ops if op.contraction):
        if op.n.c:
            size = share(op, op.reads.at(every, job.length)) * wide
            size += sum(cached(by_name[name], every, job.length) for name in op.inputs if name in by_name)
            needed.append(Collective(f"all-gather for {op.name}", "all_gather", op.layers, size, groups))
        elif op.k.c:
            sums = op.g.at(every) * op.m.at(every, job.length) * _SUM_BYTES
            size = share(op, op.writes.at(every, job.length) * wide + sums)
            needed.append(Collective(f"all-to-all after {op.name}", "alltoall", op.layers, size, groups))
    return needed


def _handed_on(stage: Stage, job: Job) -> tuple[float, float]:
    """Seconds of handing a pass's results on to the next pipeline stage, and their bytes. [s], [B]"""
    fam, link = family(job.device.kind), stage.sends
    assert link is not None
    residual = next(op for op in job.ops if op.group == "layer-norm+residual")
    width = activation_bytes(fam.exchanged(job.device, job.format))
    size = residual.writes.at(job.batch, job.length, job.context) * width
    return job.model.get("collective_latency", 0.0) + link.latency.si + size / link.usable, size


def exchange(stage: Stage, job: Job) -> tuple[list[tuple[str, str, float]], float, float]:
    """What the collectives of a sharded pass take, as (name, resource, seconds [s]); the bytes that a device sends, and
    those of them that go to devices of other nodes. [B]

    Where a host issues calls one by one, a collective lasts the longer of its call and its way over the wire.
    """
    fam, other, sent, beyond = family(job.device.kind), [], 0.0, 0.0
    wires = fam.collective
    issue = wires.issue(job) if wires and wires.issue else 0.0
    if stage.attends:
        needed = _among_groups(stage.context, job)
        job = replace(job, link_joins=max(1.0, job.link_joins / job.ways))  # of a node, devices of different groups
    else:
        needed = _with_experts(stage.experts, job) if stage.experts else collectives(job) if job.ways > 1 else []
    for each in needed:
        ways = each.devices or job.ways
        form = wires.wired(job, each.kind) if wires and wires.wired else link_form(job)
        seconds, bytes_sent = collective_time(OPS[each.kind], ways, each.size, form)
        other.append((each.name, "links", each.count * seconds))
        if issue:
            other.append((f"issuing {each.name}", "host", each.count * larger(issue - seconds, 0.0)))
        sent += each.count * bytes_sent
        beyond += each.count * sent_beyond(OPS[each.kind], ways, each.size, job.link_joins)
    if stage.sends is not None:
        seconds, size = _handed_on(stage, job)
        other.append(("to the next pipeline stage", "links", seconds))
        sent += size
        beyond += size if stage.sends is job.link_beyond else 0.0
    return other, sent, beyond


def link_joules(job: Job, sent: float) -> float:
    """Energy of bytes that a device sends to its peers, where its family's power follows from its work. [J]"""
    return sent * job.model.get("wire_byte_j", 0.0)


def exchanges(stage: Stage, fam: DeviceFamily) -> bool:
    """Whether devices that share a stage's operators exchange results over a wire that their family does not time."""
    shares = stage.ways > 1 or stage.experts is not None or stage.sends is not None or stage.attends
    return shares and stage.wire is not None and fam.collective is not None
