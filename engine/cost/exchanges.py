"""What devices that share a stage's operators exchange in a pass, and what that takes. Estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.devices import family
from engine.devices.common.collective import OPS, collective_time, link_form, sent_beyond
from engine.devices.common.column import larger
from engine.devices.common.contract import DeviceFamily, Job
from engine.plan.schemes import Stage
from engine.scenario.formats import activation_bytes
from model_zoo.ops import LOOKUPS, Op


@dataclass(frozen=True)
class Collective:
    """An exchange of a sharded pass: what, how often, and over how many bytes, as nccl-tests counts them."""

    name: str
    kind: str  # of `engine.devices.common.collective.OPS`
    count: float
    size: float


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
    readers: dict[str, list[Op]] = {}
    for op in job.ops:
        for name in op.inputs:
            readers.setdefault(name, []).append(op)
    needed = []
    fam = family(job.device.kind)
    width = activation_bytes(fam.exchanged(job.device, job.format))
    at = (job.batch, job.length, job.context)
    summed: set[str] = set()
    gathered = _gathered(job.ops, job.ways)
    for op in job.ops:
        name, size = op.name, op.writes.at(*at) * width
        count = op.layers * op.steps.at(*at)
        if op.shard == "k":
            after, *others = readers.get(op.name, [op])
            if after.kind == "ReduceSum" and not others:
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


def exchange(job: Job) -> tuple[list[tuple[str, str, float]], float, float]:
    """What the collectives of a sharded pass take, as (name, resource, seconds), and the bytes a device sends.

    Of these, the last says how many go to devices of other nodes.

    Where a host issues calls one by one, a collective lasts the longer of its call and its way over the wire. [s]
    and [B].
    """
    fam, other, sent, beyond = family(job.device.kind), [], 0.0, 0.0
    wires = fam.collective
    issue = wires.issue(job) if wires and wires.issue else 0.0
    for each in collectives(job):
        form = wires.wired(job, each.kind) if wires and wires.wired else link_form(job)
        seconds, bytes_sent = collective_time(OPS[each.kind], job.ways, each.size, form)
        other.append((each.name, "links", each.count * seconds))
        if issue:
            other.append((f"issuing {each.name}", "host", each.count * larger(issue - seconds, 0.0)))
        sent += each.count * bytes_sent
        beyond += each.count * sent_beyond(OPS[each.kind], job.ways, each.size, job.link_joins)
    return other, sent, beyond


def link_joules(job: Job, sent: float) -> float:
    """Energy of bytes that a device sends to its peers, where its family's power follows from its work. [J]"""
    return sent * job.model.get("wire_byte_j", 0.0)


def exchanges(stage: Stage, fam: DeviceFamily) -> bool:
    """Whether devices that share a stage's operators exchange results over a wire that their family does not time."""
    return stage.wire is not None and stage.ways > 1 and fam.collective is not None
