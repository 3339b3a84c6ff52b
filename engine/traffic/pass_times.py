"""Times of a serving engine's passes: of a device, from the one cost model, or given by coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from engine.cost.assemble import assemble
from engine.cost.best_plan import make_plan
from engine.cost.pieces import PhaseRun
from engine.devices.common.contract import Unsupported
from engine.kernels.events.passes import GIVEN, Times
from engine.resolve.bind import bind
from engine.scenario import Scenario
from engine.traffic.calendar import Scheduler
from engine.traffic.scenario_load import cache_tokens, checked
from engine.traffic.service import TrafficError
from hardware_specs.catalog import Catalog, default_catalog
from hardware_specs.plain import read_plain
from model_zoo.ops import Op

_FILE_MOST = 65_536  # bytes of a file of coefficients
_NONE = np.zeros(1)
_ONE = np.ones(1)
_FIELDS = {
    "prefill": {"base_ms": "prefill_base", "per_token_ms": "per_token", "per_token2_ms": "per_token2"},
    "decode": {
        "base_ms": "decode_base",
        "per_sequence_ms": "per_sequence",
        "per_context_ms": "per_context",
        "least_ms": "least",
    },
}


def given_times(path: Path) -> Times:
    """Times of a machine given in a YAML file [ms]; a pass takes the sum of its two parts.

    ``prefill: {base_ms, per_token_ms, per_token2_ms}``: once in a pass that prefills, of its prefill tokens t together,
    base + per_token t + per_token2 t^2. ``decode: {base_ms, per_sequence_ms, per_context_ms, least_ms}``: of n
    sequences at a mean context c, max(least, base + per_sequence n + per_context c).

    TrafficError for another field or a value that is no finite number from 0 on.
    """
    data = read_plain(path, _FILE_MOST)
    if not isinstance(data, dict) or not data or data.keys() - _FIELDS.keys():
        raise TrafficError(f"{path.name}: it must hold the fields {' and '.join(_FIELDS)}")
    values = dict.fromkeys(GIVEN, 0.0)
    for part, fields in data.items():
        if not isinstance(fields, dict) or fields.keys() - _FIELDS[part].keys():
            raise TrafficError(f"{path.name}: {part} must hold the fields {', '.join(_FIELDS[part])}")
        for name, value in fields.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
                raise TrafficError(f"{path.name}: {part}.{name} is {str(value)[:40]}; it must be a number from 0 on")
            values[_FIELDS[part][name]] = value * 1e-3
    if values["prefill_base"] + values["per_token"] <= 0.0 or values["decode_base"] + values["least"] <= 0.0:
        raise TrafficError(f"{path.name}: a pass that prefills and one that decodes must take more than 0 ms")
    return Times(np.array([values[name] for name in GIVEN]), _ONE, _NONE, _ONE, _NONE, _NONE, _ONE, _NONE, _NONE[None])


@lru_cache(maxsize=4096)
def _passes(scenario: str, catalog: Catalog) -> dict[str, PhaseRun]:
    bound = bind(Scenario.model_validate_json(scenario), catalog)
    plan = make_plan(bound)
    if not bound.graph.causal:
        raise Unsupported(f"{bound.workload.name} makes no tokens one by one: there is no concurrency to predict it at")
    if len(plan.stages) != 1 or plan.replicas != 1:
        raise Unsupported(f"scheme is {bound.scenario.scheme!r}: a load in flight is predicted for one or all devices")
    return {run.job.phase.name: run for run in assemble(bound, plan).priced[0].runs}


def _of_context(op: Op) -> bool:
    """Whether an operator's work grows with what its sequence holds already: attention's own products."""
    return any(count.c for count in (op.flops, op.m, op.n, op.k, op.reads, op.writes, op.state_reads))


def _of_request(op: Op) -> bool:
    """Whether an operator runs for what is written alone, whatever else the pass reads: the head and its norm."""
    return op.group == "lm-head" or op.name == "final-norm"


def _of_experts(op: Op) -> bool:
    """Whether an operator is shared by all ranks that attend to sequences of their own each."""
    return op.group == "feed-forward"


def _sum(run: PhaseRun, belongs: Callable[[Op], bool]) -> float:
    """Seconds of some operators of a pass. [s]"""
    each = run.cost.seconds.sum(axis=1)
    return sum(float(t) for op, t in zip(run.job.ops, each, strict=True) if belongs(op))


def seconds(scenario: Scenario, phase: str, ranks: int, catalog: Catalog) -> tuple[float, float, float]:
    """Seconds of a pass of ``ranks`` with a batch each: all of it, its attention, its head. [s] An estimate.

    A rank is a device of its own but for the experts, which all of them share: before and after these the tokens of
    all are gathered and scattered, which takes as long as one of the two sums that sharing attention too would take.
    """
    run = _passes(scenario.model_dump_json(), catalog)[phase]
    total = run.cost.total_s
    if ranks > 1:
        every = _passes(scenario.with_(batch=scenario.batch * ranks).model_dump_json(), catalog)[phase]
        run = _passes(scenario.with_(devices=1, scheme="single").model_dump_json(), catalog)[phase]
        exchanged = (every.cost.total_s - _sum(every, lambda op: True)) / 2.0
        total = run.cost.total_s - _sum(run, _of_experts) + _sum(every, _of_experts) + exchanged
    return total, _sum(run, _of_context), _sum(run, _of_request)


def _powers(least: int, most: int, factor: int) -> np.ndarray:
    """``least``, ``factor`` times as many, ... and ``most``. [-]"""
    steps = [least]
    while steps[-1] * factor < most:
        steps.append(steps[-1] * factor)
    return np.array(steps if steps[-1] >= most else [*steps, most], float)


def device_times(
    scenario: Scenario, budget: int, max_seqs: int, longest: int, ranks: int = 1, catalog: Catalog | None = None
) -> Times:
    """Of a decoder scenario's passes on its device or all of its devices. Estimates, as good as the cost model.

    A pass that prefills p tokens beside n decoding sequences takes L(p + n) + attention of both + head: L is all of a
    prefill of so many tokens (of prompts no longer than the longest request) but its attention and head, for its
    weights are read once and its collectives carry both. A piece of a prompt takes what attention of the prompt grows
    by with it. A pass that only decodes takes the decode pass of n sequences. Tabled at powers of two of tokens and
    sequences and of four of the context, linear between them.

    Parameters
    ----------
    budget, max_seqs, longest
        Largest pass, sequences and request the tables must cover. [tokens], [-], [tokens]
    ranks
        Devices that attend to requests of their own each and share the experts; the tables are of one.

    Unsupported for a network that makes no tokens one by one, and for pipelines.
    """
    catalog = catalog or default_catalog()
    deepest = max(1, longest - 1)  # no pass finds more of a request in the cache

    def prefill(tokens: float) -> tuple[float, float, float]:
        each = min(int(tokens), deepest)
        prompts = scenario.with_(batch=max(1, round(tokens / each)), inputs=each, outputs=1)
        return seconds(prompts, "prefill", ranks, catalog)

    def decode(sequences: float, context: float) -> tuple[float, float, float]:
        step = scenario.with_(batch=int(sequences), inputs=max(1, int(context) - 1), outputs=2)
        return seconds(step, "decode", ranks, catalog)

    tokens = _powers(1, budget, 2)
    rows = _powers(1, max_seqs, 2)
    contexts = _powers(min(16, deepest), deepest, 4)
    linear = np.array([max(0.0, whole - attention - head) for whole, attention, head in map(prefill, tokens)])
    prompt = np.array([prefill(context)[1] / context for context in contexts])
    pure = np.array([[decode(n, c) for c in contexts] for n in rows])  # (rows, contexts, 3)
    alone = pure[:, 0, 0] - pure[:, 0, 1] - pure[:, 0, 2]
    return Times(
        np.zeros(len(GIVEN)),
        tokens,
        linear,
        rows,
        np.ascontiguousarray(alone),
        np.ascontiguousarray(pure[:, 0, 2]),
        contexts,
        prompt,
        np.ascontiguousarray(pure[:, :, 1]),
    )


def engine_of(
    scenario: Scenario, scheduler: Scheduler, longest: int, requests: int, ranks: int = 1
) -> tuple[Times, Scheduler]:
    """Pass times of a scenario, and its scheduler with as many blocks as fit the memory beside the weights.

    TrafficError where one request of the ``longest`` [tokens] does not fit, or more blocks are given than do.
    """
    times = device_times(scenario, scheduler.budget, min(scheduler.max_seqs, requests), longest, ranks)
    checked(scenario.with_(batch=1))
    tokens = cache_tokens(scenario.with_(batch=1, outputs=1), longest)
    room = None if tokens is None else tokens // scheduler.block
    if scheduler.kv_blocks is None:
        return times, replace(scheduler, kv_blocks=room)
    if room is not None and scheduler.kv_blocks > room:
        raise TrafficError(
            f"kv_blocks is {scheduler.kv_blocks} of {scheduler.block} tokens; the devices have room for {room}"
        )
    return times, scheduler
