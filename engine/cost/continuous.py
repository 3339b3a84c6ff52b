"""A decoder that batches continuously, in its steady state: sequences join a batch between steps. Estimates."""

from dataclasses import dataclass, replace
from math import exp, log, sqrt
from typing import NamedTuple

from engine.cost.assemble import Figures, figures_of
from engine.cost.best_plan import make_plan
from engine.cost.columns import Alike
from engine.cost.passes import passes_of
from engine.cost.pieces import Design
from engine.resolve.bound import Bound
from engine.scenario import Scenario

_GAUSSIAN = 500.0  # prompts of a pass to a rank


@dataclass(frozen=True)
class Continuous:
    """What a sequence meets that arrives where as many are under way as the scenario's batch holds, itself included.

    A report's own TTFT and TPOT are of a batch whose sequences all start together; at batch 1 both are the same.

    Attributes
    ----------
    ttft_s : its own prefill, behind the step that is under way, or behind all requests before it where they follow one
        another [s]
    tpot_s : a step of the batch, with its share of the prefills of those that join [s]
    latency_s : from its arrival to its last token, waits for a place left out [s]
    throughput_per_s : output tokens of all replicas and streams together [1/s]
    """

    ttft_s: float
    tpot_s: float
    latency_s: float
    throughput_per_s: float


class PassTimes(NamedTuple):
    """Of attention ranks: TTFT where each takes in one prompt and where each takes in two, and what attention takes of
    a step of the batch. [s]"""

    prompt_s: float
    pair_s: float
    attention_s: float


def rank_sizes(scenario: Scenario) -> tuple[int, ...]:
    """Batches that `PassTimes` are of beside a scenario's own; none without attention ranks. [-]"""
    ranks = scenario.attention_dp or 1
    return (ranks, 2 * ranks) if ranks > 1 else ()


def continuous(bound: Bound, times: Figures) -> Continuous | None:
    """Times of the scenario's sequences under continuous batching; None where it makes no tokens one by one."""
    if times.figure("tpot_s") is None:
        return None
    batch, ranks = bound.scenario.batch, None
    if batch > 1 and (sizes := rank_sizes(bound.scenario)):
        of = [replace(bound, scenario=bound.scenario.with_(batch=size)) for size in (*sizes, batch)]
        passes = [passes_of(Alike([0], Design(b, make_plan(b))))[0] for b in of]
        ranks = PassTimes(passes[0][0, 0], passes[1][0, 0], passes[2][1, 1])
    return running(bound, batch, times, times if batch == 1 else first_alone(bound), ranks)


def running(
    bound: Bound, batch: int, times: Figures, alone: Figures, ranks: PassTimes | None = None
) -> Continuous | None:
    """The same of a scenario at any ``batch`` with its figures, those at batch 1, and those of its attention ranks.

    Every sequence that joins holds the others up by what its prefill adds to a pass that decodes too, whose weights are
    read once; each of the batch joins once in the time that one takes. Of a batch that starts together each prompt but
    the first adds as much to TTFT, so TPOT = step + (TTFT of the batch - TTFT alone) / steps. Attention ranks all wait
    for the one with most prompts in a pass (`_waited`). Where a family's requests follow one another (`in_turn`) all
    times are of one alone, behind the rest of the batch. An estimate of the mean TPOT of the calendar of passes between
    its first wave and its last: in 16 settings without ranks -3 to +3%, in 47 of mixtures with ranks -5 to +7%, 1.2% in
    the mean.
    """
    s = bound.scenario
    after = bound.graph.units_per_request.at(s.inputs, s.outputs) - 1.0
    step = times.figure("tpot_s")
    if step is None or after <= 0.0:
        return None
    prefill, together = alone.figure("ttft_s") or 0.0, times.figure("ttft_s") or 0.0
    if bound.family.in_turn:
        step, queue = alone.figure("tpot_s") or 0.0, (batch - 1) * alone.latency_s
        return Continuous(queue + prefill, step, queue + prefill + after * step, alone.units_per_s)
    ttft = prefill + (step if batch > 1 else 0.0)
    hold = max(0.0, together - prefill) / after
    if ranks is not None:
        hold = max(hold, _waited(bound, batch, step, prefill, ranks))
    tpot = step + hold
    latency = ttft + after * tpot
    return Continuous(ttft, tpot, latency, times.units_per_s * times.latency_s / latency)


def _waited(bound: Bound, batch: int, step: float, prefill: float, times: PassTimes) -> float:
    """What prompts add to a ``step`` of a batch on attention ranks in the mean, ``prefill`` that of one alone. [s]

    A pass with prompts is one of a prompt alone, whose weights serve all, with the attention of the sequences that
    decode, and grows with every token. Tokens of one rank cost all ranks their part of the experts: (TTFT of a prompt
    on each - TTFT alone) / (ranks - 1); what else a second prompt on each adds is of the rank that has most. Prompts
    come neither evenly nor independently, as requests of a closed loop that finish together begin together again: the
    mean of both.
    """
    ranks, s = bound.scenario.attention_dp or 1, bound.scenario
    count = (batch - 1) / (bound.graph.units_per_request.at(s.inputs, s.outputs) - 1.0)
    experts, pair = (times.prompt_s - prefill) / (ranks - 1), times.pair_s - times.prompt_s
    apart = max(0.0, pair - ranks * experts)
    share = 0.5 * (min(1.0, count) + 1.0 - exp(-count))
    largest = 0.5 * (max(min(1.0, count), count / ranks) + _largest(count, ranks))
    rows = pair * batch / ranks / s.inputs
    first = prefill - experts - apart + rows + times.attention_s - step
    return share * first + count * experts + largest * apart


def _largest(count: float, ranks: int) -> float:
    """Expected number at the rank that has most, where so many come independently to ranks alike. [-]

    Where many come to each, by the bound of Gaussians.
    """
    mean = count / ranks
    if mean > _GAUSSIAN:
        return mean + sqrt(2.0 * mean * log(ranks))
    term = below = exp(-mean)
    largest, k = 0.0, 0
    while (left := 1.0 - below**ranks) > 1e-6:
        largest, k = largest + left, k + 1
        term *= mean / k
        below = min(1.0, below + term)
    return largest


def first_alone(bound: Bound) -> Figures:
    """Figures of the same scenario at batch 1. Estimates."""
    alone = replace(bound, scenario=bound.scenario.with_(batch=1))
    return figures_of(alone, make_plan(alone))
