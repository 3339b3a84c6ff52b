"""What devices that share a stage's operators exchange in a pass, and what that takes. Estimates."""

import math
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


def collectives(job: Job) -> list[Collective]:
    """Exchanges of a sharded pass.

    An op split along K leaves partial sums: all-reduce of its output (Megatron-LM). What only a sum reads is added up
    first, experts and the shared one together, and exchanged once. A result that lies in parts, by features, heads or
    elements, is gathered where an op reads it whole: one that is not split, or a product split along N, whose every
    output takes all inputs. A recurrent product split along N takes the whole state, gathered before each step.
    """
    readers, result, fam = readers_of(job.ops), [], family(job.device.kind)
    width = activation_bytes(fam.exchange_format(job.device, job.format))
    at = (job.batch, job.length, job.context)
    sums: set[str] = set()
    parts = {op.name for op in job.ops if op.shard in ("n", "g", "elements")}
    gathers = {name for op in job.ops if _whole_input(op, job.ways) for name in op.inputs if name in parts}
    for op in job.ops:
        name, size = op.name, op.writes.at(*at) * width
        count = op.layers * op.steps.at(*at)
        if op.shard == "k":
            after, *tail = readers.get(op.name, [op])
            if after.kind == "ReduceSum" and not tail:
                if after.name in sums:
                    continue
                sums.add(after.name)
                name, size = after.name, after.writes.at(*at) * width
            result.append(Collective(f"all-reduce after {name}", "all_reduce", count, size))
        elif op.name in gathers:
            alike = op.layers if op.kind in LOOKUPS else 1  # tables that are alike are looked up and gathered at once
            result.append(Collective(f"all-gather after {op.name}", "all_gather", count / alike, alike * size))
        if op.shard == "n" and op.contraction and op.sequential:
            state = op.m.at(*at) * op.k.at(*at) * width
            result.append(Collective(f"all-gather of the state for {op.name}", "all_gather", count, state))
    return result


def _with_experts(ranks: ExpertGroup, job: Job) -> list[Collective]:
    """How the tokens of a pass come to ranks with experts of their own, and back.

    A device sends its tokens once to each rank that holds some of what they pick, all of a rank's devices alike; the
    busiest rank takes in most. Where every device holds every token, results are added up over all.
    """
    fam, tokens, result = family(job.device.kind), job.batch * job.length, list[Collective]()
    width = activation_bytes(fam.exchange_format(job.device, job.format))
    targets = ranks.ranks * (1.0 - (1.0 - 1.0 / ranks.ranks) ** ranks.picks) * job.ways
    sends = tokens / ranks.devices * targets * ranks.load
    for op in (op for op in job.ops if op.shard == "k"):
        count, wide = op.layers, op.n.coef * width
        if ranks.attention > 1:
            token_bytes = op.n.coef * smaller(width, activation_bytes(job.format))
            result.append(Collective("all-to-all to experts", "alltoall", count, sends * token_bytes, ranks.devices))
            result.append(Collective("all-to-all from experts", "alltoall", count, sends * wide, ranks.devices))
        elif not ranks.added:
            result.append(Collective("all-reduce after experts", "all_reduce", count, tokens * wide, ranks.devices))
    return result


_SUM_BYTES = 4.0  # of a head's sum of exponentials beside its partial result: FP32, in which kernels add them up


