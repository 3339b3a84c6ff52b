"""What a format in the core's order costs: a small GPT-2 on simulated cores beside float64."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.devices.dfx.machine import DfxMachine
from engine.devices.dfx.model import random_decoder

PROMPT = (1, 5, 9, 200)


@dataclass(frozen=True)
class Accuracy:
    """Tokens of both runs, and how far their logits lie apart in units of the reference's spread."""

    tokens: tuple[int, ...]
    reference: tuple[int, ...]
    deviation: float  # largest difference of the last logits [-]
    lead: float  # least lead of a token of the reference over the next likely one [-]

    @property
    def agreed(self) -> int:
        """Tokens until the first difference. [-]"""
        return next(
            (i for i, (a, b) in enumerate(zip(self.tokens, self.reference, strict=True)) if a != b), len(self.tokens)
        )


@lru_cache(maxsize=64)
def accuracy(
    record: tuple[float, ...], format: str = "fp16", tokens: int = 16, layers: int = 2, heads: int = 4, seed: int = 4
) -> Accuracy:
    """A drawn GPT-2 run on the cores of a format's `core.core_record` and in float64. A measurement, of it alone.

    Rounding may turn a token whose lead is smaller than the deviation; the default seed's leads are larger.
    """
    model = random_decoder(heads=heads, layers=layers, seed=seed)
    machine, exact = DfxMachine(model, record, format), DfxMachine(model, record, exact=True)
    output, wanted = machine.generate(list(PROMPT), tokens), exact.generate(list(PROMPT), tokens)
    ranked = np.sort(exact.history[len(PROMPT) - 1 :], axis=1)
    lead = float(((ranked[:, -1] - ranked[:, -2]) / ranked.std(axis=1)).min())
    exact.generate([*PROMPT, *output[:-1]], 1)  # the same tokens
    apart = float(np.abs(machine.logits.astype(np.float64) - exact.logits).max() / exact.logits.std())
    return Accuracy(tuple(output), tuple(wanted), apart, lead)
