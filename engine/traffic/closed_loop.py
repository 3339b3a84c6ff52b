"""A closed loop of clients in front of any system of stations: cards, FPGAs, CPUs, a NIC. Simulated."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.scenario.sentences import amount, counted
from engine.traffic.engines.calendar import MOST_REQUESTS, ClosedLoop, Figures, as_plain, figures
from engine.traffic.policies import TandemQueue
from engine.traffic.runs import SIZE_STREAM, run_stations
from engine.traffic.service import TrafficError, whole
from engine.traffic.sizes import Sizes


@dataclass(frozen=True)
class LoopReport:
    """Stations under a closed loop, from the first request to the last answer. Simulated.

    ``e2e``: request to answer of those that were answered, ``dropped`` of all turned away [-]; ``first_wave_e2e`` of
    each client's first, ``steady_e2e`` of all others [s]. ``use``: share of the time each resource is busy.
    ``identity_s``: clients / rate - think time, which mean ``e2e`` equals in steady state where nobody is turned away
    [s]. ``goodput_per_s``: answers a second within the limit asked for.
    """

    requests: int
    duration_s: float
    e2e: Figures
    first_wave_e2e: Figures | None
    steady_e2e: Figures | None
    requests_per_s: float
    goodput_per_s: float | None
    dropped: float
    use: dict[str, float]
    identity_s: float
    message: str

    def as_dict(self) -> dict[str, object]:
        """Plain numbers, text and None; times carry their unit in the key."""
        return as_plain(self)


def closed_loop(
    system: TandemQueue,
    load: ClosedLoop,
    sizes: Sizes,
    requests: int,
    *,
    limits: Mapping[str, float] | None = None,
    seed: int = 0,
) -> LoopReport:
    """Run ``requests`` of ``sizes`` [items] of ``load``'s clients through the stations. Same seed, same bits.

    ``limits``: ``e2e_s``, what goodput counts as in time [s]. TrafficError where all are turned away, and for a limit
    on tokens, which these requests have none of.
    """
    whole("requests", requests, 1, MOST_REQUESTS)
    whole("seed", seed, 0)
    limits = limits or {}
    for name in limits.keys() - {"e2e_s"}:
        raise TrafficError(f"{name} is {limits[name]:g}; these requests make no tokens: e2e_s is allowed")
    arrive, think = np.zeros(requests), np.zeros(requests)
    clients = load.begin(arrive, think, seed)
    items = sizes.draw(requests, seed, SIZE_STREAM, 0)
    raw = run_stations(system, arrive, items, seed=seed, clients=clients, think=think)
    answered = ~np.isnan(raw.finish)
    if not answered.any():
        raise TrafficError("every request was turned away: give the system places to wait")
    span = float(np.nanmax(raw.finish)) - float(arrive.min())
    first = np.arange(requests) < clients
    order = np.argsort(arrive, kind="stable")
    e2e, inside = (raw.finish - arrive)[order], answered[order]
    whole_e2e = figures(e2e[inside])
    assert whole_e2e is not None
    rate = int(answered.sum()) / span
    limit_s = limits.get("e2e_s", math.inf)
    return LoopReport(
        requests=requests,
        duration_s=span,
        e2e=whole_e2e,
        first_wave_e2e=figures((raw.finish - arrive)[first & answered]),
        steady_e2e=figures((raw.finish - arrive)[~first & answered]),
        requests_per_s=rate,
        goodput_per_s=int((e2e[inside] <= limit_s).sum()) / span if limits else None,
        dropped=1.0 - float(answered.mean()),
        use={name: seconds / span for name, seconds in raw.busy.items()},
        identity_s=clients / rate - load.think_s,
        message=f"{counted(requests, 'request')} in {amount(span, 's')}: {rate:.4g} requests/s",
    )
