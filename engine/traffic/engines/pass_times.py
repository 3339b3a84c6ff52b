"""Times of a serving engine's passes: of a device, from the one cost model, or given by coefficients."""

import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.cost.columns import Sizes, in_columns
from engine.cost.passes import passes_of
from engine.devices.common.contract import Unsupported
from engine.kernels.events.passes import GIVEN, PARTS, Times
from engine.resolve.bind import bind
from engine.scenario import Scenario
from engine.traffic.engines.scheduler import POLICIES, Scheduler
from engine.traffic.policies import DecoderServer
from engine.traffic.scenario_load import (
    cache_blocks,
    checked,
    device_token_bytes,
    is_decoder,
    ladder,
    priced,
    usual_policy,
)
from engine.traffic.service import TrafficError
from entries.files import read_plain
from hardware_specs.catalog import Catalog, default_catalog

_FILE_MOST = 65_536  # bytes of a file of coefficients
SWAP_SPACE = float(4 << 30)  # bytes of the host's memory for each device: vLLM's --swap-space up to 0.9, recalled
_NONE = np.zeros(1)
_AXIS = np.ones(1)
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
    return Times(
        np.array([values[name] for name in GIVEN]), _AXIS, _NONE, _AXIS, _NONE, _NONE, _AXIS, _NONE, _NONE[None]
    )


