"""What half precision in the core's order costs: a small GPT-2 on simulated cores beside float32."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.devices.dfx_isa.machine import Machine
from engine.devices.dfx_isa.model import generate, random_decoder, reference_logits

__all__ = ["Accuracy", "accuracy"]

PROMPT = (1, 5, 9, 200)


@dataclass(frozen=True)
class Accuracy:
    """Tokens of both runs, and how far the last logits lie apart in units of their own spread."""

    tokens: tuple[int, ...]
    reference: tuple[int, ...]
    deviation: float  # largest difference over the standard deviation of the reference [-]

    @property
    def agreed(self) -> int:
        """Tokens until the first difference. [-]"""
        return next(
            (i for i, (a, b) in enumerate(zip(self.tokens, self.reference, strict=True)) if a != b), len(self.tokens)
        )


@lru_cache(maxsize=64)
def accuracy(record: tuple[float, ...], tokens: int = 16, layers: int = 2, heads: int = 4, seed: int = 0) -> Accuracy:
    """A drawn GPT-2 run on the cores of `dfx.core_record` and in float32. A measurement, of this drawn network only."""
    model = random_decoder(heads=heads, layers=layers, seed=seed)
    machine = Machine(model, record)
    made = machine.generate(list(PROMPT), tokens)
    exact = reference_logits(model, [*PROMPT, *made[:-1]])[-1]
    apart = float(np.abs(machine.logits.astype(np.float64) - exact).max() / exact.std())
    return Accuracy(tuple(made), tuple(generate(model, list(PROMPT), tokens)), apart)
