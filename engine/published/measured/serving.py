"""Time per output token of an engine that batches continuously under a closed load, from its two kinds of passes."""

from __future__ import annotations

import math
from functools import lru_cache

from engine.cost.best_plan import make_plan
from engine.cost.schedule import PhaseRun, price_stage
from engine.devices.common.contract import Unsupported
from engine.resolve.bind import bind
from engine.scenario import Scenario
from hardware_specs.catalog import Catalog
from model_zoo.ops import Op

__all__ = ["mixed_tpot"]


@lru_cache(maxsize=4096)
def _passes(scenario: str, catalog: Catalog) -> dict[str, PhaseRun]:
    bound = bind(Scenario.model_validate_json(scenario), catalog)
    plan = make_plan(bound)
    if not bound.graph.causal:
        raise Unsupported(f"{bound.workload.name} makes no tokens one by one: there is no concurrency to predict it at")
    if len(plan.stages) != 1 or plan.replicas != 1:
        raise Unsupported(f"scheme is {bound.scenario.scheme!r}: a load in flight is predicted for one or all devices")
    return {run.job.phase.name: run for run in price_stage(bound, plan.stages[0]).runs}


def _of_context(op: Op) -> bool:
    """Whether an operator's work grows with what its sequence holds already: attention's own products."""
    return any(count.c for count in (op.flops, op.m, op.n, op.k, op.reads, op.writes, op.state_reads))


def _of_request(op: Op) -> bool:
    """Whether an operator runs once a sequence, whatever the tokens of the pass: the head and its norm."""
    return not op.writes.s and not _of_context(op)


def _seconds(run: PhaseRun) -> tuple[float, float, float]:
    """Seconds of a pass: all of it, its attention, its head. [s]"""
    each = run.cost.seconds.sum(axis=1)
    attention = sum(float(t) for op, t in zip(run.job.ops, each, strict=True) if _of_context(op))
    head = sum(float(t) for op, t in zip(run.job.ops, each, strict=True) if _of_request(op))
    return run.cost.total_s, attention, head


def mixed_tpot(scenario: Scenario, concurrency: int, budget: int, catalog: Catalog) -> float:
    """Mean time between two output tokens of a request, ``concurrency`` requests in flight. [s] An estimate.

    Each request brings I prompt tokens and wants O output tokens, so it decodes in O - 1 iterations. In steady state
    b = concurrency of them decode, b / (O - 1) end in an iteration, and as many come in: an iteration owes
    b I / (O - 1) prompt tokens. A prompt longer than the token ``budget`` less b goes in k = ceil(I / (budget - b))
    pieces. Where k b / (O - 1) = f is below 1, that share of iterations carries a piece of p = I / k tokens and the
    others none; else each carries p = min(b I / (O - 1), budget - b). Then

        TPOT = (1 - f) D(b, I + O / 2) + f M(b, p)
        M(b, p) = L(b + p) + A_prefill(I) p / I + A_decode(b, I + O / 2) + H(b)

    D is a decode pass. L is all of a pass of b + p tokens but attention and the head: its weights are read once and
    its collectives carry both. A is attention, of the prompt and of the decoding sequences each by itself; H the head.

    Assumes: no prompt waits for another (no waves of equal requests), all b sequences at their mean context, no cache
    of prefixes, no guessed tokens, room for every sequence's cache, and a host that prepares the next iteration
    meanwhile.
    """
    if scenario.outputs < 2:
        raise Unsupported("outputs is 1: a request of one token has no time between tokens")
    at = scenario.with_(batch=concurrency)
    decode = _seconds(_passes(at.model_dump_json(), catalog)["decode"])
    room = max(1, budget - concurrency)
    pieces = math.ceil(scenario.inputs / room)
    owed = concurrency / (scenario.outputs - 1)
    share = min(1.0, owed * pieces)
    piece = scenario.inputs / pieces if share < 1.0 else min(owed * scenario.inputs, float(room))
    alone = scenario.with_(batch=1)
    prompt = _seconds(_passes(alone.model_dump_json(), catalog)["prefill"])
    tokens = max(1, round(piece + concurrency))
    both = _seconds(_passes(alone.with_(inputs=tokens).model_dump_json(), catalog)["prefill"])
    mixed = both[0] - both[1] - both[2] + prompt[1] * piece / scenario.inputs + decode[1] + decode[2]
    return (1.0 - share) * decode[0] + share * mixed
