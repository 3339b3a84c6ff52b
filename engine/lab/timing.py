"""Times with their spread, taken so that other work on the machine shows as spread and not as speed."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Clock = Callable[[], float]
Progress = Callable[[int, int], bool | None]
"""Called with (samples done, samples wanted); returning False cancels."""

_SHORT_S = 2e-4  # a sample shorter than this repeats the call: the clock itself costs about a microsecond


class MeasurementCancelled(Exception):
    """The caller asked to stop; nothing was measured."""


@dataclass(frozen=True)
class Spread:
    """Samples of one time. [s]"""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """Middle sample. [s]"""
        return float(np.median(self.samples))

    @property
    def quartiles(self) -> tuple[float, float]:
        """Samples that a quarter and three quarters lie under. [s]"""
        low, high = np.percentile(self.samples, (25, 75))
        return float(low), float(high)

    @property
    def best(self) -> float:
        """Shortest sample. [s]"""
        return min(self.samples)


def clock_for(threads: int) -> Clock:
    """CPU time of the calling thread for one thread, so that others on the machine do not count; else wall time."""
    return time.thread_time if threads == 1 else time.perf_counter


def sample(
    action: Callable[[], object],
    clock: Clock,
    repeats: int = 15,
    seconds: float = 1.0,
    progress: Progress | None = None,
) -> Spread:
    """Times of ``action`` after one warm-up call: ``repeats`` of them, or three or more once ``seconds`` are spent."""
    action()
    begin = clock()
    action()
    once = clock() - begin
    count = max(1, int(np.ceil(_SHORT_S / max(once, 1e-9)))) if once < _SHORT_S else 1
    limit = time.perf_counter() + seconds
    result: list[float] = []
    while len(result) < repeats and (len(result) < 3 or time.perf_counter() < limit):
        begin = clock()
        for _ in range(count):
            action()
        result.append((clock() - begin) / count)
        if progress is not None and progress(len(result), repeats) is False:
            raise MeasurementCancelled
    return Spread(tuple(result))
