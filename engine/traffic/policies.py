"""How requests are queued and launched: stations, chains of stations and decoders, as data.

Counts and times as given.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from engine.kernels.events.passes import Times
from engine.traffic.engines.scheduler import Scheduler
from engine.traffic.service import Service, TrafficError, positive, whole


@dataclass(frozen=True)
class NoBatching:
    """One request a launch, first come first served. ``places`` waiting places (None: unlimited)."""

    places: int | None = None
    max_batch: ClassVar[int] = 1
    timeout_s: ClassVar[float] = 0.0
    edges: ClassVar[tuple[int, ...]] = ()

    def __post_init__(self) -> None:
        if self.places is not None:
            whole("places", self.places, 0)


@dataclass(frozen=True)
class DynamicBatching:
    """A free server launches when ``max_batch`` wait or the oldest has waited ``timeout_s`` [s].

    ``edges``: a queue per size bucket, (0, edges[0]], (edges[0], edges[1]], ..., above the last, so that a batch pads
    little; all queues share the servers and ``places``. None: one queue.
    """

    max_batch: int
    timeout_s: float
    places: int | None = None
    edges: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        whole("max_batch", self.max_batch)
        positive("timeout_s", self.timeout_s, zero=True)
        if any(b <= a for a, b in pairwise(self.edges)):
            raise TrafficError(f"edges is {self.edges}; it must hold increasing sizes")
        if self.places is not None and self.places < self.max_batch:
            raise TrafficError(f"places is {self.places}; it must be at least max_batch, {self.max_batch}")


Policy = NoBatching | DynamicBatching
PLAIN = NoBatching()


@dataclass(frozen=True, eq=False)
class Station:
    """Servers behind one queue, ``hop_s`` [s] away from what is before them."""

    service: Service
    policy: Policy = PLAIN
    hop_s: float = 0.0
    name: str = "server"
    wire: bool = False  # what requests travel through, not what works on them

    def __post_init__(self) -> None:
        positive("hop_s", self.hop_s, zero=True)
        if self.policy.max_batch > self.service.max_batch:
            raise TrafficError(
                f"max_batch is {self.policy.max_batch}; "
                f"the service table of {self.name} ends at {self.service.max_batch}"
            )


@dataclass(frozen=True, eq=False)
class TandemQueue:
    """Stations every request visits in order; the answer travels ``return_s`` [s] back.

    Requests below the size ``judged`` only pass: their times are reported apart from the others'.
    """

    stations: tuple[Station, ...]
    return_s: float = 0.0
    judged: int = 0  # [items]

    def __post_init__(self) -> None:
        positive("return_s", self.return_s, zero=True)
        if not self.stations:
            raise TrafficError("stations is empty; a chain has at least one")
        grids = {s.service.sizes for s in self.stations if len(s.service.sizes) > 1}
        if len(grids) > 1:
            raise TrafficError(f"stations have different sizes {sorted(grids)}; a chain shares one grid")
        names = [s.name for s in self.stations]
        if len(set(names)) < len(names):
            raise TrafficError(f"station names {names} are not distinct")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The grid of sizes the stations share. [items]"""
        return max((s.service.sizes for s in self.stations), key=len)


@dataclass(frozen=True, eq=False)
class DecoderServer:
    """A serving engine of a language model: the times of its passes, and how it forms them.

    Attributes
    ----------
    longest : int
        Tokens of the longest request that the times cover, in and out. [tokens]
    bound : str
        What its time mostly goes to: the limit's name when it is full.
    places : int or None
        Waiting places; who finds them taken while the engine works is turned away. None: no limit.
    """

    times: Times
    scheduler: Scheduler
    longest: int
    bound: str = ""
    places: int | None = None

    def __post_init__(self) -> None:
        whole("longest", self.longest)
        if self.places is not None:
            whole("places", self.places, 0)


def single(service: Service, policy: Policy = PLAIN) -> TandemQueue:
    """One queue, no network."""
    return TandemQueue((Station(service, policy),))
