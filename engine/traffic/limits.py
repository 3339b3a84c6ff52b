"""The load a system can carry at most, and what gives out there."""

import math
from dataclasses import dataclass, replace

import numpy as np

from engine.cost.rows import totals
from engine.traffic.policies import DecoderServer, Station, TandemQueue
from engine.traffic.runs import full_rate, saturated
from engine.traffic.service import TrafficError
from engine.traffic.sizes import Fixed, Sizes

_SATURATION_REQUESTS = 20_000
_SATURATION_LAUNCHES = 64  # full rounds of launches a saturated run must see
_NAMES_LIMIT = 0.90  # a resource this busy while its servers are saturated gets the blame
_UNIT = Fixed(1)


@dataclass(frozen=True)
class Capacity:
    """The load a system can carry at most.

    Attributes
    ----------
    qps : float
        Most that can be answered. [1/s]
    limit : str
        The resource that is busy all the time there.
    busy_s : dict
        Seconds one request keeps each resource busy, per copy. [s]
    breaks_qps, breaks : float, str
        Load from which an unlimited queue grows without limit (infinite where buffers turn requests away before one
        does), and what that queue waits for. [1/s]
    """

    qps: float
    limit: str
    busy_s: dict[str, float]
    breaks_qps: float
    breaks: str


def capacity(
    system: TandemQueue | DecoderServer, sizes: Sizes = _UNIT, outputs: Sizes = _UNIT, seed: int = 0
) -> Capacity:
    """Highest load with a steady state, and what limits it.

    Exact where all requests have one row in the service table, or are not batched; else the throughput of a saturated
    run (an estimate, good to the sampling error of its requests). Batches are full there, as the policy has them.
    """
    if isinstance(system, DecoderServer):
        rate, limit = full_rate(system, sizes, outputs, seed), system.bound or "server"
        return Capacity(rate, limit, {"server": 1.0 / rate}, rate if system.places is None else math.inf, limit)
    parts: list[tuple[str, float]] = []
    qps = breaks_qps = admitted = math.inf
    limit = breaks = ""
    for station in system.stations:
        rate, busy = _station(station, sizes, outputs, seed)
        name = _blame(busy, station.name, station.service.bound, rate)
        parts += busy.items()
        if rate < qps:
            qps, limit = rate, name
        if station.policy.places is not None:
            admitted = min(admitted, rate)  # the stations behind it see no more than this
        elif rate <= admitted and rate < breaks_qps:
            breaks_qps, breaks = rate, name
    total, servers = totals(parts), {station.name for station in system.stations}
    for resource, seconds in total.items():  # one that several servers or stations share may give out first
        if resource not in servers and seconds * qps > 1.0 + 1e-9:
            qps, limit = 1.0 / seconds, resource
            breaks_qps, breaks = min((breaks_qps, breaks), (qps, limit))
    return Capacity(qps, limit, total, breaks_qps, breaks)


def _station(station: Station, sizes: Sizes, outputs: Sizes, seed: int) -> tuple[float, dict[str, float]]:
    """Throughput of a saturated station alone [1/s], and busy seconds of each resource a request, per copy. [s]"""
    batch, service = station.policy.max_batch, station.service
    if len(service.sizes) > 1 and batch > 1:
        n = max(_SATURATION_REQUESTS, _SATURATION_LAUNCHES * service.servers * batch)
        return saturated(TandemQueue((replace(station, hop_s=0.0),)), sizes, outputs, n, seed)
    shares = np.ones(1)
    if len(service.sizes) > 1:
        below = np.array([0.0, *(sizes.share(size) for size in service.sizes)])
        shares = np.diff(below)
        if below[-1] < 1.0 - 1e-9:
            raise TrafficError(f"sizes go above the largest in the service table, {service.sizes[-1]}")
    hold = float(shares @ service.hold_s[batch - 1])
    rate = service.servers * batch / hold if hold > 0 else math.inf  # everybody passes by
    busy = {station.name: 1.0 / rate}
    for name, resource in service.resources.items():
        busy[name] = float(shares @ np.asarray(resource.busy_s)[batch - 1]) / batch / resource.copies
    return rate, busy


def _blame(busy: dict[str, float], server: str, bound: str, rate: float) -> str:
    """The fullest resource at ``rate`` if it is nearly full; else what the servers spend their time on."""
    named = {name: seconds * rate for name, seconds in busy.items() if name != server}
    worst = max(named, key=lambda name: named[name], default=server)
    return worst if named.get(worst, 0.0) >= _NAMES_LIMIT else bound or server
