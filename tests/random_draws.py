"""Designs drawn at random, which a search is held against."""

from collections.abc import Sequence

import numpy as np

_BATCH = 4096  # draws at a time


class RandomDraws:
    """Designs drawn evenly from the space; it learns nothing. It may lead a search in place of `Genetic`."""

    def __init__(self, radix: Sequence[int], objectives: int, seed: int) -> None:
        self._radix, self._draw = np.array(radix), np.random.default_rng(seed)

    def ask(self) -> np.ndarray:
        """Digits of designs to try next, (n, axes)."""
        return self._draw.integers(self._radix, size=(_BATCH, len(self._radix)))

    def tell(self, cost: np.ndarray, excess: np.ndarray) -> None:
        """Nothing is remembered."""
