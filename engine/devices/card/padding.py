"""Sentences on networks compiled for fixed lengths: how long a batch is after padding, on average. Closed form.

Lengths are log-normal with the request's mean. A batch is as long as its longest sentence, rounded up to a compiled
length; where sentences of one length class are batched, the batch is as long as that class. Estimates.
"""

import math
from collections.abc import Callable, Mapping
from statistics import NormalDist

COMPILED_LENGTHS = (32.0, 64.0, 128.0, 512.0)
"""Padded lengths that networks are compiled for; document 000, section VI-A. [tokens]"""


def padded_length(mean: float, spread: float, batch: float, lengths: tuple[float, ...], alike: bool) -> float:
    """Mean length that a batch is padded to. [tokens]

    Parameters
    ----------
    mean, spread : of the lengths: mean [tokens], sigma of their logarithm; 0: all alike.
    lengths : compiled ones, rising; longer sentences are cut to the last (or to `mean`, where that is longer).
    alike : batches are made of sentences with one compiled length.
    """
    last = max(lengths[-1], mean)
    if spread == 0:
        return next((n for n in lengths if n >= mean), last)
    centre = math.log(mean) - spread * spread / 2
    cdf = NormalDist(centre, spread).cdf
    result, before = 0.0, 0.0
    for n in (*lengths[:-1], last):
        below = 1.0 if n == last else cdf(math.log(n))
        share = below if alike else below**batch
        result += n * (share - before)
        before = share
    return result


def padding(switches: Mapping[str, bool]) -> Callable[[Mapping[str, float], float, float], float] | None:
    """Mean padded length as a function of model, mean length and batch; None where sentences are not padded.

    Lengths in [tokens].
    """
    if not switches["static-shapes"]:
        return None
    lengths = COMPILED_LENGTHS if switches["padding-buckets"] else COMPILED_LENGTHS[-1:]

    def length(model: Mapping[str, float], inputs: float, batch: float) -> float:
        return padded_length(inputs, model["length_spread"], batch, lengths, switches["like-lengths"])

    return length
