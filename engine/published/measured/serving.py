"""Time per output token of an engine that batches continuously under a closed load, from its two kinds of passes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.devices.common.contract import Unsupported
from engine.resolve.bind import bind
from engine.scenario import Scenario
from engine.traffic.pass_times import seconds
from hardware_specs.catalog import Catalog


@dataclass(frozen=True)
class Engine:
    """How a serving engine forms its iterations.

    Attributes
    ----------
    budget : tokens an iteration takes. [-]
    prefill_first : whether prompts go before decoding, in iterations of their own, rather than beside it.
    waves : whether requests are of equal lengths, so that such an engine starts and ends them together.
    host_s, sequence_s : what the host takes an iteration, and for each sequence in it. [s]
    hides : whether it works on the next iteration while the device works on this one.
    ranks : devices that attend to a share of the requests each and share the experts; 1: all share all. [-]
    """

    budget: int
    prefill_first: bool = False
    waves: bool = False
    host_s: float = 0.0
    sequence_s: float = 0.0
    hides: bool = True
    ranks: int = 1

    def lasts(self, busy: float, sequences: int) -> float:
        """Time of an iteration that keeps the device busy so long. [s] An estimate."""
        host = self.host_s + self.sequence_s * sequences
        return max(busy, host) if self.hides else busy + host


def mixed_tpot(scenario: Scenario, concurrency: int, engine: Engine, catalog: Catalog) -> float:
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

    An engine that prefills first instead stops all decoding for a pass P(n) of n prompts, as many as the budget takes:
    TPOT = D + w b P(n) / n / (O - 1). Requests of unlike lengths come one by one and each waits for all others', w = 1;
    those of equal lengths come and go together, and of that one pass after another the first waits for all, the last
    for none: w = 1/2. Every iteration lasts what `Engine.lasts` says.

    Where ``engine.ranks`` attend to their own requests, all of this holds of a rank, b is its share of them and passes
    take what `engine.traffic.pass_times.seconds` says; the ranks' iterations keep step, and each carries a piece where
    the others do.

    Where g tokens are guessed ahead and a pass makes E of them in the mean, a request decodes in (O - 1) / E
    iterations, each of which checks b (1 + g) tokens and guesses the next ones.

    Assumes: all b sequences at their mean context, no cache of prefixes, room for every sequence's cache.
    """
    if scenario.outputs < 2:
        raise Unsupported("outputs is 1: a request of one token has no time between tokens")
    requests, alone, ranks = math.ceil(concurrency / engine.ranks), scenario.with_(batch=1), engine.ranks
    decode = seconds(scenario.with_(batch=requests), "decode", ranks, catalog)
    phases = {phase.name: phase for phase in bind(scenario, catalog).graph.phases}
    each, guessed = phases["decode"].repeat.o, 0.0
    if "guess" in phases:
        passes = phases["guess"].repeat.o / each
        guessed = passes * seconds(scenario.with_(batch=requests), "guess", ranks, catalog)[0]
    owed = requests / (scenario.outputs - 1) / each
    if engine.prefill_first:
        together = min(requests, max(1, engine.budget // scenario.inputs))
        prompts = seconds(scenario.with_(batch=together), "prefill", ranks, catalog)[0]
        waited = (0.5 if engine.waves else 1.0) * owed * prompts / together
        return each * (engine.lasts(decode[0] + guessed, concurrency) + waited)
    checked = round(requests * phases["decode"].length.at(scenario.inputs, scenario.outputs))
    room = max(1, engine.budget - checked)
    pieces = math.ceil(scenario.inputs / room)
    share = min(1.0, owed * pieces)
    piece = scenario.inputs / pieces if share < 1.0 else min(owed * scenario.inputs, float(room))
    prompt = seconds(alone, "prefill", ranks, catalog)
    tokens = max(1, round(piece + checked))
    pass_times = seconds(alone.with_(inputs=tokens), "prefill", ranks, catalog)
    mixed = (
        pass_times[0]
        - pass_times[1]
        - pass_times[2]
        + prompt[1] * piece / scenario.inputs
        + decode[1]
        + decode[2]
        + guessed
    )
    alone_s, mixed_s = (engine.lasts(busy, concurrency) for busy in (decode[0] + guessed, mixed))
    return each * ((1.0 - share) * alone_s + share * mixed_s)
