"""Designs whose plan has options: a program for each, and of each design the option that `make_plan` would take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.sweep.pricing.program import Program

_PACE = ("interval_s", "latency_s")  # what the best option that fits has least of, as `engine.plan.schemes` settles it


@dataclass(frozen=True)
class Choice:
    """Programs of the same designs, with options in the order they are tried; offers what a `Program` does."""

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
        return self._best(figures, lambda program, begin, wanted: program.fill(begin + lo, begin + hi, wanted))

    def fill_at(self, numbers: np.ndarray, figures: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same of designs here and there."""
        return self._best(figures, lambda program, begin, wanted: program.fill_at(numbers + begin, wanted))

    def _best(self, figures: Sequence[str], fill: Callable[[Program, int, Sequence[str]], Any]) -> tuple[Any, Any, Any]:
        """The first option that fits with the shortest interval, then the least latency; refused where any is."""
        names = tuple(dict.fromkeys((*_PACE, *figures)))
        (values, bad, unfit), *others = (
            fill(program, option * program.size, names)
            for program in self.programs
            for option in range(program.options)
        )
        for other, refused, misfit in others:
            less = (other[0] < values[0]) | ((other[0] == values[0]) & (other[1] < values[1]))
            less = np.where(misfit == unfit, less, unfit)
            np.copyto(values, other, where=less)
            np.copyto(unfit, misfit, where=less)
            np.logical_or(bad, refused, out=bad)
        return values[[names.index(figure) for figure in figures]], bad, unfit
