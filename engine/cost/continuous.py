"""A decoder that batches continuously, in its steady state: sequences join a batch between steps. Estimates."""

from dataclasses import dataclass, replace

from engine.cost.assemble import Figures, figures_of
from engine.cost.best_plan import make_plan
from engine.resolve.bound import Bound


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


def continuous(bound: Bound, times: Figures, alone: Figures | None = None) -> Continuous | None:
    """Times of the scenario's sequences under continuous batching; None where it makes no tokens one by one.

    ``alone`` has the figures at batch 1, priced here where left out. Every sequence that joins holds the others up by
    what its prefill adds to a pass that decodes too, whose weights are read once; each of the batch joins once in the
    time that one takes. Of a batch that starts together each prompt but the first adds as much to TTFT, so
    TPOT = step + (TTFT of the batch - TTFT alone) / steps. Where a family's requests follow one another (`in_turn`) all
    times are those of one alone, behind the rest of the batch. An estimate: in 65 settings on six systems 2% above the
    calendar of passes in the median, at most 17% off.
    """
    s = bound.scenario
    after = bound.graph.units_per_request.at(s.inputs, s.outputs) - 1.0
    step = times.figure("tpot_s")
    if step is None or after <= 0.0:
        return None
    if alone is None:
        alone = times if s.batch == 1 else first_alone(bound)
    prefill, together = alone.figure("ttft_s") or 0.0, times.figure("ttft_s") or 0.0
    if bound.family.in_turn:
        step, queue = alone.figure("tpot_s") or 0.0, (s.batch - 1) * alone.latency_s
        return Continuous(queue + prefill, step, queue + prefill + after * step, alone.units_per_s)
    ttft = prefill + (step if s.batch > 1 else 0.0)
    tpot = step + max(0.0, together - prefill) / after
    latency = ttft + after * tpot
    return Continuous(ttft, tpot, latency, times.units_per_s * times.latency_s / latency)


def first_alone(bound: Bound) -> Figures:
    """Figures of the same scenario at batch 1. Estimates."""
    alone = replace(bound, scenario=bound.scenario.with_(batch=1))
    return figures_of(alone, make_plan(alone))