def device_times(scenario: Scenario, budget: int, max_seqs: int, longest: int, catalog: Catalog | None = None) -> Times:
    """Of a decoder scenario's passes on its devices. Estimates, as good as the cost model.

    A pass that prefills p tokens beside n decoding sequences takes L(p + n) + attention of both + head: L is all of a
    prefill of so many tokens (of prompts no longer than the longest request) but its attention and head, for its
    weights are read once and its collectives carry both. A piece of a prompt takes what attention of the prompt grows
    by with it. A pass that only decodes takes the decode pass of n sequences; where tokens are guessed ahead it checks
    them, and the head's table has the guessing too. Tabled at powers of two of tokens and
    sequences and of four of the context, and at the scenario's own lengths, linear between them. What lies between two
    contexts (blocks that fill in jumps, chunks that layers attend in) is scaled to add up to `evaluate`'s latency for
    the scenario's own sequence alone, whose first token comes with `evaluate`'s TTFT. Where attention ranks have
    requests of their own, the tables are of one rank while all others do the same, and of what is spared where those
    are idle, which between the two is taken as linear in their tokens.

    Parameters
    ----------
    budget, max_seqs, longest
        Largest pass, sequences and request the tables must cover. [tokens], [-], [tokens]

    Unsupported for a network that makes no tokens one by one.
    """
    catalog = catalog or default_catalog()
    deepest = max(1, longest - 1)  # no pass finds more of a request in the cache
    apart = scenario.attention_dp or 1
    prompt, chunk = scenario.inputs, _chunk(scenario, catalog)

    def prefill(total: float, ranks: int = apart) -> Sizes:
        length = min(int(total), deepest)
        outputs = min(scenario.outputs, longest - length)  # a device may take no request beyond the longest
        return Sizes(max(1, round(total / length)) * ranks, length, outputs)

    def decode(sequences: float, context: float, ranks: int = apart) -> Sizes:
        made = min(chunk, 2 * int(context) - 1)
        return Sizes(int(sequences) * ranks, max(1, int(context) - 1 - made // 2), 1 + made)

    prompt_lengths = [length for length in (prompt, prompt + 1) if length <= deepest]
    tokens = np.union1d(ladder(min(budget, longest * max_seqs)), prompt_lengths[:1]).astype(float)
    rows = np.array(ladder(max_seqs), float)
    contexts = np.union1d(ladder(deepest, min(16, deepest), 4), prompt_lengths).astype(float)
    made = np.arange(prompt + 1, prompt + scenario.outputs)  # contexts of the scenario's own steps
    asked = [decode(n, c) for n in rows for c in contexts] + [prefill(t) for t in (*tokens, *contexts)]
    base, at = Sizes(apart, prompt, scenario.outputs), min(prompt + 1, deepest)
    if whole := made.size and made[-1] <= deepest:
        asked.append(base)
    if apart > 1:
        asked += [prefill(t, 1) for t in tokens if t <= deepest]
        asked += [decode(n, at, ranks) for n in rows for ranks in (1, apart)]
    sizes = list(dict.fromkeys(asked))
    passes = dict(zip(sizes, in_columns(scenario, sizes, passes_of, catalog), strict=True))
    steps = np.array([[passes[decode(n, c)][1] for c in contexts] for n in rows])  # (rows, contexts, 3)
    if whole:
        steps *= passes[base][1, 0] * made.size / np.interp(made, contexts, steps[0, :, 0]).sum()
    head = np.ascontiguousarray(steps[:, 0, 2])
    decode_s = steps[:, 0, 0] - steps[:, 0, 1] - head  # of no context: what a longer one adds is attention's

    def without_attention(part: int, asked: Iterable[Sizes]) -> np.ndarray:
        return np.array([passes[size][part, 0] - passes[size][part, 1] for size in asked])

    prompts = [prefill(t).batch / apart for t in tokens]
    linear = np.maximum(0.0, without_attention(0, map(prefill, tokens)) - np.interp(prompts, rows, head))
    prompts_spared, rows_spared = np.zeros(tokens.size), np.zeros(rows.size)
    if apart > 1:
        short = tokens[tokens <= deepest]
        alone = without_attention(0, [prefill(t, 1) for t in short])
        spared = (without_attention(0, map(prefill, short)) - alone).clip(0.0)
        share = [s / whole for s, whole in zip(spared, linear, strict=False) if whole > 0.0] or [0.0]
        prompts_spared = np.concatenate([spared, share[-1] * linear[short.size :]])
        full, single = ([decode(n, at, ranks) for n in rows] for ranks in (apart, 1))
        rows_spared = (without_attention(1, full) - without_attention(1, single)).clip(0.0)
    return Times(
        np.zeros(len(GIVEN)),
        tokens,
        linear,
        rows,
        decode_s,
        head,
        contexts,
        np.array([passes[prefill(context)][0, 1] / context for context in contexts]),
        steps[:, :, 0] - (decode_s + head)[:, None],
        np.minimum(prompts_spared, linear),
        np.minimum(rows_spared, decode_s),
    )


def _chunk(scenario: Scenario, catalog: Catalog) -> int:
    """Tokens of the largest chunk that a layer attends in; 1 where none does. [-]"""
    bound = bind(scenario, catalog)
    if not bound.graph.causal:
        raise Unsupported(f"{bound.workload.name} makes no tokens one by one: there is no concurrency to predict it at")
    return max((int(op.cap) for phase in bound.graph.phases for op in phase.ops if op.anew), default=1)


def acceptance_of(scenario: Scenario, catalog: Catalog | None = None) -> tuple[float, ...]:
    """Chance of each token that a scenario guesses ahead to be right where all before it are; none without guesses. [-]

    An estimate, as the network's file or the scenario has it: assumed alike at every place.
    """
    numbers = bind(scenario, catalog or default_catalog()).workload.params
    params: dict[str, Any] = {name: number.value for name, number in numbers.items()} | scenario.params
    return (float(params.get("acceptance", 0.0)),) * int(params.get("guesses", 0))


def engine_of(scenario: Scenario, scheduler: Scheduler, longest: int) -> tuple[Times, Scheduler]:
    """Pass times of a scenario, and its scheduler with its replicas and the blocks that fit beside the weights.

    Cards that each have the whole network are replicas. Devices that a request visits one after the other (pipeline
    stages) are as many, each as slow as the slowest of them would be alone; so are streams. Attention ranks step
    together. A block of the cache that is swapped crosses the host's link as each device's part of it takes at the
    usable rate, a lower bound. TrafficError where one request of the ``longest`` [tokens] does not fit, more blocks are
    given than do, or there is no link to swap over.
    """
    known = acceptance_of(scenario)
    guesses = len(scheduler.acceptance)
    if not guesses:
        scheduler = replace(scheduler, acceptance=known)
    elif guesses != len(known):
        chances = {"acceptance": scheduler.acceptance[0]} | scenario.params
        scenario = scenario.with_(params=chances | {"guesses": guesses})
    times = device_times(scenario, scheduler.budget, scheduler.max_seqs, longest)
    base = scenario.with_(batch=1, outputs=1)
    _, plan, lone = priced(base)
    slowed = max(1.0, plan.batches / plan.replicas * lone.interval_s / lone.latency_s)
    if slowed > 1.0:
        slower = {name: slowed * getattr(times, name) for name in PARTS}
        times = times._replace(**slower)
    checked(scenario.with_(batch=1))
    scheduler = replace(scheduler, replicas=plan.batches * scenario.streams, ranks=scenario.attention_dp or 1)
    if scheduler.preempt == "swap":
        scheduler = _swapping(base, scheduler, longest - 1)
    room = cache_blocks(base, scheduler, longest)
    if scheduler.kv_blocks is None:
        return times, replace(scheduler, kv_blocks=room)
    if room is not None and scheduler.kv_blocks > room:
        raise TrafficError(
            f"kv_blocks is {scheduler.kv_blocks} of {scheduler.block} tokens; the devices have room for {room}"
        )
    return times, scheduler


def _swapping(scenario: Scenario, scheduler: Scheduler, longest: int) -> Scheduler:
    """The scheduler with the host's link and memory, where they are not given."""
    bound, block_bytes = priced(scenario)[0], device_token_bytes(scenario, longest) * scheduler.block
    wire = bound.wire("host")
    seconds = scheduler.swap_s or (block_bytes / wire.link.usable if wire else 0.0)
    if seconds <= 0.0:
        raise TrafficError(f"preempt is 'swap'; {bound.system.name} has no link to a host's memory, so recompute")
    room = max(1, int(SWAP_SPACE / block_bytes)) if block_bytes > 0 else None
    return replace(scheduler, swap_s=seconds, swap_blocks=scheduler.swap_blocks or room)


def decoder_of(
    scenario: Scenario, max_batch: int = 1, longest: int | None = None, places: int | None = None
) -> DecoderServer:
    """The serving engine that a decoder scenario is: its usual one, of at most so many sequences at once. [-]

    ``longest``: of its requests; default the scenario's
    inputs plus outputs. [tokens] ``places``: to wait. TrafficError for a network that makes no tokens one by one, or
    one that does not fit.
    """
    if not is_decoder(scenario):
        raise TrafficError(f"workload is {scenario.workload!r}; it makes no tokens one by one")
    longest = longest or scenario.inputs + scenario.outputs
    bound = checked(scenario.with_(batch=1)).limited_by
    usual = POLICIES[usual_policy(scenario, max_batch)]
    times, scheduler = engine_of(scenario, replace(usual, max_seqs=max_batch), longest)
    return DecoderServer(times, scheduler, longest, bound, places)