def _among_groups(groups: int, job: Job) -> list[Collective]:
    """What groups exchange that have a part of every request's tokens each, `job` being attention of one of them.

    Of a prompt, keys and values of all, as they are cached, before a layer attends. Of generated tokens their queries,
    keys and values go to all groups, and partial results back, an equal part of the tokens to each.
    """
    fam, result = family(job.device.kind), list[Collective]()
    wide = activation_bytes(fam.exchange_format(job.device, job.format))
    by_name = {op.name: op for op in job.phase.ops}
    requests = groups * math.ceil(job.batch / groups)

    def share(op: Op, elements: Any) -> Any:
        heads, rows = dealt(op.g.coef, op.m.coef, job.ways) if op.shard == "g" else (1.0, 1.0)
        return elements * (heads * rows)

    def state_bytes(op: Op, batch: Any, length: Any) -> Any:
        width = smaller(wide, activation_bytes(job.format)) if op.quantisable else wide
        return share(op, op.state_writes.at(batch, length)) * width

    if is_prompt(job.phase):
        states = ((op, state_bytes(op, job.batch, job.length * groups)) for op in job.phase.ops if op.state_writes.s)
        return [Collective(f"all-gather after {op.name}", "all_gather", op.layers, size, groups) for op, size in states]
    for op in (op for op in job.ops if op.contraction):
        if op.n.c:
            size = share(op, op.reads.at(requests, job.length)) * wide
            size += sum(state_bytes(by_name[name], requests, job.length) for name in op.inputs if name in by_name)
            result.append(Collective(f"all-gather for {op.name}", "all_gather", op.layers, size, groups))
        elif op.k.c:
            sums = op.g.at(requests) * op.m.at(requests, job.length) * _SUM_BYTES
            size = share(op, op.writes.at(requests, job.length) * wide + sums)
            result.append(Collective(f"all-to-all after {op.name}", "alltoall", op.layers, size, groups))
    return result


def _handed_on(stage: Stage, job: Job) -> tuple[float, float]:
    """Seconds of handing a pass's results on to the next pipeline stage, and their bytes. [s], [B]"""
    fam, link = family(job.device.kind), stage.sends
    assert link is not None
    residual = next(op for op in job.ops if op.group == "layer-norm+residual")
    width = activation_bytes(fam.exchange_format(job.device, job.format))
    size = residual.writes.at(job.batch, job.length, job.context) * width
    return job.model.get("collective_latency", 0.0) + link.latency.si + size / link.usable, size


def exchange(stage: Stage, job: Job) -> tuple[list[tuple[str, str, float]], float, float]:
    """What the collectives of a sharded pass take, as (name, resource, seconds [s]); the bytes that a device sends, and
    those of them that go to devices of other nodes. [B]

    Where a host issues calls one by one, a collective lasts the longer of its call and its way over the wire.
    """
    fam, rows, link_bytes, beyond = family(job.device.kind), [], 0.0, 0.0
    wires = fam.collective
    issue = wires.issue(job) if wires and wires.issue else 0.0
    if stage.attends:
        items = _among_groups(stage.context, job)
        job = replace(job, link_joins=max(1.0, job.link_joins / job.ways))  # of a node, devices of different groups
    else:
        items = _with_experts(stage.experts, job) if stage.experts else collectives(job) if job.ways > 1 else []
    for item in items:
        ways = item.devices or job.ways
        form = wires.form(job, item.kind) if wires and wires.form else link_form(job)
        seconds, bytes_sent = collective_time(OPS[item.kind], ways, item.size, form)
        rows.append((item.name, "links", item.count * seconds))
        if issue:
            rows.append((f"issuing {item.name}", "host", item.count * larger(issue - seconds, 0.0)))
        link_bytes += item.count * bytes_sent
        beyond += item.count * sent_beyond(OPS[item.kind], ways, item.size, job.link_joins)
    if stage.sends is not None:
        seconds, size = _handed_on(stage, job)
        rows.append(("to the next pipeline stage", "links", seconds))
        link_bytes += size
        beyond += size if stage.sends is job.link_beyond else 0.0
    return rows, link_bytes, beyond


def link_joules(job: Job, size: float) -> float:
    """Energy of bytes that a device sends to its peers, where its family's power follows from its work. [J]"""
    return size * job.model.get("wire_byte_j", 0.0)


def exchanges(stage: Stage, fam: DeviceFamily) -> bool:
    """Whether devices that share a stage's operators exchange results over a wire that their family does not time."""
    shares = stage.ways > 1 or stage.experts is not None or stage.sends is not None or stage.attends
    return shares and stage.wire is not None and fam.collective is not None
