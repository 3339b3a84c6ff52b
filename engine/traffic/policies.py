"""How requests are queued and launched: stations, chains of stations and decoders, as data.

Counts and times as given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.traffic.service import DecoderService, Resource, Service, TrafficError, positive, whole
from engine.traffic.sizes import Mixed


@dataclass(frozen=True)
class NoBatching:
    """One request a launch, first come first served. ``places`` waiting places (None: unlimited)."""

    places: int | None = None

    def __post_init__(self) -> None:
        if self.places is not None:
            whole("places", self.places, 0)

    @property
    def max_batch(self) -> int:
        """Requests launched together. [-]"""
        return 1

    @property
    def timeout_s(self) -> float:
        """What a request waits for others. [s]"""
        return 0.0

    @property
    def edges(self) -> tuple[int, ...]:
        """Upper edges of its length buckets: none. [items]"""
        return ()


@dataclass(frozen=True)
class DynamicBatching:
    """A free server launches when ``max_batch`` wait or the oldest has waited ``timeout_s`` [s]."""

    max_batch: int
    timeout_s: float
    places: int | None = None

    def __post_init__(self) -> None:
        whole("max_batch", self.max_batch)
        positive("timeout_s", self.timeout_s, zero=True)
        if self.places is not None and self.places < self.max_batch:
            raise TrafficError(f"places is {self.places}; it must be at least max_batch, {self.max_batch}")

    @property
    def edges(self) -> tuple[int, ...]:
        """Upper edges of its length buckets: none. [items]"""
        return ()


@dataclass(frozen=True)
class BucketedBatching:
    """Dynamic batching with a queue per size bucket: (0, edges[0]], (edges[0], edges[1]], ..., above the last.

    A batch holds requests of one bucket only, hence pads little; all queues share the servers and ``places``.
    """

    edges: tuple[int, ...]
    max_batch: int
    timeout_s: float
    places: int | None = None

    def __post_init__(self) -> None:
        if not self.edges or any(b <= a for a, b in zip(self.edges, self.edges[1:])):
            raise TrafficError(f"edges is {self.edges}; it must hold increasing sizes")
        whole("max_batch", self.max_batch)
        positive("timeout_s", self.timeout_s, zero=True)
        if self.places is not None and self.places < self.max_batch:
            raise TrafficError(f"places is {self.places}; it must be at least max_batch, {self.max_batch}")


Policy = NoBatching | DynamicBatching | BucketedBatching
PLAIN = NoBatching()


@dataclass(frozen=True)
class ContinuousBatching:
    """Requests join a running batch of at most ``max_batch`` between iterations; 1 is a decoder without batching."""

    max_batch: int
    places: int | None = None

    def __post_init__(self) -> None:
        whole("max_batch", self.max_batch)
        if self.places is not None:
            whole("places", self.places, 0)


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
    """A token generator under continuous batching."""

    service: DecoderService
    policy: ContinuousBatching

    def __post_init__(self) -> None:
        if self.policy.max_batch > self.service.max_batch:
            raise TrafficError(
                f"max_batch is {self.policy.max_batch}; the service table ends at {self.service.max_batch}"
            )


def single(service: Service, policy: Policy = PLAIN) -> TandemQueue:
    """One queue, no network."""
    return TandemQueue((Station(service, policy),))


def sparse_dense(
    sparse: Service, dense: Service, sparse_policy: Policy, dense_policy: Policy, hop_s: float = 0.0
) -> TandemQueue:
    """A two-stage pipeline: embedding look-ups on their cards, then the dense part on its own, ``hop_s`` away. [s]"""
    return TandemQueue((Station(sparse, sparse_policy, name="sparse"), Station(dense, dense_policy, hop_s, "dense")))


def pool_behind_network(
    service: Service, policy: Policy, hop_s: float, link_s: float | None = None, nics: int = 1
) -> TandemQueue:
    """Accelerators shared by clients: ``hop_s`` each way, ``link_s`` of wire time a request on ``nics`` [s]."""
    pool = Station(service, policy, hop_s, "pool")
    if link_s is None:
        return TandemQueue((pool,), hop_s)
    wire = Service.constant(link_s, nics)
    wire = replace(wire, resources={"NIC": Resource(wire.hold_s, nics)})
    return TandemQueue((Station(wire, PLAIN, name="NIC", wire=True), pool), hop_s)


def on_path_nic(
    forward_s: float, inference_s: float, share: float, executors: int, places: int
) -> tuple[TandemQueue, Mixed]:
    """A NIC that forwards every packet and runs an inference on a ``share`` of them, on the same executors.

    A packet holds one of ``executors`` for ``forward_s``, or ``forward_s + inference_s`` [s]; packets wait in a
    buffer of ``places`` and are dropped when it is full. Returns the system and the sizes of its packets: 1 is
    forwarded only, 2 is also classified. TrafficError for a share outside [0, 1].
    """
    if not 0.0 <= share <= 1.0:
        raise TrafficError(f"share is {share!r}; it must lie in [0, 1]")
    forward = positive("forward_s", forward_s)
    table = np.array([[forward, forward + positive("inference_s", inference_s)]])
    service = Service(table, servers=executors, sizes=(1, 2), resources={"executors": Resource(table, executors)})
    return TandemQueue((Station(service, NoBatching(places), name="NIC"),)), Mixed((1, 2), (1.0 - share, share))
