"""Service times as data: what a queue needs to know of a system, and nothing else.

Estimates, or measurements where the table was measured.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.scenario import ScenarioError

WHOLE_MOST = 2**31  # of a count: places, copies, seeds; the event engine counts in 64 bits and adds a few of these


class TrafficError(ScenarioError):
    """A load, policy, service or plan that can't be simulated; the message names the field and what is allowed."""


def positive(name: str, value: float, *, zero: bool = False) -> float:
    """``value`` as a finite float above zero (or from zero on), else a `TrafficError`.

    In the unit of what is named, as [s] or [1/s].
    """
    if not 0 <= value < math.inf or (value == 0 and not zero):
        raise TrafficError(f"{name} is {value!r}; it must be a finite number {'of at least' if zero else 'above'} 0")
    return float(value)


def whole(name: str, value: int, low: int = 1, high: int = WHOLE_MOST) -> int:
    """``value`` as an integer from ``low`` to ``high``, else a `TrafficError`."""
    if not low <= value <= high or value != int(value):
        allowed = f"of at least {low}" if not value > high else f"from {low} to {high}"
        raise TrafficError(f"{name} is {str(value)[:40]}; it must be a whole number {allowed}")
    return int(value)


def overloaded(qps: float, capacity_qps: float, limit: str = "") -> str:
    """Why a load at or above capacity has no tail, in a sentence. Both in [1/s]."""
    named = f" ({limit})" if limit else ""
    where = "is above" if qps > capacity_qps else "is at"
    return (
        f"Offered load {qps:.4g} QPS {where} capacity {capacity_qps:.4g} QPS{named}: "
        "the queue grows without limit, so there is no p99."
    )


def _table(name: str, values: ArrayLike, *, zero: bool = False) -> NDArray[np.float64]:
    table = np.atleast_2d(np.array(values, dtype=np.float64))
    if table.ndim != 2 or table.size == 0 or not np.isfinite(table).all() or (table < 0).any():
        raise TrafficError(f"{name} must be a table (batch, size) of finite seconds")
    if not zero and (table <= 0).any():
        passes = (table <= 0).all(axis=0)
        if passes.all() or (table[:, ~passes] <= 0).any():
            raise TrafficError(f"{name} has an entry of 0 s; every launch takes time (0 throughout: a size passes by)")
    table.setflags(write=False)
    return table


@dataclass(frozen=True, eq=False)
class Resource:
    """Something a launch keeps busy: a link, a card, the host.

    Attributes
    ----------
    busy_s : (batches, rows)
        Seconds one launch keeps it busy. [s]
    copies : int
        How many of it the station has in all (a shared link: 1).
    """

    busy_s: NDArray[np.float64]
    copies: int = 1


@dataclass(frozen=True, eq=False)
class Service:
    """Service times of a station of identical servers, by batch and padded size.

    Attributes
    ----------
    hold_s : (batches, rows)
        Seconds a launch of b+1 requests padded to ``sizes[k]`` keeps its server from the next launch. A column of
        zeros: requests of that size pass the station by. [s]
    latency_s : (batches, rows)
        Seconds from launch to answer; more than ``hold_s`` where the server is a pipeline. Default ``hold_s``. [s]
    sizes : tuple of int
        The sizes (items, tokens, lookups) of the rows, increasing; a request is padded up to the next. [items]
    cv : float
        Coefficient of variation of a gamma-distributed factor of mean 1 on each launch: 0 constant, 1 exponential.
    resources : mapping
        What a launch keeps busy, by name; decides which limit is named. The simulation does not queue for it: give
        what requests wait for a station of its own.
    bound : str
        What a launch spends most of its time on: the limit's name when the servers themselves are full.
    """

    hold_s: NDArray[np.float64]
    latency_s: NDArray[np.float64] | None = None
    servers: int = 1
    sizes: tuple[int, ...] = (1,)
    cv: float = 0.0
    resources: Mapping[str, Resource] = field(default_factory=dict)
    bound: str = ""

    def __post_init__(self) -> None:
        hold = _table("hold_s", self.hold_s)
        latency = hold if self.latency_s is None else _table("latency_s", self.latency_s)
        if latency.shape != hold.shape:
            raise TrafficError(f"latency_s has shape {latency.shape}, hold_s {hold.shape}; they must be equal")
        if ((hold == 0) != (latency == 0)).any():
            raise TrafficError("latency_s and hold_s are not 0 for the same sizes; a size takes both or neither")
        sizes = tuple(int(s) for s in self.sizes)
        if len(sizes) != hold.shape[1] or any(b <= a for a, b in itertools.pairwise(sizes)):
            raise TrafficError(f"sizes is {sizes}; it must hold {hold.shape[1]} increasing numbers, one per column")
        whole("servers", self.servers)
        positive("cv", self.cv, zero=True)
        for name, resource in self.resources.items():
            if _table(f"resources[{name!r}]", resource.busy_s, zero=True).shape != hold.shape:
                raise TrafficError(f"resources[{name!r}] must have the shape of hold_s, {hold.shape}")
            whole(f"resources[{name!r}].copies", resource.copies)
        object.__setattr__(self, "hold_s", hold)
        object.__setattr__(self, "latency_s", latency)
        object.__setattr__(self, "sizes", sizes)

    @property
    def max_batch(self) -> int:
        """Largest batch the table holds. [-]"""
        return self.hold_s.shape[0]

    @classmethod
    def constant(cls, seconds: float, servers: int = 1, cv: float = 0.0) -> "Service":
        """One request at a time, always ``seconds`` on average. [s]"""
        return cls(np.array([[positive("seconds", seconds)]]), servers=servers, cv=cv)

    @classmethod
    def from_points(
        cls,
        batches: Sequence[int],
        hold_s: ArrayLike,
        latency_s: ArrayLike | None = None,
        *,
        servers: int = 1,
        sizes: Sequence[int] = (1,),
        resources: Mapping[str, tuple[ArrayLike, int]] | None = None,
    ) -> "Service":
        """A table evaluated at some batch sizes, linear between them (an estimate there, exact at the points).

        TrafficError unless batches rise from 1.

        Parameters
        ----------
        batches : increasing, from 1
        hold_s, latency_s : (len(batches), len(sizes)) [s]
        resources : name -> (busy seconds in the same shape [s], copies)
        """
        known = np.asarray(batches)
        if known.size == 0 or known[0] != 1 or (np.diff(known) <= 0).any():
            raise TrafficError(f"batches is {tuple(batches)}; it must increase and start at 1")
        batch_sizes = np.arange(1, known[-1] + 1)

        def fill(values: ArrayLike) -> NDArray[np.float64]:
            table = np.asarray(values, dtype=np.float64).reshape(len(known), len(sizes))
            return np.stack([np.interp(batch_sizes, known, column) for column in table.T], axis=1)

        return cls(
            fill(hold_s),
            None if latency_s is None else fill(latency_s),
            servers,
            tuple(sizes),
            resources={name: Resource(fill(busy), copies) for name, (busy, copies) in (resources or {}).items()},
        )
