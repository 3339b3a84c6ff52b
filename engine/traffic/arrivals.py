"""When requests arrive. Each process gives n increasing instants for (seed, replication) and can change its rate.

Draws are exact for their distribution.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from engine.kernels.events.rng import stream_key
from engine.kernels.events.streams import gamma_times, mmpp_times, poisson_times
from engine.scenario.token import brief
from engine.traffic.service import TrafficError, positive

_STREAM = 1  # arrivals draw from this stream; sizes and service times from others
_CV_LEAST, _CV_MOST = 1e-3, 1e2  # of gaps: below a clock, above the mean of a run is that of its few longest gaps
_RATE_MOST = 1e12  # of a day's relative rates
_BURST_LEAST = 1e-3  # mean gaps a burst lasts; in a shorter one hardly ever anything arrives, and switching never ends


def _drawn(kernel: Callable[..., None], n: int, seed: int, replication: int, *law: float) -> NDArray[np.float64]:
    out = np.empty(n)
    kernel(stream_key(seed, _STREAM, replication), *law, out)
    return out


@dataclass(frozen=True)
class _Process:
    qps: float

    def __post_init__(self) -> None:
        positive("qps", self.qps)

    def at(self, qps: float) -> Self:
        """The same process at another mean rate; bursts and periods keep their length. [1/s]"""
        return replace(self, qps=qps)


@dataclass(frozen=True)
class Poisson(_Process):
    """Independent exponential gaps: coefficient of variation 1. ``qps`` [1/s]."""

    cv: ClassVar[float] = 1.0

    def times(self, n: int, seed: int, replication: int) -> NDArray[np.float64]:
        """Arrival instants 0..n-1. [s]"""
        return _drawn(poisson_times, n, seed, replication, self.qps)


@dataclass(frozen=True)
class Deterministic(_Process):
    """Equal gaps. ``qps`` [1/s]."""

    cv: ClassVar[float] = 0.0

    def times(self, n: int, seed: int, replication: int) -> NDArray[np.float64]:
        """Arrival instants 0..n-1. [s]"""
        return np.arange(1, n + 1) / self.qps


@dataclass(frozen=True)
class Gamma(_Process):
    """Independent gamma gaps of the stated coefficient of variation: smooth below 1, clumped above. ``qps`` [1/s]."""

    cv: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _CV_LEAST <= self.cv <= _CV_MOST:
            raise TrafficError(f"cv is {self.cv!r}; a number from {_CV_LEAST:g} to {_CV_MOST:g} is allowed")

    def times(self, n: int, seed: int, replication: int) -> NDArray[np.float64]:
        """Arrival instants 0..n-1. [s]"""
        return _drawn(gamma_times, n, seed, replication, self.qps, self.cv**-2)


@dataclass(frozen=True)
class Bursty(_Process):
    """Two-state Markov-modulated Poisson process: calm, and bursts of ``peak`` times the mean rate.

    Attributes
    ----------
    qps : float
        Mean rate. [1/s]
    peak : float
        Rate inside a burst over the mean rate, above 1. [-]
    share : float
        Share of time spent in bursts; ``peak * share`` may not exceed 1. [-]
    burst_s : float
        Mean length of a burst. [s]
    """

    peak: float
    share: float
    burst_s: float

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("burst_s", self.burst_s)
        if self.burst_s * self.qps < _BURST_LEAST:
            minimum_s = _BURST_LEAST / self.qps
            raise TrafficError(f"burst_s is {self.burst_s!r}; at {self.qps:g} QPS at least {minimum_s:.3g} s is needed")
        if not 0.0 < self.share < 1.0:
            raise TrafficError(f"share is {self.share!r}; it must lie strictly between 0 and 1")
        if not 1.0 < self.peak <= 1.0 / self.share:
            raise TrafficError(f"peak is {self.peak!r}; it must lie above 1 and up to 1/share, {1 / self.share:g}")

    @property
    def period_s(self) -> float:
        """Mean time from the start of a burst to that of the next. [s]"""
        return self.burst_s / self.share

    @property
    def peak_qps(self) -> float:
        """Rate inside a burst. [1/s]"""
        return self.peak * self.qps

    @property
    def rates(self) -> tuple[float, float, float, float]:
        """Rate in bursts and between them, rate of leaving a burst and of entering one. [1/s]"""
        calm = self.qps * max(0.0, 1.0 - self.peak * self.share) / (1.0 - self.share)
        leave = 1.0 / self.burst_s
        return self.peak_qps, calm, leave, leave * self.share / (1.0 - self.share)

    @property
    def cv(self) -> float:
        """Coefficient of variation of the gaps (Heffes and Lucantoni, IEEE JSAC 4(6), 1986). [-]"""
        a, b, leave_a, leave_b = self.rates
        excess = 2.0 * leave_a * leave_b * (a - b) ** 2
        return math.sqrt(1.0 + excess / ((leave_a + leave_b) ** 2 * (a * b + a * leave_b + b * leave_a)))

    def times(self, n: int, seed: int, replication: int) -> NDArray[np.float64]:
        """Arrival instants 0..n-1. [s]"""
        return _drawn(mmpp_times, n, seed, replication, *self.rates)


@dataclass(frozen=True)
class Diurnal(_Process):
    """Poisson arrivals whose rate follows a repeating curve, linear between equally spaced ``shape`` values.

    Attributes
    ----------
    qps : float
        Rate averaged over a period. [1/s]
    shape : tuple of float
        Relative rates at equal steps of a period; scaled to a mean of 1. [-]
    period_s : float
        Length of a period. [s]
    """

    shape: tuple[float, ...]
    period_s: float = 86_400.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("period_s", self.period_s)
        if len(self.shape) < 2 or any(not 0 <= s <= _RATE_MOST for s in self.shape) or sum(self.shape) < 1 / _RATE_MOST:
            shown = brief(", ".join(map(str, self.shape)), 80)
            raise TrafficError(
                f"shape is {shown}; it needs two or more rates from 0 to {_RATE_MOST:g}, with a sum of at least "
                f"{1 / _RATE_MOST:g}"
            )

    @property
    def peak_qps(self) -> float:
        """Highest rate of the curve. [1/s]"""
        return self.qps * max(self.shape) * len(self.shape) / sum(self.shape)

    def times(self, n: int, seed: int, replication: int) -> NDArray[np.float64]:
        """Arrival instants 0..n-1, by inverting the integral of the rate. [s]"""
        unit = _drawn(poisson_times, n, seed, replication, 1.0)
        knots = len(self.shape)
        step = self.period_s / knots
        rate = np.array([*self.shape, self.shape[0]]) * (self.qps * knots / sum(self.shape))
        area = np.concatenate(([0.0], np.cumsum((rate[:-1] + rate[1:]) * (step / 2))))
        days, remainder = np.divmod(unit, area[-1])
        k = np.minimum(np.searchsorted(area, remainder, side="right") - 1, knots - 1)
        remainder -= area[k]
        slope = (rate[k + 1] - rate[k]) / step  # rate[k] t + slope t^2 / 2 = rest, solved without cancellation
        t = 2 * remainder / (rate[k] + np.sqrt(np.maximum(rate[k] ** 2 + 2 * slope * remainder, 0.0)))
        return np.maximum.accumulate(days * self.period_s + k * step + t)


@dataclass(frozen=True, eq=False)
class Trace:
    """Recorded arrival instants, replayed; another rate stretches time. Beyond its end it starts again.

    ``priority``: number of each request; None where the recording has none.
    """

    instants: NDArray[np.float64]
    qps: float
    priority: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, instants: Iterable[float] | NDArray[np.float64]) -> "Trace":
        """A trace at its own mean rate, from instants in increasing order. [s]

        TrafficError unless two or more instants rise.
        """
        times = np.asarray(instants, np.float64)
        if times.ndim != 1 or times.size < 2 or not np.isfinite(times).all() or (np.diff(times) < 0).any():
            raise TrafficError("instants must hold two or more finite times in increasing order")
        if times[-1] <= times[0]:
            raise TrafficError("instants are all the same; a trace needs a duration")
        return cls(times - times[0], (times.size - 1) / float(times[-1] - times[0]))

    def at(self, qps: float) -> "Trace":
        """The same trace with time stretched to another mean rate. [1/s]"""
        return replace(self, instants=self.instants * (self.qps / positive("qps", qps)), qps=qps)

    def times(self, n: int, seed: int, replication: int) -> NDArray[np.float64]:
        """Arrival instants 0..n-1; the seed has no say. [s]"""
        rounds, index = np.divmod(np.arange(n), self.instants.size)
        return self.instants[index] + rounds * (self.instants[-1] + 1.0 / self.qps)


Arrivals = Poisson | Deterministic | Gamma | Bursty | Diurnal | Trace
