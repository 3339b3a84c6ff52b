"""Context parallelism: the tokens of every prompt dealt over groups of devices, and the cache of each with them.

Each group has all weights, which its tensor ways share. A prompt goes in 2 n pieces to n groups, each of which takes
one from the front and its like from the back, so that all have as many pairs of queries and keys (zig-zag). Keys and
values of all are gathered before attention, as Llama 3 was trained; Yang et al. (arXiv 2411.01783) pass them round a
ring instead, which hides what is exposed here. A generated token's other work is done by the group that has its
request; its query goes to all groups, each attends over its part of the cache, and the partial results are joined where
the request is. Counts; what they cost is priced elsewhere.
"""

import math
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

from engine.devices.common.column import larger
from model_zoo.ops import Dim, Graph, Op, Phase, Sum


def of_context(op: Op) -> bool:
    """Whether an operator's work grows with what its sequence holds already: attention's own products."""
    return any(count.c for count in (op.flops, op.m, op.n, op.k, op.reads, op.writes, op.state_reads))


def is_prompt(phase: Phase) -> bool:
    """Whether a phase takes in prompts: it is not repeated for what is generated."""
    return not phase.repeat.o


@lru_cache(maxsize=512)
def of_groups(graph: Graph, groups: int) -> Graph:
    """The network as each of so many groups has it, at the sizes of `group_sizes`: its part of the state and of each
    window; of a prompt, room for gathered keys and values, and those that each makes of a gathered latent."""

    def group_op(op: Op, prompt: bool) -> Op:
        if not prompt:
            counts = ((f.name, count) for f in fields(op) if isinstance(count := getattr(op, f.name), Dim) and count.c)
            return replace(op, **{name: replace(count, cap=count.cap / groups) for name, count in counts})
        if op.state_writes.s:
            room = op.state_writes * groups
            return replace(op, writes=replace(op.writes, coef=op.writes.coef + room.coef) if op.writes.coef else room)
        if op.name in ("k-up", "v-up") and op.shard == "n":
            return replace(op, **{name: getattr(op, name) * groups for name in ("m", "flops", "reads", "writes")})
        return op

    phases = (replace(p, ops=tuple(group_op(op, is_prompt(p)) for op in p.ops)) for p in graph.phases)
    state = Sum(tuple(term * (1.0 / groups) for term in graph.state_elements.terms))
    return replace(graph, phases=tuple(phases), state_elements=state)


Sizes = tuple[Any, Any, Any, Any]


def group_sizes(groups: int, prompt: bool, attends: bool, sizes: Sizes) -> Sizes:
    """Batch, pass length, context and span of one group's part of a pass of those `sizes`; `attends`: of attention. [-]

    Of a prompt, pieces from front and back see as many keys as those from the middle, whose last one is the context.
    """
    batch, length, context, span = sizes
    if prompt:
        length = larger(1.0, length / groups)
        return batch, length, larger(length, context * ((groups + 1) / (2 * groups))), span
    if attends:
        return batch, length, larger(1.0, context / groups), span / groups
    return math.ceil(batch / groups), length, context, span
