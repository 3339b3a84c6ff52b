"""Passes of a decoder: what takes a batch's prompts in, and what makes a token of each after it."""

import numpy as np

from engine.cost.columns import Alike
from engine.cost.layout import METRICS
from engine.plan.context import of_context
from model_zoo.ops import Op


def _of_request(op: Op) -> bool:
    """Whether an operator runs for what is written alone, whatever else the pass reads: the head and its norm."""
    return op.group == "lm-head" or op.name == "final-norm"


def passes_of(alike: Alike) -> np.ndarray:
    """Passes of scenarios that are alike, priced as columns of one design: (n, 2, 3) [s].

    Of each scenario the taking in of a batch's prompts up to the first token of each, and a pass of one of the tokens
    after it, the mean of them: all of it, its attention, its head, in their shares where these overlap and would be
    more than all of it. Where tokens are guessed ahead such a pass makes more than one, and guessing is of the head.
    NaN where the first token is the last. Estimates.
    """
    n, phases = len(alike.places), dict[str, np.ndarray]()  # seconds of all passes, attention, head; passes: (4, n)
    seconds_of = [alike.pass_seconds(at, (of_context, _of_request)) for at in range(len(alike.runs))]
    layout, rows = alike.figures.layout, alike.figures.rows
    for at, (_, phase) in enumerate(alike.runs):
        name, passes = alike.design.bound.graph.phases[phase].name, rows[layout.where.passes + at]
        seconds = seconds_of[at] * passes
        phases[name] = np.vstack([phases.get(name, np.zeros((4, n)))[:3] + seconds, passes])
    latency, first = (rows[layout.where.metrics + METRICS.index(name)] for name in ("latency_s", "ttft_s"))
    after = sum((seconds for name, seconds in phases.items() if "prefill" not in name), np.zeros((4, n)))
    guess, decode = (phases.get(name, np.zeros((4, n))) for name in ("guess", "decode"))
    after[2] += guess[0] - guess[1] - guess[2]
    step = np.array([latency - first, after[1], after[2]]) / decode[3]
    table = np.array([[first, *phases["prefill"][1:3]], step])
    parts = table[:, 1:].sum(axis=1)
    table[:, 1:] *= np.minimum(1.0, np.where(parts > 0.0, table[:, 0] / parts, 1.0))[:, None]
    return table.transpose(2, 0, 1)
