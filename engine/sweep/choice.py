"""Designs whose tile is open: a program for each tile, and of each design the tile that `make_plan` would take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.sweep.program import Program

__all__ = ["TileChoice"]

_PACE = ("interval_s", "latency_s")  # what the best tile has least of, as `engine.partition` settles it


@dataclass(frozen=True)
class TileChoice:
    """Programs of the same designs, one a tile in the order they are tried; offers what a `Program` does."""

    programs: tuple[Program, ...]

    @property
    def order(self) -> tuple[int, ...]:
        """Numeric axes of the space, slowest first."""
        return self.programs[0].order

    @property
    def radix(self) -> np.ndarray:
        """Values of each of them."""
        return self.programs[0].radix

    @property
    def size(self) -> int:
        """Designs."""
        return self.programs[0].size

    @property
    def sentences(self) -> tuple[str, ...]:
        """Why designs are refused."""
        return tuple(dict.fromkeys(text for program in self.programs for text in program.sentences))

    @property
    def chunk(self) -> int:
        """Designs that are priced in a fraction of a second. [-]"""
        return max(64, self.programs[0].chunk // len(self.programs))

    def fill(self, lo: int, hi: int, figures: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Figures (k, n) of designs lo..hi, whether the model refuses each, and whether each does not fit."""
        return self._best([p.fill(lo, hi, (*_PACE, *figures)) for p in self.programs])

    def fill_at(self, numbers: np.ndarray, figures: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same of designs here and there."""
        return self._best([p.fill_at(numbers, (*_PACE, *figures)) for p in self.programs])

    @staticmethod
    def _best(found: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The first tile with the shortest interval, then the least latency; refused where any tile is."""
        values, bad, unfit = found[0]
        for other, refused, misfit in found[1:]:
            less = (other[0] < values[0]) | ((other[0] == values[0]) & (other[1] < values[1]))
            values = np.where(less, other, values)
            unfit = np.where(less, misfit, unfit)
            bad = bad | refused
        return np.ascontiguousarray(values[len(_PACE) :]), bad, unfit
