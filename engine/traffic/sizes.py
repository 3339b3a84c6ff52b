"""How large requests are: items, sentence lengths, tokens, look-ups. Draw i depends on (seed, replication, i) only.

Each distribution draws sizes, and says the exact share of its draws that is at most a given size.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.kernels.events.rng import fill_categorical, fill_lognormal, stream_key
from engine.scenario.token import brief
from engine.traffic.service import TrafficError, positive, whole

SIZE_MOST = 1_048_576  # items of a request, as of a scenario


@dataclass(frozen=True)
class Fixed:
    """Every request has the same size. [items]"""

    size: int = 1

    def __post_init__(self) -> None:
        whole("size", self.size, 1, SIZE_MOST)

    @property
    def largest(self) -> int:
        """No request is larger. [items]"""
        return self.size

    def share(self, at_most: int) -> float:
        """Share of requests no larger than ``at_most``. [-]"""
        return float(self.size <= at_most)

    def draw(self, n: int, seed: int, stream: int, replication: int) -> NDArray[np.int64]:
        """Sizes of requests 0..n-1. [items]"""
        return np.full(n, self.size, np.int64)


@dataclass(frozen=True)
class Mixed:
    """Size ``sizes[k]`` with probability ``weights[k]`` (normalised). [items]"""

    sizes: tuple[int, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        for size in self.sizes:
            whole("sizes", size, 1, SIZE_MOST)
        if len(self.sizes) != len(self.weights) or not self.sizes:
            raise TrafficError(f"weights has {len(self.weights)} entries; it needs one per size, {len(self.sizes)}")
        if min(self.weights) < 0 or not 0 < sum(self.weights) < math.inf:
            shown = brief(", ".join(map(str, self.weights)), 80)
            raise TrafficError(f"weights is {shown}; it must hold numbers of at least 0, not all 0")

    @property
    def largest(self) -> int:
        """No request is larger. [items]"""
        return max(s for s, w in zip(self.sizes, self.weights) if w > 0)

    def share(self, at_most: int) -> float:
        """Share of requests no larger than ``at_most``. [-]"""
        return math.fsum(w for s, w in zip(self.sizes, self.weights) if s <= at_most) / math.fsum(self.weights)

    def draw(self, n: int, seed: int, stream: int, replication: int) -> NDArray[np.int64]:
        """Sizes of requests 0..n-1. [items]"""
        out = np.empty(n, np.int64)
        weights = np.asarray(self.weights, np.float64)
        cumulative = np.cumsum(weights) / weights.sum()
        cumulative[np.flatnonzero(weights)[-1] :] = 1.0  # rounding must not leave a gap at the top
        fill_categorical(stream_key(seed, stream, replication), cumulative, np.asarray(self.sizes, np.int64), out)
        return out


@dataclass(frozen=True)
class Uniform:
    """Every whole size from ``low`` to ``high`` is as likely. [items]"""

    low: int
    high: int

    def __post_init__(self) -> None:
        whole("low", self.low, 1, SIZE_MOST)
        whole("high", self.high, self.low, SIZE_MOST)

    @property
    def largest(self) -> int:
        """No request is larger. [items]"""
        return self.high

    def share(self, at_most: int) -> float:
        """Share of requests no larger than ``at_most``. [-]"""
        return min(1.0, max(0, at_most - self.low + 1) / (self.high - self.low + 1))

    def draw(self, n: int, seed: int, stream: int, replication: int) -> NDArray[np.int64]:
        """Sizes of requests 0..n-1. [items]"""
        values = tuple(range(self.low, self.high + 1))
        return Mixed(values, (1.0,) * len(values)).draw(n, seed, stream, replication)


@dataclass(frozen=True)
class LogNormal:
    """Rounded log-normal of the given mean and coefficient of variation, clipped to [low, high]. [items]

    The moments are those before rounding and clipping.
    """

    mean: float
    cv: float
    high: int
    low: int = 1

    def __post_init__(self) -> None:
        positive("mean", self.mean)
        positive("cv", self.cv, zero=True)
        whole("low", self.low, 1, SIZE_MOST)
        whole("high", self.high, self.low, SIZE_MOST)
        if self.mean > self.high:
            raise TrafficError(f"mean is {self.mean:g}; it must be at most the largest size, {self.high}")

    @property
    def largest(self) -> int:
        """No request is larger. [items]"""
        return self.high

    def share(self, at_most: int) -> float:
        """Share of requests no larger than ``at_most``. [-]"""
        if at_most < self.low or at_most >= self.high or self.cv == 0.0:
            at = min(max(math.floor(self.mean + 0.5), self.low), self.high) if self.cv == 0.0 else self.low
            return float(at_most >= at)
        variance = math.log1p(self.cv**2)
        z = (math.log(at_most + 0.5) - math.log(self.mean) + variance / 2) / math.sqrt(variance)
        return 0.5 * math.erfc(-z / math.sqrt(2.0))

    def draw(self, n: int, seed: int, stream: int, replication: int) -> NDArray[np.int64]:
        """Sizes of requests 0..n-1. [items]"""
        out = np.empty(n, np.int64)
        variance = math.log1p(self.cv**2)
        key = stream_key(seed, stream, replication)
        fill_lognormal(
            key, math.log(self.mean) - variance / 2, math.sqrt(variance), float(self.low), float(self.high), out
        )
        return out


@dataclass(frozen=True, eq=False)
class Listed:
    """The sizes of a trace, in order and around again. [items]"""

    values: NDArray[np.int64]

    def __post_init__(self) -> None:
        values = np.asarray(self.values)
        if values.ndim != 1 or values.size == 0 or (values < 1).any() or (values != values.astype(np.int64)).any():
            raise TrafficError("values must hold whole sizes of at least 1")
        object.__setattr__(self, "values", values.astype(np.int64))

    @property
    def largest(self) -> int:
        """No request is larger. [items]"""
        return int(self.values.max())

    def share(self, at_most: int) -> float:
        """Share of requests no larger than ``at_most``. [-]"""
        return float(np.mean(self.values <= at_most))

    def draw(self, n: int, seed: int, stream: int, replication: int) -> NDArray[np.int64]:
        """Sizes of requests 0..n-1. [items]"""
        return np.resize(self.values, n)


Sizes = Fixed | Mixed | Uniform | LogNormal | Listed
