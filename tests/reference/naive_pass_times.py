"""Times of a serving engine's passes, one scenario after the other: the slow twin of `device_times`."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from engine.cost.assemble import assemble
from engine.cost.best_plan import make_plan
from engine.cost.pieces import PhaseRun
from engine.devices.common.contract import Unsupported
from engine.kernels.events.passes import GIVEN, Times
from engine.plan.context import of_context
from engine.resolve.bind import bind
from engine.scenario import Scenario
from engine.traffic.scenario_load import ladder
from hardware_specs.catalog import Catalog, default_catalog
from model_zoo.ops import Op


def _of_request(op: Op) -> bool:
    return op.group == "lm-head" or op.name == "final-norm"


class _Parts(NamedTuple):
    """Seconds of the passes of a phase in a request: how many, all of them, of attention and of the head. [-], [s]"""

    passes: float
    total: float
    attention: float
    head: float

    @classmethod
    def of(cls, run: PhaseRun) -> _Parts:
        """Of one stage's run."""
        op_s, ops, n = run.cost.seconds.sum(axis=1), run.job.ops, run.passes
        groups = ([n * float(t) for op, t in zip(ops, op_s, strict=True) if of(op)] for of in (of_context, _of_request))
        return cls(n, n * run.cost.total_s, *map(sum, groups))


@lru_cache(maxsize=4096)
def _schedule(token: str, catalog: Catalog) -> tuple[float, float, dict[str, _Parts]]:
    """Of a scenario: latency, time to first token [s], and its phases."""
    bound = bind(Scenario.model_validate_json(token), catalog)
    if not bound.graph.causal:
        raise Unsupported(f"{bound.workload.name} makes no tokens one by one: there is no concurrency to predict it at")
    times, phases = assemble(bound, make_plan(bound)), dict[str, _Parts]()
    for run in (run for stage in times.priced for run in stage.runs):
        parts, name = _Parts.of(run), run.job.phase.name
        if name in phases:
            parts = _Parts(parts.passes, *map(sum, zip(parts[1:], phases[name][1:], strict=True)))
        phases[name] = parts
    return times.latency_s, times.figure("ttft_s") or 0.0, phases


def _prefill(scenario: Scenario, catalog: Catalog) -> tuple[float, float, float]:
    """Taking in the prompts of a batch up to the first token of each: all of it, its attention, its head. [s]"""
    _, first, phases = _schedule(scenario.model_dump_json(), catalog)
    return _within(first, phases["prefill"].attention, phases["prefill"].head)


def _step(scenario: Scenario, catalog: Catalog) -> tuple[float, float, float]:
    """A pass of one of a batch's tokens after the first, the mean of them: all of it, its attention, its head. [s]

    Where tokens are guessed ahead it makes more than one, and guessing is of the head.
    """
    latency, first, phases = _schedule(scenario.model_dump_json(), catalog)
    guess = phases.get("guess")
    passes = scenario.outputs - 1 if guess is None else phases["decode"].passes
    after = [parts for name, parts in phases.items() if "prefill" not in name]
    attention, head = (sum(getattr(parts, name) for parts in after) / passes for name in ("attention", "head"))
    guessed = 0.0 if guess is None else (guess.total - guess.attention - guess.head) / passes
    return _within((latency - first) / passes, attention, head + guessed)


def _within(total: float, attention: float, head: float) -> tuple[float, float, float]:
    """Parts of a time, in their shares where they overlap and would be more than all of it. [s]"""
    share = min(1.0, total / (attention + head)) if attention + head > 0.0 else 1.0
    return total, share * attention, share * head


def device_times(scenario: Scenario, budget: int, max_seqs: int, longest: int, catalog: Catalog | None = None) -> Times:
    """As `engine.traffic.engines.pass_times.device_times` has them."""
    catalog = catalog or default_catalog()
    deepest = max(1, longest - 1)  # no pass finds more of a request in the cache
    apart = scenario.attention_dp or 1
    prompt, base = scenario.inputs, scenario.with_(batch=apart)
    chunk = chunk_of(scenario, catalog)

    def prefill(tokens: float, ranks: int = apart) -> tuple[int, tuple[float, float, float]]:
        length = min(int(tokens), deepest)
        prompts = max(1, round(tokens / length))
        outputs = min(scenario.outputs, longest - length)  # a device may take no request beyond the longest
        return prompts, _prefill(scenario.with_(batch=prompts * ranks, inputs=length, outputs=outputs), catalog)

    def decode(sequences: float, context: float, ranks: int = apart) -> tuple[float, float, float]:
        tokens = min(chunk, 2 * int(context) - 1)
        before = max(1, int(context) - 1 - tokens // 2)
        return _step(scenario.with_(batch=int(sequences) * ranks, inputs=before, outputs=1 + tokens), catalog)

    def spared(full: tuple[float, float, float], alone: tuple[float, float, float]) -> float:
        return max(0.0, full[0] - full[1] - (alone[0] - alone[1]))

    prompts = [length for length in (prompt, prompt + 1) if length <= deepest]
    tokens = np.union1d(ladder(min(budget, longest * max_seqs)), prompts[:1]).astype(float)
    rows = np.array(ladder(max_seqs), float)
    contexts = np.union1d(ladder(deepest, min(16, deepest), 4), prompts).astype(float)
    steps = np.array([[decode(n, c) for c in contexts] for n in rows])  # (rows, contexts, 3)
    made = np.arange(prompt + 1, prompt + scenario.outputs)  # contexts of the scenario's own steps
    if made.size and made[-1] <= deepest:
        alone = _step(base, catalog)[0] * made.size
        steps *= alone / np.interp(made, contexts, steps[0, :, 0]).sum()
    head = np.ascontiguousarray(steps[:, 0, 2])
    decode_s = steps[:, 0, 0] - steps[:, 0, 1] - head  # of no context: what a longer one adds is attention's
    linear = [
        max(0.0, whole - attention - float(np.interp(prompts, rows, head)))
        for prompts, (whole, attention, _) in map(prefill, tokens)
    ]
    prompts_spared, rows_spared = np.zeros(tokens.size), np.zeros(rows.size)
    if apart > 1:
        alone = [spared(prefill(t)[1], prefill(t, 1)[1]) for t in tokens if t <= deepest]
        share = [s / whole for s, whole in zip(alone, linear) if whole > 0.0] or [0.0]
        prompts_spared = np.array([*alone, *(share[-1] * whole for whole in linear[len(alone) :])])
        at = min(prompt + 1, deepest)
        rows_spared = np.array([spared(decode(n, at), decode(n, at, 1)) for n in rows])
    return Times(
        np.zeros(len(GIVEN)),
        tokens,
        np.array(linear),
        rows,
        decode_s,
        head,
        contexts,
        np.array([prefill(context)[1][1] / context for context in contexts]),
        steps[:, :, 0] - (decode_s + head)[:, None],
        np.minimum(prompts_spared, linear),
        np.minimum(rows_spared, decode_s),
    )


def chunk_of(scenario: Scenario, catalog: Catalog) -> int:
    """Tokens of the largest chunk that a layer attends in; 1 where none does. [-]"""
    phases = bind(scenario, catalog).graph.phases
    return max((int(op.cap) for phase in phases for op in phase.ops if op.anew), default=1)
