"""A decoder that batches continuously, in its steady state: sequences join a batch between steps. Estimates."""

from dataclasses import dataclass, replace
from math import exp, log, sqrt

from engine.cost.assemble import Figures, figures_of
from engine.cost.best_plan import make_plan
from engine.resolve.bound import Bound

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


def continuous(bound: Bound, times: Figures) -> Continuous | None:
    """Times of the scenario's sequences under continuous batching; None where it makes no tokens one by one."""
    if times.figure("tpot_s") is None:
        return None
    batch = bound.scenario.batch
    return running(bound, batch, times, times if batch == 1 else first_alone(bound))


def running(bound: Bound, batch: int, times: Figures, alone: Figures) -> Continuous | None:
    """The same of a scenario at any ``batch`` with its figures, and those at batch 1.

    Every sequence that joins holds the others up by what its prefill adds to a pass that decodes too, whose weights are
    read once; each of the batch joins once in the time that one takes. Of a batch that starts together each prompt but
    the first adds as much to TTFT, so TPOT = step + (TTFT of the batch - TTFT alone) / steps. Attention ranks all wait
    for the one with most prompts in a pass. Where a family's requests follow one another (`in_turn`) all times are of
    one alone, behind the rest of the batch. An estimate: in 65 settings on six systems 2% above the calendar of
    passes in the median, at most 17% off; in 22 with attention ranks 0 to 13% above it, and up
    to 26% at hundreds of requests to mixtures whose decoding reads all experts anyway.
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
    if (ranks := s.attention_dp or 1) > 1 and batch > 1:
        apart = max(0.0, prefill - (alone.figure("tpot_s") or 0.0))
        hold = max(hold, apart * _largest((batch - 1) / after, ranks))
    tpot = step + hold
    latency = ttft + after * tpot
    return Continuous(ttft, tpot, latency, times.units_per_s * times.latency_s / latency)


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
